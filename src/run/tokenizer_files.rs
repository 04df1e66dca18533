//! Writes the files of a trained tokenizer into its folder, and removes those of earlier ones.

use std::path::Path;
use std::{fs, io};

use serde_json::json;

use super::extend::{PARITY, STAGES, planned_stages};
use super::plan::{Plan, SMALLER_FOLDER, SmallerPlan, TrainPlan};
use super::training::{Trained, vocabulary};
use crate::base::atomic_file::{self, FileGroups};
use crate::base::int::{to_u64, with_unit};
use crate::error::{Error, Result};
use crate::observer::Observer;
use crate::report::{HTML_NAME, JSON_NAME};
use crate::vocab::{self, Format, TrainingRecord, Vocabulary, WriteOptions};
use crate::{FORMAT_VERSION, VERSION};

/// The key in a record's settings for the formats in the folder.
const FORMATS: &str = "formats";

/// Writes the tokenizer, the smaller ones of the same training, and their records, in each format that the plan
/// names. Tells the observer which other tokenizers are replaced.
///
/// # Errors
/// A format cannot hold one of the tokenizers, which is found before any existing file is changed; or a file cannot
/// be written.
pub(super) fn write_tokenizer(
    trained: &Trained,
    plan: &Plan,
    train: &TrainPlan,
    options: &WriteOptions,
    observer: &dyn Observer,
) -> Result<()> {
    let mut record = TrainingRecord {
        format_version: FORMAT_VERSION,
        tool_version: VERSION.to_owned(),
        vocabulary: trained.vocabulary.fingerprint(),
        settings: json!({
            "recipe_sha256": plan.recipe_hash,
            "split": train.split.to_string(),
            "boundary": train.boundary,
            "merges": train.config.merges,
            "min_frequency": train.config.min_frequency,
            "max_token_bytes": train.config.max_token_bytes,
            "max_words": train.config.max_words,
            "tie_break": train.config.tie_break,
            "score": train.config.score,
            "extends": train.extend,
            "special_tokens": train.specials,
            "special_tokens_at": train.specials_at,
        }),
        counts: trained.counts(),
        replaced: trained.replaced(),
        history: trained.learned.history.clone(),
    };
    if let Some(parity) = &train.parity {
        record.settings[PARITY] = parity.settings();
    }
    if let Some(base) = &trained.base {
        record.settings[STAGES] = json!(base.stages(train));
    } else if !train.stages.is_empty() {
        record.settings[STAGES] = json!(planned_stages(train, &trained.stage_starts));
    }
    let learned = trained.learned.merges.len();
    for smaller in train.smaller.iter().filter(|smaller| smaller.merges > learned) {
        let (path, tokens) = (smaller.output.display(), trained.vocabulary.tokens().count());
        observer.noted(&format!("{path} has the whole vocabulary, of {tokens} tokens: no more were learned"));
    }
    // Check that the formats can hold all sizes before any existing file is changed.
    each_size(trained, train, &record, |vocabulary, _, _| {
        train.formats.iter().try_for_each(|&format| vocab::render(vocabulary, format, options).map(drop))
    })?;
    let kept =
        |folder: &Path, _: &TrainingRecord| train.smaller.iter().any(|smaller| smaller.output == folder);
    remove_smaller(&train.output, kept, options, observer)?;
    each_size(trained, train, &record, |vocabulary, record, folder| {
        write_files(vocabulary, record, &train.formats, folder, options, observer)
    })
}

/// Passes each vocabulary of a training to `take`, with its record and folder, the smaller ones first. One is in
/// memory at a time.
///
/// # Errors
/// Those of `take`, or the first merges give no vocabulary.
fn each_size(
    trained: &Trained,
    train: &TrainPlan,
    record: &TrainingRecord,
    mut take: impl FnMut(&Vocabulary, TrainingRecord, &Path) -> Result<()>,
) -> Result<()> {
    for smaller in &train.smaller {
        let merges = trained.learned.merges.first(smaller.merges);
        let vocabulary = vocabulary(&merges, train, trained.base.as_ref())?;
        take(&vocabulary, first_part(record, &vocabulary, smaller), &smaller.output)?;
    }
    take(&trained.vocabulary, record.clone(), &train.output)
}

/// Removes the tokenizer that an earlier job trained in a folder, and its smaller ones, when the output is encoded
/// with another tokenizer. They are recognized by their records. The given tokenizer itself stays: it may be stored
/// there.
///
/// # Errors
/// A file or folder cannot be read or removed.
pub(super) fn remove_others(
    folder: &Path,
    given: &Vocabulary,
    options: &WriteOptions,
    observer: &dyn Observer,
) -> Result<()> {
    let given = given.fingerprint();
    let Ok(Some(record)) = TrainingRecord::read(folder) else { return Ok(()) };
    if record.vocabulary == given {
        return Ok(());
    }
    remove_smaller(folder, |_, record| record.vocabulary == given, options, observer)?;
    observer.noted(&format!("{} held the tokenizer of an earlier run, which is removed", folder.display()));
    remove_tokenizer(folder, &record, options)
}

/// Removes the smaller tokenizers that an earlier training left, except those for which `kept` returns true. They are
/// recognized by their records.
///
/// # Errors
/// The folder cannot be read, or a file cannot be removed. A folder that does not exist is no error.
fn remove_smaller(
    of: &Path,
    kept: impl Fn(&Path, &TrainingRecord) -> bool,
    options: &WriteOptions,
    observer: &dyn Observer,
) -> Result<()> {
    let cannot = |cause| Error::io("read", of, cause);
    let entries = match fs::read_dir(of) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(cannot)?,
    };
    for entry in entries {
        let entry = entry.map_err(cannot)?;
        let (name, folder) = (entry.file_name(), entry.path());
        let size = name.to_str().and_then(|name| name.strip_prefix(SMALLER_FOLDER));
        let is_smaller = size.is_some_and(|size| size.parse::<u64>().is_ok()) && !folder.is_symlink();
        if !is_smaller {
            continue;
        }
        let Ok(Some(record)) = TrainingRecord::read(&folder) else { continue };
        if kept(&folder, &record) {
            continue;
        }
        let path = folder.display();
        observer.noted(&format!("{path} held a smaller tokenizer of an earlier training, which is removed"));
        remove_tokenizer(&folder, &record, options)?;
    }
    Ok(())
}

/// Removes a tokenizer and its record, and their folder if it is empty then.
///
/// # Errors
/// A file cannot be removed. A folder with other files stays, without an error.
fn remove_tokenizer(folder: &Path, record: &TrainingRecord, options: &WriteOptions) -> Result<()> {
    formats_of(record).into_iter().try_for_each(|format| vocab::remove(format, folder, options))?;
    TrainingRecord::remove(folder)?;
    remove_unfinished(folder, options)?;
    match fs::remove_dir(folder) {
        Err(cause) if cause.kind() != io::ErrorKind::DirectoryNotEmpty => {
            Err(Error::io("remove", folder, cause))
        }
        _ => Ok(()),
    }
}

/// The files that [`write_tokenizer`] writes, as paths relative to the output folder.
///
/// Paths have `/` on every system. A folder outside of the output contributes none.
pub(super) fn tokenizer_files(train: &TrainPlan, output: &Path, options: &WriteOptions) -> Vec<String> {
    let folders = train.smaller.iter().map(|smaller| &smaller.output).chain([&train.output]);
    let files = folders.flat_map(|folder| {
        vocab::paths(&train.formats, folder, options).into_iter().chain([TrainingRecord::path(folder)])
    });
    let below = files.filter_map(|path| {
        let parts = path.strip_prefix(output).ok()?.components();
        let parts: Option<Vec<&str>> = parts.map(|part| part.as_os_str().to_str()).collect();
        Some(parts?.join("/"))
    });
    below.collect()
}

/// The formats that a record says its folder has.
///
/// A record without the list, or with an unknown format in it, gives no formats.
fn formats_of(record: &TrainingRecord) -> Vec<Format> {
    serde_json::from_value(record.settings[FORMATS].clone()).unwrap_or_default()
}

/// Writes a tokenizer and its record into a folder. Files of another tokenizer, as listed by its record, are removed.
///
/// All formats and the record are staged first and then renamed together, so that an interruption leaves few mixed
/// states. Other formats of the same tokenizer stay in the folder and in the record.
///
/// # Errors
/// A format cannot hold the tokenizer, or a file cannot be written or removed.
fn write_files(
    vocabulary: &Vocabulary,
    mut record: TrainingRecord,
    formats: &[Format],
    folder: &Path,
    options: &WriteOptions,
    observer: &dyn Observer,
) -> Result<()> {
    fs::create_dir_all(folder).map_err(|cause| Error::io("create", folder, cause))?;
    remove_unfinished(folder, options)?;
    let mut formats_in_folder = formats.to_vec();
    let mut group = FileGroups::default();
    for &format in formats {
        vocab::stage(vocabulary, format, folder, options, &mut group)?;
    }
    // An unreadable record has already been refused, unless a job has begun here. Then it is about to be replaced
    // anyway.
    if let Ok(Some(before)) = TrainingRecord::read(folder) {
        let others = formats_of(&before).into_iter().filter(|other| !formats.contains(other));
        if before.vocabulary == record.vocabulary {
            formats_in_folder.extend(others);
        } else {
            let (path, merges) = (folder.display(), before.counts.len());
            let merges = with_unit(to_u64(merges), "merge");
            observer.noted(&format!("{path} held another tokenizer, of {merges}, which is replaced"));
            others.into_iter().try_for_each(|other| vocab::remove(other, folder, options))?;
        }
    }
    // The record is written first: if the training ends before all files are written, the next one still knows which
    // files are its own.
    record.settings[FORMATS] = json!(formats_in_folder);
    group.add_before(&TrainingRecord::path(folder), &record.bytes())?;
    group.commit()?;
    if formats.contains(&Format::Hf)
        && let Some(other) = vocab::conflicting_chat_template(folder, options)?
    {
        observer.noted(&format!(
            "{}: transformers uses this chat template instead of the one that is written: remove it",
            other.display()
        ));
    }
    for &format in formats {
        vocab::compatibility_notes(vocabulary, format).iter().for_each(|caution| observer.noted(caution));
    }
    Ok(())
}

/// Removes temporary files that an interrupted training left. The folder is locked.
///
/// # Errors
/// The folder cannot be read, or a file cannot be removed.
fn remove_unfinished(folder: &Path, options: &WriteOptions) -> Result<()> {
    let cannot = |cause| Error::io("read", folder, cause);
    let mut own = vocab::paths(&Format::ALL, folder, options);
    own.extend([TrainingRecord::path(folder), folder.join(JSON_NAME), folder.join(HTML_NAME)]);
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let written = path.file_name().and_then(|name| atomic_file::unfinished(name.to_str()?));
        if written.is_some_and(|name| own.contains(&folder.join(name))) {
            atomic_file::remove(&path)?;
        }
    }
    Ok(())
}

/// The record of a smaller vocabulary of the same training, with only the counts and history of its merges.
///
/// Points of the history beyond its last merge are dropped.
fn first_part(record: &TrainingRecord, vocabulary: &Vocabulary, smaller: &SmallerPlan) -> TrainingRecord {
    let mut part = record.clone();
    part.vocabulary = vocabulary.fingerprint();
    part.settings["merges"] = json!(smaller.merges);
    part.counts.truncate(smaller.merges);
    part.replaced.truncate(smaller.merges);
    part.history.retain(|point| point.merges <= to_u64(smaller.merges));
    part
}
