//! The normalizers of `tokenizer.json`. [`Encoder`](crate::encode::Encoder) applies them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::excerpt;

/// A change that a text undergoes before it is split. It is serialized as in a `tokenizer.json`. In a text that is
/// not UTF-8, it applies separately to each valid part between invalid bytes.
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
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReplacePattern {
    /// This string, literally.
    String(String),
    /// This regular expression, in Oniguruma's dialect.
    Regex(String),
}

impl Normalizer {
    /// The values of `type` in files, in the order of the variants.
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
