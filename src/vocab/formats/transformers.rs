//! The settings of `transformers` beside a tokenizer: `tokenizer_config.json`, `special_tokens_map.json`, and chat
//! templates in files of their own. They change no ids.

use std::fs;
use std::path::{Path, PathBuf};

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use crate::base::int::to_u64;
use crate::error::{Error, Result, excerpt};
use crate::observer::{Observer, Silent};
use crate::vocab::format::{TOKENIZER_CONFIG, not_text, too_long};
use crate::vocab::io::{read_bytes_up_to, read_json};
use crate::vocab::vocabulary::Vocabulary;

/// The file that names the special tokens.
pub(in crate::vocab) const SPECIALS: &str = "special_tokens_map.json";

/// The keys that name one special token each.
pub(in crate::vocab) const NAMED: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// The keys that name several special tokens.
pub(in crate::vocab) const LISTS: [&str; 2] = ["additional_special_tokens", "extra_special_tokens"];

/// What goes into a tokenizer's files in addition to the vocabulary.
///
/// Formats other than [`Hf`](crate::vocab::Format::Hf) use only the name.
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
///
/// A field that is `None` leaves its key out, unless [`kept`](TransformersConfig::kept) has it. The texts must be
/// those of special tokens of the vocabulary; writing does not check this.
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
    /// Keys with their values from [elsewhere](read_transformers_settings). The fields above take precedence.
    pub kept: Map<String, Value>,
}

impl TransformersConfig {
    /// The largest `model_max_length` (2^53). Programs that hold numbers as 64-bit floats read no larger one exactly.
    pub const MAX_LENGTH: u64 = 1 << 53;
}

impl WriteOptions {
    /// Returns the value that a key of `tokenizer_config.json` gets. `None` if the file will not have the key.
    pub fn config_value(&self, key: &str) -> Option<Value> {
        tokenizer_config(self).get(key).cloned()
    }

    /// Returns the keys of `tokenizer_config.json` that these options set, sorted. Keys that every file has, such as
    /// `tokenizer_class`, are not among them.
    pub fn config_keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = tokenizer_config(self).0.keys().cloned().collect();
        keys.retain(|key| ![TOKENIZER_CLASS, CLEAN_UP].contains(&&**key));
        keys.sort_unstable();
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

/// The key of [`WriteOptions::bos`].
/// Keys that every file has.
const TOKENIZER_CLASS: &str = "tokenizer_class";
const CLEAN_UP: &str = "clean_up_tokenization_spaces";
const BOS: &str = "bos_token";
/// The key of [`WriteOptions::eos`].
const EOS: &str = "eos_token";
/// The key of [`TransformersConfig::model_max_length`].
const MODEL_MAX_LENGTH: &str = "model_max_length";
/// The key of [`TransformersConfig::chat_template`].
pub(crate) const CHAT_TEMPLATE: &str = "chat_template";

/// The name of [`MODEL_MAX_LENGTH`] in older files.
const MAX_LEN: &str = "max_len";

/// Keys that are kept unchanged. They say how `transformers` uses a tokenizer, whatever class reads it.
const USES: [&str; 10] = [
    "clean_up_tokenization_spaces",
    "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output",
    "add_bos_token",
    "add_eos_token",
    "padding_side",
    "truncation_side",
    "model_input_names",
    "split_special_tokens",
    "response_template",
    "chat_control_tokens",
];

/// Keys that are dropped, because `tokenizer.json` says the same, or because they only record how the file was made.
const ELSEWHERE: [&str; 22] = [
    "tokenizer_class",
    "added_tokens_decoder",
    "add_prefix_space",
    "trim_offsets",
    "errors",
    "name_or_path",
    "special_tokens_map_file",
    "tokenizer_file",
    "vocab_file",
    "merges_file",
    "backend",
    "is_local",
    "local_files_only",
    "use_fast",
    "legacy",
    "from_slow",
    "max_length",
    "stride",
    "truncation_strategy",
    "pad_to_multiple_of",
    "pad_token_type_id",
    "transformers_version",
];

/// The content of [`TOKENIZER_CONFIG`]. Keys are written in the order of the map.
pub(in crate::vocab) struct ConfigJson(Map<String, Value>);

impl Serialize for ConfigJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            match large_whole(value) {
                Some(number) => map.serialize_entry(key, &number)?,
                None => map.serialize_entry(key, value)?,
            }
        }
        map.end()
    }
}

impl ConfigJson {
    /// Returns the value of a key.
    pub(in crate::vocab) fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }
}

/// Returns a float without a fraction as a whole number; `None` for all other values. A number above 64 bits is read
/// as a float, and `transformers` writes one, `int(1e30)`, for an unlimited length. In the form `1e30` it would be
/// read back as a float.
fn large_whole(value: &Value) -> Option<u128> {
    let number = value.as_f64().filter(|number| value.is_f64() && number.fract() == 0.0)?;
    format!("{number:.0}").parse().ok()
}

/// Returns the content of `tokenizer_config.json`.
///
/// Later settings replace earlier ones: defaults, the tokens around documents, [`kept`](TransformersConfig::kept)
/// keys, and then the other fields of [`TransformersConfig`].
pub(in crate::vocab) fn tokenizer_config(options: &WriteOptions) -> ConfigJson {
    let TransformersConfig { pad, unk, mask, model_max_length, chat_template, kept } = &options.transformers;
    let token = |token: &Option<String>| token.as_ref().map(|token| json!(token));
    let mut entries = Map::new();
    let mut insert = |key: &str, value: Option<Value>| {
        value.map(|value| entries.insert(key.to_owned(), value));
    };
    insert(TOKENIZER_CLASS, Some(json!("PreTrainedTokenizerFast")));
    insert(CLEAN_UP, Some(json!(false)));
    insert(BOS, token(&options.bos));
    insert(EOS, token(&options.eos));
    kept.iter().for_each(|(key, value)| insert(key, Some(value.clone())));
    insert("pad_token", token(pad));
    insert("unk_token", token(unk));
    insert("mask_token", token(mask));
    insert(MODEL_MAX_LENGTH, model_max_length.map(|length| json!(length)));
    insert(CHAT_TEMPLATE, chat_template.as_ref().map(|template| json!(template)));
    ConfigJson(entries)
}

/// Reads how `transformers` should use a tokenizer from the files beside it: `tokenizer_config.json`,
/// `special_tokens_map.json`, `chat_template.jinja`, and the folder `additional_chat_templates`. `tokenizer` is the
/// tokenizer's file or folder. Of the special tokens, only those of the vocabulary are returned.
///
/// Special tokens that the vocabulary lacks, and unknown keys, are reported to `observer`.
///
/// # Errors
/// A file cannot be read or is damaged.
pub fn read_transformers_settings(
    tokenizer: &Path,
    vocabulary: &Vocabulary,
    observer: &dyn Observer,
) -> Result<WriteOptions> {
    let folder = if tokenizer.is_dir() { Some(tokenizer) } else { tokenizer.parent() };
    let folder = folder.unwrap_or(Path::new(""));
    let config = object(&folder.join(TOKENIZER_CONFIG))?;
    let specials = object(&folder.join(SPECIALS))?;
    // The same precedence as in `transformers`: a file that lists the added tokens overrides the older map of special
    // tokens, and any other file only adds to it.
    let mut settings = specials;
    if config.contains_key("added_tokens_decoder") {
        settings.extend(config);
    } else {
        config.into_iter().for_each(|(key, value)| {
            settings.entry(key).or_insert(value);
        });
    }
    let mut reader =
        SettingsReader { vocabulary, options: WriteOptions::default(), lacking: vec![], unknown: vec![] };
    for (key, value) in settings {
        reader.take(key, value);
    }
    if let Some(template) = separate_templates(folder)? {
        reader.options.transformers.kept.insert(CHAT_TEMPLATE.to_owned(), template);
    }
    reader.note_left_out(&folder.join(TOKENIZER_CONFIG), observer);
    Ok(reader.options)
}

/// Reports the settings that [`read_transformers_settings`] finds, if any, as left out, because only
/// [`Format::Hf`](crate::vocab::Format::Hf) has a place for them. Files that cannot be read are reported in the same
/// way and are no error.
pub fn note_left_out_settings(tokenizer: &Path, vocabulary: &Vocabulary, observer: &dyn Observer) {
    let left_out = match read_transformers_settings(tokenizer, vocabulary, &Silent) {
        Ok(options) if options.config_keys().is_empty() => return,
        Ok(options) => options.config_keys().join(", "),
        Err(error) => format!("the files beside the tokenizer, which cannot be read ({error})"),
    };
    observer.noted(&format!(
        "{}: left out, because only the format hf can hold it: {}",
        tokenizer.display(),
        left_out
    ));
}

/// Returns the JSON object in a file, or an empty one if the file does not exist. A file with another JSON value
/// counts as empty, too.
///
/// # Errors
/// The file cannot be read, or is not JSON.
fn object(path: &Path) -> Result<Map<String, Value>> {
    match read_json(path)? {
        Some(Value::Object(object)) => Ok(object),
        _ => Ok(Map::new()),
    }
}

/// The settings collected from the keys of the files.
struct SettingsReader<'a> {
    /// The vocabulary to which named tokens must belong.
    vocabulary: &'a Vocabulary,
    /// The settings so far.
    options: WriteOptions,
    /// Keys that name a token which is no special token of the vocabulary, each with the token's text.
    lacking: Vec<(String, String)>,
    /// Keys that are not known here.
    unknown: Vec<String>,
}

impl SettingsReader<'_> {
    /// Takes the setting under one key. A `null` and keys that say nothing new are dropped without a report.
    fn take(&mut self, key: String, value: Value) {
        let is_role = key.ends_with("_token") && text(&value).is_some();
        match &*key {
            _ if value.is_null() || ELSEWHERE.contains(&&*key) => {}
            _ if is_role => {
                let Some(token) = self.known(&key, &value) else { return };
                match &*key {
                    BOS => self.options.bos = Some(token),
                    EOS => self.options.eos = Some(token),
                    _ => self.keep(key, json!(token)),
                }
            }
            _ if LISTS.contains(&&*key) => match value {
                Value::Array(list) => {
                    let known: Vec<String> =
                        list.iter().filter_map(|token| self.known(&key, token)).collect();
                    if !known.is_empty() {
                        self.keep(key, json!(known));
                    }
                }
                Value::Object(by_name) => {
                    let known: Map<String, Value> = by_name
                        .into_iter()
                        .filter_map(|(name, token)| Some((name, json!(self.known(&key, &token)?))))
                        .collect();
                    if !known.is_empty() {
                        self.keep(key, json!(known));
                    }
                }
                _ => self.unknown.push(key),
            },
            MODEL_MAX_LENGTH if value.is_number() => self.keep(key, value),
            MAX_LEN if value.is_number() => {
                let kept = &mut self.options.transformers.kept;
                kept.entry(MODEL_MAX_LENGTH).or_insert(value);
            }
            CHAT_TEMPLATE if value.is_string() || is_list_of_templates(&value) => self.keep(key, value),
            _ if USES.contains(&&*key) => self.keep(key, value),
            _ if NAMED.contains(&&*key) && value == json!("") => {}
            _ => self.unknown.push(key),
        }
    }

    /// Keeps a value unchanged, in place of an earlier one.
    fn keep(&mut self, key: String, value: Value) {
        self.options.transformers.kept.insert(key, value);
    }

    /// Returns the special token that a key names. `None` if the vocabulary lacks it, which is recorded, or if the
    /// value names none.
    fn known(&mut self, key: &str, value: &Value) -> Option<String> {
        let token = text(value)?;
        if self.vocabulary.specials().any(|special| special.text == token) {
            return Some(token.to_owned());
        }
        self.lacking.push((key.to_owned(), token.to_owned()));
        None
    }

    /// Reports the settings that were left out to `observer`, with `path` as their origin.
    fn note_left_out(&self, path: &Path, observer: &dyn Observer) {
        /// Most tokens, and most keys, that are reported by name (10). A valid file has fewer.
        const MAX_LISTED: usize = 10;
        let path = path.display();
        for (key, token) in self.lacking.iter().take(MAX_LISTED) {
            observer.noted(&format!(
                "{path}: {key} {token:?} is left out, because the tokenizer has no such special token"
            ));
        }
        let more = self.lacking.len().saturating_sub(MAX_LISTED);
        if more > 0 {
            observer.noted(&format!("{path}: {more} more such tokens are left out"));
        }
        if !self.unknown.is_empty() {
            let keys: Vec<String> = self.unknown.iter().take(MAX_LISTED).map(|key| excerpt(key)).collect();
            let more = if self.unknown.len() > MAX_LISTED { " and others" } else { "" };
            observer.noted(&format!(
                "{path}: left out, because these keys are unknown: {}{more}",
                keys.join(", ")
            ));
        }
    }
}

/// Returns the text of a token. Older files have an object with the token's flags instead of a string. `None` for an
/// empty text and for other values.
fn text(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value["content"].as_str()).filter(|text| !text.is_empty())
}

/// Returns whether a value is a list of chat templates, each with a name and a text. An empty list is one.
fn is_list_of_templates(value: &Value) -> bool {
    let is_one = |one: &Value| one["name"].is_string() && one["template"].is_string();
    value.as_array().is_some_and(|list| list.iter().all(is_one))
}

/// The file with the chat template. `transformers` prefers it to `chat_template` in `tokenizer_config.json`.
const TEMPLATE_FILE: &str = "chat_template.jinja";

/// The folder of named templates, which also take precedence over that key.
const TEMPLATE_FOLDER: &str = "additional_chat_templates";

/// The name of the template that is used if none is named.
const DEFAULT_TEMPLATE: &str = "default";

/// The longest chat template, in bytes (16 MiB). Those in use have some tens of kilobytes.
const MAX_TEMPLATE_BYTES: u64 = 16 << 20;
/// The file in messages.
const CHAT_TEMPLATE_FILE: &str = "a chat template";

/// Returns the chat templates from files of their own in the form of `tokenizer_config.json`: one text, or a list of
/// named ones. `None` if the folder has no such files.
///
/// The template of [`TEMPLATE_FILE`] is named [`DEFAULT_TEMPLATE`] and comes first. The others follow by name.
///
/// # Errors
/// A file cannot be read or is no UTF-8, or the templates have more than [`MAX_TEMPLATE_BYTES`] together.
pub(crate) fn separate_templates(folder: &Path) -> Result<Option<Value>> {
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    let file = folder.join(TEMPLATE_FILE);
    if file.is_file() {
        files.push((DEFAULT_TEMPLATE.to_owned(), file));
    }
    let several = folder.join(TEMPLATE_FOLDER);
    if several.is_dir() {
        let cannot = |cause| Error::io("read", &several, cause);
        let mut named = Vec::new();
        for entry in fs::read_dir(&several).map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".jinja"));
            if let Some(name) = name.filter(|_| path.is_file()) {
                named.push((name.to_owned(), path));
            }
        }
        named.sort();
        files.extend(named);
    }
    if let [(name, file)] = &*files
        && name == DEFAULT_TEMPLATE
    {
        return Ok(Some(json!(read_template_file(file)?)));
    }
    let (mut templates, mut bytes) = (Vec::new(), 0);
    for (name, path) in &files {
        let template = read_template_file(path)?;
        bytes += to_u64(template.len());
        if bytes > MAX_TEMPLATE_BYTES {
            return Err(too_long(MAX_TEMPLATE_BYTES, CHAT_TEMPLATE_FILE).at(several.display()));
        }
        templates.push(json!({ "name": name, "template": template }));
    }
    Ok((!templates.is_empty()).then(|| json!(templates)))
}

/// Returns the file or folder from which `transformers` would take a chat template instead of the one in these
/// options, if it differs from it.
///
/// # Errors
/// A file of the folder cannot be read.
pub fn conflicting_chat_template(folder: &Path, options: &WriteOptions) -> Result<Option<PathBuf>> {
    let TransformersConfig { chat_template, kept, .. } = &options.transformers;
    let own = chat_template.as_ref().map(|template| json!(template));
    let Some(own) = own.or_else(|| kept.get(CHAT_TEMPLATE).cloned()) else { return Ok(None) };
    let other = separate_templates(folder)?.filter(|other| *other != own);
    let file = folder.join(TEMPLATE_FILE);
    Ok(other.map(|_| if file.is_file() { file } else { folder.join(TEMPLATE_FOLDER) }))
}

/// Reads a chat template from a file. Line breaks become `\n`, as in `transformers`, and a byte order mark is
/// removed.
///
/// # Errors
/// The file cannot be read, is longer than 16 MiB, is not UTF-8, or is empty.
pub fn read_chat_template(path: &Path) -> Result<String> {
    let text = read_template_file(path)?;
    if text.trim().is_empty() {
        return Err(Error::failed("the chat template is empty").at(path.display()));
    }
    Ok(text)
}

/// Reads a chat template, which may be empty here. Line breaks become `\n`.
///
/// # Errors
/// Those of [`read_chat_template`], except for an empty file.
fn read_template_file(path: &Path) -> Result<String> {
    let bytes = read_bytes_up_to(MAX_TEMPLATE_BYTES, CHAT_TEMPLATE_FILE, path)?;
    let text = String::from_utf8(bytes).map_err(|error| not_text(error).at(path.display()))?;
    Ok(text.replace("\r\n", "\n").replace('\r', "\n"))
}
