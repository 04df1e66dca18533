use super::bits::{after, runs};
use super::digits::Digits;
use super::drive::{Rule, View};
use super::white::Lines;

/// DeepSeek V3's pattern.
///
/// Numbers, Chinese and Japanese, and the rest are separate: no pre-token has characters of two of them. Blocks with
/// a character that is neither a word character, sign, number nor white space are rare; the walk splits them.
#[derive(Default)]
pub(super) struct DeepSeek {
    // The last bits of these masks in the previous block.
    word: u64,
    blank: u64,
    sign: u64,
    plain_sign: u64,
    space: u64,
    han: u64,
    lines: Lines,
    digits: Digits,
    /// 1 if newlines that belong to signs may continue in the next block.
    taken: u64,
    /// 1 if the previous block ends in ASCII punctuation to which letters can belong.
    punctuation: u64,
    /// 1 if the letters that belong to punctuation may continue in the next block.
    taken_letters: u64,
}

impl Rule<5> for DeepSeek {
    #[inline(always)] // Compiled for each CPU.
    fn starts(&mut self, view: &View<'_, 5>) -> Option<u64> {
        let [word, sign, number, han, white] = view.here.planes;
        if !(word | sign | number | white) != 0 {
            return None;
        }
        let newline = view.here.newline;
        let edge = han ^ after(han, &mut self.han);
        let after_space = after(view.here.space, &mut self.space) & !han;
        let signs = sign & (!after(sign, &mut self.sign) | edge) & !after_space;

        let after_sign = after(sign & !han, &mut self.plain_sign);
        let taken = runs(newline, newline & after_sign, &mut self.taken);
        let until = [view.here, view.next].map(|masks| masks.planes[2] | masks.planes[3] | masks.planes[4]);
        let lines = self.lines.starts(view, white, until, taken)?;

        let letter = word & !view.here.wide;
        let punctuation = after(signs & !view.here.wide, &mut self.punctuation);
        let (taken, behind) = runs(letter, letter & punctuation, &mut self.taken_letters);
        let after_blank = after(white & !newline, &mut self.blank) & !han;
        let words = word & (!after(word, &mut self.word) | edge) & !after_blank & !taken;
        let digits = self.digits.starts::<3, 5>(view.here, number);
        Some(words | word & behind | signs | lines | digits)
    }
}
