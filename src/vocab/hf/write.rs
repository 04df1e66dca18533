//! Writes `tokenizer.json`, and finds what users of the file should know.

use serde::Serialize;
use serde::ser::Serializer;
use serde_json::{Value, json};

use super::around;
use super::config::config;
use super::cut::{BEHAVIORS, NUMBER, PUNCTUATION};
use crate::base::hash::Map;
use crate::base::int::{TokenId, truncate_to_u32};
use crate::error::Result;
use crate::split::{Named, SplitPattern, SplitStep};
use crate::vocab::fault::{Fault, Foreign, Limit};
use crate::vocab::format::{Format, Rendered, WriteOptions};
use crate::vocab::gpt2::HEADER;
use crate::vocab::keyed::{Entries, Keyed};
use crate::vocab::{AddedToken, Normalizer, Vocabulary, alphabet};

/// The name of the file that Hugging Face's tokenizers reads.
pub(crate) const TOKENIZER: &str = "tokenizer.json";

/// The content of a `tokenizer.json`, with the fields in the order in which `tokenizers` writes them.
#[derive(Serialize)]
struct File<'a> {
    version: &'static str,
    truncation: (),
    padding: (),
    added_tokens: Vec<Added<'a>>,
    normalizer: Option<Value>,
    pre_tokenizer: Value,
    post_processor: Option<Value>,
    decoder: Value,
    model: Model,
}

#[derive(Serialize)]
struct Added<'a> {
    id: u32,
    content: &'a str,
    single_word: bool,
    lstrip: bool,
    rstrip: bool,
    normalized: bool,
    special: bool,
}

#[derive(Serialize)]
struct Model {
    r#type: &'static str,
    dropout: (),
    unk_token: Option<String>,
    continuing_subword_prefix: (),
    end_of_word_suffix: (),
    fuse_unk: bool,
    byte_fallback: bool,
    ignore_merges: bool,
    vocab: Entries,
    merges: Pairs,
}

/// Merges, written as `"a b"`, which every version of tokenizers reads; no key contains a space. If one of them would
/// look like a [header](HEADER), they are written as `["a", "b"]`, which versions from 0.20 on read.
struct Pairs(Vec<(String, String)>);

impl Serialize for Pairs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.iter().any(|(left, _)| left.starts_with(HEADER)) {
            return serializer.collect_seq(&self.0);
        }
        serializer.collect_seq(self.0.iter().map(|(left, right)| format!("{left} {right}")))
    }
}

/// Writes `tokenizer.json` and `tokenizer_config.json`.
///
/// # Errors
/// The format cannot hold the vocabulary.
pub(crate) fn render(vocabulary: &Vocabulary, options: &WriteOptions) -> Result<Rendered> {
    let cannot = |limit: Limit| Fault::cannot_hold(Format::Hf, limit);
    let keyed = Keyed::of(vocabulary).map_err(cannot)?;
    numbered(vocabulary, &keyed).map_err(cannot)?;
    let Keyed { entries, merges } = keyed;
    let unknown = vocabulary.unknown.as_ref();
    let key =
        |id| entries.0.iter().find(|(_, other)| *other == id).map(|(key, _)| key.clone()).unwrap_or_default();
    let file = File {
        version: "1.0",
        truncation: (),
        padding: (),
        added_tokens: vocabulary.added.iter().map(added).collect(),
        normalizer: normalizer(&vocabulary.rules.normalizers),
        pre_tokenizer: pre_tokenizer(vocabulary)?,
        post_processor: around::write(vocabulary),
        decoder: byte_level(false, false),
        model: Model {
            r#type: "BPE",
            dropout: (),
            unk_token: unknown.map(|token| token.id.map_or(token.text.clone(), key)),
            continuing_subword_prefix: (),
            end_of_word_suffix: (),
            fuse_unk: unknown.is_some_and(|token| token.fuse),
            byte_fallback: false,
            ignore_merges: vocabulary.ignore_merges,
            vocab: entries,
            merges: Pairs(merges),
        },
    };
    Ok([pretty(&file), pretty(&config(options))])
}

fn normalizer(normalizers: &[Normalizer]) -> Option<Value> {
    match normalizers {
        [] => None,
        [normalizer] => Some(json!(normalizer)),
        _ => Some(json!({ "type": "Sequence", "normalizers": normalizers })),
    }
}

/// Refuses added tokens that are no keys and have other ids than tokenizers will count for them.
fn numbered(vocabulary: &Vocabulary, keyed: &Keyed) -> Result<(), Limit> {
    let ids = keyed.entries.0.iter().map(|(key, id)| (&**key, *id)).collect();
    let mut numbers = vocabulary.added.iter().zip(counted(&vocabulary.added, &ids));
    match numbers.find(|(token, counted)| token.id != *counted) {
        Some((token, counted)) => Err(Limit::AddedNumber { text: token.text.clone(), id: token.id, counted }),
        None => Ok(()),
    }
}

/// Returns the ids that tokenizers gives to added tokens, in the order in which they are listed. A token that is a
/// key has the key's id. The others are numbered consecutively from the number of keys on, whatever ids the keys
/// have.
pub(super) fn counted(added: &[AddedToken], ids: &Map<&str, TokenId>) -> Vec<TokenId> {
    let mut next = truncate_to_u32(ids.len());
    let count = |token: &AddedToken| {
        ids.get(&*token.text).copied().unwrap_or_else(|| {
            let id = TokenId::new(next);
            next = next.saturating_add(1);
            id
        })
    };
    added.iter().map(count).collect()
}

fn added(token: &AddedToken) -> Added<'_> {
    let AddedToken { id, text, special, single_word, lstrip, rstrip, normalized } = token;
    Added {
        id: id.get(),
        content: text,
        single_word: *single_word,
        lstrip: *lstrip,
        rstrip: *rstrip,
        normalized: *normalized,
        special: *special,
    }
}

/// Returns the pre-tokenizer. A vocabulary without a split needs one, too: it converts bytes to the alphabet of the
/// keys, and without it spaces would be lost.
fn pre_tokenizer(vocabulary: &Vocabulary) -> Result<Value> {
    let prefix_space = vocabulary.rules.prefix_space;
    let steps = match &vocabulary.split {
        SplitPattern::None => Vec::new(),
        SplitPattern::Steps(steps) => steps.clone(),
        pattern => vec![SplitStep::new(pattern.clone(), false)],
    };
    let (mut before, after): (Vec<SplitStep>, Vec<SplitStep>) =
        steps.into_iter().partition(|step| !step.spelled);
    let gpt2 = SplitStep::new(SplitPattern::Named(Named::Gpt2), false);
    let splits = before.pop_if(|step| *step == gpt2).is_some();
    if prefix_space && !before.is_empty() {
        return Err(Fault::cannot_hold(Format::Hf, Limit::Foreign(Foreign::PrefixSpace)));
    }
    let mut written = Vec::new();
    written_cuts(&before, &mut written)?;
    written.push(byte_level(prefix_space, splits));
    written_cuts(&after, &mut written)?;
    match <[Value; 1]>::try_from(written) {
        Ok([byte_level]) => Ok(byte_level),
        Err(steps) => Ok(json!({ "type": "Sequence", "pretokenizers": steps })),
    }
}

/// Appends the splits of these steps, one per regular expression.
fn written_cuts(steps: &[SplitStep], written: &mut Vec<Value>) -> Result<()> {
    for step in steps {
        for (regex, _) in step.pattern.oniguruma()? {
            written.push(written_cut(regex, step));
        }
    }
    Ok(())
}

/// Returns one split, as `Digits` or `Punctuation` if it came from there.
fn written_cut(regex: &str, step: &SplitStep) -> Value {
    let named = BEHAVIORS.iter().find(|(_, behavior)| *behavior == step.behavior);
    let behavior = if step.covers { "Removed" } else { named.map_or("Isolated", |(name, _)| *name) };
    let is_isolated = behavior == "Isolated";
    match regex.strip_prefix(NUMBER) {
        Some(after @ ("" | "+")) if is_isolated => {
            json!({ "type": "Digits", "individual_digits": after.is_empty() })
        }
        _ if regex == PUNCTUATION && !step.covers && !step.invert => {
            json!({ "type": "Punctuation", "behavior": behavior })
        }
        _ => {
            let invert = step.covers || step.invert;
            json!({ "type": "Split", "pattern": { "Regex": regex }, "behavior": behavior, "invert": invert })
        }
    }
}

/// Published regular expressions that `tokenizers` 1.0 knows and that have no name here: Mistral's, Kimi's, and
/// GPT-4's with numbers in one pre-token.
const KNOWN_TO_1_0: [&str; 3] = [
    concat!(
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
        r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    concat!(
        r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*",
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+",
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    concat!(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+",
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
];

/// Returns notes for users of the written file, possibly none.
pub(crate) fn cautions(vocabulary: &Vocabulary) -> Vec<String> {
    unopened(vocabulary).into_iter().chain(garbled(vocabulary)).collect()
}

/// Returns a note if an added token does not survive decoding. The decoder takes every token for a key if all its
/// letters spell bytes.
fn garbled(vocabulary: &Vocabulary) -> Option<String> {
    let apart = vocabulary.added.iter().filter(|token| vocabulary.apart.binary_search(&token.id).is_ok());
    let mut apart = apart.map(|token| &token.text);
    let token = apart.find(|text| alphabet::read(text).is_some_and(|bytes| *bytes != *text.as_bytes()))?;
    Some(format!(
        "hf: tokenizers encodes added token {token:?} correctly but decodes it to other characters, because its letters \
         also spell bytes: choose an ASCII text for it if it must be decoded"
    ))
}

/// Returns a note if not every version of `tokenizers` opens the file. Version 1.0 has no regular expression engine.
/// It recognizes published patterns by their exact text and refuses files with any other.
fn unopened(vocabulary: &Vocabulary) -> Option<String> {
    let split = vocabulary.split();
    if *split == SplitPattern::Named(Named::Nanochat) {
        return Some(format!(
            "hf: tokenizers 1.0.0-rc.3 splits numbers differently from the split {split} and gives other ids; versions 0.x \
             give the same ids as this program"
        ));
    }
    let what = if vocabulary.rules.prefix_space {
        "adds a space before text".to_owned()
    } else if vocabulary.missing_bytes().iter().any(|byte| !matches!(byte, 0xC0 | 0xC1 | 0xF5..=0xFF)) {
        "lacks tokens for bytes of UTF-8".to_owned()
    } else if pre_tokenizer(vocabulary).is_ok_and(|written| !is_known_to_1_0(&written)) {
        match split {
            SplitPattern::Named(named) => format!("has the split {}", named.name()),
            _ => "has a custom split".to_owned(),
        }
    } else {
        return None;
    };
    Some(format!(
        "hf: tokenizers 1.0.0-rc.3 does not open a tokenizer that {what}; versions 0.x do. Both open the splits gpt2, \
         gpt4, o200k, qwen2, deepseek-v3 and none"
    ))
}

/// Returns whether `tokenizers` 1.0 knows all regular expressions of a pre-tokenizer.
fn is_known_to_1_0(written: &Value) -> bool {
    let steps = written["pretokenizers"].as_array().map_or(std::slice::from_ref(written), Vec::as_slice);
    let regex = |step: &Value| step["pattern"]["Regex"].as_str().map(str::to_owned);
    let regexes: Vec<String> = steps.iter().filter_map(regex).collect();
    let named = [Named::Gpt2, Named::Gpt4, Named::O200k, Named::Qwen2];
    let known = KNOWN_TO_1_0.iter().copied().chain(named.iter().flat_map(|named| named.steps()).copied());
    let is_known = |regex: &String| known.clone().any(|known| known == regex);
    regexes == Named::DeepSeekV3.steps() || regexes.iter().all(is_known)
}

/// Returns a `ByteLevel` step.
fn byte_level(prefix_space: bool, splits: bool) -> Value {
    json!({
        "type": "ByteLevel", "add_prefix_space": prefix_space, "trim_offsets": false, "use_regex": splits,
    })
}

/// Returns JSON with line breaks, so that the difference between two vocabularies is a few lines.
pub(crate) fn pretty(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).expect("names and numbers are always JSON");
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Added tokens that are no keys are numbered from the number of keys on.
    #[test]
    fn tokens_that_are_no_keys_are_numbered_from_the_number_of_keys_on() {
        let ids: Map<&str, TokenId> =
            [("a", 0), ("<far>", 12)].map(|(key, id)| (key, TokenId::new(id))).into_iter().collect();
        let added = ["<far>", "<x>", "a", "<y>"].map(|text| AddedToken::special(TokenId::new(0), text));
        assert_eq!(counted(&added, &ids).into_iter().map(TokenId::get).collect::<Vec<_>>(), [12, 2, 0, 3]);
    }
}
