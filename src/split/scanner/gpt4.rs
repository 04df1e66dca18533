use super::bits::{Marks, after, ahead, places, runs};
use super::digits::Digits;
use super::drive::{Rule, View};
use super::walk::contraction;
use super::white::Lines;

/// GPT-4's pattern with groups of at most `DIGITS` digits. With `WHOLE_TAIL` it is cl100k's.
#[derive(Default)]
pub(super) struct Gpt4<const DIGITS: u32, const WHOLE_TAIL: bool> {
    // The last bits of these masks in the previous block.
    letter: u64,
    blank: u64,
    sign: u64,
    space: u64,
    /// 1 if newlines that belong to signs may continue in the next block.
    taken: u64,
    lines: Lines,
    digits: Digits,
    /// 1 if a sequence of signs starts at the last byte of the previous block.
    alone: u64,
    /// 1 if the continuation bytes of the first sign of a sequence reach the end of the previous block.
    alone_inner: u64,
    /// The positions after contractions.
    behind: Marks,
}

impl<const DIGITS: u32, const WHOLE_TAIL: bool> Rule<3> for Gpt4<DIGITS, WHOLE_TAIL> {
    const BEHIND: u8 = if WHOLE_TAIL { b'\n' } else { b' ' };

    #[inline(always)] // Compiled for each CPU.
    fn starts(&mut self, view: &View<'_, 3>) -> Option<u64> {
        let [letter, number, white] = view.here.planes;
        let sign = !(letter | number | white);
        let after_sign = after(sign, &mut self.sign);
        let signs = sign & !after_sign & !after(view.here.space, &mut self.space);
        let newline = view.here.newline;
        let taken = runs(newline, newline & after_sign, &mut self.taken);
        let lines = self.lines.starts(view, white, view.plane(2), taken)?;

        // A single sign, or a single blank, belongs to the letters after it.
        let alone = after(signs, &mut self.alone);
        let (_, after_alone) = runs(sign & !view.here.start, alone, &mut self.alone_inner);
        let after_blank = after(white & !newline, &mut self.blank);
        let words = letter & !after(letter, &mut self.letter) & !after_blank & !after_alone;

        for quote in places(view.here.quote & signs & ahead(view.plane(0), 1)) {
            if let Some(end) = contraction(view.text, view.at + quote, true) {
                self.behind.mark(end - view.at);
            }
        }
        let digits = self.digits.starts::<DIGITS, 3>(view.here, number);
        Some(words | signs | lines | digits | letter & self.behind.take())
    }
}
