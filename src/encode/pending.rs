//! Pending output of encoding: tokens, with holes for pre-tokens that are encoded later in a batch.

use std::hash::BuildHasher;

use rustc_hash::FxBuildHasher;

use super::cache::IDS;
use super::ids::TokenIds;
use crate::base::int::{TokenId, u64_to_usize};
use crate::split::ShortPretoken;

/// Most pre-tokens that are added between two checks of whether pending output is full.
pub(super) const PRETOKENS_PER_CHECK: usize = 64;

/// Maximum number of new pre-tokens that wait in pending output. With more, the holes are filled at the next check.
const NEW: usize = 256;
/// Maximum number of holes, and of ends of documents, that pending output has. With more, the holes are filled at the
/// next check.
const HOLES: usize = 1024;

/// Entries of the table that finds a new pre-token which occurs again soon, as many do. It is indexed by hash.
const NEAR: usize = 1024;

/// Known tokens above which pending output is copied to the result.
const TOKENS: usize = 16 << 10;

/// The tokens of documents in order, with holes for pre-tokens that are not encoded yet. New pre-tokens are rare,
/// and encoding many in a batch takes much less time than one by one.
pub(super) struct PendingOutput<'t> {
    /// Tokens up to the first hole.
    pub(super) ids: TokenIds,
    /// Ends of documents in `ids`.
    pub(super) ends: Vec<usize>,
    /// Documents that ended since: the number of holes, and of known tokens, before each end.
    pending_ends: Vec<(usize, usize)>,
    /// The holes since the last fill, in the order of the text.
    holes: Vec<Hole>,
    /// The pre-tokens that belong in the holes, each once if possible.
    pub(super) new_pretokens: Vec<&'t [u8]>,
    /// The same pre-tokens for the cache; [`ShortPretoken::NONE`] for those that it cannot hold.
    pub(super) short: Vec<ShortPretoken>,
    /// Buffers for known tokens and for finding new pre-tokens, lent by a worker.
    pub(super) memory: PendingBuffers,
    /// Number of known tokens since the last fill. They are the first ones in `memory.room`.
    pub(super) known: usize,
}

/// Buffers of pending output, which the next one reuses.
///
/// **Memory:** 68 KiB.
#[derive(Debug, Default)]
pub(super) struct PendingBuffers {
    /// Known tokens since the last fill, and space for more.
    room: Vec<TokenId>,
    /// For each hash, the index of the new pre-token that may have it. Entries of earlier output can remain, so
    /// the bytes are compared.
    near: Vec<u16>,
}

/// A position at which tokens are missing.
struct Hole {
    /// Number of known tokens before the hole.
    at: usize,
    /// Index of the new pre-token that belongs in the hole.
    pretoken: usize,
}

impl<'t> PendingOutput<'t> {
    /// Pending output that continues after `ids`.
    pub(super) fn new(ids: TokenIds, mut memory: PendingBuffers) -> PendingOutput<'t> {
        // Up to `TOKENS` are pending when a document begins. BOS or EOS, and the tokens of `PRETOKENS_PER_CHECK`
        // pre-tokens, can follow before the next check of whether the output is full.
        memory.room.resize(TOKENS + PRETOKENS_PER_CHECK * IDS + 2, TokenId::default());
        memory.near.resize(NEAR, 0);
        let (ends, pending_ends, holes, new_pretokens, short) = Default::default();
        PendingOutput { ids, ends, pending_ends, holes, new_pretokens, short, memory, known: 0 }
    }

    /// Whether the holes should be [filled](PendingOutput::fill_holes) now.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.known > TOKENS
            || self.new_pretokens.len() > NEW
            || self.holes.len().max(self.pending_ends.len()) > HOLES
    }

    /// The buffer for the tokens of known pre-tokens, and how much of it is in use.
    #[inline]
    pub(super) fn buffer(&mut self) -> (&mut [TokenId], usize) {
        (&mut self.memory.room, self.known)
    }

    /// Leaves a hole for the tokens of a pre-token. `short` is the same pre-token, or [`ShortPretoken::NONE`] if it is
    /// too long or a whole text. Returns `false` if the pre-token is known to belong in another hole.
    pub(super) fn leave_hole(&mut self, pretoken: &'t [u8], short: ShortPretoken) -> bool {
        let hash =
            if short == ShortPretoken::NONE { FxBuildHasher.hash_one(pretoken) } else { short.hash() >> 32 };
        let near = &mut self.memory.near[u64_to_usize(hash) % NEAR];
        let is_new = self.new_pretokens.get(usize::from(*near)) != Some(&pretoken);
        if is_new {
            *near = u16::try_from(self.new_pretokens.len()).expect("it would be full");
            self.new_pretokens.push(pretoken);
            self.short.push(short);
        }
        self.holes.push(Hole { at: self.known, pretoken: usize::from(*near) });
        is_new
    }

    /// Appends one token.
    pub(super) fn push(&mut self, token: TokenId) {
        self.memory.room[self.known] = token;
        self.known += 1;
    }

    /// Appends tokens if they fit and leave space for those of `PRETOKENS_PER_CHECK` more pre-tokens. Returns whether
    /// they did.
    ///
    /// If it returns `false`, nothing was appended. The caller then fills the holes and appends the tokens to `ids`.
    pub(super) fn put(&mut self, tokens: &[TokenId]) -> bool {
        let fits = self.known + tokens.len() <= TOKENS;
        if fits {
            self.memory.room[self.known..][..tokens.len()].copy_from_slice(tokens);
            self.known += tokens.len();
        }
        fits
    }

    /// Ends a document.
    ///
    /// The end in `ids` is known only after the holes before it are filled.
    pub(super) fn end(&mut self) {
        self.pending_ends.push((self.holes.len(), self.known));
    }

    /// Fills all holes. `tokens` returns the tokens of a new pre-token, given its index.
    ///
    /// Copies known tokens and those from `tokens` to `ids` in the order of the text, records where documents end,
    /// and leaves the pending part empty.
    pub(super) fn fill_holes<'n>(&mut self, tokens: impl Fn(usize) -> &'n [TokenId]) {
        // The last segment is handled like a document that ends here.
        self.end();
        let (mut holes, mut done, mut from) = (self.holes.drain(..), 0, 0);
        for (before, known) in self.pending_ends.drain(..) {
            for hole in holes.by_ref().take(before - done) {
                self.ids.extend_from_slice(&self.memory.room[from..hole.at]);
                self.ids.extend_from_slice(tokens(hole.pretoken));
                from = hole.at;
            }
            self.ids.extend_from_slice(&self.memory.room[from..known]);
            (done, from) = (before, known);
            self.ends.push(self.ids.len());
        }
        self.ends.pop();
        drop(holes);
        self.new_pretokens.clear();
        self.short.clear();
        self.known = 0;
    }

    /// The tokens, the ends of the documents in them, and the buffers. All holes must be filled.
    pub(super) fn into_parts(self) -> (TokenIds, Vec<usize>, PendingBuffers) {
        (self.ids, self.ends, self.memory)
    }
}
