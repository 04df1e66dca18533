use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::excerpt;

/// A change that a text undergoes before it is split, written as in a `tokenizer.json`. Of text that is not UTF-8 the
/// parts between invalid bytes are changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
#[non_exhaustive]
pub enum Normalizer {
    /// Unicode's normalization form C.
    #[serde(rename = "NFC")]
    Nfc,
    /// Form D.
    #[serde(rename = "NFD")]
    Nfd,
    /// Form KC.
    #[serde(rename = "NFKC")]
    Nfkc,
    /// Form KD.
    #[serde(rename = "NFKD")]
    Nfkd,
    /// Each character becomes its lower case.
    Lowercase,
    /// Combining marks are removed.
    StripAccents,
    /// White space is removed from the ends of the text.
    Strip {
        /// From its beginning.
        strip_left: bool,
        /// From its end.
        strip_right: bool,
    },
    /// A string is put before each text that is not empty.
    Prepend {
        /// The string.
        prepend: String,
    },
    /// Whatever a pattern matches is replaced.
    Replace {
        /// What is looked for.
        pattern: ReplacePattern,
        /// What takes its place, as it stands.
        content: String,
    },
}

/// What [`Normalizer::Replace`] looks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReplacePattern {
    /// This string.
    String(String),
    /// What this regular expression in Oniguruma's dialect matches.
    Regex(String),
}

impl Normalizer {
    /// The names that files have for them.
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
                write!(f, "Replace what {} matches by {}", excerpt(regex), excerpt(content))
            }
        }
    }
}
