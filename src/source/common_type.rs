//! The common type of flat types: neither dictionaries nor nested ones.

use arrow::datatypes::{DataType, TimeUnit};

/// Names of time zones that are UTC, in lower case.
const UTC: [&str; 10] =
    ["utc", "z", "zulu", "uct", "universal", "gmt", "etc/utc", "etc/gmt", "etc/universal", "etc/zulu"];

/// The type that holds the values of two different flat types exactly, with the time zone of the first; `None` if there
/// is none. The null type has a common type with any other, also a nested one.
pub(super) fn common_flat_type(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType::{
        Binary, BinaryView, Date32, Date64, Decimal128, Decimal256, Duration, LargeBinary, LargeUtf8, Null,
        Time32, Time64, Timestamp, Utf8, Utf8View,
    };

    Some(match (one, other) {
        (Null, typed) | (typed, Null) => typed.clone(),
        (LargeUtf8, Utf8 | Utf8View) | (Utf8 | Utf8View, LargeUtf8) => LargeUtf8,
        (Utf8, Utf8View) | (Utf8View, Utf8) => Utf8,
        (LargeBinary, Binary | BinaryView) | (Binary | BinaryView, LargeBinary) => LargeBinary,
        (Binary, BinaryView) | (BinaryView, Binary) => Binary,
        (Timestamp(unit, zone), Timestamp(other, other_zone)) => {
            let is_same = match (zone, other_zone) {
                (Some(zone), Some(other)) => same_zone(zone, other),
                (zone, other) => zone == other,
            };
            is_same.then(|| Timestamp(finer(*unit, *other), zone.clone()))?
        }
        (Duration(unit), Duration(other)) => Duration(finer(*unit, *other)),
        (Time32(unit), Time32(other)) => Time32(finer(*unit, *other)),
        (Time32(_), Time64(unit)) | (Time64(unit), Time32(_)) => Time64(*unit),
        (Time64(unit), Time64(other)) => Time64(finer(*unit, *other)),
        (Date32, Date64) | (Date64, Date32) => Date32,
        (Decimal128(one, scale), Decimal128(other, other_scale)) if scale == other_scale => {
            Decimal128(*one.max(other), *scale)
        }
        (Decimal256(one, scale), Decimal256(other, other_scale)) if scale == other_scale => {
            Decimal256(*one.max(other), *scale)
        }
        (one, other) if one.is_numeric() && other.is_numeric() => common_number(one, other)?,
        _ => return None,
    })
}

/// The type of numbers that holds the values of both types exactly.
fn common_number(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType::{Float16, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};

    // The number of bits of the magnitude, and whether the type is signed.
    let bits = |number: &DataType| match number {
        Int8 => Some((7, true)),
        Int16 => Some((15, true)),
        Int32 => Some((31, true)),
        Int64 => Some((63, true)),
        UInt8 => Some((8, false)),
        UInt16 => Some((16, false)),
        UInt32 => Some((32, false)),
        UInt64 => Some((64, false)),
        _ => None,
    };
    let float_bits = |number: &DataType| match number {
        Float16 => Some(11),
        Float32 => Some(24),
        Float64 => Some(53),
        _ => None,
    };
    match (bits(one), bits(other)) {
        (Some((a, signed)), Some((b, other_signed))) => {
            let wide = a.max(b);
            let both = if signed || other_signed { [7, 15, 31, 63] } else { [8, 16, 32, 64] };
            let types = if signed || other_signed {
                [Int8, Int16, Int32, Int64]
            } else {
                [UInt8, UInt16, UInt32, UInt64]
            };
            let at = both.iter().position(|&bits| bits >= wide)?;
            types.into_iter().nth(at)
        }
        (whole, other_whole) => {
            let needed = |whole: Option<(u32, bool)>, number| {
                whole.map_or_else(|| float_bits(number), |(bits, _)| Some(bits))
            };
            let wide = needed(whole, one)?.max(needed(other_whole, other)?);
            [(11, Float16), (24, Float32), (53, Float64)]
                .into_iter()
                .find_map(|(bits, float)| (bits >= wide).then_some(float))
        }
    }
}

/// The finer of two units.
fn finer(one: TimeUnit, other: TimeUnit) -> TimeUnit {
    one.max(other)
}

/// Whether two names denote the same time zone. UTC has many names, and an offset can be written in several ways.
fn same_zone(one: &str, other: &str) -> bool {
    one == other
        || matches!((minutes_from_utc(one), minutes_from_utc(other)), (Some(one), Some(other)) if one == other)
}

/// The offset of a time zone from UTC in minutes, if its name gives it.
fn minutes_from_utc(zone: &str) -> Option<i32> {
    let lower = zone.to_ascii_lowercase();
    if UTC.contains(&lower.as_str()) {
        return Some(0);
    }
    let (sign, digits) = match lower.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some(parts) => parts,
        None => digits.split_at_checked(2)?,
    };
    let number = |digits: &str| match digits.len() {
        0 => Some(0),
        1 | 2 if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse::<i32>().ok(),
        _ => None,
    };
    Some(sign * (number(hours)? * 60 + number(minutes)?))
}
