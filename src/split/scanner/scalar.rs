//! The named patterns character by character: the slow way, which handles every text, and the safe split points.

use std::ops::RangeInclusive;

use crate::base::int::truncate_to_u32;
use crate::split::classes::{
    ClassSet, Classes, HAN, LOWER, MARK, NEWLINE, NUMBER, OTHER, SIGN, SPACE, UNCASED, UPPER, decode,
};
use crate::split::named::NamedPattern;

/// `\p{L}`
pub(super) const LETTER: ClassSet = UPPER | LOWER | UNCASED;
/// `\s`
pub(super) const WHITE: ClassSet = SPACE | NEWLINE;
/// `[^\s\p{L}\p{N}]`
const SYMBOL: ClassSet = SIGN | OTHER | MARK;
/// `[\p{L}\p{M}]`
pub(super) const WORD: ClassSet = LETTER | MARK;
/// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
const CAPITAL: ClassSet = UPPER | UNCASED | MARK;
/// `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
const SMALL: ClassSet = LOWER | UNCASED | MARK;

/// Splits by a named pattern, character by character.
///
/// It handles the texts that masks cannot decide, and it is the reference in tests of the masks.
pub(super) struct ScalarScanner {
    pattern: NamedPattern,
    classes: &'static Classes,
}

/// A maximal run of white space, as offsets into the text.
struct WhiteSpaceRun {
    start: usize,
    end: usize,
    /// The start of its last character.
    last: usize,
    /// The end of its last newline.
    newline: Option<usize>,
}

impl WhiteSpaceRun {
    /// `\s+(?!\S)|\s+`: returns the end of the white space without its last character. The last character stays if the
    /// text ends after it, or if it is the only one.
    #[inline]
    fn without_last(&self, text: &[u8]) -> usize {
        if self.end == text.len() || self.last == self.start { self.end } else { self.last }
    }
}

impl ScalarScanner {
    pub(super) fn new(pattern: NamedPattern) -> ScalarScanner {
        ScalarScanner { pattern, classes: Classes::get() }
    }

    /// Appends the end of the pre-token that starts at `at` and returns it. If the pattern groups digits from the
    /// right, the groups of a number are found together, so the ends of all of them are appended.
    #[inline]
    pub(super) fn next_ends(&self, text: &[u8], at: usize, ends: &mut Vec<u32>) -> usize {
        if matches!(self.pattern, NamedPattern::Gpt4DigitsRtl | NamedPattern::O200kDigitsRtl)
            && self.class(text, at).0 & NUMBER != 0
        {
            return self.digits_from_right(text, at, ends);
        }
        let end = self.pretoken_end(text, at);
        ends.push(truncate_to_u32(end));
        end
    }

    /// Returns the end of the pre-token that starts at `at`. It is not a number that the pattern groups from the right.
    #[inline]
    fn pretoken_end(&self, text: &[u8], at: usize) -> usize {
        match self.pattern {
            NamedPattern::Gpt2 => self.gpt2(text, at),
            NamedPattern::Gpt4 | NamedPattern::Gpt4DigitsRtl => self.gpt4(text, at, 3, false),
            NamedPattern::Cl100k => self.gpt4(text, at, 3, true),
            NamedPattern::O200k | NamedPattern::O200kDigitsRtl => self.o200k(text, at, 3),
            NamedPattern::O200kDigit => self.o200k(text, at, 1),
            NamedPattern::Nanochat => self.gpt4(text, at, 2, false),
            NamedPattern::Qwen2 => self.gpt4(text, at, 1, false),
            NamedPattern::DeepSeekV3 => self.deepseek(text, at),
            NamedPattern::Superword => self.superword(text, at),
        }
    }

    /// Returns the class of the character at `at`, and the offset of the next one. The class is 0 at the end of the
    /// text, and [`SIGN`] for invalid UTF-8.
    #[inline]
    fn class(&self, text: &[u8], at: usize) -> (ClassSet, usize) {
        match text.get(at) {
            None => (0, at),
            Some(byte) if byte.is_ascii() => (self.classes.of_byte(*byte), at + 1),
            Some(_) => {
                let (code, next) = decode(text, at);
                (code.map_or(SIGN, |code| self.classes.of_code(code)), next)
            }
        }
    }

    /// Returns the class of the character at `at`, which is not ASCII, and the offset of the next one; `None` if it
    /// is invalid UTF-8.
    fn non_ascii_class(&self, text: &[u8], at: usize) -> Option<(ClassSet, usize)> {
        let (code, next) = decode(text, at);
        Some((self.classes.of_code(code?), next))
    }

    /// Returns the end of the run of characters in `set` that starts at `at`.
    #[inline]
    fn run(&self, text: &[u8], mut at: usize, set: ClassSet) -> usize {
        loop {
            while text.get(at).is_some_and(|byte| self.classes.of_byte(*byte) & set != 0) {
                at += 1;
            }
            if text.get(at).is_none_or(u8::is_ascii) {
                return at;
            }
            let (class, next) = self.class(text, at);
            if class & set == 0 {
                return at;
            }
            at = next;
        }
    }

    /// Returns the run of white space that starts at `at`, which may be empty.
    fn white_space(&self, text: &[u8], at: usize) -> WhiteSpaceRun {
        let mut run = WhiteSpaceRun { start: at, end: at, last: at, newline: None };
        loop {
            let (class, next) = self.class(text, run.end);
            if class & WHITE == 0 {
                return run;
            }
            if class & NEWLINE != 0 {
                run.newline = Some(next);
            }
            (run.last, run.end) = (run.end, next);
        }
    }

    /// `'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
    #[inline]
    fn gpt2(&self, text: &[u8], at: usize) -> usize {
        let byte = text[at];
        if byte == b'\''
            && let Some(end) = contraction(text, at, false)
        {
            return end;
        }
        let (first, next) = self.class(text, at);
        let (class, next) = if byte == b' ' { self.class(text, next) } else { (first, next) };
        if class & LETTER != 0 {
            self.run(text, next, LETTER)
        } else if class & NUMBER != 0 {
            self.run(text, next, NUMBER)
        } else if class & SYMBOL != 0 {
            self.run(text, next, SYMBOL)
        } else {
            self.white_space(text, at).without_last(text)
        }
    }

    /// GPT-4's pattern with groups of at most `digits` digits. With `whole_tail` it is cl100k's, in which white space
    /// at the end of the text is one pre-token.
    #[inline]
    fn gpt4(&self, text: &[u8], at: usize, digits: usize, whole_tail: bool) -> usize {
        let byte = text[at];
        if byte == b'\''
            && let Some(end) = contraction(text, at, true)
        {
            return end;
        }
        let (first, next) = self.class(text, at);
        if first & LETTER != 0 {
            return self.run(text, next, LETTER);
        }
        if first & NUMBER != 0 {
            return self.digits(text, next, digits);
        }
        let (second, after) = self.class(text, next);
        if second & LETTER != 0 && first & NEWLINE == 0 {
            return self.run(text, after, LETTER);
        }
        if let Some(end) = self.symbols(text, byte, (first, next), (second, after)) {
            return skip(text, end, b"\r\n");
        }
        let white_space = self.white_space(text, at);
        if whole_tail && white_space.end == text.len() {
            return white_space.end;
        }
        white_space.newline.unwrap_or_else(|| white_space.without_last(text))
    }

    /// GPT-4o's pattern with groups of at most `digits` digits.
    #[inline]
    fn o200k(&self, text: &[u8], at: usize, digits: usize) -> usize {
        let byte = text[at];
        let (first, next) = self.class(text, at);
        if let Some(end) = self.cased_word(text, at, first, next) {
            let apostrophe = text.get(end) == Some(&b'\'');
            return apostrophe.then(|| contraction(text, end, true)).flatten().unwrap_or(end);
        }
        if first & NUMBER != 0 {
            return self.digits(text, next, digits);
        }
        if let Some(end) = self.symbols(text, byte, (first, next), self.class(text, next)) {
            return skip(text, end, b"\r\n/");
        }
        let white_space = self.white_space(text, at);
        white_space.newline.unwrap_or_else(|| white_space.without_last(text))
    }

    /// `[^\r\n\p{L}\p{N}]?[CAPITAL]*[SMALL]+|[^\r\n\p{L}\p{N}]?[CAPITAL]+[SMALL]*`. `first` is the class of the
    /// character at `at`, and `next` the offset after it.
    ///
    /// Marks and letters without case are in both sets. So if no lower-case letter follows, the run of capitals
    /// shrinks to end after the last of them. A mark can be the optional character before the word, or the start of
    /// the word.
    #[inline]
    fn cased_word(&self, text: &[u8], at: usize, first: ClassSet, next: usize) -> Option<usize> {
        let start = if first & (NEWLINE | LETTER | NUMBER) == 0 { next } else { at };
        let (mut end, mut last_small) = (start, None);
        let stop = loop {
            let (class, after) = self.class(text, end);
            if class & CAPITAL == 0 {
                break class;
            }
            if class & SMALL != 0 {
                last_small = Some(after);
            }
            end = after;
        };
        if stop & LOWER != 0 {
            Some(self.run(text, end, SMALL))
        } else if last_small.is_some() {
            last_small
        } else if first & MARK != 0 {
            Some(next)
        } else {
            (end > start).then_some(end)
        }
    }

    /// DeepSeek's pattern: first groups of digits, then Chinese and Japanese, then the rest. Each of these sections
    /// is split as if the text ended after it.
    fn deepseek(&self, text: &[u8], at: usize) -> usize {
        let (first, next) = self.class(text, at);
        if first & NUMBER != 0 {
            return self.digits(text, next, 3);
        }
        let section = DeepSeekSection { scanner: self, text, han: first & HAN };
        let (second, after) = section.class(next);
        if text[at].is_ascii_punctuation() && text.get(next).is_some_and(u8::is_ascii_alphabetic) {
            let letters = text[next..].iter().take_while(|byte| byte.is_ascii_alphabetic());
            return next + letters.count();
        }
        if first & (NEWLINE | LETTER | SIGN) == 0 && second & WORD != 0 {
            return section.run(after, WORD);
        }
        if first & WORD != 0 {
            return section.run(next, WORD);
        }
        if first & OTHER != 0 {
            return section.unmatched(at);
        }
        if first & SIGN != 0 || text[at] == b' ' && second & SIGN != 0 {
            let end = section.run(next, SIGN);
            return if section.han == 0 { skip(text, end, b"\r\n") } else { end };
        }
        let white_space = self.white_space(text, at);
        let at_end = section.class(white_space.end).0 == 0;
        white_space
            .newline
            .unwrap_or_else(|| if at_end { white_space.end } else { white_space.without_last(text) })
    }

    /// SuperBPE's pattern: a match, or the text up to the next one.
    fn superword(&self, text: &[u8], mut at: usize) -> usize {
        if let Some(end) = self.superword_match(text, at) {
            return end;
        }
        loop {
            (_, at) = self.class(text, at);
            // No match begins with a letter.
            at = self.run(text, at, LETTER);
            if at == text.len() || self.superword_match(text, at).is_some() {
                return at;
            }
        }
    }

    /// `\p{N}{1,3}| ?[^\s\p{L}\p{N}]{2,}[\r\n/]*| +(?!\S)`: returns the end of the match at `at`, if there is one.
    #[inline]
    fn superword_match(&self, text: &[u8], at: usize) -> Option<usize> {
        let (first, next) = self.class(text, at);
        if first & NUMBER != 0 {
            return Some(self.digits(text, next, 3));
        }
        let is_space = text[at] == b' ';
        if !is_space && first & SYMBOL == 0 {
            return None;
        }
        let (second, after) = self.class(text, next);
        let (third, end) = if is_space { self.class(text, after) } else { (second, after) };
        if second & SYMBOL != 0 && third & SYMBOL != 0 {
            return Some(skip(text, self.run(text, end, SYMBOL), b"\r\n/"));
        }
        if !is_space {
            return None;
        }
        let end = skip(text, next, b" ");
        let is_kept = end < text.len() && self.class(text, end).0 & WHITE == 0;
        let end = if is_kept { end - 1 } else { end };
        (end > at).then_some(end)
    }

    /// `\p{N}{1,max_digits}`, where the first digit has been matched and `at` is the offset after it.
    fn digits(&self, text: &[u8], mut at: usize, max_digits: usize) -> usize {
        for _ in 1..max_digits {
            let (class, next) = self.class(text, at);
            if class & NUMBER == 0 {
                break;
            }
            at = next;
        }
        at
    }

    /// `\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))` until the numbers that start at `at` end: appends the ends of the groups,
    /// and returns the last. It takes linear time, where each match of the expression would look ahead to the end.
    fn digits_from_right(&self, text: &[u8], mut at: usize, ends: &mut Vec<u32>) -> usize {
        let mut left = 0_usize;
        let mut end = at;
        loop {
            let (class, next) = self.class(text, end);
            if class & NUMBER == 0 {
                break;
            }
            (end, left) = (next, left + 1);
        }
        while at < end {
            (at, left) = (self.class(text, at).1, left - 1);
            if left.is_multiple_of(3) {
                ends.push(truncate_to_u32(at));
            }
        }
        end
    }

    /// ` ?[^\s\p{L}\p{N}]+`, given the first byte, and the class and end of the first two characters.
    #[inline]
    fn symbols(
        &self,
        text: &[u8],
        byte: u8,
        first: (ClassSet, usize),
        second: (ClassSet, usize),
    ) -> Option<usize> {
        if first.0 & SYMBOL != 0 {
            Some(self.run(text, first.1, SYMBOL))
        } else if byte == b' ' && second.0 & SYMBOL != 0 {
            Some(self.run(text, second.1, SYMBOL))
        } else {
            None
        }
    }

    /// Returns the last safe split point within `range`: a position between two characters that are never in one
    /// pre-token, in any text.
    ///
    /// A position after white space never counts: how white space is split depends on the text after it. Otherwise the
    /// patterns look ahead only among numbers, if they group digits from the right. No position between two numbers
    /// counts, whatever the pattern, so a run of digits is never cut.
    pub(super) fn safe_split_point(&self, text: &[u8], range: RangeInclusive<usize>) -> Option<usize> {
        let last = text.len().checked_sub(1)?.min(*range.end());
        (1.max(*range.start())..=last).rev().find(|at| {
            let (before, after) = (self.character_before(text, *at), self.character_at(text, *at));
            before.zip(after).is_some_and(|(before, after)| {
                self.always_splits(before, after)
                    || self.pattern == NamedPattern::Superword && self.ends_signs(text, *at, after)
            })
        })
    }

    /// Returns whether SuperBPE's pattern always splits before the character `after`, which is at `at`, because two
    /// signs precede it. A slash does not count: it can belong to signs and line breaks before it.
    fn ends_signs(&self, text: &[u8], at: usize, after: AdjacentCharacter) -> bool {
        let is_sign = |byte: u8| byte.is_ascii() && byte != b'/' && self.classes.of_byte(byte) & SYMBOL != 0;
        at >= 2 && is_sign(text[at - 1]) && is_sign(text[at - 2]) && after.class & (SYMBOL | NEWLINE) == 0
    }

    /// Returns the character that starts at `at`; `None` if it is invalid UTF-8 or incomplete. The bytes around a
    /// complete character cannot change how it is read.
    #[inline]
    fn character_at(&self, text: &[u8], at: usize) -> Option<AdjacentCharacter> {
        let byte = text[at];
        let (class, _) = if byte.is_ascii() { self.class(text, at) } else { self.non_ascii_class(text, at)? };
        Some(AdjacentCharacter { class, byte })
    }

    /// Returns the character that ends at `at`; `None` if it is invalid UTF-8 or incomplete.
    #[inline]
    fn character_before(&self, text: &[u8], at: usize) -> Option<AdjacentCharacter> {
        let byte = text[at - 1];
        if byte.is_ascii() {
            return self.character_at(text, at - 1);
        }
        let start = (at.saturating_sub(4)..at).rev().find(|start| text[*start] & 0xC0 != 0x80)?;
        let (class, end) = self.non_ascii_class(text, start)?;
        (end == at).then_some(AdjacentCharacter { class, byte: text[start] })
    }

    /// Returns whether the pattern splits between two adjacent characters in every text.
    #[inline]
    fn always_splits(&self, before: AdjacentCharacter, after: AdjacentCharacter) -> bool {
        let AdjacentCharacter { class: before, byte: first } = before;
        let AdjacentCharacter { class: after, byte: second } = after;
        if before & WHITE != 0 {
            return false;
        }
        let either = before | after;
        match self.pattern {
            NamedPattern::Gpt2 => {
                let kind = |class| [LETTER, NUMBER, SYMBOL, WHITE].map(|set| class & set != 0);
                let contraction = first == b'\'' && after & LETTER != 0;
                kind(before) != kind(after) && !contraction
            }
            NamedPattern::Gpt4
            | NamedPattern::Cl100k
            | NamedPattern::Nanochat
            | NamedPattern::Qwen2
            | NamedPattern::Gpt4DigitsRtl => {
                let set = match before {
                    class if class & LETTER != 0 => !LETTER,
                    class if class & NUMBER != 0 => !NUMBER,
                    _ => SPACE | NUMBER,
                };
                after & set & !HAN != 0
            }
            // A mark can belong to any character before it. Newlines can belong to signs before them, so the last set
            // below has none.
            NamedPattern::O200k | NamedPattern::O200kDigitsRtl | NamedPattern::O200kDigit
                if either & MARK != 0 =>
            {
                false
            }
            NamedPattern::O200k | NamedPattern::O200kDigitsRtl | NamedPattern::O200kDigit => match before {
                class if class & LETTER != 0 => {
                    after & (NUMBER | WHITE) != 0 || after & (SIGN | OTHER) != 0 && second != b'\''
                }
                class if class & NUMBER != 0 => after & NUMBER == 0,
                _ => after & (SPACE | NUMBER) != 0,
            },
            NamedPattern::Superword => (before ^ after) & NUMBER != 0,
            NamedPattern::DeepSeekV3 if (before ^ after) & (NUMBER | HAN) != 0 => true,
            NamedPattern::DeepSeekV3 => match before {
                class if class & WORD != 0 => after & (WHITE | SIGN) != 0,
                class if class & SIGN != 0 => after & (WHITE & !NEWLINE) != 0,
                _ => false,
            },
        }
    }
}

/// A character, as far as a split before or after it depends on it.
#[derive(Clone, Copy)]
struct AdjacentCharacter {
    class: ClassSet,
    /// The first byte of the character.
    byte: u8,
}

/// A section of a text that DeepSeek's pattern splits on its own: either Chinese and Japanese characters, or
/// characters that are neither these nor numbers.
struct DeepSeekSection<'a> {
    scanner: &'a ScalarScanner,
    text: &'a [u8],
    han: ClassSet,
}

impl DeepSeekSection<'_> {
    /// Returns the class of the character at `at`, and the offset of the next one. The class is 0 outside the
    /// section.
    fn class(&self, at: usize) -> (ClassSet, usize) {
        let (class, next) = self.scanner.class(self.text, at);
        if class & NUMBER != 0 || class & HAN != self.han { (0, at) } else { (class, next) }
    }

    /// Returns the end of the run of characters in `set` that starts at `at`, at most the end of the section.
    fn run(&self, mut at: usize, set: ClassSet) -> usize {
        loop {
            let (class, next) = self.class(at);
            if class & set == 0 {
                return at;
            }
            at = next;
        }
    }

    /// Returns the end of the unmatched characters that start at `at`. If a word follows, the last of them belongs to
    /// the word.
    fn unmatched(&self, mut at: usize) -> usize {
        loop {
            let (class, next) = self.class(at);
            if class & OTHER == 0 || self.class(next).0 & WORD != 0 {
                return at;
            }
            at = next;
        }
    }
}

/// Returns the end of the contraction that starts with the apostrophe at `at`, if it is one.
///
/// With `any_case`, upper and lower case match, and U+017F (long s, the bytes C5 BF) is an s.
pub(super) fn contraction(text: &[u8], at: usize, any_case: bool) -> Option<usize> {
    let letter = |offset: usize| {
        let byte = text.get(at + offset).copied().unwrap_or(0);
        if any_case { byte.to_ascii_lowercase() } else { byte }
    };
    match (letter(1), letter(2)) {
        (b's' | b'd' | b'm' | b't', _) => Some(at + 2),
        (b'l', b'l') | (b'v' | b'r', b'e') => Some(at + 3),
        (0xC5, 0xBF) if any_case => Some(at + 3),
        _ => None,
    }
}

/// Returns the first offset from `at` on at which no byte of `bytes` occurs.
fn skip(text: &[u8], mut at: usize, bytes: &[u8]) -> usize {
    while text.get(at).is_some_and(|byte| bytes.contains(byte)) {
        at += 1;
    }
    at
}
