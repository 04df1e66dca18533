use super::{Found, first_of};
use crate::pages;
use crate::units::{low32, place};

/// With so many lines, 32 MiB, there should be no more.
const MOST: usize = if cfg!(test) { 1 << 11 } else { 1 << 19 };

/// Room for so many more is made at once, for those that come before it is seen that there are too many.
const MORE: usize = 1 << 15;

/// Steps in a line.
const STEPS: usize = 7;

/// A step from a state to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) next: Lead,
    /// The last token of the text up to there.
    pub(super) found: Found,
}

impl Step {
    #[inline(always)]
    fn of(word: u64) -> Step {
        let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
        Step { next: Lead(u32::from_le_bytes([a, b, c, d])), found: Found(u32::from_le_bytes([e, f, g, h])) }
    }

    fn word(self) -> u64 {
        u64::from(self.found.0) << 32 | u64::from(self.next.0)
    }
}

/// Where the steps of a state are: the first of its lines, and in the low [`BITS`] those bits of a byte which tell how
/// many lines further on its step is. As long as it has no lines, [`NO_LINES`] and the number of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lead(u32);

/// With 64 lines for 256 bytes none is full.
const BITS: u32 = 6;
const MASK: u32 = (1 << BITS) - 1;

/// As a line this is past all that there are.
const NO_LINES: u32 = 1 << 31;

impl Lead {
    #[inline(always)]
    fn line(self, byte: u8) -> usize {
        place((self.0 >> BITS) + (self.0 & MASK & u32::from(byte)))
    }

    fn has_lines(self) -> bool {
        self.0 < NO_LINES
    }
}

/// Some steps of a state, in one line of the processor's cache. Behind the steps stand the bytes that they are by, and
/// then how many there are; the other bytes are never looked for in this line, or are like the first.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Line([u64; STEPS + 1]);

impl Line {
    /// No steps; this byte must not be looked for here.
    fn without(byte: u8) -> Line {
        let mut line = Line([0; STEPS + 1]);
        line.set_bytes([byte; STEPS], 0);
        line
    }

    fn set_bytes(&mut self, bytes: [u8; STEPS], used: u8) {
        let [a, b, c, d, e, f, g] = bytes;
        self.0[STEPS] = u64::from_le_bytes([a, b, c, d, e, f, g, used]);
    }

    fn bytes(&self) -> ([u8; STEPS], usize) {
        let [a, b, c, d, e, f, g, used] = self.0[STEPS].to_le_bytes();
        ([a, b, c, d, e, f, g], usize::from(used))
    }

    #[inline(always)]
    fn find(&self, byte: u8) -> Option<Step> {
        let nth = first_of(self.0[STEPS], byte);
        (nth < STEPS).then(|| Step::of(self.0[nth]))
    }

    fn steps(&self) -> impl Iterator<Item = (u8, Step)> {
        let (bytes, used) = self.bytes();
        bytes.into_iter().zip(self.0.map(Step::of)).take(used)
    }

    /// Adds a step that is not there, or tells by `false` that the line is full.
    fn put(&mut self, byte: u8, step: Step) -> bool {
        let (mut bytes, used) = self.bytes();
        if used == STEPS {
            return false;
        }
        if used == 0 {
            bytes = [byte; STEPS];
        }
        bytes[used] = byte;
        self.0[used] = step.word();
        self.set_bytes(bytes, u8::try_from(used + 1).expect("few"));
        true
    }
}

/// The step by this byte, if it stands where a lead says.
#[inline(always)]
pub(super) fn step(lines: &[Line], lead: Lead, byte: u8) -> Option<Step> {
    lines.get(lead.line(byte))?.find(byte)
}

/// The steps of all states.
///
/// A state that needs more lines gets new ones. The old ones stay, with what was in them, for the leads that other
/// steps have; these are [redirected](Lines::redirect) when a step is missing where they lead.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) all: Vec<Line>,
    /// The state of each line.
    states: Vec<u32>,
    /// Where the steps of each state are now.
    leads: Vec<Lead>,
}

impl Lines {
    pub(super) fn new() -> Lines {
        Lines { all: pages::with_capacity(MOST + MORE), states: Vec::new(), leads: Vec::new() }
    }

    /// Whether there should be no more.
    pub(super) fn are_full(&self) -> bool {
        self.all.len() >= MOST
    }

    /// Adds the next state, without any step.
    pub(super) fn add_state(&mut self) {
        self.leads.push(Lead(NO_LINES | low32(self.leads.len())));
    }

    /// How many states there are.
    pub(super) fn states(&self) -> usize {
        self.leads.len()
    }

    /// The state that a lead leads to.
    pub(super) fn state(&self, lead: Lead) -> u32 {
        if lead.has_lines() { self.states[lead.line(0)] } else { lead.0 & !NO_LINES }
    }

    /// Where the steps of a state are now.
    pub(super) fn lead(&self, state: u32) -> Lead {
        self.leads[place(state)]
    }

    /// The step by this byte, if it stands where a lead says.
    #[inline(always)]
    pub(super) fn step(&self, lead: Lead, byte: u8) -> Option<Step> {
        step(&self.all, lead, byte)
    }

    /// Gives the step that stands there the new lead, if it has the old one.
    pub(super) fn redirect(&mut self, (lead, byte): (Lead, u8), old: Lead, new: Lead) {
        let Some(line) = self.all.get_mut(lead.line(byte)) else { return };
        if let Some(step) = line.find(byte).filter(|step| step.next == old) {
            line.0[first_of(line.0[STEPS], byte)] = Step { next: new, ..step }.word();
        }
    }

    /// Adds a step that is not there.
    pub(super) fn put(&mut self, state: u32, byte: u8, step: Step) {
        loop {
            let line = self.lead(state).line(byte);
            if self.all.get_mut(line).is_some_and(|line| line.put(byte, step)) {
                return;
            }
            self.grow(state);
        }
    }

    /// Gives a state its first line, or twice as many as it has.
    fn grow(&mut self, state: u32) {
        let before = self.lead(state);
        let mask = if before.has_lines() { (before.0 & MASK) << 1 | 1 } else { 0 };
        let first = low32(self.all.len());
        self.leads[place(state)] = Lead(first << BITS | mask);
        for nth in 0..=u8::try_from(mask).expect("few bits") {
            // A single line is not left without a step.
            self.all.push(Line::without(nth ^ 1));
            self.states.push(state);
        }
        if before.has_lines() {
            for line in before.line(0)..=before.line(u8::MAX) {
                let line = self.all[line];
                line.steps().for_each(|(byte, step)| self.put(state, byte, step));
            }
        }
    }
}
