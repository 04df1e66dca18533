//! One thread's part of encoding: splits text, looks pre-tokens up, and encodes those that are new.
//!
//! The tokens go to [`PendingOutput`] first. Where the tokens of a new pre-token belong, it can have a *hole*: the
//! pre-token is encoded later in a batch with others, and then the hole is *filled* with its tokens.

use std::fmt;
use std::ops::Range;

use super::backtrack::{
    self, BacktrackScratch, BacktrackTables, BatchedBacktrack, ChunkTokens, EncodedChunk, LockstepMerger,
    Stitcher,
};
use super::cache::{Lookup, NOT_SHORT, PLAIN, PretokenCache};
use super::dropout::{DocumentDropout, Draws, Dropout, DropoutMerger};
use super::encoder::{CHUNK_BYTES, Encoder};
use super::ids::TokenIds;
use super::merge;
use super::merge::Merger;
use super::missing_bytes::MissingByteTable;
use super::pending::{PRETOKENS_PER_CHECK, PendingBuffers, PendingOutput};
use super::preprocess::TextOrToken;
use crate::base::int::{TokenId, to_u64, to_usize, truncate_to_u32};
use crate::error::{Error, Result};
use crate::observer::{Observer, Silent};
use crate::split::{SHORT, ShortPretoken};

/// Bytes of text that are split at a time, about 8 KiB, so that the ends of the pre-tokens stay in the cache.
const WINDOW: usize = 8 << 10;

/// Bytes per chunk of a long pre-token. If ids take two bytes, a pre-token of at least two chunks is encoded
/// chunk by chunk.
const PRETOKEN_CHUNK: usize = if cfg!(test) { 100 } else { CHUNK_BYTES };

/// Longest pre-token, in bytes, that is encoded in a batch with others. Longer ones gain little from it.
const LONGEST_BATCHED: usize = 256;

/// Bytes of text (4 MiB) above which the tokens of a text are counted while it is encoded, since they may exceed the
/// memory limit. All ids in the output count. When a dataset is encoded, such a text is alone in its output, so these
/// are its own ids. With [`Worker::append`], the ids that the caller's list had before count as well.
const LONG: usize = 4 << 20;

/// New pre-tokens are rare if fewer than one pre-token in this many is new. Rare ones wait for a batch that is encoded by
/// backtracking, so that its cache misses overlap. If they are not rare, the time goes to branches that are predicted
/// wrong, so short ones wait for a batch that is merged in lockstep, and others are encoded as soon as they are met.
const RARE: u32 = 16;

/// Number of pre-tokens above which [`MissRate`] halves its two counts, of all pre-tokens and of new ones. So recent
/// pre-tokens weigh most.
const RECENT: u32 = 4096;

/// Ids per KiB of text that memory is first reserved for: most text has tokens of three bytes or more.
const IDS_PER_KIB: usize = 1024 / 3;

/// Largest capacity, in ids, of a buffer that a worker keeps for later.
const KEPT_IDS: usize = 1 << 20;

impl Encoder {
    /// Creates a worker. It is cheap enough to create one per thread, but not one per document.
    pub fn worker(&self) -> Worker<'_> {
        Worker::new(self, &Silent)
    }

    /// Creates a worker that also asks the observer, even within a long document, whether to stop.
    pub fn observed_worker<'a>(&'a self, observer: &'a dyn Observer) -> Worker<'a> {
        Worker::new(self, observer)
    }
}

/// One thread's encoder: a reference to the shared [`Encoder`], and scratch memory of its own.
///
/// ```
/// # use tokenmill::{split::SplitPattern, train::Merges, vocab::{SpecialTokensAt, Vocabulary}};
/// # use tokenmill::encode::{EncodeConfig, Encoder};
/// # fn main() -> tokenmill::Result<()> {
/// # let vocabulary = Vocabulary::from_merges(&Merges::default(), &[], SpecialTokensAt::End, SplitPattern::None)?;
/// # let encoder = Encoder::new(vocabulary, EncodeConfig::default())?;
/// let mut worker = encoder.worker();
/// let mut ids = Vec::new();
/// for document in [&b"one"[..], b"two"] {
///     worker.append(document, &mut ids)?;
/// }
/// assert_eq!(ids.len(), 6); // this vocabulary has single bytes only
/// # Ok(())
/// # }
/// ```
///
/// **Memory:**
///
/// - 8 MiB for the cache of pre-tokens, or up to 32 MiB if those that do not fit come again;
/// - 0.5 MiB for a cache of the tokens of single characters, and 0.2 MiB for encoding a batch of new pre-tokens (0.7
///   MiB if these are long);
/// - 4 bytes for each pre-token of the text that is split at a time (about 8 KiB, or up to the next safe split
///   point), and 4 bytes for each token of the longest document that [`encode`](Worker::encode) was given;
/// - while a long pre-token is encoded, 8 bytes for each of its tokens; if ids take two bytes, 4 bytes for each token
///   of one chunk of it (1 MiB);
/// - while a long pre-token is merged, 7 bytes for each of its bytes, 12 at worst. Of the memory for long pre-tokens
///   up to 52 MiB stay allocated for the next one: 16 MiB for text in progress, 32 MiB for the queue of pairs, and
///   4 MiB for tokens;
/// - with dropout, 20 bytes for each byte of the longest pre-token;
/// - for texts that are not split, 5 MiB for short ones with their tokens. With much such text, a lazy DFA of up
///   to 160 MiB, which two workers share.
pub struct Worker<'e> {
    /// The encoder, which other threads use at the same time.
    encoder: &'e Encoder,
    /// Asked, also within a long document, whether to stop.
    observer: &'e dyn Observer,
    /// Everything that later documents, or a later worker, reuse.
    memory: Box<WorkerMemory>,
    /// Number of special tokens that were found in texts so far, including documents that failed.
    specials: u64,
    /// The dropout of the next document; `None` for plain encoding.
    dropout: Option<DocumentDropout>,
    /// Bytes of the document, as it is split, that were encoded with dropout so far.
    offset: usize,
}

impl fmt::Debug for Worker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("specials", &self.specials).finish_non_exhaustive()
    }
}

/// The memory of a worker: all of it except the references to the encoder and the observer.
pub(super) struct WorkerMemory {
    /// The tokens of short pre-tokens that were met.
    cache: PretokenCache,
    /// Decides whether a new pre-token is encoded at once or in a batch.
    miss_rate: MissRate,
    /// Scratch memory of all methods of encoding.
    encoders: PretokenEncoders,
    /// Lent to the output in progress, and empty while it is lent.
    pending: PendingBuffers,
    /// Lists that live for one window, pre-token or document.
    buffers: Buffers,
    /// Ids per KiB of text that memory is reserved for.
    ids_per_kib: usize,
}

/// Lists that are filled again and again.
#[derive(Default)]
struct Buffers {
    /// The ends of the pre-tokens of the text that is split at a time.
    ends: Vec<u32>,
    /// For each of at most [`PRETOKENS_PER_CHECK`] pre-tokens, where the [`PretokenCache`] would have its tokens.
    lookups: Vec<Lookup>,
    /// Tokens of one pre-token.
    tokens: Vec<TokenId>,
    /// Tokens of the last document that was given to [`Worker::encode`], or of the last chunk of a text or pre-token
    /// that was encoded by backtracking.
    ids: Vec<TokenId>,
}

/// Encodes pre-tokens that the cache does not know.
struct PretokenEncoders {
    /// Used while there are no backtracking tables, and always for pre-tokens with substituted bytes.
    merger: Merger,
    /// Used for one pre-token or text at a time, and for batches of texts that are not split.
    backtracking: BacktrackScratch,
    /// Used for batches of the new pre-tokens of split text.
    batched: BatchedBacktrack,
    /// Used for such batches of short pre-tokens where new ones are frequent.
    lockstep: LockstepMerger,
    /// Used for all pre-tokens if merges are left out at random.
    dropout: DropoutMerger,
    /// Bytes of pre-tokens that were encoded one by one.
    bytes: usize,
}

impl PretokenEncoders {
    /// Appends the tokens of a pre-token, which must not be empty, to `ids`. Builds the backtracking tables once
    /// enough bytes were encoded this way.
    fn encode(
        &mut self,
        encoder: &Encoder,
        pretoken: &[u8],
        ids: &mut Vec<TokenId>,
        observer: &dyn Observer,
    ) -> Result<()> {
        self.bytes = self.bytes.saturating_add(pretoken.len());
        if let Some(tables) = encoder.tables_for(self.bytes) {
            return self.backtracking.encode(tables, pretoken, ids, observer);
        }
        if let Some(id) = encoder.whole_token(pretoken) {
            ids.push(id);
            return Ok(());
        }
        if pretoken.len() >= merge::LIMIT {
            return Err(too_long(pretoken.len()));
        }
        self.merger.merge(&encoder.pairs, &encoder.byte_ids, pretoken, ids, observer)
    }
}

/// How many of the last pre-tokens were new. Recent ones weigh most.
#[derive(Debug, Default)]
struct MissRate {
    /// Pre-tokens that were new.
    new: u32,
    /// Pre-tokens that were looked up, new ones included. Both counts are halved at the same time.
    of: u32,
}

impl MissRate {
    /// Counts pre-tokens that are looked up, new or known.
    fn count(&mut self, pretokens: usize) {
        self.of += truncate_to_u32(pretokens);
        if self.of > RECENT {
            (self.new, self.of) = (self.new / 2, self.of / 2);
        }
    }

    /// Whether fewer than one in [`RARE`] was new.
    ///
    /// False at first, when nothing was counted yet.
    fn is_rare(&self) -> bool {
        self.new * RARE < self.of
    }
}

impl<'e> Worker<'e> {
    /// A worker that asks `observer` whether to stop.
    pub(super) fn new(encoder: &'e Encoder, observer: &'e dyn Observer) -> Worker<'e> {
        Worker { observer, ..Worker::with_cache(encoder, PretokenCache::new(encoder.cache_lines)) }
    }

    /// A worker that uses this cache and has no observer that could stop it.
    pub(super) fn with_cache(encoder: &'e Encoder, cache: PretokenCache) -> Worker<'e> {
        let (miss_rate, merger, batched, lockstep, dropout, pending, buffers) = Default::default();
        let backtracking = BacktrackScratch::expecting(encoder.expected);
        let encoders = PretokenEncoders { merger, backtracking, batched, lockstep, dropout, bytes: 0 };
        let memory = WorkerMemory { cache, miss_rate, encoders, pending, buffers, ids_per_kib: IDS_PER_KIB };
        Worker::with_memory(encoder, &Silent, Box::new(memory))
    }

    /// Creates a worker with the memory of an earlier worker of the same encoder.
    pub(super) fn with_memory(
        encoder: &'e Encoder,
        observer: &'e dyn Observer,
        memory: Box<WorkerMemory>,
    ) -> Worker<'e> {
        let dropout = encoder.config.dropout.map(|dropout| dropout.document(0, 0, 0));
        Worker { encoder, observer, memory, specials: 0, dropout, offset: 0 }
    }

    /// Encodes the next documents with this dropout, whatever the configuration of the encoder says.
    pub(super) fn set_dropout(&mut self, dropout: Dropout) {
        let is_any = dropout.probability.get() > 0.0;
        self.dropout = is_any.then(|| dropout.document(0, 0, 0));
    }

    /// Numbers the next document, as dropout needs it: by the numbers of its source, of the unit in the source, and of
    /// the row in the unit.
    pub(super) fn set_document(&mut self, source: usize, unit: usize, row: u64) {
        if let Some(dropout) = self.encoder.config.dropout {
            let unit = self.encoder.unit_number(source, unit);
            self.dropout = Some(dropout.document(to_u64(source), unit, row));
        }
    }

    /// Returns the memory, for a later worker.
    pub(super) fn into_memory(mut self) -> Box<WorkerMemory> {
        let Buffers { tokens, ids, .. } = &mut self.memory.buffers;
        shrink(tokens);
        shrink(ids);
        self.memory
    }

    /// Encodes a whole document, with BOS and EOS if configured. The result borrows a buffer that the next call
    /// overwrites.
    ///
    /// # Errors
    /// - The text spells a special token, or contains a byte without a token, and the configuration makes that an
    ///   error.
    /// - A custom pattern exceeded its backtracking limit, or normalizing made the text far longer.
    /// - A pre-token has 2 GiB or more, and is merged.
    /// - A pre-token or the document exceeds the limit set by [`Encoder::within`].
    /// - The worker's observer asks to stop.
    pub fn encode(&mut self, text: &[u8]) -> Result<&[TokenId]> {
        let mut ids = std::mem::take(&mut self.memory.buffers.ids);
        ids.clear();
        let outcome = self.append(text, &mut ids);
        self.memory.buffers.ids = ids;
        outcome.map(|()| &*self.memory.buffers.ids)
    }

    /// Encodes a whole document and appends its tokens to `ids`.
    ///
    /// # Errors
    /// Those of [`encode`](Worker::encode). `ids` may then contain some of the document's tokens.
    pub fn append(&mut self, text: &[u8], ids: &mut Vec<TokenId>) -> Result<()> {
        let mut all = TokenIds::from(std::mem::take(ids));
        let outcome = self.with_output(&mut all, |worker, output| worker.document(text, output));
        *ids = all.into_wide();
        outcome
    }

    /// Encodes texts and appends their tokens to `ids`. Returns the end of each text in `ids`.
    ///
    /// Short texts are encoded together, which is faster than one after the other.
    ///
    /// # Errors
    /// Those of [`encode`](Worker::encode). `ids` is then empty.
    pub(crate) fn append_texts<'t>(
        &mut self,
        texts: impl Iterator<Item = &'t [u8]>,
        ids: &mut Vec<TokenId>,
    ) -> Result<Vec<usize>> {
        let mut output = self.output(TokenIds::from(std::mem::take(ids)));
        for text in texts {
            self.document(text, &mut output)?;
        }
        let (all, ends) = self.finish(output);
        *ids = all.into_wide();
        Ok(ends)
    }

    /// The expected number of ids of `text_bytes` bytes of text: slightly too high if the text resembles the last one.
    pub(super) fn expected_ids(&self, text_bytes: usize) -> usize {
        text_bytes.saturating_mul(self.memory.ids_per_kib) / 1024
    }

    /// Reserves memory for the [expected](Worker::expected_ids) ids of `text_bytes` bytes of text.
    pub(super) fn reserve_ids(&self, text_bytes: usize) -> TokenIds {
        self.encoder.ids_with_capacity(self.expected_ids(text_bytes))
    }

    /// Returns the unused memory of `ids`, and records how many ids `text_bytes` bytes of text needed.
    pub(super) fn release_unused(&mut self, ids: &mut TokenIds, text_bytes: usize) {
        ids.shrink_to_fit();
        if let Some(needed) = ids.len().saturating_mul(1024).checked_div(text_bytes) {
            // Rows without text can still have ids (BOS and EOS), hence the limit.
            self.memory.ids_per_kib = (needed + needed / 32 + 1).min(1024);
        }
    }

    /// Pending output that continues after `ids`. End it with [`finish`](Worker::finish).
    pub(super) fn output<'t>(&mut self, ids: TokenIds) -> PendingOutput<'t> {
        PendingOutput::new(ids, std::mem::take(&mut self.memory.pending))
    }

    /// Encodes the pre-tokens that still have holes, fills the holes, and returns all tokens and the end of each
    /// document in them.
    pub(super) fn finish(&mut self, mut output: PendingOutput<'_>) -> (TokenIds, Vec<usize>) {
        self.fill(&mut output);
        let (ids, ends, memory) = output.into_parts();
        self.memory.pending = memory;
        (ids, ends)
    }

    /// Calls `write` with pending output that continues after `ids`. Then fills its holes and stores all tokens in
    /// `ids`, even if `write` fails.
    fn with_output<'t>(
        &mut self,
        ids: &mut TokenIds,
        write: impl FnOnce(&mut Self, &mut PendingOutput<'t>) -> Result<()>,
    ) -> Result<()> {
        let mut output = self.output(std::mem::take(ids));
        let outcome = write(self, &mut output);
        (*ids, _) = self.finish(output);
        outcome
    }

    /// Encodes a whole document into pending output.
    ///
    /// # Errors
    /// Those of [`encode`](Worker::encode). The output may then contain some of the document's tokens.
    pub(super) fn document<'t>(&mut self, text: &'t [u8], output: &mut PendingOutput<'t>) -> Result<()> {
        let encoder = self.encoder;
        self.offset = 0;
        encoder.config.bos.into_iter().for_each(|bos| output.push(bos));
        match &encoder.preparation {
            Some(preparation) => {
                self.fill(output);
                // Each part is a temporary text, and pending output refers to the text of its holes. So each part
                // has its own pending output, and its holes are filled before the text is freed. These outputs
                // borrow the buffers of the document's output, one after the other.
                self.memory.pending = std::mem::take(&mut output.memory);
                let ids = &mut output.ids;
                let outcome = preparation.each(text, &mut |part| match part {
                    TextOrToken::Text(text) => {
                        self.with_output(ids, |worker, output| worker.encode_text(text, output))
                    }
                    TextOrToken::Token(token) => {
                        self.specials += u64::from(token.special);
                        ids.push(token.id);
                        Ok(())
                    }
                });
                output.memory = std::mem::take(&mut self.memory.pending);
                outcome?;
            }
            None => self.encode_text(text, output)?,
        }
        encoder.config.eos.into_iter().for_each(|eos| output.push(eos));
        self.end(output);
        Ok(())
    }

    /// Ends a document. If the pending output is [full](PendingOutput::is_full), fills its holes.
    pub(super) fn end(&mut self, output: &mut PendingOutput<'_>) {
        output.end();
        if output.is_full() {
            self.fill(output);
        }
    }

    /// Checks the number of tokens of a document against the memory limit.
    pub(super) fn check_tokens(&self, tokens: usize) -> Result<()> {
        self.encoder.limits.check_tokens(tokens)
    }

    /// Number of special tokens that this worker has found in texts.
    pub fn specials(&self) -> u64 {
        self.specials
    }

    /// Encodes text as ordinary text, without looking for [added tokens](crate::vocab::AddedToken) such as special
    /// tokens. If they are to be found, the caller has already cut the document at them.
    ///
    /// Splits and encodes one window after the other. A window ends at a safe split point, so it is split as it would
    /// be within the whole text. Windows keep the list of ends short.
    ///
    /// # Errors
    /// Those of [`encode`](Worker::encode), except for special tokens and normalizing.
    fn encode_text<'t>(&mut self, text: &'t [u8], output: &mut PendingOutput<'t>) -> Result<()> {
        let encoder = self.encoder;
        let missing = encoder.missing.as_ref().filter(|missing| missing.first_in(text).is_some());
        if let Some(dropout) = self.dropout {
            return self.encode_with_dropout(dropout, missing, text, output);
        }
        let Some(splitter) = encoder.splitter.as_deref() else {
            return match missing {
                Some(missing) => self.encode_incomplete(missing, (text, 0), &[text.len()], output),
                None => self.encode_unsplit(text, output),
            };
        };
        let mut ends = std::mem::take(&mut self.memory.buffers.ends);
        let mut rest = text;
        while !rest.is_empty() {
            self.observer.checkpoint()?;
            let length = splitter.safe_prefix(rest, WINDOW);
            ends.clear();
            splitter.pretoken_ends_observed(&rest[..length], &mut ends, self.observer)?;
            self.encoder.limits.check_pretokens(length, &ends)?;
            match missing {
                Some(missing) => {
                    let ends: Vec<usize> = ends.iter().map(|&end| to_usize(end)).collect();
                    self.encode_incomplete(missing, (text, text.len() - rest.len()), &ends, output)?;
                }
                None => self.pretokens(rest, &ends, output)?,
            }
            if text.len() > LONG {
                self.encoder.limits.check_tokens(output.ids.len())?;
            }
            rest = &rest[length..];
        }
        self.memory.buffers.ends = ends;
        Ok(())
    }

    /// Encodes a text and leaves merges out at random.
    ///
    /// # Errors
    /// Those of [`encode_text`](Worker::encode_text).
    fn encode_with_dropout(
        &mut self,
        dropout: DocumentDropout,
        missing: Option<&MissingByteTable>,
        text: &[u8],
        output: &mut PendingOutput<'_>,
    ) -> Result<()> {
        self.fill(output);
        let Some(splitter) = self.encoder.splitter.as_deref() else {
            let whole = (0..text.len(), NOT_SHORT);
            return self.pretoken_with_dropout(dropout, missing, text, whole, &mut output.ids);
        };
        let Buffers { ends, lookups, .. } = &mut self.memory.buffers;
        let (mut ends, mut lookups) = (std::mem::take(ends), std::mem::take(lookups));
        lookups.resize(PRETOKENS_PER_CHECK, NOT_SHORT);
        let mut start = 0;
        while start < text.len() {
            self.observer.checkpoint()?;
            let rest = &text[start..];
            let length = splitter.safe_prefix(rest, WINDOW);
            ends.clear();
            splitter.pretoken_ends_observed(&rest[..length], &mut ends, self.observer)?;
            self.encoder.limits.check_pretokens(length, &ends)?;
            let mut begin = 0;
            for ends in ends.chunks(PRETOKENS_PER_CHECK) {
                self.look_up(rest, begin, ends, &mut lookups);
                for (end, lookup) in ends.iter().map(|&end| to_usize(end)).zip(&lookups) {
                    let pretoken = (start + begin..start + end, *lookup);
                    self.pretoken_with_dropout(dropout, missing, text, pretoken, &mut output.ids)?;
                    begin = end;
                }
            }
            if text.len() > LONG {
                self.encoder.limits.check_tokens(output.ids.len())?;
            }
            start += length;
        }
        (self.memory.buffers.ends, self.memory.buffers.lookups) = (ends, lookups);
        Ok(())
    }

    /// Encodes one pre-token of a text and leaves merges out at random. `missing` is given if the text has bytes
    /// without a token.
    fn pretoken_with_dropout(
        &mut self,
        dropout: DocumentDropout,
        missing: Option<&MissingByteTable>,
        text: &[u8],
        (range, lookup): (Range<usize>, Lookup),
        ids: &mut TokenIds,
    ) -> Result<()> {
        let (encoder, pretoken) = (self.encoder, &text[range.clone()]);
        if pretoken.len() >= merge::LIMIT {
            return Err(too_long(pretoken.len()));
        }
        let draws = dropout.draws(to_u64(self.offset));
        self.offset += pretoken.len();
        if missing.is_none() && self.plain_tokens_stay(pretoken, lookup, draws.clone())? {
            ids.extend_from_slice(&self.memory.buffers.tokens);
            return Ok(());
        }
        let WorkerMemory { encoders, buffers: Buffers { tokens, .. }, .. } = &mut *self.memory;
        tokens.clear();
        let lacking = missing.and_then(|missing| Some((missing, missing.first_in(pretoken)?)));
        match lacking {
            None => {
                let merger = &mut encoders.dropout;
                merger.merge(&encoder.pairs, &encoder.byte_ids, pretoken, draws, tokens, self.observer)?;
            }
            Some((missing, at)) => {
                let Some((left, byte_ids)) = missing.substituted(pretoken) else {
                    return Err(missing.error(text, range.start + at, encoder.preparation.is_none()));
                };
                encoders.dropout.merge(&encoder.pairs, byte_ids, &left, draws, tokens, self.observer)?;
            }
        }
        ids.extend_from_slice(tokens);
        shrink(tokens);
        Ok(())
    }

    /// Whether dropout leaves out none of the merges of plain encoding, as far as this is known at once. Then the tokens
    /// of the pre-token are in `buffers.tokens`.
    ///
    /// Each merge takes one token away, so their number is that of the bytes less that of the tokens. Until one is left
    /// out, each draw is for the merge that plain encoding carries out next.
    fn plain_tokens_stay(&mut self, pretoken: &[u8], (short, line): Lookup, draws: Draws) -> Result<bool> {
        let stay = draws.stay(pretoken.len().saturating_sub(1));
        if short == ShortPretoken::NONE || stay == 0 || self.encoder.vocabulary().ignore_merges() {
            return Ok(false);
        }
        let WorkerMemory { cache, encoders, buffers: Buffers { tokens, .. }, .. } = &mut *self.memory;
        tokens.clear();
        let mut found = [TokenId::default(); PLAIN];
        let number = cache.get(short, line, &mut found);
        if number > 0 {
            tokens.extend_from_slice(&found[..number]);
        } else if let Some((packed, number)) = cache.get_packed(short, line) {
            tokens.extend_from_slice(&packed[..number]);
        } else {
            encoders.encode(self.encoder, pretoken, tokens, self.observer)?;
            cache.put(short, line, tokens);
        }
        Ok(pretoken.len() - tokens.len() <= stay)
    }

    /// Encodes the pre-tokens of a text that has bytes without a token, one by one. The first starts at `start`,
    /// and `ends` are relative to it.
    ///
    /// Neither the cache nor batches are used. The tokens go straight to `output.ids`. Tokens after a hole are not
    /// there yet, so all holes are filled first.
    fn encode_incomplete(
        &mut self,
        missing: &MissingByteTable,
        (text, start): (&[u8], usize),
        ends: &[usize],
        output: &mut PendingOutput<'_>,
    ) -> Result<()> {
        self.fill(output);
        let mut begin = start;
        for end in ends {
            let end = start + end;
            self.encode_incomplete_pretoken(missing, text, begin..end, &mut output.ids)?;
            begin = end;
        }
        Ok(())
    }

    /// Encodes one pre-token of a text that has bytes without a token. The pre-token itself need not have such a byte.
    ///
    /// A missing byte does no harm in a pre-token that is a token as a whole, if the vocabulary has
    /// [`ignore_merges`](crate::vocab::Vocabulary::ignore_merges).
    ///
    /// # Errors
    /// - The pre-token has a missing byte, and the policy makes that an error.
    /// - The pre-token is to be merged and has [`merge::LIMIT`] bytes or more.
    /// - The observer asks to stop.
    fn encode_incomplete_pretoken(
        &mut self,
        missing: &MissingByteTable,
        text: &[u8],
        range: Range<usize>,
        ids: &mut TokenIds,
    ) -> Result<()> {
        let (encoder, pretoken) = (self.encoder, &text[range.clone()]);
        let WorkerMemory { encoders, buffers: Buffers { tokens, .. }, .. } = &mut *self.memory;
        tokens.clear();
        if let Some(at) = missing.first_in(pretoken) {
            if let Some(id) = encoder.whole_token(pretoken) {
                tokens.push(id);
            } else if pretoken.len() >= merge::LIMIT {
                return Err(too_long(pretoken.len()));
            } else if let Some((left, byte_ids)) = missing.substituted(pretoken) {
                encoders.merger.merge(&encoder.pairs, byte_ids, &left, tokens, self.observer)?;
            } else {
                return Err(missing.error(text, range.start + at, encoder.preparation.is_none()));
            }
        } else {
            encoders.encode(encoder, pretoken, tokens, self.observer)?;
        }
        ids.extend_from_slice(tokens);
        shrink(tokens);
        Ok(())
    }

    /// Encodes a text that is not split: now, or later in a batch.
    fn encode_unsplit<'t>(&mut self, text: &'t [u8], output: &mut PendingOutput<'t>) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let tables = self.encoder.tables();
        if tables.is_some_and(|tables| self.memory.encoders.backtracking.should_batch(tables, text)) {
            output.leave_hole(text, ShortPretoken::NONE);
            return Ok(());
        }
        self.encode_alone(text, NOT_SHORT, output)
    }

    /// Encodes a chunk of a text as if the text began at the chunk. Either the chunk ends at a safe split point,
    /// or the text is one pre-token and the vocabulary allows backtracking.
    pub(super) fn chunk(&mut self, text: &[u8], range: Range<usize>) -> Result<EncodedChunk> {
        let encoder = self.encoder;
        self.offset = range.start;
        match encoder.tables() {
            Some(tables) if encoder.splitter.is_none() => {
                self.encode_chunk(tables, text, range).map(EncodedChunk::Overlapping)
            }
            _ => {
                let text = &text[range];
                let mut ids = self.reserve_ids(text.len());
                self.with_output(&mut ids, |worker, output| worker.encode_text(text, output))?;
                self.release_unused(&mut ids, text.len());
                Ok(EncodedChunk::Independent(ids))
            }
        }
    }

    /// Encodes consecutive pre-tokens that end at `ends`. `text` may continue after the last one.
    fn pretokens<'t>(&mut self, text: &'t [u8], ends: &[u32], output: &mut PendingOutput<'t>) -> Result<()> {
        let mut lookups = std::mem::take(&mut self.memory.buffers.lookups);
        lookups.resize(PRETOKENS_PER_CHECK, NOT_SHORT);
        let mut start = 0;
        for ends in ends.chunks(PRETOKENS_PER_CHECK) {
            self.look_up(text, start, ends, &mut lookups);
            start = self.encode_looked_up(text, start, ends, &lookups, output)?;
            if output.is_full() {
                self.fill(output);
            }
        }
        self.memory.buffers.lookups = lookups;
        Ok(())
    }

    /// Computes where the [`PretokenCache`] would have each of at most [`PRETOKENS_PER_CHECK`] pre-tokens, and
    /// prefetches these lines. They arrive from memory at the same time, before
    /// [`encode_looked_up`](Worker::encode_looked_up) reads the first one.
    fn look_up(&mut self, text: &[u8], start: usize, ends: &[u32], lookups: &mut [Lookup]) {
        let WorkerMemory { cache, miss_rate, .. } = &mut *self.memory;
        cache.make_room(self.encoder.seeds());
        miss_rate.count(ends.len());
        cache.look_up(text, start, ends, lookups);
    }

    /// Encodes pre-tokens after their lines were prefetched, and returns where the last one ends.
    fn encode_looked_up<'t>(
        &mut self,
        text: &'t [u8],
        mut start: usize,
        ends: &[u32],
        lookups: &[Lookup],
        output: &mut PendingOutput<'t>,
    ) -> Result<usize> {
        let mut done = 0;
        loop {
            let (room, known) = output.buffer();
            let (found, tokens) = self.memory.cache.get_many(&lookups[done..ends.len()], &mut room[known..]);
            output.known = known + tokens;
            done += found;
            if done > 0 {
                start = to_usize(ends[done - 1]);
            }
            let Some(&end) = ends.get(done) else { return Ok(start) };
            self.new_pretoken(&text[start..to_usize(end)], lookups[done], output)?;
            done += 1;
        }
    }

    /// Appends the tokens of a pre-token that the fast lookup did not find.
    ///
    /// The cache may still have them in packed form. Otherwise the pre-token is new: it leaves a hole and is encoded in a
    /// batch. It is encoded now if it is too long for a batch, which depends on whether new pre-tokens are [`RARE`], if it
    /// is to be cut into characters, or if there are no backtracking tables.
    #[inline(never)]
    fn new_pretoken<'t>(
        &mut self,
        pretoken: &'t [u8],
        lookup: Lookup,
        output: &mut PendingOutput<'t>,
    ) -> Result<()> {
        if let Some((tokens, number)) = self.memory.cache.get_packed(lookup.0, lookup.1) {
            tokens[..number].iter().for_each(|&token| output.push(token));
            return Ok(());
        }
        let miss_rate = &mut self.memory.miss_rate;
        let longest = if miss_rate.is_rare() { LONGEST_BATCHED } else { SHORT };
        let waits = |tables: &BacktrackTables| pretoken.len() <= longest && !tables.by_characters(pretoken);
        if self.encoder.tables().is_some_and(waits) {
            miss_rate.new += u32::from(output.leave_hole(pretoken, lookup.0));
            return Ok(());
        }
        miss_rate.new += 1;
        self.encode_alone(pretoken, lookup, output)
    }

    /// Encodes a pre-token that is not in the cache.
    ///
    /// If the pre-token has at least [`WINDOW`] bytes, the holes are filled first. Its tokens then go straight to
    /// `output.ids` if these have four bytes each. If they have two, a pre-token of at least two [`PRETOKEN_CHUNK`]s
    /// is encoded chunk by chunk, provided that there are backtracking tables. In all other cases the tokens go to
    /// the pending part of the output. If they do not fit there, the holes are filled and the tokens go to
    /// `output.ids`.
    fn encode_alone(
        &mut self,
        pretoken: &[u8],
        (short, line): Lookup,
        output: &mut PendingOutput<'_>,
    ) -> Result<()> {
        if pretoken.len() >= WINDOW {
            self.fill(output);
            // A long pre-token has many tokens. They are written straight to their final place: writing them to a
            // list first and then copying them would touch twice as much memory.
            if let Some(ids) = output.ids.as_wide() {
                return self.memory.encoders.encode(self.encoder, pretoken, ids, self.observer);
            }
            if pretoken.len() >= 2 * PRETOKEN_CHUNK
                && let Some(tables) = self.encoder.tables_for(pretoken.len())
            {
                return self.encode_by_chunks(tables, pretoken, &mut output.ids);
            }
        }
        let WorkerMemory { cache, encoders, buffers: Buffers { tokens, .. }, .. } = &mut *self.memory;
        tokens.clear();
        encoders.encode(self.encoder, pretoken, tokens, self.observer)?;
        if short != ShortPretoken::NONE {
            cache.put(short, line, tokens);
        }
        if !output.put(tokens) {
            self.fill(output);
            output.ids.extend_from_slice(&self.memory.buffers.tokens);
        }
        shrink(&mut self.memory.buffers.tokens);
        Ok(())
    }

    /// Encodes a pre-token chunk by chunk, as long texts are, so that few of its tokens are held in four bytes at
    /// a time.
    fn encode_by_chunks(
        &mut self,
        tables: &BacktrackTables,
        pretoken: &[u8],
        ids: &mut TokenIds,
    ) -> Result<()> {
        let mut stitcher = Stitcher::new(std::mem::take(ids));
        let outcome = (0..pretoken.len()).step_by(PRETOKEN_CHUNK).try_for_each(|start| {
            let chunk =
                self.encode_chunk(tables, pretoken, start..pretoken.len().min(start + PRETOKEN_CHUNK))?;
            stitcher.push(Some(tables), pretoken, start, EncodedChunk::Overlapping(chunk));
            Ok(())
        });
        *ids = stitcher.into_ids();
        outcome
    }

    /// Encodes a chunk of a text as if the text began there.
    ///
    /// The last token may end after `range`, within the next chunk. [`Stitcher`] continues from its end.
    fn encode_chunk(
        &mut self,
        tables: &BacktrackTables,
        text: &[u8],
        range: Range<usize>,
    ) -> Result<ChunkTokens> {
        let mut ids = std::mem::take(&mut self.memory.buffers.ids);
        ids.clear();
        let mut path = backtrack::Path::new(ids, range.start);
        let outcome =
            self.memory.encoders.backtracking.extend_to(tables, text, &mut path, range.end, self.observer);
        let part = ChunkTokens::new(&path, self.encoder.ids_with_capacity(0));
        self.memory.buffers.ids = path.ids;
        outcome.map(|()| part)
    }

    /// Encodes the pre-tokens, or the unsplit texts, that have holes in pending output, and fills the holes.
    fn fill(&mut self, output: &mut PendingOutput<'_>) {
        let WorkerMemory { cache, encoders, miss_rate, .. } = &mut *self.memory;
        let PretokenEncoders { batched, lockstep, backtracking, .. } = encoders;
        let pretokens = &output.new_pretokens[..];
        match self.encoder.tables() {
            Some(tables) if self.encoder.splitter.is_none() => {
                backtracking.encode_batch(tables, pretokens);
                output.fill_holes(|text| backtracking.ids(text));
            }
            Some(tables) => {
                let all_short = !output.short.contains(&ShortPretoken::NONE);
                let in_lockstep =
                    all_short && !miss_rate.is_rare() && tables.merge_in_lockstep(lockstep, pretokens);
                if !in_lockstep {
                    batched.encode(tables, pretokens);
                }
                let ids = |number| if in_lockstep { lockstep.ids(number) } else { batched.ids(number) };
                for (number, &short) in output.short.iter().enumerate() {
                    if short != ShortPretoken::NONE {
                        cache.put(short, cache.line(short), ids(number));
                    }
                }
                output.fill_holes(ids);
            }
            // Pre-tokens leave holes only if there are backtracking tables, so there are none. But known tokens must be
            // copied.
            None => output.fill_holes(|_| &[]),
        }
    }
}

/// Frees the memory of a list if a long text has made it large.
fn shrink(ids: &mut Vec<TokenId>) {
    if ids.capacity() > KEPT_IDS {
        *ids = Vec::new();
    }
}

/// The error for a pre-token that is too long to be merged.
fn too_long(bytes: usize) -> Error {
    Error::failed(format!("a pre-token has {bytes} bytes; the limit is {}", merge::LIMIT - 1))
        .with_help("use a vocabulary with a split pattern, or cut the document")
}
