//! Prepares tokenizers for a page that encodes text in the browser: a table of all tokens and merges, and the rules by
//! which text is split and changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use unicode_normalization_alignments::char::is_combining_mark;

use super::compare::{main_script, script_names};
use super::extend::{load_as_needed, record_of};
use crate::base::int::{to_u64, to_usize};
use crate::encode::{EncodeConfig, Encoder, MissingBytes, SpecialPolicy};
use crate::error::{Error, Result};
use crate::observer::Observer;
use crate::report::{ExploredTokenizer, Explorer};
use crate::source::{HubSettings, shown_uri, tokenizer_path};
use crate::split::JavascriptTranslator;
use crate::vocab::{
    AddedToken, LoadOptions, Normalizer, RankedMerge, ReplacePattern, TrainingRecord, Vocabulary,
};

/// Maximum number of tokenizers on a page: as many as fit side by side.
const MOST: usize = 4;

/// Prepares tokenizers for [`explorer_to_html`](crate::report::explorer_to_html). Each is named by a path, or as
/// [`tokenizer_path`] describes. `options` give settings that the files of some tokenizers lack.
///
/// A tokenizer with a rule that browsers cannot follow is prepared without its rules; the page then shows its vocabulary
/// alone, and says why.
///
/// **Memory:** the tokenizers, and about 6 bytes per merge.
///
/// ```
/// use tokenmill::observer::Silent;
/// use tokenmill::report::explorer_to_html;
/// use tokenmill::run::{LearnConfig, explore, learn};
/// use tokenmill::source::{self, HubSettings};
/// use tokenmill::vocab::{self, Format, LoadOptions, WriteOptions};
///
/// let (vocabulary, _) = learn(source::texts(["how much wood"]), &LearnConfig::new(260, &[]), &Silent)?;
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// vocab::write(&vocabulary, Format::Hf, folder, &WriteOptions::default())?;
/// let hub = HubSettings::from_variables(&|_| None, None);
/// let explorer = explore(&[folder.to_owned()], &LoadOptions::default(), &hub, &Silent)?;
/// assert!(explorer_to_html(&explorer).starts_with("<!doctype html>"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// There are more than four tokenizers, or one cannot be found or read.
pub fn explore(
    tokenizers: &[PathBuf],
    options: &LoadOptions,
    hub: &HubSettings,
    observer: &dyn Observer,
) -> Result<Explorer> {
    if tokenizers.len() > MOST {
        let problem = format!("there are {} tokenizers; a page has at most {MOST}", tokenizers.len());
        return Err(Error::usage(problem).with_help("name fewer tokenizers, or write several pages"));
    }
    let mut translator = JavascriptTranslator::default();
    let explored = tokenizers.iter().map(|name| {
        let path = tokenizer_path(name, hub, observer)?;
        let vocabulary = load_as_needed(&path, options, observer)?;
        explored(name, &path, &vocabulary, &mut translator)
    });
    let tokenizers = explored.collect::<Result<Vec<_>>>()?;
    let facts = json!({
        "scripts": script_names().collect::<Vec<_>>(),
        "white": translator.class(r"\s")?,
        "word": translator.class(r"\w")?,
        "classes": translator.classes(),
    });
    Ok(Explorer { facts, tokenizers })
}

/// Prepares one tokenizer, which is at `path`.
///
/// # Errors
/// The record of its training is damaged.
fn explored(
    name: &Path,
    path: &Path,
    vocabulary: &Vocabulary,
    translator: &mut JavascriptTranslator,
) -> Result<ExploredTokenizer> {
    let record = record_of(path, vocabulary)?;
    let merges = vocabulary.merges().len();
    let record =
        record.filter(|record| [&record.counts, &record.replaced].iter().all(|of| of.len() == merges));
    let mut facts = json!({
        "name": shown_uri(&name.display().to_string()),
        "split": vocabulary.split().to_string(),
        "added": vocabulary.added().iter().map(|token| added(vocabulary, token)).collect::<Vec<_>>(),
        "has_counts": record.is_some(),
    });
    match rules(vocabulary, translator) {
        Ok(rules) => facts["rules"] = rules,
        Err(error) => facts["notice"] = json!(error.to_string()),
    }
    Ok(ExploredTokenizer { facts, table: table(vocabulary, record.as_ref()) })
}

/// An added token with its flags, and whether it is also an ordinary token.
fn added(vocabulary: &Vocabulary, token: &AddedToken) -> Value {
    let mut value = json!(token);
    value["ordinary"] = json!(!vocabulary.is_added_only(token.id));
    value
}

/// How the tokenizer encodes text.
///
/// # Errors
/// A browser, or this program, cannot encode by these rules.
fn rules(vocabulary: &Vocabulary, translator: &mut JavascriptTranslator) -> Result<Value> {
    // The page replaces bytes without a token, or drops them, and can find special tokens. Some vocabularies do not
    // allow that.
    let config = EncodeConfig {
        special: SpecialPolicy::Allow,
        missing_bytes: MissingBytes::Hf,
        ..EncodeConfig::default()
    };
    Encoder::new(vocabulary.clone(), config)?;
    let normalizers = &vocabulary.rules().normalizers;
    Ok(json!({
        "normalizers": normalizers.iter().map(|step| normalizer(step, translator)).collect::<Result<Vec<_>>>()?,
        "prefix_space": vocabulary.rules().prefix_space,
        "steps": translator.steps(vocabulary.split())?,
        "ignore_merges": vocabulary.ignore_merges(),
        "unknown": vocabulary.unknown(),
    }))
}

/// A normalizer with the characters that it concerns: browsers have those of other versions of Unicode.
///
/// # Errors
/// It has an expression that browsers cannot follow.
fn normalizer(normalizer: &Normalizer, translator: &mut JavascriptTranslator) -> Result<Value> {
    let mut form = |name: &str| -> Result<Value> {
        // The forms are those of Unicode 9, in which later characters stay as they are, and separate the text around
        // them.
        Ok(json!({ "kind": "form", "form": name, "known": translator.class(r"\p{Age=9.0}")? }))
    };
    Ok(match normalizer {
        Normalizer::Nfc => form("NFC")?,
        Normalizer::Nfd => form("NFD")?,
        Normalizer::Nfkc => form("NFKC")?,
        Normalizer::Nfkd => form("NFKD")?,
        Normalizer::Lowercase => json!({ "kind": "lowercase", "lower": lower_cases() }),
        Normalizer::StripAccents => {
            let marks = ('\0'..=char::MAX).filter(|&character| is_combining_mark(character)).map(u32::from);
            json!({ "kind": "remove", "class": translator.class_with(marks.map(|mark| (mark, mark))) })
        }
        Normalizer::Strip { strip_left, strip_right } => {
            json!({ "kind": "strip", "left": strip_left, "right": strip_right })
        }
        Normalizer::Prepend { prepend } => json!({ "kind": "prepend", "text": prepend }),
        Normalizer::Replace { pattern: ReplacePattern::String(text), .. } if text.is_empty() => {
            return Err(Error::usage("a normalizer that replaces the empty text is not supported here"));
        }
        Normalizer::Replace { pattern: ReplacePattern::String(text), content } => {
            json!({ "kind": "replace", "text": text, "content": content })
        }
        Normalizer::Replace { pattern: ReplacePattern::Regex(regex), content } => {
            json!({ "kind": "replace", "regex": translator.oniguruma(regex)?, "content": content })
        }
    })
}

/// The lower case of each character that has another one.
fn lower_cases() -> Map<String, Value> {
    let changed = |character: char| {
        let lower: String = character.to_lowercase().collect();
        (!lower.chars().eq([character])).then(|| (character.to_string(), Value::from(lower)))
    };
    let all: BTreeMap<String, Value> = ('\0'..=char::MAX).filter_map(changed).collect();
    all.into_iter().collect()
}

/// All tokens and merges of a vocabulary, and the counts of the merges, as numbers of variable length.
///
/// A token that a merge makes has no bytes of its own in the table: they are those of its parts.
///
/// 1. The id limit, and the number of tokens that are listed with their bytes. For each of these, by ascending id: the
///    distance from the id before plus 1, the script, the length, and the bytes.
/// 2. The number of merges. For each, by rank: its head, its left token and its right token. The head has the script of
///    the result, whether the rank is that of the merge before, and the distance of the result from the id that is
///    expected: that of the result before plus 1.
/// 3. The count of each merge, then how many fewer pairs each replaced. Nothing without a record.
fn table(vocabulary: &Vocabulary, record: Option<&TrainingRecord>) -> Vec<u8> {
    let mut table = Vec::new();
    let listed = listed(vocabulary);
    put(&mut table, to_u64(vocabulary.id_limit()));
    put(&mut table, to_u64(listed.iter().filter(|listed| **listed).count()));
    let mut next = 0;
    for (id, bytes) in vocabulary.tokens().filter(|(id, _)| listed[id.index()]) {
        put(&mut table, to_u64(id.index() - next));
        put(&mut table, to_u64(main_script(bytes)));
        put(&mut table, to_u64(bytes.len()));
        table.extend_from_slice(bytes);
        next = id.index() + 1;
    }
    put(&mut table, to_u64(vocabulary.merges().len()));
    let scripts = to_u64(script_names().count());
    let (mut expected, mut rank_before) = (0, None);
    for &RankedMerge { left, right, result, rank } in vocabulary.merges() {
        let script = to_u64(main_script(vocabulary.bytes(result).unwrap_or_default()));
        let distance = difference(to_u64(expected), to_u64(result.index()));
        let same_rank = u64::from(rank_before == Some(rank));
        put(&mut table, (distance * 2 + same_rank) * scripts + script);
        put(&mut table, u64::from(left.get()));
        put(&mut table, u64::from(right.get()));
        (expected, rank_before) = (result.index() + 1, Some(rank));
    }
    if let Some(TrainingRecord { counts, replaced, .. }) = record {
        counts.iter().for_each(|&count| put(&mut table, count));
        let fewer = replaced.iter().zip(counts).map(|(&replaced, &count)| difference(replaced, count));
        fewer.for_each(|fewer| put(&mut table, fewer));
    }
    table
}

/// How far it is from one number to another, as a number without a sign: even numbers are distances ahead, odd ones
/// distances back.
fn difference(from: u64, to: u64) -> u64 {
    if to < from { (from - to).saturating_mul(2).saturating_sub(1) } else { (to - from).saturating_mul(2) }
}

/// For each id, whether its token is listed with its bytes: if no merge makes it of tokens that are known before.
fn listed(vocabulary: &Vocabulary) -> Vec<bool> {
    let mut is_made = vec![false; vocabulary.id_limit()];
    vocabulary.merges().iter().for_each(|merge| is_made[merge.result.index()] = true);
    let mut listed = vec![false; vocabulary.id_limit()];
    vocabulary.tokens().for_each(|(id, _)| listed[id.index()] = !is_made[id.index()]);
    let mut is_known = listed.clone();
    for merge in vocabulary.merges() {
        let [left, right, result] = [merge.left, merge.right, merge.result].map(|id| to_usize(id.get()));
        if !is_known[result] {
            is_known[result] = true;
            listed[result] = !(is_known[left] && is_known[right]);
        }
    }
    listed
}

/// Appends a number, seven bits in each byte, the lowest first. All bytes but the last have their highest bit set.
fn put(table: &mut Vec<u8>, mut number: u64) {
    loop {
        let bits = number.to_le_bytes()[0] & 0x7F;
        number >>= 7;
        if number == 0 {
            table.push(bits);
            return;
        }
        table.push(bits | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::TokenId;
    use crate::base::int::u64_to_usize;
    use crate::vocab::VocabularyParts;

    /// Reads a number that [`put`] wrote.
    fn take(table: &mut &[u8]) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let (first, rest) = table.split_first().expect("a number");
            *table = rest;
            number |= u64::from(first & 0x7F) << shift;
            shift += 7;
            if first & 0x80 == 0 {
                return number;
            }
        }
    }

    /// The bytes of tokens by id.
    type Tokens = Vec<Option<Vec<u8>>>;

    /// The tokens and merges of a table, and its counts with the numbers of pairs that were replaced.
    fn read(mut table: &[u8]) -> (Tokens, Vec<RankedMerge>, Vec<u64>) {
        let table = &mut table;
        let mut tokens = vec![None; u64_to_usize(take(table))];
        let mut id = 0;
        for _ in 0..take(table) {
            id += u64_to_usize(take(table));
            assert!(take(table) < to_u64(script_names().count()));
            let length = u64_to_usize(take(table));
            let (bytes, rest) = table.split_at(length);
            tokens[id] = Some(bytes.to_vec());
            *table = rest;
            id += 1;
        }
        let mut merges = Vec::new();
        let (mut expected, mut rank) = (0, 0_u32);
        for number in 0..take(table) {
            let head = take(table) / to_u64(script_names().count());
            rank += u32::from(number > 0 && head.is_multiple_of(2));
            let result = moved(expected, head / 2);
            expected = result + 1;
            let [left, right] = [take(table), take(table)].map(u64_to_usize);
            if tokens[u64_to_usize(result)].is_none() {
                let parts = [&tokens[left], &tokens[right]].map(|part| part.clone().expect("it is known"));
                tokens[u64_to_usize(result)] = Some(parts.concat());
            }
            let [left, right, result] = [left, right, u64_to_usize(result)].map(TokenId::from_index);
            merges.push(RankedMerge { left, right, result, rank });
        }
        let mut counts = Vec::new();
        while !table.is_empty() {
            counts.push(take(table));
        }
        let (all, fewer) = counts.split_at_mut(merges.len());
        fewer.iter_mut().zip(all).for_each(|(fewer, count)| *fewer = moved_back(*count, *fewer));
        (tokens, merges, counts)
    }

    /// The number to which this difference leads.
    fn moved(from: u64, difference: u64) -> u64 {
        if difference.is_multiple_of(2) { from + difference / 2 } else { from - difference.div_ceil(2) }
    }

    /// The number from which this difference leads to `to`.
    fn moved_back(to: u64, difference: u64) -> u64 {
        if difference.is_multiple_of(2) { to - difference / 2 } else { to + difference.div_ceil(2) }
    }

    proptest! {
        /// Every token and merge is read back, also if merges make tokens twice, build on later ones or share ranks.
        #[test]
        fn a_table_has_all_of_a_vocabulary(
            ids in Just((0..12_u32).map(|id| id * 3 % 13).collect::<Vec<_>>()).prop_shuffle(),
            ranks in prop::collection::vec(0..6_u32, 12),
            counts in prop::collection::vec((0..1_u64 << 53, 0..1_u64 << 53), 12),
        ) {
            let texts = ["a", "b", "ab", "abb", "ba", "aba", "bb", "abab", "é", "\u{3b1}", "ααα", ""];
            let id = |text: &str| {
                TokenId::new(ids[texts.iter().position(|known| *known == text).expect("a token")])
            };
            let merges = ["a b", "ab b", "a bb", "b b", "b a", "ab a", "a ba", "ab ab", "aba b"];
            let merges = merges.iter().zip(&ranks).map(|(pair, &rank)| {
                let (left, right) = pair.split_once(' ').expect("a pair");
                let [left, right, result] = [left, right, &*[left, right].concat()].map(id);
                RankedMerge { left, right, result, rank }
            });
            let vocabulary = Vocabulary::new(VocabularyParts {
                tokens: texts.iter().map(|text| (id(text), text.as_bytes().into())).collect(),
                merges: merges.collect(),
                ..VocabularyParts::default()
            }).expect("a vocabulary");
            let (counts, replaced) = counts[..vocabulary.merges().len()].iter().copied().unzip();
            let record = TrainingRecord { counts, replaced, ..TrainingRecord::default() };
            let (tokens, merges, counted) = read(&table(&vocabulary, Some(&record)));
            let own: Tokens = (0..vocabulary.id_limit())
                .map(|id| vocabulary.bytes(TokenId::from_index(id)).map(<[u8]>::to_vec))
                .collect();
            prop_assert_eq!(tokens, own);
            prop_assert_eq!(&merges[..], vocabulary.merges());
            prop_assert_eq!(counted, [record.counts, record.replaced].concat());
        }
    }

    /// Merges whose parts are known have no bytes in the table.
    #[test]
    fn only_tokens_that_no_merge_makes_are_listed() {
        let token = |(id, text): (u32, &str)| (TokenId::new(id), Box::<[u8]>::from(text.as_bytes()));
        let merge = |(rank, [left, right, result]): (u32, [u32; 3])| RankedMerge {
            left: TokenId::new(left),
            right: TokenId::new(right),
            result: TokenId::new(result),
            rank,
        };
        let vocabulary = Vocabulary::new(VocabularyParts {
            tokens: (0..).zip(["a", "b", "ab", "abab", "c"]).map(token).collect(),
            merges: (0..).zip([[0, 1, 2], [2, 2, 3]]).map(merge).collect(),
            ..VocabularyParts::default()
        })
        .expect("a vocabulary");
        assert_eq!(listed(&vocabulary), [true, true, false, false, true]);
    }
}
