use super::document::Scratch;
use super::path::Path;
use super::{Matches, NONE};
use crate::units::{TokenId, amount, low32, place64};
use crate::vocab::Vocabulary;

/// Pieces of at most so many bytes are taken apart: longer ones are asked now and then whether to stop.
const LONGEST: usize = 1 << 12;

/// What is remembered of a character has so many bits for each of its tokens.
const ID_BITS: usize = 20;
/// Below them stand two bits for their number, and two for the places where it is [open](Borders::open).
const IDS_AT: usize = 4;

/// Pairs of characters are hashed to so many bits.
const PAIR_BITS: u32 = 18;

/// A character of at most [`MOST_BYTES`] by its number, which is below [`CHARACTERS`]. In text that is no UTF-8 also
/// surrogates, and other bytes that look like one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Character(usize);

const CHARACTERS: usize = 1 << 16;
const MOST_BYTES: usize = 3;

/// What a token has of a character that it may share with another: all of it, or some bytes at its end or its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part(usize);

impl Character {
    /// The one that a text begins with, if it begins with one, and its length.
    #[inline(always)]
    fn first(text: &[u8]) -> Option<(Character, usize)> {
        let (number, length) = match *text {
            [a, ..] if a < 0x80 => (low(a, 7), 1),
            [a, b, c, ..] if a & 0xF0 == 0xE0 && is_inner(b) && is_inner(c) => {
                (low(a, 4) << 12 | low(b, 6) << 6 | low(c, 6), 3)
            }
            [a, b, ..] if a & 0xE0 == 0xC0 && is_inner(b) => (low(a, 5) << 6 | low(b, 6), 2),
            _ => return None,
        };
        let character = Character(number);
        // Spelled longer than need be it would pass for another.
        (character.length() == length).then_some((character, length))
    }

    /// The one that a text ends with, if it ends with one.
    fn last(text: &[u8]) -> Option<Character> {
        let inner = text.iter().rev().take(MOST_BYTES).take_while(|&&byte| is_inner(byte)).count();
        let (character, length) = Character::first(&text[text.len().checked_sub(inner + 1)?..])?;
        (length == inner + 1).then_some(character)
    }

    #[inline(always)]
    fn length(self) -> usize {
        1 + usize::from(self.0 >= 0x80) + usize::from(self.0 >= 0x800)
    }

    /// All of it, its last two bytes if it has more, and its last byte if it has more.
    fn ends(self) -> impl Iterator<Item = Part> {
        let two = (self.length() > 2).then(|| Part::two(self.0 & 0xFFF));
        let one = (self.length() > 1).then(|| Part::one(self.0 & 0x3F));
        [Some(Part::whole(self)), two, one].into_iter().flatten()
    }

    /// All of it, its first two bytes if it has more, and its first byte if it has more.
    fn beginnings(self) -> impl Iterator<Item = Part> {
        let (two, one) = match self.length() {
            1 => (None, None),
            2 => (None, Some(Part::one(0xC0 | self.0 >> 6))),
            _ => (Some(Part::two(self.0 >> 6)), Some(Part::one(0xE0 | self.0 >> 12))),
        };
        [Some(Part::whole(self)), two, one].into_iter().flatten()
    }
}

impl Part {
    #[inline(always)]
    fn whole(character: Character) -> Part {
        Part(character.0)
    }

    fn two(bits: usize) -> Part {
        Part(CHARACTERS + bits)
    }

    fn one(bits: usize) -> Part {
        Part(2 * CHARACTERS + bits)
    }

    /// What the beginning of a token has of a character that ends with it.
    fn before(bytes: &[u8]) -> Option<Part> {
        match *bytes {
            [b, c] if is_inner(b) && is_inner(c) => Some(Part::two(low(b, 6) << 6 | low(c, 6))),
            [c] if is_inner(c) => Some(Part::one(low(c, 6))),
            _ => Character::last(bytes).map(Part::whole),
        }
    }

    /// What the end of a token has of a character that begins with it.
    fn behind(bytes: &[u8]) -> Option<Part> {
        match *bytes {
            [a, b] if a & 0xF0 == 0xE0 && is_inner(b) => Some(Part::two(low(a, 4) << 6 | low(b, 6))),
            [a] if (0xC0..0xF0).contains(&a) => Some(Part::one(a.into())),
            _ => Character::first(bytes).map(|(character, _)| Part::whole(character)),
        }
    }

    /// Those that end so, if it is the last byte or the last two; and some that cannot be.
    fn characters(self) -> impl Iterator<Item = usize> {
        let known_bits = if self.0 < 2 * CHARACTERS { 12 } else { 6 };
        (self.0 % CHARACTERS..CHARACTERS).step_by(1 << known_bits)
    }

    fn is_whole(self) -> bool {
        self.0 < CHARACTERS
    }
}

fn is_inner(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// The lowest bits of a byte.
#[inline(always)]
fn low(byte: u8, bits: usize) -> usize {
    usize::from(byte) & ((1 << bits) - 1)
}

/// Where text can be cut between two characters because no token has bytes of both.
///
/// Whatever merges make of the bytes around a place is a token. So where none spans it, what stands before is
/// encoded as if it stood alone, and what stands behind too.
///
/// **Memory:** 48 KiB.
#[derive(Debug)]
pub(super) struct Borders {
    /// By the hash of what a token has of each, whether one spans the two.
    spanned: Box<[u64]>,
    /// Which characters may stand before a border that a token spans by parts of characters, and which behind one.
    open: [Box<[u64]>; 2],
}

impl Borders {
    pub(super) fn new(vocabulary: &Vocabulary) -> Borders {
        let none = |bits: usize| vec![0; bits / 64].into_boxed_slice();
        let mut borders =
            Borders { spanned: none(1 << PAIR_BITS), open: [none(CHARACTERS), none(CHARACTERS)] };
        for merge in vocabulary.merges() {
            let bytes = vocabulary.bytes(merge.result).unwrap_or_default();
            for (before, behind) in (1..bytes.len()).map(|at| bytes.split_at(at)) {
                if let (Some(left), Some(right)) = (Part::before(before), Part::behind(behind)) {
                    borders.span(left, right);
                }
            }
        }
        borders
    }

    fn span(&mut self, left: Part, right: Part) {
        // Two letters of English are taken for spanned anyway.
        if left.0.max(right.0) >= 0x80 {
            set(&mut self.spanned, pair(left, right));
        }
        let [lefts, rights] = &mut self.open;
        match (left.is_whole(), right.is_whole()) {
            (true, true) => {}
            (true, false) => set(lefts, left.0),
            (false, true) => set(rights, right.0),
            (false, false) => left.characters().for_each(|one| set(lefts, one)),
        }
    }

    /// Whether a token may have bytes of two characters, given what is known of them.
    #[inline(always)]
    fn may_be_spanned(&self, left: (Character, Known), right: (Character, Known)) -> bool {
        left.0.0.max(right.0.0) < 0x80
            || has(&self.spanned, pair(Part::whole(left.0), Part::whole(right.0)))
            || left.1.is_open_to(right.1) && self.by_parts(left.0, right.0)
    }

    #[inline(never)]
    fn by_parts(&self, left: Character, right: Character) -> bool {
        let spanned = |end| right.beginnings().any(|beginning| has(&self.spanned, pair(end, beginning)));
        left.ends().any(spanned)
    }
}

fn set(bits: &mut [u64], at: usize) {
    bits[at / 64] |= 1 << (at % 64);
}

#[inline(always)]
fn has(bits: &[u64], at: usize) -> bool {
    bits[at / 64] >> (at % 64) & 1 == 1
}

/// The hash of a pair.
#[inline(always)]
fn pair(left: Part, right: Part) -> usize {
    let hash = amount(left.0 << PAIR_BITS | right.0).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    place64(hash >> (u64::BITS - PAIR_BITS))
}

/// What is remembered of a character: the tokens that it is alone, and where it is [open](Borders::open). None has no
/// tokens, so that the default says that nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known(u64);

impl Known {
    fn new(ids: &[TokenId], open: [bool; 2]) -> Known {
        let packed = ids.iter().rfold(0, |packed, id| packed << ID_BITS | u64::from(id.get()));
        let [left, right] = open.map(u64::from);
        Known(packed << IDS_AT | right << 3 | left << 2 | amount(ids.len()))
    }

    /// The tokens, and how many they are.
    #[inline(always)]
    fn tokens(self) -> ([TokenId; MOST_BYTES], usize) {
        let id = |number| place64(self.0 >> (IDS_AT + number * ID_BITS)) & ((1 << ID_BITS) - 1);
        (std::array::from_fn(|number| TokenId::new(low32(id(number)))), place64(self.0 & 3))
    }

    /// Whether a token may span the border to the next by parts of characters.
    #[inline(always)]
    fn is_open_to(self, next: Known) -> bool {
        (self.0 >> 2 | next.0 >> 3) & 1 == 1
    }
}

/// What is known of each character; of none at first.
///
/// **Memory:** 0.5 MiB once there were some.
#[derive(Debug, Default)]
pub(super) struct Characters(Vec<Known>);

impl Matches {
    /// Whether a piece is to be taken apart. English is not: its letters seldom stand alone. Those of scripts of which
    /// a vocabulary has learned little do.
    pub(crate) fn by_characters(&self, piece: &[u8]) -> bool {
        piece.last().is_some_and(|&last| is_inner(last))
            && piece.len() <= LONGEST
            && self.tokens.len() <= 1 << ID_BITS
    }
}

impl Scratch {
    /// Appends the tokens of a piece to `ids`, cutting it at borders and looking up characters that stand alone.
    pub(super) fn encode_characters(&mut self, matches: &Matches, piece: &[u8], ids: &mut Vec<TokenId>) {
        self.characters.0.resize(CHARACTERS, Known::default());
        let mut path = Path::new(std::mem::take(ids), 0);
        let (mut start, mut at) = (0, 0);
        // The character that ends here, and where it begins.
        let mut before: Option<((Character, Known), usize)> = None;
        while at < piece.len() {
            let Some((character, length)) = Character::first(&piece[at..]) else {
                (at, before) = (at + 1, None);
                continue;
            };
            let this = (character, self.known(matches, character, &piece[at..at + length]));
            if let Some((left, left_at)) = before
                && !matches.borders.may_be_spanned(left, this)
            {
                let alone = (left_at == start).then_some(left.1);
                self.encode_part(matches, &piece[start..at], alone, &mut path);
                start = at;
            }
            before = Some((this, at));
            at += length;
        }
        let alone = before.filter(|before| before.1 == start).map(|before| before.0.1);
        self.encode_part(matches, &piece[start..], alone, &mut path);
        *ids = path.ids;
    }

    #[inline(always)]
    fn known(&mut self, matches: &Matches, character: Character, bytes: &[u8]) -> Known {
        let known = self.characters.0[character.0];
        if known == Known::default() { self.learn(matches, character, bytes) } else { known }
    }

    #[cold]
    fn learn(&mut self, matches: &Matches, character: Character, bytes: &[u8]) -> Known {
        let mut path = Path::new(Vec::new(), 0);
        self.encode_part(matches, bytes, None, &mut path);
        let open = matches.borders.open.each_ref().map(|open| has(open, character.0));
        self.characters.0[character.0] = Known::new(&path.ids, open);
        self.characters.0[character.0]
    }

    /// Encodes a part between borders, of which something is known if it is a character alone.
    #[inline(always)]
    fn encode_part(&mut self, matches: &Matches, part: &[u8], alone: Option<Known>, path: &mut Path) {
        if let Some(known) = alone {
            let (tokens, number) = known.tokens();
            path.ids.extend_from_slice(&tokens);
            path.ids.truncate(path.ids.len() - tokens.len() + number);
        } else {
            (path.base, path.at, path.last) = (path.ids.len(), 0, NONE);
            self.go_on_in(matches, part, path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::SplitPattern;
    use crate::train::{Merge, Merges};
    use crate::units::Count;
    use crate::vocab::SpecialTokensAt;

    /// A vocabulary of these tokens, each made byte by byte from its beginning.
    fn of(tokens: &[&[u8]]) -> Matches {
        let mut made: Vec<&[u8]> = Vec::new();
        let mut merges = Vec::new();
        for token in tokens {
            let mut left = u32::from(token[0]);
            for end in 2..=token.len() {
                let known = made.iter().position(|made| *made == &token[..end]);
                if known.is_none() {
                    made.push(&token[..end]);
                    merges.push(Merge { left, right: token[end - 1].into(), count: Count::ONE });
                }
                left = low32(256 + known.unwrap_or(made.len() - 1));
            }
        }
        let vocabulary =
            Vocabulary::from_merges(&Merges::new(merges), &[], SpecialTokensAt::End, SplitPattern::None);
        Matches::new(&vocabulary.expect("merges of what was made"), false).expect("not too large")
    }

    /// Each byte of such tokens may be looked at some times, but not all of them at each.
    #[test]
    fn long_tokens_of_bytes_within_characters_take_no_longer_than_others() {
        let twice = |token| Merge { left: token, right: token, count: Count::ONE };
        let merges = std::iter::once(twice(0x80)).chain((256..276).map(twice)).collect();
        let vocabulary =
            Vocabulary::from_merges(&Merges::new(merges), &[], SpecialTokensAt::End, SplitPattern::None);
        Borders::new(&vocabulary.expect("merges of what was made"));
    }

    #[test]
    fn nothing_is_taken_apart_by_more_tokens_than_have_room_beside_each_other() {
        let mut matches = of(&[]);
        let mut tokens = std::mem::take(&mut matches.tokens).into_vec();
        tokens.resize(1 << ID_BITS, tokens[0].clone());
        for (more, taken_apart) in [(0, true), (1, false)] {
            tokens.resize((1 << ID_BITS) + more, tokens[0].clone());
            matches.tokens = tokens.clone().into();
            assert_eq!(matches.by_characters("中国".as_bytes()), taken_apart);
        }
    }

    /// Whether two characters may be spanned, as a piece that has both is told.
    fn spanned(matches: &Matches, text: &str) -> bool {
        let mut scratch = Scratch::default();
        scratch.characters.0.resize(CHARACTERS, Known::default());
        let [left, right] =
            text.char_indices().map(|(at, _)| at).collect::<Vec<_>>().try_into().expect("two");
        let [left, right] = [&text.as_bytes()[left..right], &text.as_bytes()[right..]].map(|bytes| {
            let (character, length) = Character::first(bytes).expect("one of at most three bytes");
            assert_eq!((length, Character::last(bytes)), (bytes.len(), Some(character)));
            (character, scratch.known(matches, character, bytes))
        });
        matches.borders.may_be_spanned(left, right)
    }

    #[test]
    fn borders_are_where_no_token_has_bytes_of_both() {
        let matches = of(&[
            "中国".as_bytes(),
            &"国é".as_bytes()[..4],
            &"д国".as_bytes()[1..],
            &"가각".as_bytes()[1..5],
            &"阭阭".as_bytes()[2..4],
            " 人".as_bytes(),
        ]);
        for (pair, expected) in [
            ("中国", true),
            ("国中", false),
            ("国é", true),
            ("国à", true),
            ("国ж", false),
            ("д国", true),
            ("ш국", false),
            ("가각", true),
            ("가갂", true),
            ("각가", false),
            ("阭阭", true),
            ("中阭", true),
            ("阭中", false),
            (" 人", true),
            (" 中", true),
            (" 가", false),
            ("人人", false),
            ("ab", true),
        ] {
            assert_eq!(spanned(&matches, pair), expected, "{pair}");
        }
    }

    #[test]
    fn what_is_spelled_too_long_or_too_short_is_no_character() {
        for bytes in [
            &b"\x80"[..],
            b"\xc1\x81",
            b"\xe0\x80\x80",
            b"\xe0\x9f\xbf",
            b"\xe4\xb8",
            b"\xf0\x9f\x98\x80",
            b"",
        ] {
            assert_eq!((Character::first(bytes), Character::last(bytes)), (None, None), "{bytes:x?}");
        }
        for character in ["\0", "\u{7f}", "\u{80}", "\u{7ff}", "\u{800}", "\u{ffff}"] {
            let number = character.chars().next().map_or(0, |one| place64(u32::from(one).into()));
            let expected = (Character(number), character.len());
            assert_eq!(Character::first(character.as_bytes()), Some(expected));
            assert_eq!(expected.0.length(), expected.1);
        }
    }
}
