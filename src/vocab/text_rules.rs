//! The preparation of a text before it is split: added tokens are found in it, and the text between them is
//! normalized. [`Encoder`](crate::encode::Encoder) applies these rules.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::base::int::TokenId;
use crate::error::excerpt;

/// A token that is found in a text before the text is split.
///
/// It may also be a token that merges produce. Then its text is the spelling of that token in GPT-2's byte alphabet.
///
/// The flags are those of Hugging Face's tokenizers. A token is searched for as a literal text. Where several tokens
/// match, encoding decides by the rules of that program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct AddedToken {
    /// The token's id.
    pub id: TokenId,
    /// The text that becomes this token.
    pub text: String,
    /// Whether it is a control token, which a text may name only if that is allowed. Other added tokens are ordinary
    /// vocabulary.
    pub special: bool,
    /// Whether it is found only where no word character (a letter, digit or the like) is adjacent.
    pub single_word: bool,
    /// Whether it includes the white space before it.
    pub lstrip: bool,
    /// Whether it includes the white space after it.
    pub rstrip: bool,
    /// Whether it is itself normalized and searched for in the normalized text, after the tokens that are not.
    pub normalized: bool,
}

impl AddedToken {
    /// Creates a special token with the flags that tokenizers trained by this program use: all others `false`.
    pub fn special(id: TokenId, text: impl Into<String>) -> AddedToken {
        AddedToken {
            id,
            text: text.into(),
            special: true,
            single_word: false,
            lstrip: false,
            rstrip: false,
            normalized: false,
        }
    }

    /// Sets `normalized` to `false` where it has no effect: without normalizers, and if only one of the two searches
    /// for added tokens has tokens.
    ///
    /// Vocabularies that encode alike are then equal and have the same fingerprint, whichever value a file gives the
    /// flag.
    pub(super) fn clear_idle_normalized(added: &mut [AddedToken], has_normalizers: bool) {
        if !has_normalizers && added.array_windows().all(|[one, next]| one.normalized == next.normalized) {
            added.iter_mut().for_each(|token| token.normalized = false);
        }
    }

    /// Returns whether it is a special token with the flags that tokenizers trained by this program use.
    pub(super) fn is_plain(&self) -> bool {
        *self == AddedToken::special(self.id, &*self.text)
    }
}

/// A special token that is named when a tokenizer is read, because its files have no place for it.
///
/// It is a request, unlike [`AddedToken`]: the id may still be open, and reading fails if the files contradict it.
///
/// ```
/// use tokenmill::TokenId;
/// use tokenmill::vocab::SpecialToken;
///
/// let token = SpecialToken::from("<|pad|>=100");
/// assert_eq!((&*token.text, token.id), ("<|pad|>", Some(TokenId::new(100))));
/// assert_eq!(SpecialToken::from("a=b").id, None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecialToken {
    /// The text that becomes this token.
    pub text: String,
    /// Its id. `None` gives it the next id after the highest.
    pub id: Option<TokenId>,
}

impl From<&str> for SpecialToken {
    /// Reads `TEXT` or `TEXT=ID`. The part after the last `=` is the id if it is a decimal number.
    fn from(text: &str) -> SpecialToken {
        let numbered = text.rsplit_once('=').and_then(|(text, id)| {
            let is_number = id.bytes().all(|byte| byte.is_ascii_digit());
            Some((text, TokenId::new(id.parse().ok().filter(|_| is_number)?)))
        });
        match numbered {
            Some((text, id)) => SpecialToken { text: text.to_owned(), id: Some(id) },
            None => SpecialToken { text: text.to_owned(), id: None },
        }
    }
}

impl SpecialToken {
    /// Adds the named tokens that a file lacks: those that neither are in `added` nor are keys. Tokens without an id
    /// get the next free ids, after `ids` and those of `added`. A token with an id moves the next free id behind its
    /// own. Ids end at 2^32 − 1; a clash there is found when the vocabulary is built.
    pub(super) fn add_new(
        named: &[SpecialToken],
        added: &mut Vec<AddedToken>,
        ids: impl Iterator<Item = TokenId>,
        is_key: impl Fn(&str) -> bool,
    ) {
        let highest = ids.chain(added.iter().map(|token| token.id)).max();
        let mut next = highest.map_or(0, |highest| highest.get().saturating_add(1));
        let is_listed = |text: &str| is_key(text) || added.iter().any(|token| token.text == text);
        let new: Vec<&SpecialToken> = named.iter().filter(|named| !is_listed(&named.text)).collect();
        for SpecialToken { text, id } in new {
            let id = id.unwrap_or(TokenId::new(next));
            next = next.max(id.get().saturating_add(1));
            added.push(AddedToken::special(id, text));
        }
    }
}

/// The changes that a text between added tokens undergoes before it is split.
///
/// The default changes nothing. Normalizers come first, then the prefix space.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct TextRules {
    /// The normalizers, in the order in which they are applied.
    pub normalizers: Vec<Normalizer>,
    /// Whether a space is put before a text that does not begin with one.
    pub prefix_space: bool,
}

/// The tokens that the program from which a tokenizer comes puts around a text. Encoding in this crate does not add
/// them. Both lists are empty if there are no such tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct BosEosTemplate {
    /// The tokens before the text.
    pub before: Vec<TokenId>,
    /// The tokens after the text.
    pub after: Vec<TokenId>,
}

/// A change that a text undergoes before it is split. It is serialized as in a `tokenizer.json`. In a text that is
/// not UTF-8, it applies separately to each valid part between invalid bytes.
///
/// Each maps a text to a text, independently of the texts before it. [`Display`](fmt::Display) gives a phrase for
/// messages.
///
/// ```
/// let normalizer: tokenmill::vocab::Normalizer = serde_json::from_str(r#"{"type": "NFC"}"#)?;
/// assert_eq!(normalizer.to_string(), "NFC");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
#[non_exhaustive]
pub enum Normalizer {
    /// Unicode normalization form C: canonical composition.
    #[serde(rename = "NFC")]
    Nfc,
    /// Form D: canonical decomposition.
    #[serde(rename = "NFD")]
    Nfd,
    /// Form KC: compatibility decomposition, then canonical composition.
    #[serde(rename = "NFKC")]
    Nfkc,
    /// Form KD: compatibility decomposition.
    #[serde(rename = "NFKD")]
    Nfkd,
    /// Replaces each character by its lower case.
    Lowercase,
    /// Removes combining marks.
    StripAccents,
    /// Removes white space from the ends of the text.
    Strip {
        /// Whether to remove it from the beginning.
        strip_left: bool,
        /// Whether to remove it from the end.
        strip_right: bool,
    },
    /// Puts a string before each text that is not empty.
    Prepend {
        /// The string.
        prepend: String,
    },
    /// Replaces every match of a pattern.
    Replace {
        /// The pattern to search for.
        pattern: ReplacePattern,
        /// The replacement, taken literally.
        content: String,
    },
}

/// The pattern of [`Normalizer::Replace`].
///
/// Both forms replace matches from left to right, without overlaps.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReplacePattern {
    /// This string, literally.
    String(String),
    /// This regular expression, in Oniguruma's dialect.
    Regex(String),
}

impl Normalizer {
    /// The values of `type` in files, in the order of the variants. A file with another value is refused by name
    /// instead of with the parser's message.
    pub(super) const KINDS: [&str; 9] =
        ["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Strip", "Prepend", "Replace"];
}

impl fmt::Display for Normalizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Normalizer::Nfc => f.write_str("NFC"),
            Normalizer::Nfd => f.write_str("NFD"),
            Normalizer::Nfkc => f.write_str("NFKC"),
            Normalizer::Nfkd => f.write_str("NFKD"),
            Normalizer::Lowercase => f.write_str("Lowercase"),
            Normalizer::StripAccents => f.write_str("StripAccents, which removes combining marks"),
            Normalizer::Strip { strip_left, strip_right } => {
                let ends = match (strip_left, strip_right) {
                    (true, true) => "both ends",
                    (true, false) => "the beginning",
                    (false, true) => "the end",
                    (false, false) => return f.write_str("Strip, which removes nothing"),
                };
                write!(f, "Strip, which removes white space from {ends}")
            }
            Normalizer::Prepend { prepend } => write!(f, "Prepend {}", excerpt(prepend)),
            Normalizer::Replace { pattern: ReplacePattern::String(text), content } => {
                write!(f, "Replace {} by {}", excerpt(text), excerpt(content))
            }
            Normalizer::Replace { pattern: ReplacePattern::Regex(regex), content } => {
                write!(f, "Replace matches of {} by {}", excerpt(regex), excerpt(content))
            }
        }
    }
}
