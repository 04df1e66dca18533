//! Encodes a pre-token, or a document that is not split, by backtracking, without carrying out merges.
//!
//! This is exact if every token encodes to itself, has bytes and a merge of its own, and every merge builds only
//! on merges of lower rank (see [`Method`](super::Method)). For such vocabularies, merging the lowest rank first,
//! the leftmost among equals, is the same as carrying out the merges one after the other by rank, each from left
//! to right over the whole text. Two tokens are *compatible* if their bytes together encode to exactly these two
//! tokens.
//!
//! **Theorem. A sequence of tokens is the encoding of its bytes exactly if all adjacent tokens are compatible.**
//! Suppose that up to some rank no merge has crossed a border between tokens of the sequence. Then the bytes of
//! each token have been merged as they would be alone. The merge of the next rank, going from left to right, does
//! at each border what it would do if the text had only the two tokens beside it. Text before the left token could
//! matter only if the two parts of the merge are equal and a run of them reaches the border; but the merge did
//! not cross the left token's start, so the run was paired up afresh from there. So a merge crosses a border of
//! the text exactly if it crosses in the encoding of the two tokens beside it. By induction, no merge crosses any
//! border exactly if all adjacent tokens are compatible, and then the bytes of each token become that token.
//!
//! So an encoding is found from left to right: of the tokens that begin the remaining text, take the longest that
//! is compatible with the token before. The tokens so far are then the encoding of the text so far. If none is
//! compatible, backtrack: replace the last token by a shorter one. A consequence is [stitching](stitch): chunks of a
//! text can be encoded independently and then joined.
//!
//! Whatever the merges make of the bytes around a position is a token. So if no token spans the border between
//! two characters, the text before and after it is encoded independently. New pre-tokens in scripts other than
//! Latin are cut at such borders, and a character that is then alone is looked up. Where most pre-tokens are new, short
//! ones are merged [in lockstep](lockstep) after all. Texts without a split are
//! encoded [interleaved](batched). With much such text, a [lazy DFA](lazy_dfa) learns what the early merges
//! produce, and the remaining segments are looked up in a cache.

mod trie;
mod path;
#[cfg(test)]
mod tests;

mod compatible;
mod batched;
mod stitch;
mod char_bounds;
mod lazy_dfa;
mod lockstep;

use std::mem;
use std::sync::Arc;

use batched::Interleaved;
use char_bounds::{CharBounds, CharacterCache};
use compatible::{CompatibleMatrix, FollowOrder};
use lazy_dfa::{DfaEncoder, EarlyTokens, LazyDfa, PendingPositions, SharedDfas, early_merges};
use lockstep::PairTable;
use path::{Backtracker, DeadEnds};
use trie::LongestPrefixTrie;

use crate::base::huge_pages;
use crate::base::int::{TokenId, to_usize, truncate_to_u32};
use crate::error::Result;
use crate::observer::Observer;
use crate::vocab::Vocabulary;

pub(super) use batched::BatchedBacktrack;
pub(super) use lockstep::LockstepMerger;
pub(super) use path::Path;
pub(super) use stitch::{ChunkTokens, EncodedChunk, Stitcher};

/// No token: the predecessor of a text's first token, and the next shorter token of the shortest one.
const NONE: u32 = u32::MAX;

/// The backtracking tables of a vocabulary, shared by all threads.
///
/// **Memory:** 0.6 MB; for each token 32 bytes, 8 for each byte that it does not share with the start of another
/// token, and 70 to 100 for its incompatible followers; for pre-tokens also that of [`PairTable`], for whole texts that
/// of [`EarlyTokens`].
#[derive(Debug)]
pub(super) struct BacktrackTables {
    /// Finds the longest token at a position: the first candidate there.
    longest: LongestPrefixTrie,
    /// One entry for each id. Ids without an ordinary token have unused entries, which no search finds.
    tokens: Box<[TokenEntry]>,
    /// Which tokens can be adjacent. Rows and columns are those of the entries in `tokens`.
    compatibility: CompatibleMatrix,
    /// The class of each byte value, as an index into [`TokenEntry::followers`].
    classes: [u8; 256],
    /// Where pre-tokens can be cut between characters.
    borders: CharBounds,
    /// Finds merges, for short pre-tokens. `None` for texts that are not split, and for very large vocabularies.
    pairs: Option<PairTable>,
    /// For texts that are not split: the tokens that the lazy DFA finds.
    whole: Option<EarlyTokens>,
    /// For texts that are not split: the states that threads have learned.
    dfas: SharedDfas,
}

/// What encoding looks up for a token. Two of these share one line of the CPU cache.
#[derive(Clone, Debug)]
#[repr(align(32))]
struct TokenEntry {
    /// One bit per [class](FollowOrder::classes) of bytes, clear if no token that begins with a byte of the class is
    /// compatible after this one.
    followers: u64,
    /// Start of the row of this token's incompatible followers in the [matrix](CompatibleMatrix).
    row: u32,
    /// The column of this token as a follower.
    column: u32,
    /// Length of the token in bytes.
    length: u32,
    /// The longest token that is a proper prefix of this one, or [`NONE`].
    shorter: u32,
}

impl TokenEntry {
    /// Whether any token that begins with a byte of this class is compatible after this one.
    #[inline]
    fn can_precede(&self, class: u8) -> bool {
        self.followers >> (u32::from(class) % u64::BITS) & 1 == 1
    }
}

impl BacktrackTables {
    /// Builds the tables of a vocabulary that allows backtracking, for pre-tokens or for whole texts. `None`
    /// if the vocabulary is too large, or constructed so that this would take too long.
    pub(super) fn new(vocabulary: &Vocabulary, whole_texts: bool) -> Option<BacktrackTables> {
        let ((longest, pairs), after) = rayon::join(
            || {
                (
                    LongestPrefixTrie::new(vocabulary),
                    (!whole_texts).then(|| PairTable::new(vocabulary)).flatten(),
                )
            },
            || {
                let order = FollowOrder::new(vocabulary);
                let (sets_after, sets) = order.sets_after()?;
                let (compatibility, columns) = CompatibleMatrix::new(&sets, order.numbers())?;
                Some((order, sets_after, sets, compatibility, columns))
            },
        );
        let (longest, shorter) = longest?;
        let (order, sets_after, sets, compatibility, columns) = after?;
        let followers: Vec<u64> =
            (0..sets.len()).map(|set| order.followers(sets.get(truncate_to_u32(set)))).collect();
        let unused = TokenEntry { followers: 0, row: 0, column: 0, length: 0, shorter: NONE };
        let mut tokens = vec![unused; shorter.len()];
        for (id, bytes) in vocabulary.ordinary() {
            let set = sets_after[id.index()];
            tokens[id.index()] = TokenEntry {
                followers: followers[to_usize(set)],
                row: CompatibleMatrix::row(set, &columns),
                column: columns[to_usize(order.number(id.get()))],
                length: truncate_to_u32(bytes.len()),
                shorter: shorter[id.index()],
            };
        }
        let whole = whole_texts.then(|| EarlyTokens::new(vocabulary, early_merges(vocabulary))).flatten();
        Some(BacktrackTables {
            longest,
            tokens: tokens.into(),
            compatibility,
            whole,
            classes: order.classes(),
            borders: CharBounds::new(vocabulary),
            pairs,
            dfas: SharedDfas::default(),
        })
    }

    /// Encodes pre-tokens of at most [`SHORT`](crate::split::SHORT) bytes in a batch. Returns `false` if this vocabulary
    /// does not allow that.
    pub(super) fn merge_in_lockstep(&self, merger: &mut LockstepMerger, pretokens: &[&[u8]]) -> bool {
        self.pairs.as_ref().map(|pairs| merger.encode(pairs, pretokens)).is_some()
    }

    /// Length of a token in bytes.
    fn length(&self, token: u32) -> usize {
        to_usize(self.tokens[to_usize(token)].length)
    }

    /// Whether texts can be encoded interleaved. That needs padding as long as the longest token after each text.
    fn can_interleave(&self) -> bool {
        self.longest.max_token_bytes() <= lazy_dfa::LONGEST
    }

    /// Whether two tokens are compatible: whether the bytes of both together encode to the two.
    #[inline(always)] // Once per token.
    fn are_compatible(&self, left: u32, right: u32) -> bool {
        self.compatibility.is_compatible(self.tokens[to_usize(left)].row, self.tokens[to_usize(right)].column)
    }

    /// Whether any token that begins with this byte is compatible after `token`.
    #[inline]
    fn can_follow(&self, token: u32, byte: u8) -> bool {
        self.tokens[to_usize(token)].can_precede(self.classes[usize::from(byte)])
    }

    /// The longest token that is a proper prefix of this one, or [`NONE`].
    fn shorter(&self, token: u32) -> u32 {
        self.tokens[to_usize(token)].shorter
    }

    /// The longest token that a text begins with, and its length in bytes. The text must not be empty.
    #[inline]
    fn longest(&self, text: &[u8]) -> (u32, usize) {
        self.sized(self.longest.find(text))
    }

    /// Replaces the length 0, which means 256 or more, by the token's real length.
    #[inline]
    fn sized(&self, (token, length): (u32, u32)) -> (u32, usize) {
        match length {
            0 => (token, self.length(token)),
            length => (token, to_usize(length)),
        }
    }

    /// Prefetches the entry of a token.
    fn fetch(&self, token: u32) {
        huge_pages::fetch(&self.tokens, to_usize(token));
    }

    /// Prefetches the first of the two words that say whether two tokens are compatible.
    fn fetch_compatibility(&self, left: u32, right: u32) {
        self.compatibility.fetch(self.tokens[to_usize(left)].row, self.tokens[to_usize(right)].column);
    }

    /// Prefetches the second of these words. The first must have arrived, as its content gives the address.
    fn fetch_compatibility_word(&self, left: u32, right: u32) {
        self.compatibility.fetch_word(self.tokens[to_usize(left)].row, self.tokens[to_usize(right)].column);
    }
}

/// Bytes between two checks of the observer.
const WINDOW: usize = 1 << 18;

/// Bits that the fourth power of the number of early tokens is shifted right by. The result is the number of
/// bytes of whole texts from which a lazy DFA pays: 16 MiB for 8 192 early tokens, 1 MiB for 4 096. The more
/// tokens, the more transitions must be learned, the longer each takes because memory is farther away, and the
/// less each one saves.
const WORTH_BITS: u32 = 28;

/// Factor of that number of bytes if the vocabulary has late merges (4 MiB for 4 096 early tokens), since the
/// cache of segments must fill as well.
const LATE_WORTH_FACTOR: usize = 4;

/// Longest text, in bytes, that is encoded in a batch with others if no token is very long.
const SHORT: usize = 4 << 10;

/// The scratch memory of one thread, for one vocabulary.
///
/// **Memory:** 0.5 MiB once a pre-token was cut into characters; while hard text is encoded, up to 40 bytes for
/// each of 262 144 positions; a share of a lazy DFA ([`LazyDfa`]) once there was much text without a split; up
/// to 5 bytes for each byte of texts that are encoded in a batch, at most 5 MiB.
#[derive(Debug, Default)]
pub(crate) struct BacktrackScratch {
    /// Dead ends of the text in progress.
    dead: DeadEnds,
    /// Facts about the characters that were met, valid for one vocabulary.
    characters: CharacterCache,
    /// The DFA in use; `None` until there was enough text, and again once it is full.
    dfa: Option<Arc<LazyDfa>>,
    /// What the DFA has found and is not yet certain.
    pending: PendingPositions,
    /// Encodes what the DFA does not, if no token is very long.
    interleaved: Interleaved,
    /// Bytes of whole texts since the start, or since the DFA was last full, without those that were cut into
    /// characters.
    seen: usize,
    /// Bytes of whole texts that are expected; 0 if unknown, and after the DFA was full.
    expected: usize,
    /// How many times the DFA was full.
    filled: u32,
    /// Tokens of the last batch of texts, concatenated.
    batch_ids: Vec<TokenId>,
    /// The end of each text's tokens in `batch_ids`, one entry per text.
    ends: Vec<usize>,
}

impl BacktrackScratch {
    /// Scratch memory for `expected` bytes of text; 0 if unknown.
    pub(crate) fn expecting(expected: usize) -> BacktrackScratch {
        BacktrackScratch { expected, ..BacktrackScratch::default() }
    }

    /// Appends the tokens of a text to `ids`.
    ///
    /// # Errors
    /// The observer asks to stop. `ids` may then contain some of the tokens.
    pub(crate) fn encode(
        &mut self,
        tables: &BacktrackTables,
        text: &[u8],
        ids: &mut Vec<TokenId>,
        observer: &dyn Observer,
    ) -> Result<()> {
        if tables.by_characters(text) {
            self.characters.encode(tables, text, &mut self.dead, ids);
            return Ok(());
        }
        let mut path = Path::new(mem::take(ids), 0);
        let outcome = self.extend_to(tables, text, &mut path, text.len(), observer);
        *ids = path.ids;
        outcome
    }

    /// Extends a path to `end` or past it.
    ///
    /// # Errors
    /// The observer asks to stop. The path may then be shorter.
    pub(crate) fn extend_to(
        &mut self,
        tables: &BacktrackTables,
        text: &[u8],
        path: &mut Path,
        end: usize,
        observer: &dyn Observer,
    ) -> Result<()> {
        if path.last == NONE {
            self.begin(tables, text, path, end, observer)?;
        }
        loop {
            let window = (path.at + WINDOW).min(end);
            let mut backtracker = Backtracker::new(tables, text, &mut self.dead);
            match tables.can_interleave() {
                true => self.interleaved.extend_to(&mut backtracker, path, window),
                false => backtracker.extend_to(path, window),
            }
            if path.at >= end {
                return Ok(());
            }
            observer.checkpoint()?;
        }
    }

    /// Extends a path that has just begun as far as the DFA is certain, if one is in use: to the end of the text,
    /// or to some position before `end`.
    fn begin(
        &mut self,
        tables: &BacktrackTables,
        text: &[u8],
        path: &mut Path,
        end: usize,
        observer: &dyn Observer,
    ) -> Result<()> {
        let Some(mut dfa_encoder) = self.dfa_encoder(tables, end - path.at) else { return Ok(()) };
        let outcome = dfa_encoder.extend_to(text, path, end, observer);
        self.drop_if_full(tables);
        outcome
    }

    /// The DFA, ready to encode, if it pays after `bytes` more bytes of whole texts.
    fn dfa_encoder<'a>(&'a mut self, tables: &'a BacktrackTables, bytes: usize) -> Option<DfaEncoder<'a>> {
        let tokens = tables.whole.as_ref()?;
        self.seen = self.seen.saturating_add(bytes);
        let factor = if tokens.are_all() { 1 } else { LATE_WORTH_FACTOR };
        let worth = (tokens.len().saturating_pow(4) >> WORTH_BITS) * factor;
        let worth = worth.saturating_mul(1 << self.filled.min(32));
        if self.dfa.is_none() && self.seen.max(self.expected) < worth {
            return None;
        }
        let dfa = self.dfa.get_or_insert_with(|| tables.dfas.get(tokens));
        Some(DfaEncoder { dfa, tables, tokens, pending: &mut self.pending })
    }

    /// Whether a DFA is in use.
    #[cfg(test)]
    fn has_dfa(&self) -> bool {
        self.dfa.is_some()
    }

    /// If the DFA is full, stops using it until twice as much text has been met.
    fn drop_if_full(&mut self, tables: &BacktrackTables) {
        if let Some(full) = self.dfa.take_if(|dfa| dfa.is_full()) {
            tables.dfas.forget(&full);
            (self.seen, self.expected) = (0, 0);
            self.filled += 1;
        }
    }

    /// Whether a whole text should be encoded [in a batch](BacktrackScratch::encode_batch) with others.
    pub(crate) fn should_batch(&self, tables: &BacktrackTables, text: &[u8]) -> bool {
        let by_longest_matches = || tables.can_interleave() && !tables.by_characters(text);
        text.len() <= SHORT && (self.dfa.is_some() || by_longest_matches())
    }

    /// Encodes whole texts in a batch. None may be empty or long.
    pub(crate) fn encode_batch(&mut self, tables: &BacktrackTables, texts: &[&[u8]]) {
        self.batch_ids.clear();
        self.ends.clear();
        let bytes = texts.iter().map(|text| text.len()).sum();
        let (mut ids, mut ends) = (mem::take(&mut self.batch_ids), mem::take(&mut self.ends));
        if let Some(mut dfa_encoder) = self.dfa_encoder(tables, bytes) {
            dfa_encoder.encode(texts, &mut ids, &mut ends);
            self.drop_if_full(tables);
        }
        (self.batch_ids, self.ends) = (ids, ends);
        // The DFA is not in use, or was full before all texts were encoded.
        let rest = &texts[self.ends.len()..];
        self.interleaved.encode(tables, rest);
        for (nth, text) in rest.iter().enumerate() {
            if let Some(ids) = self.interleaved.ids(nth) {
                self.batch_ids.extend_from_slice(ids);
            } else {
                let mut path = Path::new(mem::take(&mut self.batch_ids), 0);
                Backtracker::new(tables, text, &mut self.dead).extend_to(&mut path, text.len());
                self.batch_ids = path.ids;
            }
            self.ends.push(self.batch_ids.len());
        }
    }

    /// The tokens of one text of the last batch.
    pub(crate) fn ids(&self, text: usize) -> &[TokenId] {
        let start = text.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.batch_ids[start..self.ends[text]]
    }
}
