use std::mem;

use super::lists::{Item, Lists};
use super::prefixes::{Prefixes, ROOT};
use super::{Found, Tokens};
use crate::encode::longest_match::NONE;
use crate::encode::longest_match::follow::Misfits;
use crate::units::{low32, place, place64};

/// The state at the start of a text.
pub(super) const START: u32 = 0;

/// With so many items in lists, 32 MiB, there should be no more states.
const MOST_ITEMS: usize = 1 << 21;

/// The set of no tokens, among those after tokens and among the others.
const EMPTY: u64 = 0;

/// All states that texts have come by.
///
/// A state is a list of what has been begun, the longest first. Its last item is what begins where the text so far ends:
/// nothing of it is there yet, and the tokens that do not fit the last one are kept from it.
#[derive(Debug)]
pub(super) struct States {
    all: Lists<Begun>,
    /// What the last item of each state keeps off: most steps need to know no more.
    kept_off: Vec<u32>,
    /// The sets of tokens that do not fit after a token.
    after: Lists<Misfits>,
    /// Other sets of tokens.
    sets: Lists<Misfits>,
    /// The set after each token, or [`NONE`] until it is asked for.
    after_tokens: Vec<u32>,
    /// Of each set after a token a bit for each byte, set if it has tokens that begin with it.
    first_bytes: Vec<[u64; 4]>,
    /// For each byte the state where nothing else has been begun and all may follow, or [`NONE`] until it is asked for.
    fresh: [u32; 256],
    /// The numbers as followers of the tokens that begin with each byte, and the byte, in order.
    begun_by: Vec<(Misfits, u8)>,
    next: Vec<Begun>,
    common: Vec<Misfits>,
}

/// Tokens that have been begun at the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Begun {
    /// What stands there of them.
    prefix: u32,
    /// Those of the longer ones that do not fit the token before that place: the number of a set if the prefix is
    /// [large](Prefixes::is_large), else one bit each.
    misfits: u64,
}

impl Item for Begun {
    fn bits(self) -> u64 {
        u64::from(self.prefix) << 40 ^ self.misfits.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

impl Item for Misfits {
    fn bits(self) -> u64 {
        u64::from(self.0) << 32 | u64::from(self.1)
    }
}

impl States {
    pub(super) fn new(tokens: Tokens<'_>) -> States {
        let begun_by = |byte: u8| {
            let longer = tokens.prefixes.longer(Prefixes::byte(byte));
            // The byte itself has the first number of them.
            let first = tokens.prefixes.number(longer.start - 1);
            ((first, first + 1 + low32(longer.len())), byte)
        };
        let mut begun_by: Vec<_> = (0..=u8::MAX).map(begun_by).collect();
        begun_by.sort_unstable();
        States {
            all: Lists::new(&[Begun { prefix: ROOT, misfits: EMPTY }]),
            kept_off: vec![0],
            after: Lists::new(&[]),
            sets: Lists::new(&[]),
            after_tokens: vec![NONE; tokens.matches.tokens.len()],
            first_bytes: vec![[0; 4]],
            fresh: [NONE; 256],
            begun_by,
            next: Vec::new(),
            common: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there should be no more.
    pub(super) fn are_full(&self) -> bool {
        self.all.items() + self.after.items() + self.sets.items() >= MOST_ITEMS
    }

    /// How many bytes there are of each token begun; none of the last.
    pub(super) fn begun<'a>(&'a self, prefixes: &'a Prefixes, state: u32) -> impl Iterator<Item = usize> {
        self.all.get(state).iter().map(|begun| prefixes.length(begun.prefix))
    }

    /// The state after one more byte, and the last token of the text up to there.
    pub(super) fn follow(&mut self, tokens: Tokens<'_>, state: u32, byte: u8) -> (u32, Found) {
        let prefixes = tokens.prefixes;
        let child = Prefixes::byte(byte);
        let mut found = Found::new(prefixes.token(child), 1);
        let kept_off = self.kept_off[place(state)];
        // Every other step has to look at what has been begun, which lies far away.
        let list = self.all.range(state);
        self.all.fetch(list.start);
        if self.first_bytes[place(kept_off)][usize::from(byte / 64)] >> (byte % 64) & 1 == 0 {
            // Whatever begins with the byte fits the last token, so that no other token goes on across this place:
            // there would be two encodings of what it makes.
            return (self.fresh(tokens, byte), found);
        }
        let mut next = mem::take(&mut self.next);
        for at in list.start..list.end - 1 {
            let begun = self.all.item(at);
            let Some(child) = prefixes.child(begun.prefix, byte) else { continue };
            let token = prefixes.token(child);
            if token != NONE && self.fits(prefixes, begun, child) {
                found = Found::new(token, prefixes.length(child));
            }
            next.extend(self.narrowed(prefixes, begun, child));
        }
        next.extend(self.narrowed(prefixes, Begun { prefix: ROOT, misfits: u64::from(kept_off) }, child));
        let state = self.number(tokens, &mut next, found.token());
        next.clear();
        self.next = next;
        (state, found)
    }

    /// The state of what has been begun before the end of a text, and its last token.
    fn number(&mut self, tokens: Tokens<'_>, begun: &mut Vec<Begun>, token: u32) -> u32 {
        let kept_off = self.after(tokens, token);
        begun.push(Begun { prefix: ROOT, misfits: u64::from(kept_off) });
        let state = self.all.number(begun);
        if place(state) == self.kept_off.len() {
            self.kept_off.push(kept_off);
        }
        state
    }

    /// The state in which this byte has been begun, and nothing else, and all may follow that begins with it.
    fn fresh(&mut self, tokens: Tokens<'_>, byte: u8) -> u32 {
        let known = self.fresh[usize::from(byte)];
        if known != NONE {
            return known;
        }
        let prefix = Prefixes::byte(byte);
        let longer = !tokens.prefixes.longer(prefix).is_empty();
        let mut begun = Vec::from_iter(longer.then_some(Begun { prefix, misfits: EMPTY }));
        let state = self.number(tokens, &mut begun, tokens.prefixes.token(prefix));
        self.fresh[usize::from(byte)] = state;
        state
    }

    /// Whether the token of a child fits the token before it.
    fn fits(&self, prefixes: &Prefixes, begun: Begun, child: u32) -> bool {
        let token = prefixes.longer(child).start - 1;
        let misfit = match self.misfits(prefixes, begun) {
            Some(misfits) => contains(misfits, prefixes.number(token)),
            None => begun.misfits >> (token - prefixes.longer(begun.prefix).start) & 1 == 1,
        };
        !misfit
    }

    /// The tokens kept off, if the prefix is large.
    fn misfits(&self, prefixes: &Prefixes, begun: Begun) -> Option<&[Misfits]> {
        let sets = if begun.prefix == ROOT { &self.after } else { &self.sets };
        prefixes.is_large(begun.prefix).then(|| sets.get(low32(place64(begun.misfits))))
    }

    /// What is left of tokens begun once a child of their prefix is there; `None` if nothing longer fits.
    fn narrowed(&mut self, prefixes: &Prefixes, begun: Begun, child: u32) -> Option<Begun> {
        let longer = prefixes.longer(child);
        if longer.is_empty() {
            return None;
        }
        if begun.misfits == EMPTY {
            return Some(Begun { prefix: child, misfits: EMPTY });
        }
        if let Some(longer) = prefixes.intervals(child) {
            return self
                .narrowed_set(prefixes, begun, longer)
                .map(|misfits| Begun { prefix: child, misfits });
        }
        let all = u64::MAX >> (64 - longer.len());
        let misfits = match self.misfits(prefixes, begun) {
            Some(misfits) => {
                let bit = |token| u64::from(contains(misfits, prefixes.number(token)));
                longer.rev().fold(0, |bits, token| bits << 1 | bit(token))
            }
            None => begun.misfits >> (longer.start - prefixes.longer(begun.prefix).start) & all,
        };
        (misfits != all).then_some(Begun { prefix: child, misfits })
    }

    /// The set of those tokens kept off that are among `longer`; `None` if these are all.
    fn narrowed_set(&mut self, prefixes: &Prefixes, begun: Begun, longer: &[Misfits]) -> Option<u64> {
        let mut common = mem::take(&mut self.common);
        common.clear();
        if let Some(misfits) = self.misfits(prefixes, begun) {
            intersect(longer, misfits, &mut common);
        }
        let set = (common != longer).then(|| u64::from(self.sets.number(&common)));
        self.common = common;
        set
    }

    /// The set of the tokens that do not fit after a token.
    fn after(&mut self, tokens: Tokens<'_>, token: u32) -> u32 {
        let known = self.after_tokens[place(token)];
        if known != NONE {
            return known;
        }
        let misfits = tokens.matches.misfits_after(token);
        let set = self.after.number(misfits);
        self.after_tokens[place(token)] = set;
        if place(set) == self.first_bytes.len() {
            self.first_bytes.push(self.first_bytes(misfits));
        }
        set
    }

    /// A bit for each byte that a token of a set begins with.
    fn first_bytes(&self, mut set: &[Misfits]) -> [u64; 4] {
        let mut bytes = [0; 4];
        for &((first, end), byte) in &self.begun_by {
            while let Some((_, rest)) = set.split_first().filter(|(misfits, _)| misfits.1 <= first) {
                set = rest;
            }
            let some = set.first().is_some_and(|misfits| misfits.0 < end);
            bytes[usize::from(byte / 64)] |= u64::from(some) << (byte % 64);
        }
        bytes
    }
}

fn contains(set: &[Misfits], number: u32) -> bool {
    let next = set.partition_point(|misfits| misfits.1 <= number);
    set.get(next).is_some_and(|misfits| misfits.0 <= number)
}

/// Appends what two sets have in common.
fn intersect(one: &[Misfits], mut other: &[Misfits], common: &mut Vec<Misfits>) {
    for &(first, end) in one {
        other = &other[other.partition_point(|misfits| misfits.1 <= first)..];
        let inside = other.iter().take_while(|misfits| misfits.0 < end);
        common.extend(inside.map(|misfits| (first.max(misfits.0), end.min(misfits.1))));
    }
}
