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
//! turn out to have two to four of them a token, so that a table of [steps](steps::Places) from state to state
//! by a byte is small, and each step is one look-up without a choice that the processor could guess wrong. That
//! each byte waits for the step of the one before is hidden by going on [at several places](lanes) at once: in short
//! texts together, and in parts of a long one, since automata that began at different places are soon in the same state.
//!
//! Two threads share an automaton, so that a step, which takes a hundred times as long to work out as to go, is learned
//! once for both. They read steps without waiting for each other; one that misses a step works it out under a lock. For most
//! that are missing it need not: where all that begins with a byte fits the last token nothing else matters.
//!
//! Of large vocabularies it finds only what the [early merges](later::Later) make, so that it stays small and is soon complete.
//! Their tokens are cut into pieces where no later merge can cross, and a [reader] looks these up as pieces of split text are.
//!
//! Berglund, Martens and van der Merwe, *Constructing a BPE Tokenization DFA* (2024), show that there is such an
//! automaton, and build all of one that tells right token sequences from wrong ones.

mod prefixes;
mod after;
mod states;
mod steps;
mod lanes;
mod merges;
mod later;
mod tokens;
mod reader;

#[cfg(test)]
mod tests;

pub(super) use later::early_merges;
pub(super) use tokens::Tokens;

use std::array;
use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use super::path::Path;
use super::{Matches, NONE};
use crate::error::Result;
use crate::observer::Observer;
use crate::parallel::lock;
use crate::units::{TokenId, low32, place};
use after::{After, NO_MISFITS};
use lanes::{Lane, WINDOW};
use later::{Early, Later};
use prefixes::Prefixes;
use reader::Reader;
use states::{START, States};
use steps::{Base, Places, Step, Steps};

/// What is gone through before it is looked whether the automaton is full is so short that not more tokens can be begun in
/// all its states, of 16 bytes each; but in the states of a lane's beginning once more.
const MOST_BEGUN: usize = 1 << 22;

/// Longer tokens than these would make windows too short.
pub(super) const LONGEST: usize = 1 << 12;

/// The automaton of a vocabulary, as far as texts have needed it.
///
/// **Memory:** up to 66 MiB for steps and 90 MiB for states, and what is come by until it is seen that it is full: of a
/// made up vocabulary of long tokens at worst some 120 MiB for each thread. 8 192 tokens need 14 MiB as a rule, and the
/// first step 6 MiB.
#[derive(Debug)]
pub(super) struct Automaton {
    places: Places,
    /// For each byte the state where nothing else has been begun and all may follow.
    fresh: [u32; 256],
    learned: Mutex<Learned>,
    full: AtomicBool,
}

/// What steps are worked out from.
#[derive(Debug)]
struct Learned {
    states: States,
    steps: Steps,
}

/// So many times a thread tries to learn before it sleeps: the other may have been put off while it learned.
const TRIES: u32 = 1 << 10;

const NO_PANIC: &str = "no thread panicked while it learned a step";

/// So many threads share an automaton. More might often wait for what another learns.
const SHARING: usize = 2;

/// The automata that threads have, and such as they had and that others may take up.
#[derive(Debug, Default)]
pub(super) struct Automata(Mutex<Vec<Arc<Automaton>>>);

impl Automata {
    /// An automaton that few threads have, which may be a new one.
    pub(super) fn get(&self, tokens: &Tokens) -> Arc<Automaton> {
        let mut all = lock(&self.0);
        all.retain(|automaton| !automaton.is_full() && !automaton.learned.is_poisoned());
        // One of the references to each is that of this list.
        if let Some(known) = all.iter().find(|automaton| Arc::strong_count(automaton) <= SHARING) {
            return Arc::clone(known);
        }
        let new = Arc::new(Automaton::new(tokens));
        all.push(Arc::clone(&new));
        new
    }

    /// Leaves an automaton to the threads that have it.
    pub(super) fn forget(&self, full: &Arc<Automaton>) {
        lock(&self.0).retain(|automaton| !Arc::ptr_eq(automaton, full));
    }
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

    /// Of early tokens.
    #[inline(always)]
    fn early(self) -> Early {
        let [_, low, high, _] = self.0.to_le_bytes();
        Early::from_le_bytes([low, high])
    }

    /// How many bytes it has, given the lengths of all tokens.
    #[inline(always)]
    fn length(self, lengths: &[u32]) -> usize {
        match self.0 & 0xff {
            0 => place(lengths[place(self.token())]),
            length => place(length),
        }
    }
}

impl Automaton {
    fn new(tokens: &Tokens) -> Automaton {
        let places = Places::new();
        let mut learned = Learned { states: States::new(), steps: Steps::new() };
        let fresh = array::from_fn(|byte| learned.states.fresh(tokens, low32(byte).to_le_bytes()[0]));
        learned.add_states(&places);
        Automaton { places, fresh, learned: Mutex::new(learned), full: AtomicBool::new(false) }
    }

    /// Whether there was no room for more states or steps. It still works, but had better be made anew, if at all.
    pub(super) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Where a text begins.
    fn start(&self) -> Lane {
        Lane::new(self.places.home(START).base)
    }

    /// Goes on by a byte, whether the step is known or not, and gives the token of the next place.
    fn step(&self, tokens: &Tokens, lane: &mut Lane, byte: u8) -> Found {
        let code = tokens.prefixes.code(byte);
        let (base, step) = match self.places.step(lane.base, code) {
            Some(step) => (lane.base, step),
            None => self.look_up(tokens, *lane, byte),
        };
        *lane = Lane { base: step.next, by: (base, code) };
        step.found
    }

    /// The step by a byte of a state that has moved from where this lane looks, or has none by this byte; and where the
    /// state's steps are now.
    #[cold]
    fn look_up(&self, tokens: &Tokens, lane: Lane, byte: u8) -> (Base, Step) {
        let state = self.places.state(lane.base);
        let home = self.places.home(state);
        let known = self.places.step(home.base, tokens.prefixes.code(byte));
        let step = known.unwrap_or_else(|| self.missing(tokens, state, home.kept_off, byte));
        let base = self.places.home(state).base;
        if base != lane.base {
            self.places.redirect(lane.by, lane.base, base);
        }
        (base, step)
    }

    /// A step that is missing.
    fn missing(&self, tokens: &Tokens, state: u32, kept_off: u32, byte: u8) -> Step {
        let code = tokens.prefixes.code(byte);
        let learned = self.try_learned();
        if let Some(learned) = &learned {
            // Every other step has to look at what has been begun, which lies far away.
            learned.states.fetch(state);
        }
        if tokens.after.has_first(kept_off, byte) {
            let mut learned = learned.unwrap_or_else(|| self.learned());
            return self.learn(&mut learned, code, state, |states| states.follow(tokens, state, byte));
        }
        // Whatever begins with the byte fits the last token, so that no other token goes on across this place: there
        // would be two encodings of what it makes. So no thread has to wait for another.
        let next = self.fresh[usize::from(byte)];
        let found = Found::new(tokens.prefixes.token(Prefixes::byte(byte)), 1);
        match learned {
            Some(mut learned) => self.learn(&mut learned, code, state, |_| (next, found)),
            None => Step { next: self.places.home(next).base, found },
        }
    }

    /// Adds the step by a code to what has been learned, if there is room, unless another thread has done so meanwhile.
    fn learn(
        &self,
        learned: &mut Learned,
        code: u8,
        state: u32,
        step: impl FnOnce(&mut States) -> (u32, Found),
    ) -> Step {
        if let Some(step) = self.places.step(self.places.home(state).base, code) {
            return step;
        }
        let (next, found) = step(&mut learned.states);
        learned.add_states(&self.places);
        let step = Step { next: self.places.home(next).base, found };
        learned.steps.put(&self.places, state, code, step);
        if learned.is_full() {
            self.full.store(true, Ordering::Relaxed);
        }
        step
    }

    /// What a thread that panicked has left may be wrong.
    ///
    /// A step is learned within a microsecond, and where one is missing others mostly are: to sleep and to be woken, which a
    /// mutex makes threads do after some hundred nanoseconds, takes far longer.
    fn learned(&self) -> MutexGuard<'_, Learned> {
        for _ in 0..TRIES {
            if let Some(learned) = self.try_learned() {
                return learned;
            }
            hint::spin_loop();
        }
        self.learned.lock().expect(NO_PANIC)
    }

    /// The same, unless another thread is learning.
    fn try_learned(&self) -> Option<MutexGuard<'_, Learned>> {
        match self.learned.try_lock() {
            Err(TryLockError::WouldBlock) => None,
            learned => Some(learned.expect(NO_PANIC)),
        }
    }

    /// How many bytes there are of each token that has been begun where a lane is.
    fn begun(&self, prefixes: &Prefixes, lane: Lane) -> Vec<usize> {
        self.learned().states.begun(prefixes, self.places.state(lane.base)).collect()
    }
}

impl Learned {
    fn is_full(&self) -> bool {
        self.steps.are_full() || self.states.are_full()
    }

    /// Gives new states their homes.
    fn add_states(&mut self, places: &Places) {
        for state in self.steps.states()..self.states.len() {
            self.steps.add_state(places, self.states.kept_off(low32(state)));
        }
    }
}

/// What a thread finds by an automaton.
pub(super) struct Walk<'a> {
    pub(super) automaton: &'a Automaton,
    pub(super) matches: &'a Matches,
    pub(super) tokens: &'a Tokens,
    pub(super) tail: &'a mut Tail,
}

/// The early token of each place behind the last certain piece; of short texts of all places.
///
/// **Memory:** 4 bytes for each byte of short texts, or for each place of a long one whose token may still change, as a
/// rule few; and that of the [`Reader`].
#[derive(Debug, Default)]
pub(super) struct Tail {
    found: Vec<Found>,
    reader: Reader,
}

/// Room for so many places is kept from text to text.
const KEPT: usize = 1 << 20;

/// A text that has a piece of so many bytes is gone on with otherwise.
const LONGEST_PIECE: usize = if cfg!(test) { 1 << 9 } else { 64 << 10 };

impl Walk<'_> {
    /// Goes on with a path that has just begun: to the end of the text, or else as far as the tokens before `end`
    /// are certain. Less far if the automaton is full, or if a piece is very long.
    ///
    /// # Errors
    /// The observer wants to stop.
    pub(super) fn go_on(
        &mut self,
        text: &[u8],
        path: &mut Path,
        end: usize,
        observer: &dyn Observer,
    ) -> Result<()> {
        self.tail.found.clear();
        let window = WINDOW.min(MOST_BEGUN / self.tokens.prefixes.longest());
        let mut lane = self.automaton.start();
        let mut patience = 0;
        for window in text[path.at..end].chunks(window) {
            observer.checkpoint()?;
            self.window(&mut lane, window);
            // Looking for the certain places anew where there were hardly any would take too long.
            if self.tail.found.len() > patience.min(LONGEST_PIECE) {
                let certain = self.certain(lane);
                self.move_to(text, path, certain);
                patience = 2 * self.tail.found.len();
            }
            if self.automaton.is_full() || self.tail.found.len() > LONGEST_PIECE {
                break;
            }
        }
        let left = self.tail.found.len();
        let certain = if path.at + left == text.len() { left } else { self.certain(lane) };
        self.move_to(text, path, certain);
        self.tail.found.shrink_to(KEPT);
        Ok(())
    }

    /// Appends the tokens of some texts to `ids`, and where those of each end to `ends`; not of all if the automaton is
    /// full.
    pub(super) fn encode(&mut self, texts: &[&[u8]], ids: &mut Vec<TokenId>, ends: &mut Vec<usize>) {
        let mut found = std::mem::take(&mut self.tail.found);
        found.clear();
        found.resize(texts.iter().map(|text| text.len()).sum(), Found::default());
        let done = self.texts(texts, &mut found);
        let mut rest = &found[..];
        for &text in &texts[..done] {
            let own = rest.split_off(..text.len()).expect("there is room for all");
            self.tail.reader.read((self.matches, self.tokens), (text, own), false, ids);
            ends.push(ids.len());
        }
        self.tail.found = found;
        self.tail.found.shrink_to(KEPT);
    }

    /// How many of the places left have only tokens before them that no byte more can change: where the encodings
    /// meet of all the texts from which it can go on.
    fn certain(&self, lane: Lane) -> usize {
        let found = &self.tail.found;
        let begun = self.automaton.begun(&self.tokens.prefixes, lane);
        let mut ends: Vec<usize> = begun.into_iter().map(|bytes| found.len() - bytes).collect();
        ends.sort_unstable();
        while let [.., before, last] = ends[..] {
            ends.pop();
            if before != last {
                let before = last - self.tokens.length(found[last - 1]);
                let at = ends.partition_point(|&end| end < before);
                ends.insert(at, before);
            }
        }
        ends[0]
    }

    /// Puts the encoding of the text up to the last border before one of the places left into a path, and forgets the places
    /// before it.
    fn move_to(&mut self, text: &[u8], path: &mut Path, end: usize) {
        let Tail { found, reader } = &mut *self.tail;
        let (text, goes_on) = (&text[path.at..], path.at + end < text.len());
        let read = reader.read((self.matches, self.tokens), (text, &found[..end]), goes_on, &mut path.ids);
        path.at += read;
        path.last = path.ids[path.base..].last().map_or(NONE, |id| id.get());
        found.drain(..read);
    }
}
