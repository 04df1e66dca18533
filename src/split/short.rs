use crate::units::{amount, halves};

/// Longest piece that is its own [`ShortPiece`]; almost all are.
pub(crate) const SHORT: usize = 15;

const MULTIPLIERS: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xD6E8_FEB8_6659_FD93];

/// For each length up to [`SHORT`] the bits of the halves that hold the piece.
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

/// A piece of at most [`SHORT`] bytes as a number of sixteen: its bytes, zeros, and its length in the last.
/// So two are equal exactly if the pieces are, and none but the empty piece's is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShortPiece {
    /// The first eight bytes, the first of them lowest.
    pub(crate) low: u64,
    /// The others, and above them the length.
    pub(crate) high: u64,
}

impl ShortPiece {
    /// Equal to no piece.
    pub(crate) const NONE: ShortPiece = ShortPiece { low: 1, high: 0 };

    /// A piece of at most [`SHORT`] bytes that stands in a text. Where 16 bytes can be read, masking them is
    /// much cheaper than copying a number of bytes that varies.
    #[inline(always)]
    pub(crate) fn within(text: &[u8], start: usize, length: usize) -> ShortPiece {
        match text.get(start..start + 16).and_then(<[u8]>::first_chunk) {
            Some(bytes) => ShortPiece::masked(bytes, length),
            None => ShortPiece::new(&text[start..start + length]),
        }
    }

    /// A piece.
    ///
    /// # Panics
    /// It has more than [`SHORT`] bytes.
    pub(crate) fn new(piece: &[u8]) -> ShortPiece {
        let mut bytes = [0; 16];
        bytes[..piece.len()].copy_from_slice(piece);
        ShortPiece::masked(&bytes, piece.len())
    }

    #[inline(always)]
    fn masked(bytes: &[u8; 16], length: usize) -> ShortPiece {
        let ([low, high], mask) = (halves(bytes), MASKS[length]);
        ShortPiece { low: low & mask[0], high: high & mask[1] | amount(length) << 56 }
    }

    /// A hash whose high bits depend on all of the piece.
    #[inline(always)]
    pub(crate) fn hash(self) -> u64 {
        (self.low ^ self.high.wrapping_mul(MULTIPLIERS[1])).wrapping_mul(MULTIPLIERS[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_told_apart_by_length_and_bytes_and_nothing_else() {
        let text = b"ab\0\0cab\0 and more than sixteen bytes, then ab\0";
        let at = |start, end| ShortPiece::within(text, start, end - start);
        assert_eq!(at(0, 2), at(5, 7));
        assert_eq!(at(5, 8), at(text.len() - 3, text.len()));
        assert_ne!(at(0, 2), at(0, 3));
        assert_ne!(at(0, 3), at(0, 4));
        for length in 0..=SHORT {
            assert_eq!(at(9, 9 + length), ShortPiece::new(&text[9..9 + length]));
            assert_eq!(at(9, 9 + length).high >> 56, amount(length));
            assert_ne!(at(9, 9 + length), ShortPiece::NONE);
        }
    }
}
