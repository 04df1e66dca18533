use serde::{Deserialize, Serialize};

use crate::base::int::TokenId;

/// What to do with text that spells a special token.
///
/// This concerns special tokens only. Added tokens that are not special are ordinary vocabulary and are found
/// under every policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SpecialPolicy {
    /// Encode it like any other text, so that a corpus cannot inject control tokens.
    #[default]
    Text,
    /// Emit the special token. If several overlap, the leftmost wins, then the longest. Each text between two
    /// special tokens is split and encoded by itself.
    Allow,
    /// Return an error that names the token and its position.
    Forbid,
}

impl SpecialPolicy {
    /// The policy's name in flags, recipes and files.
    pub fn name(self) -> &'static str {
        match self {
            SpecialPolicy::Text => "text",
            SpecialPolicy::Allow => "allow",
            SpecialPolicy::Forbid => "forbid",
        }
    }
}

/// What to do with text that contains a byte without a token: see
/// [`missing_bytes`](crate::vocab::Vocabulary::missing_bytes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum MissingBytes {
    /// Return an error that names the byte and its position.
    #[default]
    Error,
    /// Do as Hugging Face's tokenizers: replace the byte by the tokenizer's `unk_token`, or drop it if the
    /// tokenizer has none. Bytes of a pre-token before and after dropped bytes are merged as if they were
    /// adjacent.
    Hf,
}

impl MissingBytes {
    /// The choice's name in flags, recipes and files.
    pub fn name(self) -> &'static str {
        match self {
            MissingBytes::Error => "error",
            MissingBytes::Hf => "hf",
        }
    }

    /// Whether this is the default, which files omit.
    pub(crate) fn is_default(&self) -> bool {
        *self == MissingBytes::default()
    }
}

/// How documents become token ids. The default adds no tokens around documents, treats special tokens as text,
/// and returns an error for bytes without a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EncodeConfig {
    /// What to do with text that spells a special token.
    pub special: SpecialPolicy,
    /// Token to put before every document, if any.
    pub bos: Option<TokenId>,
    /// Token to put after every document, if any.
    pub eos: Option<TokenId>,
    /// What to do with text that contains a byte without a token.
    #[serde(skip_serializing_if = "MissingBytes::is_default")]
    pub missing_bytes: MissingBytes,
}
