use std::fmt;

use serde::Serialize;

use crate::vocab::Checks;

/// How a pre-token is encoded. Both ways give the same ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "method", rename_all = "kebab-case")]
pub enum Method {
    /// By the longest token that is compatible with the one before it. This is fast, and exact for vocabularies
    /// that pass the [checks](Checks) which trained vocabularies pass.
    LongestMatches,
    /// By carrying out merges with a heap. This is right for any vocabulary.
    Merges {
        /// Why longest matches are not used.
        because: &'static str,
    },
}

impl Method {
    /// The method that a vocabulary with these check results allows. [`Encoder::method`](super::Encoder::method)
    /// returns what an encoder uses at present.
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

/// For vocabularies with ids of 2²⁴ or more, with about a million tokens, or constructed to be hard.
pub(super) const TOO_MUCH: Method =
    Method::Merges { because: "longest matches take too much time or memory" };

/// The text so far does not repay the time to build the tables for longest matches.
pub(super) const LITTLE_TEXT: Method = Method::Merges { because: "there has been little text so far" };

/// The tables for longest matches are built on threads of their own, and the system gave none.
pub(super) const NO_THREADS: Method =
    Method::Merges { because: "the threads that prepare longest matches cannot be started" };

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Method::LongestMatches => f.write_str("longest matches"),
            Method::Merges { because } => write!(f, "merges: {because}"),
        }
    }
}
