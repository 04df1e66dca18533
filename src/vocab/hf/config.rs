//! Reads and writes the settings of `transformers` beside a `tokenizer.json`.

use std::path::Path;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use super::template;
use crate::error::{Result, excerpt};
use crate::observer::{Observer, Silent};
use crate::vocab::Vocabulary;
use crate::vocab::beside::{LISTS, NAMED, SPECIALS};
use crate::vocab::format::{TransformersConfig, WriteOptions, read_json};

/// The name of the file that `transformers` expects beside a `tokenizer.json`.
pub(crate) const CONFIG: &str = "tokenizer_config.json";

const BOS: &str = "bos_token";
const EOS: &str = "eos_token";
const MODEL_MAX_LENGTH: &str = "model_max_length";
pub(super) const CHAT_TEMPLATE: &str = "chat_template";

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

/// The content of [`CONFIG`].
pub(in crate::vocab) struct Config(Map<String, Value>);

impl Serialize for Config {
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

impl Config {
    /// Returns the value of a key.
    pub(in crate::vocab) fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }
}

/// Returns a whole number above 64 bits, such as `int(1e30)`, which stands for an unlimited length. Written as
/// `1e30`, it would be read back as a float.
fn large_whole(value: &Value) -> Option<u128> {
    let number = value.as_f64().filter(|number| value.is_f64() && number.fract() == 0.0)?;
    format!("{number:.0}").parse().ok()
}

/// Returns the content of `tokenizer_config.json`.
pub(in crate::vocab) fn config(options: &WriteOptions) -> Config {
    let TransformersConfig { pad, unk, mask, model_max_length, chat_template, kept } = &options.transformers;
    let token = |token: &Option<String>| token.as_ref().map(|token| json!(token));
    let mut entries = Map::new();
    let mut insert = |key: &str, value: Option<Value>| {
        value.map(|value| entries.insert(key.to_owned(), value));
    };
    insert("tokenizer_class", Some(json!("PreTrainedTokenizerFast")));
    insert("clean_up_tokenization_spaces", Some(json!(false)));
    insert(BOS, token(&options.bos));
    insert(EOS, token(&options.eos));
    kept.iter().for_each(|(key, value)| insert(key, Some(value.clone())));
    insert("pad_token", token(pad));
    insert("unk_token", token(unk));
    insert("mask_token", token(mask));
    insert(MODEL_MAX_LENGTH, model_max_length.map(|length| json!(length)));
    insert(CHAT_TEMPLATE, chat_template.as_ref().map(|template| json!(template)));
    Config(entries)
}

/// Reads how `transformers` should use a tokenizer from the files beside it: `tokenizer_config.json`,
/// `special_tokens_map.json`, `chat_template.jinja`, and the folder `additional_chat_templates`. `tokenizer` is the
/// tokenizer's file or folder. Of the special tokens, only those of the vocabulary are returned.
///
/// Special tokens that the vocabulary lacks, and unknown keys, are reported to `observer`.
///
/// # Errors
/// A file cannot be read or is damaged.
pub fn named_beside(
    tokenizer: &Path,
    vocabulary: &Vocabulary,
    observer: &dyn Observer,
) -> Result<WriteOptions> {
    let folder = if tokenizer.is_dir() { Some(tokenizer) } else { tokenizer.parent() };
    let folder = folder.unwrap_or(Path::new(""));
    let config = object(&folder.join(CONFIG))?;
    let specials = object(&folder.join(SPECIALS))?;
    // The same precedence as in `transformers`: a file that lists the added tokens overrides the older map of special
    // tokens, and any other file only adds to it.
    let mut said = specials;
    if config.contains_key("added_tokens_decoder") {
        said.extend(config);
    } else {
        config.into_iter().for_each(|(key, value)| {
            said.entry(key).or_insert(value);
        });
    }
    let mut beside =
        Beside { vocabulary, options: WriteOptions::default(), lacking: vec![], unknown: vec![] };
    for (key, value) in said {
        beside.take(key, value);
    }
    if let Some(template) = template::beside(folder)? {
        beside.options.transformers.kept.insert(CHAT_TEMPLATE.to_owned(), template);
    }
    beside.tell(&folder.join(CONFIG), observer);
    Ok(beside.options)
}

/// Reports the settings that [`named_beside`] finds, if any, as left out, because only
/// [`Format::Hf`](crate::vocab::Format::Hf) has a place for them.
pub fn tell_left_out(tokenizer: &Path, vocabulary: &Vocabulary, observer: &dyn Observer) {
    let said = match named_beside(tokenizer, vocabulary, &Silent) {
        Ok(options) if options.config_keys().is_empty() => return,
        Ok(options) => options.config_keys().join(", "),
        Err(error) => format!("the files beside the tokenizer, which cannot be read ({error})"),
    };
    observer.noted(&format!(
        "{}: left out, because only the format hf can hold it: {}",
        tokenizer.display(),
        said
    ));
}

/// Returns the JSON object in a file, or an empty one if the file does not exist.
fn object(path: &Path) -> Result<Map<String, Value>> {
    match read_json(path)? {
        Some(Value::Object(object)) => Ok(object),
        _ => Ok(Map::new()),
    }
}

/// The settings collected from the keys of the files.
struct Beside<'a> {
    vocabulary: &'a Vocabulary,
    options: WriteOptions,
    /// Keys with tokens that are not special tokens of the vocabulary.
    lacking: Vec<(String, String)>,
    /// Keys that are not known here.
    unknown: Vec<String>,
}

impl Beside<'_> {
    /// Takes the setting under one key.
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

    fn keep(&mut self, key: String, value: Value) {
        self.options.transformers.kept.insert(key, value);
    }

    /// Returns the special token that a key names if the vocabulary has it, and records it as lacking otherwise.
    fn known(&mut self, key: &str, value: &Value) -> Option<String> {
        let token = text(value)?;
        if self.vocabulary.specials().any(|special| special.text == token) {
            return Some(token.to_owned());
        }
        self.lacking.push((key.to_owned(), token.to_owned()));
        None
    }

    /// Reports what was left out.
    fn tell(&self, path: &Path, observer: &dyn Observer) {
        /// Most tokens, and most keys, that are reported by name (10). A valid file has fewer.
        const MOST_TOLD: usize = 10;
        let path = path.display();
        for (key, token) in self.lacking.iter().take(MOST_TOLD) {
            observer.noted(&format!(
                "{path}: {key} {token:?} is left out, because the tokenizer has no such special token"
            ));
        }
        let more = self.lacking.len().saturating_sub(MOST_TOLD);
        if more > 0 {
            observer.noted(&format!("{path}: {more} more such tokens are left out"));
        }
        if !self.unknown.is_empty() {
            let keys: Vec<String> = self.unknown.iter().take(MOST_TOLD).map(|key| excerpt(key)).collect();
            let more = if self.unknown.len() > MOST_TOLD { " and others" } else { "" };
            observer.noted(&format!(
                "{path}: left out, because these keys are unknown: {}{more}",
                keys.join(", ")
            ));
        }
    }
}

/// Returns the text of a token. Older files have an object with the token's flags instead of a string.
fn text(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value["content"].as_str()).filter(|text| !text.is_empty())
}

fn is_list_of_templates(value: &Value) -> bool {
    let is_one = |one: &Value| one["name"].is_string() && one["template"].is_string();
    value.as_array().is_some_and(|list| list.iter().all(is_one))
}
