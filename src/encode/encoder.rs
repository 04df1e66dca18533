//! The encoder of a vocabulary, its configuration, and which method it uses. It also cuts long texts into chunks.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use super::backtrack::{BacktrackTables, Stitcher};
use super::cache::{self, Seed};
use super::dropout::Dropout;
use super::ids::TokenIds;
use super::merge::{self, MergeTable};
use super::missing_bytes::{MissingByteTable, MissingBytes};
use super::preprocess::{Preprocessor, SpecialPolicy};
use crate::base::hash::{HashIndex, SeededHash};
use crate::base::int::{ByteCount, TokenId, to_u64, to_usize, u64_to_usize};
use crate::base::pools;
use crate::error::{Error, ErrorKind, Result};
use crate::split::{self, SplitPattern, Splitter};
use crate::vocab::{self, Checks, Vocabulary};

/// Bytes of new text per token of the vocabulary from which preparing backtracking pays: preparation takes
/// about as long as the time that backtracking saves on that much text.
const WORTH: usize = 16;

/// Of split text, at most about one byte in this many is new; the others belong to pre-tokens that the cache
/// knows.
const NEW: usize = 8;

/// How documents become token ids. The default adds no tokens around documents, treats special tokens as text,
/// and returns an error for bytes without a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EncodeConfig {
    /// What to do with text that spells a special token.
    pub special: SpecialPolicy,
    /// Token to put before every document, if any.
    pub bos: Option<TokenId>,
    /// Token to put after every document, if any.
    pub eos: Option<TokenId>,
    /// What to do with text that contains a byte without a token.
    #[serde(skip_serializing_if = "MissingBytes::is_default")]
    pub missing_bytes: MissingBytes,
    /// How merges are left out at random, if at all. If texts are encoded one by one, each is document 0; those of a
    /// batch are numbered in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropout: Option<Dropout>,
}

/// Bytes per chunk of a long text (1 MiB). Each chunk is encoded as if the text began there. A text of less than two
/// chunks is encoded whole.
pub(super) const CHUNK_BYTES: usize = 1 << 20;

/// Bytes before the end of a chunk in which a safe split point is searched for. If these have none, earlier bytes
/// hardly have one, and searching all of a long text without any would read it once more than encoding does.
const REACH: usize = 64 << 10;

/// An encoder for one vocabulary, shared by all threads. Each thread encodes with a [`Worker`](super::Worker) of it.
///
/// The encoder is built in two steps. The tables for merging, which works for every vocabulary, are built at
/// once. The backtracking tables, which encode new text several times faster, take up to a second for
/// hundreds of thousands of tokens. They are built when one thread has met enough new text to make that
/// worthwhile, or at once if that much text [is expected](Encoder::expecting). Both methods give the same ids.
///
/// ```
/// use tokenmill::encode::{EncodeConfig, Encoder};
/// # use tokenmill::{split::SplitPattern, train::Merges, vocab::{SpecialTokensAt, Vocabulary}};
///
/// # fn main() -> tokenmill::Result<()> {
/// # let vocabulary = Vocabulary::from_merges(&Merges::default(), &[], SpecialTokensAt::End, SplitPattern::None)?;
/// // A vocabulary of the 256 bytes alone.
/// let encoder = Encoder::new(vocabulary, EncodeConfig::default())?;
/// let mut worker = encoder.worker(); // one per thread
/// assert_eq!(worker.encode(b"hi")?.len(), 2);
/// # Ok(())
/// # }
/// ```
///
/// **Memory:** the vocabulary, and a second copy of it if some bytes have no token; 1 MB, and up to 64 bytes per
/// merge; about 320 bytes per token for backtracking; with [`ignore_merges`](Vocabulary::ignore_merges), up to
/// 21 bytes per token. If much text is not split, up to 160 MiB of learned state for every two workers, which
/// later workers reuse.
pub struct Encoder {
    /// The vocabulary as it was given. Some bytes may have no token in it.
    vocabulary: Arc<Vocabulary>,
    /// The vocabulary with a token for every byte. It encodes text that has no missing bytes.
    completed: Arc<Vocabulary>,
    /// The bytes that have no token in `vocabulary`; `None` if every byte has one.
    pub(super) missing: Option<MissingByteTable>,
    /// The merges of `completed`.
    pub(super) pairs: MergeTable,
    /// The token of each byte value in `completed`.
    pub(super) byte_ids: [TokenId; 256],
    /// `None` if a whole document is one pre-token.
    pub(super) splitter: Option<Box<dyn Splitter>>,
    /// The backtracking tables, built once they pay.
    backtracking: Arc<OnceLock<Backtracking>>,
    /// Bytes of new text on one thread from which building `backtracking` pays.
    worth: usize,
    /// Threads that build `backtracking`. Fixed when the encoder is created, because a thread that encodes need not
    /// belong to a rayon pool that could tell the number.
    pub(super) threads: usize,
    /// With [`ignore_merges`](Vocabulary::ignore_merges): finds pre-tokens that are tokens as a whole, whether or
    /// not merges produce them.
    whole: Option<IdByBytes>,
    /// What to do with a text before it is split: find added tokens, normalize. `None` for nothing.
    pub(super) preparation: Option<Preprocessor>,
    /// The configuration. BOS and EOS were checked to be tokens of `vocabulary`.
    pub(super) config: EncodeConfig,
    /// All ids are below this.
    id_limit: usize,
    /// Bytes of text that each worker is expected to encode; 0 if unknown.
    pub(super) expected: usize,
    /// What a document may have before it is refused: [`ENDLESS`](DocumentLimits::ENDLESS), or as set by
    /// [`within`](Encoder::within).
    pub(super) limits: DocumentLimits,
    /// Lines that the cache of each worker may grow to.
    pub(super) cache_lines: usize,
    /// For each source, the number of its first unit; see [`numbering_units_from`](Encoder::numbering_units_from).
    first_units: Vec<u64>,
}

/// Limits that the memory limit implies.
#[derive(Clone, Copy, Debug)]
pub(super) struct DocumentLimits {
    /// Maximum number of bytes of a pre-token, where text is split.
    max_pretoken_bytes: usize,
    /// Maximum number of tokens of a document.
    max_tokens: usize,
}

impl DocumentLimits {
    /// No limits, as for an encoder for which [`within`](Encoder::within) was not called.
    const ENDLESS: DocumentLimits = DocumentLimits { max_pretoken_bytes: usize::MAX, max_tokens: usize::MAX };

    /// Checks the pre-tokens of a text of `bytes` bytes, which end at `ends`.
    ///
    /// # Errors
    /// One of them is longer than the limit.
    #[inline]
    pub(super) fn check_pretokens(&self, bytes: usize, ends: &[u32]) -> Result<()> {
        if bytes <= self.max_pretoken_bytes { Ok(()) } else { self.check_each(ends) }
    }

    /// Checks the length of each pre-token.
    ///
    /// Cold: a text has such a pre-token only if the text itself is longer than the limit.
    #[cold]
    fn check_each(&self, ends: &[u32]) -> Result<()> {
        let starts = std::iter::once(&0).chain(ends);
        let longest = to_usize(starts.zip(ends).map(|(start, end)| end - start).max().unwrap_or(0));
        if longest <= self.max_pretoken_bytes {
            return Ok(());
        }
        let max = self.max_pretoken_bytes;
        Err(over_memory(format!("a pre-token has {longest} bytes; the memory limit allows {max}")))
    }

    /// Checks the number of tokens that a document has so far.
    ///
    /// # Errors
    /// It is above the limit.
    pub(super) fn check_tokens(&self, tokens: usize) -> Result<()> {
        let max = self.max_tokens;
        if tokens <= max {
            return Ok(());
        }
        let problem =
            format!("the document has more than {max} tokens, the most that the memory limit allows");
        Err(over_memory(problem))
    }
}

/// An error with the advice for documents that need more memory than allowed.
fn over_memory(problem: String) -> Error {
    Error::message(ErrorKind::Memory, problem).with_help(
        "raise --memory, leave the document out, or cut it: --documents line or paragraph, or --separator",
    )
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder")
            .field("config", &self.config)
            .field("method", &self.method())
            .field("id_limit", &self.id_limit)
            .finish_non_exhaustive()
    }
}

impl Encoder {
    /// Prepares a vocabulary for encoding.
    ///
    /// # Errors
    /// - BOS or EOS is not a token of the vocabulary.
    /// - The vocabulary's pattern is not a valid regular expression.
    /// - It has ids of 2³¹ or more.
    /// - Bytes without a token cannot be treated as the configuration says.
    pub fn new(vocabulary: impl Into<Arc<Vocabulary>>, config: EncodeConfig) -> Result<Encoder> {
        let vocabulary = vocabulary.into();
        let splitter = match vocabulary.split() {
            SplitPattern::None => None,
            pattern => Some(split::splitter(pattern)?),
        };
        Encoder::with_splitter(vocabulary, config, splitter)
    }

    /// Prepares a vocabulary, with a splitter in place of its own pattern.
    pub(crate) fn with_splitter(
        vocabulary: Arc<Vocabulary>,
        config: EncodeConfig,
        splitter: Option<Box<dyn Splitter>>,
    ) -> Result<Encoder> {
        let completed = match vocabulary.completed() {
            Cow::Borrowed(_) => Arc::clone(&vocabulary),
            Cow::Owned(completed) => Arc::new(completed),
        };
        check(&vocabulary, completed.id_limit(), &config)?;
        // Probability 0 is plain encoding, which is faster.
        let dropout = config.dropout.filter(|dropout| dropout.probability.get() > 0.0);
        let config = EncodeConfig { dropout, ..config };
        Ok(Encoder {
            missing: MissingByteTable::new(&vocabulary, config.missing_bytes)?,
            pairs: MergeTable::new(&completed),
            byte_ids: *completed.byte_ids(),
            splitter,
            backtracking: Arc::default(),
            worth: WORTH * vocabulary.id_limit(),
            threads: rayon::current_num_threads(),
            whole: vocabulary.ignore_merges().then(|| IdByBytes::new(&vocabulary)),
            preparation: Preprocessor::new(&vocabulary, config.special)?,
            config,
            id_limit: vocabulary.id_limit(),
            expected: 0,
            completed,
            limits: DocumentLimits::ENDLESS,
            cache_lines: cache::MAX_LINES,
            first_units: Vec::new(),
            vocabulary,
        })
    }

    /// Announces how much text will be encoded, if that is known, by as many threads as the current rayon pool
    /// has. Work that pays only for much text is then done now. The ids do not change.
    #[must_use]
    pub fn expecting(self, text_bytes: ByteCount) -> Encoder {
        if self.config.dropout.is_some() {
            return self;
        }
        let expected = u64_to_usize(text_bytes.0) / rayon::current_num_threads();
        let new = if self.splitter.is_some() { expected / NEW } else { expected };
        self.tables_for(new);
        Encoder { expected, ..self }
    }

    /// Says which number the first unit of each source has, where a batch counts units from 0; if left out, 0. Only
    /// [`Dropout`] depends on these numbers: a shard of an input then gives the ids of the whole input.
    #[must_use]
    pub fn numbering_units_from(self, first_units: Vec<u64>) -> Encoder {
        Encoder { first_units, ..self }
    }

    /// The number of a unit in its source, which counts all shards.
    pub(super) fn unit_number(&self, source: usize, unit: usize) -> u64 {
        self.first_units.get(source).copied().unwrap_or(0) + to_u64(unit)
    }

    /// Limits the memory that one document takes. The ids do not change.
    ///
    /// An error of [`ErrorKind::Memory`] is then returned for a pre-token that would exceed `memory` while it is
    /// encoded and written, at 17 bytes of memory per byte of text, 25 with dropout, and for a document with ids that would take
    /// more than an eleventh of `memory`, at 4 bytes each, since several documents are in progress at a time.
    /// Pre-tokens of 1 MiB and documents of 2 million tokens are always accepted. The first limit does not apply
    /// to vocabularies without a split. The caches of pre-tokens of all threads together take an eighth of `memory`, or
    /// 8 MiB each.
    #[must_use]
    pub fn within(self, memory: ByteCount) -> Encoder {
        const LONGEST_PRETOKEN: u64 = 1 << 20;
        const MAX_TOKENS: u64 = 2 << 20;
        let per_byte = if self.config.dropout.is_some() { 25 } else { 17 };
        let max_pretoken_bytes = u64_to_usize((memory.0 / per_byte).max(LONGEST_PRETOKEN));
        let max_tokens = u64_to_usize((memory.0 / (11 * 4)).max(MAX_TOKENS));
        let cache_lines = cache::lines_within(u64_to_usize(memory.0) / 8 / self.threads);
        Encoder { limits: DocumentLimits { max_pretoken_bytes, max_tokens }, cache_lines, ..self }
    }

    /// Builds the backtracking tables now, if the vocabulary allows them. The ids do not change.
    #[must_use]
    pub fn prepared(self) -> Encoder {
        self.prepare();
        self
    }

    /// See [`prepared`](Encoder::prepared).
    pub(super) fn prepare(&self) {
        self.tables_for(usize::MAX);
    }

    /// Shares the backtracking tables with another encoder of the same vocabulary, whichever of the two
    /// builds them.
    pub(super) fn sharing_tables(self, other: &Encoder) -> Encoder {
        Encoder { backtracking: Arc::clone(&other.backtracking), ..self }
    }

    /// Replaces the amount of text from which preparation pays.
    #[cfg(test)]
    pub(super) fn worth(self, bytes: usize) -> Encoder {
        Encoder { worth: bytes, ..self }
    }

    /// The backtracking tables, if they have been built and the vocabulary allows them.
    #[inline]
    pub(super) fn tables(&self) -> Option<&BacktrackTables> {
        self.backtracking.get()?.tables.as_ref()
    }

    /// The backtracking tables; builds them now if that pays for `bytes` of new text on one thread.
    #[inline]
    pub(super) fn tables_for(&self, bytes: usize) -> Option<&BacktrackTables> {
        if bytes < self.worth {
            return self.tables();
        }
        let make = || Backtracking::new(&self.completed, self.splitter.is_none(), self.threads);
        self.backtracking.get_or_init(make).tables.as_ref()
    }

    /// Pre-tokens that are known to be single tokens.
    pub(super) fn seeds(&self) -> &[Seed] {
        self.backtracking.get().map_or(&[], |backtracking| &backtracking.seeds)
    }

    /// The token that a pre-token is as a whole, with [`ignore_merges`](Vocabulary::ignore_merges), even if
    /// merges do not produce it.
    pub(super) fn whole_token(&self, pretoken: &[u8]) -> Option<TokenId> {
        self.whole.as_ref()?.find(&self.vocabulary, pretoken)
    }

    /// An empty [`TokenIds`] with capacity for `ids` ids.
    pub(super) fn ids_with_capacity(&self, ids: usize) -> TokenIds {
        TokenIds::with_capacity(ids, self.id_limit)
    }

    /// The chunks of a long text, each of about `size` bytes. With a split pattern they end at safe split points.
    ///
    /// Empty if the text is encoded whole: if it has fewer than two chunks, normalizing changes it, an added token
    /// occurs in it, a byte lacks a token, or chunks cannot be encoded independently.
    pub(super) fn chunks(&self, text: &[u8], size: usize) -> Vec<Range<usize>> {
        let mut chunks = Vec::new();
        let mut start = 0;
        while start < text.len() && (start > 0 || self.can_be_cut(text, size)) {
            let end = start + self.chunk_length(&text[start..], size);
            chunks.push(start..end);
            start = end;
        }
        chunks
    }

    /// Whether a text has at least two chunks, and these can be encoded independently.
    ///
    /// The length is tested first, since the other tests read the text. If a text is one pre-token, chunks need the
    /// backtracking tables, as only tokens found by backtracking can be stitched; the tables are built here if the
    /// text is long enough to repay them.
    fn can_be_cut(&self, text: &[u8], size: usize) -> bool {
        let plain = || self.preparation.as_ref().is_none_or(|preparation| preparation.leaves_unchanged(text));
        let can_stitch = || self.config.dropout.is_none() && self.tables_for(text.len()).is_some();
        let independent = || self.splitter.is_some() || can_stitch();
        let complete = || self.missing.as_ref().is_none_or(|missing| missing.first_in(text).is_none());
        text.len() >= 2 * size && plain() && complete() && independent()
    }

    /// Length of the next chunk of a text.
    ///
    /// With a split pattern, this is the last safe split point at or before `size`. If there is none within
    /// [`REACH`], the following multiples of `size` are tried, and at last all of `rest` is the chunk.
    fn chunk_length(&self, rest: &[u8], size: usize) -> usize {
        let Some(splitter) = self.splitter.as_deref() else { return size.min(rest.len()) };
        let mut ends = (size..rest.len()).step_by(size);
        let cut = |end: usize| splitter.safe_split_point(rest, end + 1 - size.min(REACH)..=end);
        ends.find_map(cut).unwrap_or(rest.len())
    }

    /// Begins to stitch the chunks of a document, with BOS if configured.
    pub(super) fn stitcher(&self) -> Stitcher {
        Stitcher::new(self.config.bos.into_iter().collect())
    }

    /// The ids of a document that is stitched, with EOS if configured.
    pub(super) fn stitched(&self, stitcher: Stitcher) -> TokenIds {
        let mut ids = stitcher.into_ids();
        self.config.eos.into_iter().for_each(|eos| ids.push(eos));
        ids
    }

    /// The vocabulary that it encodes with.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// How pre-tokens, and texts that are not split, are encoded at present: by merges until there has been
    /// enough text, unless the encoder is [prepared](Encoder::prepared).
    pub fn method(&self) -> Method {
        self.backtracking.get().map_or(LITTLE_TEXT, |backtracking| backtracking.method)
    }

    /// The configuration that it was created with.
    pub fn config(&self) -> EncodeConfig {
        self.config
    }
}

/// Checks that BOS and EOS are tokens, and that `limit`, above all ids, fits the merge tables.
///
/// # Errors
/// [`ErrorKind::Usage`] for BOS or EOS, since the configuration is at fault; [`ErrorKind::Failed`] for the limit.
fn check(vocabulary: &Vocabulary, limit: usize, config: &EncodeConfig) -> Result<()> {
    for (role, token) in [("BOS", config.bos), ("EOS", config.eos)] {
        if let Some(id) = token.filter(|&id| vocabulary.bytes(id).is_none()) {
            return Err(Error::usage(format!("the vocabulary has no token {id} to use as {role}"))
                .with_help("name a token of this vocabulary, or leave it out"));
        }
    }
    if limit > merge::LIMIT {
        let max = merge::LIMIT;
        return Err(Error::failed(format!(
            "the vocabulary has ids up to {limit}; encoding supports ids below {max}"
        )));
    }
    Ok(())
}

/// How a pre-token is encoded. Both ways give the same ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "method", rename_all = "kebab-case")]
pub enum Method {
    /// By the longest token that is compatible with the one before it. This is fast, and exact for vocabularies
    /// that pass the [checks](Checks) which trained vocabularies pass.
    Backtracking,
    /// By carrying out merges with a heap. This is right for any vocabulary.
    Merges {
        /// Why backtracking is not used.
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
            None => Method::Backtracking,
        }
    }
}

/// For vocabularies with ids of 2²⁴ or more, with about a million tokens, or constructed to be hard.
pub(super) const TOO_MUCH: Method = Method::Merges { because: "backtracking takes too much time or memory" };

/// The text so far does not repay the time to build the backtracking tables.
pub(super) const LITTLE_TEXT: Method = Method::Merges { because: "there has been little text so far" };

/// The backtracking tables are built on threads of their own, and the system gave none.
pub(super) const NO_THREADS: Method =
    Method::Merges { because: "the threads that prepare backtracking cannot be started" };

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Method::Backtracking => f.write_str("backtracking"),
            Method::Merges { because } => write!(f, "merges: {because}"),
        }
    }
}

/// Tokens, those of the lowest ids, that are inserted into a cache when it reaches its full size.
const SEEDS: usize = 1 << 16;

/// The backtracking tables, or the reason why a vocabulary does not use them.
#[derive(Debug)]
pub(super) struct Backtracking {
    /// [`Method::Backtracking`] exactly if there are tables, else the reason why there are none.
    pub(super) method: Method,
    /// The tables, if the vocabulary allows backtracking.
    pub(super) tables: Option<BacktrackTables>,
    /// Tokens that a cache is filled with in advance. Empty if texts are not split, or if the vocabulary
    /// does not allow backtracking.
    pub(super) seeds: Box<[Seed]>,
}

impl Backtracking {
    /// Builds the tables for pre-tokens, or for whole texts, on `threads` threads of its own. The threads that
    /// encode may wait for the result, so they cannot do this work. If the system gives no threads, texts are
    /// merged from then on.
    pub(super) fn new(vocabulary: &Vocabulary, whole_texts: bool, threads: usize) -> Backtracking {
        let made = pools::in_isolated_pool(threads, || Backtracking::made(vocabulary, whole_texts));
        made.unwrap_or_else(|_| Backtracking::none(NO_THREADS))
    }

    /// Checks the vocabulary and builds its tables on the current rayon pool. `whole_texts` says that texts are not
    /// split.
    fn made(vocabulary: &Vocabulary, whole_texts: bool) -> Backtracking {
        let method = Method::of(&vocab::check(vocabulary));
        if method != Method::Backtracking {
            return Backtracking::none(method);
        }
        let Some(tables) = BacktrackTables::new(vocabulary, whole_texts) else {
            return Backtracking::none(TOO_MUCH);
        };
        // Backtracking requires that each token's bytes encode to that token, so every token can be a seed.
        let tokens = (!whole_texts).then(|| vocabulary.ordinary()).into_iter().flatten();
        let seeds = tokens.filter_map(|(id, bytes)| Seed::new(id, bytes)).take(SEEDS).collect();
        Backtracking { method, tables: Some(tables), seeds }
    }

    /// No tables and no seeds. Pre-tokens are then merged for good, as `method` says.
    fn none(method: Method) -> Backtracking {
        Backtracking { method, tables: None, seeds: Box::default() }
    }
}

/// Finds a token by its bytes. If several tokens have the same bytes, the one with the lowest id is found.
///
/// **Memory:** 11 to 21 bytes per token.
#[derive(Debug)]
pub(super) struct IdByBytes {
    /// The hash of a token's bytes leads to the id plus 1.
    index: HashIndex,
    /// Has other seeds in each process, so that nobody can make a vocabulary of tokens that all collide.
    hashing: SeededHash,
}

impl IdByBytes {
    /// Indexes the vocabulary's ordinary tokens: all but the added ones.
    pub(super) fn new(vocabulary: &Vocabulary) -> IdByBytes {
        let mut tokens = IdByBytes { index: HashIndex::default(), hashing: SeededHash::of_process() };
        for (id, bytes) in vocabulary.ordinary() {
            if tokens.find(vocabulary, bytes).is_none() {
                let added = tokens.index.insert(tokens.hashing.bytes(bytes), id.index() + 1);
                added.expect("ids are below 2³¹");
            }
        }
        tokens
    }

    /// The token with exactly these bytes. `vocabulary` must be the one that was passed to [`new`](IdByBytes::new).
    pub(super) fn find(&self, vocabulary: &Vocabulary, bytes: &[u8]) -> Option<TokenId> {
        let token = |number: usize| TokenId::from_index(number - 1);
        let same = |number| vocabulary.bytes(token(number)) == Some(bytes);
        self.index.find(self.hashing.bytes(bytes), same).map(token)
    }
}
