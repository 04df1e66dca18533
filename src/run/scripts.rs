//! Determines the main script of a text.

use std::sync::LazyLock;

use crate::base::int::to_usize;
use crate::split::class_ranges;

/// The scripts that are distinguished, and the character classes of their letters.
const SCRIPTS: [(&str, &str); 14] = [
    ("Latin", r"\p{Latin}"),
    ("Cyrillic", r"\p{Cyrillic}"),
    ("Greek", r"\p{Greek}"),
    ("Han", r"\p{Han}"),
    ("Japanese kana", r"[\p{Hiragana}\p{Katakana}]"),
    ("Hangul", r"\p{Hangul}"),
    ("Arabic", r"\p{Arabic}"),
    ("Hebrew", r"\p{Hebrew}"),
    ("Devanagari", r"\p{Devanagari}"),
    ("Bengali", r"\p{Bengali}"),
    ("Tamil", r"\p{Tamil}"),
    ("Thai", r"\p{Thai}"),
    ("Georgian", r"\p{Georgian}"),
    ("Armenian", r"\p{Armenian}"),
];

/// The name for letters of scripts that are not listed.
const OTHER: &str = "other scripts";
/// The name for texts without letters.
const NO_LETTERS: &str = "no letters";

/// The names of the results of [`main_script`], in order.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    SCRIPTS.iter().map(|(name, _)| *name).chain([OTHER, NO_LETTERS])
}

/// The index in [`names`] of the script to which most letters of a text belong. Of equals, the first in the list
/// wins. Japanese is recognized by its kana: if there are more than a quarter as many kana as Han characters, the Han
/// characters count as kana.
pub(super) fn main_script(text: &[u8]) -> usize {
    let mut letters = [0_u64; SCRIPTS.len() + 1];
    for chunk in text.utf8_chunks() {
        for letter in chunk.valid().chars().filter(|letter| letter.is_alphabetic()) {
            letters[script_of(letter)] += 1;
        }
    }
    let (han, kana) = (3, 4);
    if letters[kana] > letters[han] / 4 {
        letters[kana] += std::mem::take(&mut letters[han]);
    }
    let most = letters.iter().copied().max().unwrap_or(0);
    if most == 0 { letters.len() } else { letters.iter().position(|&count| count == most).unwrap_or(0) }
}

/// The index of the script of a letter.
fn script_of(letter: char) -> usize {
    /// First code point, last code point, and script, in ascending order.
    static RANGES: LazyLock<Vec<(usize, usize, usize)>> = LazyLock::new(|| {
        let of_script = |(script, (_, class)): (usize, &(&str, &str))| {
            class_ranges(class).into_iter().map(move |range| (*range.start(), *range.end(), script))
        };
        let mut ranges: Vec<_> = SCRIPTS.iter().enumerate().flat_map(of_script).collect();
        ranges.sort_unstable();
        ranges
    });
    if letter.is_ascii() {
        return 0;
    }
    let code = to_usize(u32::from(letter));
    let next = RANGES.partition_point(|&(_, last, _)| last < code);
    RANGES.get(next).filter(|&&(first, _, _)| first <= code).map_or(SCRIPTS.len(), |&(_, _, script)| script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_script_of_most_of_their_letters() {
        let name = |text: &str| names().nth(main_script(text.as_bytes())).unwrap();
        for (text, script) in [
            ("plain English, with a Я", "Latin"),
            ("пишем по-русски, with a word", "Cyrillic"),
            ("日本語の文章です。漢字も", "Japanese kana"),
            ("中文没有假名", "Han"),
            ("ᚠᚢᚦ", OTHER),
            ("12 + 3 = 15 🙂", NO_LETTERS),
            ("", NO_LETTERS),
        ] {
            assert_eq!(name(text), script, "{text}");
        }
        assert_eq!(main_script(b"\xFF\xFEabc\xE2\x82"), 0);
    }
}
