//! The same encoding from byte to byte, by a finite automaton that is made as texts need it.
//!
//! For each place of a text there is the last token of what stands before it; call it the place's token. The
//! encoding of the text so far ends with it, and before it stands the encoding of the text up to where it begins:
//! fitting is a matter of neighbours only. So once each place's token is known, the encoding is read off from the
//! end. And the next place's token is the one of the tokens ending there that fits the token of the place where it
//! begins. There always is one, and no two of them, since a text has one encoding.
//!
//! What follows depends on little of the text so far: on its last token, and on the tokens that have been begun,
//! each with those ways to end it that fit what stands before it. That is a [state](states::States). Vocabularies
//! turn out to have two to four of them a token, so that a table of [steps](steps::Steps) from state to state
//! by a byte is small, and each step is one look-up without a choice that the processor could guess wrong. That
//! each byte waits for the step of the one before is hidden by going on [at several places](lanes) at once: in short
//! texts together, and in parts of a long one, since automata that began at different places are soon in the same state.
//!
//! Berglund, Martens and van der Merwe, *Constructing a BPE Tokenization DFA* (2024), show that there is such an
//! automaton, and build all of one that tells right token sequences from wrong ones.

mod prefixes;
mod after;
mod states;
mod steps;
mod lanes;

#[cfg(test)]
mod tests;

pub(super) use after::After;
pub(super) use prefixes::Prefixes;

use super::follow::Misfits;
use super::path::Path;
use super::{Matches, NONE};
use crate::error::Result;
use crate::observer::Observer;
use crate::units::TokenId;
use after::NO_MISFITS;
use lanes::{Lane, WINDOW};
use states::{START, States};
use steps::{Base, Step, Steps};

/// Room for the tokens of so many places is kept from text to text.
const KEPT: usize = 1 << 20;

/// A window is so short that not more tokens can be begun in all its states, of 16 bytes each.
const MOST_BEGUN: usize = 1 << 22;

/// Longer tokens than these would make windows too short.
pub(super) const LONGEST: usize = 1 << 12;

/// What the automaton is made of.
#[derive(Clone, Copy)]
pub(super) struct Tokens<'a> {
    pub(super) matches: &'a Matches,
    pub(super) prefixes: &'a Prefixes,
    pub(super) after: &'a After,
}

impl<'a> Tokens<'a> {
    /// The tokens of a set among those after a token.
    fn misfits(self, set: u32) -> &'a [Misfits] {
        &self.matches.misfits[self.after.misfits(set)]
    }
}

/// The automaton of a vocabulary, as far as the texts of one thread have needed it.
///
/// **Memory:** up to 50 MiB for steps and 90 MiB for states, and what one window adds to the latter, at worst 64 MiB; 8 192 tokens
/// need 12 MiB as a rule. 4 bytes for each byte of short texts, or for each place of a long one whose token may still
/// change, as a rule few. 2 MiB with the first step.
#[derive(Debug)]
pub(super) struct Automaton {
    states: States,
    steps: Steps,
    /// The token of each place behind the last certain one, with its length; of short texts of all places.
    tokens: Vec<Found>,
    /// Whether it ever was full.
    has_been_full: bool,
}

/// A token, and in the low 8 bits how many bytes it has, 0 for 256 and more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found(u32);

impl Found {
    fn new(token: u32, length: usize) -> Found {
        Found(token << 8 | u32::from(u8::try_from(length).unwrap_or(0)))
    }

    fn token(self) -> u32 {
        self.0 >> 8
    }

    #[inline]
    fn length(self, matches: &Matches) -> usize {
        matches.sized((self.token(), self.0 & 0xff)).1
    }
}

impl Automaton {
    pub(super) fn new() -> Automaton {
        let (states, mut steps) = (States::new(), Steps::new());
        steps.add_state();
        Automaton { states, steps, tokens: Vec::new(), has_been_full: false }
    }

    /// Whether there was no room for more states or steps. Then it had better be made anew, if at all.
    pub(super) fn has_been_full(&self) -> bool {
        self.has_been_full
    }

    /// Goes on with a path that has just begun: to the end of the text, or else as far as the tokens before `end`
    /// are certain. Less far if it is full.
    ///
    /// # Errors
    /// The observer wants to stop.
    pub(super) fn go_on(
        &mut self,
        tokens: Tokens<'_>,
        text: &[u8],
        path: &mut Path,
        end: usize,
        observer: &dyn Observer,
    ) -> Result<()> {
        self.tokens.clear();
        let window = WINDOW.min(MOST_BEGUN / tokens.prefixes.longest());
        let mut lane = self.start();
        let mut patience = 0;
        for window in text[path.at..end].chunks(window) {
            observer.checkpoint()?;
            self.window(tokens, &mut lane, window);
            // Looking for the certain places anew where there were hardly any would take too long.
            if self.tokens.len() > patience {
                let certain = self.certain(tokens, lane);
                self.move_to(path, tokens.matches, certain);
                patience = 2 * self.tokens.len();
            }
            if self.is_full() {
                break;
            }
        }
        let at_end = path.at + self.tokens.len() == text.len();
        let certain = if at_end { self.tokens.len() } else { self.certain(tokens, lane) };
        self.move_to(path, tokens.matches, certain);
        self.tokens.shrink_to(KEPT);
        Ok(())
    }

    /// Appends the tokens of some texts to `ids`, and where those of each end to `ends`.
    pub(super) fn encode(
        &mut self,
        tokens: Tokens<'_>,
        texts: &[&[u8]],
        ids: &mut Vec<TokenId>,
        ends: &mut Vec<usize>,
    ) {
        let mut found = std::mem::take(&mut self.tokens);
        found.clear();
        found.resize(texts.iter().map(|text| text.len()).sum(), Found::default());
        let (mut left, mut room) = (texts, &mut found[..]);
        loop {
            self.texts(tokens, &mut left, &mut room);
            if left.is_empty() {
                break;
            }
            *self = Automaton { has_been_full: true, ..Automaton::new() };
        }
        let mut rest = &found[..];
        for text in texts {
            let own = rest.split_off(..text.len()).expect("there is room for all");
            read_off(own, tokens.matches, ids);
            ends.push(ids.len());
        }
        self.tokens = found;
        self.tokens.shrink_to(KEPT);
    }

    /// Whether there should be no more states and steps.
    fn is_full(&mut self) -> bool {
        self.has_been_full |= self.steps.are_full() || self.states.are_full();
        self.steps.are_full() || self.states.are_full()
    }

    /// Where a text begins.
    fn start(&self) -> Lane {
        Lane::new(self.steps.base(START))
    }

    /// How many of the places left have only tokens before them that no byte more can change: where the encodings
    /// meet of all the texts from which it can go on.
    fn certain(&self, tokens: Tokens<'_>, lane: Lane) -> usize {
        let begun = self.states.begun(tokens.prefixes, self.steps.state(lane.base));
        let mut ends: Vec<usize> = begun.map(|bytes| self.tokens.len() - bytes).collect();
        ends.sort_unstable();
        while let [.., before, last] = ends[..] {
            ends.pop();
            if before != last {
                let before = last - self.tokens[last - 1].length(tokens.matches);
                let at = ends.partition_point(|&end| end < before);
                ends.insert(at, before);
            }
        }
        ends[0]
    }

    /// Puts the encoding of the text up to one of the places left into a path, and forgets those before it.
    fn move_to(&mut self, path: &mut Path, matches: &Matches, end: usize) {
        read_off(&self.tokens[..end], matches, &mut path.ids);
        path.at += end;
        path.last = path.ids[path.base..].last().map_or(NONE, |id| id.get());
        self.tokens.drain(..end);
    }

    /// Goes on by a byte, whether the step is known or not, and gives the token of the next place.
    fn step(&mut self, tokens: Tokens<'_>, lane: &mut Lane, byte: u8) -> Found {
        let code = tokens.prefixes.code(byte);
        let (base, step) = match self.steps.step(lane.base, code) {
            Some(step) => (lane.base, step),
            None => self.look_up(tokens, *lane, byte),
        };
        *lane = Lane { base: step.next, by: (base, code) };
        step.found
    }

    /// The step by a byte of a state that has moved from where this lane looks, or has none by this byte; and where the
    /// state's steps are now.
    #[cold]
    fn look_up(&mut self, tokens: Tokens<'_>, lane: Lane, byte: u8) -> (Base, Step) {
        let state = self.steps.state(lane.base);
        let known = self.steps.step(self.steps.base(state), tokens.prefixes.code(byte));
        let step = known.unwrap_or_else(|| self.learn(tokens, state, byte));
        let base = self.steps.base(state);
        if base != lane.base {
            self.steps.redirect(lane.by, lane.base, base);
        }
        (base, step)
    }

    fn learn(&mut self, tokens: Tokens<'_>, state: u32, byte: u8) -> Step {
        let (next, found) = self.states.follow(tokens, state, byte);
        while self.steps.states() < self.states.len() {
            self.steps.add_state();
        }
        let step = Step { next: self.steps.base(next), found };
        self.steps.put(state, tokens.prefixes.code(byte), step);
        step
    }
}

/// Appends the encoding of a text, given the token of each place.
fn read_off(found: &[Found], matches: &Matches, ids: &mut Vec<TokenId>) {
    let (first, mut at) = (ids.len(), found.len());
    while at > 0 {
        ids.push(TokenId::new(found[at - 1].token()));
        at -= found[at - 1].length(matches);
    }
    ids[first..].reverse();
}
