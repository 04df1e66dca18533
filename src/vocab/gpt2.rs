use std::path::Path;

use rustc_hash::FxHashSet;

use super::fault::{Fault, Limit};
use super::format::{Format, LoadOptions, Rendered, read_bytes, read_text};
use super::hf::{pretty, two_keys};
use super::keyed::{Entries, Keyed};
use super::{AddedToken, Vocabulary, alphabet, check};
use crate::error::Result;
use crate::files::folder_of;
use crate::hashing::Set;
use crate::split::{Named, SplitPattern};

/// The file with the tokens' ids.
pub(super) const VOCABULARY: &str = "vocab.json";
/// The file with the merges.
pub(super) const MERGES: &str = "merges.txt";

/// What the first line of [`MERGES`] begins with; readers leave out every line that does.
pub(super) const HEADER: &str = "#version";

/// Reads both files, given the path of either. The format has no place for the split, which is GPT-2's
/// unless `options` say otherwise, nor for which tokens are special: those of several bytes that no
/// merge makes.
pub(super) fn load(path: &Path, options: &LoadOptions) -> Result<Vocabulary> {
    let folder = folder_of(path);
    let (vocabulary, merges) = (folder.join(VOCABULARY), folder.join(MERGES));
    let entries: Entries = serde_json::from_slice(&read_bytes(&vocabulary)?)
        .map_err(|wrong| Fault::Json(wrong).in_file(&vocabulary))?;
    let pairs = pairs(&read_text(&merges)?).map_err(|fault| fault.in_file(&merges))?;
    let keyed = Keyed { entries, merges: pairs };
    let split = options.split.clone().unwrap_or(SplitPattern::Named(Named::Gpt2));
    let parts = keyed.parts(specials(&keyed), split, false);
    parts.and_then(|parts| parts.build()).map_err(|fault| fault.in_file(&vocabulary))
}

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

fn specials(keyed: &Keyed) -> Vec<AddedToken> {
    let made: Set<String> = keyed.merges.iter().map(|(left, right)| [&**left, right].concat()).collect();
    let is_byte = |key: &str| alphabet::read(key).is_some_and(|bytes| bytes.len() == 1);
    let plain = |key: &str| key.is_empty() || made.contains(key) || is_byte(key);
    let unmade = keyed.entries.0.iter().filter(|(key, _)| !plain(key));
    unmade.map(|(text, id)| AddedToken::special(*id, text)).collect()
}

pub(super) fn render(vocabulary: &Vocabulary) -> Result<Rendered> {
    let keyed = limited(vocabulary).map_err(|limit| Fault::cannot_hold(Format::Gpt2, limit))?;
    let mut merges = format!("{HEADER}: 0.2\n");
    for (left, right) in &keyed.merges {
        merges.extend([left, " ", right, "\n"]);
    }
    Ok([pretty(&keyed.entries), merges.into_bytes()])
}

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
