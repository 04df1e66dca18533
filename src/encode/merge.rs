use super::long;
use super::pairs::{Pairs, Step, Table};
use crate::error::Result;
use crate::observer::Observer;
use crate::units::{TokenId, low32, place};

/// Parts up to this length are merged by looking for the lowest rank again after each merge: that is
/// quadratic, but beats a heap while all ranks lie in a few cache lines.
pub(super) const SHORT: usize = 64;

/// Where parts are short the observer is asked whether to stop after so many bytes.
const BYTES_A_CHECK: usize = 1 << 18;

/// The scratch memory of merging, reused from piece to piece.
///
/// **Memory:** see [`long::Scratch`].
#[derive(Debug, Default)]
pub(super) struct Merger {
    long: long::Scratch,
}

impl Merger {
    /// Appends the tokens of a piece to `ids`.
    ///
    /// # Errors
    /// The observer wants to stop, which it is asked in long pieces.
    pub(super) fn merge(
        &mut self,
        pairs: &Pairs,
        byte_ids: &[TokenId; 256],
        piece: &[u8],
        ids: &mut Vec<TokenId>,
        observer: &dyn Observer,
    ) -> Result<()> {
        let (mut start, mut check) = (0, BYTES_A_CHECK);
        while start < piece.len() {
            if start >= check {
                observer.checkpoint()?;
                check = start + BYTES_A_CHECK;
            }
            let end = pairs.part_end(piece, start);
            let part = &piece[start..end];
            match part {
                [byte] => ids.push(byte_ids[usize::from(*byte)]),
                _ if part.len() <= SHORT => short(pairs, byte_ids, part, ids),
                _ => self.long.merge(pairs, byte_ids, part, ids, observer)?,
            }
            start = end;
        }
        Ok(())
    }
}

fn short(pairs: &Pairs, byte_ids: &[TokenId; 256], part: &[u8], ids: &mut Vec<TokenId>) {
    let mut few = Few::<SHORT>::default();
    for byte in part {
        few.push(byte_ids[usize::from(*byte)]);
    }
    for (step, two) in few.steps.iter_mut().zip(part.array_windows()) {
        *step = pairs.find_bytes(*two);
    }
    ids.extend(few.merged(&pairs.table));
}

/// A few tokens that are to be merged, at most `N` of them and [`SHORT`].
#[derive(Debug)]
pub(super) struct Few<const N: usize> {
    tokens: [u32; N],
    /// What merging each with the next means; the last has nothing to its right, as those have that were merged.
    steps: [Step; N],
    length: usize,
}

impl<const N: usize> Default for Few<N> {
    fn default() -> Few<N> {
        const { assert!(N <= SHORT) };
        Few { tokens: [0; N], steps: [Step::NONE; N], length: 0 }
    }
}

impl<const N: usize> Few<N> {
    /// Some tokens, given what merging any two of them means.
    #[inline]
    pub(super) fn new(tokens: impl Iterator<Item = TokenId>, table: &Table) -> Few<N> {
        let mut few = Few::default();
        tokens.for_each(|token| few.push(token));
        for at in 1..few.length {
            few.steps[at - 1] = table.find(few.tokens[at - 1], few.tokens[at]);
        }
        few
    }

    #[inline(always)]
    fn push(&mut self, token: TokenId) {
        self.tokens[self.length] = token.get();
        self.length += 1;
    }

    /// What becomes of them.
    #[inline]
    pub(super) fn merged(mut self, table: &Table) -> impl Iterator<Item = TokenId> {
        // A bit for each place where a token stands.
        let mut there = u64::MAX.checked_shr(64 - low32(self.length)).unwrap_or_default();
        while let Some(at) = lowest(&self.steps[..self.length]) {
            let after = |there: u64| first(there & u64::MAX << at << 1);
            if let Some(merged) = after(there) {
                there ^= 1 << merged;
                self.steps[merged] = Step::NONE;
            }
            self.tokens[at] = self.steps[at].result;
            self.steps[at] =
                after(there).map_or(Step::NONE, |right| table.find(self.tokens[at], self.tokens[right]));
            let before = there & ((1 << at) - 1);
            if let Some(left) = before.checked_ilog2().map(place) {
                self.steps[left] = table.find(self.tokens[left], self.tokens[at]);
            }
        }
        std::iter::from_fn(move || {
            let at = first(there)?;
            there &= there - 1;
            Some(TokenId::new(self.tokens[at]))
        })
    }
}

/// The lowest of some bits that is set.
#[inline(always)]
fn first(bits: u64) -> Option<usize> {
    (bits != 0).then(|| place(bits.trailing_zeros()))
}

/// Where the lowest rank stands, the leftmost of equals.
#[inline(always)]
fn lowest(steps: &[Step]) -> Option<usize> {
    let (at, step) = steps.iter().enumerate().min_by_key(|(_, step)| step.rank)?;
    (!step.is_none()).then_some(at)
}
