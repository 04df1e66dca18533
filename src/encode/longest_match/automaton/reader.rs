use std::ops::Range;

use super::later::{Early, Later};
use super::merges::MANY;
use super::{Found, Tokens};
use crate::base::int::{TokenId, to_usize, truncate_to_u32};
use crate::encode::cache::{Cache, LINES, Lookup, NOT_SHORT, PLAIN};
use crate::encode::longest_match::Matches;
use crate::encode::longest_match::path::{DeadEnds, Finder, Path};
use crate::split::{SHORT, ShortPretoken};

/// Segments that are looked up, and prefetched, before the first of them is needed.
const PIECES: usize = 64;

/// Bytes per early token in a key: to the cache, early tokens are the bytes of a text.
const BYTES: usize = size_of::<Early>();

/// Reads the tokens of texts off the early tokens that an automaton has found, and carries out the late merges.
///
/// **Memory:** 8 MiB for the cache of segments (32 KiB at first), and 10 bytes for each byte of the longest text
/// or segment.
#[derive(Debug)]
pub(super) struct Reader {
    cache: Cache,
    /// The early tokens of a text, filled from the end.
    early: Vec<u8>,
    /// The segments of a text, filled from the end.
    pretokens: Vec<Pretoken>,
    lookups: Vec<Lookup>,
    dead: DeadEnds,
    path: Path,
}

/// The end of a segment.
#[derive(Clone, Copy, Debug, Default)]
struct Pretoken {
    /// In bytes of the text.
    end: u32,
    /// As an index of its early tokens.
    early_end: u32,
}

impl Default for Reader {
    fn default() -> Reader {
        let (early, pretokens, dead) = Default::default();
        Reader {
            cache: Cache::new(LINES),
            early,
            pretokens,
            lookups: vec![NOT_SHORT; PIECES],
            dead,
            path: Path::new(Vec::new(), 0),
        }
    }
}

/// What segments are encoded with.
#[derive(Clone, Copy)]
struct Means<'a> {
    matches: &'a Matches,
    later: &'a Later,
    text: &'a [u8],
}

impl Reader {
    /// Appends the tokens of a text to `ids`, given the early token of each of its positions. If the text
    /// continues and its last segment may continue too, that segment is left out. Returns the number of bytes that
    /// were encoded.
    pub(super) fn read(
        &mut self,
        (matches, tokens): (&Matches, &Tokens),
        (text, found): (&[u8], &[Found]),
        goes_on: bool,
        ids: &mut Vec<TokenId>,
    ) -> usize {
        if tokens.are_all() {
            return read_early(tokens, found, ids);
        }
        let (early, pretokens) = self.cut(tokens, found, goes_on);
        let Some(last) = self.pretokens[pretokens.clone()].last() else { return 0 };
        let end = to_usize(last.end);
        let first = ids.len();
        // Each early token ends up in some token, so this is enough. The cache writes four tokens at a time.
        ids.resize(first + early.len() + PLAIN, TokenId::default());
        let means = Means { matches, later: &tokens.later, text };
        let read = self.encode(means, early.start, pretokens, &mut ids[first..]);
        ids.truncate(first + read);
        end
    }

    /// Collects the early tokens and the segments of a text, and returns their ranges in the buffers.
    fn cut(&mut self, tokens: &Tokens, found: &[Found], goes_on: bool) -> (Range<usize>, Range<usize>) {
        let most = found.len();
        if self.pretokens.len() < most {
            self.pretokens.resize(most, Pretoken::default());
            self.early.resize(most * BYTES, 0);
        }
        let (mut first_early, mut first_pretoken) = (most, most);
        let (mut at, mut right) = (most, None);
        while at > 0 {
            let here = found[at - 1];
            let left = here.early();
            let may_cross = right.map_or(goes_on, |right| tokens.later.may_cross(left, right));
            self.pretokens[first_pretoken - 1] =
                Pretoken { end: truncate_to_u32(at), early_end: truncate_to_u32(first_early) };
            first_pretoken -= usize::from(!may_cross);
            first_early -= 1;
            self.early[first_early * BYTES..][..BYTES].copy_from_slice(&left.to_le_bytes());
            right = Some(left);
            at -= tokens.length(here);
        }
        (first_early..most, first_pretoken..most)
    }

    /// Writes the tokens of segments to `ids`, and returns their number. `first_early` is the index of the first
    /// segment's first early token.
    fn encode(
        &mut self,
        means: Means<'_>,
        first_early: usize,
        pretokens: Range<usize>,
        ids: &mut [TokenId],
    ) -> usize {
        let (mut start, mut first_early, mut written) = (0, first_early, 0);
        let (all, mut lookups) = (std::mem::take(&mut self.pretokens), std::mem::take(&mut self.lookups));
        for pretokens in all[pretokens].chunks(PIECES) {
            self.cache.make_room(&means.later.seeds);
            self.look_up(first_early, pretokens, &mut lookups);
            for (pretoken, lookup) in pretokens.iter().zip(&lookups) {
                let (end, early_end) = (to_usize(pretoken.end), to_usize(pretoken.early_end));
                written +=
                    self.pretoken(means, start..end, first_early..early_end, *lookup, &mut ids[written..]);
                (start, first_early) = (end, early_end);
            }
        }
        (self.pretokens, self.lookups) = (all, lookups);
        written
    }

    /// The early token at an index.
    fn early(&self, nth: usize) -> Early {
        let bytes = self.early[nth * BYTES..].first_chunk().expect("there are so many");
        Early::from_le_bytes(*bytes)
    }

    /// Computes and prefetches the cache lines of segments.
    #[inline(never)]
    fn look_up(&self, first_early: usize, pretokens: &[Pretoken], lookups: &mut [Lookup]) {
        let mut start = first_early * BYTES;
        for (pretoken, lookup) in pretokens.iter().zip(lookups) {
            let end = to_usize(pretoken.early_end) * BYTES;
            let length = end - start;
            if length <= SHORT {
                let pretoken = ShortPretoken::within(&self.early, start, length);
                *lookup = (pretoken, self.cache.line(pretoken));
                self.cache.fetch(lookup.1);
            }
            start = end;
        }
    }

    /// Writes the tokens of one segment to `ids`, and returns their number.
    #[inline(always)]
    fn pretoken(
        &mut self,
        means: Means<'_>,
        range: Range<usize>,
        early: Range<usize>,
        lookup: Lookup,
        ids: &mut [TokenId],
    ) -> usize {
        let is_short = early.len() * BYTES <= SHORT;
        if is_short {
            let tokens = ids.first_chunk_mut().expect("there is room for all");
            let known = self.cache.get(lookup.0, lookup.1, tokens);
            if known > 0 {
                return known;
            }
        }
        self.new_pretoken(means, range, early, is_short.then_some(lookup), ids)
    }

    /// Encodes a segment that the fast lookup did not find.
    #[inline(never)]
    fn new_pretoken(
        &mut self,
        Means { matches, later, text }: Means<'_>,
        range: Range<usize>,
        early: Range<usize>,
        lookup: Option<Lookup>,
        ids: &mut [TokenId],
    ) -> usize {
        if let Some((tokens, number)) =
            lookup.and_then(|(pretoken, line)| self.cache.get_packed(pretoken, line))
        {
            ids[..number].copy_from_slice(&tokens[..number]);
            return number;
        }
        if early.len() > MANY {
            self.path.restart();
            self.dead.clear();
            let length = range.len();
            Finder { matches, text: &text[range], dead: &mut self.dead }.go_on(&mut self.path, length);
            ids[..self.path.ids.len()].copy_from_slice(&self.path.ids);
            return self.path.ids.len();
        }
        let number = later.merge(early.map(|nth| self.early(nth)), ids);
        if let Some((pretoken, line)) = lookup {
            self.cache.put_before(pretoken, line, &ids[..number]);
        }
        number
    }
}

/// Appends the early tokens of a text to `ids`. Returns the number of its bytes.
fn read_early(tokens: &Tokens, found: &[Found], ids: &mut Vec<TokenId>) -> usize {
    let (first, mut at) = (ids.len(), found.len());
    while at > 0 {
        ids.push(tokens.later.id(found[at - 1].early()));
        at -= tokens.length(found[at - 1]);
    }
    ids[first..].reverse();
    found.len()
}
