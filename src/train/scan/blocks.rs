//! Finds the sites of a batch of rules in blocks of 64 codes, and compacts the text. Has the portable
//! implementation, and selects between it and vector code.

use std::ops::Range;

use super::rules::Rules;
use crate::base::int::{to_usize, truncate_to_u32, u64_to_usize};

/// Codes per block, which are processed together.
pub(super) const LANES: usize = 64;

/// Codes that are scanned before their sites are handled: few enough to be still in the L1 cache.
pub(super) const SPAN: usize = 64 * LANES;

/// Implementation that finds the pairs to merge and compacts the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Portable code, which runs on every processor.
    Portable,
    /// Uses AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Uses AVX-512 with VBMI and VBMI2.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Engine {
    /// The engines that run on this processor, the fastest last.
    pub fn here() -> Vec<Engine> {
        let mut engines = vec![Engine::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            engines.extend(super::avx2::runs_here().then_some(Engine::Avx2));
            engines.extend(super::avx512::runs_here().then_some(Engine::Avx512));
        }
        engines
    }

    /// The fastest engine that runs on this processor.
    pub(super) fn best() -> Engine {
        Engine::here().pop().unwrap_or(Engine::Portable)
    }

    /// Does what the function [`close_gaps`] does for a range of whole blocks, behind which the chunk has more
    /// codes.
    pub(super) fn close_gaps(
        self,
        planes: &mut Planes<'_>,
        from: Range<usize>,
        rules: &Rules,
        sites: &mut Sites,
    ) {
        match self {
            Engine::Portable => close_gaps(planes, from, rules, sites),
            #[cfg(target_arch = "x86_64")]
            Engine::Avx2 => super::avx2::close_gaps(planes, from, rules, sites),
            #[cfg(target_arch = "x86_64")]
            Engine::Avx512 => super::avx512::close_gaps(planes, from, rules, sites),
        }
    }
}

/// The planes of a chunk: low and high bytes of its codes. `high` is empty if all codes have one byte.
pub(super) struct Planes<'a> {
    pub(super) low: &'a mut [u8],
    pub(super) high: &'a mut [u8],
    /// Number of codes written so far.
    pub(super) out: usize,
    /// Whether the next code to read is removed, because it was merged with the one before.
    pub(super) gone: bool,
}

/// Where pairs are to be merged, in ascending order. At each site the text still has the left code, at the
/// position of the new code.
pub(super) struct Sites {
    /// Number of sites in the arrays.
    pub(super) count: usize,
    /// Positions of the left codes after compaction.
    pub(super) places: Box<[u32; SITES]>,
    /// The right codes, which are removed from the text: low bytes, then high bytes.
    pub(super) rights_low: Box<[u8; SITES]>,
    pub(super) rights_high: Box<[u8; SITES]>,
}

/// Capacity: one site that waits from before, those of a span, and slack for vector stores beyond the last one.
const SITES: usize = 1 + SPAN / 2 + LANES;

impl Sites {
    pub(super) fn new() -> Sites {
        Sites {
            count: 0,
            places: Box::new([0; SITES]),
            rights_low: Box::new([0; SITES]),
            rights_high: Box::new([0; SITES]),
        }
    }

    /// Adds the sites of a block: bit n of `merges` is set if lane n begins a pair. The block is written from
    /// `out` on, and `gone` is 1 if its first code is removed. `right` gives the right code of a lane.
    pub(super) fn add(&mut self, mut merges: u64, out: usize, gone: u64, right: impl Fn(usize) -> (u8, u8)) {
        let mut before = u64_to_usize(gone);
        while merges != 0 {
            let lane = to_usize(merges.trailing_zeros());
            // Each earlier merge in the block moves this code forward by one.
            self.places[self.count] = truncate_to_u32(out + lane - before);
            before += 1;
            (self.rights_low[self.count], self.rights_high[self.count]) = right(lane);
            self.count += 1;
            merges &= merges - 1;
        }
    }
}

/// Reads the codes at `from` and writes those that stay at `planes.out`, which is at or before them.
///
/// The left code of a pair to be merged stays and becomes a site; the right code is removed. The code just
/// behind `from` can be a right code. At the end of a chunk the last block may be shorter.
pub(super) fn close_gaps(planes: &mut Planes<'_>, from: Range<usize>, rules: &Rules, sites: &mut Sites) {
    let wide = !planes.high.is_empty();
    for at in from.clone().step_by(LANES) {
        let lanes = LANES.min(from.end - at);
        let low = Block::read(planes.low, at, lanes);
        let high = if wide { Block::read(planes.high, at, lanes) } else { Block::default() };
        let mut merges = if wide { merges_wide(&low, &high, rules) } else { merges_narrow(&low, rules) };
        // A removed code is never a left code, because no code is on both sides of the rules. The mask excludes
        // lanes that only pad the block.
        let pairs = lanes.min(planes.low.len() - at - 1);
        merges &= ones(pairs);
        for &twice in &rules.doubles {
            let [twice_low, twice_high] = twice.to_le_bytes();
            let is = equal(&low.here, twice_low) & equal(&high.here, twice_high) & ones(lanes);
            let then = equal(&low.next, twice_low) & equal(&high.next, twice_high) & ones(pairs);
            merges |= firsts(is & !u64::from(planes.gone)) & then;
        }
        let gone = u64::from(planes.gone);
        let stays = !(merges << 1 | gone) & ones(lanes);
        planes.gone = merges >> (LANES - 1) == 1;
        let start = planes.out;
        sites.add(merges, start, gone, |lane| (low.next[lane], high.next[lane]));
        planes.out = keep(planes.low, start, &low.here, stays, lanes);
        if wide {
            keep(planes.high, start, &high.here, stays, lanes);
        }
    }
}

/// A mask of the lowest `lanes` bits.
fn ones(lanes: usize) -> u64 {
    if lanes == LANES { u64::MAX } else { (1 << lanes) - 1 }
}

/// One byte (low or high) of each code of a block, and of the code after each.
struct Block {
    here: [u8; LANES],
    next: [u8; LANES],
}

impl Default for Block {
    fn default() -> Block {
        Block { here: [0; LANES], next: [0; LANES] }
    }
}

impl Block {
    /// Reads `lanes` codes from index `at` on, and the code after each; the rest is 0.
    fn read(plane: &[u8], at: usize, lanes: usize) -> Block {
        let mut block = Block::default();
        let next = &plane[at + 1..plane.len().min(at + 1 + lanes)];
        block.here[..lanes].copy_from_slice(&plane[at..at + lanes]);
        block.next[..next.len()].copy_from_slice(next);
        block
    }
}

/// Lanes where a rule of two different codes applies, for codes of one byte.
fn merges_narrow(low: &Block, rules: &Rules) -> u64 {
    let mut hits = [0; LANES];
    for rule in rules.list.iter().filter(|rule| rule.left != rule.right) {
        let ([left, _], [right, _]) = (rule.left.to_le_bytes(), rule.right.to_le_bytes());
        for ((hit, &here), &next) in hits.iter_mut().zip(&low.here).zip(&low.next) {
            *hit |= u8::from(here == left) & u8::from(next == right);
        }
    }
    bits(&hits)
}

/// The same for codes of two bytes.
fn merges_wide(low: &Block, high: &Block, rules: &Rules) -> u64 {
    let mut hits = [0; LANES];
    for rule in rules.list.iter().filter(|rule| rule.left != rule.right) {
        let ([left, left_high], [right, right_high]) = (rule.left.to_le_bytes(), rule.right.to_le_bytes());
        for (lane, hit) in hits.iter_mut().enumerate() {
            *hit |= u8::from(low.here[lane] == left)
                & u8::from(low.next[lane] == right)
                & u8::from(high.here[lane] == left_high)
                & u8::from(high.next[lane] == right_high);
        }
    }
    bits(&hits)
}

/// Lanes that have this byte.
fn equal(bytes: &[u8; LANES], wanted: u8) -> u64 {
    bits(&bytes.map(|byte| u8::from(byte == wanted)))
}

/// Packs bytes that are 0 or 1 into bits.
fn bits(bytes: &[u8; LANES]) -> u64 {
    // The product moves bit 8n of the eight bytes to bit 56 + n.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (eights, _) = bytes.as_chunks::<8>();
    eights
        .iter()
        .rev()
        .fold(0, |bits, &eight| bits << 8 | u64::from_le_bytes(eight).wrapping_mul(GATHER) >> 56)
}

/// In each run of ones: the first, third, fifth … one.
///
/// For a pair of equal tokens, these are the places in each run of the token at which merges begin, except at
/// the last token of an odd run. For example, `0b111_0110` gives `0b101_0010`.
pub(super) fn firsts(runs: u64) -> u64 {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    let starts = runs & !(runs << 1);
    // Adding its start to a run clears the run and sets the bit behind it.
    let from_even = runs & !runs.wrapping_add(starts & EVEN);
    (from_even & EVEN) | (runs & !from_even & !EVEN)
}

/// Writes the codes that stay, and returns the position behind them.
fn keep(plane: &mut [u8], start: usize, block: &[u8; LANES], stays: u64, lanes: usize) -> usize {
    if stays == u64::MAX {
        plane[start..start + LANES].copy_from_slice(block);
        return start + LANES;
    }
    let mut out = start;
    let (eights, _) = block.as_chunks::<8>();
    for (eight, stays) in eights.iter().zip(stays.to_le_bytes()).take(lanes.div_ceil(8)) {
        if stays == u8::MAX {
            plane[out..out + 8].copy_from_slice(eight);
            out += 8;
            continue;
        }
        for (lane, &byte) in eight.iter().enumerate() {
            if stays >> lane & 1 == 1 {
                plane[out] = byte;
                out += 1;
            }
        }
    }
    out
}
