//! Runs the lazy DFA at several positions at the same time, so that the latencies of their lookups overlap.

use std::{array, mem};

use super::transitions::{StateBase, Transitions};
use super::{DfaEncoder, FoundToken};

/// Bytes per window of text, which is handled by all lanes at once.
pub(super) const WINDOW: usize = if cfg!(test) { 256 } else { 16 << 10 };

/// Positions of a window that are handled at the same time.
pub(super) const LANES: usize = 8;

/// Minimum number of bytes per lane. Shorter lanes do not pay, since some bytes at the start of each are handled three
/// times.
const SHORTEST: usize = if cfg!(test) { 4 } else { 128 };

/// The progress of one of several interleaved DFAs.
#[derive(Clone, Copy, Debug)]
pub(super) struct DfaLane {
    /// The base of its state, present or former.
    pub(super) base: StateBase,
    /// The transition that led here: the base of its state, and its code. At the start it may be any other
    /// transition. That is harmless, since redirecting only exchanges bases of the same state.
    pub(super) by: (StateBase, u8),
}

impl DfaLane {
    /// A lane at the start of a text, in the state with this base.
    pub(super) fn new(base: StateBase) -> DfaLane {
        DfaLane { base, by: (base, 0) }
    }
}

/// The rest of a text, and the memory for the tokens of its positions.
struct RunningText<'a> {
    /// Index of the text.
    nth: usize,
    /// The state before the next byte.
    lane: DfaLane,
    /// The bytes that are not read yet.
    text: &'a [u8],
    /// Receives one token for each of these bytes.
    found: &'a mut [FoundToken],
}

impl<'a> RunningText<'a> {
    /// Takes the next `length` bytes, and the memory for their tokens.
    fn take(&mut self, length: usize) -> (&'a [u8], &'a mut [FoundToken]) {
        let text = self.text.split_off(..length).expect("it is as long");
        (text, self.found.split_off_mut(..length).expect("there is room for all"))
    }
}

impl DfaEncoder<'_> {
    /// Extends a lane to the end of a window, and appends the tokens of its positions to the tail.
    pub(super) fn window(&mut self, lane: &mut DfaLane, window: &[u8]) {
        let mut found = mem::take(&mut self.pending.found);
        let first = found.len();
        found.resize(first + window.len(), FoundToken::default());
        *lane = self.chunk(*lane, window, &mut found[first..]);
        self.pending.found = found;
    }

    /// Extends a lane through a chunk of a text: interleaved if the chunk is long enough, and the rest byte by
    /// byte.
    fn chunk(&mut self, mut lane: DfaLane, text: &[u8], found: &mut [FoundToken]) -> DfaLane {
        let length = text.len() / LANES;
        let even = if length < SHORTEST { 0 } else { length * LANES };
        let ((text, rest), (found, rest_found)) = (text.split_at(even), found.split_at_mut(even));
        if even > 0 {
            lane = self.lanes(lane, text, found);
        }
        for (&byte, found) in rest.iter().zip(rest_found) {
            *found = self.dfa.step(self.tokens, &mut lane, byte);
        }
        lane
    }

    /// Runs one lane through each part of a text, all but the first as if the text began there. Then runs through
    /// the beginning of each part again from the state in which the part before it ended, until both runs reach
    /// the same state.
    fn lanes(&mut self, first: DfaLane, text: &[u8], found: &mut [FoundToken]) -> DfaLane {
        let length = text.len() / LANES;
        let texts: [&[u8]; LANES] = array::from_fn(|nth| &text[nth * length..][..length]);
        let mut lanes = [self.dfa.start(); LANES];
        lanes[0] = first;
        let mut parts = found.chunks_mut(length);
        self.all_lanes(&mut lanes, texts, array::from_fn(|_| parts.next().unwrap_or_default()));
        let (mut lane, parts) = (lanes[0], texts.into_iter().zip(found.chunks_mut(length)));
        for ((text, found), end) in parts.zip(lanes).skip(1) {
            let mut other = self.dfa.start();
            let met = text.iter().zip(found).any(|(&byte, found)| {
                *found = self.dfa.step(self.tokens, &mut lane, byte);
                self.dfa.step(self.tokens, &mut other, byte);
                lane.base == other.base
            });
            if met {
                lane = end;
            }
        }
        lane
    }

    /// Runs through whole texts, none of them empty, interleaved, with `room` for the tokens of all. Returns how
    /// many of the first texts are complete: not all if the DFA is full.
    pub(super) fn texts(&mut self, texts: &[&[u8]], mut room: &mut [FoundToken]) -> usize {
        let mut waiting = texts.iter().enumerate().map(|(nth, text)| {
            let found = room.split_off_mut(..text.len()).expect("there is room for all");
            RunningText { nth, lane: self.dfa.start(), text, found }
        });
        let mut running: Vec<RunningText<'_>> = Vec::with_capacity(LANES);
        loop {
            let room = LANES - running.len();
            running.extend(waiting.by_ref().take(room));
            if running.is_empty() {
                return texts.len();
            }
            self.extend_all(&mut running);
            running.retain(|running| !running.text.is_empty());
            if self.dfa.is_full() {
                let next = waiting.next().map(|waiting| waiting.nth);
                return running.iter().map(|running| running.nth).chain(next).min().unwrap_or(texts.len());
            }
        }
    }

    /// Extends some texts: interleaved, up to the end of the shortest, if there is one for each lane. Goes only
    /// so far that the DFA cannot overflow meanwhile.
    fn extend_all(&mut self, running: &mut [RunningText<'_>]) {
        let max_bytes = self.tokens.bytes_at_a_time();
        let Some(running) = running.first_chunk_mut::<LANES>() else {
            for running in running {
                let length = running.text.len().min(max_bytes);
                let (text, found) = running.take(length);
                running.lane = self.chunk(running.lane, text, found);
            }
            return;
        };
        let length =
            running.iter().map(|running| running.text.len()).min().unwrap_or_default().min(max_bytes);
        let mut lanes = running.each_ref().map(|running| running.lane);
        let mut found = running.each_mut().map(|running| running.take(length));
        let texts = found.each_ref().map(|(text, _)| *text);
        self.all_lanes(&mut lanes, texts, found.each_mut().map(|(_, found)| &mut **found));
        running.iter_mut().zip(lanes).for_each(|(running, lane)| running.lane = lane);
    }

    /// Extends all lanes through texts of the same length.
    fn all_lanes(
        &mut self,
        lanes: &mut [DfaLane; LANES],
        texts: [&[u8]; LANES],
        mut found: [&mut [FoundToken]; LANES],
    ) {
        let length = texts[0].len();
        let mut at = 0;
        loop {
            at = known_steps(
                &self.dfa.transitions,
                self.tokens.prefixes.codes(),
                lanes,
                texts,
                &mut found,
                at,
            );
            if at == length {
                return;
            }
            for ((lane, text), found) in lanes.iter_mut().zip(texts).zip(&mut found) {
                found[at] = self.dfa.step(self.tokens, lane, text[at]);
            }
            at += 1;
        }
    }
}

/// Extends all lanes from `start` until one of them misses a transition, and returns that position, or the end.
/// No lane waits for another here.
#[inline(never)]
fn known_steps(
    transitions: &Transitions,
    codes: &[u8; 256],
    lanes: &mut [DfaLane; LANES],
    texts: [&[u8]; LANES],
    found: &mut [&mut [FoundToken]; LANES],
    start: usize,
) -> usize {
    let length = texts[0].len();
    let texts = texts.map(|text| &text[..length]);
    let found = found.each_mut().map(|found| &mut found[..length]);
    let (mut bases, mut before) = (lanes.map(|lane| lane.base), lanes.map(|lane| lane.by.0));
    let mut at = start;
    'known: while at < length {
        let mut next = bases;
        for lane in 0..LANES {
            let Some(step) = transitions.step(bases[lane], codes[usize::from(texts[lane][at])]) else {
                break 'known;
            };
            (found[lane][at], next[lane]) = (step.found, step.next);
        }
        (before, bases) = (bases, next);
        at += 1;
    }
    if at > start {
        *lanes = array::from_fn(|lane| DfaLane {
            base: bases[lane],
            by: (before[lane], codes[usize::from(texts[lane][at - 1])]),
        });
    }
    at
}
