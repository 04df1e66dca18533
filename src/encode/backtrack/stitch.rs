//! Stitching: joins the encodings of a text's chunks, each encoded as if the text began there.
//!
//! **Theorem. Take two encodings that begin at different positions of a text. From the first position on at which the
//! same token ends in both, they agree.** Both are sequences of compatible tokens, and only the token before decides
//! whether a token is compatible. So the tokens that follow the common one in the first encoding can also follow it in
//! the second. Together with the second encoding's tokens before them they are again a sequence of compatible tokens,
//! and [a text has only one](super). So both encodings continue with the same tokens.
//!
//! So a chunk is stitched to the text before it by extending the encoding of that text into the chunk until a token
//! ends there that is also a token of the chunk. Usually this takes a few tokens. If it never happens, the text before
//! is extended to the end of the chunk, and nothing of the chunk's encoding is used.
//!
//! The same theorem lets several [lanes](super::batched::Interleaved) encode one text. The lanes of a [lazy
//! DFA](super::lazy_dfa) are stitched by their states, which determine all that follows.

use super::path::{Backtracker, DeadEnds, Path};
use super::{BacktrackTables, NONE};
use crate::base::int::TokenId;
use crate::encode::ids::TokenIds;

/// Tokens at the start of a chunk that are kept in a separate list: usually more than change when the chunk is
/// stitched to the text before it.
const HEAD: usize = if cfg!(test) { 3 } else { 256 };

/// Tokens before a chunk that stitching first looks at. Each time all of them had to be replaced, it looks at
/// this many times more.
const TAIL: usize = if cfg!(test) { 2 } else { 256 };

/// An encoded chunk of a text.
#[derive(Debug)]
pub(crate) enum EncodedChunk {
    /// A chunk between two safe split points, which no token crosses.
    Independent(TokenIds),
    /// A chunk that is to be stitched.
    Overlapping(ChunkTokens),
}

/// A chunk of a text, encoded as if the text began there. The last token may end after the chunk.
#[derive(Debug)]
pub(crate) struct ChunkTokens {
    /// The first tokens of the chunk, at most [`HEAD`].
    head: Vec<TokenId>,
    /// The tokens after these.
    rest: TokenIds,
    /// The position in the text at which the last token ends.
    at: usize,
    /// The last token; [`NONE`] if the chunk has none.
    last: u32,
}

impl ChunkTokens {
    /// Takes over the tokens of a path, without those before its base. `room` provides the memory for them.
    pub(crate) fn new(path: &Path, mut room: TokenIds) -> ChunkTokens {
        let ids = &path.ids[path.base..];
        let (head, rest) = ids.split_at(ids.len().min(HEAD));
        room.extend_from_slice(rest);
        ChunkTokens { head: head.to_vec(), rest: room, at: path.at, last: path.last }
    }

    /// The tokens of the chunk.
    fn ids(&self) -> impl Iterator<Item = TokenId> {
        self.head.iter().copied().chain(self.rest.iter())
    }
}

/// Joins the encoded chunks of a text, which arrive in order.
#[derive(Debug)]
pub(crate) struct Stitcher {
    /// The ids of the text so far, after others that were there before.
    ids: TokenIds,
    /// Number of tokens of the text so far, without the other ids.
    tokens: usize,
    /// The position in the text at which the last token ends.
    at: usize,
    /// The last token; [`NONE`] at the start.
    last: u32,
    /// Dead ends that were met between chunks.
    dead: DeadEnds,
}

impl Stitcher {
    /// A stitcher at the start of a text. The text's tokens are appended to `ids`.
    pub(crate) fn new(ids: TokenIds) -> Stitcher {
        Stitcher { ids, tokens: 0, at: 0, last: NONE, dead: DeadEnds::default() }
    }

    /// Appends the next chunk of a text, which begins at `start`. Overlapping chunks need the tables that they were
    /// encoded with.
    pub(crate) fn push(
        &mut self,
        tables: Option<&BacktrackTables>,
        text: &[u8],
        start: usize,
        chunk: EncodedChunk,
    ) {
        match chunk {
            EncodedChunk::Independent(ids) => self.ids.join(ids),
            EncodedChunk::Overlapping(chunk) => {
                self.stitch(tables.expect("chunks overlap only with backtracking"), text, start, chunk);
            }
        }
    }

    /// Appends a chunk that begins at `start`, as if the text began there.
    ///
    /// Tokens before the chunk must be replaced if no others are compatible with the text that follows. As a rule
    /// none or few are. So the path continues from the last [`TAIL`] tokens only, and if all of these are
    /// replaced, from more.
    fn stitch(&mut self, tables: &BacktrackTables, text: &[u8], start: usize, chunk: ChunkTokens) {
        let mut examined = TAIL.min(self.tokens);
        let (path, met) = loop {
            let mut path = Path { at: self.at, last: self.last, ..Path::new(Vec::new(), 0) };
            path.ids = self.ids.last_ids(examined);
            path.least = examined;
            let mut backtracker = Backtracker::new(tables, text, &mut self.dead);
            let met = meet(&mut backtracker, &mut path, chunk.ids(), start, chunk.at);
            if path.least > 0 || examined == self.tokens {
                break (path, met);
            }
            examined = examined.saturating_mul(TAIL).min(self.tokens);
        };
        self.ids.take_back(examined - path.least);
        self.tokens -= examined - path.least;
        (self.at, self.last) = met.map_or((path.at, path.last), |_| (chunk.at, chunk.last));
        let (mut head, mut rest) = (path.ids, chunk.rest);
        head.drain(..path.least);
        match met {
            Some(met) if met <= chunk.head.len() => head.extend(&chunk.head[met..]),
            Some(met) => {
                let mut later = rest.room_for_as_many();
                later.extend(&rest, met - chunk.head.len()..rest.len());
                rest = later;
            }
            None => rest = TokenIds::default(),
        }
        self.tokens += head.len() + rest.len();
        self.ids.join(head.into_iter().collect());
        self.ids.join(rest);
    }

    /// Number of ids so far.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// The ids of the whole text, after those that were there before.
    pub(crate) fn into_ids(self) -> TokenIds {
        self.ids
    }
}

/// Extends a path until it meets a chunk that was encoded separately and spans `start` to `end`: until one of the
/// chunk's tokens ends where the path ends with the same token. Returns the number of the chunk's tokens up to there.
/// If that never happens, extends the path to the end of the chunk and returns `None`.
pub(super) fn meet(
    backtracker: &mut Backtracker<'_>,
    path: &mut Path,
    mut ids: impl Iterator<Item = TokenId>,
    start: usize,
    end: usize,
) -> Option<usize> {
    let (mut passed, mut at, mut last) = (0, start, NONE);
    while path.at < end {
        while at < path.at {
            last = ids.next().map_or(NONE, TokenId::get);
            at += backtracker.tables.length(last);
            passed += 1;
        }
        if at == path.at && passed > 0 && last == path.last {
            return Some(passed);
        }
        backtracker.extend_to(path, path.at + 1);
    }
    None
}
