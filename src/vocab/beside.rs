//! The files that transformers keeps beside `vocab.json` and `merges.txt`. They list the added tokens, say which of
//! them are special, and configure how the tokenizer is used.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::fault::Fault;
use super::format::read_json;
use super::hf::CONFIG;
use super::keyed::Entries;
use super::{AddedToken, Around, Normalizer, TextRules};
use crate::base::hash::{Map, Set};
use crate::base::int::TokenId;
use crate::error::Result;
use crate::observer::Observer;
use crate::split::{Named, SplitPattern};

/// The file with the ids of the added tokens.
const ADDED: &str = "added_tokens.json";

/// The file that names the special tokens.
pub(super) const SPECIALS: &str = "special_tokens_map.json";

/// The keys that name one special token each.
pub(super) const NAMED: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// The keys that name several special tokens.
pub(super) const LISTS: [&str; 2] = ["additional_special_tokens", "extra_special_tokens"];

/// Classes of transformers that use GPT-2's files and split.
const AS_GPT2: [&str; 9] = [
    "GPT2Tokenizer",
    "RobertaTokenizer",
    "BartTokenizer",
    "LongformerTokenizer",
    "LEDTokenizer",
    "BlenderbotTokenizer",
    "CodeGenTokenizer",
    "DebertaTokenizer",
    "WhisperTokenizer",
];

/// The content of the files beside a vocabulary.
pub(super) struct Beside {
    /// The added tokens, by ascending id.
    pub(super) added: Vec<AddedToken>,
    /// The pattern that splits text into pre-tokens.
    pub(super) split: SplitPattern,
    /// The changes that a text undergoes before it is split.
    pub(super) rules: TextRules,
    /// The tokens that the tokenizer's own program puts around a text.
    pub(super) around: Around,
}

/// A token with its flags, as JSON objects name it.
#[derive(Deserialize)]
struct Written {
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    /// `None` if the file does not say: `true` unless the token is special.
    normalized: Option<bool>,
    #[serde(default)]
    special: bool,
}

impl Written {
    /// Creates a token of which only the text is known. It is searched for in the normalized text, unless it is
    /// special.
    fn plain(content: &str, special: bool) -> Written {
        let content = content.to_owned();
        Written { content, single_word: false, lstrip: false, rstrip: false, normalized: None, special }
    }

    /// Returns the token that a string or an object names, if any.
    fn named(value: &Value) -> Option<Written> {
        let written = match value {
            Value::String(text) => Written::plain(text, true),
            value => Written { special: true, ..Written::deserialize(value).ok()? },
        };
        (!written.content.is_empty()).then_some(written)
    }

    fn token(self, id: TokenId) -> AddedToken {
        let Written { content: text, single_word, lstrip, rstrip, normalized, special } = self;
        let normalized = normalized.unwrap_or(!special);
        AddedToken { id, text, special, single_word, lstrip, rstrip, normalized }
    }
}

impl Beside {
    /// Reads the files of a folder. `ids` are the ids of its vocabulary. `split` is used if given; otherwise the
    /// tokenizer class decides.
    ///
    /// Special tokens that no file gives an id, and a class with an unknown way to split, are reported to `observer`.
    ///
    /// # Errors
    /// A file cannot be read or is damaged, or the class is one that cannot be reproduced.
    pub(super) fn read(
        folder: &Path,
        ids: &Map<&str, TokenId>,
        split: Option<SplitPattern>,
        observer: &dyn Observer,
    ) -> Result<Beside> {
        let path = folder.join(CONFIG);
        let config: Value = read_json(&path)?.unwrap_or_default();
        let mut listed: BTreeMap<TokenId, Written> = BTreeMap::new();
        // If this key exists, transformers does not read the list of added tokens.
        if let Some(decoder) = config.get("added_tokens_decoder").filter(|decoder| !decoder.is_null()) {
            listed = BTreeMap::deserialize(decoder).map_err(|wrong| Fault::Json(wrong).in_file(&path))?;
        } else {
            let path = folder.join(ADDED);
            let added: Entries = read_json(&path)?.unwrap_or_default();
            for (text, id) in added.0 {
                if listed.insert(id, Written::plain(&text, false)).is_some() {
                    return Err(Fault::IdTwice(id).in_file(&path));
                }
            }
        }
        let listed_ids: Map<String, TokenId> =
            listed.iter().map(|(id, written)| (written.content.clone(), *id)).collect();
        let named: Value = read_json(&folder.join(SPECIALS))?.unwrap_or_default();
        let mut seen = Set::default();
        for written in named_in(&config).chain(named_in(&named)) {
            if !seen.insert(written.content.clone()) {
                continue;
            }
            if let Some(known) = listed_ids.get(&written.content).and_then(|id| listed.get_mut(id)) {
                // A token that is only listed has no flags of its own.
                match known.normalized {
                    Some(_) => known.special = true,
                    None => *known = written,
                }
            } else if let Some(id) = ids.get(&*written.content) {
                listed.insert(*id, written);
            } else {
                observer.noted(&format!(
                    "{}: special token {:?} is left out, because no file gives it an id",
                    folder.display(),
                    written.content
                ));
            }
        }
        let added: Vec<AddedToken> = listed.into_iter().map(|(id, written)| written.token(id)).collect();
        let (known, nfc) = class(&config, &path)?;
        let around = around(&config, &added, &path, observer);
        let split = split.or(known).unwrap_or_else(|| {
            if let Some(class) = config["tokenizer_class"].as_str() {
                observer.noted(&format!(
                    "{}: the split of {class} is unknown, so text is split as GPT-2 does it; choose another split with \
                     `--split`",
                    path.display()
                ));
            }
            SplitPattern::Named(Named::Gpt2)
        });
        let prefix_space = config["add_prefix_space"] == Value::Bool(true);
        Ok(Beside {
            added,
            split,
            rules: TextRules {
                normalizers: if nfc { vec![Normalizer::Nfc] } else { Vec::new() },
                prefix_space,
            },
            around,
        })
    }
}

/// Returns the special tokens that a file names.
fn named_in(file: &Value) -> impl Iterator<Item = Written> {
    let named = NAMED.iter().map(|key| &file[key]);
    let lists = LISTS.iter().flat_map(|key| match &file[key] {
        Value::Array(list) => list.iter().collect(),
        Value::Object(by_name) => by_name.values().collect(),
        _ => Vec::new(),
    });
    named.chain(lists).filter_map(Written::named)
}

/// Returns how a class of transformers splits text, if known, and whether it brings text into normalization form C.
fn class(config: &Value, path: &Path) -> Result<(Option<SplitPattern>, bool)> {
    let Some(class) = config["tokenizer_class"].as_str() else {
        return Ok((Some(SplitPattern::Named(Named::Gpt2)), false));
    };
    match class.strip_suffix("Fast").unwrap_or(class) {
        "Qwen2Tokenizer" => Ok((Some(SplitPattern::Named(Named::Qwen2)), true)),
        // It marks the ends of words and converts text to lower case.
        "CLIPTokenizer" => Err(Fault::unsupported(format!("tokenizer_class {class}")).in_file(path)),
        known if AS_GPT2.contains(&known) => Ok((Some(SplitPattern::Named(Named::Gpt2)), false)),
        _ => Ok((None, false)),
    }
}

/// Returns the tokens that the tokenizer's own program puts around a text, and reports them as left out.
fn around(config: &Value, added: &[AddedToken], path: &Path, observer: &dyn Observer) -> Around {
    let id = |asked: &str, key: &str| {
        let written = (config[asked] == Value::Bool(true)).then(|| Written::named(&config[key]))??;
        let token = added.iter().find(|token| token.text == written.content)?;
        observer.noted(&format!(
            "{}: {asked}, which adds {:?} to a text, is ignored; set bos and eos instead",
            path.display(),
            token.text
        ));
        Some(token.id)
    };
    Around {
        before: id("add_bos_token", "bos_token").into_iter().collect(),
        after: id("add_eos_token", "eos_token").into_iter().collect(),
    }
}
