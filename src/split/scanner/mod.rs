//! Splits by the named patterns without a regular expression.
//!
//! The scanner works in blocks of 64 bytes:
//!
//! 1. It turns a block into 64-bit masks, one per set of character classes, with one bit per byte. `avx512`, `avx2`
//!    and `portable` do this with the instructions of the CPU.
//! 2. The [rule](rules::BlockRule) of the pattern computes a mask of the pre-token starts by arithmetic on these
//!    64-bit numbers. It is the same for all CPUs.
//! 3. Where the masks of a block cannot decide, [`ScalarScanner`] splits character by character for a while.

mod masks;
mod rules;
mod portable;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;

use std::ops::RangeInclusive;

use masks::BLOCK;
use rules::{BlockRule, DeepSeek, DigitsFromLeft, DigitsFromRight, Gpt2, Gpt4, O200k};
use scalar::ScalarScanner;

use super::named::NamedPattern;
use super::{Splitter, length32};
use crate::base::int::to_usize;
use crate::error::Result;
use crate::observer::Observer;

/// The instruction set that a scanner uses. It changes the speed, never the pre-tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instructions {
    /// AVX-512 with VBMI and VBMI2.
    Avx512,
    /// AVX2.
    Avx2,
    /// 64-bit arithmetic that every CPU has.
    Portable,
    /// Character by character, without masks.
    Scalar,
}

impl Instructions {
    /// All instruction sets, the fastest first.
    pub const ALL: [Instructions; 4] =
        [Instructions::Avx512, Instructions::Avx2, Instructions::Portable, Instructions::Scalar];

    /// Returns the fastest instruction set that this CPU has.
    pub fn best() -> Instructions {
        Instructions::ALL
            .into_iter()
            .find(|instructions| instructions.are_supported())
            .unwrap_or(Instructions::Scalar)
    }

    /// Returns the name for people.
    pub fn name(self) -> &'static str {
        match self {
            Instructions::Avx512 => "AVX-512",
            Instructions::Avx2 => "AVX2",
            Instructions::Portable => "portable",
            Instructions::Scalar => "scalar",
        }
    }

    /// Returns whether this CPU has the instructions.
    pub fn are_supported(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => avx512::is_supported(),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => avx2::is_supported(),
            #[cfg(not(target_arch = "x86_64"))]
            Instructions::Avx512 | Instructions::Avx2 => false,
            Instructions::Portable | Instructions::Scalar => true,
        }
    }
}

/// Splits by a named pattern, in time linear in the length of any text.
pub(super) struct Scanner {
    pattern: NamedPattern,
    instructions: Instructions,
    scalar: ScalarScanner,
}

/// Bytes to split character by character before masks are tried again: the initial number, and the largest, to which
/// it doubles.
const SCALAR_BYTES: [usize; 2] = [BLOCK, 16 * BLOCK];

impl Scanner {
    /// Creates the scanner of a pattern. The instructions are not checked here.
    pub(super) fn new(pattern: NamedPattern, instructions: Instructions) -> Scanner {
        Scanner { pattern, instructions, scalar: ScalarScanner::new(pattern) }
    }

    /// Appends the ends of the pre-tokens from `from` on, as far as masks can decide. A pre-token must start at
    /// `from`.
    ///
    /// Returns the end of the text, or the start of the first block that masks cannot decide. The end of the last
    /// pre-token, the end of the text, is not appended.
    fn blocks(&self, text: &[u8], from: usize, ends: &mut Vec<u32>) -> usize {
        match self.pattern {
            NamedPattern::Gpt2 => self.run::<3, Gpt2>(text, from, ends),
            NamedPattern::Gpt4 => self.run::<3, Gpt4<DigitsFromLeft<3>, false>>(text, from, ends),
            NamedPattern::Cl100k => self.run::<3, Gpt4<DigitsFromLeft<3>, true>>(text, from, ends),
            NamedPattern::Nanochat => self.run::<3, Gpt4<DigitsFromLeft<2>, false>>(text, from, ends),
            NamedPattern::Qwen2 => self.run::<3, Gpt4<DigitsFromLeft<1>, false>>(text, from, ends),
            NamedPattern::Gpt4DigitsRtl => self.run::<3, Gpt4<DigitsFromRight, false>>(text, from, ends),
            NamedPattern::O200k => self.run::<6, O200k<DigitsFromLeft<3>>>(text, from, ends),
            NamedPattern::O200kDigitsRtl => self.run::<6, O200k<DigitsFromRight>>(text, from, ends),
            NamedPattern::O200kDigit => self.run::<6, O200k<DigitsFromLeft<1>>>(text, from, ends),
            NamedPattern::DeepSeekV3 => self.run::<5, DeepSeek>(text, from, ends),
            // Its pre-tokens are long, so character by character is fast enough.
            NamedPattern::Superword => from,
        }
    }

    /// Does the work of [`blocks`](Scanner::blocks) by a rule, with the instructions of this scanner.
    fn run<const P: usize, R: BlockRule<P>>(&self, text: &[u8], from: usize, ends: &mut Vec<u32>) -> usize {
        let rest = &text[from..];
        from + match self.instructions {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => avx512::run::<P, R>(rest, from, ends),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => avx2::run::<P, R>(rest, from, ends),
            #[cfg(not(target_arch = "x86_64"))]
            Instructions::Avx512 | Instructions::Avx2 => portable::run::<P, R>(rest, from, ends),
            Instructions::Portable => portable::run::<P, R>(rest, from, ends),
            Instructions::Scalar => 0,
        }
    }
}

impl Splitter for Scanner {
    fn pretoken_ends_observed(&self, text: &[u8], ends: &mut Vec<u32>, _: &dyn Observer) -> Result<()> {
        let length = length32(text)?;
        let (mut from, mut most) = (0, SCALAR_BYTES[0]);
        while from < text.len() {
            let known = ends.len();
            let stop = self.blocks(text, from, ends);
            if stop == text.len() {
                ends.push(length);
                break;
            }
            // If masks stop again soon, twice as many bytes go without them: trying them costs more than it saves.
            let soon = stop < from + 4 * most;
            most = if soon { SCALAR_BYTES[1].min(2 * most) } else { SCALAR_BYTES[0] };
            from = if ends.len() > known { ends.last().copied().map_or(from, to_usize) } else { from };
            while from < text.len() && from < stop + most {
                from = self.scalar.next_ends(text, from, ends);
            }
        }
        Ok(())
    }

    fn safe_split_point(&self, text: &[u8], range: RangeInclusive<usize>) -> Option<usize> {
        self.scalar.safe_split_point(text, range)
    }
}
