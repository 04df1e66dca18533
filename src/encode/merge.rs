use super::long;
use super::pairs::{Pairs, Step};
use crate::base::int::TokenId;
use crate::error::Result;
use crate::observer::Observer;

/// Longest part, in bytes, that is merged by searching for the lowest rank again after each merge. This is
/// quadratic, but faster than a heap while all ranks fit in a few cache lines.
const SHORT: usize = 64;

/// Bytes between two checks of the observer in pre-tokens that consist of short parts.
const BYTES_A_CHECK: usize = 1 << 18;

/// Encodes pre-tokens by merging. Its scratch memory is reused from one pre-token to the next.
///
/// **Memory:** that of [`long::Scratch`].
#[derive(Debug, Default)]
pub(super) struct Merger {
    long: long::Scratch,
}

impl Merger {
    /// Appends the tokens of a pre-token to `ids`. `byte_ids` gives the token of each byte value.
    ///
    /// # Errors
    /// The observer asks to stop. It is asked only within long pre-tokens.
    pub(super) fn merge(
        &mut self,
        pairs: &Pairs,
        byte_ids: &[TokenId; 256],
        pretoken: &[u8],
        ids: &mut Vec<TokenId>,
        observer: &dyn Observer,
    ) -> Result<()> {
        let (mut start, mut check) = (0, BYTES_A_CHECK);
        while start < pretoken.len() {
            if start >= check {
                observer.checkpoint()?;
                check = start + BYTES_A_CHECK;
            }
            let end = pairs.part_end(pretoken, start);
            let part = &pretoken[start..end];
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

/// Merges a part of 2 to [`SHORT`] bytes.
fn short(pairs: &Pairs, byte_ids: &[TokenId; 256], part: &[u8], ids: &mut Vec<TokenId>) {
    let mut tokens = [0; SHORT];
    // `steps[i]` is the merge of tokens i and i + 1; the last token has none.
    let mut steps = [Step::NONE; SHORT];
    for (token, byte) in tokens.iter_mut().zip(part) {
        *token = byte_ids[usize::from(*byte)].get();
    }
    for (step, two) in steps.iter_mut().zip(part.array_windows()) {
        *step = pairs.find_bytes(*two);
    }
    let mut len = part.len();
    while let Some(at) = lowest(&steps[..len]) {
        tokens[at] = steps[at].result;
        tokens.copy_within(at + 2..len, at + 1);
        steps.copy_within(at + 1..len, at);
        len -= 1;
        steps[at] = if at + 1 < len { pairs.find(tokens[at], tokens[at + 1]) } else { Step::NONE };
        if at > 0 {
            steps[at - 1] = pairs.find(tokens[at - 1], tokens[at]);
        }
    }
    ids.extend(tokens[..len].iter().copied().map(TokenId::new));
}

/// Position of the lowest rank, the leftmost if several are equal; `None` if no pair merges.
fn lowest(steps: &[Step]) -> Option<usize> {
    let (at, step) = steps.iter().enumerate().min_by_key(|(_, step)| step.rank)?;
    (!step.is_none()).then_some(at)
}
