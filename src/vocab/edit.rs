//! Smaller vocabularies made of larger ones: shortened to a number of tokens, or without some tokens. All remaining
//! tokens keep their bytes, merges and ids, unless the ids are numbered again.

use std::path::Path;

use super::format::unknown_id;
use super::io::read_text;
use super::vocabulary::{RankedMerge, Vocabulary};
use crate::base::hash::Map;
use crate::base::int::{TokenId, to_u64, with_unit};
use crate::error::{Error, Result, excerpt};
use crate::split::byte_alphabet;

impl Vocabulary {
    /// Returns this vocabulary with `size` tokens at most: the tokens that its merges make last are removed. Bytes and
    /// added tokens always stay. Tokens that no merge makes of bytes go first. All others keep their ids, so most
    /// removed tokens leave holes; [`with_dense_ids`](Vocabulary::with_dense_ids) closes them.
    ///
    /// For a vocabulary that was learned as a list of merges, this is what the same training gives for the smaller
    /// size. O(n log n) in the number of merges.
    ///
    /// ```
    /// # use tokenmill::{observer::Silent, run::{LearnConfig, learn}, source};
    /// # let texts = || source::texts(["how much wood would a woodchuck chuck"]);
    /// let (large, _) = learn(texts(), &LearnConfig::new(270, &["<|endoftext|>"]), &Silent)?;
    /// let (small, _) = learn(texts(), &LearnConfig::new(260, &["<|endoftext|>"]), &Silent)?;
    /// let shortened = large.shortened(260)?;
    /// assert_eq!(shortened.merges(), small.merges());
    /// assert_eq!(shortened.with_dense_ids(), small);
    /// # Ok::<(), tokenmill::Error>(())
    /// ```
    ///
    /// # Errors
    /// The vocabulary has fewer than `size` tokens, or more must stay.
    pub fn shortened(&self, size: usize) -> Result<Vocabulary> {
        let tokens = self.tokens().count();
        if size > tokens {
            return Err(Error::usage(format!(
                "the vocabulary has only {tokens} tokens, so it cannot be shortened to {size}"
            ))
            .with_help("`train --extend` adds tokens to a tokenizer"));
        }
        let made_at = self.made_at();
        let mut removable: Vec<(u32, usize, TokenId)> = self
            .ordinary()
            .filter(|(id, bytes)| bytes.len() != 1 && self.added_token(*id).is_none())
            .map(|(id, bytes)| (made_at[id.index()].unwrap_or(u32::MAX), bytes.len(), id))
            .collect();
        // Among tokens that are made at the same time, parts are shorter than the tokens made of them.
        removable.sort_unstable();
        let stay = tokens - removable.len();
        let Some(kept) = size.checked_sub(stay) else {
            return Err(Error::usage(format!(
                "{size} tokens are too few: {stay} must stay, the bytes and the added tokens"
            ))
            .with_help(format!("ask for {stay} tokens or more")));
        };
        let mut removed = vec![false; self.id_limit()];
        removable[kept..].iter().for_each(|(.., id)| removed[id.index()] = true);
        self.without(removed)
    }

    /// Returns for each id the rank from which on its token can exist: the lowest, over the ways to make it, of the
    /// highest rank in that way. 0 for bytes, and `None` if no merges make the token of bytes.
    fn made_at(&self) -> Vec<Option<u32>> {
        let mut made_at = vec![None; self.id_limit()];
        (0..=u8::MAX).filter_map(|byte| self.byte_id(byte)).for_each(|id| made_at[id.index()] = Some(0));
        for merge in self.merges_by_length() {
            let [left, right] = [merge.left, merge.right].map(|id| made_at[id.index()]);
            if let (Some(left), Some(right)) = (left, right) {
                let way = left.max(right).max(merge.rank);
                let result = &mut made_at[merge.result.index()];
                *result = Some(result.map_or(way, |other: u32| other.min(way)));
            }
        }
        made_at
    }

    /// Returns the merges ordered by the length of their results, so that each comes after those that make its parts,
    /// whatever their ranks. Merges with the same result are adjacent.
    fn merges_by_length(&self) -> Vec<RankedMerge> {
        let mut merges = self.merges.clone();
        merges.sort_by_key(|merge| (self.bytes(merge.result).map_or(0, <[u8]>::len), merge.result));
        merges
    }

    /// Returns this vocabulary without some tokens, without every merge that makes or uses one of them, and without the
    /// tokens that no merge makes then. The others keep their ids and are encoded to as before: as the merges make
    /// them of their own bytes, which needs no removed merge.
    ///
    /// A token that no merge makes any longer stays if it is an added one, or if whole pre-tokens are
    /// [looked up](Vocabulary::ignore_merges) before merging. O(n log n) in the number of merges.
    ///
    /// ```
    /// # use tokenmill::{observer::Silent, run::{LearnConfig, learn}, source};
    /// # let texts = source::texts(["how much wood would a woodchuck chuck"]);
    /// # let (vocabulary, _) = learn(texts, &LearnConfig::new(300, &["<|endoftext|>"]), &Silent)?;
    /// let ch = vocabulary.id_of(b"ch").expect("a learned token");
    /// let without = vocabulary.without_tokens(&[ch])?;
    /// assert_eq!(without.id_of(b"ch"), None);
    /// assert_eq!(without.id_of(b"chuck"), None); // it was made of "ch"
    /// assert_eq!(without.id_of(b"<|endoftext|>"), vocabulary.id_of(b"<|endoftext|>"));
    /// # Ok::<(), tokenmill::Error>(())
    /// ```
    ///
    /// # Errors
    /// An id is not in use, or its token [cannot be removed](Vocabulary::check_removable).
    pub fn without_tokens(&self, ids: &[TokenId]) -> Result<Vocabulary> {
        let mut removed = vec![false; self.id_limit()];
        for &id in ids {
            self.check_removable(id)?;
            removed[id.index()] = true;
        }
        self.without(removed)
    }

    /// Checks that a token can be removed from the vocabulary.
    ///
    /// # Errors
    /// The id is not in use; or the token is a single byte, stands for bytes without a token, or is one that the
    /// tokenizer puts around a text. The message says which.
    pub fn check_removable(&self, id: TokenId) -> Result<()> {
        let Some(bytes) = self.bytes(id) else { return Err(unknown_id(id, self.id_limit())) };
        let template = &self.bos_eos_template;
        let reason = match bytes {
            &[byte] if !self.is_added_only(id) => {
                format!("it is byte 0x{byte:02X}, and text with this byte needs it")
            }
            _ if template.before.contains(&id) || template.after.contains(&id) => {
                "the tokenizer puts it around each text".to_owned()
            }
            _ if self.unknown.as_ref().is_some_and(|unknown| unknown.id == Some(id)) => {
                "it is the unk_token, which stands for bytes without a token".to_owned()
            }
            _ => return Ok(()),
        };
        let token = excerpt(&String::from_utf8_lossy(bytes));
        Err(Error::usage(format!("token {id} ({token}) cannot be removed: {reason}")))
    }

    /// Returns this vocabulary without the tokens that are marked by id, and without all that needs them.
    ///
    /// # Errors
    /// Those of [`Vocabulary::new`]. None occurs, since the rest of a vocabulary is one.
    fn without(&self, mut removed: Vec<bool>) -> Result<Vocabulary> {
        let mut in_merges = vec![false; self.id_limit()];
        let mut parts = self.parts();
        parts.merges.clear();
        for same_result in self.merges_by_length().chunk_by(|one, other| one.result == other.result) {
            let is_left = |id: TokenId| !removed[id.index()];
            let is_kept = |merge: &&RankedMerge| is_left(merge.left) && is_left(merge.right);
            let result = same_result[0].result;
            let kept: Vec<RankedMerge> = if is_left(result) {
                same_result.iter().filter(is_kept).copied().collect()
            } else {
                Vec::new()
            };
            if kept.is_empty() && !self.ignore_merges && self.added_token(result).is_none() {
                removed[result.index()] = true;
            }
            for merge in &kept {
                [merge.left, merge.right, result].into_iter().for_each(|id| in_merges[id.index()] = true);
            }
            parts.merges.extend(kept);
        }
        parts.added.retain(|token| !removed[token.id.index()]);
        // A token that is only found before the text is split is no ordinary token, as in files.
        let is_ordinary = |id: TokenId, bytes: &[u8]| match self.added_token(id) {
            Some(added) => bytes.len() == 1 || in_merges[id.index()] || self.ignore_merges && !added.special,
            None => true,
        };
        parts.tokens.retain(|(id, bytes)| !removed[id.index()] && is_ordinary(*id, bytes));
        parts.build()
    }

    /// Returns this vocabulary with ids from 0 on without holes. The order of the ids stays the same: the token with
    /// new id n is the n-th of [`tokens`](Vocabulary::tokens).
    pub fn with_dense_ids(&self) -> Vocabulary {
        let mut new = vec![TokenId::default(); self.id_limit()];
        self.tokens().zip(0..).for_each(|((id, _), number)| new[id.index()] = TokenId::new(number));
        let renumber = |id: &mut TokenId| *id = new[id.index()];
        let mut parts = self.parts();
        parts.tokens.iter_mut().for_each(|(id, _)| renumber(id));
        parts.added.iter_mut().for_each(|token| renumber(&mut token.id));
        for RankedMerge { left, right, result, .. } in &mut parts.merges {
            [left, right, result].into_iter().for_each(renumber);
        }
        let template = &mut parts.bos_eos_template;
        template.before.iter_mut().chain(&mut template.after).for_each(renumber);
        if let Some(id) = parts.unknown.as_mut().and_then(|unknown| unknown.id.as_mut()) {
            renumber(id);
        }
        parts.build().expect("new ids in the same order break no invariant")
    }
}

/// Most lines of a list that are reported together (5).
const MAX_REPORTED: usize = 5;

/// Reads a list of tokens to remove, one on each line:
///
/// - decimal digits are an id;
/// - a JSON string, in quotation marks, is the text of a token;
/// - any other line is itself the text of a token, with all white space.
///
/// Empty lines are skipped, and a line break may be `\r\n`. A token may be listed twice. Tokens that are not UTF-8
/// can be named by their ids only. Returns the ids in ascending order.
///
/// # Errors
/// The file cannot be read or is not UTF-8; a line names no token or several; or one of the tokens
/// [cannot be removed](Vocabulary::check_removable). The message has the numbers of the first such lines.
pub fn read_token_list(path: &Path, vocabulary: &Vocabulary) -> Result<Vec<TokenId>> {
    let mut by_text: Map<&[u8], Vec<TokenId>> = Map::default();
    vocabulary.tokens().for_each(|(id, bytes)| by_text.entry(bytes).or_default().push(id));
    let (mut ids, mut problems) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(read_text(path)?.lines()).filter(|(_, line)| !line.is_empty()) {
        let id = named_token(line, vocabulary, &by_text);
        let id =
            id.and_then(|id| vocabulary.check_removable(id).map_err(|error| error.to_string()).map(|()| id));
        match id {
            Ok(id) => ids.push(id),
            Err(problem) => problems.push(format!("line {number}: {problem}")),
        }
    }
    if !problems.is_empty() {
        let more = problems.len().saturating_sub(MAX_REPORTED);
        problems.truncate(MAX_REPORTED);
        if more > 0 {
            problems.push(format!("{} more", with_unit(to_u64(more), "line")));
        }
        return Err(Error::usage(problems.join("; ")).at(path.display()).with_help(
            "a line has the id of a token, its text, or its text as a JSON string; leave out the tokens that must stay",
        ));
    }
    if ids.is_empty() {
        return Err(Error::usage("the list names no token").at(path.display()));
    }
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

/// Returns the token that a line of a list names.
///
/// # Errors
/// It names no token, or several. The text completes a message.
fn named_token(
    line: &str,
    vocabulary: &Vocabulary,
    by_text: &Map<&[u8], Vec<TokenId>>,
) -> Result<TokenId, String> {
    if line.bytes().all(|byte| byte.is_ascii_digit()) {
        let id = line.parse().map(TokenId::new).ok().filter(|id| vocabulary.bytes(*id).is_some());
        return id.ok_or_else(|| format!("no token has id {line}"));
    }
    let text = match line.starts_with('"') {
        true => serde_json::from_str(line).map_err(|_| format!("{} is not a JSON string", excerpt(line)))?,
        false => line.to_owned(),
    };
    let tokens = |bytes: &[u8]| by_text.get(bytes).map_or(&[][..], Vec::as_slice);
    match tokens(text.as_bytes()) {
        &[id] => Ok(id),
        [] => {
            let spelled = byte_alphabet::read(&text).filter(|bytes| !tokens(bytes).is_empty());
            let hint = spelled.map_or_else(String::new, |bytes| {
                let text = excerpt(&String::from_utf8_lossy(&bytes));
                format!(" (if it is in the byte alphabet of GPT-2, write {text})")
            });
            Err(format!("no token has the text {}{hint}", excerpt(&text)))
        }
        several => {
            let ids: Vec<String> = several.iter().map(TokenId::to_string).collect();
            Err(format!("tokens {} have the text {}: name one by its id", ids.join(" and "), excerpt(&text)))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;
    use crate::encode::reference;
    use crate::split::SplitPattern;
    use crate::vocab::{AddedToken, VocabularyParts};

    /// Vocabularies of three bytes and merges of random pairs in any order of rank. Several merges may make one token,
    /// and some tokens cannot be made. The ids have holes.
    fn vocabularies() -> impl Strategy<Value = Vocabulary> {
        let pairs = vec((any::<Index>(), any::<Index>(), any::<u32>()), 0..14);
        (pairs, any::<bool>()).prop_map(|(pairs, ignore_merges)| {
            let mut tokens: Vec<Vec<u8>> = b"abc".iter().map(|&byte| vec![byte]).collect();
            let mut merges: Vec<RankedMerge> = Vec::new();
            let id = |index: usize| TokenId::from_index(2 * index + 1);
            for (left, right, rank) in pairs {
                let (left, right) = (left.index(tokens.len()), right.index(tokens.len()));
                let token = [&*tokens[left], &*tokens[right]].concat();
                let result = tokens.iter().position(|other| *other == token).unwrap_or(tokens.len());
                let pair = (id(left), id(right));
                if merges.iter().any(|merge| (merge.left, merge.right) == pair) || token.len() > 8 {
                    continue;
                }
                merges.push(RankedMerge { left: pair.0, right: pair.1, result: id(result), rank });
                if result == tokens.len() {
                    tokens.push(token);
                }
            }
            let added = AddedToken::special(id(tokens.len() + 1), "<|end|>");
            let tokens = tokens.into_iter().enumerate().map(|(at, bytes)| (id(at), bytes.into())).collect();
            Vocabulary::new(VocabularyParts {
                tokens,
                merges,
                added: vec![added],
                split: SplitPattern::None,
                ignore_merges,
                ..VocabularyParts::default()
            })
            .expect("distinct pairs")
        })
    }

    /// The obvious way to remove tokens: again and again, remove a merge with a missing token, and a token that lost
    /// its last merge.
    fn obviously_without(vocabulary: &Vocabulary, ids: &[TokenId]) -> (Vec<TokenId>, Vec<RankedMerge>) {
        let made = |merges: &[RankedMerge], id| merges.iter().any(|merge| merge.result == id);
        let mut tokens: Vec<TokenId> =
            vocabulary.tokens().map(|(id, _)| id).filter(|id| !ids.contains(id)).collect();
        let mut merges = vocabulary.merges().to_vec();
        loop {
            let before = (tokens.len(), merges.len());
            merges
                .retain(|merge| [merge.left, merge.right, merge.result].iter().all(|id| tokens.contains(id)));
            let lost = |id: TokenId| made(vocabulary.merges(), id) && !made(&merges, id);
            tokens.retain(|id| vocabulary.ignore_merges() || !lost(*id));
            if before == (tokens.len(), merges.len()) {
                return (tokens, merges);
            }
        }
    }

    fn pairs(merges: &[RankedMerge]) -> Vec<(TokenId, TokenId, TokenId)> {
        merges.iter().map(|merge| (merge.left, merge.right, merge.result)).collect()
    }

    proptest! {
        /// Tokens and merges are removed as the obvious way removes them.
        #[test]
        fn what_needs_a_removed_token_goes(vocabulary in vocabularies(), chosen in vec(any::<Index>(), 0..4)) {
            let removable: Vec<TokenId> = vocabulary.tokens()
                .map(|(id, _)| id)
                .filter(|id| vocabulary.check_removable(*id).is_ok())
                .collect();
            let ids: Vec<TokenId> = chosen.iter().map(|index| removable[index.index(removable.len())]).collect();
            let without = vocabulary.without_tokens(&ids).expect("removable tokens");
            let (tokens, merges) = obviously_without(&vocabulary, &ids);
            prop_assert_eq!(without.tokens().map(|(id, _)| id).collect::<Vec<_>>(), tokens);
            prop_assert_eq!(pairs(without.merges()), pairs(&merges));
        }

        /// A shortened vocabulary has the size that was asked for, and each of its tokens is made by merges as far as
        /// it was before.
        #[test]
        fn shortened_vocabularies_have_their_size(vocabulary in vocabularies(), size in any::<Index>()) {
            let (all, least) = (vocabulary.tokens().count(), 4);
            let size = least + size.index(all - least + 1);
            let shortened = vocabulary.shortened(size).expect("a size in the range");
            prop_assert_eq!(shortened.tokens().count(), size);
            let unmade = |vocabulary: &Vocabulary| {
                let made_at = vocabulary.made_at();
                vocabulary.ordinary().filter(|(id, _)| made_at[id.index()].is_none()).count()
            };
            prop_assert!(unmade(&shortened) <= unmade(&vocabulary));
            prop_assert!(vocabulary.shortened(all + 1).is_err() && vocabulary.shortened(least - 1).is_err());
        }

        /// With dense ids, every text has the same tokens.
        #[test]
        fn dense_ids_name_the_same_tokens(vocabulary in vocabularies(), text in "[abc]{0,20}") {
            let dense = vocabulary.with_dense_ids();
            prop_assert_eq!(dense.id_limit(), vocabulary.tokens().count());
            let old: Vec<TokenId> = vocabulary.tokens().map(|(id, _)| id).collect();
            let ids = reference::encode_pretoken(&dense, text.as_bytes());
            let named: Vec<TokenId> = ids.iter().map(|id| old[id.index()]).collect();
            prop_assert_eq!(named, reference::encode_pretoken(&vocabulary, text.as_bytes()));
            prop_assert_eq!(dense.specials().next().map(|token| token.id.index()), Some(dense.id_limit() - 1));
        }
    }
}
