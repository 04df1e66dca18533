//! Tokenizers from files, from the hub, and from the parts of a pickle.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokenmill::cli::hub;
use tokenmill::encode::{EncodeConfig, SpecialPolicy};
use tokenmill::observer::Silent;
use tokenmill::source::{KNOWN_TOKENIZERS, tokenizer_address, tokenizer_path};
use tokenmill::split::SplitPattern;
use tokenmill::vocab::{
    self, Format, LoadOptions, SpecialToken, TransformersConfig, WriteOptions, read_transformers_settings,
};
use tokenmill::{Error, Observer, Result, TokenId, Vocabulary};

use crate::errors::OrRaise;
use crate::job::{self, Watcher};
use crate::pool::on_threads;
use crate::tokenizer::Tokenizer;

/// A tokenizer before it is prepared for encoding.
pub(crate) struct Loaded {
    /// Its tokens.
    pub(crate) vocabulary: Vocabulary,
    /// Its settings for `transformers`.
    pub(crate) settings: WriteOptions,
}

impl Loaded {
    /// Prepares it.
    ///
    /// # Errors
    /// It cannot be used for encoding.
    pub(crate) fn tokenizer(self, special: SpecialPolicy) -> Result<(tokenmill::Tokenizer, WriteOptions)> {
        let config = EncodeConfig { special, ..EncodeConfig::default() };
        Ok((tokenmill::Tokenizer::new(self.vocabulary, config)?, self.settings))
    }
}

/// The policy for the text of special tokens.
///
/// # Errors
/// There is no policy of this name.
pub(crate) fn special_policy(name: &str) -> Result<SpecialPolicy> {
    let all = [SpecialPolicy::Text, SpecialPolicy::Allow, SpecialPolicy::Forbid];
    let found = all.into_iter().find(|policy| policy.name() == name);
    found.ok_or_else(|| {
        Error::usage(format!("special={name:?} is not known")).with_help("give 'text', 'allow' or 'forbid'")
    })
}

/// The split of a name or of a regular expression. A word is a name, so that a misspelt one is an error.
///
/// # Errors
/// There is no split of this name.
pub(crate) fn split_pattern(split: &str) -> Result<SplitPattern> {
    let is_word = split.chars().all(|one| one.is_alphanumeric() || matches!(one, '_' | '-'));
    if is_word { split.parse() } else { Ok(SplitPattern::from_regex(split)) }
}

/// Reads the files of a tokenizer.
///
/// # Errors
/// Those of [`vocab::load`] and [`read_transformers_settings`].
pub(crate) fn from_path(path: &Path, options: &LoadOptions) -> Result<Loaded> {
    let vocabulary = vocab::load(path, options, &Silent)?;
    let settings = read_transformers_settings(path, &vocabulary, &Silent)?;
    Ok(Loaded { vocabulary, settings })
}

/// Reads a tokenizer from the content of a `tokenizer.json`.
///
/// # Errors
/// Those of [`vocab::from_json`].
pub(crate) fn from_json(json: &[u8]) -> Result<Loaded> {
    Ok(Loaded { vocabulary: vocab::from_json(json, &Silent)?, settings: WriteOptions::default() })
}

/// Reads a tokenizer by its name: a path, a name on the hub, or a published name. It is downloaded from the hub unless
/// the cache has it.
///
/// # Errors
/// It cannot be downloaded or read, or a revision is given for a name that has none.
pub(crate) fn from_name(
    name: &str,
    revision: Option<&str>,
    token: Option<String>,
    observer: &dyn Observer,
) -> Result<Loaded> {
    let is_local = Path::new(name).exists() || name.starts_with(['.', '/']);
    let is_of_hub = !is_local && name.contains('/') && !name.contains("://");
    let address = match revision {
        Some(revision) if is_of_hub => format!("hf://{name}@{revision}"),
        None if is_of_hub => format!("hf://{name}"),
        Some(_) if !is_local => {
            let problem = "a revision belongs to a name of the form org/name";
            return Err(Error::usage(problem).with_help("write it in the address: hf://org/name@revision"));
        }
        _ => name.to_owned(),
    };
    let mut hub = hub();
    hub.token = token.or(hub.token);
    from_path(&tokenizer_path(address, &hub, observer)?, &LoadOptions::default())
}

/// A tokenizer from the parts of a `tiktoken.Encoding`.
///
/// # Errors
/// The ranks are not those of byte-pair encoding.
pub(crate) fn from_ranks(
    pattern: &str,
    ranks: Vec<(Vec<u8>, u32)>,
    specials: Vec<(String, u32)>,
) -> Result<Loaded> {
    let folder = tempfile::tempdir().map_err(|cause| Error::io("create", "a temporary folder", cause))?;
    let path = folder.path().join("ranks.tiktoken");
    let line = |(token, rank): &(Vec<u8>, u32)| format!("{} {rank}\n", BASE64_STANDARD.encode(token));
    let lines: String = ranks.iter().map(line).collect();
    fs::write(&path, lines).map_err(|cause| Error::io("write", &path, cause))?;
    let special = |(text, id)| SpecialToken { text, id: Some(TokenId::new(id)) };
    let options = LoadOptions {
        format: Some(Format::Tiktoken),
        split: Some(SplitPattern::from_regex(pattern)),
        special_tokens: specials.into_iter().map(special).collect(),
    };
    Ok(Loaded { vocabulary: vocab::load(&path, &options, &Silent)?, settings: WriteOptions::default() })
}

/// Loads a published encoding of tiktoken by its name.
///
/// Its file is downloaded into tiktoken's cache, unless it is there. Ctrl-C stops the download.
///
/// Args:
///     name: The name, such as ``"gpt2"``, ``"cl100k_base"`` or ``"o200k_base"``.
///     path: A local file with the encoding's ranks, to download nothing.
///     special: What text that spells a special token becomes: ``"text"`` (it is encoded like any other text),
///         ``"allow"`` (the special token) or ``"forbid"`` (an error).
///
/// Returns:
///     The tokenizer, with the ids, the pattern and the special tokens of the encoding.
///
/// Raises:
///     UsageError: There is no encoding of this name.
///     NotFoundError: There is no file ``path``.
///     NetworkError: The file cannot be downloaded.
///
/// Example:
///     >>> tokenmill.get_encoding("cl100k_base").encode("hello world")  # doctest: +SKIP
///     [15339, 1917]
#[pyfunction]
#[pyo3(signature = (name, *, path=None, special="text"))]
pub(crate) fn get_encoding(
    py: Python<'_>,
    name: &str,
    path: Option<PathBuf>,
    special: &str,
) -> PyResult<Tokenizer> {
    let special = special_policy(special).or_raise(py)?;
    let address = tokenizer_address(name).ok_or_else(|| unknown_encoding(name)).or_raise(py)?;
    let name = name.to_owned();
    let load = move |watcher: &Watcher| {
        match &path {
            Some(path) => from_file_of_encoding(&name, path),
            None => from_name(address, None, None, watcher),
        }?
        .tokenizer(special)
    };
    let loaded = job::run(py, None, None, |_, _| Ok(()), load)?;
    Ok(Tokenizer::new(loaded))
}

/// The error of a name that is not that of a published encoding.
fn unknown_encoding(name: &str) -> Error {
    let help = format!(
        "the known names are {}; Tokenizer.from_file and from_pretrained load other tokenizers",
        KNOWN_TOKENIZERS.join(", ")
    );
    Error::usage(format!("there is no encoding {name:?}")).with_help(help)
}

/// Reads a file as the published encoding of this name, which must be a known one.
///
/// The pattern and the special tokens of an encoding are recognised by the name of its file, so the file gets it.
fn from_file_of_encoding(name: &str, path: &Path) -> Result<Loaded> {
    let folder = tempfile::tempdir().map_err(|cause| Error::io("create", "a temporary folder", cause))?;
    let named = folder.path().join(format!("{name}.tiktoken"));
    fs::copy(path, &named).map_err(|cause| Error::io("read", path, cause))?;
    from_path(&named, &LoadOptions::default())
}

/// Everything of a tokenizer that its `tokenizer.json` does not hold, as a pickle keeps it.
#[derive(Serialize, Deserialize)]
struct KeptSettings {
    /// What to do with text that spells a special token.
    special: SpecialPolicy,
    /// The name of its files.
    name: String,
    /// The text of the token that begins a document.
    bos: Option<String>,
    /// The text of the token that ends a document.
    eos: Option<String>,
    /// The text of the token that pads texts.
    pad: Option<String>,
    /// The text of the token for text without a token.
    unk: Option<String>,
    /// The text of the token in place of a token to predict.
    mask: Option<String>,
    /// The largest number of tokens that the model takes.
    model_max_length: Option<u64>,
    /// The template of conversations.
    chat_template: Option<String>,
    /// Other settings for `transformers`.
    kept: Map<String, Value>,
}

/// The settings of a tokenizer as JSON.
///
/// # Errors
/// None is known.
pub(crate) fn settings_to_json(settings: &WriteOptions, special: SpecialPolicy) -> Result<String> {
    let WriteOptions { name, bos, eos, transformers } = settings.clone();
    let TransformersConfig { pad, unk, mask, model_max_length, chat_template, kept } = transformers;
    let kept =
        KeptSettings { special, name, bos, eos, pad, unk, mask, model_max_length, chat_template, kept };
    serde_json::to_string(&kept).map_err(|cause| Error::failed(format!("settings cannot be kept: {cause}")))
}

/// Makes a tokenizer from its `tokenizer.json` and the settings of [`settings_to_json`].
///
/// # Errors
/// They are not what this version wrote.
pub(crate) fn from_parts(json: &[u8], settings: &str) -> Result<(tokenmill::Tokenizer, WriteOptions)> {
    let kept: KeptSettings = serde_json::from_str(settings).map_err(|cause| {
        Error::failed(format!("the settings of a pickled tokenizer are damaged: {cause}"))
    })?;
    let KeptSettings { special, name, bos, eos, pad, unk, mask, model_max_length, chat_template, kept } =
        kept;
    let transformers = TransformersConfig { pad, unk, mask, model_max_length, chat_template, kept };
    let settings = WriteOptions { name, bos, eos, transformers };
    Loaded { settings, ..from_json(json)? }.tokenizer(special)
}

/// Makes a tokenizer from the parts of a pickle. `tokenmill._pickle` calls it once for equal parts.
#[pyfunction]
pub(crate) fn from_pickle(py: Python<'_>, json: &[u8], settings: &str) -> PyResult<Tokenizer> {
    on_threads(py, None, || from_parts(json, settings))?.or_raise(py).map(Tokenizer::new)
}
