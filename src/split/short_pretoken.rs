//! Short pre-tokens as fixed-size keys for hash tables of counts and of encoded pre-tokens.

use crate::base::int::{as_u64_halves, to_u64};

/// Maximum number of bytes of a pre-token that fits into a [`ShortPretoken`]. Almost all pre-tokens are this short.
pub(crate) const SHORT: usize = 15;

/// Odd multipliers of [`ShortPretoken::hash`].
const MULTIPLIERS: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xD6E8_FEB8_6659_FD93];

/// For each length up to [`SHORT`], the bits of the low and the high half that contain the pre-token.
const MASKS: [[u64; 2]; SHORT + 1] = {
    let mut masks = [[0; 2]; SHORT + 1];
    let mut length = 1;
    while length <= SHORT {
        let [low, high] = masks[length - 1];
        masks[length] = if length <= 8 { [low << 8 | 0xFF, high] } else { [low, high << 8 | 0xFF] };
        length += 1;
    }
    masks
};

/// A pre-token of at most [`SHORT`] bytes as a 16-byte number: its bytes, then zeros, and its length in the last
/// byte.
///
/// Two of them are equal exactly if the pre-tokens are. Only that of the empty pre-token is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShortPretoken {
    /// The first eight bytes, little-endian.
    pub(crate) low: u64,
    /// The other bytes, little-endian, and the length in the uppermost byte.
    pub(crate) high: u64,
}

impl ShortPretoken {
    /// A value that no pre-token has.
    pub(crate) const NONE: ShortPretoken = ShortPretoken { low: 1, high: 0 };

    /// Returns the pre-token `text[start..start + length]`, of at most [`SHORT`] bytes.
    ///
    /// If the text has 16 bytes from `start` on, they are read at once and masked. That is much cheaper than copying
    /// a variable number of bytes.
    ///
    /// # Panics
    /// `length` is more than [`SHORT`], or the pre-token reaches past the end of the text.
    #[inline(always)]
    pub(crate) fn within(text: &[u8], start: usize, length: usize) -> ShortPretoken {
        match text.get(start..start + 16).and_then(<[u8]>::first_chunk) {
            Some(bytes) => ShortPretoken::masked(bytes, length),
            None => ShortPretoken::new(&text[start..start + length]),
        }
    }

    /// Returns a pre-token that is given alone.
    ///
    /// # Panics
    /// It has more than [`SHORT`] bytes.
    pub(crate) fn new(pretoken: &[u8]) -> ShortPretoken {
        let mut bytes = [0; 16];
        bytes[..pretoken.len()].copy_from_slice(pretoken);
        ShortPretoken::masked(&bytes, pretoken.len())
    }

    /// Clears the bytes after the first `length`, and adds the length.
    #[inline(always)]
    fn masked(bytes: &[u8; 16], length: usize) -> ShortPretoken {
        let ([low, high], mask) = (as_u64_halves(bytes), MASKS[length]);
        ShortPretoken { low: low & mask[0], high: high & mask[1] | to_u64(length) << 56 }
    }

    /// Returns a hash. Its high bits depend on all bytes of the pre-token; use those.
    #[inline(always)]
    pub(crate) fn hash(self) -> u64 {
        (self.low ^ self.high.wrapping_mul(MULTIPLIERS[1])).wrapping_mul(MULTIPLIERS[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_pretokens_are_equal_if_their_bytes_are() {
        let text = b"ab\0\0cab\0 and more than sixteen bytes, then ab\0";
        let at = |start, end| ShortPretoken::within(text, start, end - start);
        assert_eq!(at(0, 2), at(5, 7));
        assert_eq!(at(5, 8), at(text.len() - 3, text.len()));
        assert_ne!(at(0, 2), at(0, 3));
        assert_ne!(at(0, 3), at(0, 4));
        for length in 0..=SHORT {
            assert_eq!(at(9, 9 + length), ShortPretoken::new(&text[9..9 + length]));
            assert_eq!(at(9, 9 + length).high >> 56, to_u64(length));
            assert_ne!(at(9, 9 + length), ShortPretoken::NONE);
        }
    }
}
