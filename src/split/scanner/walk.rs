use super::super::Named;
use super::super::classes::{
    ClassSet, Classes, HAN, LOWER, MARK, NEWLINE, NUMBER, OTHER, SIGN, SPACE, UNCASED, UPPER, decode,
};

pub(super) const LETTER: ClassSet = UPPER | LOWER | UNCASED;
pub(super) const WHITE: ClassSet = SPACE | NEWLINE;
/// `[^\s\p{L}\p{N}]`
pub(super) const SYMBOL: ClassSet = SIGN | OTHER | MARK;
/// `[\p{L}\p{M}]`
pub(super) const WORD: ClassSet = LETTER | MARK;
/// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
const CAPITAL: ClassSet = UPPER | UNCASED | MARK;
/// `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
const SMALL: ClassSet = LOWER | UNCASED | MARK;

/// Walks from character to character: for each pattern the rule that says where a piece that begins
/// here ends. Takes the most awkward texts, and is what the algebra of masks is compared with.
pub(super) struct Walk {
    pub(super) pattern: Named,
    classes: &'static Classes,
}

/// A longest run of white space.
struct White {
    end: usize,
    /// Where its last character begins.
    last: usize,
    /// Where its last newline ends.
    newline: Option<usize>,
}

impl Walk {
    pub(super) fn new(pattern: Named) -> Walk {
        Walk { pattern, classes: Classes::get() }
    }

    /// Where the piece ends that begins at `at`.
    #[inline]
    pub(super) fn piece_end(&self, text: &[u8], at: usize) -> usize {
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

    /// The class of the character at `at`, and where the next one begins.
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

    /// The class of a character that is no ASCII and where the next begins; `None` if it is not UTF-8.
    pub(super) fn wide_class(&self, text: &[u8], at: usize) -> Option<(ClassSet, usize)> {
        let (code, next) = decode(text, at);
        Some((self.classes.of_code(code?), next))
    }

    /// Where the run of characters of `set` that stands at `at` ends.
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

    /// GPT-4's pattern, with at most `digits` digits together. With `whole_tail`, cl100k's: white space
    /// at the end of the text is one piece.
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

    /// `[^\r\n\p{L}\p{N}]?[CAPITAL]*[SMALL]+|[^\r\n\p{L}\p{N}]?[CAPITAL]+[SMALL]*`, where `first`
    /// is the class at `at` and `next` the place after it.
    ///
    /// Marks and letters without case are in both sets, so the capitals give back to the last of them
    /// if no lower-case letter follows; and a mark can be the character before the word or its start.
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

    /// DeepSeek's: groups of digits, then Chinese and Japanese, then the rest, which end at each other as
    /// they end with the text.
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

    /// `\p{N}{1,most}`, of which the first digit is taken and the next place given.
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

    /// ` ?[^\s\p{L}\p{N}]+`, given the first two characters' classes and the places after them.
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

/// A part of a text that DeepSeek's pattern cuts on its own: Chinese and Japanese, or what is neither these
/// nor a number.
struct Part<'a> {
    walk: &'a Walk,
    text: &'a [u8],
    han: ClassSet,
}

impl Part<'_> {
    /// The class of the character at `at`, 0 outside the part, and where the next one begins.
    fn class(&self, at: usize) -> (ClassSet, usize) {
        let (class, next) = self.walk.class(self.text, at);
        if class & NUMBER != 0 || class & HAN != self.han { (0, at) } else { (class, next) }
    }

    fn run(&self, mut at: usize, set: ClassSet) -> usize {
        loop {
            let (class, next) = self.class(at);
            if class & set == 0 {
                return at;
            }
            at = next;
        }
    }

    /// Where the characters end that no match takes, which begin at `at`: the last of them goes with a
    /// word that follows.
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

/// `\s+(?!\S)|\s+`: all of the white space if the text ends there, else without its last character,
/// unless that is the only one.
#[inline]
fn give_back(text: &[u8], at: usize, white: &White) -> usize {
    if white.end == text.len() || white.last == at { white.end } else { white.last }
}

/// Where the contraction ends whose apostrophe stands at `at`. In any case, U+017F is an s.
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

/// The first place from `at` on whose byte is none of `bytes`.
fn skip(text: &[u8], mut at: usize, bytes: &[u8]) -> usize {
    while text.get(at).is_some_and(|byte| bytes.contains(byte)) {
        at += 1;
    }
    at
}
