//! Reads and writes tokenizers in any supported format. This module finds the files of a folder, decides their format
//! and checks the result; each format has a module of its own.

use std::fmt;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::fault::Fault;
use super::{
    AddedToken, SpecialToken, TrainingRecord, Vocabulary, byte_ranges, gpt2, hf, minbpe, sniff, tekken,
    tiktoken,
};
use crate::base::atomic_file;
use crate::base::atomic_file::{FileGroups, folder_of};
use crate::base::int::{ByteCount, to_u64};
use crate::error::{Error, ErrorKind as Kind, Result};
use crate::observer::Observer;
use crate::split::{SplitPattern, splitter};

/// Most bytes that a tokenizer file may have (256 MiB). The largest files in use have some tens of megabytes.
pub(crate) const MAX_FILE_BYTES: u64 = 256 << 20;

/// A file format of tokenizers.
///
/// ```
/// use tokenmill::vocab::Format;
///
/// let format: Format = "tiktoken".parse()?;
/// assert_eq!(format, Format::Tiktoken);
/// assert_eq!(format.to_string(), "tiktoken");
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Format {
    /// Hugging Face's `tokenizer.json`, with a `tokenizer_config.json`.
    #[default]
    Hf,
    /// tiktoken's ranks, `NAME.tiktoken`, and the pattern and special tokens in `NAME.tiktoken.json`.
    Tiktoken,
    /// minbpe's `NAME.model`, and the human-readable `NAME.vocab`.
    Minbpe,
    /// GPT-2's `vocab.json` and `merges.txt`.
    Gpt2,
}

impl Format {
    /// All formats, in the order in which a folder is searched for a tokenizer.
    pub const ALL: [Format; 4] = [Format::Hf, Format::Tiktoken, Format::Minbpe, Format::Gpt2];

    /// The format's name in flags and recipes.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Hf => "hf",
            Format::Tiktoken => "tiktoken",
            Format::Minbpe => "minbpe",
            Format::Gpt2 => "gpt2",
        }
    }

    /// Returns the names of the format's two files. `name` is their stem where the format does not fix the names.
    fn file_names(self, name: &str) -> [String; 2] {
        match self {
            Format::Hf => [hf::TOKENIZER.to_owned(), hf::CONFIG.to_owned()],
            Format::Tiktoken => [format!("{name}.tiktoken"), format!("{name}.tiktoken.json")],
            Format::Minbpe => [format!("{name}.model"), format!("{name}.vocab")],
            Format::Gpt2 => [gpt2::VOCABULARY.to_owned(), gpt2::MERGES.to_owned()],
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for a string that names no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown tokenizer format {name:?}; the formats are hf, tiktoken, minbpe and gpt2")]
pub struct NotFormat {
    name: String,
}

impl From<NotFormat> for Error {
    fn from(wrong: NotFormat) -> Error {
        Error::new(Kind::Usage, wrong)
    }
}

impl FromStr for Format {
    type Err = NotFormat;

    fn from_str(name: &str) -> Result<Format, NotFormat> {
        let found = Format::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| NotFormat { name: name.to_owned() })
    }
}

/// What to assume where a tokenizer's files do not say it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// The format. By default it follows from the file's name and content, or from the files in a folder.
    pub format: Option<Format>,
    /// The split pattern. It is required if no file names one (a `.tiktoken` on its own) and optional for a
    /// `vocab.json`, which otherwise means GPT-2's pattern. It is an error if a file names another one.
    pub split: Option<SplitPattern>,
    /// Special tokens that no file names, for a `.tiktoken` on its own or a `vocab.json`. If a file names special
    /// tokens, these must be among them.
    pub special_tokens: Vec<SpecialToken>,
}

impl LoadOptions {
    /// Returns the split that a file names.
    ///
    /// # Errors
    /// The options ask for another one.
    pub(super) fn same_split(&self, said: SplitPattern) -> Result<SplitPattern, Fault> {
        match &self.split {
            Some(wanted) if *wanted != said => Err(Fault::OtherSplit),
            _ => Ok(said),
        }
    }
}

/// What goes into a tokenizer's files in addition to the vocabulary.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// The name without extension of files that have no fixed name.
    pub name: String,
    /// The text of the token that begins a document, `bos_token` for `transformers`.
    pub bos: Option<String>,
    /// The text of the token that ends a document, `eos_token` for `transformers`.
    pub eos: Option<String>,
    /// Further settings for `transformers`.
    pub transformers: TransformersConfig,
}

/// The settings in `tokenizer_config.json` that tell `transformers` how to use a tokenizer. They change no ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransformersConfig {
    /// The special token that pads the shorter texts of a batch, `pad_token`.
    pub pad: Option<String>,
    /// The special token for text without a token, `unk_token`.
    pub unk: Option<String>,
    /// The special token in place of a token to predict, `mask_token`.
    pub mask: Option<String>,
    /// The largest number of tokens that the model takes, `model_max_length`.
    pub model_max_length: Option<u64>,
    /// The Jinja template that turns a conversation into one text, `chat_template`.
    pub chat_template: Option<String>,
    /// Keys with their values from [elsewhere](super::named_beside). The fields above take precedence.
    pub kept: Map<String, Value>,
}

impl TransformersConfig {
    /// The largest `model_max_length` (2^53). Programs that hold numbers as 64-bit floats read no larger one exactly.
    pub const MOST_LENGTH: u64 = 1 << 53;
}

impl WriteOptions {
    /// Returns the value that a key of `tokenizer_config.json` gets.
    pub fn config_value(&self, key: &str) -> Option<Value> {
        hf::config(self).get(key).cloned()
    }

    /// Returns the keys of `tokenizer_config.json` that these options set, sorted.
    pub fn config_keys(&self) -> Vec<&str> {
        let TransformersConfig { pad, unk, mask, model_max_length, chat_template, kept } = &self.transformers;
        let set = [
            ("bos_token", self.bos.is_some()),
            ("eos_token", self.eos.is_some()),
            ("pad_token", pad.is_some()),
            ("unk_token", unk.is_some()),
            ("mask_token", mask.is_some()),
            ("model_max_length", model_max_length.is_some()),
            ("chat_template", chat_template.is_some()),
        ];
        let own = set.into_iter().filter(|(_, is_set)| *is_set).map(|(key, _)| key);
        let mut keys: Vec<&str> = own.collect();
        keys.extend(kept.keys().map(String::as_str).filter(|key| *key != "clean_up_tokenization_spaces"));
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

impl Default for WriteOptions {
    fn default() -> WriteOptions {
        WriteOptions {
            name: "tokenizer".to_owned(),
            bos: None,
            eos: None,
            transformers: TransformersConfig::default(),
        }
    }
}

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
        Format::Hf if tekken::is_named(&path) => tekken::load(&path, options),
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
        return Err(Fault::OtherSpecial(other.text.clone()).in_file(&path));
    }
    // The options may describe the tokenizer differently from its record, so only a load without them is compared.
    if options.split.is_none() && options.special_tokens.is_empty() {
        check_one_tokenizer(&vocabulary, format, &path, before)?;
    }
    checked(vocabulary, &path, observer)
}

/// Returns a file's length and modification time. A change in them shows that another file has replaced it.
fn stamp(path: &Path) -> Option<(u64, std::time::SystemTime)> {
    let found = fs::metadata(path).ok()?;
    Some((found.len(), found.modified().ok()?))
}

/// Refuses files of two tokenizers, in the formats that need several files: files that another training replaced
/// while they were read, and files that do not belong to the training record beside them.
fn check_one_tokenizer(
    vocabulary: &Vocabulary,
    format: Format,
    path: &Path,
    before: Option<(u64, std::time::SystemTime)>,
) -> Result<()> {
    if !matches!(format, Format::Tiktoken | Format::Gpt2) {
        return Ok(());
    }
    if stamp(path) != before {
        return Err(Fault::Replaced.in_file(path).with_help("run the same command again"));
    }
    let named = path.file_stem().is_some_and(|stem| *stem == *WriteOptions::default().name);
    let is_ours = format == Format::Gpt2 || named;
    let record = TrainingRecord::read(folder_of(path)).ok().flatten();
    match record.filter(|record| is_ours && record.has(format)) {
        Some(record) if record.vocabulary != vocabulary.fingerprint() => {
            Err(Fault::OtherTraining.in_file(path).with_help(
                "run the same `train` command again; if the files were changed on purpose, move training.json away",
            ))
        }
        _ => Ok(()),
    }
}

/// Reads a tokenizer from the content of a `tokenizer.json` and checks it as [`load`] does.
///
/// # Errors
/// Those of [`load`]. Their messages call the content `tokenizer.json`.
pub fn from_json(json: &[u8], observer: &dyn Observer) -> Result<Vocabulary> {
    let path = Path::new(hf::TOKENIZER);
    checked(hf::parse(json, path, &LoadOptions::default(), observer)?, path, observer)
}

/// Checks that the vocabulary's split compiles, and reports its unused ids and missing bytes to `observer`.
fn checked(vocabulary: Vocabulary, path: &Path, observer: &dyn Observer) -> Result<Vocabulary> {
    // An invalid regular expression would otherwise be found only with the first text.
    splitter(vocabulary.split()).map_err(|wrong| Fault::Split(wrong).in_file(path))?;
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

/// The contents of a format's files, in the order of their [names](Format::file_names).
pub(super) type Rendered = [Vec<u8>; 2];

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
        return Err(Error::new(Kind::Failed, Fault::WouldBeTooLong { format, bytes, limit }).with_help(
            "learn shorter tokens (--max-token-bytes, [train] max_token_bytes) or fewer of them",
        ));
    }
    Ok(format.file_names(&options.name).into_iter().zip(rendered).collect())
}

/// Writes a vocabulary into a folder, which is created if it does not exist, and returns the paths of the files. Each
/// file appears complete or not at all. No file is written if the format cannot hold the vocabulary.
///
/// # Errors
/// Those of [`render`], or a file cannot be written.
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

/// Writes the files of [`write()`] without giving them their names yet, adds them to `together`, and returns their
/// future paths.
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

/// Returns the paths of the files that [`write()`] would write in these formats.
pub(crate) fn paths(formats: &[Format], folder: &Path, options: &WriteOptions) -> Vec<PathBuf> {
    let names = formats.iter().flat_map(|format| format.file_names(&options.name));
    names.map(|name| folder.join(name)).collect()
}

/// Returns notes for users of a format's files, possibly none. tiktoken cannot encode bytes without a token. With a
/// custom pattern, the text between matches is a pre-token here, but tiktoken and minbpe drop it. For `hf`, the notes
/// say how Hugging Face's tokenizers treats the file.
pub fn cautions(vocabulary: &Vocabulary, format: Format) -> Vec<String> {
    if format == Format::Hf {
        return hf::cautions(vocabulary);
    }
    let mut cautions = Vec::new();
    let missing = vocabulary.missing_in_utf8();
    if format == Format::Tiktoken && !missing.is_empty() {
        let bytes = byte_ranges(&missing);
        cautions.push(format!("tiktoken panics on text with the bytes {bytes}, which have no token"));
    }
    let custom = matches!(vocabulary.split(), SplitPattern::Custom(_));
    if format != Format::Gpt2 && custom {
        cautions.push(format!(
            "{format} drops text that the split pattern does not match, and tokenmill keeps it: make sure that it matches everything"
        ));
    }
    cautions
}

/// Removes the files of a format from a folder, if they exist. These are the files that [`write()`] would replace.
///
/// # Errors
/// A file cannot be removed.
pub(crate) fn remove(format: Format, folder: &Path, options: &WriteOptions) -> Result<()> {
    format.file_names(&options.name).into_iter().try_for_each(|name| atomic_file::remove(&folder.join(name)))
}

/// Returns the formats in which a folder holds a tokenizer, in the order of [`Format::ALL`].
///
/// # Errors
/// The folder cannot be read, or has several files of one format.
pub fn formats_in(folder: &Path) -> Result<Vec<Format>> {
    let there = |&format: &Format| in_folder(folder, format).map(|file| file.map(|_| format));
    Format::ALL.iter().filter_map(|format| there(format).transpose()).collect()
}

/// Returns the format and the main file of the tokenizer at `path`.
fn locate(path: &Path, format: Option<Format>) -> Result<(Format, PathBuf)> {
    let metadata = fs::metadata(path).map_err(|cause| Error::io("read", path, cause))?;
    if !metadata.is_dir() {
        let format = match format.or_else(|| of_file(path)) {
            // Rank files also have this extension; Llama 3's is `tokenizer.model`.
            Some(Format::Minbpe) if format.is_none() => of_content(path)?.unwrap_or(Format::Minbpe),
            Some(format) => format,
            None if metadata.is_file() => {
                of_content(path)?.ok_or_else(|| Fault::UnknownFormat.in_file(path))?
            }
            None => return Err(Fault::UnknownFormat.in_file(path)),
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
    let error = format.map_or(Fault::UnknownFormat, Fault::NoSuch).in_file(path);
    Err(match deeper(path) {
        Some(found) => error.with_help(format!("name {} instead, which has one", found.display())),
        None => error,
    })
}

/// Returns the first subfolder that holds a tokenizer. An output folder of `run` has one.
fn deeper(folder: &Path) -> Option<PathBuf> {
    let below = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let has_one = |path: &PathBuf| path.is_dir() && formats_in(path).is_ok_and(|formats| !formats.is_empty());
    below.filter(has_one).min()
}

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

/// Returns the format of a file whose name does not determine it.
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
    match sniff::by_first_bytes(bytes).or_else(|| sniff::by_lines(bytes)) {
        Some(other) => Err(Fault::OtherKind(other).in_file(path)),
        None => Ok(None),
    }
}

fn in_folder(folder: &Path, format: Format) -> Result<Option<PathBuf>> {
    match format {
        Format::Hf => match existing(folder.join(hf::TOKENIZER))? {
            None => existing(folder.join(tekken::FILE)),
            found => Ok(found),
        },
        Format::Gpt2 => {
            let named = gpt2::NAMES.iter().map(|[vocabulary, _]| existing(folder.join(vocabulary)));
            named.filter_map(Result::transpose).next().transpose()
        }
        Format::Tiktoken => only(folder, "tiktoken"),
        Format::Minbpe => only(folder, "model"),
    }
}

/// Returns the path if it is a file. A path that the system does not let this process inspect is an error, since it
/// may be a file.
fn existing(path: PathBuf) -> Result<Option<PathBuf>> {
    match fs::metadata(&path) {
        Ok(metadata) => Ok(metadata.is_file().then_some(path)),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(Error::io("read", path, cause)),
    }
}

/// Returns the only file of a folder with this extension.
fn only(folder: &Path, extension: &str) -> Result<Option<PathBuf>> {
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
        let names = names.map(|name| name.to_string_lossy().into_owned()).collect();
        return Err(Fault::Several(names).in_file(folder));
    }
    Ok(found.pop())
}

/// The byte order mark that some editors put before UTF-8 text. No format begins with it.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Returns the bytes of a file, without a byte order mark. A file may have at most [`MAX_FILE_BYTES`].
///
/// # Errors
/// The file is longer, is of another known kind, or cannot be read.
pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    let cannot = |cause| Error::io("read", path, cause);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(cannot)?;
    // One byte more than allowed, to detect a longer file.
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if to_u64(bytes.len()) > MAX_FILE_BYTES {
        return Err(Fault::FileTooLong { limit: MAX_FILE_BYTES }.in_file(path));
    }
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    match sniff::by_first_bytes(&bytes) {
        Some(other) => Err(Fault::OtherKind(other).in_file(path)),
        None => Ok(bytes),
    }
}

/// Returns the bytes of a file, or `None` if it does not exist.
pub(super) fn bytes_if_there(path: &Path) -> Result<Option<Vec<u8>>> {
    let is_there = path.try_exists().map_err(|cause| Error::io("read", path, cause))?;
    is_there.then(|| read_bytes(path)).transpose()
}

/// Parses a JSON file; returns `None` if it does not exist.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let Some(bytes) = bytes_if_there(path)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|wrong| Fault::Json(wrong).in_file(path))
}

/// Returns the content of a UTF-8 file.
pub(super) fn read_text(path: &Path) -> Result<String> {
    String::from_utf8(read_bytes(path)?).map_err(|wrong| Fault::NotText(wrong.utf8_error()).in_file(path))
}
