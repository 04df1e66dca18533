use super::cache::Seed;
use super::longest_match::Matches;
use super::method::{Method, NO_THREADS, TOO_MUCH};
use crate::parallel;
use crate::vocab::{self, Vocabulary};

/// So many tokens, those of the lowest ids, are in a cache when it gets its full size.
const SEEDS: usize = 1 << 16;

/// What encoding by longest matches needs, or why a vocabulary is not encoded with so.
#[derive(Debug)]
pub(super) struct Shortcut {
    pub(super) method: Method,
    /// For pieces, if they are encoded by longest matches.
    pub(super) matches: Option<Matches>,
    /// Pieces that are tokens, if there are pieces and the vocabulary allows longest matches.
    pub(super) seeds: Box<[Seed]>,
}

impl Shortcut {
    /// Prepares a vocabulary for pieces, or for whole texts, on so many threads of its own: those that encode may wait for
    /// it. Where the system gives none, texts are merged from then on.
    pub(super) fn new(vocabulary: &Vocabulary, whole_texts: bool, threads: usize) -> Shortcut {
        let made = parallel::apart(threads, || Shortcut::made(vocabulary, whole_texts));
        made.unwrap_or_else(|_| Shortcut::none(NO_THREADS))
    }

    fn made(vocabulary: &Vocabulary, whole_texts: bool) -> Shortcut {
        let method = Method::of(&vocab::check(vocabulary));
        if method != Method::LongestMatches {
            return Shortcut::none(method);
        }
        let Some(matches) = Matches::new(vocabulary, whole_texts) else { return Shortcut::none(TOO_MUCH) };
        // With longest matches each token is what its bytes encode to.
        let tokens = (!whole_texts).then(|| vocabulary.ordinary()).into_iter().flatten();
        let seeds = tokens.filter_map(|(id, bytes)| Seed::new(id, bytes)).take(SEEDS).collect();
        Shortcut { method, matches: Some(matches), seeds }
    }

    fn none(method: Method) -> Shortcut {
        Shortcut { method, matches: None, seeds: Box::default() }
    }
}
