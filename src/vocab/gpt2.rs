//! GPT-2's `vocab.json` and `merges.txt`.

use std::path::Path;

use rustc_hash::FxHashSet;

use super::beside::Beside;
use super::fault::{Fault, Limit};
use super::format::{Format, LoadOptions, Rendered, read_bytes, read_text};
use super::hf::{pretty, two_keys};
use super::keyed::{Entries, Keyed};
use super::{AddedToken, SpecialToken, Vocabulary, VocabularyParts, alphabet, check};
use crate::base::atomic_file::folder_of;
use crate::base::hash::Set;
use crate::error::Result;
use crate::observer::Observer;
use crate::split::{Named, SplitPattern};

/// The file that maps tokens to ids.
pub(super) const VOCABULARY: &str = "vocab.json";
/// The file that lists the merges.
pub(super) const MERGES: &str = "merges.txt";

/// The beginning of the first line of [`MERGES`]. Readers skip every line that begins with it.
pub(super) const HEADER: &str = "#version";

/// The names of both files where OpenAI published them.
const PUBLISHED: [&str; 2] = ["encoder.json", "vocab.bpe"];

/// The names that the two files may have, the usual ones first.
pub(super) const NAMES: [[&str; 2]; 2] = [[VOCABULARY, MERGES], PUBLISHED];

/// Reads both files, given the path of either, and the [files beside them](Beside). The format has no place for a
/// split. It is that of the options, or else that of the tokenizer class in the files beside, or else GPT-2's. The
/// special tokens are those that are named, and the tokens of several bytes that no merge makes.
pub(super) fn load(path: &Path, options: &LoadOptions, observer: &dyn Observer) -> Result<Vocabulary> {
    let folder = folder_of(path);
    let is_one =
        |names: &&[&str; 2]| names.iter().any(|name| path.file_name().is_some_and(|own| own == *name));
    let names = NAMES.iter().find(is_one).unwrap_or(&NAMES[0]);
    let [vocabulary, merges] = names.map(|name| folder.join(name));
    let entries: Entries = serde_json::from_slice(&read_bytes(&vocabulary)?)
        .map_err(|wrong| Fault::Json(wrong).in_file(&vocabulary))?;
    let pairs = pairs(&read_text(&merges)?).map_err(|fault| fault.in_file(&merges))?;
    let keyed = Keyed { entries, merges: pairs };
    let ids = keyed.ids().map_err(|fault| fault.in_file(&vocabulary))?;
    let Beside { mut added, split, rules, around } =
        Beside::read(folder, &ids, options.split.clone(), observer)?;
    let highest = keyed.entries.0.iter().map(|(_, id)| *id).chain(added.iter().map(|token| token.id)).max();
    let next = highest.map_or(0, |highest| highest.get().saturating_add(1));
    let is_new = |named: &&SpecialToken| {
        !ids.contains_key(&*named.text) && !added.iter().any(|token| token.text == named.text)
    };
    let asked: Vec<SpecialToken> = options.special_tokens.iter().filter(is_new).cloned().collect();
    added.extend(SpecialToken::numbered(&asked, next));
    let named: Set<String> = added.iter().map(|token| token.text.clone()).collect();
    added.extend(specials(&keyed).into_iter().filter(|token| !named.contains(&token.text)));
    // If only one of the two searches for added tokens has any, the flag `normalized` has no effect.
    if rules.normalizers.is_empty()
        && added.array_windows().all(|[one, next]| one.normalized == next.normalized)
    {
        added.iter_mut().for_each(|token| token.normalized = false);
    }
    let parts = keyed.parts(added, split, false);
    let parts = parts.map(|parts| VocabularyParts { rules, around, ..parts });
    parts.and_then(|parts| parts.build()).map_err(|fault| fault.in_file(&vocabulary))
}

/// Reads the pairs of `merges.txt`.
fn pairs(text: &str) -> Result<Vec<(String, String)>, Fault> {
    let mut pairs = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        if line.is_empty() || line.starts_with(HEADER) {
            continue;
        }
        let (left, right) = two_keys(line).ok_or_else(|| Fault::expected(number, "two tokens", line))?;
        pairs.push((left.to_owned(), right.to_owned()));
    }
    Ok(pairs)
}

/// Returns the keys of several bytes that no merge makes, as special tokens.
fn specials(keyed: &Keyed) -> Vec<AddedToken> {
    let made: Set<String> = keyed.merges.iter().map(|(left, right)| [&**left, right].concat()).collect();
    let is_byte = |key: &str| alphabet::read(key).is_some_and(|bytes| bytes.len() == 1);
    let plain = |key: &str| key.is_empty() || made.contains(key) || is_byte(key);
    let unmade = keyed.entries.0.iter().filter(|(key, _)| !plain(key));
    unmade.map(|(text, id)| AddedToken::special(*id, text)).collect()
}

/// Writes both files.
pub(super) fn render(vocabulary: &Vocabulary) -> Result<Rendered> {
    let keyed = limited(vocabulary).map_err(|limit| Fault::cannot_hold(Format::Gpt2, limit))?;
    let mut merges = format!("{HEADER}: 0.2\n");
    for (left, right) in &keyed.merges {
        merges.extend([left, " ", right, "\n"]);
    }
    Ok([pretty(&keyed.entries), merges.into_bytes()])
}

/// Returns the keys and merges, unless the format cannot express the vocabulary.
fn limited(vocabulary: &Vocabulary) -> Result<Keyed, Limit> {
    if let Some(foreign) = vocabulary.foreign() {
        return Err(Limit::Foreign(foreign));
    }
    if vocabulary.split != SplitPattern::Named(Named::Gpt2) {
        return Err(Limit::NotGpt2Split);
    }
    if vocabulary.ignore_merges && check(vocabulary).not_self_encoding > 0 {
        return Err(Limit::IgnoresMerges);
    }
    let made: FxHashSet<_> = vocabulary.merges.iter().map(|merge| merge.result).collect();
    if let Some((id, _)) = vocabulary.ordinary().find(|(id, bytes)| bytes.len() > 1 && !made.contains(id)) {
        return Err(Limit::Unmade(id));
    }
    let keyed = Keyed::of(vocabulary)?;
    match keyed.merges.iter().position(|(left, _)| left.starts_with(HEADER)) {
        Some(index) => Err(Limit::LooksLikeHeader { merge: index + 1 }),
        None => Ok(keyed),
    }
}
