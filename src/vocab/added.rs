//! Tokens that are found in a text before it is split, and the other changes that a text undergoes before the split.

use serde::Serialize;

use super::fault::{Fault, Foreign};
use super::{Normalizer, RankedMerge, Vocabulary, alphabet};
use crate::base::int::TokenId;
use crate::error::{Error, ErrorKind, Result};
use crate::split::SplitPattern;

/// A token that is found in a text before the text is split.
///
/// It may also be a token that merges produce. Then its text is the spelling of that token in GPT-2's byte alphabet.
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

    /// Returns whether it is a special token with the flags that tokenizers trained by this program use.
    pub(super) fn is_plain(&self) -> bool {
        *self == AddedToken::special(self.id, &*self.text)
    }
}

/// The remedy for a special token that cannot be added.
const OTHER_TEXT: &str = "choose a text of several characters that occurs nowhere else, such as \"<|pad|>\"";

/// A special token that is named when a tokenizer is read, because its files have no place for it.
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
    /// Returns the named tokens. Those without an id get the next free ids, starting with `next`.
    pub(super) fn numbered(named: &[SpecialToken], mut next: u32) -> Vec<AddedToken> {
        let token = |SpecialToken { text, id }: &SpecialToken| {
            let id = id.unwrap_or(TokenId::new(next));
            next = next.max(id.get().saturating_add(1));
            AddedToken::special(id, text)
        };
        named.iter().map(token).collect()
    }
}

/// The changes that a text between added tokens undergoes before it is split.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct TextRules {
    /// The normalizers, in the order in which they are applied.
    pub normalizers: Vec<Normalizer>,
    /// Whether a space is put before a text that does not begin with one.
    pub prefix_space: bool,
}

/// The tokens that a tokenizer's own program puts around a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Around {
    /// The tokens before the text.
    pub before: Vec<TokenId>,
    /// The tokens after the text.
    pub after: Vec<TokenId>,
}

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
            let key = alphabet::read(text).filter(|key| !key.is_empty());
            let ordinary = key.and_then(|key| self.ordinary().find(|(_, bytes)| **bytes == *key));
            let Some((id, bytes)) = ordinary else {
                parts.added.push(AddedToken::special(TokenId::from_index(next), text));
                next += 1;
                continue;
            };
            let is_merged = |merge: &RankedMerge| [merge.left, merge.right, merge.result].contains(&id);
            if bytes.len() == 1 || self.merges.iter().any(is_merged) {
                let fault = Fault::SpecialIsMerged { text: text.clone(), id };
                return Err(Error::new(ErrorKind::Usage, fault).with_help(OTHER_TEXT));
            }
            parts.tokens.retain(|(other, _)| *other != id);
            parts.added.push(AddedToken::special(id, text));
        }
        parts.build().map_err(|fault| Error::new(ErrorKind::Usage, fault).with_help(OTHER_TEXT))
    }

    /// Returns a change to text that this vocabulary makes and no tokenizer trained by this program does, if any.
    pub(super) fn foreign(&self) -> Option<Foreign> {
        match &*self.rules.normalizers {
            [] => {}
            [Normalizer::Nfc] => return Some(Foreign::Nfc),
            [first, ..] => return Some(Foreign::Normalizer(first.clone())),
        }
        if self.rules.prefix_space {
            return Some(Foreign::PrefixSpace);
        }
        if let SplitPattern::Steps(_) = self.split {
            return Some(Foreign::Steps);
        }
        if self.unknown.is_some() {
            return Some(Foreign::Unknown);
        }
        self.odd_token().map(|added| Foreign::Added(added.text.clone()))
    }

    /// Returns whether text is prepared before it is split, other than by finding special tokens with the flags that
    /// tokenizers trained by this program use.
    pub fn prepares_text(&self) -> bool {
        self.rules != TextRules::default() || self.odd_token().is_some()
    }

    /// Returns an added token that is not found like those of tokenizers trained by this program.
    fn odd_token(&self) -> Option<&AddedToken> {
        let odd = |added: &&AddedToken| !added.is_plain() || self.apart.binary_search(&added.id).is_err();
        self.added.iter().find(odd)
    }
}
