//! The states of the lazy DFA, and how the next state is computed.

use std::cmp::Reverse;
use std::mem;
use std::ops::Range;

use rustc_hash::FxHashMap;

use super::{EarlyTokens, FoundToken};
use crate::base::int::{to_usize, truncate_to_u32, u64_to_usize};
use crate::encode::backtrack::NONE;
use crate::encode::backtrack::compatible::{IncompatibleRange, InternedLists, ListItem};
use crate::vocab::Vocabulary;

/// The state at the start of a text.
pub(super) const START: u32 = 0;

/// Items in all lists (32 MiB) from which the DFA counts as full.
const MAX_ITEMS: usize = 1 << 21;

/// The empty set of tokens.
const EMPTY: u64 = 0;

/// All states that texts have reached.
///
/// A state is a list of partial tokens, the longest first. The last item represents tokens that begin where the
/// text so far ends: none of their bytes are read yet, and the tokens that are not compatible after the last
/// token are excluded.
#[derive(Debug)]
pub(super) struct States {
    /// The list of each state, by the state's number.
    all: InternedLists<PartialToken>,
    /// Sets of excluded tokens that are not just those [after](super::IncompatibleAfter) a token.
    sets: InternedLists<IncompatibleRange>,
    /// Scratch memory.
    next: Vec<PartialToken>,
    /// Scratch memory for the set of a new partial token.
    common: Vec<IncompatibleRange>,
}

/// The tokens that can begin at one position, as far as they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PartialToken {
    /// Their bytes so far.
    prefix: u32,
    /// The longer tokens that are not compatible with the token before: the number of a set if the prefix is
    /// [large](PrefixTable::is_large), else one bit per longer token.
    incompatible: u64,
}

impl ListItem for PartialToken {
    fn bits(self) -> u64 {
        u64::from(self.prefix) << 40 ^ self.incompatible.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

impl States {
    /// The start state only.
    pub(super) fn new() -> States {
        States {
            all: InternedLists::new(&[PartialToken {
                prefix: ROOT,
                incompatible: u64::from(ALL_COMPATIBLE),
            }]),
            sets: InternedLists::new(&[]),
            next: Vec::new(),
            common: Vec::new(),
        }
    }

    /// Number of states.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether the DFA counts as full.
    pub(super) fn are_full(&self) -> bool {
        self.all.items.len() + self.sets.items.len() >= MAX_ITEMS
    }

    /// The length in bytes of each partial token of a state; 0 for the last one.
    pub(super) fn partial<'a>(
        &'a self,
        prefixes: &'a PrefixTable,
        state: u32,
    ) -> impl Iterator<Item = usize> {
        self.all.get(state).iter().map(|partial| prefixes.length(partial.prefix))
    }

    /// Computes a transition: the state after one more byte, and the last token of the text up to there.
    pub(super) fn follow(&mut self, tokens: &EarlyTokens, state: u32, byte: u8) -> (u32, FoundToken) {
        let prefixes = &tokens.prefixes;
        let child = PrefixTable::byte(byte);
        let mut found = FoundToken::new(prefixes.token(child), 1);
        let mut next = mem::take(&mut self.next);
        let list = self.all.range(state);
        let last = list.end - 1;
        for at in list.start..last {
            let partial = self.all.items[at];
            let Some(child) = prefixes.child(partial.prefix, byte) else { continue };
            let token = prefixes.token(child);
            if token != NONE && self.is_compatible(tokens, partial, child) {
                found = FoundToken::new(token, prefixes.length(child));
            }
            next.extend(self.narrowed(tokens, partial, child));
        }
        next.extend(self.narrowed(tokens, self.all.items[last], child));
        let state = self.number(tokens, &mut next, found.token());
        next.clear();
        self.next = next;
        (state, found)
    }

    /// The state with these partial tokens, and `token` as the last token of the text.
    fn number(&mut self, tokens: &EarlyTokens, partial: &mut Vec<PartialToken>, token: u32) -> u32 {
        partial.push(PartialToken { prefix: ROOT, incompatible: u64::from(tokens.after.set(token)) });
        self.all.number(partial)
    }

    /// Prefetches the partial tokens of a state.
    pub(super) fn fetch(&self, state: u32) {
        self.all.fetch(self.all.range(state).start);
    }

    /// The set of tokens that are not compatible after the last token of a state.
    pub(super) fn excluded(&self, state: u32) -> u32 {
        self.all
            .get(state)
            .last()
            .map_or(ALL_COMPATIBLE, |partial| truncate_to_u32(u64_to_usize(partial.incompatible)))
    }

    /// The state in which this byte is the only partial token, and every completion of it is compatible.
    pub(super) fn fresh(&mut self, tokens: &EarlyTokens, byte: u8) -> u32 {
        let prefix = PrefixTable::byte(byte);
        let longer = !tokens.prefixes.longer(prefix).is_empty();
        let mut partial = Vec::from_iter(longer.then_some(PartialToken { prefix, incompatible: EMPTY }));
        self.number(tokens, &mut partial, tokens.prefixes.token(prefix))
    }

    /// Whether the token of a child prefix is compatible with the token before it.
    fn is_compatible(&self, tokens: &EarlyTokens, partial: PartialToken, child: u32) -> bool {
        let prefixes = &tokens.prefixes;
        let token = prefixes.longer(child).start - 1;
        let is_incompatible = match self.incompatible(tokens, partial) {
            Some(incompatible) => contains(incompatible, prefixes.number(token)),
            None => partial.incompatible >> (token - prefixes.longer(partial.prefix).start) & 1 == 1,
        };
        !is_incompatible
    }

    /// The excluded tokens as a set, if the prefix is large.
    fn incompatible<'a>(
        &'a self,
        tokens: &'a EarlyTokens,
        partial: PartialToken,
    ) -> Option<&'a [IncompatibleRange]> {
        let set = || truncate_to_u32(u64_to_usize(partial.incompatible));
        match partial.prefix {
            ROOT => Some(tokens.incompatible(set())),
            prefix => tokens.prefixes.is_large(prefix).then(|| self.sets.get(set())),
        }
    }

    /// The partial token after one more byte, which leads to the prefix `child`; `None` if no longer token is
    /// compatible.
    fn narrowed(&mut self, tokens: &EarlyTokens, partial: PartialToken, child: u32) -> Option<PartialToken> {
        let prefixes = &tokens.prefixes;
        let longer = prefixes.longer(child);
        if longer.is_empty() {
            return None;
        }
        if partial.incompatible == EMPTY {
            return Some(PartialToken { prefix: child, incompatible: EMPTY });
        }
        if let Some(longer) = prefixes.numbers_of_longer(child) {
            let set = self.narrowed_set(tokens, partial, longer)?;
            return Some(PartialToken { prefix: child, incompatible: u64::from(set) });
        }
        let all = u64::MAX >> (64 - longer.len());
        let incompatible = match self.incompatible(tokens, partial) {
            Some(incompatible) => {
                let bit = |token| u64::from(contains(incompatible, prefixes.number(token)));
                longer.rev().fold(0, |bits, token| bits << 1 | bit(token))
            }
            None => partial.incompatible >> (longer.start - prefixes.longer(partial.prefix).start) & all,
        };
        (incompatible != all).then_some(PartialToken { prefix: child, incompatible })
    }

    /// The set of excluded tokens restricted to `longer`, the numbers of the longer tokens in order; `None` if
    /// all of them are excluded.
    fn narrowed_set(&mut self, tokens: &EarlyTokens, partial: PartialToken, longer: &[u32]) -> Option<u32> {
        let mut common = mem::take(&mut self.common);
        common.clear();
        among(longer, self.incompatible(tokens, partial).unwrap_or_default(), &mut common);
        let all = (longer[0], longer[longer.len() - 1] + 1);
        let set = (common != [all]).then(|| self.sets.number(&common));
        self.common = common;
        set
    }
}

/// Whether a set of intervals contains a number.
pub(super) fn contains(set: &[IncompatibleRange], number: u32) -> bool {
    let next = set.partition_point(|incompatible| incompatible.1 <= number);
    set.get(next).is_some_and(|incompatible| incompatible.0 <= number)
}

/// Appends the members of `numbers`, which are in order, that are in a set, as intervals. Each interval goes from
/// the first to the last of some members between which no other of `numbers` is. It may contain values that are not
/// in `numbers`, which keeps the intervals few.
pub(super) fn among(mut numbers: &[u32], set: &[IncompatibleRange], found: &mut Vec<IncompatibleRange>) {
    let (smallest, largest) = (numbers[0], numbers[numbers.len() - 1]);
    let from = set.partition_point(|incompatible| incompatible.1 <= smallest);
    let mut apart = true;
    for &(first, end) in set[from..].iter().take_while(|incompatible| incompatible.0 <= largest) {
        let before = numbers.partition_point(|&number| number < first);
        apart |= before > 0;
        numbers = &numbers[before..];
        let (inside, rest) = numbers.split_at(numbers.partition_point(|&number| number < end));
        let [first, ..] = *inside else { continue };
        let end = inside[inside.len() - 1] + 1;
        match found.last_mut().filter(|_| !apart) {
            Some(last) => last.1 = end,
            None => found.push((first, end)),
        }
        (numbers, apart) = (rest, false);
    }
}

/// The empty prefix.
pub(super) const ROOT: u32 = 0;

/// Longer tokens above which a prefix is large.
const FEW_LONGER: usize = 64;

/// A trie of the prefixes of all tokens, ordered by length, then by bytes.
///
/// **Memory:** 17 bytes per prefix, 4 per token, and 4 for each token that begins with a large prefix.
#[derive(Debug)]
pub(in crate::encode::backtrack) struct PrefixTable {
    /// The children of each prefix follow those of the prefix before. One sentinel at the end.
    all: Vec<PrefixRow>,
    /// The last byte of each prefix, and eight bytes of padding.
    last: Vec<u8>,
    /// See [`codes`](PrefixTable::codes).
    codes: [u8; 256],
    /// The first prefix of each length.
    lengths: Vec<u32>,
    /// For each token, in order of the tokens' bytes, its number as a follower.
    numbers: Vec<u32>,
    /// For each large prefix, the numbers of the tokens that are longer than it, in ascending order.
    longer: FxHashMap<u32, Vec<u32>>,
}

/// A prefix of early tokens, and where its children and longer tokens are.
#[derive(Debug)]
struct PrefixRow {
    /// The first child.
    children: u32,
    /// The token with exactly these bytes, or [`NONE`].
    token: u32,
    /// The longer tokens that begin with this prefix, as a range in the order of bytes.
    longer: Range<u32>,
}

/// The bytes of a token, and its id.
type TokenSpelling<'t> = (&'t [u8], u32);

impl PrefixTable {
    /// The trie of a vocabulary. `number` returns the number of a token as a follower.
    pub(in crate::encode::backtrack) fn new(
        vocabulary: &Vocabulary,
        number: impl Fn(u32) -> u32,
    ) -> PrefixTable {
        let mut tokens: Vec<TokenSpelling<'_>> =
            vocabulary.ordinary().map(|(id, bytes)| (bytes, id.get())).collect();
        tokens.sort_unstable();
        let mut prefixes = PrefixTable {
            all: Vec::new(),
            last: vec![0],
            codes: codes(&tokens),
            lengths: Vec::new(),
            numbers: tokens.iter().map(|&(_, token)| number(token)).collect(),
            longer: FxHashMap::default(),
        };
        let mut level = vec![Range { start: 0, end: tokens.len() }];
        while !level.is_empty() {
            level = prefixes.add(&tokens, level);
        }
        prefixes.all.push(PrefixRow {
            children: truncate_to_u32(prefixes.last.len()),
            token: NONE,
            longer: 0..0,
        });
        prefixes.last.extend([0; 8]);
        prefixes
    }

    /// Adds the prefixes of the next length, each given as the range of tokens that begin with it. Returns the
    /// ranges for the length after.
    fn add(&mut self, tokens: &[TokenSpelling<'_>], level: Vec<Range<usize>>) -> Vec<Range<usize>> {
        let length = self.lengths.len();
        self.lengths.push(truncate_to_u32(self.all.len()));
        let mut next = Vec::new();
        for Range { mut start, end } in level {
            let prefix = truncate_to_u32(self.all.len());
            let (bytes, mut token) = tokens[start];
            match bytes.len() == length {
                true => start += 1,
                false => token = NONE,
            }
            let longer = truncate_to_u32(start)..truncate_to_u32(end);
            self.all.push(PrefixRow { children: truncate_to_u32(self.last.len()), token, longer });
            if end - start > FEW_LONGER {
                let mut numbers = self.numbers[start..end].to_vec();
                numbers.sort_unstable();
                self.longer.insert(prefix, numbers);
            }
            for partial in tokens[start..end].chunk_by(|one, other| one.0[length] == other.0[length]) {
                self.last.push(partial[0].0[length]);
                next.push(start..start + partial.len());
                start += partial.len();
            }
        }
        next
    }

    /// A code for each byte, lower for bytes that occur in tokens more often, so that the most frequent
    /// transitions are adjacent in memory.
    pub(super) fn codes(&self) -> &[u8; 256] {
        &self.codes
    }

    /// The code of a byte.
    pub(super) fn code(&self, byte: u8) -> u8 {
        self.codes[usize::from(byte)]
    }

    /// The prefix that is this byte.
    pub(super) fn byte(byte: u8) -> u32 {
        // Every byte is a token, so all of them are children of the empty prefix.
        1 + u32::from(byte)
    }

    /// This prefix with one more byte, if any token begins so.
    pub(super) fn child(&self, prefix: u32, byte: u8) -> Option<u32> {
        let [this, next] =
            [to_usize(prefix), to_usize(prefix) + 1].map(|prefix| to_usize(self.all[prefix].children));
        let nth = match self.last[this..].first_chunk() {
            Some(bytes) if next - this <= 8 => first_of(u64::from_le_bytes(*bytes), byte),
            _ => self.last[this..next].iter().position(|&last| last == byte)?,
        };
        (nth < next - this).then(|| truncate_to_u32(this + nth))
    }

    /// The token with exactly these bytes, or [`NONE`].
    pub(super) fn token(&self, prefix: u32) -> u32 {
        self.all[to_usize(prefix)].token
    }

    /// The longer tokens that begin with this prefix, as a range in the order of bytes. If the prefix is a token
    /// itself, its index is directly before the range.
    pub(super) fn longer(&self, prefix: u32) -> Range<u32> {
        self.all[to_usize(prefix)].longer.clone()
    }

    /// The number as a follower of the token with this index in the order of bytes.
    pub(super) fn number(&self, nth: u32) -> u32 {
        self.numbers[to_usize(nth)]
    }

    /// Whether more than [`FEW_LONGER`] longer tokens begin with a prefix.
    pub(super) fn is_large(&self, prefix: u32) -> bool {
        self.longer(prefix).len() > FEW_LONGER
    }

    /// The numbers as followers of the longer tokens, ascending, if the prefix is large.
    pub(super) fn numbers_of_longer(&self, prefix: u32) -> Option<&[u32]> {
        self.is_large(prefix).then(|| &*self.longer[&prefix])
    }

    /// Length of the longest token in bytes. This is also the most partial tokens at any position.
    pub(in crate::encode::backtrack) fn longest(&self) -> usize {
        self.lengths.len() - 1
    }

    /// Length of a prefix in bytes.
    pub(super) fn length(&self, prefix: u32) -> usize {
        self.lengths.partition_point(|&first| first <= prefix) - 1
    }
}

/// For each byte, its index in the order of frequency in tokens.
fn codes(tokens: &[TokenSpelling<'_>]) -> [u8; 256] {
    let mut frequency = [0_u32; 256];
    for &byte in tokens.iter().flat_map(|(bytes, _)| *bytes) {
        frequency[usize::from(byte)] += 1;
    }
    let mut bytes: Vec<u8> = (0..=u8::MAX).collect();
    bytes.sort_by_key(|&byte| Reverse(frequency[usize::from(byte)]));
    let mut codes = [0; 256];
    for (code, byte) in (0..=u8::MAX).zip(bytes) {
        codes[usize::from(byte)] = code;
    }
    codes
}

/// The index of the first of eight bytes, from the low end of a word, that equals `byte`; 8 if none does.
#[inline(always)]
pub(super) fn first_of(bytes: u64, byte: u8) -> usize {
    const LOW: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = LOW << 7;
    let unlike = bytes ^ (LOW * u64::from(byte));
    let equal = unlike.wrapping_sub(LOW) & !unlike & HIGH;
    to_usize(equal.trailing_zeros() / 8)
}

/// The empty set of tokens.
pub(super) const ALL_COMPATIBLE: u32 = 0;

/// For each token, the set of tokens that are not compatible after it. Usually there are a third as many sets as
/// tokens.
///
/// **Memory:** 4 bytes per token, 40 per set.
#[derive(Debug)]
pub(in crate::encode::backtrack) struct IncompatibleAfter {
    /// For each token, the number of its set.
    sets: Vec<u32>,
    /// The sets by number, each with what a lookup by byte needs.
    all: Vec<ByteSetOf>,
}

/// A set of incompatible tokens, and the bytes that these begin with.
#[derive(Debug)]
struct ByteSetOf {
    /// The range of its intervals among those of all sets.
    incompatible: Range<u32>,
    /// One bit per byte, set if a token of the set begins with the byte.
    first_bytes: [u64; 4],
}

impl IncompatibleAfter {
    /// `sets` has the number of each token's set, and `all` the sets.
    pub(in crate::encode::backtrack) fn new(
        prefixes: &PrefixTable,
        sets: Vec<u32>,
        all: &InternedLists<IncompatibleRange>,
    ) -> IncompatibleAfter {
        let ranges_by_byte = |byte: u8| {
            let longer = prefixes.longer(PrefixTable::byte(byte));
            // The single byte has the lowest number of the tokens that begin with it.
            let first = prefixes.number(longer.start - 1);
            ((first, first + 1 + truncate_to_u32(longer.len())), byte)
        };
        let mut ranges_by_byte: Vec<_> = (0..=u8::MAX).map(ranges_by_byte).collect();
        ranges_by_byte.sort_unstable();
        let set = |number: usize| {
            let Range { start, end } = all.range(truncate_to_u32(number));
            let first_bytes = first_bytes(&ranges_by_byte, all.get(truncate_to_u32(number)));
            ByteSetOf { incompatible: truncate_to_u32(start)..truncate_to_u32(end), first_bytes }
        };
        IncompatibleAfter { sets, all: (0..all.len()).map(set).collect() }
    }

    /// The set of tokens that are not compatible after a token.
    pub(super) fn set(&self, token: u32) -> u32 {
        self.sets[to_usize(token)]
    }

    /// The range of a set's intervals among those of all sets.
    pub(super) fn incompatible(&self, set: u32) -> Range<usize> {
        let Range { start, end } = self.all[to_usize(set)].incompatible;
        to_usize(start)..to_usize(end)
    }

    /// Whether a set contains a token that begins with this byte.
    pub(super) fn has_first(&self, set: u32, byte: u8) -> bool {
        self.all[to_usize(set)].first_bytes[usize::from(byte / 64)] >> (byte % 64) & 1 == 1
    }
}

/// One bit per byte that tokens of a set begin with. `ranges_by_byte` has the numbers of the tokens that begin with
/// each byte, in order.
fn first_bytes(ranges_by_byte: &[(IncompatibleRange, u8)], mut set: &[IncompatibleRange]) -> [u64; 4] {
    let mut bytes = [0; 4];
    for &((first, end), byte) in ranges_by_byte {
        while let Some((_, rest)) = set.split_first().filter(|(incompatible, _)| incompatible.1 <= first) {
            set = rest;
        }
        let some = set.first().is_some_and(|incompatible| incompatible.0 < end);
        bytes[usize::from(byte / 64)] |= u64::from(some) << (byte % 64);
    }
    bytes
}
