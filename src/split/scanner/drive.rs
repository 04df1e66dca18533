use super::masks::{BLOCK, Masks, Planes, SEEN};

/// A block that is cut, and what may matter of its surroundings.
pub(super) struct View<'a, const P: usize> {
    /// All of the text.
    pub(super) text: &'a [u8],
    /// Where the block begins.
    pub(super) at: usize,
    pub(super) here: &'a Masks<P>,
    pub(super) next: &'a Masks<P>,
}

impl<const P: usize> View<'_, P> {
    /// A plane, here and in the next block.
    #[inline(always)] // Part of each rule's loop.
    pub(super) fn plane(&self, number: usize) -> [u64; 2] {
        [self.here.planes[number], self.next.planes[number]]
    }
}

/// A pattern as algebra of masks, with what it must remember of the blocks before.
pub(super) trait Rule<const P: usize> {
    /// The white space that stands behind the end of a text, for ever: what this pattern does there is
    /// what it does at the end.
    const BEHIND: u8 = b' ';

    /// Where pieces begin in a block. `None` where masks cannot tell; what was told before is then
    /// right all the same.
    fn starts(&mut self, view: &View<'_, P>) -> Option<u64>;
}

/// Takes a text block by block, at whose start a piece begins: lets `masks` classify and `rule` cut, and
/// gives `take` the place of each block and where in it pieces begin, the text's first aside. Gives how
/// far it came: to the end, or to the block where the rule cannot tell.
#[inline(always)] // The callers have more instructions at hand.
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

/// The last bytes of a text and what stands behind them. Apart, since the loop would else clear room for it
/// in every block.
#[cold]
#[inline(never)]
fn padded(rest: &[u8], behind: u8) -> [u8; SEEN] {
    let mut bytes = [behind; SEEN];
    bytes[..rest.len()].copy_from_slice(rest);
    bytes
}
