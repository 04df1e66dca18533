//! Reads and writes tokenizers in any supported format. Each format has a module of its own.

pub(super) mod gpt2;
mod hf;
mod minbpe;
pub(super) mod tiktoken;
pub(super) mod transformers;

use std::path::Path;
#[cfg(feature = "data")]
use std::{fs, path::PathBuf};

use transformers::WriteOptions;
#[cfg(feature = "data")]
use transformers::{conflicting_chat_template, read_transformers_settings};

use super::folder::{check_one_tokenizer, locate, stamp};
use super::format::{Format, TOKENIZER};
use super::io::{LoadOptions, MAX_FILE_BYTES};
use super::text_rules::{AddedToken, SpecialToken};
use super::vocabulary::{Vocabulary, byte_ranges};
#[cfg(feature = "data")]
use crate::base::atomic_file::FileGroups;
use crate::base::int::{ByteCount, to_u64};
use crate::error::{Error, ErrorKind, Result, excerpt};
use crate::observer::Observer;
#[cfg(feature = "data")]
use crate::observer::Silent;
use crate::split::{SplitPattern, splitter};

/// Reads a tokenizer from a file, or from a folder that holds one, and checks it.
///
/// Features of the files that encoding does not use are reported to `observer`: unused ids, truncation and padding,
/// and a post-processor that would put tokens around documents.
///
/// **Memory:** a few times the size of the files, which may have 256 MiB each. A rank file with tokens that no merge
/// makes takes about 100 bytes for each way to put a token together from two others, up to 1 GB.
///
/// # Errors
/// The path holds no tokenizer, or several. The files are damaged, break an invariant of [`Vocabulary`], contradict
/// the options, or use a feature that cannot be reproduced exactly.
pub fn load(path: &Path, options: &LoadOptions, observer: &dyn Observer) -> Result<Vocabulary> {
    let (format, path) = locate(path, options.format)?;
    let before = stamp(&path);
    let vocabulary = match format {
        Format::Hf if tiktoken::is_tekken(&path) => tiktoken::load_tekken(&path, options),
        Format::Hf => hf::load(&path, options, observer),
        Format::Tiktoken => tiktoken::load(&path, options),
        Format::Minbpe => minbpe::load(&path, options),
        Format::Gpt2 => gpt2::load(&path, options, observer),
    }?;
    let is_known = |named: &&SpecialToken| {
        let same =
            |special: &AddedToken| special.text == named.text && named.id.is_none_or(|id| special.id == id);
        vocabulary.specials().any(same)
    };
    if let Some(other) = options.special_tokens.iter().find(|named| !is_known(named)) {
        return Err(Error::usage(format!(
            "special token {} is not among those of the file",
            excerpt(&other.text)
        ))
        .at(path.display())
        .with_help("leave out the special token, or give it the id that it has in the file"));
    }
    // The options may describe the tokenizer differently from its record, so only a load without them is compared.
    if options.split.is_none() && options.special_tokens.is_empty() {
        check_one_tokenizer(&vocabulary, format, &path, before)?;
    }
    checked(vocabulary, &path, observer)
}

/// Reads a tokenizer from the content of a `tokenizer.json` and checks it as [`load`] does.
///
/// # Errors
/// Those of [`load`]. Their messages call the content `tokenizer.json`.
pub fn from_json(json: &[u8], observer: &dyn Observer) -> Result<Vocabulary> {
    let path = Path::new(TOKENIZER);
    checked(hf::parse(json, path, &LoadOptions::default(), observer)?, path, observer)
}

/// Checks that the vocabulary's split compiles, and reports its unused ids and missing bytes to `observer`.
fn checked(vocabulary: Vocabulary, path: &Path, observer: &dyn Observer) -> Result<Vocabulary> {
    // An invalid regular expression would otherwise be found only with the first text.
    splitter(vocabulary.split()).map_err(|error| error.with_kind(ErrorKind::Failed).at(path.display()))?;
    let holes = vocabulary.tokens.iter().filter(|token| token.is_none()).count();
    if holes > 0 {
        let (path, limit) = (path.display(), vocabulary.id_limit());
        observer.noted(&format!("{path}: {holes} of the ids below {limit} have no token"));
    }
    let missing = vocabulary.missing_in_utf8();
    if !missing.is_empty() {
        observer.noted(&format!(
            "{}: it has no token for the bytes {}; text with one of them is an error without --missing-bytes hf",
            path.display(),
            byte_ranges(&missing)
        ));
    }
    Ok(vocabulary)
}

/// Returns the names and contents of the files that hold a vocabulary. Equal arguments give equal bytes.
///
/// ```
/// # use tokenmill::{observer::Silent, run::{LearnConfig, learn}, source};
/// # let texts = source::texts(["how much wood would a woodchuck chuck"]);
/// # let (vocabulary, _) = learn(texts, &LearnConfig::new(300, &["<|endoftext|>"]), &Silent)?;
/// use tokenmill::vocab::{Format, WriteOptions, from_json, render};
///
/// let files = render(&vocabulary, Format::Hf, &WriteOptions::default())?;
/// let (name, json) = &files[0];
/// assert_eq!(name, "tokenizer.json");
/// assert_eq!(from_json(json, &Silent)?.fingerprint(), vocabulary.fingerprint());
/// # Ok::<(), tokenmill::Error>(())
/// ```
///
/// # Errors
/// The format cannot express something that the vocabulary needs, or a file would be longer than [`load`] reads.
pub fn render(
    vocabulary: &Vocabulary,
    format: Format,
    options: &WriteOptions,
) -> Result<Vec<(String, Vec<u8>)>> {
    let rendered = match format {
        Format::Hf => hf::render(vocabulary, options),
        Format::Tiktoken => tiktoken::render(vocabulary, options),
        Format::Minbpe => minbpe::render(vocabulary),
        Format::Gpt2 => gpt2::render(vocabulary),
    }?;
    // No program reads minbpe's `.vocab`, so its length does not matter.
    let read = if format == Format::Minbpe { &rendered[..1] } else { &rendered[..] };
    let longest = read.iter().map(|bytes| to_u64(bytes.len())).max().unwrap_or(0);
    if longest > MAX_FILE_BYTES {
        let (bytes, limit) = (ByteCount(longest), ByteCount(MAX_FILE_BYTES));
        return Err(Error::failed(format!(
            "a tokenizer file in format {format} would take {bytes}; the limit is {limit}"
        ))
        .with_help("learn shorter tokens (--max-token-bytes, [train] max_token_bytes) or fewer of them"));
    }
    Ok(format.file_names(&options.name).into_iter().zip(rendered).collect())
}

/// Returns notes for users of a format's files, possibly none. tiktoken cannot encode bytes without a token. With a
/// custom pattern, the text between matches is a pre-token here, but tiktoken and minbpe drop it. For `hf`, the notes
/// say how Hugging Face's tokenizers treats the file.
pub fn compatibility_notes(vocabulary: &Vocabulary, format: Format) -> Vec<String> {
    if format == Format::Hf {
        return hf::compatibility_notes(vocabulary);
    }
    let mut compatibility_notes = Vec::new();
    let missing = vocabulary.missing_in_utf8();
    if format == Format::Tiktoken && !missing.is_empty() {
        let bytes = byte_ranges(&missing);
        compatibility_notes
            .push(format!("tiktoken panics on text with the bytes {bytes}, which have no token"));
    }
    let custom = matches!(vocabulary.split(), SplitPattern::Custom(_));
    if format != Format::Gpt2 && custom {
        compatibility_notes.push(format!(
            "{format} drops text that the split pattern does not match, and tokenmill keeps it: make sure that it matches everything"
        ));
    }
    compatibility_notes
}

/// Writes a vocabulary into a folder, which is created if it does not exist, and returns the paths of the files. Each
/// file appears complete or not at all. No file is written if the format cannot hold the vocabulary.
///
/// An existing tokenizer with the same file names is replaced. The record of a training in the folder is not touched,
/// so the caller must replace or remove it.
///
/// Needs the feature `data`. The core has [`render`], which returns the contents of the files.
///
/// # Errors
/// Those of [`render`], or a file cannot be written.
#[cfg(feature = "data")]
pub fn write(
    vocabulary: &Vocabulary,
    format: Format,
    folder: &Path,
    options: &WriteOptions,
) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(folder).map_err(|cause| Error::io("create", folder, cause))?;
    let mut together = FileGroups::default();
    let paths = stage(vocabulary, format, folder, options, &mut together)?;
    together.commit()?;
    Ok(paths)
}

/// Writes a vocabulary into a folder as [`write()`] does, unless that would replace another tokenizer of the same
/// format. A folder that holds the same tokenizer, by equal files or an equal fingerprint, gets the new files.
///
/// Settings for `transformers` that are replaced by other values are reported to `observer`. Needs the feature `data`.
///
/// ```
/// # use tokenmill::{observer::Silent, run::{LearnConfig, learn}, source};
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let folder = folder.path();
/// # let learned = |text: &str| learn(source::texts([text]), &LearnConfig::new(300, &[]), &Silent);
/// # let (vocabulary, _) = learned("how much wood would a woodchuck chuck")?;
/// # let (another, _) = learned("the cat sat on the mat")?;
/// use tokenmill::vocab::{Format, WriteOptions, save};
///
/// let options = WriteOptions::default();
/// save(&vocabulary, Format::Hf, folder, &options, &Silent)?;
/// save(&vocabulary, Format::Hf, folder, &options, &Silent)?; // the same again
/// assert!(save(&another, Format::Hf, folder, &options, &Silent).is_err());
/// # Ok::<(), tokenmill::Error>(())
/// ```
///
/// # Errors
/// - A file would be replaced that belongs to another tokenizer or cannot be read as one ([`ErrorKind::Usage`]).
/// - The folder has a chat template that `transformers` would read instead of that of the options
///   ([`ErrorKind::Usage`]).
/// - Those of [`write()`]. In every case, nothing has been replaced.
#[cfg(feature = "data")]
pub fn save(
    vocabulary: &Vocabulary,
    format: Format,
    folder: &Path,
    options: &WriteOptions,
    observer: &dyn Observer,
) -> Result<Vec<PathBuf>> {
    check_replaced(vocabulary, format, folder, options, observer)?;
    if format == Format::Hf
        && let Some(path) = conflicting_chat_template(folder, options)?
    {
        let path = path.display();
        let problem =
            format!("{path} exists: transformers would use it instead of the chat template that is written");
        return Err(Error::usage(problem).with_help("choose another folder, or move it away"));
    }
    write(vocabulary, format, folder, options)
}

/// Refuses to replace a different tokenizer in the same format.
///
/// Equal bytes need no loading. A file that cannot be loaded counts as another tokenizer.
///
/// # Errors
/// A file would be replaced that belongs to another tokenizer ([`ErrorKind::Usage`]), or the vocabulary cannot be
/// written in this format.
#[cfg(feature = "data")]
fn check_replaced(
    vocabulary: &Vocabulary,
    format: Format,
    folder: &Path,
    options: &WriteOptions,
    observer: &dyn Observer,
) -> Result<()> {
    let files = render(vocabulary, format, options)?;
    let is_other = |(name, bytes): &(String, Vec<u8>)| {
        let path = folder.join(name);
        path.exists() && fs::read(path).ok().as_ref() != Some(bytes)
    };
    let Some((name, _)) = files.iter().find(|file| is_other(file)) else { return Ok(()) };
    let load_options = LoadOptions { format: Some(format), ..LoadOptions::default() };
    match load(folder, &load_options, &Silent) {
        // Another version of this program may have written the same tokenizer with other bytes.
        Ok(found) if found.fingerprint() == vocabulary.fingerprint() => {
            if format == Format::Hf {
                note_replaced(folder, &found, options, observer);
            }
            Ok(())
        }
        _ => {
            let path = folder.join(name);
            let problem = format!("{} would be replaced, but belongs to another tokenizer", path.display());
            Err(Error::usage(problem).with_help("choose another folder, or move it away"))
        }
    }
}

/// Reports the settings for `transformers` that the folder has for the same tokenizer and that are replaced by other
/// values.
///
/// The replacement itself is intended, so this only reports it. If the old settings cannot be read, nothing is said.
#[cfg(feature = "data")]
fn note_replaced(folder: &Path, found: &Vocabulary, options: &WriteOptions, observer: &dyn Observer) {
    let Ok(before) = read_transformers_settings(folder, found, &Silent) else { return };
    let mut keys = before.config_keys();
    keys.retain(|key| before.config_value(key) != options.config_value(key));
    if !keys.is_empty() {
        let (path, keys) = (folder.display(), keys.join(", "));
        observer.noted(&format!("{path}: the values of {keys} in tokenizer_config.json are replaced"));
    }
}

/// Writes the files of [`write()`] without giving them their names yet, adds them to `together`, and returns their
/// future paths.
#[cfg(feature = "data")]
pub(crate) fn stage(
    vocabulary: &Vocabulary,
    format: Format,
    folder: &Path,
    options: &WriteOptions,
    together: &mut FileGroups,
) -> Result<Vec<PathBuf>> {
    let rendered = render(vocabulary, format, options)?.into_iter();
    let files: Vec<(PathBuf, Vec<u8>)> = rendered.map(|(name, bytes)| (folder.join(name), bytes)).collect();
    together.add_group(&files)?;
    Ok(files.into_iter().map(|(path, _)| path).collect())
}
