use crate::pages;
use crate::split::{SHORT, ShortPiece};
use crate::units::{TokenId, amount, place, place64};

/// Up to so many tokens of a piece are remembered.
pub(super) const IDS: usize = 7;
/// Up to so many stand in a slot as they are. More are packed, if their ids have no more than [`PACKED_BITS`].
pub(super) const PLAIN: usize = 4;
const PACKED_BITS: usize = 18;
/// Lines of a worker's cache once it has grown: at 64 bytes each, 8 MiB.
pub(super) const LINES: usize = 1 << 17;
/// Lines of a cache that has nothing in it: 32 KiB.
const FIRST_LINES: usize = 1 << 9;
/// A crowded cache gets so many times the lines.
const GROWTH: usize = 16;

/// Where the number of ids stands in a slot, above the piece's length; 0 says that they are packed.
const COUNT_AT: u32 = 60;
/// Where their number stands in what is packed, less the least that it is: in the two bits that are left.
const PACKED_COUNT_AT: usize = IDS * PACKED_BITS;

/// The tokens of short pieces met before: each piece has two slots to stand in, one line of the processor's
/// cache. A new piece takes the second; one that is found there moves to the first.
///
/// Keys are the pieces themselves, so a hit is never wrong.
///
/// **Memory:** 64 bytes a line: few at first, so that a short text does not pay for a large cache, and at
/// most so many as were allowed, whatever the text.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    lines: Vec<Line>,
    shift: u32,
    /// Pieces put since there are so many lines.
    put: usize,
    most: usize,
}

/// A piece that is one token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seed(ShortPiece, TokenId);

impl Seed {
    /// Of a token, if it is short enough.
    pub(super) fn new(token: TokenId, bytes: &[u8]) -> Option<Seed> {
        (bytes.len() <= SHORT).then(|| Seed(ShortPiece::new(bytes), token))
    }
}

/// A piece, and the line of the cache that it may stand in.
pub(super) type Lookup = (ShortPiece, usize);

/// What is looked up for a piece that is too long for the cache.
pub(super) const NOT_SHORT: Lookup = (ShortPiece::NONE, 0);

#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Line([Slot; 2]);

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    low: u64,
    /// As of the piece, and above it how many ids there are. 0 is free: no piece is empty.
    high: u64,
    ids: [TokenId; PLAIN],
}

impl Slot {
    #[inline(always)]
    fn is(&self, piece: ShortPiece) -> bool {
        self.low == piece.low && (self.high ^ piece.high) << (u64::BITS - COUNT_AT) == 0
    }

    /// If there is room for the tokens.
    fn new(piece: ShortPiece, tokens: &[TokenId]) -> Option<Slot> {
        debug_assert!(!tokens.is_empty(), "no piece is empty");
        match tokens.len() {
            0..=PLAIN => Some(Slot::plain(piece, tokens)),
            _ => Slot::packed(piece, tokens),
        }
    }

    /// Of a piece with at most [`PLAIN`] tokens.
    fn plain(piece: ShortPiece, tokens: &[TokenId]) -> Slot {
        let mut ids = [TokenId::default(); PLAIN];
        ids[..tokens.len()].copy_from_slice(tokens);
        Slot { low: piece.low, high: piece.high | amount(tokens.len()) << COUNT_AT, ids }
    }

    /// Of a piece with more tokens, if there is room for them.
    fn packed(piece: ShortPiece, tokens: &[TokenId]) -> Option<Slot> {
        let fits = |id: &TokenId| id.get() < 1 << PACKED_BITS;
        (tokens.len() <= IDS && tokens.iter().all(fits)).then(|| {
            let add = |packed, id: &TokenId| packed << PACKED_BITS | u128::from(id.get());
            let packed =
                tokens.iter().rfold(0, add) | u128::from(amount(tokens.len() - PLAIN - 1)) << PACKED_COUNT_AT;
            let ids = std::array::from_fn(|word| TokenId::new(low_word(packed >> (32 * word))));
            Slot { low: piece.low, high: piece.high, ids }
        })
    }

    /// The tokens, if they are packed, and how many they are.
    fn unpack(&self) -> Option<([TokenId; IDS], usize)> {
        let packed = self.ids.iter().rfold(0, |packed, word| packed << 32 | u128::from(word.get()));
        let id = |number| low_word(packed >> (PACKED_BITS * number)) & ((1 << PACKED_BITS) - 1);
        let number = PLAIN + 1 + place(low_word(packed >> PACKED_COUNT_AT));
        (self.high >> COUNT_AT == 0).then(|| (std::array::from_fn(|at| TokenId::new(id(at))), number))
    }

    fn piece(&self) -> ShortPiece {
        ShortPiece { low: self.low, high: self.high & ((1 << COUNT_AT) - 1) }
    }
}

fn low_word(bits: u128) -> u32 {
    let [first, second, third, fourth, ..] = bits.to_le_bytes();
    u32::from_le_bytes([first, second, third, fourth])
}

impl Cache {
    /// A cache that grows to so many lines, a power of two of at least 2.
    pub(super) fn new(most: usize) -> Cache {
        Cache::of(most.min(FIRST_LINES), most)
    }

    fn of(lines: usize, most: usize) -> Cache {
        let shift = u64::BITS - lines.trailing_zeros();
        Cache { lines: pages::filled(Line::default(), lines), shift, put: 0, most }
    }

    /// Grows if as many pieces were put as there are lines. Pieces stand in other lines after that.
    ///
    /// A cache that has got all its lines begins with pieces that were not met yet: those of these tokens.
    #[inline(always)]
    pub(super) fn make_room(&mut self, seeds: &[Seed]) {
        if self.put >= self.lines.len() && self.lines.len() < self.most {
            self.grow(seeds);
        }
    }

    #[cold]
    fn grow(&mut self, seeds: &[Seed]) {
        let mut larger = Cache::of((self.lines.len() * GROWTH).min(self.most), self.most);
        if larger.lines.len() == self.most {
            // The last learned first: they make way for others.
            seeds.iter().rev().for_each(|&Seed(piece, token)| larger.put_first(Slot::plain(piece, &[token])));
        }
        // The second slot first, so that what was in the first ends there where both meet again.
        for slot in self.lines.iter().flat_map(|Line([first, second])| [second, first]) {
            if slot.high != 0 {
                larger.put_first(*slot);
            }
        }
        *self = larger;
    }

    /// A cache that has got all its lines.
    #[cfg(test)]
    pub(super) fn full(lines: usize, seeds: &[Seed]) -> Cache {
        let mut cache = Cache::new(lines);
        cache.grow(seeds);
        cache
    }

    fn put_first(&mut self, slot: Slot) {
        let line = self.line(slot.piece());
        let [first, second] = &mut self.lines[line].0;
        if !first.is(slot.piece()) {
            *second = std::mem::replace(first, slot);
        }
    }

    /// The line that a piece stands in, if it is remembered.
    #[inline(always)]
    pub(super) fn line(&self, piece: ShortPiece) -> usize {
        place64(piece.hash() >> self.shift)
    }

    /// Asks for a line.
    #[inline(always)]
    pub(super) fn fetch(&self, line: usize) {
        pages::fetch(&self.lines, line);
    }

    /// Finds the lines of pieces, which end at these places of a text, and asks for them. Not part of its caller, so
    /// that all it needs stays in registers.
    #[inline(never)]
    pub(super) fn look_up(&self, text: &[u8], mut start: usize, ends: &[u32], lookups: &mut [Lookup]) {
        for (lookup, &end) in lookups.iter_mut().zip(ends) {
            let end = place(end);
            *lookup = if end - start <= SHORT {
                let piece = ShortPiece::within(text, start, end - start);
                let line = self.line(piece);
                self.fetch(line);
                (piece, line)
            } else {
                NOT_SHORT
            };
            start = end;
        }
    }

    /// Writes down the tokens of pieces one after the other, up to the first that is not known at a glance. Says how
    /// many pieces and how many tokens.
    #[inline(never)]
    pub(super) fn get_many(&mut self, lookups: &[Lookup], room: &mut [TokenId]) -> (usize, usize) {
        let mut known = 0;
        for (number, &(piece, line)) in lookups.iter().enumerate() {
            let tokens = room[known..].first_chunk_mut().expect("there is room for so many pieces");
            match self.get(piece, line, tokens) {
                0 => return (number, known),
                number => known += number,
            }
        }
        (lookups.len(), known)
    }

    /// Writes down the tokens of a piece, if they are remembered in this line, which is the piece's, and are few.
    /// Says how many they are; else 0, and then [`get_packed`](Cache::get_packed) may know them.
    #[inline(always)]
    pub(super) fn get(&mut self, piece: ShortPiece, line: usize, tokens: &mut [TokenId; PLAIN]) -> usize {
        let Line(slots) = &mut self.lines[line];
        if !slots[0].is(piece) {
            if !slots[1].is(piece) {
                return 0;
            }
            slots.swap(0, 1);
        }
        *tokens = slots[0].ids;
        place64(slots[0].high >> COUNT_AT)
    }

    /// The tokens of a piece that was just looked for in this line, if they are remembered, and how many they are.
    pub(super) fn get_packed(&self, piece: ShortPiece, line: usize) -> Option<([TokenId; IDS], usize)> {
        let Line([slot, _]) = &self.lines[line];
        if slot.is(piece) { slot.unpack() } else { None }
    }

    /// Remembers the tokens of a piece in its line, if they are few enough.
    pub(super) fn put(&mut self, piece: ShortPiece, line: usize, tokens: &[TokenId]) {
        if let Some(slot) = Slot::new(piece, tokens) {
            self.put += 1;
            self.lines[line].0[1] = slot;
        }
    }

    /// The same, in the first of its slots.
    pub(super) fn put_before(&mut self, piece: ShortPiece, line: usize, tokens: &[TokenId]) {
        if let Some(slot) = Slot::new(piece, tokens) {
            self.put += 1;
            let [first, second] = &mut self.lines[line].0;
            *second = std::mem::replace(first, slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::low32;

    fn get(cache: &mut Cache, piece: ShortPiece) -> Option<Vec<TokenId>> {
        let (line, mut tokens) = (cache.line(piece), Default::default());
        match cache.get(piece, line, &mut tokens) {
            0 => cache.get_packed(piece, line).map(|(tokens, number)| tokens[..number].to_vec()),
            number => Some(tokens[..number].to_vec()),
        }
    }

    #[test]
    fn as_many_tokens_are_remembered_as_there_is_room_for() {
        let mut cache = Cache::new(2);
        let piece = ShortPiece::new(b"piece");
        let line = cache.line(piece);
        for largest in [0, 1 << 16, (1 << PACKED_BITS) - 1, 1 << PACKED_BITS, u32::MAX >> 1] {
            for number in 1..=IDS + 2 {
                cache = Cache::new(2);
                let tokens: Vec<TokenId> =
                    (0..number).map(|back| TokenId::new(largest.saturating_sub(low32(back)))).rev().collect();
                cache.put(piece, line, &tokens);
                let fits = number <= PLAIN || number <= IDS && largest < 1 << PACKED_BITS;
                assert_eq!(get(&mut cache, piece), fits.then_some(tokens), "{number} ids up to {largest}");
            }
        }
        assert_eq!(cache.get_packed(ShortPiece::NONE, 0), None);
    }

    #[test]
    fn pieces_that_differ_in_the_zeros_at_their_end_are_told_apart() {
        let pieces = [&b"ab"[..], b"ab\0", b"ab\0\0\0\0\0\0\0"].map(ShortPiece::new);
        for (one, other) in pieces.iter().flat_map(|one| pieces.map(|other| (*one, other))) {
            let (mut cache, token) = (Cache::new(2), TokenId::new(7));
            cache.put(one, cache.line(other), &[token]);
            assert_eq!(get(&mut cache, other), (one == other).then_some(vec![token]));
        }
    }

    #[test]
    fn a_piece_is_found_until_others_take_its_slots() {
        let mut cache = Cache::new(2);
        let ids = |number: u32| [TokenId::new(number); IDS];
        let pieces: Vec<ShortPiece> = (b'a'..=b'h').map(|byte| ShortPiece::new(&[byte])).collect();
        for (number, &piece) in (0..).zip(&pieces) {
            assert_eq!(get(&mut cache, piece), None);
            cache.put(piece, cache.line(piece), &ids(number));
            assert_eq!(get(&mut cache, piece), Some(ids(number).to_vec()));
        }
        let found = pieces.iter().filter(|&&piece| get(&mut cache, piece).is_some()).count();
        assert!((2..=4).contains(&found));
        cache.put(pieces[0], cache.line(pieces[0]), &[TokenId::new(7); IDS + 1]);
        assert!(get(&mut cache, pieces[0]).is_none_or(|known| known == ids(0)));
        cache.put(pieces[1], cache.line(pieces[1]), &ids(9)[..2]);
        assert_eq!(get(&mut cache, pieces[1]), Some(ids(9)[..2].to_vec()));
    }

    #[test]
    fn what_was_put_before_others_goes_after_them() {
        let ids = |number: u32| [TokenId::new(number)];
        let [first, second, third] = [b"1", b"2", b"3"].map(|piece| ShortPiece::new(piece));
        let mut cache = Cache::new(2);
        // All in one line, whichever they have.
        let mut known = |put: ShortPiece, number: u32| {
            cache.put_before(put, 0, &ids(number));
            let mut looked_up = cache.clone();
            [first, second, third].map(|piece| looked_up.get(piece, 0, &mut Default::default()) > 0)
        };
        assert_eq!(known(first, 1), [true, false, false]);
        assert_eq!(known(second, 2), [true, true, false]);
        assert_eq!(known(third, 3), [false, true, true]);
    }

    #[test]
    fn a_crowded_cache_grows_and_forgets_little() {
        let mut cache = Cache::new(LINES);
        let ids = |number: u32| [TokenId::new(number); IDS];
        let pieces: Vec<ShortPiece> =
            (0..20_000_u32).map(|number| ShortPiece::new(format!("{number}").as_bytes())).collect();
        for (number, &piece) in (0..).zip(&pieces) {
            cache.make_room(&[]);
            assert_eq!(get(&mut cache, piece), None);
            cache.put(piece, cache.line(piece), &ids(number));
        }
        assert_eq!(cache.lines.len(), LINES);
        let mut found = 0;
        for (number, &piece) in (0..).zip(&pieces) {
            if let Some(known) = get(&mut cache, piece) {
                assert_eq!(known, ids(number));
                found += 1;
            }
        }
        assert!(found > 15_000, "{found} of 20000");
    }

    #[test]
    fn a_cache_that_has_all_its_lines_knows_the_seeds() {
        let token = TokenId::new;
        let text = |number: u32| format!("{number:x}");
        let seeds: Vec<Seed> = (0..300)
            .map(|number| Seed::new(token(number), text(number).as_bytes()).expect("short"))
            .collect();
        assert!(Seed::new(token(0), &[b'a'; SHORT + 1]).is_none());
        let mut cache = Cache::new(LINES);
        let known = ShortPiece::new(b"no seed");
        let two = [token(1), token(2)];
        cache.put(known, cache.line(known), &two);
        for (lines, number) in [(FIRST_LINES, 0), (FIRST_LINES * GROWTH, 0), (LINES, 1)] {
            assert_eq!(cache.lines.len(), lines);
            let found = get(&mut cache, ShortPiece::new(b"11"));
            assert_eq!(found, (number > 0).then(|| vec![token(0x11)]));
            assert_eq!(get(&mut cache, known), Some(two.to_vec()), "what was put stays");
            cache.put = lines;
            cache.make_room(&seeds);
        }
        let found = |&number: &u32| get(&mut cache, ShortPiece::new(text(number).as_bytes())).is_some();
        assert!((0..300).filter(found).count() > 290);
    }
}
