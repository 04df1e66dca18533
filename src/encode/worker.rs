use super::cache::{self, Cache};
use super::config::SpecialPolicy;
use super::encoder::{Encoder, Specials};
use super::fault::Fault;
use super::long;
use super::merge::Merger;
use crate::error::{Error, ErrorKind, Result};
use crate::observer::{Observer, Silent};
use crate::split::{Segment, Splitter};
use crate::units::{TokenId, place};
use crate::vocab::SpecialToken;

/// Long texts are split and merged by stretches of about so many bytes, so that the places of the
/// pieces stay few and near.
const STRETCH: usize = 1 << 16;

/// One thread's encoder: the shared one, and scratch memory of its own.
///
/// **Memory:** 2 MiB for pieces met before, and what the longest result of [`encode`](Worker::encode)
/// took. While a piece of more than 64 bytes is merged, 7 bytes for each of its bytes (12 at worst);
/// up to 48 MiB of that are kept for the next.
pub struct Worker<'e> {
    encoder: &'e Encoder,
    observer: &'e dyn Observer,
    cache: Cache,
    merger: Merger,
    ends: Vec<u32>,
    ids: Vec<TokenId>,
    specials: u64,
}

impl<'e> Worker<'e> {
    pub(super) fn new(encoder: &'e Encoder, observer: &'e dyn Observer) -> Worker<'e> {
        Worker { observer, ..Worker::with_cache(encoder, Cache::new(cache::SLOTS)) }
    }

    pub(super) fn with_cache(encoder: &'e Encoder, cache: Cache) -> Worker<'e> {
        let (merger, ends, ids) = Default::default();
        Worker { encoder, observer: &Silent, cache, merger, ends, ids, specials: 0 }
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
        match &encoder.specials {
            Some(specials) => self.between(specials, text, ids)?,
            None => self.ordinary(text, ids)?,
        }
        ids.extend(encoder.config.eos);
        Ok(())
    }

    /// How many special tokens this worker has found in texts.
    pub fn specials(&self) -> u64 {
        self.specials
    }

    fn between(&mut self, specials: &Specials, text: &[u8], ids: &mut Vec<TokenId>) -> Result<()> {
        for segment in specials.finder.segments(text) {
            match segment {
                Segment::Text(range) => self.ordinary(&text[range], ids)?,
                Segment::Special(which, range) => {
                    let token = &specials.tokens[which];
                    if self.encoder.config.special == SpecialPolicy::Forbid {
                        return Err(forbidden(token, range.start));
                    }
                    ids.push(token.id);
                    self.specials += 1;
                }
            }
        }
        Ok(())
    }

    /// Encodes text in which nothing is special.
    fn ordinary(&mut self, text: &[u8], ids: &mut Vec<TokenId>) -> Result<()> {
        let Some(splitter) = &self.encoder.splitter else {
            return if text.is_empty() { Ok(()) } else { self.piece(text, 0, text.len(), ids) };
        };
        let mut rest = text;
        while !rest.is_empty() {
            self.observer.checkpoint()?;
            let (stretch, after) = rest.split_at(stretch_end(&**splitter, rest));
            self.stretch(&**splitter, stretch, ids)?;
            rest = after;
        }
        Ok(())
    }

    fn stretch(&mut self, splitter: &dyn Splitter, text: &[u8], ids: &mut Vec<TokenId>) -> Result<()> {
        let mut ends = std::mem::take(&mut self.ends);
        ends.clear();
        let mut start = 0;
        let outcome = splitter.piece_ends(text, &mut ends).and_then(|()| {
            let mut pieces = ends.iter().map(|&end| std::mem::replace(&mut start, place(end))..place(end));
            pieces.try_for_each(|piece| self.piece(text, piece.start, piece.end, ids))
        });
        self.ends = ends;
        outcome
    }

    fn piece(&mut self, text: &[u8], start: usize, end: usize, ids: &mut Vec<TokenId>) -> Result<()> {
        let Some(key) = cache::key(text, start, end) else {
            return self.merge(&text[start..end], ids);
        };
        if let Some(known) = self.cache.get(key) {
            ids.extend_from_slice(known);
            return Ok(());
        }
        let before = ids.len();
        self.merge(&text[start..end], ids)?;
        self.cache.put(key, &ids[before..]);
        Ok(())
    }

    fn merge(&mut self, piece: &[u8], ids: &mut Vec<TokenId>) -> Result<()> {
        let encoder = self.encoder;
        if let Some(&id) = encoder.whole.as_ref().and_then(|whole| whole.get(piece)) {
            ids.push(id);
        } else if piece.len() >= long::LIMIT {
            return Err(too_long(piece.len()));
        } else {
            self.merger.merge(&encoder.pairs, &encoder.byte_ids, piece, ids, self.observer)?;
        }
        Ok(())
    }
}

/// Where a first stretch of text ends that can be split on its own.
fn stretch_end(splitter: &dyn Splitter, text: &[u8]) -> usize {
    let mut limit = STRETCH;
    while limit < text.len() {
        match splitter.certain_cut(text, limit) {
            Some(cut) if cut > 0 => return cut,
            _ => limit *= 2,
        }
    }
    text.len()
}

fn forbidden(token: &SpecialToken, offset: usize) -> Error {
    Error::new(ErrorKind::Failed, Fault::SpecialInText { text: token.text.clone(), offset })
        .with_help("take special tokens in texts as text or allow them, or leave the document out")
}

fn too_long(bytes: usize) -> Error {
    Error::new(ErrorKind::Failed, Fault::PieceTooLong { bytes, most: long::LIMIT - 1 })
        .with_help("use a vocabulary with a split pattern, or cut the document")
}
