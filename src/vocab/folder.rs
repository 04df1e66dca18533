//! The folder of a tokenizer: which files it holds, in which format they are, and whether they belong together.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::format::{Format, TOKENIZER, of_other_kind, unknown_format};
use super::formats::transformers::WriteOptions;
use super::formats::{gpt2, tiktoken};
use super::io::BYTE_ORDER_MARK;
use super::other_files::{by_first_bytes, by_lines};
use super::vocabulary::Vocabulary;
use crate::error::{Error, Result};

/// Returns a file's length and modification time. A change in them shows that another file has replaced it. `None` if
/// the file does not exist or the file system gives no times; two such stamps are equal.
pub(super) fn stamp(path: &Path) -> Option<(u64, std::time::SystemTime)> {
    let found = fs::metadata(path).ok()?;
    Some((found.len(), found.modified().ok()?))
}

/// Refuses files of two tokenizers, in the formats that need several files: files that another training replaced
/// while they were read, and files that do not belong to the training record beside them.
///
/// `before` is the [`stamp`] of the main file from before it was read. A format with all merges and ids in one file
/// needs no such check, because files appear complete or not at all.
///
/// # Errors
/// The main file changed, or the record beside it is of another tokenizer.
pub(super) fn check_one_tokenizer(
    #[cfg_attr(not(feature = "data"), expect(unused_variables))] vocabulary: &Vocabulary,
    format: Format,
    path: &Path,
    before: Option<(u64, std::time::SystemTime)>,
) -> Result<()> {
    if !matches!(format, Format::Tiktoken | Format::Gpt2) {
        return Ok(());
    }
    if stamp(path) != before {
        return Err(Error::failed("another tokenizer replaced it while it was being read")
            .at(path.display())
            .with_help("run the same command again"));
    }
    #[cfg(feature = "data")]
    super::record::check_record(vocabulary, format, path)?;
    Ok(())
}

/// Returns the paths of the files that [`write`](super::formats::write()) would write in these formats. The order is
/// that of `formats`, with the main file of each format first.
pub(crate) fn paths(formats: &[Format], folder: &Path, options: &WriteOptions) -> Vec<PathBuf> {
    let names = formats.iter().flat_map(|format| format.file_names(&options.name));
    names.map(|name| folder.join(name)).collect()
}

/// Returns the formats in which a folder holds a tokenizer, in the order of [`Format::ALL`]. Files are found by their
/// names alone. Their contents are not read.
///
/// # Errors
/// The folder cannot be read, or has several files of one format.
pub fn formats_in(folder: &Path) -> Result<Vec<Format>> {
    let there = |&format: &Format| in_folder(folder, format).map(|file| file.map(|_| format));
    Format::ALL.iter().filter_map(|format| there(format).transpose()).collect()
}

/// Returns the format and the main file of the tokenizer at `path`.
///
/// The format is `format` if given. For a file it otherwise follows from the name, and from the content where the
/// name leaves it open. For a folder it is the first of [`Format::ALL`] that the folder holds.
///
/// # Errors
/// Nothing at `path` can be read, a folder has several files of one format, or no tokenizer of the requested or of
/// any format is found. A file of another known kind is named.
pub(super) fn locate(path: &Path, format: Option<Format>) -> Result<(Format, PathBuf)> {
    let metadata = fs::metadata(path).map_err(|cause| Error::io("read", path, cause))?;
    if !metadata.is_dir() {
        let format = match format.or_else(|| of_file(path)) {
            // Rank files also have this extension; Llama 3's is `tokenizer.model`.
            Some(Format::Minbpe) if format.is_none() => of_content(path)?.unwrap_or(Format::Minbpe),
            Some(format) => format,
            None if metadata.is_file() => {
                of_content(path)?.ok_or_else(|| unknown_format().at(path.display()))?
            }
            None => return Err(unknown_format().at(path.display())),
        };
        return Ok((format, path.to_owned()));
    }
    let formats = match &format {
        Some(format) => std::slice::from_ref(format),
        None => &Format::ALL,
    };
    for &candidate in formats {
        if let Some(file) = in_folder(path, candidate)? {
            let is_ranks = || Ok::<_, Error>(of_content(&file)? == Some(Format::Tiktoken));
            return Ok(match candidate {
                Format::Minbpe if format.is_none() && is_ranks()? => (Format::Tiktoken, file),
                candidate => (candidate, file),
            });
        }
    }
    // Other tokenizer kinds use these names, so that their content gives a more precise error.
    for other in ["vocab.txt", "tokenizer.pkl"].map(|name| path.join(name)) {
        if format.is_none() && other.is_file() {
            of_content(&other)?;
        }
    }
    let error = match format {
        None => unknown_format(),
        Some(format) => Error::failed(format!("no tokenizer of format {format} found")),
    };
    let error = error.at(path.display());
    Err(match subfolder_with_tokenizer(path) {
        Some(found) => error.with_help(format!("name {} instead, which has one", found.display())),
        None => error,
    })
}

/// Returns the first subfolder that holds a tokenizer. An output folder of `run` has one. Only the next level is
/// searched. Of several, the first by name is returned, so that the message is always the same.
fn subfolder_with_tokenizer(folder: &Path) -> Option<PathBuf> {
    let below = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let has_one = |path: &PathBuf| path.is_dir() && formats_in(path).is_ok_and(|formats| !formats.is_empty());
    below.filter(has_one).min()
}

/// Returns the format that a file's name determines; `None` if the content must decide. A `.tiktoken.json` is the
/// sidecar of a rank file, so its name determines none.
fn of_file(path: &Path) -> Option<Format> {
    let name = path.file_name()?.to_str()?;
    Some(match path.extension()?.to_str()? {
        _ if gpt2::NAMES.as_flattened().contains(&name) => Format::Gpt2,
        "json" if !name.ends_with(".tiktoken.json") => Format::Hf,
        "tiktoken" => Format::Tiktoken,
        "model" => Format::Minbpe,
        _ => return None,
    })
}

/// Returns the format of a file by its content, if the name does not determine it.
///
/// `None` means that the content is of no known kind. That need not be an error if the name suggests a format.
///
/// # Errors
/// The file is of another known kind, or cannot be read.
fn of_content(path: &Path) -> Result<Option<Format>> {
    /// Bytes read from the beginning of the file (64 KiB), enough for the first tokens of any list.
    const BEGINNING: u64 = 1 << 16;
    let cannot = |cause| Error::io("read", path, cause);
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(BEGINNING).read_to_end(&mut bytes)).map_err(cannot)?;
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes);
    if tiktoken::begins_with_a_rank(bytes) {
        return Ok(Some(Format::Tiktoken));
    }
    match by_first_bytes(bytes).or_else(|| by_lines(bytes)) {
        Some(other) => Err(of_other_kind(other).at(path.display())),
        None => Ok(None),
    }
}

/// Returns the main file of a format in a folder; `None` if there is none. For GPT-2's format this is the file of
/// tokens, and for Hugging Face's a `tokenizer.json` comes before a `tekken.json`.
///
/// # Errors
/// The folder has several files with the extension of the format, or cannot be read.
fn in_folder(folder: &Path, format: Format) -> Result<Option<PathBuf>> {
    match format {
        Format::Hf => match existing(folder.join(TOKENIZER))? {
            None => existing(folder.join(tiktoken::TEKKEN)),
            found => Ok(found),
        },
        Format::Gpt2 => {
            let named = gpt2::NAMES.iter().map(|[vocabulary, _]| existing(folder.join(vocabulary)));
            named.filter_map(Result::transpose).next().transpose()
        }
        Format::Tiktoken => only_file(folder, "tiktoken"),
        Format::Minbpe => only_file(folder, "model"),
    }
}

/// Returns the path if it is a file. A path that the system does not let this process inspect is an error, since it
/// may be a file.
///
/// # Errors
/// The system does not say whether the path is a file.
fn existing(path: PathBuf) -> Result<Option<PathBuf>> {
    match fs::metadata(&path) {
        Ok(metadata) => Ok(metadata.is_file().then_some(path)),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(Error::io("read", path, cause)),
    }
}

/// Returns the only file of a folder with this extension. `None` if there is none.
///
/// # Errors
/// There are several, which the message names in order, or the folder cannot be read.
fn only_file(folder: &Path, extension: &str) -> Result<Option<PathBuf>> {
    let cannot = |cause| Error::io("read", folder, cause);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
    if found.len() > 1 {
        let names = found.iter().filter_map(|path| path.file_name());
        let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
        return Err(Error::usage(format!("several tokenizers found: {}", names.join(", ")))
            .at(folder.display())
            .with_help("name the file instead of the folder"));
    }
    Ok(found.pop())
}
