use std::ops::Range;

use super::rules::Rules;
use crate::units::{low32, place, place64};

/// Codes that are looked at together.
pub(super) const LANES: usize = 64;

/// Codes after which the sites found are dealt with, while they are in the nearest cache.
pub(super) const SPAN: usize = 64 * LANES;

/// What finds the places to merge, and closes the gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Runs everywhere.
    Portable,
    /// Needs AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Needs AVX-512 with VBMI and VBMI2.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Engine {
    /// Those that run on this processor, the fastest last.
    pub fn here() -> Vec<Engine> {
        let mut engines = vec![Engine::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            engines.extend(super::avx2::runs_here().then_some(Engine::Avx2));
            engines.extend(super::avx512::runs_here().then_some(Engine::Avx512));
        }
        engines
    }

    /// The fastest that runs on this processor.
    pub(super) fn best() -> Engine {
        Engine::here().pop().unwrap_or(Engine::Portable)
    }

    /// Closes the gaps of whole blocks, with those behind `from.end` still to come.
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

/// A chunk's low and high bytes; no high ones where all codes have one byte.
pub(super) struct Planes<'a> {
    pub(super) low: &'a mut [u8],
    pub(super) high: &'a mut [u8],
    /// Codes written.
    pub(super) out: usize,
    /// Whether the next code to be read has been merged already.
    pub(super) gone: bool,
}

/// Where pairs are to be merged, in ascending order: the left codes stand where the new ones will stand.
pub(super) struct Sites {
    pub(super) count: usize,
    /// The places of the left codes after the gaps have been closed.
    pub(super) places: Box<[u32; SITES]>,
    /// The right codes, which are gone from the text.
    pub(super) rights_low: Box<[u8; SITES]>,
    pub(super) rights_high: Box<[u8; SITES]>,
}

/// One from before, those of a span, and what is written beyond the last for the sake of whole blocks.
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

    /// Adds those of a block, whose codes are written from `out` on and whose first one may be gone.
    pub(super) fn add(&mut self, mut merges: u64, out: usize, gone: u64, right: impl Fn(usize) -> (u8, u8)) {
        let mut before = place64(gone);
        while merges != 0 {
            let lane = place(merges.trailing_zeros());
            // There is one code less for each that was merged before.
            self.places[self.count] = low32(out + lane - before);
            before += 1;
            (self.rights_low[self.count], self.rights_high[self.count]) = right(lane);
            self.count += 1;
            merges &= merges - 1;
        }
    }
}

/// Reads the codes at `from` and writes those that stay at `planes.out`, which is at or before them.
///
/// The left code of a pair to be merged stays as it is and becomes a site; the right one goes. A code just
/// behind `from` takes part as a right one. The codes at the end of the chunk may be fewer than a block.
pub(super) fn close_gaps(planes: &mut Planes<'_>, from: Range<usize>, rules: &Rules, sites: &mut Sites) {
    let wide = !planes.high.is_empty();
    for at in from.clone().step_by(LANES) {
        let lanes = LANES.min(from.end - at);
        let low = Block::read(planes.low, at, lanes);
        let high = if wide { Block::read(planes.high, at, lanes) } else { Block::default() };
        let mut merges = if wide { merges_wide(&low, &high, rules) } else { merges_narrow(&low, rules) };
        // A code that is gone is no left one, and what only fills a block up is no code.
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

/// The lowest so many bits.
fn ones(lanes: usize) -> u64 {
    if lanes == LANES { u64::MAX } else { (1 << lanes) - 1 }
}

/// One byte of each code of a block, and of each code after one.
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
    fn read(plane: &[u8], at: usize, lanes: usize) -> Block {
        let mut block = Block::default();
        let next = &plane[at + 1..plane.len().min(at + 1 + lanes)];
        block.here[..lanes].copy_from_slice(&plane[at..at + lanes]);
        block.next[..next.len()].copy_from_slice(next);
        block
    }
}

/// Where a rule of two different codes applies.
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

fn equal(bytes: &[u8; LANES], wanted: u8) -> u64 {
    bits(&bytes.map(|byte| u8::from(byte == wanted)))
}

/// Bytes that are 0 or 1 as bits.
fn bits(bytes: &[u8; LANES]) -> u64 {
    // The product moves bit 8 n of the eight bytes to bit 56 + n.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (eights, _) = bytes.as_chunks::<8>();
    eights
        .iter()
        .rev()
        .fold(0, |bits, &eight| bits << 8 | u64::from_le_bytes(eight).wrapping_mul(GATHER) >> 56)
}

/// Of each run of ones the first, third, fifth …
pub(super) fn firsts(runs: u64) -> u64 {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    let starts = runs & !(runs << 1);
    // Adding its start to a run clears it and sets the bit behind it.
    let from_even = runs & !runs.wrapping_add(starts & EVEN);
    (from_even & EVEN) | (runs & !from_even & !EVEN)
}

/// Writes the codes that stay and gives the place behind them.
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
