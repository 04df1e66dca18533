//! What regular expressions mean in Oniguruma, which Hugging Face's tokenizers use, and what here.

use std::sync::LazyLock;

use super::fault::Fault;
use crate::error::{Error, Result};

/// The end of a line, in a spelling that means the same in both: the option concerns `$` here and only the
/// point there.
const LINE_END: &str = "(?m:$)";

/// Escapes that do not mean the same in both: classes, places, and what is a letter there.
const ESCAPES: [&str; 8] = [r"\w", r"\W", r"\b", r"\B", r"\R", r"\X", r"\<", r"\>"];

/// In a class: what is a range or two members there, and a difference of classes here.
const DIFFERENCES: [&str; 2] = ["--", "~~"];

/// What some characters are folded to where upper and lower case are alike, in lower case, and these characters: `ss`
/// and `ß`. There one matches the other, here it does not.
static FOLDED: LazyLock<Vec<String>> = LazyLock::new(|| {
    let folded =
        |c: char| (c, c.to_lowercase().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect());
    let longer =
        ('\0'..=char::MAX).map(folded).filter(|(_, folded): &(char, String)| folded.chars().nth(1).is_some());
    longer.flat_map(|(c, folded)| [c.to_string(), folded]).collect()
});

/// An expression of Oniguruma's as it is written here: `$`, which ends every line there, is spelled out.
///
/// # Errors
/// It uses what means something else here.
pub(super) fn translated(text: &str) -> Result<String> {
    let mut translated = String::with_capacity(text.len());
    walk(text, |part| match part {
        Part::Same(same) => {
            translated.push_str(same);
            Ok(())
        }
        Part::Different("$") => {
            translated.push_str(LINE_END);
            Ok(())
        }
        Part::Different(construct) => Err(refused(text, construct)),
    })?;
    Ok(translated)
}

/// The expression itself, if it means the same in both.
///
/// # Errors
/// It does not.
pub(super) fn same_in_both(text: &str) -> Result<&str> {
    walk(text, |part| match part {
        Part::Same(_) => Ok(()),
        Part::Different(construct) => Err(refused(text, construct)),
    })?;
    Ok(text)
}

fn refused(text: &str, construct: &str) -> Error {
    Fault::Dialect { pattern: text.to_owned(), construct: construct.to_owned() }.into()
}

/// A stretch of an expression.
enum Part<'a> {
    Same(&'a str),
    /// A construct that both engines accept and understand differently.
    Different(&'a str),
}

fn walk<'a>(text: &'a str, mut take: impl FnMut(Part<'a>) -> Result<()>) -> Result<()> {
    let mut class_depth = 0_usize;
    let ignores_case = ignores_case(text);
    // The characters just before, as far as each stands for itself.
    let mut literal = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if ignores_case {
            literal.extend(first.to_lowercase());
            if let Some(folded) = FOLDED.iter().find(|folded| literal.ends_with(&**folded)) {
                take(Part::Different(folded))?;
            }
            if "()[]{}|?*+.^$\\".contains(first) {
                literal.clear();
            }
        }
        let (length, different) = match first {
            '\\' => (escape(rest), is_another_escape(rest)),
            '-' | '~' if class_depth > 0 && DIFFERENCES.iter().any(|two| rest.starts_with(two)) => (2, true),
            '[' if rest.starts_with("[:") && class_depth > 0 => (2, true),
            '[' => {
                class_depth += 1;
                // A bracket that comes first is a member, not the end.
                let negated = if rest[1..].starts_with('^') { 2 } else { 1 };
                (negated + usize::from(rest[negated..].starts_with(']')), false)
            }
            ']' => {
                class_depth = class_depth.saturating_sub(1);
                (1, false)
            }
            _ if class_depth > 0 => (first.len_utf8(), false),
            '(' if rest.starts_with(LINE_END) => (LINE_END.len(), false),
            '(' if rest.starts_with("(?#") => (rest.find(')').map_or(rest.len(), |end| end + 1), false),
            '(' if rest.starts_with("(?P") => (3, true),
            '(' => (1, has_other_options(rest)),
            '{' => repetition(rest),
            '^' | '$' => (1, true),
            _ => (first.len_utf8(), false),
        };
        let (part, after) = rest.split_at(length);
        take(if different {
            Part::Different(if part == "(" { &rest[..rest.find([':', ')']).unwrap_or(1)] } else { part })
        } else {
            Part::Same(part)
        })?;
        rest = after;
    }
    Ok(())
}

/// The length of an escape, with the braces of `\p{L}` and `\x{2028}`: a `+` after them repeats a class.
fn escape(rest: &str) -> usize {
    let escaped = rest.chars().nth(1).map_or(0, char::len_utf8);
    let after = &rest[1 + escaped..];
    match after.starts_with('{').then(|| after.find('}')).flatten() {
        Some(end) => 1 + escaped + end + 1,
        None => 1 + escaped,
    }
}

/// Whether an escape is one that both engines understand differently.
fn is_another_escape(rest: &str) -> bool {
    let is_property = |after: &str| !after.starts_with('{') || after[1..].starts_with("Is");
    let is_byte = |after: &str| matches!(after.as_bytes(), [b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F', ..]);
    let property = rest.strip_prefix(r"\p").or(rest.strip_prefix(r"\P"));
    ESCAPES.iter().any(|escape| rest.starts_with(escape))
        || property.is_some_and(is_property)
        // From 80 on a byte of the text there, a character here.
        || rest.strip_prefix(r"\x").is_some_and(is_byte)
}

/// The length of how often something may be repeated, and whether that is understood differently: what is possessive
/// here repeats a repetition there, and with a single number what is lazy here may be left out there.
fn repetition(rest: &str) -> (usize, bool) {
    let Some(end) = rest.find('}') else { return (1, false) };
    let (numbers, after) = (&rest[1..end], &rest[end + 1..]);
    if !numbers.chars().all(|c| c.is_ascii_digit() || c == ',') {
        return (1, false);
    }
    let different = match numbers.split_once(',') {
        None => after.starts_with(['+', '?']),
        Some((least, most)) => {
            let number = |digits: &str| digits.parse::<u64>().ok();
            let backwards = !most.is_empty() && number(most) < number(least);
            least.is_empty() || backwards || after.starts_with('+')
        }
    };
    // What stands there repeats it.
    (if different && after.starts_with(['+', '?']) { end + 2 } else { end + 1 }, different)
}

/// The options that a group sets, if it does.
fn options(rest: &str) -> Option<&str> {
    let options = rest.strip_prefix("(?")?.split([':', ')']).next()?;
    options.chars().all(|option| option.is_ascii_alphabetic() || option == '-').then_some(options)
}

/// Whether a group sets options that mean something else there or nothing: `m` and `s` concern lines here and the point
/// there.
fn has_other_options(rest: &str) -> bool {
    options(rest).is_some_and(|options| !options.chars().all(|option| "ix-".contains(option)))
}

/// Whether upper and lower case are alike anywhere in an expression.
fn ignores_case(text: &str) -> bool {
    text.match_indices("(?").any(|(at, _)| {
        options(&text[at..])
            .is_some_and(|options| options.split('-').next().unwrap_or_default().contains('i'))
    })
}
