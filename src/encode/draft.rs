use std::hash::BuildHasher;

use rustc_hash::FxBuildHasher;

use super::cache::IDS;
use super::ids::TokenIds;
use crate::units::{TokenId, place64};

/// At most so many pieces are put down before it is asked whether a draft is full.
pub(super) const PIECES: usize = 64;

/// New pieces are encoded once there are about so many, or so many gaps or documents.
const NEW: usize = 256;
const GAPS: usize = 1024;

/// Hashes by which a new piece is found that comes again soon, as many do.
const NEAR: usize = 1024;

/// What was put down is copied once it is about so many tokens.
const TOKENS: usize = 16 << 10;

/// The tokens of documents, one after the other, with gaps where a piece is not encoded yet: new pieces are
/// few, and encoding many of them together takes much less time than one by one.
pub(super) struct Draft<'t> {
    /// The tokens that nothing is missing of.
    pub(super) ids: TokenIds,
    /// Where documents end in these.
    pub(super) ends: Vec<usize>,
    /// The other documents that ended: how many gaps came before, and how many known tokens.
    open_ends: Vec<(usize, usize)>,
    gaps: Vec<Gap>,
    /// What belongs into the gaps.
    new: Vec<&'t [u8]>,
    pub(super) memory: Memory,
    known: usize,
}

/// What a draft needs of memory, for another after it.
///
/// **Memory:** 68 KiB.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Known tokens, and room for more.
    room: Vec<TokenId>,
    /// By its hash, which of the new pieces one may be; or which of an earlier draft it was.
    near: Vec<u16>,
}

/// A place where tokens are missing.
struct Gap {
    /// How many known tokens come before.
    at: usize,
    /// Which of the new pieces belongs here.
    piece: usize,
}

impl<'t> Draft<'t> {
    /// A draft that goes on behind these tokens.
    pub(super) fn new(ids: TokenIds, mut memory: Memory) -> Draft<'t> {
        // At most `TOKENS` are there when a document begins; then come BOS, or EOS, and the tokens of `PIECES` pieces
        // before it is asked again whether the draft is full.
        memory.room.resize(TOKENS + PIECES * IDS + 2, TokenId::default());
        memory.near.resize(NEAR, 0);
        let (ends, open_ends, gaps, new) = Default::default();
        Draft { ids, ends, open_ends, gaps, new, memory, known: 0 }
    }

    /// Whether it is time to [close](Draft::close) the gaps.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.known > TOKENS || self.new.len() > NEW || self.gaps.len().max(self.open_ends.len()) > GAPS
    }

    /// The new pieces.
    pub(super) fn new_pieces(&self) -> &[&'t [u8]] {
        &self.new
    }

    /// Room for the tokens of known pieces, and how much of it is taken.
    #[inline]
    pub(super) fn room(&mut self) -> (&mut [TokenId], usize) {
        (&mut self.memory.room, self.known)
    }

    /// Says how much of the room is taken.
    #[inline]
    pub(super) fn set_known(&mut self, known: usize) {
        self.known = known;
    }

    /// Leaves a gap for the tokens of a piece. False if the piece is known to have left another.
    pub(super) fn leave(&mut self, piece: &'t [u8]) -> bool {
        let near = &mut self.memory.near[place64(FxBuildHasher.hash_one(piece)) % NEAR];
        let is_new = self.new.get(usize::from(*near)) != Some(&piece);
        if is_new {
            *near = u16::try_from(self.new.len()).expect("it would be full");
            self.new.push(piece);
        }
        self.gaps.push(Gap { at: self.known, piece: usize::from(*near) });
        is_new
    }

    /// Puts down one token.
    pub(super) fn push(&mut self, token: TokenId) {
        self.memory.room[self.known] = token;
        self.known += 1;
    }

    /// Puts down tokens if there is room for them and for those of `PIECES` pieces more; says whether there was.
    pub(super) fn put(&mut self, tokens: &[TokenId]) -> bool {
        let fits = self.known + tokens.len() <= TOKENS;
        if fits {
            self.memory.room[self.known..][..tokens.len()].copy_from_slice(tokens);
            self.known += tokens.len();
        }
        fits
    }

    /// Ends a document.
    pub(super) fn end(&mut self) {
        self.open_ends.push((self.gaps.len(), self.known));
    }

    /// Closes all gaps, given the tokens of each new piece.
    pub(super) fn close<'n>(&mut self, tokens: impl Fn(usize) -> &'n [TokenId]) {
        // As if a document ended here.
        self.end();
        let (mut gaps, mut done, mut from) = (self.gaps.drain(..), 0, 0);
        for (before, known) in self.open_ends.drain(..) {
            for gap in gaps.by_ref().take(before - done) {
                self.ids.extend_from_slice(&self.memory.room[from..gap.at]);
                self.ids.extend_from_slice(tokens(gap.piece));
                from = gap.at;
            }
            self.ids.extend_from_slice(&self.memory.room[from..known]);
            (done, from) = (before, known);
            self.ends.push(self.ids.len());
        }
        self.ends.pop();
        drop(gaps);
        self.new.clear();
        self.known = 0;
    }

    /// The tokens, where documents end in them, and the memory. No gap may be open.
    pub(super) fn into_parts(self) -> (TokenIds, Vec<usize>, Memory) {
        (self.ids, self.ends, self.memory)
    }
}
