//! `count`, `merge-counts`: how often each distinct pre-token occurs.

use std::path::{Path, PathBuf};

use serde_json::json;
use tokenmill::base::int::ByteCount;
use tokenmill::run::{count_only, merge_counts};
use tokenmill::sample::Weight;
use tokenmill::{Error, ErrorKind};

use super::args::{CountArgs, MergeCountsArgs};
use super::failure::Failure;
use super::flags;
use super::session::{Done, Session};
use super::shown::counted;
use super::surroundings::open_context;

/// Runs `count`: counts the distinct pre-tokens of the inputs into a counts file, and prints the totals.
pub(super) fn count(args: &CountArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let plan = session.plan(flags::count(args))?;
    let tally =
        count_only(&plan, Path::new(&args.output), args.order, &open_context(&plan, &session.progress()))?;
    let (pretokens, pretoken_bytes, text_bytes) =
        (tally.pretokens, tally.pretoken_bytes, tally.corpus.text_bytes);
    if session.json() {
        session.print_json(&json!({
            "output": args.output,
            "pretokens": pretokens,
            "pretoken_bytes": pretoken_bytes,
            "documents": tally.corpus.documents,
            "text_bytes": text_bytes,
            "spills": tally.spills,
            "skipped": tally.skipped,
        }))?;
    }
    let found = counted(pretokens, "distinct pre-token");
    session.say(&format!("{found} in {}; wrote {}", ByteCount(text_bytes), args.output));
    Ok(session.done(tally.skipped))
}

/// Runs `merge-counts`: sums counts files into one, each multiplied by its weight, and prints the totals.
///
/// # Errors
/// Weights are given, but not one for each file; or those of [`merge_counts`].
pub(super) fn merge(args: &MergeCountsArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let paths = args.files.iter().map(PathBuf::from);
    let files: Vec<(PathBuf, Weight)> = match args.weight.len() {
        0 => paths.map(|path| (path, Weight::ONE)).collect(),
        given if given == args.files.len() => paths.zip(args.weight.iter().copied()).collect(),
        given => {
            let fault = Weights(flags::weights_given(given, args.files.len(), "file"));
            return Err(Error::new(ErrorKind::Usage, fault)
                .with_help("give one for each file, in the same order, or none")
                .into());
        }
    };
    let sum = merge_counts(&files, Path::new(&args.output), session.memory(), &session.progress())?;
    if session.json() {
        session.print_json(&json!({
            "output": args.output,
            "pretokens": sum.pretokens,
            "pretoken_bytes": sum.pretoken_bytes,
            "ordered": sum.info.ordered,
        }))?;
    }
    let order = if sum.info.ordered { ", in order of first appearance" } else { "" };
    session.say(&format!("{}{order}; wrote {}", counted(sum.pretokens, "distinct pre-token"), args.output));
    Ok(Done::Whole)
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Weights(String);
