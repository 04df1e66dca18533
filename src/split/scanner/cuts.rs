//! Safe split points of the named patterns.

use std::ops::RangeInclusive;

use super::super::Named;
use super::super::classes::{ClassSet, HAN, MARK, NEWLINE, NUMBER, OTHER, SIGN, SPACE};
use super::walk::{LETTER, SYMBOL, WHITE, WORD, Walk};

/// What a split before or after a character depends on.
#[derive(Clone, Copy)]
struct Beside {
    class: ClassSet,
    /// The first byte of the character.
    byte: u8,
}

impl Walk {
    /// Returns the last safe split point within `places`: a position between two characters that are never in one
    /// pre-token, in any text.
    ///
    /// A position after white space never counts: how white space is split depends on the text after it. White
    /// space is the only text for which the patterns look ahead.
    pub(super) fn safe_split_point(&self, text: &[u8], places: RangeInclusive<usize>) -> Option<usize> {
        let last = text.len().checked_sub(1)?.min(*places.end());
        (1.max(*places.start())..=last).rev().find(|at| {
            let (before, after) = (self.character_before(text, *at), self.character_at(text, *at));
            before.zip(after).is_some_and(|(before, after)| self.cuts(before, after))
        })
    }

    /// Returns the character that starts at `at`; `None` if it is invalid UTF-8 or incomplete. The bytes around a
    /// complete character cannot change how it is read.
    #[inline]
    fn character_at(&self, text: &[u8], at: usize) -> Option<Beside> {
        let byte = text[at];
        let (class, _) = if byte.is_ascii() { self.class(text, at) } else { self.wide_class(text, at)? };
        Some(Beside { class, byte })
    }

    /// Returns the character that ends at `at`; `None` if it is invalid UTF-8 or incomplete.
    #[inline]
    fn character_before(&self, text: &[u8], at: usize) -> Option<Beside> {
        let byte = text[at - 1];
        if byte.is_ascii() {
            return self.character_at(text, at - 1);
        }
        let start = (at.saturating_sub(4)..at).rev().find(|start| text[*start] & 0xC0 != 0x80)?;
        let (class, end) = self.wide_class(text, start)?;
        (end == at).then_some(Beside { class, byte: text[start] })
    }

    /// Returns whether the pattern splits between two adjacent characters in every text.
    #[inline]
    fn cuts(&self, before: Beside, after: Beside) -> bool {
        let Beside { class: before, byte: first } = before;
        let Beside { class: after, byte: second } = after;
        if before & WHITE != 0 {
            return false;
        }
        let either = before | after;
        match self.pattern {
            Named::Gpt2 => {
                let kind = |class| [LETTER, NUMBER, SYMBOL, WHITE].map(|set| class & set != 0);
                let contraction = first == b'\'' && after & LETTER != 0;
                kind(before) != kind(after) && !contraction
            }
            Named::Gpt4 | Named::Cl100k | Named::Nanochat | Named::Qwen2 => {
                let set = match before {
                    class if class & LETTER != 0 => !LETTER,
                    class if class & NUMBER != 0 => !NUMBER,
                    _ => SPACE | NUMBER,
                };
                after & set & !HAN != 0
            }
            // A mark can belong to any character before it. Newlines can belong to signs before them, so the last set
            // below has none.
            Named::O200k if either & MARK != 0 => false,
            Named::O200k => match before {
                class if class & LETTER != 0 => {
                    after & (NUMBER | WHITE) != 0 || after & (SIGN | OTHER) != 0 && second != b'\''
                }
                class if class & NUMBER != 0 => after & NUMBER == 0,
                _ => after & (SPACE | NUMBER) != 0,
            },
            Named::DeepSeekV3 if (before ^ after) & (NUMBER | HAN) != 0 => true,
            Named::DeepSeekV3 => match before {
                class if class & WORD != 0 => after & (WHITE | SIGN) != 0,
                class if class & SIGN != 0 => after & (WHITE & !NEWLINE) != 0,
                _ => false,
            },
        }
    }
}
