use std::hash::BuildHasher;

use rustc_hash::FxBuildHasher;

use super::cache::IDS;
use crate::units::{TokenId, place64};

/// At most so many pieces are put down before it is asked whether a draft is full.
pub(super) const PIECES: usize = 64;

/// New pieces are encoded once there are about so many.
const NEW: usize = 256;

/// Of so many of them it is remembered which they were, as a piece that is new often comes again soon.
const NEAR: usize = 256;

/// What was put down is copied once it is about so many tokens.
const TOKENS: usize = 16 << 10;

/// The tokens of documents, one after the other, with gaps where a piece is not encoded yet: new pieces are
/// few, and encoding many of them together takes much less time than one by one.
pub(super) struct Draft<'t> {
    /// The tokens that nothing is missing of.
    pub(super) ids: Vec<TokenId>,
    /// Where documents end in these.
    pub(super) ends: Vec<usize>,
    /// The other documents that ended: how many gaps came before, and how many known tokens.
    open_ends: Vec<(usize, usize)>,
    gaps: Vec<Gap>,
    /// What belongs into the gaps.
    new: Vec<&'t [u8]>,
    /// By a part of its hash, which of these a piece may be.
    near: [u16; NEAR],
    /// Known tokens, and room for more.
    room: Vec<TokenId>,
    known: usize,
}

/// A place where tokens are missing.
struct Gap {
    /// How many known tokens come before.
    at: usize,
    /// Which of the new pieces belongs here.
    piece: usize,
}

impl<'t> Draft<'t> {
    /// A draft that goes on behind these tokens. The room is an earlier draft's.
    pub(super) fn new(ids: Vec<TokenId>, mut room: Vec<TokenId>) -> Draft<'t> {
        // As much as can be there when it is asked whether that is too much, and after it.
        room.resize(TOKENS + PIECES * IDS + 2, TokenId::default());
        let (ends, open_ends, gaps, new) = Default::default();
        Draft { ids, ends, open_ends, gaps, new, near: [0; NEAR], room, known: 0 }
    }

    /// Whether it is time to [close](Draft::close) the gaps.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.known > TOKENS || self.gaps.len() > NEW
    }

    /// The new pieces.
    pub(super) fn new_pieces(&self) -> &[&'t [u8]] {
        &self.new
    }

    /// Room for the tokens of known pieces, and how much of it is taken.
    #[inline]
    pub(super) fn room(&mut self) -> (&mut [TokenId], usize) {
        (&mut self.room, self.known)
    }

    /// Says how much of the room is taken.
    #[inline]
    pub(super) fn set_known(&mut self, known: usize) {
        self.known = known;
    }

    /// Leaves a gap for the tokens of a piece. False if the piece is known to have left another.
    pub(super) fn leave(&mut self, piece: &'t [u8]) -> bool {
        let near = &mut self.near[place64(FxBuildHasher.hash_one(piece)) % NEAR];
        let is_new = self.new.get(usize::from(*near)).is_none_or(|near| *near != piece);
        if is_new {
            *near = u16::try_from(self.new.len()).expect("it would be full");
            self.new.push(piece);
        }
        self.gaps.push(Gap { at: self.known, piece: usize::from(*near) });
        is_new
    }

    /// Puts down one token.
    pub(super) fn push(&mut self, token: TokenId) {
        self.room[self.known] = token;
        self.known += 1;
    }

    /// Ends a document.
    pub(super) fn end(&mut self) {
        self.open_ends.push((self.gaps.len(), self.known));
    }

    /// Closes all gaps, given the tokens of each new piece.
    pub(super) fn close<'n>(&mut self, tokens: impl Fn(usize) -> &'n [TokenId]) {
        let (mut gaps, mut done, mut from) = (self.gaps.iter(), 0, 0);
        let last = (self.gaps.len(), self.known);
        for (number, (before, known)) in self.open_ends.iter().copied().chain([last]).enumerate() {
            for gap in gaps.by_ref().take(before - done) {
                self.ids.extend_from_slice(&self.room[from..gap.at]);
                self.ids.extend_from_slice(tokens(gap.piece));
                from = gap.at;
            }
            self.ids.extend_from_slice(&self.room[from..known]);
            (done, from) = (before, known);
            if number < self.open_ends.len() {
                self.ends.push(self.ids.len());
            }
        }
        self.open_ends.clear();
        self.gaps.clear();
        self.new.clear();
        self.known = 0;
    }

    /// The tokens, where documents end in them, and the room. No gap may be open.
    pub(super) fn into_parts(self) -> (Vec<TokenId>, Vec<usize>, Vec<TokenId>) {
        (self.ids, self.ends, self.room)
    }
}
