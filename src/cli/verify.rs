//! `verify`: checks an output folder against its manifest; `verify-merges`: replays a list of merges on data.

use std::fmt;
use std::path::Path;

use serde_json::{Value, json};
use tokenmill::base::int::{to_u64, to_usize, u64_to_usize};
use tokenmill::run::{
    CheckedMerges, Verification, Verified, complete_from_training, verify_list, verify_output, with_threads,
};
use tokenmill::train::{Deviation, Score, TrainConfig};
use tokenmill::vocab::{Vocabulary, load};
use tokenmill::{Error, ErrorKind, TokenId};

use super::args::{VerifyArgs, VerifyMergesArgs};
use super::environment::{open_context, tokenizer};
use super::failure::Failure;
use super::flags;
use super::progress::Progress;
use super::session::{Done, Session};
use super::shown::{counted, shortened};

/// Runs `verify`: reads an output folder completely and compares it with its manifest.
///
/// # Errors
/// The folder has no manifest, or a file differs from it ([`ErrorKind::Mismatch`]).
pub(super) fn verify(args: &VerifyArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let folder = Path::new(&args.dir);
    let verify = |progress: &Progress| with_threads(session.threads(), || verify_output(folder, progress));
    let verified = session.or_told(verify(&session.progress()), "verified")?;
    let Verified { manifest, edited, formats } = verified.ok_or_else(|| {
        let error = Error::new(ErrorKind::Failed, NoManifest { folder: args.dir.clone() });
        error.with_help(
            "name the output folder of `run` or `encode`; without a manifest the output is not complete",
        )
    })?;
    let (files, rows, tokens) = (manifest.files.len(), manifest.rows(), manifest.tokens());
    let formats: Vec<&str> = formats.iter().map(|format| format.name()).collect();
    if session.json() {
        session.print_json(&json!({
            "verified": true,
            "files": files,
            "rows": rows,
            "tokens": tokens,
            "bytes": manifest.bytes(),
            "tokenizer": formats,
            "edited": edited,
        }))?;
    }
    for name in &edited {
        session.say(&format!("{name} was edited after it was written, which is allowed"));
    }
    let data = (files > 0).then(|| {
        let files = counted(to_u64(files), "file");
        format!("{files} with {} and {}", counted(rows, "row"), counted(tokens, "token"))
    });
    let tokenizer = (!formats.is_empty()).then(|| format!("the tokenizer ({})", formats.join(", ")));
    let found: Vec<String> = data.into_iter().chain(tokenizer).collect();
    session.say(&format!("matches the manifest: {}", found.join(", and ")));
    Ok(Done::Whole)
}

/// Runs `verify-merges`: applies the merges of a tokenizer to data one by one and checks that each was the best of
/// its step.
///
/// # Errors
/// A merge was not the best ([`ErrorKind::Mismatch`]); the error names the first one and the better pair.
pub(super) fn verify_merges(args: &VerifyMergesArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let progress = session.progress();
    let path = tokenizer(&args.tokenizer.tokenizer, &progress)?;
    let vocabulary = load(&path, &args.tokenizer.options(), &progress)?;
    drop(progress);
    let mut recipe = flags::verify_merges(args);
    let checked = match (args.rules.skip_merges, args.rules.stage) {
        (Some(given), _) => CheckedMerges::Behind(u64_to_usize(given)),
        (None, Some(stage)) => CheckedMerges::Stage(u64_to_usize(stage)),
        (None, None) => CheckedMerges::LastStage,
    };
    let checked =
        complete_from_training(&mut recipe, &args.tokenizer.tokenizer, &path, &vocabulary, checked)?;
    let mut plan = session.plan(recipe)?;
    if let Some(train) = &mut plan.train {
        // Nothing is written to this folder except temporary data that does not fit into memory.
        train.output = std::env::temp_dir();
    }
    let found = verify_list(&plan, &vocabulary, checked, &open_context(&plan, &session.progress()))?;
    let config = plan.train.as_ref().map(|train| &train.config);
    let fault = found.deviation.zip(config).map(|(deviation, config)| NotBest {
        merges: found.merges,
        chosen: shown_pair(&vocabulary, &found.ids, deviation.chosen),
        better: deviation
            .better
            .map(|(pair, count)| (shown_pair(&vocabulary, &found.ids, pair), count.get())),
        reason: Reason::of(&deviation, &vocabulary, &found.ids, config),
        deviation,
    });
    if session.json() {
        session.print_json(&json!({
            "merges": found.merges,
            "checked": { "first": found.checked.start + 1, "last": found.checked.end },
            "verified": fault.is_none(),
            "score": config.map(|config| config.score.to_string()),
            "deviation": fault.as_ref().map(NotBest::as_json),
            "text_bytes": found.text_bytes,
            "skipped": found.skipped,
        }))?;
    }
    if let Some(fault) = fault {
        return Err(Error::new(ErrorKind::Mismatch, fault)
            .with_help("the merges were learned from other data, with other settings, or wrongly")
            .into());
    }
    session.say(&verified(&found));
    Ok(session.done(found.skipped))
}

/// Returns the message that the merges which were checked are the best.
fn verified(found: &Verification) -> String {
    let Verification { merges, checked, .. } = found;
    let best = "the best pairs of their steps";
    let given = match checked.start {
        0 => String::new(),
        given => format!(
            "; {} before, learned in earlier stages, were applied unchecked",
            counted(to_u64(given), "merge")
        ),
    };
    match checked.len() {
        all if all == *merges => format!("all {} are {best}", counted(to_u64(all), "merge")),
        0 => format!("no merge was checked{given}"),
        _ => {
            let after = match merges - checked.end {
                0 => String::new(),
                after => format!("; {} of later stages were not checked", counted(to_u64(after), "merge")),
            };
            format!("merges {} to {} of {merges} are {best}{given}{after}", checked.start + 1, checked.end)
        }
    }
}

/// Formats a pair of tokens.
fn shown_pair(vocabulary: &Vocabulary, ids: &[TokenId], (left, right): (u32, u32)) -> String {
    let [left, right] =
        [left, right].map(|token| shortened(vocabulary.bytes(ids[to_usize(token)]).unwrap_or_default()));
    format!("'{left}' + '{right}'")
}

/// The rule that a merge breaks.
#[derive(Clone, Debug)]
enum Reason {
    /// The new token is longer than this number of bytes.
    TooLong(usize),
    /// The pair occurs less often than this.
    TooRare(u64),
    /// Another pair has a greater score.
    Score(Score),
}

impl Reason {
    /// Returns the first rule that the deviation breaks: length, frequency, or score.
    fn of(deviation: &Deviation, vocabulary: &Vocabulary, ids: &[TokenId], config: &TrainConfig) -> Reason {
        let length = |token: u32| vocabulary.bytes(ids[to_usize(token)]).map_or(0, <[u8]>::len);
        let bytes = length(deviation.chosen.0) + length(deviation.chosen.1);
        match config.max_token_bytes.filter(|most| bytes > *most) {
            Some(most) => Reason::TooLong(most),
            None if deviation.count < config.min_frequency => Reason::TooRare(config.min_frequency.get()),
            None => Reason::Score(config.score),
        }
    }

    /// Returns the name of the rule for `--json`.
    fn name(&self) -> &'static str {
        match self {
            Reason::TooLong(_) => "max_token_bytes",
            Reason::TooRare(_) => "min_frequency",
            Reason::Score(_) => "score",
        }
    }
}

/// The first merge of a list that was not the best.
#[derive(Debug)]
struct NotBest {
    /// The merge, and the pair that was better.
    deviation: Deviation,
    /// Number of merges in the list.
    merges: usize,
    /// The pair that the list merges, formatted.
    chosen: String,
    /// The best pair, formatted, with its count; `None` if no pair was left to merge.
    better: Option<(String, u64)>,
    reason: Reason,
}

impl NotBest {
    fn as_json(&self) -> Value {
        let Deviation { merge, count, .. } = self.deviation;
        json!({
            "merge": merge + 1,
            "reason": self.reason.name(),
            "chosen": { "pair": self.chosen, "count": count },
            "better": self.better.as_ref().map(|(pair, count)| json!({ "pair": pair, "count": count })),
        })
    }
}

impl fmt::Display for NotBest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotBest { deviation: Deviation { merge, count, .. }, merges, chosen, better, reason } = self;
        write!(f, "merge {} of {merges} ", merge + 1)?;
        match reason {
            Reason::TooLong(most) => {
                write!(f, "makes a token of more than {}", counted(to_u64(*most), "byte"))?
            }
            Reason::TooRare(least) => {
                write!(f, "merges a pair that occurs less often than {}", times(*least))?
            }
            Reason::Score(Score::Count) => f.write_str("is not the best")?,
            Reason::Score(score) => write!(f, "is not the best by {score}")?,
        }
        write!(f, ": {chosen} occurred {}", times(count.get()))?;
        match better {
            Some((pair, count)) => write!(f, "; the best was {pair}, which occurred {}", times(*count)),
            None => f.write_str("; nothing was left to merge"),
        }
    }
}

impl std::error::Error for NotBest {}

fn times(count: u64) -> String {
    counted(count, "time")
}

#[derive(Debug, thiserror::Error)]
#[error("{folder} has no manifest.json")]
struct NoManifest {
    folder: String,
}
