//! The same encoding byte by byte, with a lazy DFA: a deterministic finite automaton that is built as texts need
//! it.
//!
//! Call the last token of the encoding of a text's first n bytes the token of position n. The encoding of the
//! first n bytes ends with this token; before it is the encoding of the bytes up to its start, because
//! compatibility concerns adjacent tokens only. So once the token of each position is known, the encoding can be
//! read off backwards from the end. The token of the next position is the one token that ends there and is
//! compatible with the token of the position where it begins. Exactly one such token exists, since each text has
//! one encoding.
//!
//! The rest of the encoding depends only on the last token, and on the partial tokens: each prefix of a token
//! that the text so far ends with, with the completions of it that are compatible with the token before. Together
//! they are a [state](states::States). Real vocabularies need two to four states per token. So the table of
//! [transitions](transitions::Transitions) is small, and each byte costs one lookup without an unpredictable branch. Each
//! lookup depends on the one before; this latency is hidden by [interleaving](lanes) several positions: several
//! short texts, or chunks of a long one, since DFAs that begin at different positions soon reach the same
//! state.
//!
//! Two threads share a DFA, because computing a transition takes a hundred times as long as following one,
//! and so it is learned once for both. Threads read transitions without waiting for each other. A thread that
//! misses one computes it under a lock. Most missing transitions need no lock: if everything that begins with the
//! next byte is compatible with the last token, nothing else matters.
//!
//! For large vocabularies the DFA finds only the tokens of the [early merges](late_merges::LateMerges), so it stays
//! small and is soon complete. The sequence of these tokens is cut into segments where no late merge can cross,
//! and a [reader](late_merges::SegmentReader) looks these up in a cache, like the pre-tokens of split text.
//!
//! Berglund, Martens and van der Merwe, *Constructing a BPE Tokenization DFA* (2024), prove that such an
//! automaton exists, and construct all of one that tells correct token sequences from incorrect ones.

mod states;
mod lanes;
#[cfg(test)]
mod tests;

mod transitions;
mod late_merges;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::{array, hint};

use lanes::{DfaLane, LANES, WINDOW};
use late_merges::{EarlyId, LateMerges, SegmentReader};
use states::{IncompatibleAfter, PrefixTable, START, States};
use transitions::{StateBase, Transition, TransitionPlacer, Transitions};

use super::compatible::{FollowOrder, IncompatibleRange};
use super::path::Path;
use super::{BacktrackTables, NONE};
use crate::base::int::{TokenId, to_usize, truncate_to_u32};
use crate::base::pools::lock;
use crate::error::Result;
use crate::observer::Observer;
use crate::vocab::Vocabulary;

pub(super) use late_merges::early_merges;

/// Maximum number of partial tokens, of 16 bytes each, in the new states between two checks of whether the DFA is full.
/// The bytes between two checks are limited accordingly. States that are met while the beginnings of lanes are repeated
/// can add as many once more.
const MAX_PARTIAL: usize = 1 << 22;

/// Longest token, in bytes, of vocabularies that use the DFA. Longer ones would make windows too short.
pub(super) const LONGEST: usize = 1 << 12;

/// The lazy DFA of a vocabulary, as far as texts have needed it.
///
/// **Memory:** up to 66 MiB for transitions and 90 MiB for states, and the states that are added before a check
/// finds it full: for a constructed vocabulary of long tokens, at worst about 120 MiB per thread. 8 192 tokens
/// usually need 14 MiB. The first transition takes 6 MiB.
#[derive(Debug)]
pub(super) struct LazyDfa {
    /// What threads read without a lock while another adds to it.
    transitions: Transitions,
    /// For each byte, the state in which it is the only partial token and every completion of it is compatible.
    fresh: [u32; 256],
    /// What a thread that misses a transition computes it from. One thread at a time does so.
    builder: Mutex<DfaBuilder>,
    /// Whether the memory for states or transitions is used up. Threads then stop using the DFA.
    full: AtomicBool,
}

/// What transitions are computed from.
#[derive(Debug)]
struct DfaBuilder {
    /// The partial tokens of each state.
    states: States,
    /// Which positions of the transition table are free.
    placer: TransitionPlacer,
}

/// Attempts to take the lock before a thread sleeps on it. They are many because the thread that holds the lock
/// may have been preempted.
const TRIES: u32 = 1 << 10;

/// The reason why the lock of the builder is not poisoned.
const NO_PANIC: &str = "no thread panicked while it learned a step";

/// Threads that share a DFA. More would often wait for what another one learns.
const SHARING: usize = 2;

/// The DFAs that threads use, and those that no thread uses any more and others may take over.
#[derive(Debug, Default)]
pub(super) struct SharedDfas(Mutex<Vec<Arc<LazyDfa>>>);

impl SharedDfas {
    /// A DFA that fewer than [`SHARING`] threads use, if necessary a new one.
    pub(super) fn get(&self, tokens: &EarlyTokens) -> Arc<LazyDfa> {
        let mut all = lock(&self.0);
        all.retain(|dfa| !dfa.is_full() && !dfa.builder.is_poisoned());
        // One reference to each DFA is the list's own.
        if let Some(known) = all.iter().find(|dfa| Arc::strong_count(dfa) <= SHARING) {
            return Arc::clone(known);
        }
        let new = Arc::new(LazyDfa::new(tokens));
        all.push(Arc::clone(&new));
        new
    }

    /// Removes a DFA from the list. Threads that use it keep it.
    pub(super) fn forget(&self, full: &Arc<LazyDfa>) {
        lock(&self.0).retain(|dfa| !Arc::ptr_eq(dfa, full));
    }
}

/// A token, and in the low 8 bits its length in bytes; 0 means 256 or more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FoundToken(u32);

impl FoundToken {
    /// Packs a token and its length.
    fn new(token: u32, length: usize) -> FoundToken {
        FoundToken(token << 8 | u32::from(u8::try_from(length).unwrap_or(0)))
    }

    /// The token's id or number.
    fn token(self) -> u32 {
        self.0 >> 8
    }

    /// The token as an early one.
    #[inline(always)]
    fn early(self) -> EarlyId {
        let [_, low, high, _] = self.0.to_le_bytes();
        EarlyId::from_le_bytes([low, high])
    }

    /// The token's length in bytes, given the lengths of all tokens.
    #[inline(always)]
    fn length(self, lengths: &[u32]) -> usize {
        match self.0 & 0xff {
            0 => to_usize(lengths[to_usize(self.token())]),
            length => to_usize(length),
        }
    }
}

impl LazyDfa {
    /// A DFA with the start state and the states of single bytes.
    fn new(tokens: &EarlyTokens) -> LazyDfa {
        let transitions = Transitions::new();
        let mut builder = DfaBuilder { states: States::new(), placer: TransitionPlacer::default() };
        let fresh =
            array::from_fn(|byte| builder.states.fresh(tokens, truncate_to_u32(byte).to_le_bytes()[0]));
        builder.add_states(&transitions);
        LazyDfa { transitions, fresh, builder: Mutex::new(builder), full: AtomicBool::new(false) }
    }

    /// Whether there was no memory for further states or transitions. A full DFA still works, but is slow
    /// where it lacks transitions, so it should be replaced or abandoned.
    pub(super) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// A lane at the start of a text.
    fn start(&self) -> DfaLane {
        DfaLane::new(self.transitions.record(START).base)
    }

    /// Follows the transition by a byte, computing it if necessary, and returns the token of the next position.
    fn step(&self, tokens: &EarlyTokens, lane: &mut DfaLane, byte: u8) -> FoundToken {
        let code = tokens.prefixes.code(byte);
        let (base, step) = match self.transitions.step(lane.base, code) {
            Some(step) => (lane.base, step),
            None => self.look_up(tokens, *lane, byte),
        };
        *lane = DfaLane { base: step.next, by: (base, code) };
        step.found
    }

    /// Handles a lane that looks where its state's transitions no longer are, or a state that has no transition
    /// by this byte. Returns the state's present base and the transition.
    #[cold]
    fn look_up(&self, tokens: &EarlyTokens, lane: DfaLane, byte: u8) -> (StateBase, Transition) {
        let state = self.transitions.state(lane.base);
        let record = self.transitions.record(state);
        let known = self.transitions.step(record.base, tokens.prefixes.code(byte));
        let step = known.unwrap_or_else(|| self.missing(tokens, state, record.excluded, byte));
        let base = self.transitions.record(state).base;
        if base != lane.base {
            self.transitions.redirect(lane.by, lane.base, base);
        }
        (base, step)
    }

    /// Computes a transition that is missing.
    fn missing(&self, tokens: &EarlyTokens, state: u32, excluded: u32, byte: u8) -> Transition {
        let code = tokens.prefixes.code(byte);
        let builder = self.try_lock_builder();
        if let Some(builder) = &builder {
            // Other transitions need the state's partial tokens, which are far away in memory.
            builder.states.fetch(state);
        }
        if tokens.after.has_first(excluded, byte) {
            let mut builder = builder.unwrap_or_else(|| self.builder());
            return self.store(&mut builder, code, state, |states| states.follow(tokens, state, byte));
        }
        // Everything that begins with the byte is compatible with the last token. So no other token can continue
        // across this position: its bytes would then have two encodings. The result follows without the lock, and
        // no thread has to wait.
        let next = self.fresh[usize::from(byte)];
        let found = FoundToken::new(tokens.prefixes.token(PrefixTable::byte(byte)), 1);
        match builder {
            Some(mut builder) => self.store(&mut builder, code, state, |_| (next, found)),
            None => Transition { next: self.transitions.record(next).base, found },
        }
    }

    /// Stores the transition by a code if there is memory for it, unless another thread has stored it meanwhile.
    fn store(
        &self,
        builder: &mut DfaBuilder,
        code: u8,
        state: u32,
        step: impl FnOnce(&mut States) -> (u32, FoundToken),
    ) -> Transition {
        if let Some(step) = self.transitions.step(self.transitions.record(state).base, code) {
            return step;
        }
        let (next, found) = step(&mut builder.states);
        builder.add_states(&self.transitions);
        let step = Transition { next: self.transitions.record(next).base, found };
        builder.placer.put(&self.transitions, state, code, step);
        if builder.is_full() {
            self.full.store(true, Ordering::Relaxed);
        }
        step
    }

    /// Takes the lock. Panics if a thread panicked while it held the lock, as the data may then be wrong.
    ///
    /// A transition is computed within a microsecond, and where one is missing, others usually are. A mutex lets
    /// a thread sleep after about a hundred nanoseconds, and sleeping and waking take far longer, so this first
    /// spins.
    fn builder(&self) -> MutexGuard<'_, DfaBuilder> {
        for _ in 0..TRIES {
            if let Some(builder) = self.try_lock_builder() {
                return builder;
            }
            hint::spin_loop();
        }
        self.builder.lock().expect(NO_PANIC)
    }

    /// Takes the lock, unless another thread holds it.
    fn try_lock_builder(&self) -> Option<MutexGuard<'_, DfaBuilder>> {
        match self.builder.try_lock() {
            Err(TryLockError::WouldBlock) => None,
            builder => Some(builder.expect(NO_PANIC)),
        }
    }

    /// The length in bytes of each partial token of the state that a lane is in.
    fn partial(&self, prefixes: &PrefixTable, lane: DfaLane) -> Vec<usize> {
        self.builder().states.partial(prefixes, self.transitions.state(lane.base)).collect()
    }
}

impl DfaBuilder {
    /// Whether states or transitions have reached their limit.
    fn is_full(&self) -> bool {
        self.placer.full || self.states.are_full()
    }

    /// Gives new states their positions.
    fn add_states(&mut self, transitions: &Transitions) {
        for state in self.placer.states()..self.states.len() {
            self.placer.add_state(transitions, self.states.excluded(truncate_to_u32(state)));
        }
    }
}

/// Encodes texts with a DFA, for one thread.
pub(super) struct DfaEncoder<'a> {
    /// The DFA, which another thread may extend at the same time.
    pub(super) dfa: &'a LazyDfa,
    /// The vocabulary's tables, for segments with too many early tokens for late merges.
    pub(super) tables: &'a BacktrackTables,
    /// The early tokens, which give the found tokens their lengths and ids.
    pub(super) tokens: &'a EarlyTokens,
    /// The thread's own part.
    pub(super) pending: &'a mut PendingPositions,
}

/// The early token of each position after the last segment that is certain; for short texts, of all positions.
///
/// **Memory:** 4 bytes for each byte of short texts, or for each position of a long text with a token that may
/// still change, usually few; and that of the [`SegmentReader`].
#[derive(Debug, Default)]
pub(super) struct PendingPositions {
    /// For each byte of the text, the early token that ends after it.
    found: Vec<FoundToken>,
    /// Turns early tokens into the tokens of the vocabulary.
    reader: SegmentReader,
}

/// Positions that are kept allocated from text to text (4 MiB).
const KEPT: usize = 1 << 20;

/// Length in bytes of a segment from which a text is encoded without the DFA.
const LONGEST_SEGMENT: usize = if cfg!(test) { 1 << 9 } else { 64 << 10 };

impl DfaEncoder<'_> {
    /// Extends a path that has just begun: to the end of the text, or else as far as the tokens before `end` are
    /// certain. Stops earlier if the DFA is full or a segment is very long.
    ///
    /// # Errors
    /// The observer asks to stop.
    pub(super) fn extend_to(
        &mut self,
        text: &[u8],
        path: &mut Path,
        end: usize,
        observer: &dyn Observer,
    ) -> Result<()> {
        self.pending.found.clear();
        let window = WINDOW.min(MAX_PARTIAL / self.tokens.prefixes.longest());
        let mut lane = self.dfa.start();
        let mut budget = 0;
        for window in text[path.at..end].chunks(window) {
            observer.checkpoint()?;
            self.window(&mut lane, window);
            // Searching for certain positions again after hardly any were found would take too long.
            if self.pending.found.len() > budget.min(LONGEST_SEGMENT) {
                let certain = self.certain(lane);
                self.move_to(text, path, certain);
                budget = 2 * self.pending.found.len();
            }
            if self.dfa.is_full() || self.pending.found.len() > LONGEST_SEGMENT {
                break;
            }
        }
        let left = self.pending.found.len();
        let certain = if path.at + left == text.len() { left } else { self.certain(lane) };
        self.move_to(text, path, certain);
        self.pending.found.shrink_to(KEPT);
        Ok(())
    }

    /// Appends the tokens of texts to `ids`, and the end of each text's tokens to `ends`. Stops early if the
    /// DFA is full: `ends` then lacks the remaining texts.
    pub(super) fn encode(&mut self, texts: &[&[u8]], ids: &mut Vec<TokenId>, ends: &mut Vec<usize>) {
        let mut found = std::mem::take(&mut self.pending.found);
        found.clear();
        found.resize(texts.iter().map(|text| text.len()).sum(), FoundToken::default());
        let done = self.texts(texts, &mut found);
        let mut rest = &found[..];
        for &text in &texts[..done] {
            let own = rest.split_off(..text.len()).expect("there is room for all");
            self.pending.reader.read((self.tables, self.tokens), (text, own), false, ids);
            ends.push(ids.len());
        }
        self.pending.found = found;
        self.pending.found.shrink_to(KEPT);
    }

    /// How many of the pending positions have only tokens before them that no further byte can change. The
    /// candidates for the text's encoding end where partial tokens begin; traced backwards, they meet at that
    /// position.
    fn certain(&self, lane: DfaLane) -> usize {
        let found = &self.pending.found;
        let partial = self.dfa.partial(&self.tokens.prefixes, lane);
        let mut ends: Vec<usize> = partial.into_iter().map(|bytes| found.len() - bytes).collect();
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

    /// Appends the encoding up to the last segment border at or before `end` to a path, and forgets the pending
    /// positions before it.
    fn move_to(&mut self, text: &[u8], path: &mut Path, end: usize) {
        let PendingPositions { found, reader } = &mut *self.pending;
        let (text, continues) = (&text[path.at..], path.at + end < text.len());
        let read = reader.read((self.tables, self.tokens), (text, &found[..end]), continues, &mut path.ids);
        path.at += read;
        path.last = path.ids[path.base..].last().map_or(NONE, |id| id.get());
        found.drain(..read);
    }
}

/// The early tokens of a vocabulary, which the DFA finds, and what the late merges make of them.
///
/// **Memory:** 17 bytes per prefix of an early token, about 100 per early token, and that of [`LateMerges`].
#[derive(Debug)]
pub(super) struct EarlyTokens {
    prefixes: PrefixTable,
    after: IncompatibleAfter,
    /// The intervals of all sets of incompatible tokens.
    incompatible: Box<[IncompatibleRange]>,
    /// Length of each early token in bytes.
    lengths: Box<[u32]>,
    /// The merges that turn early tokens into the tokens of the vocabulary; none if all tokens are early.
    late: LateMerges,
}

impl EarlyTokens {
    /// Uses at most `early_merges` merges for the early tokens. `None` if one of these is too long, or if they
    /// have too many incompatible pairs.
    pub(super) fn new(vocabulary: &Vocabulary, early_merges: usize) -> Option<EarlyTokens> {
        let (early, late) = LateMerges::new(vocabulary, early_merges)?;
        let order = FollowOrder::new(&early);
        let prefixes = PrefixTable::new(&early, |token| order.number(token));
        if prefixes.longest() > LONGEST {
            return None;
        }
        let (sets_after, sets) = order.sets_after()?;
        let after = IncompatibleAfter::new(&prefixes, sets_after, &sets);
        let lengths = early.ordinary().map(|(_, bytes)| truncate_to_u32(bytes.len())).collect();
        Some(EarlyTokens { prefixes, after, incompatible: sets.items.into(), lengths, late })
    }

    /// Number of early tokens.
    pub(super) fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether all tokens are early.
    pub(super) fn are_all(&self) -> bool {
        self.len() == self.late.tokens()
    }

    /// Bytes per lane between two checks of whether the DFA is full. At most as many as a window of a long
    /// text has, so that there are never [too many states](transitions::MAX_STATES).
    fn bytes_at_a_time(&self) -> usize {
        (MAX_PARTIAL / self.prefixes.longest() / LANES).min(WINDOW)
    }

    /// The intervals of one of the sets of tokens that are not compatible after a token.
    fn incompatible(&self, set: u32) -> &[IncompatibleRange] {
        &self.incompatible[self.after.incompatible(set)]
    }

    /// Length of a token in bytes.
    #[inline(always)]
    fn length(&self, found: FoundToken) -> usize {
        found.length(&self.lengths)
    }
}
