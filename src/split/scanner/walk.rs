//! The named patterns character by character: the slow way, which handles every text.

use super::super::Named;
use super::super::classes::{
    ClassSet, Classes, HAN, LOWER, MARK, NEWLINE, NUMBER, OTHER, SIGN, SPACE, UNCASED, UPPER, decode,
};

/// `\p{L}`
pub(super) const LETTER: ClassSet = UPPER | LOWER | UNCASED;
/// `\s`
pub(super) const WHITE: ClassSet = SPACE | NEWLINE;
/// `[^\s\p{L}\p{N}]`
pub(super) const SYMBOL: ClassSet = SIGN | OTHER | MARK;
/// `[\p{L}\p{M}]`
pub(super) const WORD: ClassSet = LETTER | MARK;
/// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
const CAPITAL: ClassSet = UPPER | UNCASED | MARK;
/// `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
const SMALL: ClassSet = LOWER | UNCASED | MARK;

/// Splits by a named pattern, character by character.
///
/// It handles the texts that masks cannot decide, and it is the reference in tests of the masks.
pub(super) struct Walk {
    pub(super) pattern: Named,
    classes: &'static Classes,
}

/// A maximal run of white space, as offsets into the text.
struct White {
    end: usize,
    /// The start of its last character.
    last: usize,
    /// The end of its last newline.
    newline: Option<usize>,
}

impl Walk {
    pub(super) fn new(pattern: Named) -> Walk {
        Walk { pattern, classes: Classes::get() }
    }

    /// Returns the end of the pre-token that starts at `at`.
    #[inline]
    pub(super) fn pretoken_end(&self, text: &[u8], at: usize) -> usize {
        match self.pattern {
            Named::Gpt2 => self.gpt2(text, at),
            Named::Gpt4 => self.gpt4(text, at, 3, false),
            Named::Cl100k => self.gpt4(text, at, 3, true),
            Named::O200k => self.o200k(text, at),
            Named::Nanochat => self.gpt4(text, at, 2, false),
            Named::Qwen2 => self.gpt4(text, at, 1, false),
            Named::DeepSeekV3 => self.deepseek(text, at),
        }
    }

    /// Returns the class of the character at `at`, and the offset of the next one. The class is 0 at the end of the
    /// text, and [`SIGN`] for invalid UTF-8.
    #[inline]
    pub(super) fn class(&self, text: &[u8], at: usize) -> (ClassSet, usize) {
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
    pub(super) fn wide_class(&self, text: &[u8], at: usize) -> Option<(ClassSet, usize)> {
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
    fn white(&self, text: &[u8], at: usize) -> White {
        let mut white = White { end: at, last: at, newline: None };
        loop {
            let (class, next) = self.class(text, white.end);
            if class & WHITE == 0 {
                return white;
            }
            if class & NEWLINE != 0 {
                white.newline = Some(next);
            }
            (white.last, white.end) = (white.end, next);
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
            give_back(text, at, &self.white(text, at))
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
        let white = self.white(text, at);
        if whole_tail && white.end == text.len() {
            return white.end;
        }
        white.newline.unwrap_or_else(|| give_back(text, at, &white))
    }

    /// GPT-4o's pattern.
    #[inline]
    fn o200k(&self, text: &[u8], at: usize) -> usize {
        let byte = text[at];
        let (first, next) = self.class(text, at);
        if let Some(end) = self.cased_word(text, at, first, next) {
            let apostrophe = text.get(end) == Some(&b'\'');
            return apostrophe.then(|| contraction(text, end, true)).flatten().unwrap_or(end);
        }
        if first & NUMBER != 0 {
            return self.digits(text, next, 3);
        }
        if let Some(end) = self.symbols(text, byte, (first, next), self.class(text, next)) {
            return skip(text, end, b"\r\n/");
        }
        let white = self.white(text, at);
        white.newline.unwrap_or_else(|| give_back(text, at, &white))
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
        let part = Part { walk: self, text, han: first & HAN };
        let (second, after) = part.class(next);
        if text[at].is_ascii_punctuation() && text.get(next).is_some_and(u8::is_ascii_alphabetic) {
            let letters = text[next..].iter().take_while(|byte| byte.is_ascii_alphabetic());
            return next + letters.count();
        }
        if first & (NEWLINE | LETTER | SIGN) == 0 && second & WORD != 0 {
            return part.run(after, WORD);
        }
        if first & WORD != 0 {
            return part.run(next, WORD);
        }
        if first & OTHER != 0 {
            return part.gap(at);
        }
        if first & SIGN != 0 || text[at] == b' ' && second & SIGN != 0 {
            let end = part.run(next, SIGN);
            return if part.han == 0 { skip(text, end, b"\r\n") } else { end };
        }
        let white = self.white(text, at);
        let at_end = part.class(white.end).0 == 0;
        white.newline.unwrap_or_else(|| if at_end { white.end } else { give_back(text, at, &white) })
    }

    /// `\p{N}{1,most}`, where the first digit has been matched and `at` is the offset after it.
    fn digits(&self, text: &[u8], mut at: usize, most: usize) -> usize {
        for _ in 1..most {
            let (class, next) = self.class(text, at);
            if class & NUMBER == 0 {
                break;
            }
            at = next;
        }
        at
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
}

/// A section of a text that DeepSeek's pattern splits on its own: either Chinese and Japanese characters, or
/// characters that are neither these nor numbers.
struct Part<'a> {
    walk: &'a Walk,
    text: &'a [u8],
    han: ClassSet,
}

impl Part<'_> {
    /// Returns the class of the character at `at`, and the offset of the next one. The class is 0 outside the
    /// section.
    fn class(&self, at: usize) -> (ClassSet, usize) {
        let (class, next) = self.walk.class(self.text, at);
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
    fn gap(&self, mut at: usize) -> usize {
        loop {
            let (class, next) = self.class(at);
            if class & OTHER == 0 || self.class(next).0 & WORD != 0 {
                return at;
            }
            at = next;
        }
    }
}

/// `\s+(?!\S)|\s+`: returns the end of white space without its last character. The last character stays if the text
/// ends after it, or if it is the only one.
#[inline]
fn give_back(text: &[u8], at: usize, white: &White) -> usize {
    if white.end == text.len() || white.last == at { white.end } else { white.last }
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
