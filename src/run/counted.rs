//! Trains from counts files instead of text, and sums counts files.

use std::path::{Path, PathBuf};

use super::fault::Fault;
use super::fixed::Fixed;
use super::plan::{Plan, TrainPlan};
use super::recipe::{Given, Mistake, Recipe};
use super::tally::check_output;
use super::train::{memory_of_sum, memory_of_tables};
use crate::base::atomic_file;
use crate::base::int::{ByteCount, to_u64};
use crate::count::{
    CorpusFacts, Counted, CountsFile, CountsInfo, PretokenCounts, Sum, WeightedFile, characters, check_same,
    read_counts_info, sum_counts, write_sum,
};
use crate::error::{Error, ErrorKind, Result};
use crate::observer::{Observer, Stage};
use crate::sample::{Weight, scale_weights};
use crate::split::SplitPattern;
use crate::train::TieBreak;

/// Sums counts files into one, which is written completely or not at all. The counts of each file are multiplied by
/// its weight: the smallest whole numbers in the ratio of the weights.
///
/// **Memory:** nothing is held if all files are in byte order of their pre-tokens. Otherwise the sum, and a file that
/// is added to it, are held within `memory`.
///
/// # Errors
/// - A file cannot be read, or was counted with other settings than the first.
/// - A count exceeds 2⁶⁴ − 1.
/// - Memory does not suffice.
/// - The sum cannot be written, or `out` is one of the files, or exists and is not a counts file.
pub fn merge_counts(
    files: &[(PathBuf, Weight)],
    out: &Path,
    memory: ByteCount,
    observer: &dyn Observer,
) -> Result<Sum> {
    check_output(out)?;
    check_not_among(files.iter().map(|(path, _)| path.as_path()), out)?;
    let (paths, weights): (Vec<PathBuf>, Vec<Weight>) = files.iter().cloned().unzip();
    let files = weighted(&paths, &scale_weights(&weights));
    // Half for the sum, half for the file that is added to it.
    let limit = ByteCount(memory.0 / 2);
    atomic_file::publish(out, |file| write_sum(&files, file, out, limit, observer))
}

/// Checks that the sum would not replace one of its own inputs: the next run would give another sum.
fn check_not_among<'a>(mut files: impl Iterator<Item = &'a Path>, out: &Path) -> Result<()> {
    let Ok(place) = out.canonicalize() else { return Ok(()) };
    match files.find(|path| path.canonicalize().is_ok_and(|path| path == place)) {
        Some(path) => {
            let fault = Fault::SumAmongCounts { path: path.to_path_buf() };
            Err(Error::new(ErrorKind::Usage, fault).with_help("name another file for the sum"))
        }
        None => Ok(()),
    }
}

/// Completes a recipe that trains from counts files with the settings recorded in them: pattern, boundary and special
/// tokens. If the recipe contradicts them, mistakes are added to it.
///
/// # Errors
/// A file cannot be read, or was counted with other settings than the first.
pub fn heed_counts(recipe: &mut Recipe) -> Result<()> {
    let paths: Vec<PathBuf> = recipe.counts.iter().map(|file| PathBuf::from(&file.path)).collect();
    let infos = paths.iter().map(|path| read_counts_info(path)).collect::<Result<Vec<_>>>()?;
    check_all_same(&paths, &infos)?;
    let (Some(first), Some(info)) = (paths.first(), infos.first()) else { return Ok(()) };
    let fixed = Fixed {
        by: &first.display().to_string(),
        split: &info.pattern,
        boundary: Some(info.boundary),
        specials: &info.special_tokens,
        specials_at: None,
    };
    fixed.heed(recipe);
    let tie_break = recipe.train.as_ref().and_then(|keys| keys.tie_break.as_ref());
    if let (Some(Given { value: TieBreak::First, span }), Some(unordered)) =
        (tie_break, infos.iter().position(|info| !info.ordered))
    {
        let name = recipe.origin.name("tie_break");
        let unordered = paths[unordered].display();
        let problem =
            format!("{name} first needs the order of the pre-tokens, which {unordered} does not have");
        recipe.mistakes.push(Mistake {
            help: Some("count with --order".to_owned()),
            ..Mistake::new(Some("tie_break"), span.clone(), problem)
        });
    }
    Ok(())
}

/// Checks that all files were counted with the settings of the first.
fn check_all_same(paths: &[PathBuf], infos: &[CountsInfo]) -> Result<()> {
    paths.iter().zip(infos).try_for_each(|(path, info)| check_same(&infos[0], &paths[0], info, path))
}

fn weighted(paths: &[PathBuf], weights: &[u64]) -> Vec<WeightedFile> {
    let file = |(path, &weight): (&PathBuf, &u64)| WeightedFile { path: path.clone(), weight };
    paths.iter().zip(weights).map(file).collect()
}

/// Reads the counts that a plan trains from, with the facts about their text that can be derived from them.
///
/// # Errors
/// A file cannot be read, does not match the plan, or does not fit the memory.
pub(super) fn read(plan: &Plan, train: &TrainPlan, observer: &dyn Observer) -> Result<Counted> {
    observer.started(Stage::Count, None);
    let limit = match plan.counts[..] {
        [_] => memory_of_tables(plan.memory, plan.threads),
        _ => memory_of_sum(plan),
    };
    let CountsFile { pretokens, info } = sum_counts(&weighted(&plan.counts, &plan.weights), limit, observer)?;
    observer.advanced(Stage::Count, to_u64(pretokens.bytes()));
    observer.finished(Stage::Count);
    let ordered = info.ordered || train.config.tie_break != TieBreak::First;
    if !ordered || info.pattern != train.split || train.split == SplitPattern::None {
        let fault = Fault::OtherCounts { path: plan.counts[0].clone() };
        return Err(Error::new(ErrorKind::Usage, fault).with_help("plan the training again"));
    }
    let facts = facts(&pretokens);
    Ok(Counted { pretokens, facts })
}

/// Facts about the text that can be derived from counts. Nothing is known of its documents. Unlike facts from text,
/// these include the weights.
fn facts(pretokens: &PretokenCounts) -> CorpusFacts {
    let mut facts = CorpusFacts::default();
    let mut seen = [false; 256];
    for (pretoken, count) in pretokens.iter() {
        // Text of more than 2⁶⁴ − 1 bytes is an error later, where the counts are used.
        let times = |amount: u64| amount.saturating_mul(count.get());
        facts.text_bytes = facts.text_bytes.saturating_add(times(to_u64(pretoken.len())));
        facts.characters = facts.characters.saturating_add(times(characters(pretoken)));
        pretoken.iter().for_each(|byte| seen[usize::from(*byte)] = true);
    }
    facts.distinct_bytes = to_u64(seen.iter().filter(|seen| **seen).count());
    facts
}
