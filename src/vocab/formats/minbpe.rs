//! minbpe's `.model` files, and the `.vocab` files that it writes for people.
//!
//! A `.model` has these lines: `minbpe v1`; the split pattern (empty for none); the number of special tokens; a line
//! `TEXT ID` for each of them; and a line `LEFT RIGHT` for each merge, with the ids of its parts. Bytes have the ids
//! 0–255, and merge k makes token 256 + k.

use std::fmt::Write;
use std::path::Path;

use crate::base::int::{TokenId, truncate_to_u32, u64_to_usize};
use crate::error::{Error, Result, excerpt};
use crate::split::SplitPattern;
use crate::vocab::derivation::check;
use crate::vocab::format::{EQUAL_RANKS, Format, IGNORES_MERGES, cannot_hold, expected, only_hf_holds};
use crate::vocab::io::{LoadOptions, MAX_FILE_BYTES, Rendered, read_text};
use crate::vocab::text_rules::AddedToken;
use crate::vocab::vocabulary::{RankedMerge, TokenList, Vocabulary, VocabularyParts};

/// The first line of a `.model`. A file of another version is refused.
const VERSION: &str = "minbpe v1";

/// Maximum number of bytes of all tokens together. A few lines can each double a token's length, so a short file could
/// otherwise exhaust the memory.
const MAX_TOKEN_BYTES: usize = u64_to_usize(MAX_FILE_BYTES);

/// Reads a `.model`. The `.vocab` is not needed.
///
/// # Errors
/// The file cannot be read, is damaged, or contradicts the options.
pub(in crate::vocab) fn load(path: &Path, options: &LoadOptions) -> Result<Vocabulary> {
    let text = read_text(path)?;
    let parts = read(&text, options).and_then(|parts| parts.build());
    parts.map_err(|error| error.at(path.display()))
}

/// Parses the content of a `.model`.
///
/// # Errors
/// The first line that is not as expected, or the options name another split.
fn read(text: &str, options: &LoadOptions) -> Result<VocabularyParts> {
    let mut lines = (1..).zip(text.lines().map(trim));
    let mut next = |expected| {
        lines.next().ok_or_else(|| {
            let line = text.lines().count() + 1;
            Error::failed(format!("line {line}: {expected} expected, but the file ends"))
        })
    };
    let (line, version) = next(VERSION)?;
    if version != VERSION {
        return Err(expected(line, VERSION, version));
    }
    let split = match next("a split pattern")?.1 {
        "" => SplitPattern::None,
        regex => SplitPattern::from_regex(regex),
    };
    const COUNT: &str = "the number of special tokens";
    let (line, count) = next(COUNT)?;
    let count: u32 = count.parse().map_err(|_| expected(line, COUNT, count))?;
    let mut specials = Vec::new();
    for _ in 0..count {
        const SPECIAL: &str = "a special token and its id";
        let (line, entry) = next(SPECIAL)?;
        specials.push(special(entry).ok_or_else(|| expected(line, SPECIAL, entry))?);
    }
    let (tokens, merges) = merges(lines)?;
    let split = options.same_split(split)?;
    Ok(VocabularyParts { tokens, added: specials, merges, split, ..VocabularyParts::default() })
}

/// Reads a special token and its id from a line. `None` if the line does not have exactly these two fields. A text
/// with white space is therefore impossible.
fn special(line: &str) -> Option<AddedToken> {
    let mut fields = line.split(is_space).filter(|field| !field.is_empty());
    let (text, id) = (fields.next()?, fields.next()?.parse().ok()?);
    fields.next().is_none().then(|| AddedToken::special(TokenId::new(id), text))
}

/// Reads merges as pairs of ids. Each makes the next id, from 256 on.
///
/// The tokens include the 256 bytes, so their indices are their ids.
///
/// # Errors
/// A line does not have two ids of earlier tokens, or the tokens become too long together.
fn merges<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Result<(TokenList, Vec<RankedMerge>)> {
    let mut tokens: TokenList =
        (0..=255u8).map(|byte| (TokenId::new(u32::from(byte)), Box::from([byte]))).collect();
    let mut merges = Vec::new();
    let mut bytes = tokens.len();
    for (number, line) in lines {
        let wrong = || expected(number, "the ids of two tokens made before", line);
        let mut ids = line.split_ascii_whitespace().map(|id| id.parse().map(TokenId::new));
        let (Some(Ok(left)), Some(Ok(right)), None) = (ids.next(), ids.next(), ids.next()) else {
            return Err(wrong());
        };
        let part = |id: TokenId| tokens.get(id.index()).map(|(_, bytes)| &**bytes).ok_or_else(wrong);
        let (start, end) = (part(left)?, part(right)?);
        bytes += start.len() + end.len();
        if bytes > MAX_TOKEN_BYTES {
            return Err(Error::failed(format!("the tokens have more than {MAX_TOKEN_BYTES} bytes in total")));
        }
        let token = [start, end].concat().into_boxed_slice();
        let result = TokenId::from_index(tokens.len());
        merges.push(RankedMerge { left, right, result, rank: truncate_to_u32(merges.len()) });
        tokens.push((result, token));
    }
    Ok((tokens, merges))
}

/// Writes the `.model` and the `.vocab`.
///
/// # Errors
/// The format cannot hold the vocabulary.
pub(in crate::vocab) fn render(vocabulary: &Vocabulary) -> Result<Rendered> {
    limits(vocabulary)?;
    Ok([model(vocabulary).into_bytes(), for_people(vocabulary).into_bytes()])
}

/// Refuses a vocabulary that a `.model` cannot express: ids and merges must follow from the order of the lines.
///
/// # Errors
/// The first property found that the format has no place for.
fn limits(vocabulary: &Vocabulary) -> Result<()> {
    vocabulary.check_not_hf_only(Format::Minbpe)?;
    let cannot = |problem: String| Err(only_hf_holds(Format::Minbpe, problem));
    if let Some(&byte) = vocabulary.missing_bytes.first() {
        return cannot(format!("byte 0x{byte:02X} has no token; it must be token {byte}"));
    }
    for (byte, &id) in (0..=255u8).zip(&vocabulary.byte_ids) {
        if id.get() != u32::from(byte) {
            return cannot(format!("byte 0x{byte:02X} is token {id}; it must be token {byte}"));
        }
    }
    if !vocabulary.merges.is_sorted_by(|earlier, later| earlier.rank < later.rank) {
        return Err(cannot_hold(Format::Minbpe, EQUAL_RANKS));
    }
    for (index, merge) in vocabulary.merges.iter().enumerate() {
        let (number, id, expected) = (index + 1, merge.result, 256 + index);
        if id.index() != expected {
            return cannot(format!("merge {number} makes token {id}; it must make token {expected}"));
        }
        if let Some(id) = [merge.left, merge.right].into_iter().find(|id| id.index() >= expected) {
            return cannot(format!("merge {number} uses token {id}, which no earlier merge makes"));
        }
    }
    let made = 256 + vocabulary.merges.len();
    if let Some((id, _)) = vocabulary.ordinary().find(|(id, _)| id.index() >= made) {
        return cannot(format!("no merge makes token {id}"));
    }
    if vocabulary.ignore_merges && check(vocabulary).not_self_encoding > 0 {
        return cannot(IGNORES_MERGES.to_owned());
    }
    if let Some(special) = vocabulary.added.iter().find(|special| special.text.contains(is_space)) {
        return cannot(format!("special token {} contains white space", excerpt(&special.text)));
    }
    let pattern = pattern(vocabulary);
    if trim(pattern) != pattern || pattern.contains(['\n', '\r']) {
        return cannot("the split pattern begins or ends with white space, or has a line break".to_owned());
    }
    Ok(())
}

/// Returns the pattern line. minbpe's tokenizer without a split writes an empty pattern.
fn pattern(vocabulary: &Vocabulary) -> &str {
    match &vocabulary.split {
        SplitPattern::None => "",
        split => split.regex().unwrap_or_default(),
    }
}

/// Returns the content of the `.model`. It may only be called if [`limits`] allows the vocabulary.
fn model(vocabulary: &Vocabulary) -> String {
    let mut text = format!("{VERSION}\n{}\n{}\n", pattern(vocabulary), vocabulary.added.len());
    for special in &vocabulary.added {
        line(&mut text, format_args!("{} {}", special.text, special.id));
    }
    for merge in &vocabulary.merges {
        line(&mut text, format_args!("{} {}", merge.left, merge.right));
    }
    text
}

/// Returns the content of the `.vocab`: each token as readable text, with its parts if a merge makes it. Invalid
/// UTF-8 is replaced, so the file cannot be read back.
fn for_people(vocabulary: &Vocabulary) -> String {
    let shown = |id| readable(vocabulary.bytes(id).unwrap_or_default());
    let mut merges = vocabulary.merges.iter().peekable();
    let mut text = String::new();
    for (id, bytes) in vocabulary.tokens() {
        match merges.next_if(|merge| merge.result == id) {
            None => line(&mut text, format_args!("[{}] {id}", readable(bytes))),
            Some(merge) => {
                let (left, right) = (shown(merge.left), shown(merge.right));
                line(&mut text, format_args!("[{left}][{right}] -> [{}] {id}", readable(bytes)));
            }
        }
    }
    text
}

/// Appends a line with its line break.
fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("a string takes everything");
}

/// Returns bytes as text with control characters escaped. Invalid UTF-8 becomes U+FFFD.
fn readable(bytes: &[u8]) -> String {
    let mut text = String::new();
    for character in String::from_utf8_lossy(bytes).chars() {
        match character.is_control() {
            true => write!(text, "\\u{:04x}", u32::from(character)).expect("a string takes everything"),
            false => text.push(character),
        }
    }
    text
}

/// Returns whether Python's `strip` and `split`, with which minbpe reads files, treat a character as white space.
fn is_space(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\u{1C}'..='\u{1F}')
}

/// Removes white space from both ends of a line, as Python's `strip` does.
fn trim(text: &str) -> &str {
    text.trim_matches(is_space)
}
