//! Types for ids, counts and sizes, and every integer cast of the crate.

// Every integer cast of the crate is in this file (or in a named SIMD module), so that each can be seen to be
// lossless or checked.
#![expect(clippy::as_conversions)]

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::Error;

const _: () = assert!(usize::BITS >= 64, "positions in a corpus need 64-bit addresses");

/// Id of a token in a vocabulary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenId(u32);

impl TokenId {
    /// The token with this id.
    pub const fn new(id: u32) -> TokenId {
        TokenId(id)
    }

    /// The token at this index of a table.
    ///
    /// # Panics
    /// If `index` is 2³² or more. No vocabulary is that large: its size is checked when it is planned or
    /// loaded.
    pub fn from_index(index: usize) -> TokenId {
        TokenId(u32::try_from(index).expect("a vocabulary has fewer than 2^32 tokens"))
    }

    /// The id as a number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The id as an index into a table with one entry per token.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl From<u32> for TokenId {
    fn from(id: u32) -> TokenId {
        TokenId(id)
    }
}

impl From<TokenId> for u32 {
    fn from(id: TokenId) -> u32 {
        id.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How often something occurs in the corpus.
///
/// 64 bits wide, because the most frequent pair of letters occurs more than 2³² times in far less than a
/// terabyte of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Count(u64);

impl Count {
    /// Zero.
    pub const ZERO: Count = Count(0);
    /// One.
    pub const ONE: Count = Count(1);

    /// The count with this value.
    pub const fn new(count: u64) -> Count {
        Count(count)
    }

    /// The value as a plain number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The sum, or `None` if it overflows: a count that wraps would silently change the vocabulary.
    pub fn checked_add(self, other: Count) -> Option<Count> {
        self.0.checked_add(other.0).map(Count)
    }

    /// The product, or `None` if it overflows.
    pub fn checked_mul(self, factor: u64) -> Option<Count> {
        self.0.checked_mul(factor).map(Count)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A 32-bit number as an index. Lossless, because `usize` has at least 64 bits.
#[doc(hidden)]
pub const fn to_usize(number: u32) -> usize {
    number as usize
}

/// A 64-bit number as an index. Lossless, because `usize` has at least 64 bits.
#[doc(hidden)]
pub const fn u64_to_usize(number: u64) -> usize {
    number as usize
}

/// Sum of sizes that files and servers merely declare. Saturates instead of overflowing; `None` if any of them
/// is unknown.
pub(crate) fn declared_sum(amounts: impl IntoIterator<Item = Option<u64>>) -> Option<u64> {
    amounts.into_iter().try_fold(0_u64, |sum, amount| Some(sum.saturating_add(amount?)))
}

/// A length as a 64-bit amount. Lossless.
#[doc(hidden)]
pub const fn to_u64(length: usize) -> u64 {
    length as u64
}

/// A length that is known to fit 32 bits.
///
/// # Panics
/// In debug builds, if it does not fit. Release builds drop the upper bits.
pub(crate) const fn truncate_to_u32(length: usize) -> u32 {
    debug_assert!(length <= u32::MAX as usize);
    length as u32
}

/// Sixteen bytes as two little-endian numbers.
#[inline(always)]
pub(crate) fn as_u64_halves(bytes: &[u8; 16]) -> [u64; 2] {
    let (halves, _) = bytes.as_chunks();
    [u64::from_le_bytes(halves[0]), u64::from_le_bytes(halves[1])]
}

/// An amount as a float, for ratios that people read. Exact up to 2⁵³.
#[doc(hidden)]
pub const fn to_f64(amount: u64) -> f64 {
    amount as f64
}

/// Byte `b` at index `b`.
pub(crate) static ALL_BYTES: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut byte = 0;
    while byte < bytes.len() {
        bytes[byte] = byte as u8;
        byte += 1;
    }
    bytes
};

/// The whole part of a float: 0 for negative values and NaN, and at most 2⁶⁴ − 1.
#[doc(hidden)]
pub const fn truncate_to_u64(value: f64) -> u64 {
    value as u64
}

/// `part / whole` for people to read; 0 if `whole` is 0.
#[doc(hidden)]
pub const fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { to_f64(part) / to_f64(whole) }
}

/// Bytes of text per token. Of the `tokens` that were written, the `added_tokens`, which are BOS and EOS, do not count:
/// they have no text. The result is 0 if there are no other tokens.
///
/// All figures of bytes per token come from here, so they agree wherever they appear.
#[doc(hidden)]
pub const fn bytes_per_token(text_bytes: u64, tokens: u64, added_tokens: u64) -> f64 {
    ratio(text_bytes, tokens.saturating_sub(added_tokens))
}

/// A number of bytes. It is parsed and printed with a decimal unit, such as `8GB` or `1.5 MB`. Parsing also accepts
/// binary units, such as `8GiB`.
///
/// ```
/// use tokenmill::base::int::ByteCount;
///
/// assert_eq!("1.5 MB".parse::<ByteCount>().unwrap(), ByteCount(1_500_000));
/// assert_eq!(ByteCount(8_000_000_000).to_string(), "8.0 GB");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByteCount(pub u64);

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["bytes", "kB", "MB", "GB", "TB"];
        let mut value = to_f64(self.0);
        let mut unit = 0;
        while value >= 999.5 && unit + 1 < UNITS.len() {
            value /= 1000.0;
            unit += 1;
        }
        match unit {
            0 => f.write_str(&with_unit(self.0, "byte")),
            _ if value < 9.95 => write!(f, "{value:.1} {}", UNITS[unit]),
            _ => write!(f, "{value:.0} {}", UNITS[unit]),
        }
    }
}

impl std::str::FromStr for ByteCount {
    type Err = Error;

    /// Reads a number, perhaps with decimal places, and a unit in any case; without a unit, bytes. Whole numbers are
    /// exact, others are rounded to whole bytes.
    ///
    /// # Errors
    /// The text has another form, or the number exceeds 64 bits.
    fn from_str(text: &str) -> Result<ByteCount, Error> {
        let wrong =
            || Error::usage(format!("{text:?} is not an amount of bytes; write it like 800MB, 8GB or 8GiB"));
        let trimmed = text.trim();
        let digits = trimmed.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits);
        let scale: u64 = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kb" => 1_000,
            "m" | "mb" => 1_000_000,
            "g" | "gb" => 1_000_000_000,
            "t" | "tb" => 1_000_000_000_000,
            "kib" => 1 << 10,
            "mib" => 1 << 20,
            "gib" => 1 << 30,
            "tib" => 1 << 40,
            _ => return Err(wrong()),
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(scale).map(ByteCount).ok_or_else(wrong);
        }
        let value: f64 = number.parse().map_err(|_| wrong())?;
        let bytes = value * to_f64(scale);
        if bytes.is_finite() && bytes < to_f64(u64::MAX) {
            Ok(ByteCount(bytes.round() as u64))
        } else {
            Err(wrong())
        }
    }
}

/// Reads a count as people write it: digits, perhaps with `_` between them, and perhaps `k` (1 000) or `M` (1 000 000)
/// after them. `None` if the text has another form, or the number has more than 64 bits.
///
/// ```
/// use tokenmill::base::int::parse_count;
///
/// assert_eq!(["32_000", "32k", "2M"].map(parse_count), [Some(32_000), Some(32_000), Some(2_000_000)]);
/// assert_eq!(parse_count("32,000"), None);
/// ```
#[doc(hidden)]
pub fn parse_count(text: &str) -> Option<u64> {
    let (digits, scale) = match text.split_at_checked(text.len().saturating_sub(1)) {
        Some((digits, "k" | "K")) => (digits, 1_000),
        Some((digits, "M")) => (digits, 1_000_000),
        _ => (text, 1),
    };
    if digits.starts_with(['_', '+']) || digits.ends_with('_') {
        return None;
    }
    digits.replace('_', "").parse::<u64>().ok()?.checked_mul(scale)
}

/// `number` with the name of the thing that it counts, for nouns with a plural in -s.
///
/// ```
/// use tokenmill::base::int::with_unit;
///
/// assert_eq!([1, 3].map(|number| with_unit(number, "file")), ["1 file", "3 files"]);
/// ```
#[doc(hidden)]
pub fn with_unit(number: u64, unit: &str) -> String {
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_counts_read_what_people_write() {
        for (text, bytes) in [
            ("0", 0),
            ("17", 17),
            ("8GB", 8_000_000_000),
            ("1.5 MB", 1_500_000),
            ("2GiB", 2 << 30),
            ("3k", 3_000),
            ("2.01k", 2_010),
        ] {
            assert_eq!(text.parse().ok(), Some(ByteCount(bytes)), "{text}");
        }
        for text in ["", "GB", "8 parsecs", "-1", "1e3", "99999999999999999999"] {
            assert!(text.parse::<ByteCount>().is_err(), "{text}");
        }
    }

    #[test]
    fn counts_read_what_people_write() {
        for (text, count) in [
            ("0", 0),
            ("32000", 32_000),
            ("32_000", 32_000),
            ("32k", 32_000),
            ("1_5K", 15_000),
            ("2M", 2_000_000),
        ] {
            assert_eq!(parse_count(text), Some(count), "{text}");
        }
        for text in [
            "",
            "k",
            "_",
            "_1",
            "1_",
            "1_k",
            "1m",
            "1kk",
            "1.5k",
            "32,000",
            "-1",
            "+1",
            " 1",
            "1 k",
            "é",
            "18446744073709552k",
        ] {
            assert_eq!(parse_count(text), None, "{text}");
        }
    }

    #[test]
    fn byte_counts_print_three_figures_at_most() {
        let shown: Vec<String> =
            [0, 1, 999, 1_500, 9_949_999, 123_456_789, 999_600_000].map(|n| ByteCount(n).to_string()).into();
        assert_eq!(shown, ["0 bytes", "1 byte", "999 bytes", "1.5 kB", "9.9 MB", "123 MB", "1.0 GB"]);
    }
}
