use std::mem;

use super::prefixes::{Prefixes, ROOT};
use super::{Found, NO_MISFITS, Tokens};
use crate::base::int::{truncate_to_u32, u64_to_usize};
use crate::encode::longest_match::NONE;
use crate::encode::longest_match::follow::Misfits;
use crate::encode::longest_match::lists::{Item, Lists};

/// The state at the start of a text.
pub(super) const START: u32 = 0;

/// Items in all lists (32 MiB) from which the automaton counts as full.
const MOST_ITEMS: usize = 1 << 21;

/// The empty set of tokens.
const EMPTY: u64 = 0;

/// All states that texts have reached.
///
/// A state is a list of partial tokens, the longest first. The last item represents tokens that begin where the
/// text so far ends: none of their bytes are read yet, and the tokens that are not compatible after the last
/// token are excluded.
#[derive(Debug)]
pub(super) struct States {
    all: Lists<Begun>,
    /// Sets of excluded tokens that are not just those [after](super::After) a token.
    sets: Lists<Misfits>,
    /// Scratch memory.
    next: Vec<Begun>,
    common: Vec<Misfits>,
}

/// The tokens that can begin at one position, as far as they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Begun {
    /// Their bytes so far.
    prefix: u32,
    /// The longer tokens that are not compatible with the token before: the number of a set if the prefix is
    /// [large](Prefixes::is_large), else one bit per longer token.
    misfits: u64,
}

impl Item for Begun {
    fn bits(self) -> u64 {
        u64::from(self.prefix) << 40 ^ self.misfits.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

impl States {
    /// The start state only.
    pub(super) fn new() -> States {
        States {
            all: Lists::new(&[Begun { prefix: ROOT, misfits: u64::from(NO_MISFITS) }]),
            sets: Lists::new(&[]),
            next: Vec::new(),
            common: Vec::new(),
        }
    }

    /// Number of states.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether the automaton counts as full.
    pub(super) fn are_full(&self) -> bool {
        self.all.items() + self.sets.items() >= MOST_ITEMS
    }

    /// The length in bytes of each partial token of a state; 0 for the last one.
    pub(super) fn begun<'a>(&'a self, prefixes: &'a Prefixes, state: u32) -> impl Iterator<Item = usize> {
        self.all.get(state).iter().map(|begun| prefixes.length(begun.prefix))
    }

    /// Computes a transition: the state after one more byte, and the last token of the text up to there.
    pub(super) fn follow(&mut self, tokens: &Tokens, state: u32, byte: u8) -> (u32, Found) {
        let prefixes = &tokens.prefixes;
        let child = Prefixes::byte(byte);
        let mut found = Found::new(prefixes.token(child), 1);
        let mut next = mem::take(&mut self.next);
        let list = self.all.range(state);
        let last = list.end - 1;
        for at in list.start..last {
            let begun = self.all.item(at);
            let Some(child) = prefixes.child(begun.prefix, byte) else { continue };
            let token = prefixes.token(child);
            if token != NONE && self.fits(tokens, begun, child) {
                found = Found::new(token, prefixes.length(child));
            }
            next.extend(self.narrowed(tokens, begun, child));
        }
        next.extend(self.narrowed(tokens, self.all.item(last), child));
        let state = self.number(tokens, &mut next, found.token());
        next.clear();
        self.next = next;
        (state, found)
    }

    /// The state with these partial tokens, and `token` as the last token of the text.
    fn number(&mut self, tokens: &Tokens, begun: &mut Vec<Begun>, token: u32) -> u32 {
        begun.push(Begun { prefix: ROOT, misfits: u64::from(tokens.after.set(token)) });
        self.all.number(begun)
    }

    /// Prefetches the partial tokens of a state.
    pub(super) fn fetch(&self, state: u32) {
        self.all.fetch(self.all.range(state).start);
    }

    /// The set of tokens that are not compatible after the last token of a state.
    pub(super) fn kept_off(&self, state: u32) -> u32 {
        self.all.get(state).last().map_or(NO_MISFITS, |begun| truncate_to_u32(u64_to_usize(begun.misfits)))
    }

    /// The state in which this byte is the only partial token, and every completion of it is compatible.
    pub(super) fn fresh(&mut self, tokens: &Tokens, byte: u8) -> u32 {
        let prefix = Prefixes::byte(byte);
        let longer = !tokens.prefixes.longer(prefix).is_empty();
        let mut begun = Vec::from_iter(longer.then_some(Begun { prefix, misfits: EMPTY }));
        self.number(tokens, &mut begun, tokens.prefixes.token(prefix))
    }

    /// Whether the token of a child prefix is compatible with the token before it.
    fn fits(&self, tokens: &Tokens, begun: Begun, child: u32) -> bool {
        let prefixes = &tokens.prefixes;
        let token = prefixes.longer(child).start - 1;
        let misfit = match self.misfits(tokens, begun) {
            Some(misfits) => contains(misfits, prefixes.number(token)),
            None => begun.misfits >> (token - prefixes.longer(begun.prefix).start) & 1 == 1,
        };
        !misfit
    }

    /// The excluded tokens as a set, if the prefix is large.
    fn misfits<'a>(&'a self, tokens: &'a Tokens, begun: Begun) -> Option<&'a [Misfits]> {
        let set = || truncate_to_u32(u64_to_usize(begun.misfits));
        match begun.prefix {
            ROOT => Some(tokens.misfits(set())),
            prefix => tokens.prefixes.is_large(prefix).then(|| self.sets.get(set())),
        }
    }

    /// The partial token after one more byte, which leads to the prefix `child`; `None` if no longer token is
    /// compatible.
    fn narrowed(&mut self, tokens: &Tokens, begun: Begun, child: u32) -> Option<Begun> {
        let prefixes = &tokens.prefixes;
        let longer = prefixes.longer(child);
        if longer.is_empty() {
            return None;
        }
        if begun.misfits == EMPTY {
            return Some(Begun { prefix: child, misfits: EMPTY });
        }
        if let Some(longer) = prefixes.numbers_of_longer(child) {
            let set = self.narrowed_set(tokens, begun, longer)?;
            return Some(Begun { prefix: child, misfits: u64::from(set) });
        }
        let all = u64::MAX >> (64 - longer.len());
        let misfits = match self.misfits(tokens, begun) {
            Some(misfits) => {
                let bit = |token| u64::from(contains(misfits, prefixes.number(token)));
                longer.rev().fold(0, |bits, token| bits << 1 | bit(token))
            }
            None => begun.misfits >> (longer.start - prefixes.longer(begun.prefix).start) & all,
        };
        (misfits != all).then_some(Begun { prefix: child, misfits })
    }

    /// The set of excluded tokens restricted to `longer`, the numbers of the longer tokens in order; `None` if
    /// all of them are excluded.
    fn narrowed_set(&mut self, tokens: &Tokens, begun: Begun, longer: &[u32]) -> Option<u32> {
        let mut common = mem::take(&mut self.common);
        common.clear();
        among(longer, self.misfits(tokens, begun).unwrap_or_default(), &mut common);
        let all = (longer[0], longer[longer.len() - 1] + 1);
        let set = (common != [all]).then(|| self.sets.number(&common));
        self.common = common;
        set
    }
}

/// Whether a set of intervals contains a number.
pub(super) fn contains(set: &[Misfits], number: u32) -> bool {
    let next = set.partition_point(|misfits| misfits.1 <= number);
    set.get(next).is_some_and(|misfits| misfits.0 <= number)
}

/// Appends the members of `numbers`, which are in order, that are in a set, as intervals. Each interval goes from
/// the first to the last of some members between which no other of `numbers` is. It may contain values that are not
/// in `numbers`, which keeps the intervals few.
pub(super) fn among(mut numbers: &[u32], set: &[Misfits], found: &mut Vec<Misfits>) {
    let (least, most) = (numbers[0], numbers[numbers.len() - 1]);
    let from = set.partition_point(|misfits| misfits.1 <= least);
    let mut apart = true;
    for &(first, end) in set[from..].iter().take_while(|misfits| misfits.0 <= most) {
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
