use std::fmt;

use serde::Serialize;

use crate::vocab::Checks;

/// How a piece of text is encoded. The ids are the same either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "method", rename_all = "kebab-case")]
pub enum Method {
    /// By the longest token that fits the one before, which is fast, and exact where the shortcuts of
    /// trained vocabularies hold.
    LongestMatches,
    /// By carrying out merges with a heap, which is right for any vocabulary.
    Merges {
        /// Why it is not by longest matches.
        because: &'static str,
    },
}

impl Method {
    /// The one that a vocabulary allows of which this is true. What an encoder does its
    /// [`method`](super::Encoder::method) tells.
    pub fn of(checks: &Checks) -> Method {
        let obstacles = [
            (checks.not_self_encoding > 0, "some tokens do not encode to themselves"),
            (!checks.unique_bytes, "some tokens have equal bytes"),
            (!checks.one_merge_each, "some tokens are made by several merges"),
            (!checks.rank_order, "some merges build on later ones"),
        ];
        match obstacles.into_iter().find(|(stands, _)| *stands) {
            Some((_, because)) => Method::Merges { because },
            None => Method::LongestMatches,
        }
    }
}

/// Of vocabularies with ids of 2²⁴ and more, of about a million tokens, and such as were made up.
pub(super) const TOO_MUCH: Method =
    Method::Merges { because: "longest matches take too much time or memory" };

/// What longest matches need would take longer to make.
pub(super) const LITTLE_TEXT: Method = Method::Merges { because: "there has been little text so far" };

/// It is made by threads of its own.
pub(super) const NO_THREADS: Method =
    Method::Merges { because: "no threads can be started that prepare longest matches" };

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Method::LongestMatches => f.write_str("longest matches"),
            Method::Merges { because } => write!(f, "merges: {because}"),
        }
    }
}
