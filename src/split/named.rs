//! The named patterns: their regular expressions, and the spellings that are recognised as one of them.

/// The named patterns. Each splits exactly like its [regular expression](NamedPattern::regex).
///
/// ```
/// use tokenmill::split::{NamedPattern, SplitPattern, splitter};
///
/// let pretokens = |pattern: NamedPattern| -> Result<usize, tokenmill::Error> {
///     let mut ends = Vec::new();
///     splitter(&SplitPattern::Named(pattern))?.pretoken_ends(b"It's 2024", &mut ends)?;
///     Ok(ends.len())
/// };
/// assert_eq!(pretokens(NamedPattern::Gpt2)?, 3); // It 's ␣2024
/// assert_eq!(pretokens(NamedPattern::Gpt4)?, 5); // It 's ␣ 202 4
/// assert_eq!(pretokens(NamedPattern::O200k)?, 4); // It's ␣ 202 4
/// assert_eq!(pretokens(NamedPattern::Qwen2)?, 7); // It 's ␣ 2 0 2 4
/// assert_eq!(pretokens(NamedPattern::Gpt4DigitsRtl)?, 5); // It 's ␣ 2 024
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NamedPattern {
    /// GPT-2's pattern.
    Gpt2,
    /// GPT-4's pattern as Hugging Face, rustbpe and minbpe write it. Llama 3 uses the same.
    Gpt4,
    /// The current cl100k pattern of tiktoken. It differs from `Gpt4` at the end of a text: it keeps all white space
    /// there as one pre-token.
    Cl100k,
    /// GPT-4o's pattern.
    O200k,
    /// nanochat's pattern: GPT-4's with groups of at most two digits.
    Nanochat,
    /// The pattern of Qwen 2 and 2.5: GPT-4's with single digits. Its other name is `gpt4-digit`.
    Qwen2,
    /// DeepSeek V3's pattern, three splits in a row: numbers, then Chinese and Japanese, then the rest.
    DeepSeekV3,
    /// GPT-4's pattern with groups of three digits that are counted from the right: 1234567 is 1, 234, 567.
    Gpt4DigitsRtl,
    /// GPT-4o's pattern with groups of three digits that are counted from the right.
    O200kDigitsRtl,
    /// GPT-4o's pattern with single digits.
    O200kDigit,
    /// The pattern of the second stage of SuperBPE: it splits only at numbers, at two and more signs, and at several
    /// spaces, so that tokens can have several words.
    Superword,
}

/// GPT-2's pattern in a shorter spelling.
const GPT2: &str = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// GPT-2's pattern character for character as its origin writes it: `tokenizers` 1.0 recognises only this spelling.
const GPT2_PUBLISHED: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// GPT-4's pattern with another expression for digits, in the spelling of Hugging Face.
macro_rules! gpt4 {
    ($digits:expr) => {
        concat!(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|",
            $digits,
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        )
    };
}
/// GPT-4's pattern.
const GPT4: &str = gpt4!(r"\p{N}{1,3}");
/// Groups of three digits from the right: after a group, the number of digits left is a multiple of three.
macro_rules! digits_rtl {
    () => {
        r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))"
    };
}
/// GPT-4's pattern with groups of digits from the right.
const GPT4_DIGITS_RTL: &str = gpt4!(digits_rtl!());
/// nanochat's pattern.
const NANOCHAT: &str = gpt4!(r"\p{N}{1,2}");
/// The pattern of Qwen 2.
const QWEN2: &str = gpt4!(r"\p{N}");
/// The present spelling of tiktoken, with possessive repetitions.
const CL100K: &str = concat!(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+",
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
);
/// cl100k in Oniguruma's dialect, without possessive repetitions and without `$`, which mean something else there.
const CL100K_ONIGURUMA: &str = concat!(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+\z|\s*[\r\n]|\s+(?!\S)|\s",
);
/// GPT-4o's pattern with another expression for digits.
macro_rules! o200k {
    ($digits:expr) => {
        concat!(
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
            $digits,
            r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        )
    };
}
/// GPT-4o's pattern.
const O200K: &str = o200k!(r"\p{N}{1,3}");
/// GPT-4o's pattern with groups of digits from the right.
const O200K_DIGITS_RTL: &str = o200k!(digits_rtl!());
/// GPT-4o's pattern with single digits.
const O200K_DIGIT: &str = o200k!(r"\p{N}");
/// The expressions of DeepSeek's `tokenizer.json`. Each splits the pre-tokens of the previous one.
const DEEPSEEK_V3: [&str; 3] = [
    r"\p{N}{1,3}",
    "[一-龥\u{3040}-ゟ゠-ヿ]+",
    concat!(
        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^"##,
        "\r\n",
        r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[",
        "\r\n",
        r"]*|\s*[",
        "\r\n",
        r"]+|\s+(?!\S)|\s+",
    ),
];
/// The three expressions of DeepSeek in one. Chinese and Japanese characters have alternatives of their own. White
/// space before them, and before numbers, is treated like white space at the end of a text. The last alternative
/// matches the text that the three expressions leave over, for example control characters, because tiktoken drops
/// unmatched text.
const DEEPSEEK_V3_AT_ONCE: &str = concat!(
    r##"\p{N}{1,3}|[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"##,
    r"|[^\r\n\p{L}\p{N}\p{P}\p{S}\u4E00-\u9FA5\u3040-\u30FF]?(?:(?![\u4E00-\u9FA5\u3040-\u30FF])[\p{L}\p{M}])+",
    r"|[\u3040\u3097\u3098\u3099\u309A]?(?:(?=[\u4E00-\u9FA5\u3040-\u30FF])[\p{L}\p{M}])+",
    r"| ?(?:(?![\u3040-\u30FF])[\p{P}\p{S}])+[\r\n]*|(?:(?=[\u3040-\u30FF])[\p{P}\p{S}])+",
    r"|[\u3040\u3097\u3098]+?(?=[\u3040\u3097\u3098](?=[\u4E00-\u9FA5\u3040-\u30FF])[\p{L}\p{M}])|[\u3040\u3097\u3098]+",
    r"|\s*[\r\n]+|\s+(?![^\s\p{N}\u4E00-\u9FA5\u3040-\u30FF])|\s+",
    r"|[^\s\p{L}\p{M}\p{N}\p{P}\p{S}\u4E00-\u9FA5\u3040-\u30FF]+(?!(?![\u4E00-\u9FA5\u3040-\u30FF])[\p{L}\p{M}])",
);

/// What SuperBPE's second stage matches. Text between two matches is a pre-token, too.
macro_rules! superword {
    () => {
        r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]{2,}[\r\n/]*| +(?!\S)"
    };
}
/// SuperBPE's pattern as its origin publishes it.
const SUPERWORD: &str = superword!();
/// The same with an alternative for the text between two matches, because tiktoken drops unmatched text.
const SUPERWORD_COVERING: &str = concat!(superword!(), r"|(?s:(?!\p{N}| ?[^\s\p{L}\p{N}]{2}| +(?!\S)).)++");

impl NamedPattern {
    /// All named patterns.
    pub const ALL: [NamedPattern; 11] = [
        NamedPattern::Gpt2,
        NamedPattern::Gpt4,
        NamedPattern::Cl100k,
        NamedPattern::O200k,
        NamedPattern::Nanochat,
        NamedPattern::Qwen2,
        NamedPattern::DeepSeekV3,
        NamedPattern::Gpt4DigitsRtl,
        NamedPattern::O200kDigitsRtl,
        NamedPattern::O200kDigit,
        NamedPattern::Superword,
    ];

    /// Returns the name, the expression, and the expressions of the origin's `tokenizer.json`.
    const fn published(self) -> (&'static str, &'static str, &'static [&'static str]) {
        match self {
            NamedPattern::Gpt2 => ("gpt2", GPT2, &[GPT2_PUBLISHED]),
            NamedPattern::Gpt4 => ("gpt4", GPT4, &[GPT4]),
            NamedPattern::Cl100k => ("cl100k", CL100K, &[CL100K_ONIGURUMA]),
            NamedPattern::O200k => ("o200k", O200K, &[O200K]),
            NamedPattern::Nanochat => ("nanochat", NANOCHAT, &[NANOCHAT]),
            NamedPattern::Qwen2 => ("qwen2", QWEN2, &[QWEN2]),
            NamedPattern::DeepSeekV3 => ("deepseek-v3", DEEPSEEK_V3_AT_ONCE, &DEEPSEEK_V3),
            NamedPattern::Gpt4DigitsRtl => ("gpt4-digits-rtl", GPT4_DIGITS_RTL, &[GPT4_DIGITS_RTL]),
            NamedPattern::O200kDigitsRtl => ("o200k-digits-rtl", O200K_DIGITS_RTL, &[O200K_DIGITS_RTL]),
            NamedPattern::O200kDigit => ("o200k-digit", O200K_DIGIT, &[O200K_DIGIT]),
            NamedPattern::Superword => ("superword", SUPERWORD_COVERING, &[SUPERWORD]),
        }
    }

    /// Returns the name, as recipes write it.
    ///
    /// ```
    /// use tokenmill::split::{NamedPattern, SplitPattern};
    ///
    /// assert_eq!(NamedPattern::DeepSeekV3.name(), "deepseek-v3");
    /// assert_eq!("deepseek-v3".parse::<SplitPattern>().unwrap(), SplitPattern::Named(NamedPattern::DeepSeekV3));
    /// ```
    pub const fn name(self) -> &'static str {
        self.published().0
    }

    /// Returns the regular expression, as its origin publishes it; only DeepSeek's three are combined into one, and
    /// SuperBPE's has one more alternative, for the text between matches. The patterns with other groups of digits than
    /// GPT-4's and GPT-4o's have no origin. The expression is in the dialect of fancy-regex, tiktoken and Python's
    /// `regex`, and it matches every text without a gap.
    pub const fn regex(self) -> &'static str {
        self.published().1
    }

    /// Returns the expressions of the origin's `tokenizer.json`, in Oniguruma's dialect. Applied in a row, each to
    /// the pre-tokens of the previous one, they split like [`regex`](NamedPattern::regex).
    ///
    /// ```
    /// use tokenmill::split::NamedPattern;
    ///
    /// assert_eq!(NamedPattern::Qwen2.steps(), [NamedPattern::Qwen2.regex()]);
    /// assert_eq!(NamedPattern::DeepSeekV3.steps().len(), 3); // numbers, Chinese and Japanese, the rest
    /// ```
    pub const fn steps(self) -> &'static [&'static str] {
        self.published().2
    }

    /// Recognises a known spelling of a named pattern.
    ///
    /// Programs publish the same pattern with other groups, and with possessive repetitions where these match alike.
    /// So an expression is compared alternative by alternative with all spellings that split alike.
    pub(super) fn recognised(text: &str, dialect: Dialect) -> Option<NamedPattern> {
        if text == DEEPSEEK_V3_AT_ONCE {
            return Some(NamedPattern::DeepSeekV3);
        }
        // Both mean something else in Oniguruma: there `{1,3}+` repeats the group of digits, and `$` ends every line.
        if dialect == Dialect::Oniguruma && [",2}+", ",3}+", "$"].iter().any(|part| text.contains(part)) {
            return None;
        }
        let known: [(NamedPattern, &[Spellings]); 10] = [
            (NamedPattern::Superword, &[&[SUPERWORD, SUPERWORD_COVERING]]),
            (NamedPattern::O200k, &[&[O200K]]),
            (NamedPattern::O200kDigitsRtl, &[&[O200K_DIGITS_RTL]]),
            (NamedPattern::O200kDigit, &[&[O200K_DIGIT]]),
            (NamedPattern::Gpt2, &GPT2_SPELLINGS),
            (NamedPattern::Gpt4, &[CONTRACTION, WORD, THREE_DIGITS, PUNCTUATION, GPT4_SPACE]),
            (NamedPattern::Cl100k, &[CONTRACTION, WORD, THREE_DIGITS, PUNCTUATION, CL100K_SPACE]),
            (NamedPattern::Nanochat, &[CONTRACTION, WORD, TWO_DIGITS, PUNCTUATION, GPT4_SPACE]),
            (NamedPattern::Qwen2, &[CONTRACTION, WORD, ONE_DIGIT, PUNCTUATION, GPT4_SPACE]),
            (NamedPattern::Gpt4DigitsRtl, &[CONTRACTION, WORD, RTL_DIGITS, PUNCTUATION, GPT4_SPACE]),
        ];
        known.into_iter().find(|(_, alternatives)| is_spelling(text, alternatives)).map(|(named, _)| named)
    }
}

/// A dialect of regular expressions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// That of fancy-regex, tiktoken and Python's `regex`.
    Rust,
    /// That of Hugging Face's tokenizers.
    Oniguruma,
}

/// Spellings of one alternative that split alike, given the other alternatives of its pattern.
type Spellings = &'static [&'static str];

/// The alternatives of GPT-2's pattern.
const GPT2_SPELLINGS: [Spellings; 5] = [
    &[r"'(?:[sdmt]|ll|ve|re)", r"'s|'t|'re|'ve|'m|'ll|'d"],
    &[r" ?\p{L}+", r" ?\p{L}++"],
    &[r" ?\p{N}+", r" ?\p{N}++"],
    &[r" ?[^\s\p{L}\p{N}]+", r" ?[^\s\p{L}\p{N}]++"],
    &[r"\s+(?!\S)|\s+", r"\s+(?!\S)|\s", r"\s++$|\s+(?!\S)|\s"],
];
/// Contractions, in any case. The apostrophe has no case, so it can be outside the group.
const CONTRACTION: Spellings = &[r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"'(?i:[sdmt]|ll|ve|re)"];
/// Words, with the character before them. The two parts share no characters, so possessive repetitions match alike.
const WORD: Spellings =
    &[r"[^\r\n\p{L}\p{N}]?\p{L}+", r"[^\r\n\p{L}\p{N}]?+\p{L}+", r"[^\r\n\p{L}\p{N}]?+\p{L}++"];
/// Punctuation, with the space before it and the newlines after it.
const PUNCTUATION: Spellings =
    &[r" ?[^\s\p{L}\p{N}]+[\r\n]*", r" ?[^\s\p{L}\p{N}]++[\r\n]*", r" ?[^\s\p{L}\p{N}]++[\r\n]*+"];
/// Groups of at most three digits.
const THREE_DIGITS: Spellings = &[r"\p{N}{1,3}", r"\p{N}{1,3}+"];
/// Groups of at most two digits.
const TWO_DIGITS: Spellings = &[r"\p{N}{1,2}", r"\p{N}{1,2}+"];
/// Groups of three digits from the right.
const RTL_DIGITS: Spellings = &[digits_rtl!(), r"\p{N}{1,3}(?=(\p{N}{3})*(?!\p{N}))"];
/// Single digits.
const ONE_DIGIT: Spellings = &[r"\p{N}"];
/// White space. `\s*` takes all newlines but the last, so `[\r\n]` and `[\r\n]+` match alike. The last alternative is
/// tried only for a single character, so `\s` and `\s+` match alike.
const GPT4_SPACE: Spellings = &[
    r"\s*[\r\n]+|\s+(?!\S)|\s+",
    r"\s*[\r\n]|\s+(?!\S)|\s+",
    r"\s*[\r\n]+|\s+(?!\S)|\s",
    r"\s*[\r\n]|\s+(?!\S)|\s",
];
/// White space of cl100k, where white space at the end of the text comes first.
const CL100K_SPACE: Spellings =
    &[r"\s++$|\s*[\r\n]|\s+(?!\S)|\s", r"\s+$|\s*[\r\n]|\s+(?!\S)|\s", r"\s+\z|\s*[\r\n]|\s+(?!\S)|\s"];

/// Returns whether `text` consists of one spelling of each alternative, in order, joined by `|`.
fn is_spelling(text: &str, alternatives: &[Spellings]) -> bool {
    let Some((first, others)) = alternatives.split_first() else { return false };
    first.iter().filter_map(|spelling| text.strip_prefix(spelling)).any(|rest| match rest.strip_prefix('|') {
        Some(rest) => is_spelling(rest, others),
        None => rest.is_empty() && others.is_empty(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::tests::{custom, pretokens};
    use crate::split::{SplitPattern, splitter};

    #[test]
    fn published_spellings_are_recognised() {
        let cases = [
            // Hugging Face's ByteLevel and GPT-2's own.
            (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", "gpt2"),
            // tiktoken's r50k.
            (r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s", "gpt2"),
            // minbpe.
            (
                r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
                "gpt4",
            ),
            // rustbpe.
            (
                r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
                "gpt4",
            ),
            // nanochat.
            (
                r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
                "nanochat",
            ),
            // Llama 3 and Qwen 2.5.
            (
                r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
                "gpt4",
            ),
            (
                r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
                "qwen2",
            ),
            ("(?s:.+)", "none"),
            (r"\p{L}+", r"\p{L}+"),
        ];
        let texts = [
            "It's 12345 o'clock!\r\n\n  DON'T  \n",
            "a\n\n",
            "x   \n\n  ",
            " \u{17F}'\u{17F} ½½½½\n \n!\n\n\r ",
        ];
        for (regex, name) in cases {
            let pattern = SplitPattern::from_regex(regex);
            assert_eq!(pattern.to_string(), name, "{regex}");
            let (known, oracle) = (splitter(&pattern).expect("a pattern"), custom(regex));
            for text in texts {
                assert_eq!(
                    pretokens(known.as_ref(), text.as_bytes()),
                    pretokens(oracle.as_ref(), text.as_bytes()),
                    "{regex}"
                );
            }
        }
    }

    /// The expressions must match every text, because tiktoken drops unmatched text.
    #[test]
    fn named_expressions_match_every_text() {
        let text: String = ('\0'..=char::MAX).collect();
        for pattern in NamedPattern::ALL {
            let regex = fancy_regex::Regex::new(pattern.regex()).expect("named patterns are right");
            let mut end = 0;
            for found in regex.find_iter(&text) {
                let found = found.expect("these patterns do not backtrack far");
                assert_eq!(found.start(), end, "{pattern:?}");
                end = found.end();
            }
            assert_eq!(end, text.len(), "{pattern:?}");
        }
    }
}
