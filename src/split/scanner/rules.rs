//! The named patterns as arithmetic on masks, 64 bytes at a time: the loop over the blocks of a text, the rule of each
//! pattern, and what several rules share.

use super::masks::{BLOCK, ClassPlanes, Marks, Masks, WINDOW, after, ahead, runs, set_bits};
use super::scalar::{LETTER, WHITE, WORD, contraction};
use crate::base::int::{as_u64_halves, to_usize};
use crate::base::lazy::Lazy;
use crate::split::classes::{HAN, LOWER, MARK, NUMBER, SIGN, UNCASED, UPPER};

/// A block to split, in its context.
pub(super) struct BlockView<'a, const P: usize> {
    /// The whole text.
    pub(super) text: &'a [u8],
    /// Offset of the block in the text.
    pub(super) at: usize,
    /// The masks of the block.
    pub(super) here: &'a Masks<P>,
    /// The masks of the next block. After the end of the text, they are those of [`BlockRule::PADDING`].
    pub(super) next: &'a Masks<P>,
}

impl<const P: usize> BlockView<'_, P> {
    /// Returns a plane of this block and of the next one.
    #[inline(always)] // Part of each rule's loop.
    pub(super) fn plane(&self, number: usize) -> [u64; 2] {
        [self.here.planes[number], self.next.planes[number]]
    }
}

/// A pattern as arithmetic on masks. The implementing type keeps the state that later blocks need.
pub(super) trait BlockRule<const P: usize>: Default {
    /// The white-space byte that virtually follows the text without end. The pattern must split before it as it
    /// splits at the end of a text.
    const PADDING: u8 = b' ';

    /// Returns the planes. White space must be the last one.
    fn planes() -> &'static ClassPlanes<P>;

    /// Returns the pre-token starts of a block as a mask. `None` if masks cannot decide; the results for earlier
    /// blocks are valid all the same. Blocks must come in order.
    fn starts(&mut self, view: &BlockView<'_, P>) -> Option<u64>;
}

/// Splits a text block by block. A pre-token must start at the start of the text.
///
/// `masks` classifies each block and the rule splits it. `take` gets the offset of the block and the mask of its
/// pre-token starts, without the start of the text; each start is also the end of the previous pre-token. Returns the
/// length of the text, or the offset of the block that the rule cannot decide.
#[inline(always)] // Compiled into callers that enable more CPU features.
pub(super) fn scan_blocks<const P: usize, R: BlockRule<P>>(
    text: &[u8],
    mut masks: impl FnMut(&[u8; WINDOW]) -> Masks<P>,
    mut take: impl FnMut(usize, u64),
) -> usize {
    let (mut rule, padding) = (R::default(), Masks::of_padding(R::planes(), R::PADDING));
    let mut read = |at: usize| {
        let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) else { return padding };
        let ending;
        let bytes = match rest.first_chunk() {
            Some(bytes) => bytes,
            None => {
                ending = padded(rest, R::PADDING);
                &ending
            }
        };
        masks(bytes)
    };
    let (mut at, mut here, mut wanted) = (0, read(0), !1);
    while at < text.len() {
        let next = read(at + BLOCK);
        let view = BlockView { text, at, here: &here, next: &next };
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

/// Returns the last bytes of a text, filled up with [`BlockRule::PADDING`]. It is a function of its own because the
/// loop would otherwise clear this buffer for every block.
#[cold]
#[inline(never)]
fn padded(rest: &[u8], padding: u8) -> [u8; WINDOW] {
    let mut bytes = [padding; WINDOW];
    bytes[..rest.len()].copy_from_slice(rest);
    bytes
}

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
    /// The first letters of contractions.
    inner: Marks,
    /// The positions after contractions.
    after_contraction: Marks,
}

/// Planes of GPT-2's and GPT-4's patterns.
static GPT: Lazy<ClassPlanes<3>> = Lazy::new(|| ClassPlanes::new([LETTER, NUMBER, WHITE]));

impl BlockRule<3> for Gpt2 {
    fn planes() -> &'static ClassPlanes<3> {
        &GPT
    }

    #[inline(always)] // Compiled for each CPU.
    fn starts(&mut self, view: &BlockView<'_, 3>) -> Option<u64> {
        let [letter, number, white] = view.here.planes;
        let sign = !(letter | number | white);
        let after_space = after(view.here.space, &mut self.space);
        let signs = sign & !after(sign, &mut self.sign) & !after_space;
        let words = letter & !after(letter, &mut self.letter) | number & !after(number, &mut self.number);
        let whites = white & !after(white, &mut self.white);
        for (quote, end) in contractions(view, view.here.quote & signs & ahead(view.plane(0), 1), false) {
            self.inner.mark(quote + 1);
            self.after_contraction.mark(end);
        }
        let words = words & !self.inner.take() & !after_space | letter & self.after_contraction.take();
        Some(words | signs | whites | last_white_space(view, white, view.plane(2)))
    }
}

/// GPT-4's pattern with groups of digits by the rule `D`. With `WHOLE_TAIL` it is cl100k's.
#[derive(Default)]
pub(super) struct Gpt4<D, const WHOLE_TAIL: bool> {
    // The last bits of these masks in the previous block.
    letter: u64,
    sign: u64,
    space: u64,
    /// 1 if newlines that belong to signs may continue in the next block.
    taken: u64,
    white_space: WhiteSpace,
    digits: D,
    prefix: WordPrefix,
    /// The positions after contractions.
    after_contraction: Marks,
}

impl<D: DigitRule, const WHOLE_TAIL: bool> BlockRule<3> for Gpt4<D, WHOLE_TAIL> {
    const PADDING: u8 = if WHOLE_TAIL { b'\n' } else { b' ' };

    fn planes() -> &'static ClassPlanes<3> {
        &GPT
    }

    #[inline(always)] // Compiled for each CPU.
    fn starts(&mut self, view: &BlockView<'_, 3>) -> Option<u64> {
        let [letter, number, white] = view.here.planes;
        let sign = !(letter | number | white);
        let after_sign = after(sign, &mut self.sign);
        let signs = sign & !after_sign & !after(view.here.space, &mut self.space);
        let newline = view.here.newline;
        let taken = runs(newline, newline & after_sign, &mut self.taken);
        let lines = self.white_space.starts(view, white, view.plane(2), taken)?;

        let after_prefix = self.prefix.ends(view.here, (sign, signs), white & !newline);
        let words = letter & !after(letter, &mut self.letter) & !after_prefix;

        for (_, end) in contractions(view, view.here.quote & signs & ahead(view.plane(0), 1), true) {
            self.after_contraction.mark(end);
        }
        let digits = self.digits.starts(view, 1)?;
        Some(words | signs | lines | digits | letter & self.after_contraction.take())
    }
}

/// GPT-4o's pattern with groups of digits by the rule `D`.
///
/// A word starts where letters start, at a capital after small letters, and after a contraction. Letters without case
/// and marks continue both capitals and small letters. A mark at the start of a word can belong to signs before it;
/// masks cannot decide that.
#[derive(Default)]
pub(super) struct O200k<D> {
    // The last bits of these masks in the previous block.
    word: u64,
    sign: u64,
    space: u64,
    newline: u64,
    white_space: WhiteSpace,
    digits: D,
    /// 1 if newlines and slashes that belong to signs may continue in the next block.
    taken: u64,
    prefix: WordPrefix,
    lower: u64,
    uncased: u64,
    /// 1 if the letters without case after a small letter may continue in the next block.
    uncased_small: u64,
    small: u64,
    /// The last letters of contractions.
    inner: Marks,
    /// The positions after contractions.
    after_contraction: Marks,
}

impl<D: DigitRule> BlockRule<6> for O200k<D> {
    fn planes() -> &'static ClassPlanes<6> {
        static PLANES: Lazy<ClassPlanes<6>> =
            Lazy::new(|| ClassPlanes::new([UPPER, LOWER, UNCASED, MARK, NUMBER, WHITE]));
        &PLANES
    }

    #[inline(always)] // Compiled for each CPU.
    fn starts(&mut self, view: &BlockView<'_, 6>) -> Option<u64> {
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
        let lines = self.white_space.starts(view, white, view.plane(5), taken)?;

        let after_prefix = self.prefix.ends(view.here, (sign, signs), white & !newline);
        let words = word & !after_word & !after_prefix;

        signs &= !self.contractions(view, after_word)?;
        let capitals = self.capitals(view, upper, lower, uncased)? & !self.inner.take();
        let digits = self.digits.starts(view, 4)?;
        Some(words | capitals | signs | lines | digits | word & self.after_contraction.take())
    }
}

impl<D> O200k<D> {
    /// `[\r\n/]*` after signs: returns the bytes that it matches, and the positions after them. Slashes are signs
    /// themselves, so the match starts with a newline.
    #[inline(always)] // Part of the rule's loop.
    fn take_lines(&mut self, view: &BlockView<'_, 6>, sign: u64) -> (u64, u64) {
        let newline = view.here.newline;
        let first = newline & (sign << 1 | self.sign);
        let after_newline = after(newline, &mut self.newline) | self.taken;
        if view.here.slash & after_newline == 0 {
            return runs(newline, first, &mut self.taken);
        }
        let (mut taken, mut after_taken) = (0, 0);
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
            after_taken |= 1 << end;
            starts &= !0 << end;
            // The byte after a run starts none.
            starts &= !(1 << end);
        }
        (taken, after_taken)
    }

    /// Marks the positions after the contractions that belong to the word before them, and returns their apostrophes.
    /// Returns `None` if masks cannot decide.
    #[inline(always)] // Part of the rule's loop.
    fn contractions(&mut self, view: &BlockView<'_, 6>, after_word: u64) -> Option<u64> {
        let [upper, lower, uncased, mark] = [0, 1, 2, 3].map(|plane| view.plane(plane));
        let letters = [0, 1].map(|block| upper[block] | lower[block] | uncased[block]);
        let caseless = [0, 1].map(|block| uncased[block] | mark[block]);
        let mut within = 0;
        for (quote, end) in contractions(view, view.here.quote & after_word & ahead(letters, 1), true) {
            // This apostrophe follows a contraction, so it starts a pre-token, as the character before a word.
            if self.after_contraction.is_marked(quote) {
                continue;
            }
            // If a letter without case follows, `capitals` would also depend on letters before the contraction.
            if caseless[end / BLOCK] >> (end % BLOCK) & 1 != 0 {
                return None;
            }
            within |= 1 << quote;
            // In "'lL" a capital follows a small letter but starts no word.
            self.inner.mark(end - 1);
            self.after_contraction.mark(end);
        }
        Some(within)
    }

    /// Returns the capitals that start a word within letters. Returns `None` if masks cannot decide.
    #[inline(always)] // Part of the rule's loop.
    fn capitals(&mut self, view: &BlockView<'_, 6>, upper: u64, lower: u64, uncased: u64) -> Option<u64> {
        let small = uncased & after(lower, &mut self.lower);
        let (uncased_small, _) = runs(uncased, small, &mut self.uncased_small);
        let after_small = after(lower | uncased_small, &mut self.small);
        let capitals = upper & after_small;
        // A run of capitals after letters without case is a word of its own if it ends the letters. This holds only
        // if no small letter precedes the letters without case.
        let mut last = upper & after(uncased, &mut self.uncased) & !after_small;
        for first in set_bits(last) {
            let run = (upper >> first).trailing_ones();
            let mut end = first + to_usize(run);
            if end == 64 {
                end += to_usize(view.next.planes[0].trailing_ones());
            }
            let block = match end / 64 {
                0 => view.here,
                1 => view.next,
                _ => return None,
            };
            let continues = [1, 2, 3].iter().any(|plane| block.planes[*plane] >> (end % 64) & 1 != 0);
            if continues {
                last &= !(1 << first);
            }
        }
        Some(capitals | last)
    }
}

/// DeepSeek V3's pattern.
///
/// Numbers, Chinese and Japanese, and the rest are separate: no pre-token has characters of two of them. Blocks with
/// a character that is neither a word character, sign, number nor white space are rare; masks do not decide them.
#[derive(Default)]
pub(super) struct DeepSeek {
    // The last bits of these masks in the previous block.
    word: u64,
    blank: u64,
    sign: u64,
    plain_sign: u64,
    space: u64,
    han: u64,
    white_space: WhiteSpace,
    digits: DigitsFromLeft<3>,
    /// 1 if newlines that belong to signs may continue in the next block.
    taken: u64,
    /// 1 if the previous block ends in ASCII punctuation to which letters can belong.
    punctuation: u64,
    /// 1 if the letters that belong to punctuation may continue in the next block.
    taken_letters: u64,
}

impl BlockRule<5> for DeepSeek {
    fn planes() -> &'static ClassPlanes<5> {
        static PLANES: Lazy<ClassPlanes<5>> =
            Lazy::new(|| ClassPlanes::new([WORD, SIGN, NUMBER, HAN, WHITE]));
        &PLANES
    }

    #[inline(always)] // Compiled for each CPU.
    fn starts(&mut self, view: &BlockView<'_, 5>) -> Option<u64> {
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
        let lines = self.white_space.starts(view, white, until, taken)?;

        let letter = word & !view.here.non_ascii;
        let punctuation = after(signs & !view.here.non_ascii, &mut self.punctuation);
        let (taken, after_taken) = runs(letter, letter & punctuation, &mut self.taken_letters);
        let after_blank = after(white & !newline, &mut self.blank) & !han;
        let words = word & (!after(word, &mut self.word) | edge) & !after_blank & !taken;
        let digits = self.digits.starts(view, 2)?;
        Some(words | word & after_taken | signs | lines | digits)
    }
}

/// `[^\r\n\p{L}\p{N}]?` before a word: a single sign, or a single blank, belongs to the letters after it.
#[derive(Default)]
struct WordPrefix {
    /// 1 if the previous block ends in a blank.
    blank: u64,
    /// 1 if a run of signs starts at the last byte of the previous block.
    alone: u64,
    /// 1 if the continuation bytes of the first sign of a run reach the end of the previous block.
    alone_inner: u64,
}

impl WordPrefix {
    /// Returns the positions after a character that belongs to letters there. `signs` are the starts of the runs of
    /// `sign`.
    #[inline(always)] // Part of each rule's loop.
    fn ends<const P: usize>(&mut self, here: &Masks<P>, (sign, signs): (u64, u64), blank: u64) -> u64 {
        let alone = after(signs, &mut self.alone);
        let (_, after_alone) = runs(sign & !here.start, alone, &mut self.alone_inner);
        after_alone | after(blank, &mut self.blank)
    }
}

/// Returns the positions of the apostrophes in `quotes` that start a contraction, and the positions after it. With
/// `any_case`, upper and lower case match.
#[inline(always)] // Part of each rule's loop.
fn contractions<const P: usize>(
    view: &BlockView<'_, P>,
    quotes: u64,
    any_case: bool,
) -> impl Iterator<Item = (usize, usize)> {
    set_bits(quotes).filter_map(move |quote| {
        contraction(view.text, view.at + quote, any_case).map(|end| (quote, end - view.at))
    })
}

/// Returns the starts of the characters in `set` that white space does not follow. `white` is the white space of this
/// block and the next one.
#[inline(always)] // Part of each rule's loop.
fn last_white_space<const P: usize>(view: &BlockView<'_, P>, set: u64, white: [u64; 2]) -> u64 {
    let last = set & !ahead(white, 1);
    if set & view.here.non_ascii == 0 {
        return last;
    }
    // White space outside ASCII has two or three bytes per character.
    let [two, three] = [2, 3].map(|distance| !ahead(white, distance));
    let start = [view.here.start, view.next.start];
    let [second, third] = [1, 2].map(|distance| !ahead(start, distance));
    set & view.here.start & (last & !second | second & (two & !third | three & third))
}

/// `\s*[\r\n]+|\s+(?!\S)|\s+`, where newlines directly after signs belong to the signs.
#[derive(Default)]
struct WhiteSpace {
    // The last bits of these masks in the previous block.
    white: u64,
    newline: u64,
}

impl WhiteSpace {
    /// Returns the pre-token starts in the white space of a block.
    ///
    /// `taken` are newlines that belong to signs before them, and `after_taken` the positions after these. `until` has
    /// white space, and whatever white space treats like the end of a text, in this block and the next one. Returns
    /// `None` if a run of blanks reaches beyond the next block, so that a newline after it cannot be seen.
    #[inline(always)] // Part of each rule's loop.
    fn starts<const P: usize>(
        &mut self,
        view: &BlockView<'_, P>,
        white: u64,
        until: [u64; 2],
        (taken, after_taken): (u64, u64),
    ) -> Option<u64> {
        let newline = view.here.newline;
        let blank = white & !newline;
        let mut tails = blank & after(newline, &mut self.newline) & !after_taken;
        if tails != 0 {
            tails = without_later_newline(view, tails, blank)?;
        }
        let first = white & !after(white, &mut self.white) & !taken;
        Some(first | blank & after_taken | tails | last_white_space(view, blank, until))
    }
}

/// Keeps those of `tails` with no newline after their run of blanks. `tails` are the starts of runs of blanks after a
/// newline. Returns `None` if a run reaches beyond the next block.
#[inline(always)] // Part of each rule's loop.
fn without_later_newline<const P: usize>(view: &BlockView<'_, P>, mut tails: u64, blank: u64) -> Option<u64> {
    let (sum, carried) = blank.overflowing_add(tails);
    if carried {
        // Blanks are white space without newlines.
        let next_blank = view.next.planes[P - 1] & !view.next.newline;
        let length = next_blank.trailing_ones();
        // If the text ends within the next block, the bytes of that block after the end are `BlockRule::PADDING`.
        if length == 64 && view.at + 2 * BLOCK <= view.text.len() {
            return None;
        }
        if view.next.newline.checked_shr(length).unwrap_or(0) & 1 != 0 {
            tails &= !(1 << (63 - tails.leading_zeros()));
        }
    }
    for line in set_bits(sum & !blank & view.here.newline) {
        let before = tails & ((1 << line) - 1);
        tails &= !(1 << (63 - before.leading_zeros()));
    }
    Some(tails)
}

/// How a pattern groups digits. The implementing type keeps the state that later blocks need.
pub(super) trait DigitRule: Default {
    /// Returns the starts of the groups of numbers in a block. The plane with this index has the numbers. `None` if
    /// masks cannot decide.
    fn starts<const P: usize>(&mut self, view: &BlockView<'_, P>, plane: usize) -> Option<u64>;
}

/// `\p{N}{1,MOST}`; `MOST` is 1 to 3.
#[derive(Default)]
pub(super) struct DigitsFromLeft<const MOST: u32> {
    /// 1 if the previous block ends in a number.
    number: u64,
    /// How many of the next characters belong to the last group if they are numbers, too.
    left: u32,
}

impl<const MOST: u32> DigitRule for DigitsFromLeft<MOST> {
    #[inline(always)] // Part of each rule's loop.
    fn starts<const P: usize>(&mut self, view: &BlockView<'_, P>, plane: usize) -> Option<u64> {
        let (here, number) = (view.here, view.here.planes[plane]);
        if MOST == 1 || number == 0 {
            self.number = 0;
            return Some(number & here.start);
        }
        let open = self.number != 0;
        let first = number & !after(number, &mut self.number);
        if number & here.non_ascii != 0 {
            return Some(self.by_character(number & here.start, first));
        }
        let mut groups = first;
        if open && number.trailing_ones() > self.left {
            groups |= 1 << self.left;
        }
        // A group starts `MOST` positions after another if only numbers are between the two starts.
        let further = number & number << 1 & if MOST > 2 { number << 2 } else { !0 };
        let mut latest = groups << MOST & further;
        while latest != 0 {
            groups |= latest;
            latest = latest << MOST & further;
        }
        if number >> 63 != 0 {
            // If numbers end the block, the last group starts at one of the last `MOST` positions.
            self.left = MOST - groups.leading_zeros() - 1;
        }
        Some(groups)
    }
}

impl<const MOST: u32> DigitsFromLeft<MOST> {
    /// Does the same for numbers of several bytes. `numbers` are the first bytes of numbers, and `first` those of
    /// them that start a run.
    fn by_character(&mut self, numbers: u64, first: u64) -> u64 {
        let mut groups = 0;
        for at in set_bits(numbers) {
            if first >> at & 1 != 0 || self.left == 0 {
                groups |= 1 << at;
                self.left = MOST;
            }
            self.left -= 1;
        }
        groups
    }
}

/// `\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))`: groups of three from the right.
#[derive(Default)]
pub(super) struct DigitsFromRight {
    /// 1 if the previous block ends in a number.
    number: u64,
}

impl DigitRule for DigitsFromRight {
    /// The groups depend on where a run of numbers ends, so masks cannot decide a run that reaches beyond the next
    /// block.
    #[inline(always)] // Part of each rule's loop.
    fn starts<const P: usize>(&mut self, view: &BlockView<'_, P>, plane: usize) -> Option<u64> {
        let [here, next] = view.plane(plane);
        let first = here & !after(here, &mut self.number);
        if here == 0 {
            return Some(0);
        }
        if here >> 63 != 0 && next == !0 {
            return None;
        }
        let both = |[here, next]: [u64; 2]| u128::from(here) | u128::from(next) << BLOCK;
        let numbers = both([here, next]);
        if numbers & both([view.here.non_ascii, view.next.non_ascii]) != 0 {
            return Some(first | Self::by_character(numbers, both([view.here.start, view.next.start])));
        }
        // A group starts three positions before another one, or before the end of the run, if only numbers are
        // between the two.
        let full = numbers & numbers >> 1 & numbers >> 2;
        let last = numbers & !(numbers >> 1);
        let (mut groups, mut latest) = (0, last >> 2 & full);
        while latest != 0 {
            groups |= latest;
            latest = latest >> 3 & full;
        }
        Some(first | lower_half(groups))
    }
}

impl DigitsFromRight {
    /// Returns the starts of full groups for numbers of several bytes. `numbers` and the first bytes of characters in
    /// `starts` are those of this block and the next one.
    fn by_character(numbers: u128, starts: u128) -> u64 {
        let (mut groups, mut rest) = (0, numbers);
        while lower_half(rest) != 0 {
            let start = rest.trailing_zeros();
            let length = (rest >> start).trailing_ones();
            let run = (u128::MAX >> (u128::BITS - length)) << start;
            rest &= !run;
            let mut characters = run & starts;
            while characters != 0 {
                let first = characters & characters.wrapping_neg();
                if characters.count_ones().is_multiple_of(3) {
                    groups |= first;
                }
                characters &= !first;
            }
        }
        lower_half(groups)
    }
}

/// Returns the bits of this block, of a mask of this block and the next one.
#[inline(always)] // Part of each rule's loop.
fn lower_half(mask: u128) -> u64 {
    as_u64_halves(&mask.to_le_bytes())[0]
}
