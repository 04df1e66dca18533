//! The loop over the blocks of a text, shared by all patterns and all instruction sets.

use super::masks::{BLOCK, Masks, Planes, SEEN};

/// A block to split, and its surroundings.
pub(super) struct View<'a, const P: usize> {
    /// The whole text.
    pub(super) text: &'a [u8],
    /// Offset of the block in the text.
    pub(super) at: usize,
    /// The masks of the block.
    pub(super) here: &'a Masks<P>,
    /// The masks of the next block. After the end of the text, they are those of [`Rule::BEHIND`].
    pub(super) next: &'a Masks<P>,
}

impl<const P: usize> View<'_, P> {
    /// Returns a plane of this block and of the next one.
    #[inline(always)] // Part of each rule's loop.
    pub(super) fn plane(&self, number: usize) -> [u64; 2] {
        [self.here.planes[number], self.next.planes[number]]
    }
}

/// A pattern as arithmetic on masks. The implementing type keeps the state that later blocks need.
pub(super) trait Rule<const P: usize> {
    /// The white-space byte that virtually follows the text without end. The pattern must split before it as it
    /// splits at the end of a text.
    const BEHIND: u8 = b' ';

    /// Returns the pre-token starts of a block as a mask. `None` if masks cannot decide; the results for earlier
    /// blocks are valid all the same. Blocks must come in order.
    fn starts(&mut self, view: &View<'_, P>) -> Option<u64>;
}

/// Splits a text block by block. A pre-token must start at the start of the text.
///
/// `masks` classifies each block and `rule` splits it. `take` gets the offset of the block and the mask of its
/// pre-token starts, without the start of the text; each start is also the end of the previous pre-token. Returns the
/// length of the text, or the offset of the block that the rule cannot decide.
#[inline(always)] // Compiled into callers that enable more CPU features.
pub(super) fn drive<const P: usize, R: Rule<P>>(
    text: &[u8],
    planes: &Planes<P>,
    mut rule: R,
    mut masks: impl FnMut(&[u8; SEEN]) -> Masks<P>,
    mut take: impl FnMut(usize, u64),
) -> usize {
    let behind = Masks::white(planes, R::BEHIND);
    let mut read = |at: usize| {
        let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) else { return behind };
        let ending;
        let bytes = match rest.first_chunk() {
            Some(bytes) => bytes,
            None => {
                ending = padded(rest, R::BEHIND);
                &ending
            }
        };
        masks(bytes)
    };
    let (mut at, mut here, mut wanted) = (0, read(0), !1);
    while at < text.len() {
        let next = read(at + BLOCK);
        let view = View { text, at, here: &here, next: &next };
        let Some(starts) = rule.starts(&view) else { return at };
        let left = text.len() - at;
        if left < BLOCK {
            wanted &= (1 << left) - 1;
        }
        take(at, starts & wanted);
        (at, here, wanted) = (at + BLOCK, next, !0);
    }
    text.len()
}

/// Returns the last bytes of a text, filled up with [`Rule::BEHIND`]. It is a function of its own because the loop
/// would otherwise clear this buffer for every block.
#[cold]
#[inline(never)]
fn padded(rest: &[u8], behind: u8) -> [u8; SEEN] {
    let mut bytes = [behind; SEEN];
    bytes[..rest.len()].copy_from_slice(rest);
    bytes
}
