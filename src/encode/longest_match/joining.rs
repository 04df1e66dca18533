use super::path::Path;
use super::{Matches, NONE, Scratch};
use crate::base::int::TokenId;
use crate::encode::ids::TokenIds;

/// Tokens at the start of a chunk that are kept in a separate list: usually more than change when the chunk is
/// stitched to the text before it.
const HEAD: usize = if cfg!(test) { 3 } else { 256 };

/// Tokens before a chunk that stitching first looks at. Each time all of them had to be replaced, it looks at
/// this many times more.
const TAIL: usize = if cfg!(test) { 2 } else { 256 };

/// A chunk of a text, encoded as if the text began there.
#[derive(Debug)]
pub(crate) struct EncodedPart {
    head: Vec<TokenId>,
    rest: TokenIds,
    /// The end of the last token, which may be after the end of the chunk, and that token.
    pub(super) at: usize,
    last: u32,
}

impl EncodedPart {
    /// Takes over the tokens of a path, without those before its base. `room` provides the memory for them.
    pub(crate) fn new(path: &Path, mut room: TokenIds) -> EncodedPart {
        let ids = &path.ids[path.base..];
        let (head, rest) = ids.split_at(ids.len().min(HEAD));
        room.extend_from_slice(rest);
        EncodedPart { head: head.to_vec(), rest: room, at: path.at, last: path.last }
    }

    /// The tokens of the chunk.
    pub(super) fn ids(&self) -> impl Iterator<Item = TokenId> {
        self.head.iter().copied().chain(self.rest.iter())
    }
}

/// The tail of the encoding so far, while chunks are stitched one after the other.
#[derive(Debug)]
pub(crate) struct Ending {
    at: usize,
    last: u32,
    /// Number of tokens of the text so far.
    tokens: usize,
}

impl Ending {
    /// The start of a text.
    pub(crate) fn new() -> Ending {
        Ending { at: 0, last: NONE, tokens: 0 }
    }

    /// Appends the next chunk, which begins at `start`, to the ids of the text so far.
    ///
    /// Tokens before the chunk must be replaced if no others are compatible with the text that follows. As a rule
    /// none or few are. So the path continues from the last [`TAIL`] tokens only, and if all of these are
    /// replaced, from more.
    pub(crate) fn join(
        &mut self,
        ids: &mut TokenIds,
        (matches, scratch): (&Matches, &mut Scratch),
        (text, start): (&[u8], usize),
        part: EncodedPart,
    ) {
        let mut looked_at = TAIL.min(self.tokens);
        let (path, met) = loop {
            let mut path = Path { at: self.at, last: self.last, ..Path::new(Vec::new(), 0) };
            path.ids = ids.last_ids(looked_at);
            path.least = looked_at;
            let met = scratch.join(matches, text, &mut path, &part, start);
            if path.least > 0 || looked_at == self.tokens {
                break (path, met);
            }
            looked_at = looked_at.saturating_mul(TAIL).min(self.tokens);
        };
        ids.take_back(looked_at - path.least);
        self.tokens -= looked_at - path.least;
        (self.at, self.last) = met.map_or((path.at, path.last), |_| (part.at, part.last));
        let (mut head, mut rest) = (path.ids, part.rest);
        head.drain(..path.least);
        match met {
            Some(met) if met <= part.head.len() => head.extend(&part.head[met..]),
            Some(met) => {
                let mut later = rest.room_for_as_many();
                later.extend(&rest, met - part.head.len()..rest.len());
                rest = later;
            }
            None => rest = TokenIds::default(),
        }
        self.tokens += head.len() + rest.len();
        ids.join(head.into_iter().collect());
        ids.join(rest);
    }
}
