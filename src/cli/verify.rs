//! `verify`: an output folder against its manifest.

use std::path::Path;

use serde_json::json;
use tokenmill::sink::Manifest;
use tokenmill::{Error, ErrorKind};

use super::args::VerifyArgs;
use super::failure::Failure;
use super::session::{Done, Session};

pub(super) fn verify(args: &VerifyArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let folder = Path::new(&args.dir);
    let manifest = Manifest::read(folder)?.ok_or_else(|| {
        let error = Error::new(ErrorKind::Failed, NoManifest { folder: args.dir.clone() });
        error.with_help(
            "name the output folder of `run` or `encode`; without a manifest the output is not complete",
        )
    })?;
    manifest.verify(folder, &session.progress())?;
    let (files, rows, tokens) = (manifest.files.len(), manifest.rows(), manifest.tokens());
    if session.json() {
        session.print_json(
            &json!({ "files": files, "rows": rows, "tokens": tokens, "bytes": manifest.bytes() }),
        )?;
    }
    session.say(&format!("{files} files with {rows} rows and {tokens} tokens are as the manifest says"));
    Ok(Done::Whole)
}

#[derive(Debug, thiserror::Error)]
#[error("{folder} has no manifest.json")]
struct NoManifest {
    folder: String,
}
