//! What regular expressions mean in Oniguruma, which Hugging Face's tokenizers use, and what here.

use super::fault::Fault;
use crate::error::{Error, Result};

/// The end of a line, in a spelling that means the same in both: the option concerns `$` here and only the
/// point there.
const LINE_END: &str = "(?m:$)";

/// Classes that do not hold the same characters in both.
const CLASSES: [&str; 6] = [r"\w", r"\W", r"\b", r"\B", r"\R", r"\X"];

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
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (length, different) = match first {
            '\\' => (escape(rest), CLASSES.iter().any(|class| rest.starts_with(class))),
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
            '(' => (1, changes_the_point(rest)),
            '}' if rest.starts_with("}+") => (2, true),
            '^' | '$' => (1, true),
            _ => (first.len_utf8(), false),
        };
        let (part, after) = rest.split_at(length);
        take(if different {
            Part::Different(if part == "(" { "(?m" } else { part })
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

/// Whether a group sets the options `m` or `s`, which concern lines here and the point there.
fn changes_the_point(rest: &str) -> bool {
    let options = rest.strip_prefix("(?").unwrap_or_default();
    let options = options.split([':', ')']).next().unwrap_or_default();
    options.chars().all(|option| option.is_ascii_alphabetic() || option == '-')
        && options.contains(['m', 's'])
}
