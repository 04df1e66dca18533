//! A cache of the tokens of short pre-tokens.

use crate::base::huge_pages;
use crate::base::int::{TokenId, to_u64, to_usize, u64_to_usize};
use crate::split::{SHORT, ShortPretoken};

/// Maximum number of tokens of a pre-token that the cache stores.
pub(super) const IDS: usize = 7;
/// Maximum number of tokens that a slot stores unpacked, 4 bytes each. Up to [`IDS`] are packed if their ids fit in
/// [`PACKED_BITS`] bits.
pub(super) const PLAIN: usize = 4;
/// Bits of an id that is packed. [`IDS`] such ids, and two bits for their number, fill the 128 bits of a slot's
/// `ids`.
const PACKED_BITS: usize = 18;
/// Cache lines at the start: 32 KiB.
const FIRST_LINES: usize = 1 << 9;
/// Cache lines that a cache grows to as it fills: 8 MiB at 64 bytes each.
pub(super) const LINES: usize = 1 << 17;
/// Cache lines that the cache of a worker grows to if entries that it had to replace are needed again: 32 MiB.
pub(super) const MAX_LINES: usize = 1 << 19;
/// Factor by which a full cache grows.
const GROWTH: usize = 16;

/// Bit of a slot's `high` from which the number of tokens is stored, above the pre-token's length. 0 means that
/// the tokens are packed.
const COUNT_AT: u32 = 60;
/// Bit of the packed tokens from which their number is stored, minus the least it can be (`PLAIN + 1`). The two
/// bits above the tokens hold it.
const PACKED_COUNT_AT: usize = IDS * PACKED_BITS;

/// The tokens of short pre-tokens that were met before. Each pre-token has two slots, which share one line of the
/// CPU cache. A new entry replaces the second slot; a hit in the second slot swaps the two.
///
/// Keys are the bytes of the pre-tokens, so a hit is never wrong.
///
/// **Memory:** 64 bytes per line: few lines at first, so that a short text does not pay for a large cache. It grows to
/// [`LINES`] lines as it fills, and to `max_lines` only for texts whose pre-tokens come again after they were replaced.
#[derive(Clone, Debug)]
pub(super) struct PretokenCache {
    /// A power of two of lines, so that some bits of a hash give a line's number.
    lines: Vec<CacheLine>,
    /// Bits that a hash is shifted right by. The highest bits remain, as many as the number of lines has.
    shift: u32,
    /// What more lines would have been good for, since the cache has its present number of lines. Below [`LINES`]
    /// lines, the number of entries stored. From there on, an estimate of how many of them were stored before.
    missed: usize,
    /// Number of lines above which the cache does not grow; a power of two.
    max_lines: usize,
    /// The entries that were replaced, while the cache has [`LINES`] lines and may grow.
    replaced: Option<Replaced>,
}

/// A sample of the pre-tokens whose entries were replaced. It tells how many of them come again, like the "ghost" lists
/// of the adaptive replacement cache (Megiddo and Modha, 2003).
///
/// A hash table that stores 16 further bits of the hash of the pre-token that was replaced last at each place.
///
/// **Memory:** 64 KiB.
#[derive(Clone, Debug)]
struct Replaced(Box<[u16]>);

impl Replaced {
    /// One pre-token in this many belongs to the sample.
    const SAMPLE: usize = 32;

    /// A sample without pre-tokens.
    fn new() -> Replaced {
        Replaced(vec![0; 1 << 15].into())
    }

    /// The place of a pre-token, and what is stored there for it; `None` if it does not belong to the sample.
    fn place(pretoken: ShortPretoken) -> Option<(usize, u16)> {
        let [.., low, high, sample, place_low, place_high] = pretoken.hash().to_le_bytes();
        let place = usize::from(u16::from_le_bytes([place_low, place_high]) >> 1);
        let in_sample = usize::from(sample).is_multiple_of(Replaced::SAMPLE);
        in_sample.then_some((place, u16::from_le_bytes([low, high])))
    }

    /// Records that the entry of a pre-token was replaced.
    fn add(&mut self, pretoken: ShortPretoken) {
        if let Some((place, mark)) = Replaced::place(pretoken) {
            self.0[place] = mark;
        }
    }

    /// Whether this pre-token belongs to the sample and was replaced before.
    fn has(&self, pretoken: ShortPretoken) -> bool {
        Replaced::place(pretoken).is_some_and(|(place, mark)| self.0[place] == mark)
    }
}

/// A pre-token that is a single token, known before it is met.
///
/// The cache holds seeds only from its full size on. A smaller one usually lacks space for all of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seed(ShortPretoken, TokenId);

impl Seed {
    /// The seed of a token; `None` if the token is too long for the cache.
    pub(super) fn new(token: TokenId, bytes: &[u8]) -> Option<Seed> {
        (bytes.len() <= SHORT).then(|| Seed(ShortPretoken::new(bytes), token))
    }
}

/// Lines that a cache in this many bytes may grow to: at least [`LINES`], at most [`MAX_LINES`].
pub(super) fn lines_within(bytes: usize) -> usize {
    let lines = (bytes / size_of::<CacheLine>()).clamp(LINES, MAX_LINES);
    1 << lines.ilog2()
}

/// A pre-token, and the cache line that it belongs to.
///
/// The line number is valid until the cache grows.
pub(super) type Lookup = (ShortPretoken, usize);

/// The lookup of a pre-token that is too long for the cache.
pub(super) const NOT_SHORT: Lookup = (ShortPretoken::NONE, 0);

/// The two slots of a line. The hashes of their pre-tokens give the number of the line. The first slot is tried
/// first.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct CacheLine([CacheSlot; 2]);

#[derive(Clone, Copy, Debug, Default)]
/// One pre-token and its tokens, in 32 bytes.
struct CacheSlot {
    /// The low half of the pre-token, as in [`ShortPretoken`].
    low: u64,
    /// The high half of the pre-token, and above it the number of ids. 0 marks a free slot, as no pre-token is
    /// empty.
    high: u64,
    /// The ids themselves, or the packed ids: a 128-bit number in words of 32 bits, the lowest word first, with the
    /// first id in its lowest bits.
    ids: [TokenId; PLAIN],
}

impl CacheSlot {
    /// Whether this slot belongs to a pre-token. Shifts the number of ids out before comparing.
    #[inline(always)]
    fn is(&self, pretoken: ShortPretoken) -> bool {
        self.low == pretoken.low && (self.high ^ pretoken.high) << (u64::BITS - COUNT_AT) == 0
    }

    /// A slot with these tokens; `None` if they do not fit.
    fn new(pretoken: ShortPretoken, tokens: &[TokenId]) -> Option<CacheSlot> {
        debug_assert!(!tokens.is_empty(), "no pre-token is empty");
        match tokens.len() {
            0..=PLAIN => Some(CacheSlot::plain(pretoken, tokens)),
            _ => CacheSlot::packed(pretoken, tokens),
        }
    }

    /// A slot with at most [`PLAIN`] tokens.
    fn plain(pretoken: ShortPretoken, tokens: &[TokenId]) -> CacheSlot {
        let mut ids = [TokenId::default(); PLAIN];
        ids[..tokens.len()].copy_from_slice(tokens);
        CacheSlot { low: pretoken.low, high: pretoken.high | to_u64(tokens.len()) << COUNT_AT, ids }
    }

    /// A slot with more than [`PLAIN`] tokens; `None` if they do not fit.
    fn packed(pretoken: ShortPretoken, tokens: &[TokenId]) -> Option<CacheSlot> {
        let fits = |id: &TokenId| id.get() < 1 << PACKED_BITS;
        (tokens.len() <= IDS && tokens.iter().all(fits)).then(|| {
            let add = |packed, id: &TokenId| packed << PACKED_BITS | u128::from(id.get());
            let packed =
                tokens.iter().rfold(0, add) | u128::from(to_u64(tokens.len() - PLAIN - 1)) << PACKED_COUNT_AT;
            let ids = std::array::from_fn(|word| TokenId::new(low_word(packed >> (32 * word))));
            CacheSlot { low: pretoken.low, high: pretoken.high, ids }
        })
    }

    /// The tokens and their number; `None` if they are not packed.
    fn unpack(&self) -> Option<([TokenId; IDS], usize)> {
        let packed = self.ids.iter().rfold(0, |packed, word| packed << 32 | u128::from(word.get()));
        let id = |number| low_word(packed >> (PACKED_BITS * number)) & ((1 << PACKED_BITS) - 1);
        let number = PLAIN + 1 + to_usize(low_word(packed >> PACKED_COUNT_AT));
        (self.high >> COUNT_AT == 0).then(|| (std::array::from_fn(|at| TokenId::new(id(at))), number))
    }

    /// The pre-token that this slot belongs to.
    ///
    /// A growing cache needs it to find the slot's new line.
    fn pretoken(&self) -> ShortPretoken {
        ShortPretoken { low: self.low, high: self.high & ((1 << COUNT_AT) - 1) }
    }
}

/// The low 32 bits.
fn low_word(bits: u128) -> u32 {
    let [first, second, third, fourth, ..] = bits.to_le_bytes();
    u32::from_le_bytes([first, second, third, fourth])
}

impl PretokenCache {
    /// An empty cache that grows to at most `max_lines` lines. `max_lines` is a power of two and at least 2.
    pub(super) fn new(max_lines: usize) -> PretokenCache {
        PretokenCache::of(max_lines.min(FIRST_LINES), max_lines)
    }

    /// An empty cache of `lines` lines that can grow to `max_lines`.
    fn of(lines: usize, max_lines: usize) -> PretokenCache {
        let shift = u64::BITS - lines.trailing_zeros();
        let replaced = (LINES..max_lines).contains(&lines).then(Replaced::new);
        let lines = huge_pages::filled(CacheLine::default(), lines);
        PretokenCache { lines, shift, missed: 0, max_lines, replaced }
    }

    /// Grows if that would have saved enough time so far. Line numbers from before are invalid afterwards.
    ///
    /// When the cache reaches [`LINES`] lines, `seeds` are inserted as well, although they were not met yet.
    #[inline(always)]
    pub(super) fn make_room(&mut self, seeds: &[Seed]) {
        // Growing from `LINES` takes about as long as encoding pre-tokens for a quarter of the lines.
        let worth = if self.replaced.is_some() { self.lines.len() / 4 } else { self.lines.len() };
        if self.missed >= worth && self.lines.len() < self.max_lines {
            self.grow(seeds);
        }
    }

    /// Moves all entries to a larger cache.
    #[cold]
    fn grow(&mut self, seeds: &[Seed]) {
        let full = if self.lines.len() < LINES { LINES.min(self.max_lines) } else { self.max_lines };
        let mut larger = PretokenCache::of((self.lines.len() * GROWTH).min(full), self.max_lines);
        if self.lines.len() < LINES && larger.lines.len() == full {
            // The tokens learned last go in first, so that others replace them.
            seeds
                .iter()
                .rev()
                .for_each(|&Seed(pretoken, token)| larger.put_first(CacheSlot::plain(pretoken, &[token])));
        }
        // Second slots go in first, so that the entry from a first slot is again first if both meet in one line.
        for slot in self.lines.iter().flat_map(|CacheLine([first, second])| [second, first]) {
            if slot.high != 0 {
                larger.put_first(*slot);
            }
        }
        *self = larger;
    }

    /// A cache that has grown to its full size.
    #[cfg(test)]
    pub(super) fn full(lines: usize, seeds: &[Seed]) -> PretokenCache {
        let mut cache = PretokenCache::new(lines);
        cache.grow(seeds);
        cache
    }

    /// Puts an entry into the first slot of its line, and moves the previous one to the second.
    ///
    /// If the first slot has this pre-token already, the entry is dropped: both are the same.
    fn put_first(&mut self, slot: CacheSlot) {
        let line = self.line(slot.pretoken());
        let [first, second] = &mut self.lines[line].0;
        if !first.is(slot.pretoken()) {
            *second = std::mem::replace(first, slot);
        }
    }

    /// The line that a pre-token belongs to.
    #[inline(always)]
    pub(super) fn line(&self, pretoken: ShortPretoken) -> usize {
        u64_to_usize(pretoken.hash() >> self.shift)
    }

    /// Prefetches a line.
    #[inline(always)]
    pub(super) fn fetch(&self, line: usize) {
        huge_pages::fetch(&self.lines, line);
    }

    /// Computes and prefetches the lines of consecutive pre-tokens that end at `ends`. Kept out of line so that
    /// everything it needs stays in registers.
    #[inline(never)]
    pub(super) fn look_up(&self, text: &[u8], mut start: usize, ends: &[u32], lookups: &mut [Lookup]) {
        for (lookup, &end) in lookups.iter_mut().zip(ends) {
            let end = to_usize(end);
            *lookup = if end - start <= SHORT {
                let pretoken = ShortPretoken::within(text, start, end - start);
                let line = self.line(pretoken);
                self.fetch(line);
                (pretoken, line)
            } else {
                NOT_SHORT
            };
            start = end;
        }
    }

    /// Writes the tokens of consecutive pre-tokens to `room`, up to the first pre-token that is not found or has
    /// packed tokens. Returns the numbers of pre-tokens and of tokens written.
    #[inline(never)]
    pub(super) fn get_many(&mut self, lookups: &[Lookup], room: &mut [TokenId]) -> (usize, usize) {
        let mut known = 0;
        for (number, &(pretoken, line)) in lookups.iter().enumerate() {
            let tokens =
                room[known..].first_chunk_mut().expect("there is room for the tokens of these pre-tokens");
            match self.get(pretoken, line, tokens) {
                0 => return (number, known),
                number => known += number,
            }
        }
        (lookups.len(), known)
    }

    /// Writes the tokens of a pre-token to `tokens` if its `line` has them unpacked, and returns their number.
    /// Otherwise returns 0; [`get_packed`](PretokenCache::get_packed) may still find it.
    #[inline(always)]
    pub(super) fn get(
        &mut self,
        pretoken: ShortPretoken,
        line: usize,
        tokens: &mut [TokenId; PLAIN],
    ) -> usize {
        let CacheLine(slots) = &mut self.lines[line];
        if !slots[0].is(pretoken) {
            if !slots[1].is(pretoken) {
                return 0;
            }
            slots.swap(0, 1);
        }
        *tokens = slots[0].ids;
        u64_to_usize(slots[0].high >> COUNT_AT)
    }

    /// The packed tokens of a pre-token and their number. Call it directly after [`get`](PretokenCache::get), which
    /// moves a hit to the first slot.
    pub(super) fn get_packed(&self, pretoken: ShortPretoken, line: usize) -> Option<([TokenId; IDS], usize)> {
        let CacheLine([slot, _]) = &self.lines[line];
        if slot.is(pretoken) { slot.unpack() } else { None }
    }

    /// Stores the tokens of a pre-token in the second slot of its line, if they fit.
    pub(super) fn put(&mut self, pretoken: ShortPretoken, line: usize, tokens: &[TokenId]) {
        if let Some(slot) = CacheSlot::new(pretoken, tokens) {
            let before = std::mem::replace(&mut self.lines[line].0[1], slot);
            self.count(pretoken, before);
        }
    }

    /// Stores the tokens of a pre-token in the first slot of its line, if they fit, and moves the previous entry
    /// to the second.
    pub(super) fn put_before(&mut self, pretoken: ShortPretoken, line: usize, tokens: &[TokenId]) {
        if let Some(slot) = CacheSlot::new(pretoken, tokens) {
            let [first, second] = &mut self.lines[line].0;
            let before = std::mem::replace(second, std::mem::replace(first, slot));
            self.count(pretoken, before);
        }
    }

    /// Counts what more lines would have been good for, given the pre-token that was stored, and the entry, perhaps a
    /// free slot, that it replaced.
    fn count(&mut self, stored: ShortPretoken, before: CacheSlot) {
        match &mut self.replaced {
            None => self.missed += 1,
            Some(replaced) => {
                self.missed += if replaced.has(stored) { Replaced::SAMPLE } else { 0 };
                if before.high != 0 {
                    replaced.add(before.pretoken());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::int::truncate_to_u32;

    fn get(cache: &mut PretokenCache, pretoken: ShortPretoken) -> Option<Vec<TokenId>> {
        let (line, mut tokens) = (cache.line(pretoken), Default::default());
        match cache.get(pretoken, line, &mut tokens) {
            0 => cache.get_packed(pretoken, line).map(|(tokens, number)| tokens[..number].to_vec()),
            number => Some(tokens[..number].to_vec()),
        }
    }

    /// Up to four tokens are stored whatever their ids, up to seven if their ids fit in 18 bits.
    #[test]
    fn as_many_tokens_are_remembered_as_there_is_room_for() {
        let mut cache = PretokenCache::new(2);
        let pretoken = ShortPretoken::new(b"pretoken");
        let line = cache.line(pretoken);
        for largest in [0, 1 << 16, (1 << PACKED_BITS) - 1, 1 << PACKED_BITS, u32::MAX >> 1] {
            for number in 1..=IDS + 2 {
                cache = PretokenCache::new(2);
                let tokens: Vec<TokenId> = (0..number)
                    .map(|back| TokenId::new(largest.saturating_sub(truncate_to_u32(back))))
                    .rev()
                    .collect();
                cache.put(pretoken, line, &tokens);
                let fits = number <= PLAIN || number <= IDS && largest < 1 << PACKED_BITS;
                assert_eq!(get(&mut cache, pretoken), fits.then_some(tokens), "{number} ids up to {largest}");
            }
        }
        assert_eq!(cache.get_packed(ShortPretoken::NONE, 0), None);
    }

    /// Zero bytes at the end of a pre-token are part of the key.
    #[test]
    fn pretokens_that_differ_in_the_zeros_at_their_end_are_told_apart() {
        let pretokens = [&b"ab"[..], b"ab\0", b"ab\0\0\0\0\0\0\0"].map(ShortPretoken::new);
        for (one, other) in pretokens.iter().flat_map(|one| pretokens.map(|other| (*one, other))) {
            let (mut cache, token) = (PretokenCache::new(2), TokenId::new(7));
            cache.put(one, cache.line(other), &[token]);
            assert_eq!(get(&mut cache, other), (one == other).then_some(vec![token]));
        }
    }

    /// Entries are found until two others replace them.
    #[test]
    fn a_pretoken_is_found_until_others_take_its_slots() {
        let mut cache = PretokenCache::new(2);
        let ids = |number: u32| [TokenId::new(number); IDS];
        let pretokens: Vec<ShortPretoken> = (b'a'..=b'h').map(|byte| ShortPretoken::new(&[byte])).collect();
        for (number, &pretoken) in (0..).zip(&pretokens) {
            assert_eq!(get(&mut cache, pretoken), None);
            cache.put(pretoken, cache.line(pretoken), &ids(number));
            assert_eq!(get(&mut cache, pretoken), Some(ids(number).to_vec()));
        }
        let found = pretokens.iter().filter(|&&pretoken| get(&mut cache, pretoken).is_some()).count();
        assert!((2..=4).contains(&found));
        cache.put(pretokens[0], cache.line(pretokens[0]), &[TokenId::new(7); IDS + 1]);
        assert!(get(&mut cache, pretokens[0]).is_none_or(|known| known == ids(0)));
        cache.put(pretokens[1], cache.line(pretokens[1]), &ids(9)[..2]);
        assert_eq!(get(&mut cache, pretokens[1]), Some(ids(9)[..2].to_vec()));
    }

    /// Entries that are put into the first slot move to the second, and then out.
    #[test]
    fn what_was_put_before_others_goes_after_them() {
        let ids = |number: u32| [TokenId::new(number)];
        let [first, second, third] = [b"1", b"2", b"3"].map(|pretoken| ShortPretoken::new(pretoken));
        let mut cache = PretokenCache::new(2);
        // All in line 0, whichever lines they belong to.
        let mut known = |put: ShortPretoken, number: u32| {
            cache.put_before(put, 0, &ids(number));
            let mut looked_up = cache.clone();
            [first, second, third].map(|pretoken| looked_up.get(pretoken, 0, &mut Default::default()) > 0)
        };
        assert_eq!(known(first, 1), [true, false, false]);
        assert_eq!(known(second, 2), [true, true, false]);
        assert_eq!(known(third, 3), [false, true, true]);
    }

    /// A cache grows to its full size and keeps most entries.
    #[test]
    fn a_crowded_cache_grows_and_forgets_little() {
        let mut cache = PretokenCache::new(LINES);
        let ids = |number: u32| [TokenId::new(number); IDS];
        let pretokens: Vec<ShortPretoken> =
            (0..20_000_u32).map(|number| ShortPretoken::new(format!("{number}").as_bytes())).collect();
        for (number, &pretoken) in (0..).zip(&pretokens) {
            cache.make_room(&[]);
            assert_eq!(get(&mut cache, pretoken), None);
            cache.put(pretoken, cache.line(pretoken), &ids(number));
        }
        assert_eq!(cache.lines.len(), LINES);
        let mut found = 0;
        for (number, &pretoken) in (0..).zip(&pretokens) {
            if let Some(known) = get(&mut cache, pretoken) {
                assert_eq!(known, ids(number));
                found += 1;
            }
        }
        assert!(found > 15_000, "{found} of 20000");
    }

    /// A cache grows beyond [`LINES`] only if pre-tokens come again that it had to replace.
    #[test]
    fn a_cache_grows_beyond_its_usual_size_if_that_pays() {
        let distinct = 4 * LINES;
        for (recurring, lines) in [(distinct, LINES), (distinct / 2, MAX_LINES)] {
            let mut cache = PretokenCache::new(MAX_LINES);
            for number in 0..2 * distinct {
                let pretoken = ShortPretoken::new(&(number % (2 * recurring)).to_le_bytes());
                cache.make_room(&[]);
                if get(&mut cache, pretoken).is_none() {
                    cache.put(pretoken, cache.line(pretoken), &[TokenId::new(1)]);
                }
            }
            assert_eq!(cache.lines.len(), lines, "{recurring} of {distinct}");
        }
    }

    /// Seeds are inserted at full size only, and replace no entries.
    #[test]
    fn a_cache_that_has_all_its_lines_knows_the_seeds() {
        let token = TokenId::new;
        let text = |number: u32| format!("{number:x}");
        let seeds: Vec<Seed> = (0..300)
            .map(|number| Seed::new(token(number), text(number).as_bytes()).expect("short"))
            .collect();
        assert!(Seed::new(token(0), &[b'a'; SHORT + 1]).is_none());
        let mut cache = PretokenCache::new(LINES);
        let known = ShortPretoken::new(b"no seed");
        let two = [token(1), token(2)];
        cache.put(known, cache.line(known), &two);
        for (lines, number) in [(FIRST_LINES, 0), (FIRST_LINES * GROWTH, 0), (LINES, 1)] {
            assert_eq!(cache.lines.len(), lines);
            let found = get(&mut cache, ShortPretoken::new(b"11"));
            assert_eq!(found, (number > 0).then(|| vec![token(0x11)]));
            assert_eq!(get(&mut cache, known), Some(two.to_vec()), "what was put stays");
            cache.missed = lines;
            cache.make_room(&seeds);
        }
        let found = |&number: &u32| get(&mut cache, ShortPretoken::new(text(number).as_bytes())).is_some();
        assert!((0..300).filter(found).count() > 290);
    }
}
