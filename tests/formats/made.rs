//! Vocabularies for the tests, and the simplest way to encode with them.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use serde_json::Value;
use tokenmill::count::PretokenCounts;
use tokenmill::observer::{Observer, Silent};
use tokenmill::split::SplitPattern;
use tokenmill::train::{Merges, TrainConfig, learn_merges};
use tokenmill::vocab::{
    Format, LoadOptions, SpecialTokensAt, Vocabulary, VocabularyParts, WriteOptions, from_json, load, render,
};
use tokenmill::{Count, Result, TokenId};

/// Learns up to `merges` merges. Each text is one pre-token.
pub(crate) fn learned(texts: &[&[u8]], merges: usize) -> Merges {
    let mut pretokens = PretokenCounts::new();
    for (index, text) in texts.iter().enumerate() {
        if !text.is_empty() && !texts[..index].contains(text) {
            let count = texts.iter().filter(|other| *other == text).count();
            pretokens.push(text, Count::new(u64::try_from(count).expect("few")));
        }
    }
    let config = TrainConfig { min_frequency: Count::new(1), ..TrainConfig::new(merges) };
    learn_merges(pretokens, &config, &Silent).expect("a small corpus").merges
}

/// A vocabulary of up to 60 merges learned from these texts. Each text is one pre-token.
pub(crate) fn trained(texts: &[&[u8]], specials: &[&str], at: SpecialTokensAt, split: &str) -> Vocabulary {
    let specials: Vec<String> = specials.iter().map(|&text| text.to_owned()).collect();
    let split = split.parse().unwrap_or_else(|_| SplitPattern::from_regex(split));
    Vocabulary::from_merges(&learned(texts, 60), &specials, at, split).expect("distinct special tokens")
}

/// A small valid `tokenizer.json`.
pub(crate) fn hf_file() -> Value {
    let vocabulary = trained(&[b"low"], &["<|end|>"], SpecialTokensAt::End, "gpt2");
    let files = render(&vocabulary, Format::Hf, &WriteOptions::default()).expect("hf holds it");
    serde_json::from_slice(&files[0].1).expect("JSON")
}

/// Reads [`hf_file`] with another value for a component.
pub(crate) fn with_component(component: &str, value: &Value) -> Result<Vocabulary> {
    let mut file = hf_file();
    file[component] = value.clone();
    from_json(file.to_string().as_bytes(), &Silent)
}

/// The parts of a vocabulary, to be changed and put together again.
pub(crate) fn parts(vocabulary: &Vocabulary) -> VocabularyParts {
    VocabularyParts {
        tokens: vocabulary.ordinary().map(|(id, bytes)| (id, Box::from(bytes))).collect(),
        added: vocabulary.added().to_vec(),
        merges: vocabulary.merges().to_vec(),
        split: vocabulary.split().clone(),
        rules: vocabulary.rules().clone(),
        bos_eos_template: vocabulary.bos_eos_template().clone(),
        ignore_merges: vocabulary.ignore_merges(),
        unknown: vocabulary.unknown().cloned(),
    }
}

/// The parts of the same vocabulary with other ids.
pub(crate) fn renumbered(vocabulary: &Vocabulary, id: impl Fn(TokenId) -> TokenId) -> VocabularyParts {
    let mut parts = parts(vocabulary);
    for (token, _) in &mut parts.tokens {
        *token = id(*token);
    }
    for merge in &mut parts.merges {
        (merge.left, merge.right, merge.result) = (id(merge.left), id(merge.right), id(merge.result));
    }
    for added in &mut parts.added {
        added.id = id(added.id);
    }
    parts
}

/// Renders a vocabulary and reads it again. Nothing is synced, so that random tests do not wait for a disk.
pub(crate) fn there_and_back(vocabulary: &Vocabulary, format: Format) -> Result<Vocabulary> {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, bytes) in render(vocabulary, format, &WriteOptions::default())? {
        fs::write(folder.path().join(name), bytes).expect("a writable folder");
    }
    Ok(load_plainly(folder.path()).expect("what was just written"))
}

/// Loads the tokenizer at `path` with default options.
pub(crate) fn load_plainly(path: &Path) -> Result<Vocabulary> {
    load(path, &LoadOptions::default(), &Silent)
}

/// Encodes one pre-token as the definition says: applies the merge of lowest rank first, among equals the
/// leftmost.
pub(crate) fn encode(vocabulary: &Vocabulary, pretoken: &[u8]) -> Vec<TokenId> {
    if vocabulary.ignore_merges()
        && let Some((id, _)) = vocabulary.ordinary().find(|(_, bytes)| *bytes == pretoken)
    {
        return vec![id];
    }
    let mut ids: Vec<TokenId> = pretoken.iter().filter_map(|&byte| vocabulary.byte_id(byte)).collect();
    loop {
        let merge = |pair: &[TokenId]| {
            vocabulary.merges().iter().find(|merge| [merge.left, merge.right] == *pair).copied()
        };
        let found = ids.windows(2).enumerate().filter_map(|(at, pair)| Some((merge(pair)?, at)));
        let Some((merge, at)) = found.min_by_key(|(merge, at)| (merge.rank, *at)) else { return ids };
        ids.splice(at..at + 2, [merge.result]);
    }
}

/// Collects notes.
#[derive(Default)]
pub(crate) struct Notes(pub(crate) Mutex<Vec<String>>);

impl Observer for Notes {
    fn noted(&self, message: &str) {
        self.0.lock().expect("no panic before").push(message.to_owned());
    }
}
