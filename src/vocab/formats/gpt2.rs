//! GPT-2's `vocab.json` and `merges.txt`, and the files that `transformers` keeps beside them. Those list the added
//! tokens, say which of them are special, and configure how the tokenizer is used.
//!
//! Tokens are stored as strings in GPT-2's byte alphabet, called keys here. A [`JsonVocabulary`] is a vocabulary in
//! this form, which `tokenizer.json` shares.

use std::collections::BTreeMap;
use std::path::Path;

use rustc_hash::FxHashSet;
use serde::Deserialize;
use serde_json::Value;

use super::transformers::{LISTS, NAMED, SPECIALS};
use crate::base::folder_of;
use crate::base::hash::{Map, Set};
use crate::base::int::{TokenId, truncate_to_u32};
use crate::error::{Error, Result, excerpt};
use crate::observer::Observer;
use crate::split::{NamedPattern, SplitPattern, byte_alphabet};
use crate::vocab::derivation::check;
use crate::vocab::format::{
    EQUAL_RANKS, Format, IGNORES_MERGES, MERGES, TOKENIZER_CONFIG, VOCABULARY, cannot_hold, expected,
    id_twice, not_json, only_hf_holds, token_twice, unsupported,
};
use crate::vocab::io::{LoadOptions, Rendered, VocabularyEntries, pretty, read_bytes, read_json, read_text};
use crate::vocab::text_rules::{AddedToken, BosEosTemplate, Normalizer, SpecialToken, TextRules};
use crate::vocab::vocabulary::{RankedMerge, Vocabulary, VocabularyParts};

/// Splits a merge written as two keys with one space between them. `None` if there are not exactly two, both not
/// empty. Keys contain no space, since the byte alphabet spells it otherwise.
pub(crate) fn two_keys(text: &str) -> Option<(&str, &str)> {
    let (left, right) = text.split_once(' ')?;
    (!left.is_empty() && !right.is_empty() && !right.contains(' ')).then_some((left, right))
}

/// The beginning of the first line of [`MERGES`]. Readers skip every line that begins with it.
pub(in crate::vocab) const HEADER: &str = "#version";

/// The names of both files where OpenAI published them.
const PUBLISHED: [&str; 2] = ["encoder.json", "vocab.bpe"];

/// The names that the two files may have, the usual ones first.
pub(in crate::vocab) const NAMES: [[&str; 2]; 2] = [[VOCABULARY, MERGES], PUBLISHED];

/// Reads both files, given the path of either, and the [files beside them](CompanionFiles). The format has no place
/// for a split. It is that of the tokenizer class in the files beside, if the class is known; the options may not name
/// another one then. Otherwise it is that of the options, or else GPT-2's.
/// The special tokens are those that are named, and the tokens of several bytes that no merge makes.
///
/// # Errors
/// A file is missing, cannot be read or is damaged; a key is not in the byte alphabet; the options name another split
/// than that of the tokenizer class; or the parts break an invariant of [`Vocabulary`].
pub(in crate::vocab) fn load(
    path: &Path,
    options: &LoadOptions,
    observer: &dyn Observer,
) -> Result<Vocabulary> {
    let folder = folder_of(path);
    let is_one =
        |names: &&[&str; 2]| names.iter().any(|name| path.file_name().is_some_and(|own| own == *name));
    let names = NAMES.iter().find(is_one).unwrap_or(&NAMES[0]);
    let [vocabulary, merges] = names.map(|name| folder.join(name));
    let entries: VocabularyEntries = serde_json::from_slice(&read_bytes(&vocabulary)?)
        .map_err(|error| not_json(error).at(vocabulary.display()))?;
    let pairs = pairs(&read_text(&merges)?).map_err(|error| error.at(merges.display()))?;
    let keyed = JsonVocabulary { entries, merges: pairs };
    let ids = keyed.ids().map_err(|error| error.at(vocabulary.display()))?;
    let CompanionFiles { mut added, split, rules, bos_eos_template } =
        CompanionFiles::read(folder, &ids, options, observer)?;
    let key_ids = keyed.entries.0.iter().map(|(_, id)| *id);
    SpecialToken::add_new(&options.special_tokens, &mut added, key_ids, |text| ids.contains_key(text));
    let named: Set<String> = added.iter().map(|token| token.text.clone()).collect();
    added.extend(specials(&keyed).into_iter().filter(|token| !named.contains(&token.text)));
    AddedToken::clear_idle_normalized(&mut added, !rules.normalizers.is_empty());
    let parts = keyed.parts(added, split, false);
    let parts = parts.map(|parts| VocabularyParts { rules, bos_eos_template, ..parts });
    parts.and_then(|parts| parts.build()).map_err(|error| error.at(vocabulary.display()))
}

/// Reads the pairs of `merges.txt`. Empty lines and headers are skipped, as its readers skip them.
///
/// # Errors
/// A line is not two keys, with its number in the file.
fn pairs(text: &str) -> Result<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        if line.is_empty() || line.starts_with(HEADER) {
            continue;
        }
        let (left, right) = two_keys(line).ok_or_else(|| expected(number, "two tokens", line))?;
        pairs.push((left.to_owned(), right.to_owned()));
    }
    Ok(pairs)
}

/// Returns the keys of several bytes that no merge makes, as special tokens.
///
/// The format has no list of special tokens, and merging can never produce these.
fn specials(keyed: &JsonVocabulary) -> Vec<AddedToken> {
    let made: Set<String> = keyed.merges.iter().map(|(left, right)| [&**left, right].concat()).collect();
    let is_byte = |key: &str| byte_alphabet::read(key).is_some_and(|bytes| bytes.len() == 1);
    let plain = |key: &str| key.is_empty() || made.contains(key) || is_byte(key);
    let without_merge = keyed.entries.0.iter().filter(|(key, _)| !plain(key));
    without_merge.map(|(text, id)| AddedToken::special(*id, text)).collect()
}

/// Writes both files.
///
/// # Errors
/// The format cannot hold the vocabulary.
pub(in crate::vocab) fn render(vocabulary: &Vocabulary) -> Result<Rendered> {
    let keyed = limited(vocabulary)?;
    let mut merges = format!("{HEADER}: 0.2\n");
    for (left, right) in &keyed.merges {
        merges.extend([left, " ", right, "\n"]);
    }
    Ok([pretty(&keyed.entries), merges.into_bytes()])
}

/// Returns the keys and merges, unless the format cannot express the vocabulary.
///
/// # Errors
/// The first property found that the format has no place for.
fn limited(vocabulary: &Vocabulary) -> Result<JsonVocabulary> {
    vocabulary.check_not_hf_only(Format::Gpt2)?;
    let cannot = |problem: String| only_hf_holds(Format::Gpt2, problem);
    if vocabulary.split != SplitPattern::Named(NamedPattern::Gpt2) {
        return Err(cannot("it does not split text as GPT-2 does".to_owned()));
    }
    if vocabulary.ignore_merges && check(vocabulary).not_self_encoding > 0 {
        return Err(cannot(IGNORES_MERGES.to_owned()));
    }
    let made: FxHashSet<_> = vocabulary.merges.iter().map(|merge| merge.result).collect();
    if let Some((id, _)) = vocabulary.ordinary().find(|(id, bytes)| bytes.len() > 1 && !made.contains(id)) {
        return Err(cannot(format!("no merge makes token {id}")));
    }
    let keyed = JsonVocabulary::of(vocabulary, Format::Gpt2)?;
    match keyed.merges.iter().position(|(left, _)| left.starts_with(HEADER)) {
        Some(index) => Err(cannot(format!("merge {} would be read as a header line", index + 1))),
        None => Ok(keyed),
    }
}

/// A vocabulary's keys with their ids, and its merges as pairs of keys, by ascending rank.
///
/// Nothing is checked yet: keys may repeat, and merges may name keys that do not exist.
pub(in crate::vocab) struct JsonVocabulary {
    /// The keys with their ids.
    pub(in crate::vocab) entries: VocabularyEntries,
    /// The merges as pairs of keys, by ascending rank.
    pub(in crate::vocab) merges: Vec<(String, String)>,
}

impl JsonVocabulary {
    /// Returns the parts of a vocabulary. A key with the text and id of an added token is that token. It is an
    /// ordinary token, too, if merges make or use it, if it is a single byte, or if a whole pre-token can become it.
    ///
    /// # Errors
    /// A key occurs twice, is not spelled in the byte alphabet, or has another id than the added token with its text;
    /// or a merge needs a key that is missing.
    pub(in crate::vocab) fn parts(
        &self,
        added: Vec<AddedToken>,
        split: SplitPattern,
        ignore_merges: bool,
    ) -> Result<VocabularyParts> {
        let ids = self.ids()?;
        let merges = self.ranked(&ids)?;
        let mut in_merges = FxHashSet::default();
        if !added.is_empty() {
            in_merges.extend(merges.iter().flat_map(|merge| [merge.left, merge.right, merge.result]));
        }
        let texts: Map<&str, &AddedToken> = added.iter().map(|token| (&*token.text, token)).collect();
        let mut tokens = Vec::with_capacity(self.entries.0.len());
        for (key, id) in &self.entries.0 {
            let bytes = byte_alphabet::read(key);
            if let Some(token) = texts.get(&**key) {
                if token.id != *id {
                    return Err(Error::failed(format!(
                        "added token {} has id {}, but the vocabulary gives it id {id}",
                        excerpt(key),
                        token.id
                    )));
                }
                let is_byte = bytes.as_ref().is_some_and(|bytes| bytes.len() == 1);
                let is_pretoken = ignore_merges && bytes.is_some() && !token.special;
                if !is_byte && !in_merges.contains(id) && !is_pretoken {
                    continue;
                }
            }
            let bytes = bytes.ok_or_else(|| {
                Error::failed(format!(
                    "token {id} ({}) is not written in the byte alphabet of GPT-2",
                    excerpt(key)
                ))
                .with_help("only byte-level BPE tokenizers can be used")
            })?;
            tokens.push((*id, bytes));
        }
        Ok(VocabularyParts { tokens, added, merges, split, ignore_merges, ..VocabularyParts::default() })
    }

    /// Returns the merges with ids instead of keys, ranked in their order.
    ///
    /// The result of a merge is the key that both parts make when joined.
    ///
    /// # Errors
    /// A merge needs a key that is missing.
    fn ranked(&self, ids: &Map<&str, TokenId>) -> Result<Vec<RankedMerge>> {
        let mut merges = Vec::with_capacity(self.merges.len());
        for (index, (left, right)) in self.merges.iter().enumerate() {
            let id = |key: &str| {
                ids.get(key).copied().ok_or_else(|| {
                    let (merge, [left, right, key]) = (index + 1, [left.as_str(), right, key].map(excerpt));
                    Error::failed(format!(
                        "merge {merge} ({left} {right}) needs token {key}, which the vocabulary lacks"
                    ))
                })
            };
            let result = id(&[&**left, right].concat())?;
            merges.push(RankedMerge {
                left: id(left)?,
                right: id(right)?,
                result,
                rank: truncate_to_u32(index),
            });
        }
        Ok(merges)
    }

    /// Returns the id of each key.
    ///
    /// # Errors
    /// A key occurs twice.
    pub(in crate::vocab) fn ids(&self) -> Result<Map<&str, TokenId>> {
        let mut ids = Map::default();
        for (key, id) in &self.entries.0 {
            if ids.insert(&**key, *id).is_some() {
                return Err(token_twice(key));
            }
        }
        Ok(ids)
    }

    /// Returns the keys and merges of a vocabulary, in order of ids and ranks. Tokens that are only added ones become
    /// keys, too, spelled as their text, because a reader would give another id to a token that is not among the
    /// keys. With `ignore_merges`, those that are not special are left out, because a pre-token that equals their key
    /// would become them.
    ///
    /// # Errors
    /// Two tokens would have the same key, or merges share a rank.
    pub(in crate::vocab) fn of(vocabulary: &Vocabulary, format: Format) -> Result<JsonVocabulary> {
        let added_only = |id: TokenId| vocabulary.added_token(id).filter(|_| vocabulary.is_added_only(id));
        let mut entries = Vec::new();
        let mut seen = Map::default();
        for (id, bytes) in vocabulary.tokens() {
            let added = added_only(id);
            if vocabulary.ignore_merges && added.is_some_and(|added| !added.special) {
                continue;
            }
            let key = added.map_or_else(|| byte_alphabet::spell(bytes), |added| added.text.clone());
            if let Some(first) = seen.insert(key.clone(), id) {
                let text = |id| added_only(id).map(|added| &added.text);
                let added = text(id).map(|text| (text, first)).or(text(first).map(|text| (text, id)));
                let problem = match added {
                    Some((text, id)) => {
                        format!("added token {} would be spelled like token {id}", excerpt(text))
                    }
                    None => format!("tokens {first} and {id} have equal bytes"),
                };
                return Err(cannot_hold(format, problem));
            }
            entries.push((key, id));
        }
        if !vocabulary.merges.is_sorted_by(|earlier, later| earlier.rank < later.rank) {
            return Err(cannot_hold(format, EQUAL_RANKS));
        }
        let key = |id| byte_alphabet::spell(vocabulary.bytes(id).unwrap_or_default());
        let merges = vocabulary.merges.iter().map(|merge| (key(merge.left), key(merge.right))).collect();
        Ok(JsonVocabulary { entries: VocabularyEntries(entries), merges })
    }
}

/// The file with the ids of the added tokens. Old files have it; newer ones list these tokens in
/// [`TOKENIZER_CONFIG`].
const ADDED: &str = "added_tokens.json";

/// Classes of transformers that use GPT-2's files and split. `Fast` at the end of a name is removed before.
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
///
/// Missing files are as good as empty ones: the class is then GPT-2's, and no token is added.
pub(in crate::vocab) struct CompanionFiles {
    /// The added tokens, by ascending id.
    pub(in crate::vocab) added: Vec<AddedToken>,
    /// The pattern that splits text into pre-tokens.
    pub(in crate::vocab) split: SplitPattern,
    /// The changes that a text undergoes before it is split.
    pub(in crate::vocab) rules: TextRules,
    /// The tokens that the program from which the tokenizer comes puts around a text.
    pub(in crate::vocab) bos_eos_template: BosEosTemplate,
}

/// A token with its flags, as JSON objects name it. Missing flags are `false`.
#[derive(Deserialize)]
struct ListedToken {
    /// The token's text.
    content: String,
    /// As in [`AddedToken`], like the other flags.
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

impl ListedToken {
    /// Creates a token from its text alone. It is searched for in the normalized text, unless it is special.
    fn plain(content: &str, special: bool) -> ListedToken {
        let content = content.to_owned();
        ListedToken { content, single_word: false, lstrip: false, rstrip: false, normalized: None, special }
    }

    /// Returns the token that a string or an object names, if any.
    fn named(value: &Value) -> Option<ListedToken> {
        let token = match value {
            Value::String(text) => ListedToken::plain(text, true),
            value => ListedToken { special: true, ..ListedToken::deserialize(value).ok()? },
        };
        (!token.content.is_empty()).then_some(token)
    }

    /// Returns the token with an id. A flag `normalized` that is not given follows from `special`.
    fn token(self, id: TokenId) -> AddedToken {
        let ListedToken { content: text, single_word, lstrip, rstrip, normalized, special } = self;
        let normalized = normalized.unwrap_or(!special);
        AddedToken { id, text, special, single_word, lstrip, rstrip, normalized }
    }
}

impl CompanionFiles {
    /// Reads the files of a folder. `ids` are the ids of its vocabulary. The split of `options` is used if the tokenizer
    /// class does not decide it.
    ///
    /// Special tokens that no file gives an id, and a class with an unknown way to split, are reported to `observer`.
    ///
    /// # Errors
    /// A file cannot be read or is damaged, or the class is one that cannot be reproduced, or has another split than
    /// that of the options.
    pub(in crate::vocab) fn read(
        folder: &Path,
        ids: &Map<&str, TokenId>,
        options: &LoadOptions,
        observer: &dyn Observer,
    ) -> Result<CompanionFiles> {
        let path = folder.join(TOKENIZER_CONFIG);
        let config: Value = read_json(&path)?.unwrap_or_default();
        let mut listed: BTreeMap<TokenId, ListedToken> = BTreeMap::new();
        // If this key exists, transformers does not read the list of added tokens.
        if let Some(decoder) = config.get("added_tokens_decoder").filter(|decoder| !decoder.is_null()) {
            listed = BTreeMap::deserialize(decoder).map_err(|error| not_json(error).at(path.display()))?;
        } else {
            let path = folder.join(ADDED);
            let added: VocabularyEntries = read_json(&path)?.unwrap_or_default();
            for (text, id) in added.0 {
                if listed.insert(id, ListedToken::plain(&text, false)).is_some() {
                    return Err(id_twice(id).at(path.display()));
                }
            }
        }
        let listed_ids: Map<String, TokenId> =
            listed.iter().map(|(id, token)| (token.content.clone(), *id)).collect();
        let named: Value = read_json(&folder.join(SPECIALS))?.unwrap_or_default();
        let mut seen = Set::default();
        for token in named_in(&config).chain(named_in(&named)) {
            if !seen.insert(token.content.clone()) {
                continue;
            }
            if let Some(known) = listed_ids.get(&token.content).and_then(|id| listed.get_mut(id)) {
                // A token that is only listed has no flags of its own.
                match known.normalized {
                    Some(_) => known.special = true,
                    None => *known = token,
                }
            } else if let Some(id) = ids.get(&*token.content) {
                listed.insert(*id, token);
            } else {
                observer.noted(&format!(
                    "{}: special token {:?} is left out, because no file gives it an id",
                    folder.display(),
                    token.content
                ));
            }
        }
        let added: Vec<AddedToken> = listed.into_iter().map(|(id, token)| token.token(id)).collect();
        let (known, nfc) = class(&config, &path)?;
        let bos_eos_template = template_of_config(&config, &added, &path, observer);
        let known = known.map(|known| options.same_split(known).map_err(|error| error.at(path.display())));
        let split = known.transpose()?.or_else(|| options.split.clone()).unwrap_or_else(|| {
            if let Some(class) = config["tokenizer_class"].as_str() {
                observer.noted(&format!(
                    "{}: the split of {class} is unknown, so text is split as GPT-2 does it; choose another split with \
                     `--split`",
                    path.display()
                ));
            }
            SplitPattern::Named(NamedPattern::Gpt2)
        });
        let prefix_space = config["add_prefix_space"] == Value::Bool(true);
        Ok(CompanionFiles {
            added,
            split,
            rules: TextRules {
                normalizers: if nfc { vec![Normalizer::Nfc] } else { Vec::new() },
                prefix_space,
            },
            bos_eos_template,
        })
    }
}

/// Returns the special tokens that a file names. Single tokens come first, then those of lists. A token may be named
/// several times.
fn named_in(file: &Value) -> impl Iterator<Item = ListedToken> {
    let named = NAMED.iter().map(|key| &file[key]);
    let lists = LISTS.iter().flat_map(|key| match &file[key] {
        Value::Array(list) => list.iter().collect(),
        Value::Object(by_name) => by_name.values().collect(),
        _ => Vec::new(),
    });
    named.chain(lists).filter_map(ListedToken::named)
}

/// Returns how a class of transformers splits text, if known, and whether it brings text into normalization form C.
///
/// A split of `None` means that the class is unknown, or that there is none.
///
/// # Errors
/// The class gives ids that cannot be reproduced.
fn class(config: &Value, path: &Path) -> Result<(Option<SplitPattern>, bool)> {
    let Some(class) = config["tokenizer_class"].as_str() else {
        return Ok((None, false));
    };
    match class.strip_suffix("Fast").unwrap_or(class) {
        "Qwen2Tokenizer" => Ok((Some(SplitPattern::Named(NamedPattern::Qwen2)), true)),
        // It marks the ends of words and converts text to lower case.
        "CLIPTokenizer" => Err(unsupported(format!("tokenizer_class {class}")).at(path.display())),
        known if AS_GPT2.contains(&known) => Ok((Some(SplitPattern::Named(NamedPattern::Gpt2)), false)),
        _ => Ok((None, false)),
    }
}

/// Returns the tokens that the program from which the tokenizer comes puts around a text, and reports them as left out.
/// A token is put there only if the file asks for it and it is an added token.
fn template_of_config(
    config: &Value,
    added: &[AddedToken],
    path: &Path,
    observer: &dyn Observer,
) -> BosEosTemplate {
    let id = |asked: &str, key: &str| {
        let named = (config[asked] == Value::Bool(true)).then(|| ListedToken::named(&config[key]))??;
        let token = added.iter().find(|token| token.text == named.content)?;
        observer.noted(&format!(
            "{}: {asked}, which adds {:?} to a text, is ignored; set bos and eos instead",
            path.display(),
            token.text
        ));
        Some(token.id)
    };
    BosEosTemplate {
        before: id("add_bos_token", "bos_token").into_iter().collect(),
        after: id("add_eos_token", "eos_token").into_iter().collect(),
    }
}
