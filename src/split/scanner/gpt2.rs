use super::bits::{Marks, after, ahead, places};
use super::drive::{Rule, View};
use super::walk::contraction;
use super::white::last_white;

/// `'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
///
/// A pre-token starts where the class changes. A space belongs to the text after it, and the last character of white
/// space always starts a pre-token.
#[derive(Default)]
pub(super) struct Gpt2 {
    // The last bits of these masks in the previous block.
    letter: u64,
    number: u64,
    white: u64,
    sign: u64,
    space: u64,
    /// The first letters of contractions, and the positions after contractions.
    inner: Marks,
    behind: Marks,
}

impl Rule<3> for Gpt2 {
    #[inline(always)] // Compiled for each CPU.
    fn starts(&mut self, view: &View<'_, 3>) -> Option<u64> {
        let [letter, number, white] = view.here.planes;
        let sign = !(letter | number | white);
        let after_space = after(view.here.space, &mut self.space);
        let signs = sign & !after(sign, &mut self.sign) & !after_space;
        let words = letter & !after(letter, &mut self.letter) | number & !after(number, &mut self.number);
        let whites = white & !after(white, &mut self.white);
        for quote in places(view.here.quote & signs & ahead(view.plane(0), 1)) {
            if let Some(end) = contraction(view.text, view.at + quote, false) {
                self.inner.mark(quote + 1);
                self.behind.mark(end - view.at);
            }
        }
        let words = words & !self.inner.take() & !after_space | letter & self.behind.take();
        Some(words | signs | whites | last_white(view, white, view.plane(2)))
    }
}
