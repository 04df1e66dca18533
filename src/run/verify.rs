//! Verifies an output folder against its manifest.

use std::path::Path;

use super::fault::Fault;
use crate::error::{Error, ErrorKind, Result};
use crate::observer::{Observer, Silent};
use crate::report;
use crate::sink::{CARD_FILE, Manifest, TOKENIZER_FOLDER};
use crate::vocab::{self, Format, LoadOptions};

/// The verified contents of an output folder.
#[derive(Clone, Debug)]
pub struct Verified {
    /// The manifest of the folder.
    pub manifest: Manifest,
    /// Names of files that differ from those that were written, and may: the dataset card, which people edit.
    pub edited: Vec<String>,
    /// The formats in which the folder holds its tokenizer. Empty if the tokenizer was given to the run, and is
    /// stored elsewhere.
    pub formats: Vec<Format>,
}

/// Compares an output folder with its manifest: [the files that it lists](Manifest::verify), the tokenizer in each of
/// its formats, and the checksums of the manifest and the reports. Returns `None` if the folder has no manifest.
///
/// ```
/// use tokenmill::observer::Silent;
/// use tokenmill::run::verify_output;
///
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let folder = folder.path();
/// match verify_output(folder, &Silent)? {
///     Some(verified) => println!("{} rows are as they were written", verified.manifest.rows()),
///     None => println!("not complete"),
/// }
/// # Ok::<(), tokenmill::Error>(())
/// ```
///
/// # Errors
/// - Something is missing, differs, or is not listed ([`ErrorKind::Mismatch`]).
/// - A file cannot be read.
/// - The observer asks to stop.
pub fn verify_output(folder: &Path, observer: &dyn Observer) -> Result<Option<Verified>> {
    let Some(manifest) = Manifest::read_checked(folder)? else { return Ok(None) };
    manifest.verify(folder, observer)?;
    manifest.reports.iter().try_for_each(|name| report::check(&folder.join(name)))?;
    let is_edited = manifest.card_is_edited(folder, observer)?;
    let edited = is_edited.then(|| CARD_FILE.to_owned()).into_iter().collect();
    let folder = folder.join(TOKENIZER_FOLDER);
    let formats = if folder.is_dir() { vocab::formats_in(&folder)? } else { Vec::new() };
    let mismatch = |fault| Err(Error::new(ErrorKind::Mismatch, fault));
    if manifest.files.is_empty() && formats.is_empty() {
        return mismatch(Fault::Missing { path: folder });
    }
    for &format in &formats {
        let options = LoadOptions { format: Some(format), ..LoadOptions::default() };
        let vocabulary = vocab::load(&folder, &options, &Silent).map_err(not_as_it_was)?;
        if vocabulary.fingerprint() != manifest.tokenizer {
            return mismatch(Fault::NotOfManifest { folder, format });
        }
    }
    Ok(Some(Verified { manifest, edited, formats }))
}

/// Treats a tokenizer that cannot be loaded as a mismatch: no run wrote it like that.
fn not_as_it_was(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Failed | ErrorKind::Usage => Error::new(ErrorKind::Mismatch, error),
        _ => error,
    }
}
