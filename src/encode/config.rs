use serde::{Deserialize, Serialize};

use crate::units::TokenId;

/// What text that looks like a special token becomes.
///
/// Added tokens that are not special are ordinary vocabulary, and found under every policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SpecialPolicy {
    /// Ordinary tokens, as any other text: a corpus cannot inject control tokens.
    #[default]
    Text,
    /// The special token; where several overlap, the leftmost, then the longest. What stands between
    /// them is encoded as texts of their own.
    Allow,
    /// An error that names the token and its place.
    Forbid,
}

impl SpecialPolicy {
    /// Its word in flags, recipes and files.
    pub fn name(self) -> &'static str {
        match self {
            SpecialPolicy::Text => "text",
            SpecialPolicy::Allow => "allow",
            SpecialPolicy::Forbid => "forbid",
        }
    }
}

/// What becomes of text with a byte that has no token: see [`missing_bytes`](crate::vocab::Vocabulary::missing_bytes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum MissingBytes {
    /// An error that names the byte and its place.
    #[default]
    Error,
    /// What Hugging Face's tokenizers makes of it: the tokenizer's `unk_token`, or nothing if it has none. What stands
    /// before and after dropped bytes of a piece is merged as if it stood side by side.
    Hf,
}

impl MissingBytes {
    /// Its word in flags, recipes and files.
    pub fn name(self) -> &'static str {
        match self {
            MissingBytes::Error => "error",
            MissingBytes::Hf => "hf",
        }
    }

    /// Whether it is the default, which files leave out.
    pub(crate) fn is_default(&self) -> bool {
        *self == MissingBytes::default()
    }
}

/// How documents become token ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EncodeConfig {
    /// What text that looks like a special token becomes.
    pub special: SpecialPolicy,
    /// The token put before every document, if any.
    pub bos: Option<TokenId>,
    /// The token put after every document, if any.
    pub eos: Option<TokenId>,
    /// What becomes of text with a byte that has no token.
    #[serde(skip_serializing_if = "MissingBytes::is_default")]
    pub missing_bytes: MissingBytes,
}
