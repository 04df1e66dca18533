//! JSON that is not an object a line: arrays, and objects one after the other, however they are laid out. Their records
//! as lines, so that all goes for them that goes for JSON Lines.

use std::io::{self, Read};

use memchr::memchr3;
use serde::de::IgnoredAny;

const BLOCK_BYTES: usize = 64 << 10;

/// By so many bytes it is told whether a text is JSON Lines.
pub(super) const FIRST_BYTES: u64 = 64 << 10;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Whether text that begins so is JSON Lines: its first line is an object.
pub(super) fn is_lines(first: &[u8]) -> bool {
    let first = first.strip_prefix(BYTE_ORDER_MARK).unwrap_or(first).trim_ascii_start();
    let line = first.split(|&byte| byte == b'\n').next().unwrap_or_default();
    line.len() < first.len() && line.starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

/// The elements of the arrays that a text consists of, or the values that stand there without an array, a line each.
///
/// **Memory:** a block.
pub(super) struct Values<R> {
    from: R,
    input: Vec<u8>,
    at: usize,
    /// Whether the first bytes have been looked at.
    begun: bool,
    /// Brackets and braces of a value that are open.
    depth: u64,
    in_array: bool,
    in_value: bool,
    in_string: bool,
    /// The next byte of a string has a backslash before it.
    escaped: bool,
    /// A value is over, and its line not yet.
    is_over: bool,
}

impl<R: Read> Values<R> {
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

    /// Reads on when there is nothing left; `false` at the end.
    fn fill(&mut self) -> io::Result<bool> {
        if self.at < self.input.len() {
            return Ok(true);
        }
        self.input.clear();
        self.at = 0;
        let wanted = if self.begun { BLOCK_BYTES } else { BYTE_ORDER_MARK.len() };
        let read = self.from.by_ref().take(crate::units::amount(wanted)).read_to_end(&mut self.input);
        if !self.begun && self.input.starts_with(BYTE_ORDER_MARK) {
            self.input.clear();
            self.begun = true;
            return self.fill();
        }
        self.begun = true;
        // What was read before the trouble is given out first.
        if self.input.is_empty() { read.map(|_| false) } else { Ok(true) }
    }

    /// What a byte outside of strings becomes.
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

    /// How many bytes of a string stand here that need no look, and are given out as they are.
    fn plain(&self, room: usize) -> usize {
        let rest = &self.input[self.at..];
        let rest = &rest[..rest.len().min(room)];
        if self.in_string && !self.escaped {
            memchr3(b'"', b'\\', b'\n', rest).unwrap_or(rest.len())
        } else {
            0
        }
    }

    /// What a byte of a string becomes.
    fn byte_of_string(&mut self, byte: u8) -> u8 {
        let was_escaped = std::mem::take(&mut self.escaped);
        match byte {
            b'\\' => self.escaped = !was_escaped,
            b'"' => self.in_string = was_escaped,
            // No string has a line break: this one is no string either, and ends no line.
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
