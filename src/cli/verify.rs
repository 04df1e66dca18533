//! `verify`: an output folder against its manifest; `verify-merges`: a list of merges against data.

use std::path::Path;

use serde_json::{Value, json};
use tokenmill::run::{Verified, heed_training, verify_list, verify_output};
use tokenmill::train::Deviation;
use tokenmill::units::{amount, place};
use tokenmill::vocab::{Vocabulary, load};
use tokenmill::{Error, ErrorKind};

use super::args::{VerifyArgs, VerifyMergesArgs};
use super::failure::Failure;
use super::flags;
use super::session::{Done, Session};
use super::shown::{counted, shortened};
use super::surroundings::open_context;

pub(super) fn verify(args: &VerifyArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let folder = Path::new(&args.dir);
    let verified = verify_output(folder, &session.progress())?;
    let Verified { manifest, formats } = verified.ok_or_else(|| {
        let error = Error::new(ErrorKind::Failed, NoManifest { folder: args.dir.clone() });
        error.with_help(
            "name the output folder of `run` or `encode`; without a manifest the output is not complete",
        )
    })?;
    let (files, rows, tokens) = (manifest.files.len(), manifest.rows(), manifest.tokens());
    let formats: Vec<&str> = formats.iter().map(|format| format.name()).collect();
    if session.json() {
        session.print_json(&json!({
            "files": files,
            "rows": rows,
            "tokens": tokens,
            "bytes": manifest.bytes(),
            "tokenizer": formats,
        }))?;
    }
    let data = (files > 0).then(|| {
        let files = counted(amount(files), "file");
        format!("{files} with {} and {}", counted(rows, "row"), counted(tokens, "token"))
    });
    let tokenizer = (!formats.is_empty()).then(|| format!("the tokenizer ({})", formats.join(", ")));
    let found: Vec<String> = data.into_iter().chain(tokenizer).collect();
    session.say(&format!("as the manifest says: {}", found.join(", and ")));
    Ok(Done::Whole)
}

pub(super) fn verify_merges(args: &VerifyMergesArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let path = &args.tokenizer.tokenizer;
    let vocabulary = load(Path::new(path), &args.tokenizer.options(), &session.progress())?;
    let mut recipe = flags::verify_merges(args);
    heed_training(&mut recipe, path, &vocabulary)?;
    let mut plan = session.plan(recipe)?;
    if let Some(train) = &mut plan.train {
        // Nothing is written there but, meanwhile, what does not fit the memory.
        train.output = std::env::temp_dir();
    }
    let found = verify_list(&plan, &vocabulary, &open_context(&session.progress()))?;
    let shown = |pair: (u32, u32)| shown_pair(&vocabulary, pair);
    if session.json() {
        let pair = |(pair, count): ((u32, u32), _)| json!({ "pair": shown(pair), "count": count });
        let deviation = found.deviation.map(|Deviation { merge, chosen, count, better }| {
            json!({ "merge": merge + 1, "chosen": pair((chosen, count)), "better": better.map(pair) })
        });
        session.print_json(&json!({
            "merges": found.merges,
            "verified": found.deviation.is_none(),
            "deviation": deviation.unwrap_or(Value::Null),
            "text_bytes": found.text_bytes,
            "skipped": found.skipped,
        }))?;
    }
    if let Some(Deviation { merge, chosen, count, better }) = found.deviation {
        let better = better.map_or_else(
            || "nothing was left to merge".to_owned(),
            |(pair, count)| format!("{} occurred {count} times", shown(pair)),
        );
        let fault = NotBest {
            merge: merge + 1,
            merges: found.merges,
            chosen: shown(chosen),
            count: count.get(),
            better,
        };
        return Err(Error::new(ErrorKind::Mismatch, fault)
            .with_help("the list was learned from other data, by other settings, or wrongly")
            .into());
    }
    session.say(&format!("all {} merges are the best pairs of their steps", found.merges));
    Ok(session.done(found.skipped))
}

/// The tokens of a pair, numbered as training does, as people read them.
fn shown_pair(vocabulary: &Vocabulary, (left, right): (u32, u32)) -> String {
    let id = |token: u32| match place(token).checked_sub(256) {
        None => vocabulary.byte_ids()[place(token)],
        Some(merge) => vocabulary.merges()[merge].result,
    };
    let token = |number| shortened(vocabulary.bytes(id(number)).unwrap_or_default());
    format!("'{}' + '{}'", token(left), token(right))
}

#[derive(Debug, thiserror::Error)]
#[error("merge {merge} of {merges} is not the best: {chosen} occurred {count} times, and {better}")]
struct NotBest {
    merge: usize,
    merges: usize,
    chosen: String,
    count: u64,
    better: String,
}

#[derive(Debug, thiserror::Error)]
#[error("{folder} has no manifest.json")]
struct NoManifest {
    folder: String,
}
