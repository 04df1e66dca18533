//! Finds fields in JSON objects: the texts of documents, and the values that are passed through as columns.
//!
//! A text is appended directly to the batch by a deserializer, which walks through the object and ignores all other
//! values, but checks that the whole object is valid JSON.
//!
//! Every field that is passed through becomes a column of strings. JSON has no schema, so other types could only be
//! guessed from some objects and contradicted by later ones.
//!
//! [`repaired`] repairs lines that other programs write and that are not JSON: `NaN` and infinities as numbers, and text
//! with invalid characters.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringViewBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};
use serde_json::value::RawValue;

use crate::base::hash::Map;

/// Deserializes a value and appends the text at a path in it to `into`. Gives whether there is text, or `None` if an
/// object has no such field.
///
/// The field may be in a nested object (`a.b`), or be all items of a list (`a[]`), joined by `join`. For the column
/// `a.b`, these fields are found in order of precedence: the field named `a.b`, then the field `b` of the object in the
/// field `a`. For `a[].b`, the field named so, then the fields `b` of the items of the list in `a`.
pub(super) struct FieldText<'a> {
    /// The text's position, seen from the value.
    position: TextPosition<'a>,
    /// The column, for messages.
    column: &'a str,
    /// The separator between items of a list.
    join: &'a str,
    /// Receives the text.
    into: &'a mut Vec<u8>,
}

/// The position of a text relative to a JSON value.
#[derive(Clone, Copy)]
enum TextPosition<'a> {
    /// In a field of the value, which must be an object.
    InObject(&'a str),
    /// In a field of the value if it is an object. Any other value has no fields.
    InAny(&'a str),
    /// In the items of the value, which must be a list or null, at the rest of a path.
    InItems(&'a str),
    /// The value is the text, or null.
    Here,
}

impl<'a> TextPosition<'a> {
    /// The position at the rest of a path; `None` if it is no path.
    fn at(rest: &'a str) -> Option<TextPosition<'a>> {
        match (rest.strip_prefix('.'), rest.strip_prefix("[]")) {
            _ if rest.is_empty() => Some(TextPosition::Here),
            (Some(name), _) => Some(TextPosition::InAny(name)),
            (_, Some(rest)) => Some(TextPosition::InItems(rest)),
            _ => None,
        }
    }
}

impl<'a> FieldText<'a> {
    /// Finds the column of an object.
    pub(super) fn new(column: &'a str, join: &'a str, into: &'a mut Vec<u8>) -> FieldText<'a> {
        FieldText { position: TextPosition::InObject(column), column, join, into }
    }

    /// The result for a value that is neither an object nor a list nor text.
    fn without_fields<E: de::Error>(&self, found: Unexpected<'_>) -> std::result::Result<Option<bool>, E> {
        match self.position {
            TextPosition::InAny(_) => Ok(None),
            _ => Err(E::invalid_type(found, self)),
        }
    }
}

impl<'de> DeserializeSeed<'de> for FieldText<'_> {
    type Value = Option<bool>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> std::result::Result<Option<bool>, D::Error> {
        match self.position {
            TextPosition::InObject(_) => from.deserialize_map(self),
            _ => from.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for FieldText<'_> {
    type Value = Option<bool>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            TextPosition::InObject(_) => f.write_str("a JSON object"),
            TextPosition::InAny(_) => f.write_str("a JSON value"),
            TextPosition::InItems(_) => write!(f, "a list or null in {:?}", self.column),
            TextPosition::Here => write!(f, "a string or null in {:?}", self.column),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Option<bool>, A::Error> {
        let (TextPosition::InObject(column) | TextPosition::InAny(column)) = self.position else {
            return Err(de::Error::invalid_type(Unexpected::Map, &self));
        };
        let FieldText { join, into, .. } = self;
        let at = into.len();
        let (mut found, mut best) = (None, usize::MAX);
        while let Some(position) = map.next_key_seed(JsonKey { column })? {
            let Some(position) = position else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let rank = match position {
                TextPosition::Here => 0,
                TextPosition::InObject(rest) | TextPosition::InAny(rest) | TextPosition::InItems(rest) => {
                    column.len() - rest.len()
                }
            };
            let before = into.len();
            let now = map.next_value_seed(FieldText { position, column, join, into: &mut *into })?;
            // A field with the whole name takes precedence, then one with the shortest name. Of several fields with
            // the same name, the last one counts, as in most JSON parsers.
            if now.is_some() && rank <= best {
                into.drain(at..before);
                (found, best) = (now, rank);
            } else {
                into.truncate(before);
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Option<bool>, A::Error> {
        let rest = match self.position {
            TextPosition::InItems(rest) => rest,
            TextPosition::InAny(_) => {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(None);
            }
            _ => return Err(de::Error::invalid_type(Unexpected::Seq, &self)),
        };
        let FieldText { column, join, into, .. } = self;
        // An empty list does not show whether its items would have a field.
        let (mut any, mut found_any) = (false, rest.is_empty());
        loop {
            let before = into.len();
            if any {
                into.extend_from_slice(join.as_bytes());
            }
            let item = match TextPosition::at(rest) {
                Some(position) => {
                    seq.next_element_seed(FieldText { position, column, join, into: &mut *into })?
                }
                None => seq.next_element::<IgnoredAny>()?.map(|_| None),
            };
            let Some(found) = item else {
                into.truncate(before);
                return Ok(found_any.then_some(any));
            };
            found_any |= found.is_some();
            if found == Some(true) {
                any = true;
            } else {
                into.truncate(before);
            }
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<Option<bool>, E> {
        if !matches!(self.position, TextPosition::Here) {
            return self.without_fields(Unexpected::Str(text));
        }
        self.into.extend_from_slice(text.as_bytes());
        Ok(Some(true))
    }

    fn visit_unit<E: de::Error>(self) -> std::result::Result<Option<bool>, E> {
        match self.position {
            TextPosition::Here => Ok(Some(false)),
            TextPosition::InItems(rest) => Ok(rest.is_empty().then_some(false)),
            _ => self.without_fields(Unexpected::Unit),
        }
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> std::result::Result<Option<bool>, E> {
        self.without_fields(Unexpected::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> std::result::Result<Option<bool>, E> {
        self.without_fields(Unexpected::Signed(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> std::result::Result<Option<bool>, E> {
        self.without_fields(Unexpected::Unsigned(number))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> std::result::Result<Option<bool>, E> {
        self.without_fields(Unexpected::Float(number))
    }
}

/// Compares a key of an object with the name of a column, without copying the key. Gives the position of the column
/// relative to the key's value, or `None` if the key is not part of the column.
struct JsonKey<'a> {
    /// The name or path of the column.
    column: &'a str,
}

impl<'de, 'a> DeserializeSeed<'de> for JsonKey<'a> {
    type Value = Option<TextPosition<'a>>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> std::result::Result<Self::Value, D::Error> {
        from.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for JsonKey<'a> {
    type Value = Option<TextPosition<'a>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> std::result::Result<Self::Value, E> {
        let position = self.column.strip_prefix(key).and_then(TextPosition::at);
        Ok(position.filter(|position| match position {
            TextPosition::InItems(rest) => rest.is_empty() || rest.starts_with(['.', '[']),
            _ => true,
        }))
    }
}

/// The pass-through fields of JSON objects, one row per object: strings as they are, any other value as its JSON
/// text, and null where the field is null or missing. All columns are text because the type of numbers would
/// otherwise depend on all lines of all files.
pub(super) struct FieldColumns {
    /// The schema of the columns, all of text.
    schema: SchemaRef,
    /// The values so far, one builder per column.
    columns: Vec<StringViewBuilder>,
    /// For each column, whether any object had the field.
    seen: Vec<bool>,
}

/// The value of each column's field in one object; `None` if the object lacks the field.
pub(super) type Values<'a> = Vec<Option<&'a RawValue>>;

impl FieldColumns {
    /// No rows of the columns in `schema`.
    pub(super) fn new(schema: &SchemaRef) -> FieldColumns {
        let columns = schema.fields().iter();
        FieldColumns {
            schema: Arc::clone(schema),
            columns: columns.clone().map(|_| StringViewBuilder::new()).collect(),
            seen: columns.map(|_| false).collect(),
        }
    }

    /// Like [`new`](FieldColumns::new), but the columns that `given` marks need no field in any object.
    pub(super) fn needing(schema: &SchemaRef, given: &[bool]) -> FieldColumns {
        let fields = FieldColumns::new(schema);
        let seen = if given.is_empty() { fields.seen } else { given.to_vec() };
        FieldColumns { seen, ..fields }
    }

    /// The same columns without rows, with the record of fields that have been seen.
    pub(super) fn emptied(&self) -> FieldColumns {
        FieldColumns { seen: self.seen.clone(), ..FieldColumns::new(&self.schema) }
    }

    /// The schema of pass-through fields with these names.
    pub(super) fn schema(names: &[String]) -> SchemaRef {
        let fields = names.iter().map(|name| Field::new(name, DataType::Utf8View, true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// The values of an object's fields; the last one if a name occurs repeatedly.
    ///
    /// # Errors
    /// The object is not valid JSON.
    pub(super) fn values<'a>(&self, object: &'a [u8]) -> serde_json::Result<Values<'a>> {
        if self.columns.is_empty() {
            return Ok(Vec::new());
        }
        let fields: Map<String, &RawValue> = serde_json::from_slice(object)?;
        Ok(self.schema.fields().iter().map(|field| value_at(&fields, field.name())).collect())
    }

    /// Adds a row. If the object was repaired, `repaired` is the repaired and the original text.
    ///
    /// # Errors
    /// A string among the values is invalid, for example a lone surrogate. Then no row is added.
    pub(super) fn add(
        &mut self,
        values: &Values<'_>,
        repaired: Option<(&[u8], &[u8])>,
    ) -> serde_json::Result<()> {
        let texts: Vec<Option<String>> =
            values.iter().map(|value| text(*value, repaired)).collect::<Result<_, _>>()?;
        for (((column, seen), text), value) in
            self.columns.iter_mut().zip(&mut self.seen).zip(texts).zip(values)
        {
            *seen |= value.is_some();
            column.append_option(text);
        }
        Ok(())
    }

    /// The columns that no object had a field for.
    pub(super) fn missing_fields(&self) -> impl Iterator<Item = &str> {
        let fields = self.schema.fields().iter().zip(&self.seen);
        fields.filter(|(_, seen)| !**seen).map(|(field, _)| field.name().as_str())
    }

    /// The rows as a record batch; `None` if no field is passed through.
    ///
    /// # Errors
    /// The columns differ in length, which does not happen.
    pub(super) fn finish(self) -> Result<Option<RecordBatch>, ArrowError> {
        if self.columns.is_empty() {
            return Ok(None);
        }
        let column = |mut column: StringViewBuilder| -> ArrayRef { Arc::new(column.finish()) };
        let columns = self.columns.into_iter().map(column).collect();
        RecordBatch::try_new(self.schema, columns).map(Some)
    }
}

/// The value of a name, or otherwise of the nested path `a.b`.
fn value_at<'a>(fields: &Map<String, &'a RawValue>, path: &str) -> Option<&'a RawValue> {
    if let Some(value) = fields.get(path) {
        return Some(value);
    }
    path.match_indices('.').find_map(|(dot, _)| {
        let inner = fields.get(&path[..dot]).filter(|value| value.get().starts_with('{'))?;
        value_at(&serde_json::from_str(inner.get()).ok()?, &path[dot + 1..])
    })
}

/// The text of a value. Values are compared by address to find their original text in a repaired object.
///
/// # Errors
/// The value is an invalid string.
fn text(value: Option<&RawValue>, repaired: Option<(&[u8], &[u8])>) -> serde_json::Result<Option<String>> {
    match value.map(RawValue::get) {
        None | Some("null") => Ok(None),
        Some(json) if json.starts_with('"') => serde_json::from_str(json),
        Some(json) => Ok(Some(match repaired {
            None => json.to_owned(),
            Some((line, before)) => {
                let at = json.as_ptr().addr() - line.as_ptr().addr();
                String::from_utf8_lossy(&before[at..at + json.len()]).into_owned()
            }
        })),
    }
}

/// A repaired line. Each value keeps its position and length.
pub(super) struct RepairedLine<'a> {
    /// The line that can be parsed.
    pub(super) line: Vec<u8>,
    /// The original line, with invalid characters replaced as in `line`.
    pub(super) before: Cow<'a, [u8]>,
    /// Whether numbers that are not finite were replaced.
    pub(super) has_numbers: bool,
    /// Whether invalid characters were replaced by U+FFFD.
    pub(super) is_replaced: bool,
}

/// Numbers that JSON lacks, as Python's `json` and others write them, and the numbers of equal length that replace
/// them.
const NUMBERS: [(&[u8], &[u8]); 3] =
    [(b"NaN", b"0.0"), (b"Infinity", b"0.000000"), (b"-Infinity", b"-0.000000")];

/// Replaces numbers that JSON lacks and, if `replace` is set, invalid characters in text; `None` if the line has none
/// of these. The result may still be invalid JSON for other reasons.
///
/// The replaced numbers only make the line parseable: where a value is passed through as JSON, the caller takes its
/// text from [`RepairedLine::before`] at the same position. This is why replacements must have equal lengths.
pub(super) fn repaired(line: &[u8], replace: bool) -> Option<RepairedLine<'_>> {
    let before = match String::from_utf8_lossy(line) {
        Cow::Owned(text) if replace => Cow::Owned(text.into_bytes()),
        _ => Cow::Borrowed(line),
    };
    let mut is_replaced = matches!(before, Cow::Owned(_));
    let mut repaired = before.to_vec();
    let (mut at, mut has_numbers, mut in_text) = (0, false, false);
    while let Some(&byte) = before.get(at) {
        let rest = &before[at..];
        match byte {
            b'"' => in_text = !in_text,
            b'\\' if in_text => {
                let units = (unit_of(rest), unit_of(rest.get(6..).unwrap_or_default()));
                at += match units {
                    (Some(0xD800..0xDC00), Some(0xDC00..0xE000)) => 12,
                    (Some(0xD800..0xE000), _) if replace => {
                        repaired[at..at + 6].copy_from_slice(b"\\ufffd");
                        is_replaced = true;
                        6
                    }
                    _ => 2,
                };
                continue;
            }
            _ if in_text => {}
            b'N' | b'I' | b'-' if at > 0 && is_border(before[at - 1]) => {
                let number = NUMBERS.iter().find(|(name, _)| {
                    rest.strip_prefix(*name)
                        .is_some_and(|behind| behind.first().is_none_or(|&next| is_border(next)))
                });
                if let Some((name, number)) = number {
                    repaired[at..at + name.len()].copy_from_slice(number);
                    has_numbers = true;
                    at += name.len();
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    (has_numbers || is_replaced).then_some(RepairedLine { line: repaired, before, has_numbers, is_replaced })
}

/// The UTF-16 code unit of the `\uXXXX` escape at the beginning of `text`, if any.
fn unit_of(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok().filter(|_| is_hex)
}

/// Whether a number can begin after, or end before, this byte.
fn is_border(byte: u8) -> bool {
    matches!(byte, b':' | b',' | b'[' | b']' | b'}') || byte.is_ascii_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(of: &str, replace: bool) -> Option<String> {
        let repaired = repaired(of.as_bytes(), replace)?;
        assert_eq!(repaired.line.len(), repaired.before.len());
        Some(String::from_utf8(repaired.line).unwrap())
    }

    /// Only complete tokens outside of strings are replaced.
    #[test]
    fn numbers_that_json_lacks_become_others_of_their_length() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(line(r#"{"a":NaN}"#, false), some(r#"{"a":0.0}"#));
        assert_eq!(
            line(r#"{"a": [NaN, -Infinity ,Infinity]}"#, false),
            some(r#"{"a": [0.0, -0.000000 ,0.000000]}"#)
        );
        assert_eq!(
            line(r#"{"NaN": "NaN \" NaN", "b":NaN}"#, false),
            some(r#"{"NaN": "NaN \" NaN", "b":0.0}"#)
        );
        for wrong in [r#"{"a":NaNa}"#, r#"{"a":-NaN}"#, r#"{"a":"NaN"}"#, r#"{"a":1NaN}"#, "NaN", ""] {
            assert_eq!(line(wrong, false), None, "{wrong}");
        }
    }

    /// Lone surrogates, escaped or not, are replaced; pairs, and escapes of a backslash, are kept.
    #[test]
    fn halves_of_pairs_become_the_replacement() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(line(r#"{"a":"\ud800"}"#, true), some(r#"{"a":"\ufffd"}"#));
        assert_eq!(
            line(r#"{"a":"\udc00\ud83d\ude00\uD800x"}"#, true),
            some(r#"{"a":"\ufffd\ud83d\ude00\ufffdx"}"#)
        );
        assert_eq!(line(r#"{"a":"\ud800\ud83d\ude00"}"#, true), some(r#"{"a":"\ufffd\ud83d\ude00"}"#));
        for right in
            [r#"{"a":"\\ud800"}"#, r#"{"a":"\u00e9\n"}"#, r#"{"a":"\ud83d\ude00"}"#, r#"{"a":"\u+800"}"#]
        {
            assert_eq!(line(right, true), None, "{right}");
        }
        assert_eq!(line(r#"{"a":"\ud800"}"#, false), None);
        let wrong = repaired(b"{\"a\":\"\xFF\", \"b\":NaN}", true).unwrap();
        assert_eq!(wrong.line, "{\"a\":\"\u{fffd}\", \"b\":0.0}".as_bytes());
    }
}
