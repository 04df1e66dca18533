//! Converts text formats with records to lines of JSON.
//!
//! So JSON in any layout, CSV and TSV share the reader of JSON Lines, with its rules for columns, templates, bad
//! input and memory. Only numbering differs: messages count records instead of lines if a record need not be one
//! line.

use std::io::Read;
use std::sync::Arc;

use super::Format;
use super::beginning::Begun;
use super::json::{FIRST_BYTES, Values, is_lines};
use super::jsonl::{Start, Unreadable};
use super::table::Table;

/// Converts text in a format that has fields to one JSON object per line. Returns how messages number the lines, too:
/// as lines, or as records if their layout may differ.
pub(super) fn as_lines(
    text: Box<dyn Read + Send>,
    format: Format,
    start: Start,
) -> (Box<dyn Read + Send>, Start) {
    match format {
        Format::Json if matches!(start, Start::Beginning) => {
            let text = Begun::with(text, FIRST_BYTES);
            if is_lines(text.first()) {
                return (Box::new(text), start);
            }
            (Box::new(Values::new(text)), Start::Records(Arc::default()))
        }
        Format::Csv | Format::Tsv => {
            let unreadable = Arc::<Unreadable>::default();
            (Box::new(Table::new(text, format, Arc::clone(&unreadable))), Start::Records(unreadable))
        }
        _ => (text, start),
    }
}
