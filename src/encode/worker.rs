use std::ops::Range;

use super::cache::{self, Cache};
use super::encoder::Encoder;
use super::fault::Fault;
use super::long;
use super::longest_match;
use super::merge::Merger;
use super::prepare::Part;
use crate::error::{Error, ErrorKind, Result};
use crate::observer::{Observer, Silent};
use crate::split::{SHORT, ShortPiece};
use crate::units::{TokenId, place};

/// Text is split in windows of about this size, so that the places of its pieces stay in the cache.
const WINDOW: usize = 8 << 10;

/// How many pieces are looked up together.
const AHEAD: usize = 64;

/// Room for so many ids is kept with a worker's memory at most.
const KEPT_IDS: usize = 1 << 20;

/// One thread's encoder: the shared one, and scratch memory of its own.
///
/// **Memory:** at most 8 MiB for pieces met before, and what the longest result of [`encode`](Worker::encode)
/// took. While a piece of more than 64 bytes is merged, 7 bytes for each of its bytes (12 at worst);
/// up to 48 MiB of that are kept for the next.
pub struct Worker<'e> {
    encoder: &'e Encoder,
    observer: &'e dyn Observer,
    cache: Cache,
    merger: Merger,
    scratch: longest_match::Scratch,
    ends: Vec<u32>,
    ids: Vec<TokenId>,
    specials: u64,
}

/// A worker's memory without the worker: pieces met before, and scratch.
pub(super) struct Memory {
    cache: Cache,
    merger: Merger,
    scratch: longest_match::Scratch,
    ends: Vec<u32>,
    ids: Vec<TokenId>,
}

impl<'e> Worker<'e> {
    pub(super) fn new(encoder: &'e Encoder, observer: &'e dyn Observer) -> Worker<'e> {
        Worker { observer, ..Worker::with_cache(encoder, Cache::new(cache::LINES)) }
    }

    pub(super) fn with_cache(encoder: &'e Encoder, cache: Cache) -> Worker<'e> {
        let (merger, scratch, ends, ids) = Default::default();
        Worker::with_memory(encoder, Memory { cache, merger, scratch, ends, ids })
    }

    /// Takes up the memory of an earlier worker of the same encoder.
    pub(super) fn with_memory(encoder: &'e Encoder, memory: Memory) -> Worker<'e> {
        let Memory { cache, merger, scratch, ends, ids } = memory;
        Worker { encoder, observer: &Silent, cache, merger, scratch, ends, ids, specials: 0 }
    }

    /// Gives back the memory, for a later worker.
    pub(super) fn into_memory(self) -> Memory {
        let Worker { cache, merger, scratch, ends, mut ids, .. } = self;
        if ids.capacity() > KEPT_IDS {
            ids = Vec::new();
        }
        Memory { cache, merger, scratch, ends, ids }
    }

    /// Encodes a whole document. The slice is valid until the next call: the buffer is reused.
    ///
    /// # Errors
    /// The text holds a special token and the policy forbids that, a custom pattern ran past its
    /// limit of backtracking, a piece has 2 GiB or more, or the worker's observer wants to stop.
    pub fn encode(&mut self, text: &[u8]) -> Result<&[TokenId]> {
        let mut ids = std::mem::take(&mut self.ids);
        ids.clear();
        let outcome = self.append(text, &mut ids);
        self.ids = ids;
        outcome.map(|()| &*self.ids)
    }

    /// Encodes a whole document and appends its tokens to `ids`.
    ///
    /// # Errors
    /// As [`encode`](Worker::encode); `ids` may then have some of the tokens.
    pub fn append(&mut self, text: &[u8], ids: &mut Vec<TokenId>) -> Result<()> {
        let encoder = self.encoder;
        ids.extend(encoder.config.bos);
        match &encoder.preparation {
            Some(preparation) => preparation.each(text, &mut |part| match part {
                Part::Text(text) => self.ordinary(text, ids),
                Part::Token(token) => {
                    self.specials += u64::from(token.special);
                    ids.push(token.id);
                    Ok(())
                }
            })?,
            None => self.ordinary(text, ids)?,
        }
        ids.extend(encoder.config.eos);
        Ok(())
    }

    /// How many special tokens this worker has found in texts.
    pub fn specials(&self) -> u64 {
        self.specials
    }

    /// Encodes text in which no token is looked for.
    fn ordinary(&mut self, text: &[u8], ids: &mut Vec<TokenId>) -> Result<()> {
        let Some(splitter) = self.encoder.splitter.as_deref() else {
            return if text.is_empty() { Ok(()) } else { self.merge(text, ids) };
        };
        let mut ends = std::mem::take(&mut self.ends);
        let mut rest = text;
        while !rest.is_empty() {
            self.observer.checkpoint()?;
            let length = splitter.first_part(rest, WINDOW);
            ends.clear();
            splitter.piece_ends(&rest[..length], &mut ends)?;
            self.pieces(rest, &ends, ids)?;
            rest = &rest[length..];
        }
        self.ends = ends;
        Ok(())
    }

    /// Encodes a part of a text as if the text began where the part does. Either the part ends at a certain
    /// cut, or the text is one piece and the vocabulary allows longest matches.
    pub(super) fn stretch(&mut self, text: &[u8], range: Range<usize>) -> Result<longest_match::Path> {
        let mut path = longest_match::Path::new(Vec::new(), range.start);
        match &self.encoder.matches {
            Some(matches) if self.encoder.splitter.is_none() => {
                self.scratch.go_on(matches, text, &mut path, range.end, self.observer)?;
            }
            _ => self.ordinary(&text[range], &mut path.ids)?,
        }
        Ok(path)
    }

    /// Encodes the pieces that end at these places of a text, each beginning where the one before ends. The
    /// text may go on behind the last.
    fn pieces(&mut self, text: &[u8], ends: &[u32], ids: &mut Vec<TokenId>) -> Result<()> {
        let mut start = 0;
        for ends in ends.chunks(AHEAD) {
            start = self.some_pieces(text, start, ends, ids)?;
        }
        Ok(())
    }

    /// Encodes at most [`AHEAD`] pieces, and gives the place where the last ends. The cache's lines for all of
    /// them are asked for before the first is looked at.
    fn some_pieces(
        &mut self,
        text: &[u8],
        start: usize,
        ends: &[u32],
        ids: &mut Vec<TokenId>,
    ) -> Result<usize> {
        self.cache.make_room();
        let mut lookups = [(ShortPiece::NONE, 0); AHEAD];
        let mut from = start;
        for (lookup, &end) in lookups.iter_mut().zip(ends) {
            let length = place(end) - from;
            if length <= SHORT {
                let piece = ShortPiece::within(text, from, length);
                *lookup = (piece, self.cache.line(piece));
                self.cache.fetch(lookup.1);
            }
            from = place(end);
        }
        // All ids of a slot are copied, and those beyond its number are overwritten by the next.
        let mut known = [TokenId::default(); AHEAD * cache::IDS];
        let (mut filled, mut from) = (0, start);
        for (&(piece, line), &end) in lookups.iter().zip(ends) {
            let end = place(end);
            match self.cache.get(piece, line) {
                Some((tokens, number)) => {
                    known[filled..filled + cache::IDS].copy_from_slice(&tokens);
                    filled += number;
                }
                None => {
                    ids.extend_from_slice(&known[..filled]);
                    filled = 0;
                    self.new_piece(&text[from..end], (piece, line), ids)?;
                }
            }
            from = end;
        }
        ids.extend_from_slice(&known[..filled]);
        Ok(from)
    }

    /// Encodes a piece that is not in the cache, and puts it there if it is short.
    #[inline(never)]
    fn new_piece(
        &mut self,
        piece: &[u8],
        (short, line): (ShortPiece, usize),
        ids: &mut Vec<TokenId>,
    ) -> Result<()> {
        let before = ids.len();
        self.merge(piece, ids)?;
        if piece.len() <= SHORT {
            self.cache.put(short, line, &ids[before..]);
        }
        Ok(())
    }

    /// Encodes a piece, which is not empty, on its own.
    fn merge(&mut self, piece: &[u8], ids: &mut Vec<TokenId>) -> Result<()> {
        let encoder = self.encoder;
        if let Some(&id) = encoder.whole.as_ref().and_then(|whole| whole.get(piece)) {
            ids.push(id);
        } else if let Some(matches) = &encoder.matches {
            self.scratch.encode(matches, piece, ids, self.observer)?;
        } else if piece.len() >= long::LIMIT {
            return Err(too_long(piece.len()));
        } else {
            self.merger.merge(&encoder.pairs, &encoder.byte_ids, piece, ids, self.observer)?;
        }
        Ok(())
    }
}

fn too_long(bytes: usize) -> Error {
    Error::new(ErrorKind::Failed, Fault::PieceTooLong { bytes, most: long::LIMIT - 1 })
        .with_help("use a vocabulary with a split pattern, or cut the document")
}
