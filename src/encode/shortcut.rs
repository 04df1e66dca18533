use super::cache::Seed;
use super::longest_match::Matches;
use super::method::{Method, NO_THREADS, TOO_MUCH};
use crate::base::pools;
use crate::vocab::{self, Vocabulary};

/// Tokens, those of the lowest ids, that are inserted into a cache when it reaches its full size.
const SEEDS: usize = 1 << 16;

/// The tables for longest matches, or the reason why a vocabulary does not use them.
#[derive(Debug)]
pub(super) struct Shortcut {
    pub(super) method: Method,
    /// The tables, if the vocabulary allows longest matches.
    pub(super) matches: Option<Matches>,
    /// Tokens that a cache is filled with in advance. Empty if texts are not split or longest matches are not
    /// allowed.
    pub(super) seeds: Box<[Seed]>,
}

impl Shortcut {
    /// Builds the tables for pre-tokens, or for whole texts, on `threads` threads of its own. The threads that
    /// encode may wait for the result, so they cannot do this work. If the system gives no threads, texts are
    /// merged from then on.
    pub(super) fn new(vocabulary: &Vocabulary, whole_texts: bool, threads: usize) -> Shortcut {
        let made = pools::in_isolated_pool(threads, || Shortcut::made(vocabulary, whole_texts));
        made.unwrap_or_else(|_| Shortcut::none(NO_THREADS))
    }

    fn made(vocabulary: &Vocabulary, whole_texts: bool) -> Shortcut {
        let method = Method::of(&vocab::check(vocabulary));
        if method != Method::LongestMatches {
            return Shortcut::none(method);
        }
        let Some(matches) = Matches::new(vocabulary, whole_texts) else { return Shortcut::none(TOO_MUCH) };
        // Longest matches require that each token's bytes encode to that token, so every token can be a seed.
        let tokens = (!whole_texts).then(|| vocabulary.ordinary()).into_iter().flatten();
        let seeds = tokens.filter_map(|(id, bytes)| Seed::new(id, bytes)).take(SEEDS).collect();
        Shortcut { method, matches: Some(matches), seeds }
    }

    fn none(method: Method) -> Shortcut {
        Shortcut { method, matches: None, seeds: Box::default() }
    }
}
