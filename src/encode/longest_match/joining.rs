use super::path::Path;
use super::{Matches, NONE, Scratch};
use crate::encode::ids::TokenIds;
use crate::units::TokenId;

/// So many tokens of a part are kept apart from the others: mostly more than change where it is joined to what
/// stands before.
const HEAD: usize = if cfg!(test) { 3 } else { 256 };

/// So many tokens before a part are looked at first; this many times as many each time that all had to be given back.
const TAIL: usize = if cfg!(test) { 2 } else { 256 };

/// A part of a text, encoded as if the text began where it does.
#[derive(Debug)]
pub(crate) struct EncodedPart {
    head: Vec<TokenId>,
    rest: TokenIds,
    /// Where the last token ends, which may be past the end of the part, and that token.
    pub(super) at: usize,
    last: u32,
}

impl EncodedPart {
    /// Takes over what a path has found, but for what stood before it. `room` is for its tokens.
    pub(crate) fn new(path: &Path, mut room: TokenIds) -> EncodedPart {
        let ids = &path.ids[path.base..];
        let (head, rest) = ids.split_at(ids.len().min(HEAD));
        room.extend_from_slice(rest);
        EncodedPart { head: head.to_vec(), rest: room, at: path.at, last: path.last }
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = TokenId> {
        self.head.iter().copied().chain(self.rest.iter())
    }
}

/// Where the encoding of a text so far ends, the parts of which are joined one after the other.
#[derive(Debug)]
pub(crate) struct Ending {
    at: usize,
    last: u32,
    /// How many tokens it has.
    tokens: usize,
}

impl Ending {
    /// The start of a text.
    pub(crate) fn new() -> Ending {
        Ending { at: 0, last: NONE, tokens: 0 }
    }

    /// Appends the next part, which begins at `start`, to the ids of the text so far.
    ///
    /// Tokens before it have to be given back where what follows fits no other way, as a rule none or few. So a path
    /// goes on from the last of them only; if none of these is left, from more.
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
