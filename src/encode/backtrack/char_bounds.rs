//! Cuts pre-tokens at borders between characters that no token spans.

use super::path::{Backtracker, DeadEnds, Path};
use super::{BacktrackTables, NONE};
use crate::base::int::{TokenId, to_u64, truncate_to_u32, u64_to_usize};
use crate::vocab::Vocabulary;

/// Longest pre-token, in bytes, that is cut into characters. Longer ones check in between whether to stop.
const LONGEST: usize = 1 << 12;

/// Bits for each token id in [`CharFacts`].
const ID_BITS: usize = 20;
/// Bit where the ids begin. Below them are two bits for their number, and two for the sides on which the
/// character is [open](CharBounds::open).
const IDS_AT: usize = 4;

/// Bits of the hash of a pair of characters that number a word of the [filter](PairFilter) (64 KiB).
const WORD_BITS: u32 = 13;

/// A character of at most [`MAX_BYTES`] bytes, as its code point, which is below [`CHARACTERS`]. In text that is
/// not UTF-8, surrogates and other bytes of the same form count as characters too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Character(usize);

/// Number of code points of at most [`MAX_BYTES`] bytes.
const CHARACTERS: usize = 1 << 16;
/// Maximum number of bytes of a [`Character`]. No border is searched for beside longer ones.
const MAX_BYTES: usize = 3;

/// The bytes of a character that a token contains at one of its ends: all of them, or some at the character's end
/// or beginning.
///
/// The number says how many bytes are known: whole characters are below [`CHARACTERS`], two bytes below twice that,
/// and single bytes from there on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CharPart(usize);

impl Character {
    /// The character that a text begins with, if any, and its length in bytes.
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
        // An overlong spelling would be mistaken for another character.
        (character.length() == length).then_some((character, length))
    }

    /// The character that a text ends with, if any.
    fn last(text: &[u8]) -> Option<Character> {
        let inner = text.iter().rev().take(MAX_BYTES).take_while(|&&byte| is_inner(byte)).count();
        let (character, length) = Character::first(&text[text.len().checked_sub(inner + 1)?..])?;
        (length == inner + 1).then_some(character)
    }

    /// Length in bytes.
    #[inline(always)]
    fn length(self) -> usize {
        1 + usize::from(self.0 >= 0x80) + usize::from(self.0 >= 0x800)
    }

    /// All of the character, its last two bytes if it has three, and its last byte if it has several.
    fn ends(self) -> impl Iterator<Item = CharPart> {
        let two = (self.length() > 2).then(|| CharPart::two(self.0 & 0xFFF));
        let one = (self.length() > 1).then(|| CharPart::one(self.0 & 0x3F));
        [Some(CharPart::whole(self)), two, one].into_iter().flatten()
    }

    /// All of the character, its first two bytes if it has three, and its first byte if it has several.
    fn beginnings(self) -> impl Iterator<Item = CharPart> {
        let (two, one) = match self.length() {
            1 => (None, None),
            2 => (None, Some(CharPart::one(0xC0 | self.0 >> 6))),
            _ => (Some(CharPart::two(self.0 >> 6)), Some(CharPart::one(0xE0 | self.0 >> 12))),
        };
        [Some(CharPart::whole(self)), two, one].into_iter().flatten()
    }
}

impl CharPart {
    /// All bytes of a character.
    #[inline(always)]
    fn whole(character: Character) -> CharPart {
        CharPart(character.0)
    }

    /// Two of a character's three bytes, by the bits of its code point in them.
    fn two(bits: usize) -> CharPart {
        CharPart(CHARACTERS + bits)
    }

    /// One byte of a character: the low six bits of its last byte, or its first byte as it is.
    fn one(bits: usize) -> CharPart {
        CharPart(2 * CHARACTERS + bits)
    }

    /// The last character of `bytes`, which are the bytes of a token before a border; only a part of it if the token
    /// begins within that character.
    fn before(bytes: &[u8]) -> Option<CharPart> {
        match *bytes {
            [b, c] if is_inner(b) && is_inner(c) => Some(CharPart::two(low(b, 6) << 6 | low(c, 6))),
            [c] if is_inner(c) => Some(CharPart::one(low(c, 6))),
            _ => Character::last(bytes).map(CharPart::whole),
        }
    }

    /// The first character of `bytes`, which are the bytes of a token after a border; only a part of it if the token
    /// ends within that character.
    fn behind(bytes: &[u8]) -> Option<CharPart> {
        match *bytes {
            [a, b] if a & 0xF0 == 0xE0 && is_inner(b) => Some(CharPart::two(low(a, 4) << 6 | low(b, 6))),
            [a] if (0xC0..0xF0).contains(&a) => Some(CharPart::one(a.into())),
            _ => Character::first(bytes).map(|(character, _)| CharPart::whole(character)),
        }
    }

    /// The characters that end with this part, which must be one or two last bytes. Includes numbers that are no
    /// characters.
    fn characters(self) -> impl Iterator<Item = usize> {
        let known_bits = if self.0 < 2 * CHARACTERS { 12 } else { 6 };
        (self.0 % CHARACTERS..CHARACTERS).step_by(1 << known_bits)
    }

    /// Whether the token contains all bytes of the character.
    fn is_whole(self) -> bool {
        self.0 < CHARACTERS
    }
}

/// Whether a byte continues a character.
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
/// Whatever the merges make of the bytes around a position is a token. So if no token spans the position, the
/// text before it and the text after it are encoded independently.
///
/// **Memory:** 80 KiB.
#[derive(Debug)]
pub(super) struct CharBounds {
    /// The pairs of parts with a border that some token spans.
    spanned: PairFilter,
    /// The characters that can be before, and those that can be after, a border that some token spans with a
    /// proper part of a character.
    open: [Box<[u64]>; 2],
}

impl CharBounds {
    /// Finds the borders that tokens of a vocabulary span.
    pub(super) fn new(vocabulary: &Vocabulary) -> CharBounds {
        let none = |bits: usize| vec![0; bits / 64].into_boxed_slice();
        let mut borders =
            CharBounds { spanned: PairFilter::new(), open: [none(CHARACTERS), none(CHARACTERS)] };
        for merge in vocabulary.merges() {
            let bytes = vocabulary.bytes(merge.result).unwrap_or_default();
            for (before, behind) in (1..bytes.len()).map(|at| bytes.split_at(at)) {
                if let (Some(left), Some(right)) = (CharPart::before(before), CharPart::behind(behind)) {
                    borders.span(left, right);
                }
            }
        }
        borders
    }

    /// Records that a token spans the border between two parts.
    fn span(&mut self, left: CharPart, right: CharPart) {
        // Two ASCII characters are always treated as spanned.
        if left.0.max(right.0) >= 0x80 {
            self.spanned.add(left, right);
        }
        let [lefts, rights] = &mut self.open;
        match (left.is_whole(), right.is_whole()) {
            (true, true) => {}
            (true, false) => set(lefts, left.0),
            (false, true) => set(rights, right.0),
            (false, false) => left.characters().for_each(|one| set(lefts, one)),
        }
    }

    /// Whether some token may have bytes of both characters, given the cached facts about them.
    #[inline(always)]
    fn may_be_spanned(&self, left: (Character, CharFacts), right: (Character, CharFacts)) -> bool {
        left.0.0.max(right.0.0) < 0x80
            || self.spanned.may_have(CharPart::whole(left.0), CharPart::whole(right.0))
            || left.1.is_open_to(right.1) && self.by_parts(left.0, right.0)
    }

    /// Whether some token may span the border with a part of either character.
    #[inline(never)]
    fn by_parts(&self, left: Character, right: Character) -> bool {
        let spanned = |end| right.beginnings().any(|beginning| self.spanned.may_have(end, beginning));
        left.ends().any(spanned)
    }
}

/// Sets one bit of a bit set.
fn set(bits: &mut [u64], at: usize) {
    bits[at / 64] |= 1 << (at % 64);
}

/// Whether a bit is set.
#[inline(always)]
fn has(bits: &[u64], at: usize) -> bool {
    bits[at / 64] >> (at % 64) & 1 == 1
}

/// A set of pairs of parts: a Bloom filter with two bits per pair, both in one word.
///
/// Two bits, because a border is looked up in up to ten forms, and each of them can be mistaken for a pair of the set.
#[derive(Debug)]
struct PairFilter(Box<[u64]>);

impl PairFilter {
    /// An empty set.
    fn new() -> PairFilter {
        PairFilter(vec![0; 1 << WORD_BITS].into())
    }

    /// Adds a pair.
    fn add(&mut self, left: CharPart, right: CharPart) {
        let (word, bits) = PairFilter::place(left, right);
        self.0[word] |= bits;
    }

    /// Whether the set may have a pair. If not, it does not have it.
    #[inline(always)]
    fn may_have(&self, left: CharPart, right: CharPart) -> bool {
        let (word, bits) = PairFilter::place(left, right);
        self.0[word] & bits == bits
    }

    /// The word and the bits of a pair.
    #[inline(always)]
    fn place(left: CharPart, right: CharPart) -> (usize, u64) {
        // A part has at most 18 bits.
        let hash = to_u64(left.0 << 18 | right.0).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let bits = 1 << (hash >> 32 & 63) | 1 << (hash >> 38 & 63);
        (u64_to_usize(hash >> (u64::BITS - WORD_BITS)), bits)
    }
}

/// Cached facts about a character: the tokens that it encodes to by itself, and the sides on which it is
/// [open](CharBounds::open). No character has zero tokens, so the default value means that nothing is known yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CharFacts(u64);

impl CharFacts {
    /// Packs the tokens of a character, and whether it is open before and after.
    fn new(ids: &[TokenId], open: [bool; 2]) -> CharFacts {
        let packed = ids.iter().rfold(0, |packed, id| packed << ID_BITS | u64::from(id.get()));
        let [left, right] = open.map(u64::from);
        CharFacts(packed << IDS_AT | right << 3 | left << 2 | to_u64(ids.len()))
    }

    /// The tokens and their number.
    #[inline(always)]
    fn tokens(self) -> ([TokenId; MAX_BYTES], usize) {
        let id = |number| u64_to_usize(self.0 >> (IDS_AT + number * ID_BITS)) & ((1 << ID_BITS) - 1);
        (std::array::from_fn(|number| TokenId::new(truncate_to_u32(id(number)))), u64_to_usize(self.0 & 3))
    }

    /// Whether some token may span the border between this character and the next with a proper part of a
    /// character.
    #[inline(always)]
    fn is_open_to(self, next: CharFacts) -> bool {
        (self.0 >> 2 | next.0 >> 3) & 1 == 1
    }
}

/// The cached facts about each character; at first none.
///
/// **Memory:** 0.5 MiB once a pre-token was cut.
#[derive(Debug, Default)]
pub(super) struct CharacterCache(Vec<CharFacts>);

impl BacktrackTables {
    /// Whether a pre-token should be cut into characters: whether it ends with a character of several bytes and
    /// is not too long. English is not cut, since its letters are seldom tokens of their own. Characters of
    /// scripts that a vocabulary has learned little of often are.
    pub(crate) fn by_characters(&self, pretoken: &[u8]) -> bool {
        pretoken.last().is_some_and(|&last| is_inner(last))
            && pretoken.len() <= LONGEST
            && self.tokens.len() <= 1 << ID_BITS
    }
}

impl CharacterCache {
    /// Appends the tokens of a pre-token to `ids`. Cuts it at borders and looks up characters that are alone
    /// between two borders.
    pub(super) fn encode(
        &mut self,
        tables: &BacktrackTables,
        pretoken: &[u8],
        dead: &mut DeadEnds,
        ids: &mut Vec<TokenId>,
    ) {
        self.0.resize(CHARACTERS, CharFacts::default());
        let mut path = Path::new(std::mem::take(ids), 0);
        let (mut start, mut at) = (0, 0);
        // The character that ends at the current position, and its start.
        let mut before: Option<((Character, CharFacts), usize)> = None;
        while at < pretoken.len() {
            let Some((character, length)) = Character::first(&pretoken[at..]) else {
                (at, before) = (at + 1, None);
                continue;
            };
            let this = (character, self.known(tables, character, &pretoken[at..at + length], dead));
            if let Some((left, left_at)) = before
                && !tables.borders.may_be_spanned(left, this)
            {
                let alone = (left_at == start).then_some(left.1);
                encode_part(tables, &pretoken[start..at], alone, dead, &mut path);
                start = at;
            }
            before = Some((this, at));
            at += length;
        }
        let alone = before.filter(|before| before.1 == start).map(|before| before.0.1);
        encode_part(tables, &pretoken[start..], alone, dead, &mut path);
        *ids = path.ids;
    }

    /// The cached facts about a character; determines them if there are none yet.
    #[inline(always)]
    fn known(
        &mut self,
        tables: &BacktrackTables,
        character: Character,
        bytes: &[u8],
        dead: &mut DeadEnds,
    ) -> CharFacts {
        let known = self.0[character.0];
        if known == CharFacts::default() { self.learn(tables, character, bytes, dead) } else { known }
    }

    /// Determines and caches the facts about a character.
    #[cold]
    fn learn(
        &mut self,
        tables: &BacktrackTables,
        character: Character,
        bytes: &[u8],
        dead: &mut DeadEnds,
    ) -> CharFacts {
        let mut path = Path::new(Vec::new(), 0);
        encode_part(tables, bytes, None, dead, &mut path);
        let open = tables.borders.open.each_ref().map(|open| has(open, character.0));
        self.0[character.0] = CharFacts::new(&path.ids, open);
        self.0[character.0]
    }
}

/// Encodes the bytes between two borders. `alone` has the cached facts if they are a single character.
#[inline(always)]
fn encode_part(
    tables: &BacktrackTables,
    part: &[u8],
    alone: Option<CharFacts>,
    dead: &mut DeadEnds,
    path: &mut Path,
) {
    if let Some(known) = alone {
        let (tokens, number) = known.tokens();
        path.ids.extend_from_slice(&tokens);
        path.ids.truncate(path.ids.len() - tokens.len() + number);
    } else {
        (path.base, path.at, path.last) = (path.ids.len(), 0, NONE);
        Backtracker::new(tables, part, dead).extend_to(path, part.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::int::Count;
    use crate::split::SplitPattern;
    use crate::train::{Merge, Merges};
    use crate::vocab::SpecialTokensAt;

    /// A vocabulary of these tokens, each merged byte by byte from its beginning.
    fn of(tokens: &[&[u8]]) -> BacktrackTables {
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
                left = truncate_to_u32(256 + known.unwrap_or(made.len() - 1));
            }
        }
        let vocabulary =
            Vocabulary::from_merges(&Merges::new(merges), &[], SpecialTokensAt::End, SplitPattern::None);
        BacktrackTables::new(&vocabulary.expect("merges of what was made"), false).expect("not too large")
    }

    /// Of such tokens, each byte may be examined several times, but not the whole token at each byte.
    #[test]
    fn long_tokens_of_bytes_within_characters_take_no_longer_than_others() {
        let twice = |token| Merge { left: token, right: token, count: Count::ONE };
        let merges = std::iter::once(twice(0x80)).chain((256..276).map(twice)).collect();
        let vocabulary =
            Vocabulary::from_merges(&Merges::new(merges), &[], SpecialTokensAt::End, SplitPattern::None);
        CharBounds::new(&vocabulary.expect("merges of what was made"));
    }

    /// Vocabularies with more than 2²⁰ tokens do not use the cache of characters, since their ids do not fit.
    #[test]
    fn nothing_is_taken_apart_by_more_tokens_than_have_room_beside_each_other() {
        let mut tables = of(&[]);
        let mut tokens = std::mem::take(&mut tables.tokens).into_vec();
        tokens.resize(1 << ID_BITS, tokens[0].clone());
        for (more, taken_apart) in [(0, true), (1, false)] {
            tokens.resize((1 << ID_BITS) + more, tokens[0].clone());
            tables.tokens = tokens.clone().into();
            assert_eq!(tables.by_characters("中国".as_bytes()), taken_apart);
        }
    }

    /// Whether a token may span two characters, according to the lookup that encoding uses.
    fn spanned(tables: &BacktrackTables, text: &str) -> bool {
        let (mut characters, mut dead) = (CharacterCache::default(), DeadEnds::default());
        characters.0.resize(CHARACTERS, CharFacts::default());
        let [left, right] =
            text.char_indices().map(|(at, _)| at).collect::<Vec<_>>().try_into().expect("two");
        let [left, right] = [&text.as_bytes()[left..right], &text.as_bytes()[right..]].map(|bytes| {
            let (character, length) = Character::first(bytes).expect("one of at most three bytes");
            assert_eq!((length, Character::last(bytes)), (bytes.len(), Some(character)));
            (character, characters.known(tables, character, bytes, &mut dead))
        });
        tables.borders.may_be_spanned(left, right)
    }

    /// Whole and partial characters of tokens mark exactly the expected borders.
    #[test]
    fn borders_are_where_no_token_has_bytes_of_both() {
        let tables = of(&[
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
            assert_eq!(spanned(&tables, pair), expected, "{pair}");
        }
    }

    /// Overlong and incomplete spellings are no characters.
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
            let number = character.chars().next().map_or(0, |one| u64_to_usize(u32::from(one).into()));
            let expected = (Character(number), character.len());
            assert_eq!(Character::first(character.as_bytes()), Some(expected));
            assert_eq!(expected.0.length(), expected.1);
        }
    }
}
