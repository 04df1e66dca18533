//! Converts JSON that has no object per line (arrays, and sequences of objects in any layout) to JSON Lines, so that
//! one reader handles both.
//!
//! The converter does not parse values. It tracks strings and the depth of brackets only, which takes constant memory
//! however long a value is, and leaves checking to the reader of the lines. An invalid value therefore becomes an
//! invalid line. At an outermost position, the brackets and commas of an array become line breaks.

use std::io::{self, Read};

use memchr::memchr3;
use serde::de::IgnoredAny;

/// Bytes of input that are read at once.
const BLOCK_BYTES: usize = 64 << 10;

/// Bytes of a file by which JSON Lines are recognized.
pub(super) const FIRST_BYTES: u64 = 64 << 10;

/// A mark that some programs write before the text. It is not JSON.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Whether text that begins with these bytes is JSON Lines: its first line is an object.
pub(super) fn is_lines(first: &[u8]) -> bool {
    let first = first.strip_prefix(BYTE_ORDER_MARK).unwrap_or(first).trim_ascii_start();
    let line = first.split(|&byte| byte == b'\n').next().unwrap_or_default();
    line.len() < first.len() && line.starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

/// A reader that gives the elements of the arrays in a text, or the values outside of arrays, one per line. Line
/// breaks inside a value become spaces.
///
/// **Memory:** one block of 64 KiB, whatever the lengths of values.
pub(super) struct Values<R> {
    from: R,
    /// The block of input that is being converted.
    input: Vec<u8>,
    /// Offset in `input` of the next byte.
    at: usize,
    /// Whether a byte order mark at the beginning has been looked for.
    begun: bool,
    /// Number of brackets and braces that are open in the current value.
    depth: u64,
    /// Whether an outermost array is open. Its elements are the values.
    in_array: bool,
    /// Whether a value has begun.
    in_value: bool,
    /// Whether a string is open.
    in_string: bool,
    /// Whether the next byte of a string follows a backslash.
    escaped: bool,
    /// Whether a value has ended and its line break is still to be given.
    is_over: bool,
}

impl<R: Read> Values<R> {
    /// Converts the text that `from` gives.
    pub(super) fn new(from: R) -> Values<R> {
        Values {
            from,
            input: Vec::new(),
            at: 0,
            begun: false,
            depth: 0,
            in_array: false,
            in_value: false,
            in_string: false,
            escaped: false,
            is_over: false,
        }
    }

    /// Reads the next block if none is left; returns `false` at the end.
    ///
    /// # Errors
    /// The input cannot be read.
    fn fill(&mut self) -> io::Result<bool> {
        if self.at < self.input.len() {
            return Ok(true);
        }
        self.input.clear();
        self.at = 0;
        let wanted = if self.begun { BLOCK_BYTES } else { BYTE_ORDER_MARK.len() };
        let read = self.from.by_ref().take(crate::base::int::to_u64(wanted)).read_to_end(&mut self.input);
        if !self.begun && self.input.starts_with(BYTE_ORDER_MARK) {
            self.input.clear();
            self.begun = true;
            return self.fill();
        }
        self.begun = true;
        // Bytes that were read before an error are given first. The next read reports the error.
        if self.input.is_empty() { read.map(|_| false) } else { Ok(true) }
    }

    /// The output for an input byte outside of strings.
    fn byte(&mut self, byte: u8) -> u8 {
        let is_outside = self.depth == 0;
        match byte {
            b'[' if is_outside && !self.in_array && !self.in_value => {
                self.in_array = true;
                return b' ';
            }
            b']' if is_outside && self.in_array => {
                (self.in_array, self.in_value) = (false, false);
                return b'\n';
            }
            b',' if is_outside && self.in_array => {
                self.in_value = false;
                return b'\n';
            }
            b'\n' => {
                let ends = is_outside && !self.in_array && self.in_value;
                self.in_value &= !ends;
                return if ends { b'\n' } else { b' ' };
            }
            b' ' | b'\t' | b'\r' => return byte,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b'"' => self.in_string = true,
            _ => {}
        }
        self.in_value = true;
        byte
    }

    /// The number of the next bytes of a string that are given unchanged, without examining each one.
    fn plain(&self, room: usize) -> usize {
        let rest = &self.input[self.at..];
        let rest = &rest[..rest.len().min(room)];
        if self.in_string && !self.escaped {
            memchr3(b'"', b'\\', b'\n', rest).unwrap_or(rest.len())
        } else {
            0
        }
    }

    /// The output for an input byte inside a string.
    fn byte_of_string(&mut self, byte: u8) -> u8 {
        let was_escaped = std::mem::take(&mut self.escaped);
        match byte {
            b'\\' => self.escaped = !was_escaped,
            b'"' => self.in_string = was_escaped,
            // JSON strings contain no line breaks, so this one is invalid. It must stay invalid without ending the
            // line.
            b'\n' => return b'\r',
            _ => {}
        }
        byte
    }
}

impl<R: Read> Read for Values<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            if std::mem::take(&mut self.is_over) {
                into[filled] = b'\n';
                filled += 1;
                continue;
            }
            if self.at == self.input.len() && filled > 0 {
                break;
            }
            if !self.fill()? {
                return self.end();
            }
            let plain = self.plain(into.len() - filled);
            into[filled..filled + plain].copy_from_slice(&self.input[self.at..self.at + plain]);
            (self.at, filled) = (self.at + plain, filled + plain);
            let Some(&byte) = self.input.get(self.at).filter(|_| filled < into.len()) else { continue };
            self.at += 1;
            let was_open = self.depth > 0;
            into[filled] = if self.in_string { self.byte_of_string(byte) } else { self.byte(byte) };
            filled += 1;
            if was_open && self.depth == 0 && !self.in_array {
                (self.is_over, self.in_value) = (true, false);
            }
        }
        Ok(filled)
    }
}

impl<R> Values<R> {
    /// The end of the input: an error if a value or array is open.
    fn end(&self) -> io::Result<usize> {
        let open = match (self.in_string || self.depth > 0, self.in_array) {
            (true, _) => "a value",
            (false, true) => "an array",
            (false, false) => return Ok(0),
        };
        Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("{open} is not closed: the text is cut off"),
        ))
    }
}
