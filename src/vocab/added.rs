use serde::Serialize;

use super::fault::{Fault, Foreign};
use super::{Normalizer, RankedMerge, Vocabulary, alphabet};
use crate::error::{Error, ErrorKind, Result};
use crate::split::SplitPattern;
use crate::units::TokenId;

/// A token that is found in a text as it stands there, before the text is split.
///
/// One that is no token of the merges stands for itself alone; one that is too has the text as its
/// spelling in GPT-2's byte alphabet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct AddedToken {
    /// Its id.
    pub id: TokenId,
    /// The text that stands for it.
    pub text: String,
    /// Whether it is a control token, which a text may only be allowed to name. One that is not is
    /// ordinary vocabulary.
    pub special: bool,
    /// Whether it is found only where no letter, digit or the like stands next to it.
    pub single_word: bool,
    /// Whether it takes the white space before it along.
    pub lstrip: bool,
    /// Whether it takes the white space after it along.
    pub rstrip: bool,
    /// Whether it is looked for in the normalized text, after those that are not, and is normalized itself.
    pub normalized: bool,
}

impl AddedToken {
    /// A special token as tokenizers trained here have it.
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

    /// Whether it is a special token like those of tokenizers trained here.
    pub(super) fn is_plain(&self) -> bool {
        *self == AddedToken::special(self.id, &*self.text)
    }
}

/// What helps where a special token cannot be added.
const OTHER_TEXT: &str = "choose a text of several characters that occurs nowhere else, such as \"<|pad|>\"";

/// A special token that is named where a tokenizer is read, because its files have no place for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecialToken {
    /// The text that stands for it.
    pub text: String,
    /// Its id; without one it gets the next after the highest.
    pub id: Option<TokenId>,
}

impl From<&str> for SpecialToken {
    /// Reads `TEXT` or `TEXT=ID`: what stands behind the last `=` is the id if it is a number.
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
    /// The tokens that are named, with ids from this one on where none is given.
    pub(super) fn numbered(named: &[SpecialToken], mut next: u32) -> Vec<AddedToken> {
        let token = |SpecialToken { text, id }: &SpecialToken| {
            let id = id.unwrap_or(TokenId::new(next));
            next = next.max(id.get().saturating_add(1));
            AddedToken::special(id, text)
        };
        named.iter().map(token).collect()
    }
}

/// What happens to a text, between its added tokens, before it is split.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct TextRules {
    /// The changes that it undergoes, one after the other.
    pub normalizers: Vec<Normalizer>,
    /// Whether a space is put before it if it does not begin with one.
    pub prefix_space: bool,
}

/// The tokens that a tokenizer's own program puts around a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Around {
    /// Those before it.
    pub before: Vec<TokenId>,
    /// Those after it.
    pub after: Vec<TokenId>,
}

impl Vocabulary {
    /// This vocabulary with these special tokens too. New ones get the ids after the highest, in their order, as
    /// `add_special_tokens` of Hugging Face's tokenizers gives them; what is there keeps its id. An added token that is there
    /// becomes special, and so does an ordinary token that no merge makes or uses.
    ///
    /// # Errors
    /// A text is empty, or that of an ordinary token that merges make.
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

    /// What this vocabulary does to a text that no tokenizer trained here does, if anything.
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

    /// Whether something happens to a text before it is split, beyond that special tokens are found as those of tokenizers
    /// trained here are.
    pub fn prepares_text(&self) -> bool {
        self.rules != TextRules::default() || self.odd_token().is_some()
    }

    /// An added token that is found otherwise than those of tokenizers trained here.
    fn odd_token(&self) -> Option<&AddedToken> {
        let odd = |added: &&AddedToken| !added.is_plain() || self.apart.binary_search(&added.id).is_err();
        self.added.iter().find(odd)
    }
}
