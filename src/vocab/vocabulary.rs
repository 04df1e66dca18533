//! The vocabulary: its tokens, merges and rules, and the checks of its invariants. All formats are read into a
//! [`Vocabulary`] and written from it.

use std::borrow::Cow;

use rustc_hash::{FxBuildHasher, FxHashSet};
use serde::{Deserialize, Serialize};

use super::format::{Format, id_twice, only_hf_holds, unknown_id};
use super::text_rules::{AddedToken, BosEosTemplate, Normalizer, TextRules};
use super::token_bytes::TokenBytes;
use crate::base::hash::Map;
use crate::base::int::{TokenId, to_usize, truncate_to_u32};
use crate::error::{Error, ErrorKind, Result, excerpt};
use crate::split::{SplitPattern, byte_alphabet};
use crate::train::Merges;

/// A merge of two tokens into one, with its rank.
///
/// A merge has no bytes of its own: those of `result` are the bytes of `left` followed by the bytes of `right`.
/// [`Vocabulary::new`] checks this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RankedMerge {
    /// The left token.
    pub left: TokenId,
    /// The right token.
    pub right: TokenId,
    /// The token that replaces the pair.
    pub result: TokenId,
    /// The merge's priority: lower ranks merge first, and among equal ranks the leftmost pair. Merges may share a
    /// rank.
    pub rank: u32,
}

/// A byte-level BPE vocabulary: what encoding and decoding need, whichever program learned it.
///
/// Invariants, checked on construction:
///
/// - No byte has two tokens. Ids are unique; unused ids (holes) are legal.
/// - Both parts and the result of every merge are tokens, and the result's bytes are those of the parts joined. No
///   part is a token without bytes.
/// - Merges are in ascending order of rank, and ranks are 0, 1, 2 and so on without gaps. No pair occurs twice.
/// - The texts of added tokens are not empty and differ from each other, and those of special tokens from every other
///   token. An added token takes part in merges only if it is also an ordinary token, and its text is the bytes of that
///   token, spelled in GPT-2's byte alphabet.
///
/// A byte may lack a token. Tokenizers that were trained on UTF-8 alone often have none for 0xC0, 0xC1 and 0xF5–0xFF,
/// which never occur in UTF-8. [`MissingBytes`](crate::encode::MissingBytes) decides how text with such a byte is
/// encoded. A token may have no bytes, as one of Whisper's does: no text is encoded into it, and it decodes to
/// nothing.
///
/// **Memory:** about 24 bytes per token, plus the token's own bytes.
///
/// ```
/// use tokenmill::TokenId;
/// # use tokenmill::{observer::Silent, run::{LearnConfig, learn}, source};
///
/// # let texts = source::texts(["how much wood would a woodchuck chuck"]);
/// # let (vocabulary, _) = learn(texts, &LearnConfig::new(300, &["<|endoftext|>"]), &Silent)?;
/// let chuck = vocabulary.id_of(b"chuck").expect("a learned token");
/// let end = vocabulary.id_of(b"<|endoftext|>").expect("a special token");
/// assert!(vocabulary.special(end).is_some() && vocabulary.special(chuck).is_none());
///
/// let mut text = Vec::new();
/// vocabulary.decode(&[chuck, end], &mut text)?;
/// assert_eq!(text, b"chuck<|endoftext|>");
/// assert!(vocabulary.decode(&[TokenId::new(1_000_000)], &mut text).is_err());
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    /// Bytes by id. A token that is only an added one, and not also an ordinary one, has the bytes of its text.
    pub(super) tokens: TokenBytes,
    /// The token of each byte. Each byte without a token has a placeholder: an id of [`id_limit`](Vocabulary::id_limit)
    /// or above, which no token has.
    pub(super) byte_ids: [TokenId; 256],
    /// The bytes without a token, ascending.
    pub(super) missing_bytes: Vec<u8>,
    /// The token that the program from which the tokenizer comes gives for missing bytes. `None` if it drops them, or
    /// if no byte is missing.
    pub(super) unknown: Option<UnknownToken>,
    /// By ascending rank.
    pub(super) merges: Vec<RankedMerge>,
    /// By ascending id.
    pub(super) added: Vec<AddedToken>,
    /// The ids of the added tokens that take no part in merging, ascending.
    pub(super) added_only: Vec<TokenId>,
    /// The pattern that splits text into pre-tokens.
    pub(super) split: SplitPattern,
    /// The changes that a text undergoes before it is split.
    pub(super) rules: TextRules,
    /// The tokens that the program from which the tokenizer comes puts around a text.
    pub(super) bos_eos_template: BosEosTemplate,
    /// Whether pre-tokens are looked up as whole tokens before merging.
    pub(super) ignore_merges: bool,
}

/// Formats bytes as ranges of hexadecimal numbers. `bytes` must be ascending.
///
/// ```
/// assert_eq!(tokenmill::vocab::byte_ranges(&[0xC0, 0xC1, 0xFF]), "0xC0–0xC1, 0xFF");
/// ```
pub fn byte_ranges(bytes: &[u8]) -> String {
    let ranges = bytes.chunk_by(|&one, &next| one.checked_add(1) == Some(next)).map(|run| match *run {
        [first, .., last] => format!("0x{first:02X}–0x{last:02X}"),
        _ => format!("0x{:02X}", run[0]),
    });
    ranges.collect::<Vec<_>>().join(", ")
}

/// The token that the program from which the tokenizer comes gives for a byte without a token (`unk_token`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct UnknownToken {
    /// The token's text in the file.
    pub text: String,
    /// Its id. `None` if the vocabulary lacks it; the program from which it comes then fails on a missing byte.
    pub id: Option<TokenId>,
    /// Whether several such bytes in a row, within one pre-token, give the token once (`fuse_unk`).
    pub fuse: bool,
}

impl Vocabulary {
    /// Returns the highest id in use plus one: the size of a table indexed by id.
    ///
    /// Ids below it may be unused. No token has an id from it on.
    pub fn id_limit(&self) -> usize {
        self.tokens.len()
    }

    /// Returns the bytes of a token, for a special token those of its text. `None` if the id is not in use. An id
    /// beyond the limit gives `None`, too. A token without bytes gives an empty slice.
    pub fn bytes(&self, id: TokenId) -> Option<&[u8]> {
        self.tokens.get(id)
    }

    /// Returns the lowest id with these bytes, of an ordinary or an added token.
    ///
    /// O(number of tokens): for many look-ups, build a map from [`tokens`](Vocabulary::tokens).
    pub fn id_of(&self, bytes: &[u8]) -> Option<TokenId> {
        self.tokens().find(|(_, found)| *found == bytes).map(|(id, _)| id)
    }

    /// Returns all tokens with their bytes, by ascending id. Holes are skipped. A token that is only an added one has
    /// the bytes of its text.
    pub fn tokens(&self) -> impl Iterator<Item = (TokenId, &[u8])> {
        let tokens = self.tokens.iter().enumerate();
        tokens.filter_map(|(id, bytes)| Some((TokenId::from_index(id), bytes?)))
    }

    /// Returns the tokens that byte-pair encoding produces, by ascending id: all except those that are only added
    /// tokens.
    pub fn ordinary(&self) -> impl Iterator<Item = (TokenId, &[u8])> {
        self.tokens().filter(|(id, _)| !self.is_added_only(*id))
    }

    /// Returns the superwords, by ascending id: the tokens with a space between two words, as training with the split
    /// `superword` makes.
    ///
    /// ```
    /// # use tokenmill::{observer::Silent, run::{LearnConfig, learn}, source, split::{NamedPattern, SplitPattern}};
    /// let texts = source::texts(["of the people, by the people, for the people"]);
    /// let split = SplitPattern::Named(NamedPattern::Superword);
    /// let (vocabulary, _) = learn(texts, &LearnConfig { split, ..LearnConfig::new(300, &[]) }, &Silent)?;
    /// assert!(vocabulary.superwords().any(|(_, bytes)| bytes == b" the people"));
    /// # Ok::<(), tokenmill::Error>(())
    /// ```
    pub fn superwords(&self) -> impl Iterator<Item = (TokenId, &[u8])> {
        let words = |bytes: &[u8]| {
            bytes.split(|&byte| byte == b' ').filter(|word| !word.trim_ascii().is_empty()).count()
        };
        self.ordinary().filter(move |(_, bytes)| words(bytes) > 1)
    }

    /// Returns whether a token is only an added one, which byte-pair encoding does not produce. O(log n).
    pub(crate) fn is_added_only(&self, id: TokenId) -> bool {
        self.added_only.binary_search(&id).is_ok()
    }

    /// Returns the added token with this id. O(log n).
    pub fn added_token(&self, id: TokenId) -> Option<&AddedToken> {
        let place = self.added.binary_search_by_key(&id, |added| added.id).ok()?;
        Some(&self.added[place])
    }

    /// Returns the special token with this id. O(log n).
    pub fn special(&self, id: TokenId) -> Option<&AddedToken> {
        self.added_token(id).filter(|added| added.special)
    }

    /// Appends the bytes of each token to `text`; added tokens give their text. Decoding restores an encoded text
    /// byte for byte unless [`keeps_text`](Vocabulary::keeps_text) is `false`.
    ///
    /// `text` is extended and not cleared. A token can end within a character, so the bytes of some ids alone need
    /// not be UTF-8. O(number of bytes).
    ///
    /// # Errors
    /// An id is not in use. The bytes of the ids before it have been appended.
    pub fn decode(&self, ids: &[TokenId], text: &mut Vec<u8>) -> Result<()> {
        ids.iter().try_for_each(|&id| self.decode_one(id, text))
    }

    /// Appends the bytes of one token to `text`; see [`decode`](Vocabulary::decode).
    #[inline]
    pub(crate) fn decode_one(&self, id: TokenId, text: &mut Vec<u8>) -> Result<()> {
        match self.tokens.append(id, text) {
            true => Ok(()),
            false => Err(unknown_id(id, self.id_limit())),
        }
    }

    /// Returns the token of a byte, or `None` if it is [missing](Vocabulary::missing_bytes).
    pub fn byte_id(&self, byte: u8) -> Option<TokenId> {
        Some(self.byte_ids[usize::from(byte)]).filter(|id| id.index() < self.id_limit())
    }

    /// Returns the bytes without a token, ascending.
    pub fn missing_bytes(&self) -> &[u8] {
        &self.missing_bytes
    }

    /// Returns the [missing bytes](Vocabulary::missing_bytes) that can occur in UTF-8.
    pub(crate) fn missing_in_utf8(&self) -> Vec<u8> {
        let in_utf8 = |byte: &&u8| !matches!(byte, 0xC0 | 0xC1 | 0xF5..);
        self.missing_bytes.iter().filter(in_utf8).copied().collect()
    }

    /// Returns the token that the program from which the tokenizer comes gives for missing bytes. `None` if it drops
    /// them, or if no byte is missing.
    pub fn unknown(&self) -> Option<&UnknownToken> {
        self.unknown.as_ref()
    }

    /// Returns the token of each byte. A missing byte has an id that no token has. These ids ascend with the bytes,
    /// from [`id_limit`](Vocabulary::id_limit) on, so that each missing byte can still be told apart while merging.
    pub(crate) fn byte_ids(&self) -> &[TokenId; 256] {
        &self.byte_ids
    }

    /// Returns this vocabulary with a token for every byte and without tokens that have no bytes. Text without
    /// [missing](Vocabulary::missing_bytes) bytes is encoded to the same ids.
    ///
    /// The new tokens have the ids that [`byte_ids`](Vocabulary::byte_ids) holds for missing bytes, so an encoder
    /// needs no second case for them. The result is borrowed if nothing has to change, and a changed copy otherwise.
    pub(crate) fn completed(&self) -> Cow<'_, Vocabulary> {
        let is_empty = |token: Option<&[u8]>| token.is_some_and(<[u8]>::is_empty);
        if self.missing_bytes.is_empty() && !self.tokens.iter().any(is_empty) {
            return Cow::Borrowed(self);
        }
        let tokens = self.tokens.iter().map(|token| token.filter(|bytes| !bytes.is_empty()));
        let tokens = tokens.chain(self.missing_bytes.chunks(1).map(Some)).collect();
        Cow::Owned(Vocabulary { tokens, missing_bytes: Vec::new(), unknown: None, ..self.clone() })
    }

    /// Returns the merges by ascending rank. Merges of equal rank are adjacent.
    pub fn merges(&self) -> &[RankedMerge] {
        &self.merges
    }

    /// Returns the tokens that are found in a text before it is split, by ascending id.
    pub fn added(&self) -> &[AddedToken] {
        &self.added
    }

    /// Returns the special ones among the [added tokens](Vocabulary::added), by ascending id.
    pub fn specials(&self) -> impl Iterator<Item = &AddedToken> {
        self.added.iter().filter(|added| added.special)
    }

    /// Returns the changes that a text undergoes before it is split.
    pub fn rules(&self) -> &TextRules {
        &self.rules
    }

    /// Returns the tokens that the program from which the tokenizer comes puts around a text. Encoding in this crate
    /// does not add them.
    pub fn bos_eos_template(&self) -> &BosEosTemplate {
        &self.bos_eos_template
    }

    /// Returns whether decoding restores every text byte for byte. If not, it restores the text as encoding changed
    /// it: normalized, with a space before it, or without the white space that an added token took.
    pub fn keeps_text(&self) -> bool {
        let strips = |added: &AddedToken| added.lstrip || added.rstrip;
        let respelled =
            |added: &AddedToken| self.bytes(added.id).is_some_and(|bytes| bytes != added.text.as_bytes());
        self.rules == TextRules::default()
            && !self.added.iter().any(|added| strips(added) || respelled(added))
    }

    /// Returns the pattern that splits text into pre-tokens.
    pub fn split(&self) -> &SplitPattern {
        &self.split
    }

    /// Returns whether a pre-token that equals a token becomes that token even if the merges would not make it (Llama
    /// 3's `ignore_merges`).
    pub fn ignore_merges(&self) -> bool {
        self.ignore_merges
    }
}

/// Why a format cannot hold a vocabulary that adds a space before text. `tokenizer.json` can, unless text is split
/// before its `ByteLevel` step.
pub(super) const ADDS_SPACE: &str = "it adds a space before text";

/// The remedy for a special token that cannot be added, because its text is in use.
const OTHER_TEXT: &str = "choose a text of several characters that occurs nowhere else, such as \"<|pad|>\"";

impl Vocabulary {
    /// Returns this vocabulary with additional special tokens. New ones get the ids after the highest, in their
    /// order, as `add_special_tokens` of Hugging Face's tokenizers assigns them. Existing tokens keep their ids. An
    /// existing added token becomes special, and so does an ordinary token that no merge makes or uses.
    ///
    /// ```
    /// # use tokenmill::{observer::Silent, run::{LearnConfig, learn}, source};
    /// # let texts = source::texts(["how much wood would a woodchuck chuck"]);
    /// # let (vocabulary, _) = learn(texts, &LearnConfig::new(300, &["<|endoftext|>"]), &Silent)?;
    /// let longer = vocabulary.with_special_tokens(&["<|pad|>".to_owned()])?;
    /// let pad = longer.id_of(b"<|pad|>").expect("just added");
    /// assert_eq!(pad.index(), vocabulary.id_limit());
    /// # Ok::<(), tokenmill::Error>(())
    /// ```
    ///
    /// # Errors
    /// A text is empty, or is that of an ordinary token that takes part in merges.
    pub fn with_special_tokens(&self, texts: &[String]) -> Result<Vocabulary> {
        if texts.iter().all(|text| self.specials().any(|special| special.text == *text)) {
            return Ok(self.clone());
        }
        let mut parts = self.parts();
        let mut next = self.id_limit();
        for text in texts {
            if let Some(token) = parts.added.iter_mut().find(|token| token.text == *text) {
                token.special = true;
                continue;
            }
            let key = byte_alphabet::read(text).filter(|key| !key.is_empty());
            let ordinary = key.and_then(|key| self.ordinary().find(|(_, bytes)| **bytes == *key));
            let Some((id, bytes)) = ordinary else {
                parts.added.push(AddedToken::special(TokenId::from_index(next), text));
                next += 1;
                continue;
            };
            let is_merged = |merge: &RankedMerge| [merge.left, merge.right, merge.result].contains(&id);
            if bytes.len() == 1 || self.merges.iter().any(is_merged) {
                return Err(Error::usage(format!(
                    "{} is ordinary token {id}, which occurs in encoded text: as a special token it would be cut out of words",
                    excerpt(text)
                ))
                .with_help(OTHER_TEXT));
            }
            parts.tokens.retain(|(other, _)| *other != id);
            parts.added.push(AddedToken::special(id, text));
        }
        parts.build().map_err(|error| error.with_kind(ErrorKind::Usage).with_help(OTHER_TEXT))
    }

    /// Returns, as a phrase for messages, what this vocabulary has that only `tokenizer.json` can hold, if anything. No
    /// tokenizer trained by this program has any of it.
    ///
    /// Formats other than `tokenizer.json` call it to refuse the vocabulary. If there are several reasons, the first of
    /// this order is returned: normalizers, prefix space, split steps, unknown token, added tokens.
    pub(super) fn hf_only(&self) -> Option<String> {
        Some(match (&*self.rules.normalizers, self.odd_token()) {
            ([Normalizer::Nfc], _) => "it normalizes text to NFC".to_owned(),
            ([first, ..], _) => format!("it changes text with the normalizer {first}"),
            _ if self.rules.prefix_space => ADDS_SPACE.to_owned(),
            _ if matches!(self.split, SplitPattern::Steps(_)) => {
                "it splits text in several steps, or not only at matches of a pattern".to_owned()
            }
            _ if self.unknown.is_some() => "it has an unk_token for bytes without a token".to_owned(),
            (_, added) => {
                format!(
                    "added token {} is not special, or has matching rules of its own",
                    excerpt(&added?.text)
                )
            }
        })
    }

    /// Returns an error if only `tokenizer.json` can hold this vocabulary. `format` is the format to write, which is
    /// another one.
    pub(super) fn check_not_hf_only(&self, format: Format) -> Result<()> {
        self.hf_only().map_or(Ok(()), |problem| Err(only_hf_holds(format, problem)))
    }

    /// Returns whether anything happens to text before it is split that tokenizers trained by this program do not do:
    /// it is changed, or added tokens are found in another way than plain special tokens.
    pub fn prepares_text(&self) -> bool {
        self.rules != TextRules::default() || self.odd_token().is_some()
    }

    /// Returns the first added token that differs from those of tokenizers trained by this program: its flags are
    /// others, or it is also an ordinary token. `None` if there is none.
    fn odd_token(&self) -> Option<&AddedToken> {
        let odd = |added: &&AddedToken| !added.is_plain() || !self.is_added_only(added.id);
        self.added.iter().find(odd)
    }
}

/// Maximum number of ids that a vocabulary may leave unused (2^20). Memory grows with the highest id, so a damaged file
/// with one id near 2^32 would otherwise take gigabytes.
const MAX_HOLES: usize = 1 << 20;

/// Tokens with their ids, in any order. A token without bytes has an empty slice.
pub(super) type TokenList = Vec<(TokenId, Box<[u8]>)>;

/// The parts of a [`Vocabulary`], in any order and not checked yet.
///
/// ```
/// use tokenmill::TokenId;
/// use tokenmill::vocab::{RankedMerge, Vocabulary, VocabularyParts};
///
/// let token = |(id, text): (u32, &str)| (TokenId::new(id), Box::<[u8]>::from(text.as_bytes()));
/// let vocabulary = Vocabulary::new(VocabularyParts {
///     tokens: (0..).zip(["a", "b", "ab"]).map(token).collect(),
///     merges: vec![RankedMerge { left: TokenId::new(0), right: TokenId::new(1), result: TokenId::new(2), rank: 7 }],
///     ..VocabularyParts::default()
/// })?;
/// assert_eq!(vocabulary.merges()[0].rank, 0); // ranks are renumbered
/// assert_eq!(vocabulary.missing_bytes().len(), 254);
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct VocabularyParts {
    /// The tokens with their bytes, without those that are only added tokens.
    pub tokens: Vec<(TokenId, Box<[u8]>)>,
    /// The tokens that are found in a text before it is split.
    pub added: Vec<AddedToken>,
    /// The merges. Only the order of their ranks matters, not the numbers.
    pub merges: Vec<RankedMerge>,
    /// The pattern that splits text into pre-tokens.
    pub split: SplitPattern,
    /// The changes that a text undergoes before it is split.
    pub rules: TextRules,
    /// The tokens that the program from which the tokenizer comes puts around a text.
    pub bos_eos_template: BosEosTemplate,
    /// Whether a pre-token that equals a token becomes that token even if the merges would not make it.
    pub ignore_merges: bool,
    /// The token that the program from which the tokenizer comes gives for a byte without a token. Ignored if every
    /// byte has one.
    pub unknown: Option<UnknownToken>,
}

/// Which ids the special tokens of a new vocabulary get.
///
/// The choice decides whether a byte's id is its value: with [`Start`](SpecialTokensAt::Start) all learned ids are
/// shifted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpecialTokensAt {
    /// The lowest.
    Start,
    /// The highest.
    #[default]
    End,
}

impl Vocabulary {
    /// Checks the parts and combines them. Ranks are renumbered from 0 without gaps, so vocabularies that encode
    /// alike by the same merges are equal, whatever file they come from. O(n log n) in the number of tokens and
    /// merges.
    ///
    /// # Errors
    /// The parts break one of the [invariants](Vocabulary), or leave more than 2^20 ids unused.
    pub fn new(parts: VocabularyParts) -> Result<Vocabulary> {
        parts.build()
    }

    /// Builds the vocabulary of merges that were just learned. Bytes get the ids 0–255, and merges the next ids in
    /// the order in which they were learned. If special tokens come first, all these ids are shifted by their number.
    ///
    /// Special tokens get consecutive ids in their order. O(bytes of all tokens) in time and memory.
    ///
    /// # Errors
    /// A special token is empty, is given twice, or equals a token that was learned.
    pub fn from_merges(
        merges: &Merges,
        specials: &[String],
        at: SpecialTokensAt,
        split: SplitPattern,
    ) -> Result<Vocabulary> {
        let (first_token, first_special) = match at {
            SpecialTokensAt::Start => (specials.len(), 0),
            SpecialTokensAt::End => (0, 256 + merges.len()),
        };
        let id = |token: u32| TokenId::from_index(first_token + to_usize(token));
        let mut tokens: Vec<Box<[u8]>> = (0..=255u8).map(|byte| Box::from([byte])).collect();
        let mut ranked = Vec::with_capacity(merges.len());
        for (merge, rank) in merges.iter().zip(0u32..) {
            let parts = [&*tokens[to_usize(merge.left)], &*tokens[to_usize(merge.right)]];
            let token = parts.concat().into_boxed_slice();
            let (left, right, result) = (id(merge.left), id(merge.right), id(truncate_to_u32(tokens.len())));
            ranked.push(RankedMerge { left, right, result, rank });
            tokens.push(token);
        }
        let parts = VocabularyParts {
            tokens: (0u32..).map(id).zip(tokens).collect(),
            added: (first_special..)
                .zip(specials)
                .map(|(id, text)| AddedToken::special(TokenId::from_index(id), text))
                .collect(),
            merges: ranked,
            split,
            ..VocabularyParts::default()
        };
        parts.build().map_err(|error| error.with_kind(ErrorKind::Usage))
    }
}

impl VocabularyParts {
    /// Checks the parts against the invariants of [`Vocabulary`] and combines them.
    ///
    /// # Errors
    /// The first invariant that is broken, in this order: texts of added tokens, tokens of bytes, ids, merges, and
    /// last the existence of the tokens that `unknown` and `bos_eos_template` name.
    pub(super) fn build(self) -> Result<Vocabulary> {
        let VocabularyParts {
            tokens: ordinary, mut added, mut merges, split, rules, bos_eos_template, ..
        } = self;
        let VocabularyParts { ignore_merges, unknown, .. } = self;
        added.sort_by_key(|added| added.id);
        check_texts(&added, &ordinary)?;
        let byte_tokens = byte_tokens(&ordinary)?;
        let (tokens, added_only) = tokens_by_id(ordinary, &added)?;
        let missing_bytes: Vec<u8> =
            (0..=u8::MAX).filter(|&byte| byte_tokens[usize::from(byte)].is_none()).collect();
        let mut without = tokens.len()..;
        let byte_ids = byte_tokens
            .map(|id| id.unwrap_or_else(|| TokenId::from_index(without.next().unwrap_or_default())));
        let unknown = unknown.filter(|_| !missing_bytes.is_empty());
        merges.sort_by_key(|merge| (merge.rank, merge.left, merge.right));
        check_merges(&merges, &tokens, &added_only)?;
        number_ranks(&mut merges);
        let of_unknown = unknown.as_ref().and_then(|token| token.id);
        let mut named =
            bos_eos_template.before.iter().chain(&bos_eos_template.after).copied().chain(of_unknown);
        match named.find(|id| tokens.get(id.index()).is_none_or(Option::is_none)) {
            Some(id) => Err(unknown_id(id, tokens.len())),
            None => Ok(Vocabulary {
                tokens: tokens.into_iter().collect(),
                byte_ids,
                missing_bytes,
                unknown,
                merges,
                added,
                added_only,
                split,
                rules,
                bos_eos_template,
                ignore_merges,
            }),
        }
    }
}

/// Refuses added tokens that are empty or given twice, and special ones that equal an ordinary token of another id.
///
/// An added token that is not special may have the bytes of an ordinary token. Both then keep their ids, because the
/// added token is ordinary vocabulary, too.
fn check_texts(added: &[AddedToken], ordinary: &[(TokenId, Box<[u8]>)]) -> Result<()> {
    let mut texts = Map::default();
    for token in added {
        if token.text.is_empty() {
            return Err(Error::failed("an added token is empty"));
        }
        if texts.insert(token.text.as_bytes(), token).is_some() {
            return Err(Error::failed(format!("added token {} is listed twice", excerpt(&token.text))));
        }
    }
    // Most tokens have a length that no added token has, so their bytes need not be hashed.
    let lengths: FxHashSet<usize> = texts.keys().map(|text| text.len()).collect();
    let clash = |(id, bytes): &&(TokenId, Box<[u8]>)| {
        let same = || texts.get(&**bytes);
        lengths.contains(&bytes.len()) && same().is_some_and(|token| token.special && token.id != *id)
    };
    match ordinary.iter().find(clash) {
        Some((id, bytes)) => {
            let text = excerpt(&String::from_utf8_lossy(bytes));
            Err(Error::failed(format!("special token {text} is also ordinary token {id}")))
        }
        None => Ok(()),
    }
}

/// Returns the token of each byte.
///
/// # Errors
/// A byte has two tokens.
fn byte_tokens(ordinary: &[(TokenId, Box<[u8]>)]) -> Result<[Option<TokenId>; 256]> {
    let mut found = [None; 256];
    for (id, bytes) in ordinary {
        if let [byte] = **bytes
            && let Some(first) = found[usize::from(byte)].replace(*id)
        {
            return Err(Error::failed(format!("byte 0x{byte:02X} has two tokens, {first} and {id}")));
        }
    }
    Ok(found)
}

/// Returns an error if this number of tokens, with ids up to `highest`, leaves more than [`MAX_HOLES`] ids unused.
///
/// Readers call it before they allocate tables by id, so a file cannot demand memory by declaring one high id.
pub(super) fn check_holes(tokens: usize, highest: TokenId) -> Result<()> {
    match highest.index() < tokens + MAX_HOLES {
        true => Ok(()),
        false => Err(Error::failed(format!(
            "{tokens} tokens have ids up to {highest}: more than {MAX_HOLES} ids would be unused"
        ))),
    }
}

/// The bytes of each token by id, and the ids of the tokens that are only added ones, ascending.
type TokensById = (Vec<Option<Box<[u8]>>>, Vec<TokenId>);

/// Arranges tokens by id. An added token may share the id of an ordinary one if its text is the bytes of that token,
/// spelled in GPT-2's byte alphabet. The id then has these bytes, and is not among the ids of added tokens that are
/// returned. `added` must be in ascending order of id.
///
/// # Errors
/// More than [`MAX_HOLES`] ids would be unused; two ordinary or two added tokens have one id; or an added token
/// shares the id of an ordinary one that is spelled otherwise.
fn tokens_by_id(ordinary: TokenList, added: &[AddedToken]) -> Result<TokensById> {
    let count = ordinary.len() + added.len();
    let ids = ordinary.iter().map(|(id, _)| *id).chain(added.iter().map(|token| token.id));
    let highest = ids.max().unwrap_or_default();
    check_holes(count, highest)?;
    let mut tokens: Vec<Option<Box<[u8]>>> = vec![None; highest.index() + 1];
    for (id, bytes) in ordinary {
        if tokens[id.index()].replace(bytes).is_some() {
            return Err(id_twice(id));
        }
    }
    let mut added_only = Vec::new();
    let mut last = None;
    for AddedToken { id, text, .. } in added {
        let slot = &mut tokens[id.index()];
        match slot {
            _ if last.replace(id) == Some(id) => return Err(id_twice(*id)),
            Some(bytes) if byte_alphabet::spell(bytes) == *text => {}
            Some(_) => return Err(id_twice(*id)),
            None => {
                *slot = Some(Box::from(text.as_bytes()));
                added_only.push(*id);
            }
        }
    }
    Ok((tokens, added_only))
}

/// Refuses merges that use ids without a token, tokens that are only added ones or have no bytes, results that are
/// not the parts joined, and pairs that occur twice.
///
/// `merges` must be in ascending order of rank. Errors number them in this order from 1. O(bytes of all merged
/// tokens).
fn check_merges(merges: &[RankedMerge], tokens: &[Option<Box<[u8]>>], added_only: &[TokenId]) -> Result<()> {
    let mut pairs = FxHashSet::with_capacity_and_hasher(merges.len(), FxBuildHasher);
    for (index, &RankedMerge { left, right, result, .. }) in merges.iter().enumerate() {
        let merge = index + 1;
        let bytes = |id: TokenId| match tokens.get(id.index()) {
            Some(Some(text)) if added_only.binary_search(&id).is_ok() => {
                let text = excerpt(&String::from_utf8_lossy(text));
                Err(Error::failed(format!(
                    "merge {merge} uses token {id} ({text}), which is only an added token"
                )))
            }
            Some(Some(bytes)) => Ok(&**bytes),
            _ => Err(Error::failed(format!("merge {merge} uses token {id}, which does not exist"))),
        };
        let (start, end, whole) = (bytes(left)?, bytes(right)?, bytes(result)?);
        if let Some((id, _)) = [(left, start), (right, end)].into_iter().find(|(_, part)| part.is_empty()) {
            return Err(Error::failed(format!("merge {merge} uses token {id}, which has no bytes")));
        }
        if whole.strip_prefix(start) != Some(end) {
            return Err(Error::failed(format!(
                "merge {merge} makes token {result}, whose bytes are not those of {left} followed by those of {right}"
            )));
        }
        if !pairs.insert((left, right)) {
            return Err(Error::failed(format!(
                "merge {merge} joins {left} and {right}, which an earlier merge already joins"
            )));
        }
    }
    Ok(())
}

/// Renumbers sorted ranks as 0, 1, 2 and so on without gaps. Equal ranks stay equal. Only the order of ranks decides
/// how text is encoded, so this makes vocabularies from different files comparable.
fn number_ranks(merges: &mut [RankedMerge]) {
    let (mut last, mut number) = (merges.first().map_or(0, |merge| merge.rank), 0);
    for merge in merges {
        if merge.rank != last {
            (last, number) = (merge.rank, number + 1);
        }
        merge.rank = number;
    }
}
