//! `verify`: an output folder against its manifest.

use std::path::Path;

use serde_json::json;
use tokenmill::sink::Manifest;
use tokenmill::units::amount;
use tokenmill::{Error, ErrorKind};

use super::args::VerifyArgs;
use super::failure::Failure;
use super::session::{Done, Session};
use super::shown::counted;

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
    session.say(&format!(
        "as the manifest says: {} with {} and {}",
        counted(amount(files), "file"),
        counted(rows, "row"),
        counted(tokens, "token"),
    ));
    Ok(Done::Whole)
}

#[derive(Debug, thiserror::Error)]
#[error("{folder} has no manifest.json")]
struct NoManifest {
    folder: String,
}
