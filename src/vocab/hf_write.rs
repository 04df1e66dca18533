use serde::Serialize;
use serde::ser::Serializer;
use serde_json::{Value, json};

use super::fault::{Fault, Limit};
use super::format::{Format, Rendered, WriteOptions};
use super::keyed::{Entries, Keyed};
use super::{SpecialToken, Vocabulary};
use crate::error::Result;
use crate::split::SplitPattern;

/// The file that Hugging Face's tokenizers read.
pub(super) const TOKENIZER: &str = "tokenizer.json";
/// The file beside it that `transformers` wants.
const CONFIG: &str = "tokenizer_config.json";

/// The fields stand in the order in which `tokenizers` itself writes them.
#[derive(Serialize)]
struct File<'a> {
    version: &'static str,
    truncation: (),
    padding: (),
    added_tokens: Vec<Added<'a>>,
    normalizer: (),
    pre_tokenizer: Value,
    post_processor: (),
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
    unk_token: (),
    continuing_subword_prefix: (),
    end_of_word_suffix: (),
    fuse_unk: bool,
    byte_fallback: bool,
    ignore_merges: bool,
    vocab: Entries,
    merges: Pairs,
}

/// Merges as `"a b"`, which every version reads; no key has a space in it.
struct Pairs(Vec<(String, String)>);

impl Serialize for Pairs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|(left, right)| format!("{left} {right}")))
    }
}

pub(super) fn render(vocabulary: &Vocabulary, options: &WriteOptions) -> Result<Vec<Rendered>> {
    let cannot = |limit: Limit| Fault::cannot_hold(Format::Hf, limit);
    let Keyed { entries, merges } = Keyed::of(vocabulary).map_err(cannot)?;
    let file = File {
        version: "1.0",
        truncation: (),
        padding: (),
        added_tokens: vocabulary.specials.iter().map(added).collect(),
        normalizer: (),
        pre_tokenizer: pre_tokenizer(&vocabulary.split)?,
        post_processor: (),
        decoder: byte_level(),
        model: Model {
            r#type: "BPE",
            dropout: (),
            unk_token: (),
            continuing_subword_prefix: (),
            end_of_word_suffix: (),
            fuse_unk: false,
            byte_fallback: false,
            ignore_merges: vocabulary.ignore_merges,
            vocab: entries,
            merges: Pairs(merges),
        },
    };
    Ok(vec![(TOKENIZER.to_owned(), pretty(&file)), (CONFIG.to_owned(), pretty(&config(options)))])
}

fn added(special: &SpecialToken) -> Added<'_> {
    Added {
        id: special.id.get(),
        content: &special.text,
        single_word: false,
        lstrip: false,
        rstrip: false,
        normalized: false,
        special: true,
    }
}

/// Without a split the step is still needed: it writes bytes in the alphabet of the keys, and without
/// it spaces would be lost.
fn pre_tokenizer(split: &SplitPattern) -> Result<Value> {
    if *split == SplitPattern::None {
        return Ok(byte_level());
    }
    let regexes = match split {
        SplitPattern::Named(named) => named.steps().to_vec(),
        SplitPattern::None | SplitPattern::Custom(_) => vec![split.oniguruma()?],
    };
    let cut = |regex| json!({ "type": "Split", "pattern": { "Regex": regex }, "behavior": "Isolated", "invert": false });
    let mut steps: Vec<Value> = regexes.into_iter().map(cut).collect();
    steps.push(byte_level());
    Ok(json!({ "type": "Sequence", "pretokenizers": steps }))
}

fn byte_level() -> Value {
    json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false })
}

fn config(options: &WriteOptions) -> Value {
    let mut config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": false,
    });
    for (key, token) in [("bos_token", &options.bos), ("eos_token", &options.eos)] {
        if let Some(token) = token {
            config[key] = json!(token);
        }
    }
    config
}

/// JSON with line breaks, so that a difference between two vocabularies is a few lines.
pub(super) fn pretty(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).expect("names and numbers are always JSON");
    bytes.push(b'\n');
    bytes
}
