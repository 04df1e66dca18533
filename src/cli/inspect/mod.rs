//! `inspect`: what a tokenizer or an output folder holds, in one screen.

mod output;
mod tokenizer;

use std::path::Path;

use tokenmill::sink::Manifest;

use super::args::InspectArgs;
use super::failure::Failure;
use super::session::{Done, Session};

pub(super) fn inspect(args: &InspectArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let path = Path::new(&args.path);
    let manifest = if path.is_dir() { Manifest::read(path)? } else { None };
    match manifest {
        Some(manifest) => output::inspect(path, manifest, session),
        None => tokenizer::inspect(path, args, session),
    }
}
