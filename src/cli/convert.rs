//! `convert`: a tokenizer in another format.

use std::fs;
use std::path::Path;

use serde_json::json;
use tokenmill::vocab::{WriteOptions, caution, load, write};
use tokenmill::{Error, Observer};

use super::args::ConvertArgs;
use super::failure::Failure;
use super::session::{Done, Session};

pub(super) fn convert(args: &ConvertArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let progress = session.progress();
    let vocabulary = load(Path::new(&args.tokenizer.tokenizer), &args.tokenizer.options(), &progress)?;
    let folder = Path::new(&args.output);
    fs::create_dir_all(folder).map_err(|cause| Error::io("create", folder, cause))?;
    let paths = write(&vocabulary, args.to, folder, &WriteOptions::default())?;
    if let Some(caution) = caution(&vocabulary, args.to) {
        progress.noted(&caution);
    }
    if session.json() {
        session.print_json(&json!({ "files": paths, "fingerprint": vocabulary.fingerprint() }))?;
    }
    paths.iter().for_each(|path| session.say(&format!("wrote {}", path.display())));
    Ok(Done::Whole)
}
