//! `convert`: a tokenizer in another format.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use tokenmill::observer::Silent;
use tokenmill::vocab::{
    Format, LoadOptions, Vocabulary, WriteOptions, cautions, load, named_beside, render, write,
};
use tokenmill::{Error, ErrorKind, Observer};

use super::args::ConvertArgs;
use super::failure::Failure;
use super::session::{Done, Session};
use super::surroundings::tokenizer;

pub(super) fn convert(args: &ConvertArgs, session: &Session<'_>) -> Result<Done, Failure> {
    let progress = session.progress();
    let path = tokenizer(&args.tokenizer.tokenizer, &progress)?;
    let vocabulary = load(&path, &args.tokenizer.options(), &progress)?;
    let folder = Path::new(&args.output);
    let options = match args.to {
        Format::Hf => named_beside(&path, &vocabulary)?,
        // No other has a place for it.
        _ => WriteOptions::default(),
    };
    check_replaced(&vocabulary, args.to, folder, &options)?;
    fs::create_dir_all(folder).map_err(|cause| Error::io("create", folder, cause))?;
    let paths = write(&vocabulary, args.to, folder, &options)?;
    cautions(&vocabulary, args.to).iter().for_each(|caution| progress.noted(caution));
    if session.json() {
        session.print_json(&json!({ "files": paths, "fingerprint": vocabulary.fingerprint() }))?;
    }
    paths.iter().for_each(|path| session.say(&format!("wrote {}", path.display())));
    Ok(Done::Whole)
}

/// Finds another tokenizer of this format that would be replaced.
fn check_replaced(
    vocabulary: &Vocabulary,
    format: Format,
    folder: &Path,
    options: &WriteOptions,
) -> Result<(), Error> {
    let files = render(vocabulary, format, options)?;
    let is_other = |(name, bytes): &(String, Vec<u8>)| {
        let path = folder.join(name);
        path.exists() && fs::read(path).ok().as_ref() != Some(bytes)
    };
    let Some((name, _)) = files.iter().find(|file| is_other(file)) else { return Ok(()) };
    let options = LoadOptions { format: Some(format), ..LoadOptions::default() };
    match load(folder, &options, &Silent) {
        // It may have been written by another version of this program.
        Ok(found) if found.fingerprint() == vocabulary.fingerprint() => Ok(()),
        _ => {
            let fault = OtherTokenizer { path: folder.join(name) };
            Err(Error::new(ErrorKind::Usage, fault).with_help("choose another folder, or move it away"))
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{} would be replaced, which is of another tokenizer", path.display())]
struct OtherTokenizer {
    path: PathBuf,
}
