use std::mem;
use std::sync::Arc;

use super::abreast::Abreast;
use super::automaton::{Automaton, Tail, Walk};
use super::characters::Characters;
use super::path::{DeadEnds, Finder, Path};
use super::{EncodedPart, Matches, NONE};
use crate::error::Result;
use crate::observer::Observer;
use crate::units::TokenId;

/// The observer is asked whether to stop after so many bytes.
const WINDOW: usize = 1 << 18;

/// The fourth power of the number of early tokens, without so many of its low bits, is how many bytes of whole texts are worth
/// an automaton: 16 MiB for 8 192, 1 MiB for 4 096. The more there are, the more steps are to be learned, the longer each takes,
/// as memory is farther away, and the less is saved by knowing it.
const WORTH_BITS: u32 = 28;

/// Where there are later merges it takes so many times as much, as pieces have to be met as well: 4 MiB.
const WORTH_OF_PIECES: usize = 4;

/// Whole texts of at most so many bytes are encoded together, if no token is very long.
const SHORT: usize = 4 << 10;

/// The scratch memory of one thread, for one vocabulary.
///
/// **Memory:** 0.5 MiB once there were pieces to be taken apart into characters; while hard text is encoded up to 40
/// bytes for each of 262 144 places; a share of an [`Automaton`] once there was much text without a split, and up to 5
/// bytes for each byte of the texts that are encoded together, 5 MiB at most.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    dead: DeadEnds,
    pub(super) characters: Characters,
    automaton: Option<Arc<Automaton>>,
    tail: Tail,
    abreast: Abreast,
    /// Bytes of whole texts since it was full, or since the first, less those that were taken apart into characters.
    seen: usize,
    /// Bytes of whole texts that there will be, as far as that is known; 0 once it was full.
    expected: usize,
    /// How many times it was full.
    filled: u32,
    /// What texts were encoded to together, and where the tokens of each end.
    together: Vec<TokenId>,
    ends: Vec<usize>,
}

impl Scratch {
    /// For so many bytes of text, as far as that is known.
    pub(crate) fn expecting(expected: usize) -> Scratch {
        Scratch { expected, ..Scratch::default() }
    }

    /// Appends the tokens of a text to `ids`.
    ///
    /// # Errors
    /// The observer wants to stop; `ids` may then have some of the tokens.
    pub(crate) fn encode(
        &mut self,
        matches: &Matches,
        text: &[u8],
        ids: &mut Vec<TokenId>,
        observer: &dyn Observer,
    ) -> Result<()> {
        if matches.by_characters(text) {
            self.encode_characters(matches, text, ids);
            return Ok(());
        }
        let mut path = Path::new(mem::take(ids), 0);
        let outcome = self.go_on(matches, text, &mut path, text.len(), observer);
        *ids = path.ids;
        outcome
    }

    /// Goes on with a path to `end` or past it.
    ///
    /// # Errors
    /// The observer wants to stop; the path may then be shorter.
    pub(crate) fn go_on(
        &mut self,
        matches: &Matches,
        text: &[u8],
        path: &mut Path,
        end: usize,
        observer: &dyn Observer,
    ) -> Result<()> {
        if path.last == NONE {
            self.begin(matches, text, path, end, observer)?;
        }
        loop {
            self.dead.clear();
            let window = (path.at + WINDOW).min(end);
            let mut finder = Finder { matches, text, dead: &mut self.dead };
            match matches.go_abreast() {
                true => self.abreast.go_on(&mut finder, path, window),
                false => finder.go_on(path, window),
            }
            if path.at >= end {
                return Ok(());
            }
            observer.checkpoint()?;
        }
    }

    /// Goes on with a path that has just begun as far as the automaton is certain, if there is one: to the end of the
    /// text, or to some place before `end`.
    fn begin(
        &mut self,
        matches: &Matches,
        text: &[u8],
        path: &mut Path,
        end: usize,
        observer: &dyn Observer,
    ) -> Result<()> {
        let Some(mut walk) = self.walk(matches, end - path.at) else { return Ok(()) };
        let outcome = walk.go_on(text, path, end, observer);
        self.drop_if_full(matches);
        outcome
    }

    /// The automaton ready to go, if it is worth having one, given so many bytes more of whole texts.
    fn walk<'a>(&'a mut self, matches: &'a Matches, bytes: usize) -> Option<Walk<'a>> {
        let tokens = matches.whole.as_ref()?;
        self.seen = self.seen.saturating_add(bytes);
        let pieces = if tokens.are_all() { 1 } else { WORTH_OF_PIECES };
        let worth = (tokens.len().saturating_pow(4) >> WORTH_BITS) * pieces;
        let worth = worth.saturating_mul(1 << self.filled.min(32));
        if self.automaton.is_none() && self.seen.max(self.expected) < worth {
            return None;
        }
        let automaton = self.automaton.get_or_insert_with(|| matches.automata.get(tokens));
        Some(Walk { automaton, matches, tokens, tail: &mut self.tail })
    }

    #[cfg(test)]
    pub(super) fn has_automaton(&self) -> bool {
        self.automaton.is_some()
    }

    /// Does without the automaton until there was twice as much text, if what it needs for these texts does not fit.
    fn drop_if_full(&mut self, matches: &Matches) {
        if let Some(full) = self.automaton.take_if(|automaton| automaton.is_full()) {
            matches.automata.forget(&full);
            (self.seen, self.expected) = (0, 0);
            self.filled += 1;
        }
    }

    /// Whether a whole text had better be [encoded together](Scratch::encode_together) with others.
    pub(crate) fn is_for_together(&self, matches: &Matches, text: &[u8]) -> bool {
        let by_longest_matches = || matches.go_abreast() && !matches.by_characters(text);
        text.len() <= SHORT && (self.automaton.is_some() || by_longest_matches())
    }

    /// Encodes whole texts, none of them empty and none long.
    pub(crate) fn encode_together(&mut self, matches: &Matches, texts: &[&[u8]]) {
        self.together.clear();
        self.ends.clear();
        let bytes = texts.iter().map(|text| text.len()).sum();
        let (mut ids, mut ends) = (mem::take(&mut self.together), mem::take(&mut self.ends));
        if let Some(mut walk) = self.walk(matches, bytes) {
            walk.encode(texts, &mut ids, &mut ends);
            self.drop_if_full(matches);
        }
        (self.together, self.ends) = (ids, ends);
        // There is none, or it was full before all were encoded.
        let rest = &texts[self.ends.len()..];
        self.abreast.encode(matches, rest);
        for (nth, text) in rest.iter().enumerate() {
            if let Some(ids) = self.abreast.ids(nth) {
                self.together.extend_from_slice(ids);
            } else {
                let mut path = Path::new(mem::take(&mut self.together), 0);
                self.go_on_in(matches, text, &mut path);
                self.together = path.ids;
            }
            self.ends.push(self.together.len());
        }
    }

    /// The tokens of one of the texts that were encoded together.
    pub(crate) fn ids(&self, text: usize) -> &[TokenId] {
        let start = text.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.together[start..self.ends[text]]
    }

    /// Goes on with a path to the end of a text that is not long.
    pub(super) fn go_on_in(&mut self, matches: &Matches, text: &[u8], path: &mut Path) {
        self.dead.clear();
        Finder { matches, text, dead: &mut self.dead }.go_on(path, text.len());
    }

    /// Goes on with a path until it is the same as a part, which begins at `start`, and gives the number of the part's
    /// tokens up to there; or else to where the part ends.
    pub(super) fn join(
        &mut self,
        matches: &Matches,
        text: &[u8],
        path: &mut Path,
        part: &EncodedPart,
        start: usize,
    ) -> Option<usize> {
        self.dead.clear();
        Finder { matches, text, dead: &mut self.dead }.join(path, part.ids(), start, part.at)
    }
}
