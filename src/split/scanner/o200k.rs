use super::bits::{Marks, after, ahead, places, runs};
use super::digits::Digits;
use super::drive::{Rule, View};
use super::walk::contraction;
use super::white::Lines;

/// GPT-4o's pattern.
///
/// A word starts where letters start, at a capital after small letters, and after a contraction. Letters without case
/// and marks continue both capitals and small letters. A mark at the start of a word can belong to signs before it;
/// the walk decides that.
#[derive(Default)]
pub(super) struct O200k {
    // The last bits of these masks in the previous block.
    word: u64,
    blank: u64,
    sign: u64,
    space: u64,
    newline: u64,
    lines: Lines,
    digits: Digits,
    /// 1 if newlines and slashes that belong to signs may continue in the next block.
    taken: u64,
    /// 1 if a sequence of signs starts at the last byte of the previous block.
    alone: u64,
    /// 1 if the continuation bytes of the first sign of a sequence reach the end of the previous block.
    alone_inner: u64,
    lower: u64,
    uncased: u64,
    /// 1 if the letters without case after a small letter may continue in the next block.
    uncased_small: u64,
    small: u64,
    /// The last letters of contractions, and the positions after contractions.
    inner: Marks,
    behind: Marks,
}

impl Rule<6> for O200k {
    #[inline(always)] // Compiled for each CPU.
    fn starts(&mut self, view: &View<'_, 6>) -> Option<u64> {
        let [upper, lower, uncased, mark, number, white] = view.here.planes;
        let uncased = uncased | mark;
        let word = upper | lower | uncased;
        let after_word = after(word, &mut self.word);
        if mark & !after_word != 0 {
            return None;
        }
        let newline = view.here.newline;
        let sign = !(word | number | white);
        let taken = self.take_lines(view, sign);
        let sign = sign & !taken.0;
        let mut signs = sign & !after(sign, &mut self.sign) & !after(view.here.space, &mut self.space);
        let lines = self.lines.starts(view, white, view.plane(5), taken)?;

        let alone = after(signs, &mut self.alone);
        let (_, after_alone) = runs(sign & !view.here.start, alone, &mut self.alone_inner);
        let after_blank = after(white & !newline, &mut self.blank);
        let words = word & !after_word & !after_blank & !after_alone;

        signs &= !self.contractions(view, after_word)?;
        let capitals = self.capitals(view, upper, lower, uncased)? & !self.inner.take();
        let digits = self.digits.starts::<3, 6>(view.here, number);
        Some(words | capitals | signs | lines | digits | word & self.behind.take())
    }
}

impl O200k {
    /// `[\r\n/]*` after signs: returns the bytes that it matches, and the positions after them. Slashes are signs
    /// themselves, so the match starts with a newline.
    #[inline(always)] // Part of the rule's loop.
    fn take_lines(&mut self, view: &View<'_, 6>, sign: u64) -> (u64, u64) {
        let newline = view.here.newline;
        let first = newline & (sign << 1 | self.sign);
        let after_newline = after(newline, &mut self.newline) | self.taken;
        if view.here.slash & after_newline == 0 {
            return runs(newline, first, &mut self.taken);
        }
        let (mut taken, mut behind) = (0, 0);
        let mut starts = first | self.taken;
        self.taken = 0;
        while starts != 0 {
            let start = starts.trailing_zeros();
            let length = ((newline | view.here.slash) >> start).trailing_ones();
            let end = start + length;
            if end >= 64 {
                taken |= !0 << start;
                self.taken = 1;
                break;
            }
            taken |= ((1 << length) - 1) << start;
            behind |= 1 << end;
            starts &= !0 << end;
            // The byte after a run starts none.
            starts &= !(1 << end);
        }
        (taken, behind)
    }

    /// Marks the positions after the contractions that belong to the word before them, and returns their apostrophes.
    /// Returns `None` if masks cannot decide.
    #[inline(always)] // Part of the rule's loop.
    fn contractions(&mut self, view: &View<'_, 6>, after_word: u64) -> Option<u64> {
        let [upper, lower, uncased, mark] = [0, 1, 2, 3].map(|plane| view.plane(plane));
        let letters = [0, 1].map(|block| upper[block] | lower[block] | uncased[block]);
        let caseless = [0, 1].map(|block| uncased[block] | mark[block]);
        let mut within = 0;
        for quote in places(view.here.quote & after_word & ahead(letters, 1)) {
            // This apostrophe follows a contraction, so it starts a pre-token, as the character before a word.
            if self.behind.is_marked(quote) {
                continue;
            }
            if let Some(end) = contraction(view.text, view.at + quote, true) {
                let end = end - view.at;
                // If a letter without case follows, `capitals` would also depend on letters before the contraction.
                if caseless[end / 64] >> (end % 64) & 1 != 0 {
                    return None;
                }
                within |= 1 << quote;
                // In "'lL" a capital follows a small letter but starts no word.
                self.inner.mark(end - 1);
                self.behind.mark(end);
            }
        }
        Some(within)
    }

    /// Returns the capitals that start a word within letters. Returns `None` if masks cannot decide.
    #[inline(always)] // Part of the rule's loop.
    fn capitals(&mut self, view: &View<'_, 6>, upper: u64, lower: u64, uncased: u64) -> Option<u64> {
        let small = uncased & after(lower, &mut self.lower);
        let (uncased_small, _) = runs(uncased, small, &mut self.uncased_small);
        let after_small = after(lower | uncased_small, &mut self.small);
        let capitals = upper & after_small;
        // A run of capitals after letters without case is a word of its own if it ends the letters. This holds only
        // if no small letter precedes the letters without case.
        let mut last = upper & after(uncased, &mut self.uncased) & !after_small;
        for first in places(last) {
            let run = (upper >> first).trailing_ones();
            let mut end = first + usize::try_from(run).expect("at most 64");
            if end == 64 {
                end += usize::try_from(view.next.planes[0].trailing_ones()).expect("at most 64");
            }
            let block = match end / 64 {
                0 => view.here,
                1 => view.next,
                _ => return None,
            };
            let goes_on = [1, 2, 3].iter().any(|plane| block.planes[*plane] >> (end % 64) & 1 != 0);
            if goes_on {
                last &= !(1 << first);
            }
        }
        Some(capitals | last)
    }
}
