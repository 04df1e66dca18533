//! Reads single values of recipes.

use toml::de::{DeTable, DeValue};

use super::choice::nearest;
use super::{Choice, named, names};
use crate::base::int::{ByteCount, Count};
use crate::sample::Weight;
use crate::source::DocumentRule;
use crate::split::SplitPattern;
use crate::train::{Powers, Score};
use crate::vocab::SpecialToken;

/// Why a value does not suit its key: the end of a sentence that begins with the key, and what to write instead.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) problem: String,
    pub(super) help: Option<String>,
}

/// Reads one value.
pub(super) type Parse<T> = fn(&DeValue<'_>) -> Result<T, Wrong>;

/// The error for a value of the wrong type.
fn wants(expected: &str, value: &DeValue<'_>) -> Wrong {
    let article = if value.is_integer() || value.is_array() { "an" } else { "a" };
    let problem = format!("must be {expected}, not {article} {}", value.type_str());
    Wrong { problem, help: None }
}

/// A string.
pub(super) fn text(value: &DeValue<'_>) -> Result<String, Wrong> {
    value.as_str().map(str::to_owned).ok_or_else(|| wants("a string", value))
}

/// `true` or `false`.
pub(super) fn truth(value: &DeValue<'_>) -> Result<bool, Wrong> {
    value.as_bool().ok_or_else(|| wants("true or false", value))
}

/// A whole number from 0 to 2⁶⁴ − 1, in any notation of TOML.
pub(super) fn whole(value: &DeValue<'_>) -> Result<u64, Wrong> {
    let integer = value.as_integer().ok_or_else(|| wants("a whole number", value))?;
    u64::from_str_radix(integer.as_str(), integer.radix()).map_err(|_| {
        let problem = format!("must be a whole number from 0 to {}, not {integer}", u64::MAX);
        Wrong { problem, help: None }
    })
}

/// A whole number as a count.
pub(super) fn count(value: &DeValue<'_>) -> Result<Count, Wrong> {
    whole(value).map(Count::new)
}

/// A number of bytes: a whole number, or a string with a unit such as `"8GB"`.
pub(super) fn bytes(value: &DeValue<'_>) -> Result<ByteCount, Wrong> {
    match value {
        DeValue::Integer(_) => whole(value).map(ByteCount),
        DeValue::String(text) => text.parse().map_err(|_| Wrong {
            problem: format!("is {text:?}, which is not an amount of bytes"),
            help: Some("write it like \"800MB\", \"8GB\" or \"8GiB\"".to_owned()),
        }),
        _ => Err(wants("an amount of bytes such as \"8GB\"", value)),
    }
}

/// The weight of a source. It is read from the text of the number, since a float would not hold the decimal exactly.
pub(super) fn weight(value: &DeValue<'_>) -> Result<Weight, Wrong> {
    let text = match value {
        DeValue::Integer(integer) => integer.to_string(),
        DeValue::Float(float) => float.to_string(),
        _ => return Err(wants("a number", value)),
    };
    text.parse().map_err(|_| Wrong {
        problem: format!("cannot be {text}"),
        help: Some(
            "it is a number above 0, of 12 digits and 6 decimal places at most, such as 0.25".to_owned(),
        ),
    })
}

/// A special token of a tokenizer from a file, with or without its id.
pub(super) fn special_token(value: &DeValue<'_>) -> Result<SpecialToken, Wrong> {
    Ok(SpecialToken::from(&*text(value)?))
}

/// A value chosen by name.
pub(super) fn choice<T: Choice>(value: &DeValue<'_>) -> Result<T, Wrong> {
    let name = value.as_str().ok_or_else(|| wants(&format!("one of {}", listed::<T>()), value))?;
    named(name).ok_or_else(|| not_among::<T>(name, ""))
}

/// A split pattern by name, or as `{ regex = "…" }`.
pub(super) fn split(value: &DeValue<'_>) -> Result<SplitPattern, Wrong> {
    named_or_table(value, "regex").map(|found| match found {
        Found::Named(split) => split,
        Found::InTable(regex) => SplitPattern::from_regex(&regex),
    })
}

/// A score by name, or as `{ conditional = { p = …, q = …, r = … } }`.
pub(super) fn score(value: &DeValue<'_>) -> Result<Score, Wrong> {
    const FORM: &str = "{ conditional = { p = 1, q = 1, r = 1 } } with numbers from 0 to 3";
    match value {
        DeValue::String(name) => name.parse().map_err(|_| Wrong {
            problem: format!("cannot be {name:?}"),
            help: Some(format!("it can be \"count\", \"count-length\" or {FORM}")),
        }),
        DeValue::Table(table) => conditional(table)
            .ok_or_else(|| Wrong { problem: format!("takes a table of the form {FORM}"), help: None }),
        _ => Err(wants(&format!("\"count\", \"count-length\" or {FORM}"), value)),
    }
}

/// The powers of a conditional score; `None` if the table has another form, or a power is out of range.
fn conditional(table: &DeTable<'_>) -> Option<Score> {
    let powers = table.get("conditional").filter(|_| table.len() == 1)?.get_ref().as_table()?;
    let power = |name| u8::try_from(whole(powers.get(name)?.get_ref()).ok()?).ok();
    let (p, q, r) = (power("p")?, power("q")?, power("r")?);
    (powers.len() == 3).then_some(())?;
    Powers::new(p, q, r).map(Score::Conditional)
}

/// A rule that divides a text into documents: by name, or as `{ separator = "…" }`.
pub(super) fn documents(value: &DeValue<'_>) -> Result<DocumentRule, Wrong> {
    named_or_table(value, "separator").map(|found| match found {
        Found::Named(rule) => rule,
        Found::InTable(separator) => DocumentRule::Separator(separator),
    })
}

/// `false`, or the text of a token.
pub(super) fn token(value: &DeValue<'_>) -> Result<Option<String>, Wrong> {
    match value {
        DeValue::Boolean(false) => Ok(None),
        DeValue::String(token) => Ok(Some(token.clone().into_owned())),
        DeValue::Boolean(true) => Err(Wrong {
            problem: "does not say which token".to_owned(),
            help: Some("write the special token itself, such as \"<|endoftext|>\"".to_owned()),
        }),
        _ => Err(wants("false or a special token", value)),
    }
}

/// A value in one of its two forms.
enum Found<T> {
    Named(T),
    InTable(String),
}

/// A value chosen by name, or the string in a table with this single key.
fn named_or_table<T: Choice>(value: &DeValue<'_>, key: &str) -> Result<Found<T>, Wrong> {
    let or = format!(" or {{ {key} = \"…\" }}");
    match value {
        DeValue::String(name) => named(name).map(Found::Named).ok_or_else(|| not_among::<T>(name, &or)),
        DeValue::Table(table) => {
            let mut entries = table.iter();
            match (entries.next(), entries.next()) {
                (Some((found, text)), None) if found.get_ref() == key && text.get_ref().is_str() => {
                    Ok(Found::InTable(text.get_ref().as_str().unwrap_or_default().to_owned()))
                }
                _ => Err(Wrong {
                    problem: format!("takes a table of the form {{ {key} = \"…\" }}"),
                    help: None,
                }),
            }
        }
        _ => Err(wants(&format!("one of {}{or}", listed::<T>()), value)),
    }
}

/// The error for an unknown name. It suggests the nearest known name, and lists all; `or` is another form that may be
/// used.
fn not_among<T: Choice>(name: &str, or: &str) -> Wrong {
    let mut help =
        nearest(name, names::<T>()).map_or_else(String::new, |near| format!("did you mean {near:?}? "));
    help.push_str(&format!("it can be {}{or}", listed::<T>()));
    Wrong { problem: format!("cannot be {name:?}"), help: Some(help) }
}

/// All names of a type of choices, quoted and separated by commas.
fn listed<T: Choice>() -> String {
    names::<T>().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}
