//! `inspect`: shows what a tokenizer, an output folder or a counts file holds, on one screen.

mod counts;
mod output;
mod tokenizer;

use std::path::Path;

use tokenmill::sink::{Manifest, STATE_FOLDER};
use tokenmill::vocab::formats_in;
use tokenmill::{Error, ErrorKind};

use super::args::InspectArgs;
use super::failure::Failure;
use super::session::{Done, Session};
use super::surroundings::tokenizer as tokenizer_at;

/// Runs `inspect`. A folder with a manifest is an output, a Parquet file is a counts file, and anything else must be
/// a tokenizer.
pub(super) fn inspect(args: &InspectArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let path = Path::new(&args.path);
    let manifest = if path.is_dir() { Manifest::read(path)? } else { None };
    match manifest {
        Some(manifest) => output::inspect(path, manifest, session),
        None if path.join(STATE_FOLDER).is_dir() && formats_in(path)?.is_empty() => {
            let fault = Unfinished { folder: args.path.clone() };
            Err(Error::new(ErrorKind::Failed, fault)
                .with_help(
                    "give the same `run` or `encode` command again: it continues from what is finished",
                )
                .into())
        }
        None if path.extension().is_some_and(|extension| extension == "parquet") => {
            counts::inspect(path, session)
        }
        None => {
            let progress = session.progress();
            let path = tokenizer_at(path, &progress)?;
            tokenizer::inspect(&path, args, session, &progress)
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the output in {folder} is not complete: it has no manifest.json yet")]
struct Unfinished {
    folder: String,
}
