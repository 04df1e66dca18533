use std::mem;
use std::sync::Arc;

use super::abreast::Abreast;
use super::automaton::{Automaton, Tail, Walk};
use super::characters::Characters;
use super::path::{DeadEnds, Finder, Path};
use super::{EncodedPart, Matches, NONE};
use crate::base::int::TokenId;
use crate::error::Result;
use crate::observer::Observer;

/// Bytes between two checks of the observer.
const WINDOW: usize = 1 << 18;

/// Bits that the fourth power of the number of early tokens is shifted right by. The result is the number of
/// bytes of whole texts from which a lazy DFA pays: 16 MiB for 8 192 early tokens, 1 MiB for 4 096. The more
/// tokens, the more transitions must be learned, the longer each takes because memory is farther away, and the
/// less each one saves.
const WORTH_BITS: u32 = 28;

/// Factor of that number of bytes if the vocabulary has late merges (4 MiB for 4 096 early tokens), since the
/// cache of segments must fill as well.
const WORTH_OF_PIECES: usize = 4;

/// Longest text, in bytes, that is encoded in a batch with others if no token is very long.
const SHORT: usize = 4 << 10;

/// The scratch memory of one thread, for one vocabulary.
///
/// **Memory:** 0.5 MiB once a pre-token was cut into characters; while hard text is encoded, up to 40 bytes for
/// each of 262 144 positions; a share of a lazy DFA ([`Automaton`]) once there was much text without a split; up
/// to 5 bytes for each byte of texts that are encoded in a batch, at most 5 MiB.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    dead: DeadEnds,
    pub(super) characters: Characters,
    automaton: Option<Arc<Automaton>>,
    tail: Tail,
    abreast: Abreast,
    /// Bytes of whole texts since the start, or since the DFA was last full, without those that were cut into
    /// characters.
    seen: usize,
    /// Bytes of whole texts that are expected; 0 if unknown, and after the DFA was full.
    expected: usize,
    /// How many times the DFA was full.
    filled: u32,
    /// Tokens of the last batch of texts, and the end of each text's tokens.
    together: Vec<TokenId>,
    ends: Vec<usize>,
}

impl Scratch {
    /// Scratch memory for `expected` bytes of text; 0 if unknown.
    pub(crate) fn expecting(expected: usize) -> Scratch {
        Scratch { expected, ..Scratch::default() }
    }

    /// Appends the tokens of a text to `ids`.
    ///
    /// # Errors
    /// The observer asks to stop. `ids` may then contain some of the tokens.
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

    /// Extends a path to `end` or past it.
    ///
    /// # Errors
    /// The observer asks to stop. The path may then be shorter.
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

    /// Extends a path that has just begun as far as the DFA is certain, if one is in use: to the end of the text,
    /// or to some position before `end`.
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

    /// The DFA, ready to encode, if it pays after `bytes` more bytes of whole texts.
    fn walk<'a>(&'a mut self, matches: &'a Matches, bytes: usize) -> Option<Walk<'a>> {
        let tokens = matches.whole.as_ref()?;
        self.seen = self.seen.saturating_add(bytes);
        let pretokens = if tokens.are_all() { 1 } else { WORTH_OF_PIECES };
        let worth = (tokens.len().saturating_pow(4) >> WORTH_BITS) * pretokens;
        let worth = worth.saturating_mul(1 << self.filled.min(32));
        if self.automaton.is_none() && self.seen.max(self.expected) < worth {
            return None;
        }
        let automaton = self.automaton.get_or_insert_with(|| matches.automata.get(tokens));
        Some(Walk { automaton, matches, tokens, tail: &mut self.tail })
    }

    /// Whether a DFA is in use.
    #[cfg(test)]
    pub(super) fn has_automaton(&self) -> bool {
        self.automaton.is_some()
    }

    /// If the DFA is full, stops using it until twice as much text has been met.
    fn drop_if_full(&mut self, matches: &Matches) {
        if let Some(full) = self.automaton.take_if(|automaton| automaton.is_full()) {
            matches.automata.forget(&full);
            (self.seen, self.expected) = (0, 0);
            self.filled += 1;
        }
    }

    /// Whether a whole text should be encoded [in a batch](Scratch::encode_together) with others.
    pub(crate) fn is_for_together(&self, matches: &Matches, text: &[u8]) -> bool {
        let by_longest_matches = || matches.go_abreast() && !matches.by_characters(text);
        text.len() <= SHORT && (self.automaton.is_some() || by_longest_matches())
    }

    /// Encodes whole texts in a batch. None may be empty or long.
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
        // The DFA is not in use, or was full before all texts were encoded.
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

    /// The tokens of one text of the last batch.
    pub(crate) fn ids(&self, text: usize) -> &[TokenId] {
        let start = text.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.together[start..self.ends[text]]
    }

    /// Extends a path to the end of a text that is not long.
    pub(super) fn go_on_in(&mut self, matches: &Matches, text: &[u8], path: &mut Path) {
        self.dead.clear();
        Finder { matches, text, dead: &mut self.dead }.go_on(path, text.len());
    }

    /// Stitches a path to a chunk that begins at `start`: see [`Finder::join`].
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
