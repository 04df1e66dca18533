//! Recognizes UTF-16 and UTF-32 without a byte order mark.
//!
//! Many programs on Windows write UTF-16 without a mark. It contains zero bytes, so reading it as text would give
//! unusable training data without any error. The decision errs on the side of text in other encodings: a file counts
//! as UTF-16 only if every code unit is a common character and enough of them belong to alphabets or East Asian
//! scripts.

/// Minimum number of characters to decide by; fewer give too little evidence.
const LEAST: usize = 4;

/// Whether bytes can only be UTF-16, in either byte order: they decode to common characters, and some code units have
/// a zero byte, which text in other encodings does not have.
pub(super) fn is_utf_16(first: &[u8]) -> bool {
    let (pairs, _) = first.as_chunks();
    first.contains(&0)
        && [u16::from_le_bytes, u16::from_be_bytes].into_iter().any(|unit| {
            let units: Vec<u16> = pairs.iter().map(|&pair| unit(pair)).collect();
            is_text_of(&units)
        })
}

/// Whether bytes can only be UTF-32, in either byte order.
pub(super) fn is_utf_32(first: &[u8]) -> bool {
    let (fours, _) = first.as_chunks();
    fours.len() >= LEAST
        && [u32::from_le_bytes, u32::from_be_bytes]
            .into_iter()
            .any(|unit| fours.iter().all(|&four| char::from_u32(unit(four)).is_some_and(is_common)))
}

/// Whether code units are text of an alphabetic or an East Asian script.
fn is_text_of(units: &[u16]) -> bool {
    // The last surrogate pair may be incomplete.
    let whole = match units {
        [whole @ .., 0xD800..=0xDBFF] => whole,
        all => all,
    };
    if whole.len() < LEAST || !char::decode_utf16(whole.iter().copied()).all(|c| c.is_ok_and(is_common)) {
        return false;
    }
    let share = |is_one: fn(u16) -> bool| whole.iter().filter(|&&unit| is_one(unit)).count();
    // If the bytes were ASCII, the first of two characters would be the high byte of an ideograph; and a NUL after
    // each word or field would give at most half of the code units a zero byte. Both stay below these thresholds.
    let alphabetic = share(|unit| unit < 0x2000);
    let asian = share(|unit| matches!(unit, 0x3000..=0x30FF | 0xAC00..=0xD7A3 | 0xFF00..=0xFFEF));
    let spaces = share(|unit| matches!(unit, 0x0A | 0x20));
    let has_zeros = share(|unit| unit < 0x100) > 0;
    has_zeros
        && (alphabetic * 3 >= whole.len() * 2
            || (asian * 10 >= whole.len() && spaces > 0 && !is_utf_8(whole)))
}

/// Whether the bytes of these code units are UTF-8, in either byte order. The last character may be incomplete.
fn is_utf_8(units: &[u16]) -> bool {
    [u16::to_le_bytes, u16::to_be_bytes].into_iter().any(|bytes| {
        let bytes: Vec<u8> = units.iter().flat_map(|&unit| bytes(unit)).collect();
        std::str::from_utf8(&bytes).map_or_else(|error| error.error_len().is_none(), |_| true)
    })
}

/// Whether a character occurs in ordinary text: not a control character, not private use, not unassigned.
fn is_common(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{A0}'..='\u{1FFF}' | '\u{2000}'..='\u{2BFF}' | '\u{2C00}'..='\u{9FFF}'
        | '\u{A000}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}' | '\u{10000}'..='\u{1FBFF}'
        | '\u{20000}'..='\u{323AF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text in UTF-16 and in UTF-32, each in both byte orders.
    fn encoded(text: &str) -> ([Vec<u8>; 2], [Vec<u8>; 2]) {
        let units = || text.encode_utf16();
        let two =
            [units().flat_map(u16::to_le_bytes).collect(), units().flat_map(u16::to_be_bytes).collect()];
        let wide = || text.chars().map(u32::from);
        let four = [wide().flat_map(u32::to_le_bytes).collect(), wide().flat_map(u32::to_be_bytes).collect()];
        (two, four)
    }

    /// Texts of many scripts are recognized without a byte order mark, and not in UTF-8.
    #[test]
    fn wide_encodings_are_told_without_a_mark() {
        for text in [
            "some text\n",
            "text",
            "{\"text\": \"a\"}\r\n",
            "„Grün“ ist schön — naïve café",
            "Zażółć gęślą jaźń",
            "Tiếng Việt có dấu",
            "кот сидел на ковре и смотрел\n",
            "Η γάτα κάθισε στο χαλί",
            "החתול ישב על השטיח",
            "जय हो भारत",
            "猫はマットの上に座った。\n一匹の猫。\n",
            "고양이가 매트 위에 앉았다",
            "一只猫，坐在垫子上。\n它很高兴。\n",
            "smile 🙂 and on 🙂",
        ] {
            let (two, four) = encoded(text);
            assert!(two.iter().all(|bytes| is_utf_16(bytes)), "{text}");
            assert!(four.iter().all(|bytes| is_utf_32(bytes)), "{text}");
            assert!(!is_utf_16(text.as_bytes()) && !is_utf_32(text.as_bytes()), "{text}");
        }
    }

    /// Other text is not mistaken for UTF-16 or UTF-32, even if it has zeros or decodes as two-byte characters.
    #[test]
    fn other_bytes_are_no_wide_encoding() {
        let cases: [&[u8]; 14] = [
            b"",
            b"a\0",
            b"a\0b\0",
            b"\0\0\0\0\0\0\0\0",
            b"Bush hid the facts",
            b"a\tb\tc\td\t1\t2\t3\t",
            b"one\0two\0three\0four\0",
            b"foo\0bar\0baz\0qux\0",
            b"ab\0cd\0ef\0gh\0ij\0kl\0",
            b"2024-01-01T\x002024-01-02T\0",
            b"caf\xe9\0th\xe9\0d\xe9j\xe0 vu\0",
            b"\xca\xce\xd2\0\xf1\xe8\xe4\xe5\xeb\0 \0\xed\xe0\0",
            b"\x01\0\x02\0\x03\0\x04\0\x05\0\x06\0",
            b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09",
        ];
        for bytes in cases {
            assert!(!is_utf_16(bytes) && !is_utf_32(bytes), "{bytes:?}");
        }
    }
}
