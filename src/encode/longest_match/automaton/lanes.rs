use std::{array, mem};

use super::steps::{Base, Places};
use super::{Found, Walk};

/// Text is gone through in windows of so many bytes.
pub(super) const WINDOW: usize = if cfg!(test) { 256 } else { 16 << 10 };

/// At so many places of a window at once.
pub(super) const LANES: usize = 8;

/// Fewer bytes are not worth a lane: from its start on some are gone through three times.
const SHORTEST: usize = if cfg!(test) { 4 } else { 128 };

/// How far one of several automata is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    /// Where the steps of its state are, or were.
    pub(super) base: Base,
    /// Where the step stands that led here: its state's base, and the code that it is by. At the start it may be that of
    /// another step, which does no harm, as only bases of one state are exchanged there.
    pub(super) by: (Base, u8),
}

impl Lane {
    pub(super) fn new(base: Base) -> Lane {
        Lane { base, by: (base, 0) }
    }
}

/// What is left of a text that is gone through, and the room for the tokens of its places.
struct Running<'a> {
    /// Which of the texts it is.
    nth: usize,
    lane: Lane,
    text: &'a [u8],
    found: &'a mut [Found],
}

impl<'a> Running<'a> {
    /// Takes so many of the next bytes off, and the room for their tokens.
    fn take(&mut self, length: usize) -> (&'a [u8], &'a mut [Found]) {
        let text = self.text.split_off(..length).expect("it is as long");
        (text, self.found.split_off_mut(..length).expect("there is room for all"))
    }
}

impl Walk<'_> {
    /// Goes on to the end of a window, and puts the tokens of its places behind the others.
    pub(super) fn window(&mut self, lane: &mut Lane, window: &[u8]) {
        let mut found = mem::take(&mut self.tail.found);
        let first = found.len();
        found.resize(first + window.len(), Found::default());
        *lane = self.part(*lane, window, &mut found[first..]);
        self.tail.found = found;
    }

    /// Goes through a part of a text.
    fn part(&mut self, mut lane: Lane, text: &[u8], found: &mut [Found]) -> Lane {
        let length = text.len() / LANES;
        let even = if length < SHORTEST { 0 } else { length * LANES };
        let ((text, rest), (found, rest_found)) = (text.split_at(even), found.split_at_mut(even));
        if even > 0 {
            lane = self.lanes(lane, text, found);
        }
        for (&byte, found) in rest.iter().zip(rest_found) {
            *found = self.automaton.step(self.tokens, &mut lane, byte);
        }
        lane
    }

    /// Goes through the parts of a text at once, all but the first as if the text began there, and then again through
    /// the beginning of each with what the part before it ends with, until both are in the same state.
    fn lanes(&mut self, first: Lane, text: &[u8], found: &mut [Found]) -> Lane {
        let length = text.len() / LANES;
        let texts: [&[u8]; LANES] = array::from_fn(|nth| &text[nth * length..][..length]);
        let mut lanes = [self.automaton.start(); LANES];
        lanes[0] = first;
        let mut parts = found.chunks_mut(length);
        self.all_lanes(&mut lanes, texts, array::from_fn(|_| parts.next().unwrap_or_default()));
        let (mut lane, parts) = (lanes[0], texts.into_iter().zip(found.chunks_mut(length)));
        for ((text, found), end) in parts.zip(lanes).skip(1) {
            let mut other = self.automaton.start();
            let met = text.iter().zip(found).any(|(&byte, found)| {
                *found = self.automaton.step(self.tokens, &mut lane, byte);
                self.automaton.step(self.tokens, &mut other, byte);
                lane.base == other.base
            });
            if met {
                lane = end;
            }
        }
        lane
    }

    /// Goes through whole texts, none of them empty, as many at once as there are lanes, with room for the tokens of all.
    /// Gives how many of the first ones it has gone through: not all if the automaton is full.
    pub(super) fn texts(&mut self, texts: &[&[u8]], mut room: &mut [Found]) -> usize {
        let mut waiting = texts.iter().enumerate().map(|(nth, text)| {
            let found = room.split_off_mut(..text.len()).expect("there is room for all");
            Running { nth, lane: self.automaton.start(), text, found }
        });
        let mut running: Vec<Running<'_>> = Vec::with_capacity(LANES);
        loop {
            let room = LANES - running.len();
            running.extend(waiting.by_ref().take(room));
            if running.is_empty() {
                return texts.len();
            }
            self.go_on_together(&mut running);
            running.retain(|running| !running.text.is_empty());
            if self.automaton.is_full() {
                let next = waiting.next().map(|waiting| waiting.nth);
                return running.iter().map(|running| running.nth).chain(next).min().unwrap_or(texts.len());
            }
        }
    }

    /// Goes on in some texts: together, as far as the one that ends first, if there is one for each lane. Not far, lest the
    /// automaton gets full meanwhile.
    fn go_on_together(&mut self, running: &mut [Running<'_>]) {
        let most = self.tokens.bytes_at_a_time();
        let Some(running) = running.first_chunk_mut::<LANES>() else {
            for running in running {
                let length = running.text.len().min(most);
                let (text, found) = running.take(length);
                running.lane = self.part(running.lane, text, found);
            }
            return;
        };
        let length = running.iter().map(|running| running.text.len()).min().unwrap_or_default().min(most);
        let mut lanes = running.each_ref().map(|running| running.lane);
        let mut found = running.each_mut().map(|running| running.take(length));
        let texts = found.each_ref().map(|(text, _)| *text);
        self.all_lanes(&mut lanes, texts, found.each_mut().map(|(_, found)| &mut **found));
        running.iter_mut().zip(lanes).for_each(|(running, lane)| running.lane = lane);
    }

    /// Goes on in texts of the same length.
    fn all_lanes(
        &mut self,
        lanes: &mut [Lane; LANES],
        texts: [&[u8]; LANES],
        mut found: [&mut [Found]; LANES],
    ) {
        let length = texts[0].len();
        let mut at = 0;
        loop {
            at = known_steps(
                &self.automaton.places,
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
                found[at] = self.automaton.step(self.tokens, lane, text[at]);
            }
            at += 1;
        }
    }
}

/// Goes on with all lanes from a place on until one of them comes to a step that is not there, and gives that place; or
/// to the end. No lane has to wait for another here.
#[inline(never)]
fn known_steps(
    places: &Places,
    codes: &[u8; 256],
    lanes: &mut [Lane; LANES],
    texts: [&[u8]; LANES],
    found: &mut [&mut [Found]; LANES],
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
            let Some(step) = places.step(bases[lane], codes[usize::from(texts[lane][at])]) else {
                break 'known;
            };
            (found[lane][at], next[lane]) = (step.found, step.next);
        }
        (before, bases) = (bases, next);
        at += 1;
    }
    if at > start {
        *lanes = array::from_fn(|lane| Lane {
            base: bases[lane],
            by: (before[lane], codes[usize::from(texts[lane][at - 1])]),
        });
    }
    at
}
