//! The transitions of the lazy DFA: a double array that threads read while one thread adds to it.

use std::array;
#[cfg(test)]
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use super::FoundToken;
use crate::base::huge_pages;
use crate::base::int::{to_usize, truncate_to_u32, u64_to_usize};

/// Positions for transitions (32 MiB). When all are in use, the DFA is full.
const MAX: usize = if cfg!(test) { 1 << 13 } else { 1 << 22 };

/// More states than can ever exist. Learning stops at two million list items, and each state has at least one. The
/// two threads that share a DFA add fewer than a million transitions before they check this limit again.
pub(super) const MAX_STATES: usize = if cfg!(test) { 1 << 15 } else { 1 << 22 };

/// Positions in a block. All transitions of a state are in the block of its base.
const BLOCK: usize = 256;

/// Positions of a block that are left free for transitions that its states learn later.
const RESERVED: u32 = 64;

/// A transition to the next state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transition {
    /// The state that the byte leads to.
    pub(super) next: StateBase,
    /// The last token of the text up to there.
    pub(super) found: FoundToken,
}

/// The position of a state's transitions: the one by a code is at this position, exclusive-or the code. A state
/// without transitions has [`NO_TRANSITIONS`] plus its own number here. Below 2²⁴.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StateBase(pub(super) u32);

/// As a position, this is after all that exist.
const NO_TRANSITIONS: u32 = 1 << 23;

impl StateBase {
    /// The position of the transition by a code.
    #[inline(always)]
    fn place(self, code: u8) -> usize {
        to_usize(self.0 ^ u32::from(code))
    }
}

/// The content of a position: in the low 8 bits the code of the transition, above it the base of the next state,
/// and in the high half the token. No two states ever have the same base, so the code identifies the state
/// that a transition belongs to.
#[derive(Clone, Copy, Debug)]
struct PackedTransition(u64);

impl PackedTransition {
    /// No transition. The entry has the code by which the first base of a block leads to this position, and no
    /// state gets that base.
    fn none(at: usize) -> PackedTransition {
        PackedTransition(u64::from(truncate_to_u32(at % BLOCK)))
    }

    /// Packs a transition by a code.
    fn new(code: u8, step: Transition) -> PackedTransition {
        PackedTransition(u64::from(code) | u64::from(step.next.0) << 8 | u64::from(step.found.0) << 32)
    }

    /// Whether this entry is a transition by a code, from the base that leads here.
    #[inline(always)]
    fn is_by(self, code: u8) -> bool {
        self.0.to_le_bytes()[0] == code
    }

    /// Unpacks the transition.
    #[inline(always)]
    fn step(self) -> Transition {
        let [_, a, b, c, d, e, f, g] = self.0.to_le_bytes();
        Transition {
            next: StateBase(u32::from_le_bytes([a, b, c, 0])),
            found: FoundToken(u32::from_le_bytes([d, e, f, g])),
        }
    }
}

/// The position of a state's transitions, and the tokens that it excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StateRecord {
    /// The present position of its transitions.
    pub(super) base: StateBase,
    /// The number of the set of tokens that are not compatible after its last token.
    pub(super) excluded: u32,
}

/// All transitions and states. Threads read them while one thread adds others.
///
/// An entry that was ever stored at a position stays correct for its state, because a base is never given to
/// another state. So reading an outdated entry does no harm, if the position was initialized at all. It was: a
/// thread that learns of a base or a state sees everything that was written before that base or state was
/// published (release stores, acquire loads).
#[derive(Debug)]
pub(super) struct Transitions {
    /// The transition at each position, packed.
    steps: Box<[AtomicU64]>,
    /// The state that each base belongs or belonged to. Four bytes per entry would do, but the array would then
    /// be too small for the allocator to map, and the allocator would clear it all at once.
    owners: Box<[AtomicU64]>,
    /// The record of each state, packed.
    records: Box<[AtomicU64]>,
}

impl Transitions {
    /// An empty table. Its memory is not touched yet.
    pub(super) fn new() -> Transitions {
        Transitions {
            steps: huge_pages::atomics(MAX),
            owners: huge_pages::atomics(MAX),
            records: huge_pages::atomics(MAX_STATES),
        }
    }

    /// The transition by this code, if the position that a base leads to holds it.
    #[inline(always)]
    pub(super) fn step(&self, base: StateBase, code: u8) -> Option<Transition> {
        // Acquire, because a zero that was read before the position was initialized would look like a transition.
        let entry = PackedTransition(self.steps.get(base.place(code))?.load(Ordering::Acquire));
        entry.is_by(code).then(|| entry.step())
    }

    /// The state that has or had a base.
    pub(super) fn state(&self, base: StateBase) -> u32 {
        match base.0 {
            base if base < NO_TRANSITIONS => {
                truncate_to_u32(u64_to_usize(self.owners[to_usize(base)].load(Ordering::Relaxed)))
            }
            none => none & !NO_TRANSITIONS,
        }
    }

    /// The position of a state's transitions, and the tokens that it excludes.
    pub(super) fn record(&self, state: u32) -> StateRecord {
        let record = self.records[to_usize(state)].load(Ordering::Acquire);
        StateRecord {
            base: StateBase(truncate_to_u32(u64_to_usize(record >> 32))),
            excluded: truncate_to_u32(u64_to_usize(record & u64::from(u32::MAX))),
        }
    }

    /// Replaces the base of the next state in a transition, if it is still the old one.
    pub(super) fn redirect(&self, (base, code): (StateBase, u8), old: StateBase, new: StateBase) {
        if let Some(step) = self.step(base, code).filter(|step| step.next == old) {
            let [old, new] =
                [step, Transition { next: new, ..step }].map(|step| PackedTransition::new(code, step).0);
            // Fails if the position holds another entry by now, which is fine.
            let _ =
                self.steps[base.place(code)].compare_exchange(old, new, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// Copies an entry. Only the thread that holds the lock calls this. Another thread may have just redirected
    /// the entry to a new base, but that base was published under the lock too, so this thread knows of it.
    fn copy(&self, from: usize, to: usize) {
        self.set(to, PackedTransition(self.steps[from].load(Ordering::Relaxed)));
    }

    /// Stores an entry, and publishes everything that was written before.
    fn set(&self, at: usize, entry: PackedTransition) {
        self.steps[at].store(entry.0, Ordering::Release);
    }

    /// Publishes the position of a state.
    fn publish(&self, state: u32, StateRecord { base, excluded }: StateRecord) {
        if base.0 < NO_TRANSITIONS {
            self.owners[to_usize(base.0)].store(state.into(), Ordering::Relaxed);
        }
        let record = u64::from(base.0) << 32 | u64::from(excluded);
        self.records[to_usize(state)].store(record, Ordering::Release);
    }
}

/// Assigns [positions](Transitions) to the transitions of all states, by the [code](super::PrefixTable::codes) of a
/// byte: a double array (Aoe, *An Efficient Digital Search Algorithm by Using a Double-Array Structure*, 1989).
///
/// A state moves when it finds a position taken. Its old entries stay until other states take their positions,
/// for transitions that still lead to the old base. These are [redirected](Transitions::redirect) when a thread misses
/// a transition there.
#[derive(Debug, Default)]
pub(super) struct TransitionPlacer {
    /// The blocks of the transition table, in order.
    blocks: Vec<PositionBlock>,
    /// The codes by which each state has transitions.
    codes: Vec<CodeSet>,
    /// Whether a transition found no position.
    pub(super) full: bool,
}

/// The positions and the bases of a block that are available.
#[derive(Clone, Copy, Debug)]
struct PositionBlock {
    /// Positions that no transition uses.
    free: CodeSet,
    /// Bases that no state has had.
    unused: CodeSet,
}

impl Default for PositionBlock {
    /// A block without used positions.
    fn default() -> PositionBlock {
        let free = CodeSet([u64::MAX; 4]);
        let mut unused = free;
        // This base marks positions that have [no transition](PackedTransition::none).
        unused.remove(0);
        PositionBlock { free, unused }
    }
}

impl PositionBlock {
    /// A base that no state has had, with free positions for these codes.
    fn base_for(&self, codes: CodeSet) -> Option<u8> {
        let mut suiting = self.unused;
        for code in codes.iter() {
            suiting = suiting.and(self.free.xor(code));
            if suiting.is_empty() {
                return None;
            }
        }
        suiting.iter().next()
    }
}

/// For each of the six bits of a bit index: the indices within a word that have this bit clear.
const LOW: [u64; 6] = [
    0x5555_5555_5555_5555,
    0x3333_3333_3333_3333,
    0x0F0F_0F0F_0F0F_0F0F,
    0x00FF_00FF_00FF_00FF,
    0x0000_FFFF_0000_FFFF,
    0x0000_0000_FFFF_FFFF,
];

/// A set of codes, or of positions within a block.
#[derive(Clone, Copy, Debug, Default)]
struct CodeSet([u64; 4]);

impl CodeSet {
    /// Whether a code is in the set.
    fn has(&self, code: u8) -> bool {
        self.0[usize::from(code / 64)] >> (code % 64) & 1 == 1
    }

    /// Adds a code; does nothing if the set has it.
    fn add(&mut self, code: u8) {
        self.0[usize::from(code / 64)] |= 1 << (code % 64);
    }

    /// Removes a code; does nothing if the set does not have it.
    fn remove(&mut self, code: u8) {
        self.0[usize::from(code / 64)] &= !(1 << (code % 64));
    }

    /// Number of codes.
    fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The codes in ascending order.
    fn iter(self) -> impl Iterator<Item = u8> {
        let bits = |word: u64| {
            let rest = |word: u64| Some(word).filter(|&word| word != 0);
            let words = std::iter::successors(rest(word), move |&word| rest(word & (word - 1)));
            words.map(|word| u8::try_from(word.trailing_zeros()).expect("below 64"))
        };
        (0..4).zip(self.0).flat_map(move |(nth, word)| bits(word).map(move |bit| 64 * nth + bit))
    }

    /// Whether the set has no code.
    fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// The codes in both sets.
    fn and(&self, other: CodeSet) -> CodeSet {
        CodeSet(array::from_fn(|nth| self.0[nth] & other.0[nth]))
    }

    /// The codes that are in this set after exclusive-or with `code`.
    fn xor(&self, code: u8) -> CodeSet {
        let mut words: [u64; 4] = array::from_fn(|nth| self.0[nth ^ usize::from(code / 64)]);
        for (nth, low) in LOW.into_iter().enumerate() {
            if code >> nth & 1 == 1 {
                words = words.map(|word| word >> (1 << nth) & low | (word & low) << (1 << nth));
            }
        }
        CodeSet(words)
    }
}

impl TransitionPlacer {
    /// Adds the next state, without any transition.
    pub(super) fn add_state(&mut self, transitions: &Transitions, excluded: u32) {
        let state = truncate_to_u32(self.codes.len());
        self.codes.push(CodeSet::default());
        transitions.publish(state, StateRecord { base: StateBase(NO_TRANSITIONS | state), excluded });
    }

    /// Number of states.
    pub(super) fn states(&self) -> usize {
        self.codes.len()
    }

    /// Adds a transition that is missing. If there is no position for it, it must be computed again each time.
    pub(super) fn put(&mut self, transitions: &Transitions, state: u32, code: u8, step: Transition) {
        let at = transitions.record(state).base.place(code);
        let free = self.blocks.get(at / BLOCK).is_some_and(|block| block.free.has(within_block(at)));
        if free || self.make_room(transitions, state, code) {
            self.codes[to_usize(state)].add(code);
            let at = transitions.record(state).base.place(code);
            transitions.set(at, PackedTransition::new(code, step));
            self.blocks[at / BLOCK].free.remove(within_block(at));
        } else {
            self.full = true;
        }
    }

    /// Moves a state to a base with room for one more code; `false` if there is none.
    fn make_room(&mut self, transitions: &Transitions, state: u32, code: u8) -> bool {
        let (before, codes) = (transitions.record(state), self.codes[to_usize(state)]);
        let mut wanted = codes;
        wanted.add(code);
        let Some(base) = self.base_for(transitions, wanted) else { return false };
        for code in codes.iter() {
            let (from, to) = (before.base.place(code), base.place(code));
            transitions.copy(from, to);
            self.blocks[to / BLOCK].free.remove(within_block(to));
            self.blocks[from / BLOCK].free.add(within_block(from));
        }
        let at = to_usize(base.0);
        self.blocks[at / BLOCK].unused.remove(within_block(at));
        transitions.publish(state, StateRecord { base, ..before });
        true
    }

    /// A base that no state has had, with free positions for these codes.
    fn base_for(&mut self, transitions: &Transitions, codes: CodeSet) -> Option<StateBase> {
        let in_last = self
            .blocks
            .last()
            .filter(|last| last.free.len() > RESERVED)
            .and_then(|last| last.base_for(codes));
        let base = in_last.or_else(|| self.add_block(transitions)?.base_for(codes))?;
        Some(StateBase(truncate_to_u32((self.blocks.len() - 1) * BLOCK) + u32::from(base)))
    }

    /// Adds a block; `None` if all positions are in use.
    fn add_block(&mut self, transitions: &Transitions) -> Option<&PositionBlock> {
        let start = self.blocks.len() * BLOCK;
        if start + BLOCK > MAX {
            return None;
        }
        (start..start + BLOCK).for_each(|at| transitions.set(at, PackedTransition::none(at)));
        self.blocks.push(PositionBlock::default());
        self.blocks.last()
    }
}

/// A position within its block.
fn within_block(at: usize) -> u8 {
    u8::try_from(at % BLOCK).expect("a block has 256 places")
}

/// A set of codes, each exclusive-or another code.
#[cfg(test)]
pub(super) fn exclusive_or(codes: &BTreeSet<u8>, by: u8) -> BTreeSet<u8> {
    let mut set = CodeSet::default();
    codes.iter().for_each(|&code| set.add(code));
    set.xor(by).iter().collect()
}
