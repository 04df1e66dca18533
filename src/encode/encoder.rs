use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::by_bytes::ByBytes;
use super::cache::Seed;
use super::config::EncodeConfig;
use super::fault::Fault;
use super::ids::TokenIds;
use super::long;
use super::longest_match::Matches;
use super::method::{LITTLE_TEXT, Method};
use super::missing::Missing;
use super::pairs::Pairs;
use super::prepare::Preparation;
use super::shortcut::Shortcut;
use super::worker::Worker;
use crate::base::int::{ByteCount, TokenId, to_usize, u64_to_usize};
use crate::error::{Error, ErrorKind, Result};
use crate::observer::{Observer, Silent};
use crate::split::{self, SplitPattern, Splitter};
use crate::vocab::Vocabulary;

/// Bytes of new text per token of the vocabulary from which preparing longest matches pays: preparation takes
/// about as long as longest matches save on that much text.
const WORTH: usize = 16;

/// Of split text, at most about one byte in this many is new; the others belong to pre-tokens that the cache
/// knows.
const NEW: usize = 8;

/// An encoder for one vocabulary, shared by all threads. Each thread encodes with a [`Worker`] of it.
///
/// The encoder is built in two steps. The tables for merging, which works for every vocabulary, are built at
/// once. The tables for longest matches, which encode new text several times faster, take up to a second for
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
/// merge; about 320 bytes per token for longest matches; with [`ignore_merges`](Vocabulary::ignore_merges), up to
/// 21 bytes per token. If much text is not split, up to 160 MiB of learned state for every two workers, which
/// later workers reuse.
pub struct Encoder {
    vocabulary: Arc<Vocabulary>,
    /// The vocabulary with a token for every byte. It encodes text that has no missing bytes.
    completed: Arc<Vocabulary>,
    pub(super) missing: Option<Missing>,
    pub(super) pairs: Pairs,
    pub(super) byte_ids: [TokenId; 256],
    /// `None` if a whole document is one pre-token.
    pub(super) splitter: Option<Box<dyn Splitter>>,
    /// The tables for longest matches, built once they pay.
    shortcut: Arc<OnceLock<Shortcut>>,
    /// Bytes of new text on one thread from which building `shortcut` pays.
    worth: usize,
    /// Threads that build `shortcut`. Fixed when the encoder is created, because a thread that encodes need not
    /// belong to a rayon pool that could tell the number.
    pub(super) threads: usize,
    /// With [`ignore_merges`](Vocabulary::ignore_merges): finds pre-tokens that are tokens as a whole, whether or
    /// not merges produce them.
    whole: Option<ByBytes>,
    /// What to do with a text before it is split: find added tokens, normalize. `None` for nothing.
    pub(super) preparation: Option<Preparation>,
    pub(super) config: EncodeConfig,
    /// All ids are below this.
    id_limit: usize,
    /// Bytes of text that each worker is expected to encode; 0 if unknown.
    pub(super) expected: usize,
    pub(super) room_for: Room,
}

/// Limits that the memory limit implies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Most bytes of a pre-token, where text is split.
    longest_pretoken: usize,
    /// Most tokens of a document.
    most_tokens: usize,
}

impl Room {
    const ENDLESS: Room = Room { longest_pretoken: usize::MAX, most_tokens: usize::MAX };

    /// Checks the pre-tokens of a text of `bytes` bytes, which end at `ends`.
    ///
    /// # Errors
    /// One of them is longer than the limit.
    #[inline]
    pub(super) fn check_pretokens(&self, bytes: usize, ends: &[u32]) -> Result<()> {
        if bytes <= self.longest_pretoken { Ok(()) } else { self.check_each(ends) }
    }

    /// Checks the length of each pre-token.
    #[cold]
    fn check_each(&self, ends: &[u32]) -> Result<()> {
        let starts = std::iter::once(&0).chain(ends);
        let longest = to_usize(starts.zip(ends).map(|(start, end)| end - start).max().unwrap_or(0));
        if longest <= self.longest_pretoken {
            return Ok(());
        }
        Err(without_room(Fault::LongPretoken { bytes: longest, most: self.longest_pretoken }))
    }

    /// Checks the number of tokens that a document has so far.
    ///
    /// # Errors
    /// It is above the limit.
    pub(super) fn check_tokens(&self, tokens: usize) -> Result<()> {
        let most = self.most_tokens;
        if tokens <= most { Ok(()) } else { Err(without_room(Fault::ManyTokens { most })) }
    }
}

/// An error with the advice for documents that need more memory than allowed.
fn without_room(fault: Fault) -> Error {
    Error::new(ErrorKind::Memory, fault).with_help(
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
    pub(super) fn with_splitter(
        vocabulary: Arc<Vocabulary>,
        config: EncodeConfig,
        splitter: Option<Box<dyn Splitter>>,
    ) -> Result<Encoder> {
        let completed = match vocabulary.completed() {
            Cow::Borrowed(_) => Arc::clone(&vocabulary),
            Cow::Owned(completed) => Arc::new(completed),
        };
        check(&vocabulary, completed.id_limit(), &config)?;
        Ok(Encoder {
            missing: Missing::new(&vocabulary, config.missing_bytes)?,
            pairs: Pairs::new(&completed),
            byte_ids: *completed.byte_ids(),
            splitter,
            shortcut: Arc::default(),
            worth: WORTH * vocabulary.id_limit(),
            threads: rayon::current_num_threads(),
            whole: vocabulary.ignore_merges().then(|| ByBytes::new(&vocabulary)),
            preparation: Preparation::new(&vocabulary, config.special)?,
            config,
            id_limit: vocabulary.id_limit(),
            expected: 0,
            completed,
            room_for: Room::ENDLESS,
            vocabulary,
        })
    }

    /// Announces how much text will be encoded, if that is known, by as many threads as the current rayon pool
    /// has. Work that pays only for much text is then done now. The ids do not change.
    #[must_use]
    pub fn expecting(self, text_bytes: ByteCount) -> Encoder {
        let expected = u64_to_usize(text_bytes.0) / rayon::current_num_threads();
        let new = if self.splitter.is_some() { expected / NEW } else { expected };
        self.matches_for(new);
        Encoder { expected, ..self }
    }

    /// Limits the memory that one document takes. The ids do not change.
    ///
    /// An error of [`ErrorKind::Memory`] is then returned for a pre-token that would exceed `memory` while it is
    /// encoded and written, at 17 bytes of memory per byte of text, and for a document with ids that would take
    /// more than an eleventh of `memory`, at 4 bytes each, since several documents are in progress at a time.
    /// Pre-tokens of 1 MiB and documents of 2 million tokens are always accepted. The first limit does not apply
    /// to vocabularies without a split.
    #[must_use]
    pub fn within(self, memory: ByteCount) -> Encoder {
        const LONGEST_PIECE: u64 = 1 << 20;
        const MOST_TOKENS: u64 = 2 << 20;
        let longest_pretoken = u64_to_usize((memory.0 / 17).max(LONGEST_PIECE));
        let most_tokens = u64_to_usize((memory.0 / (11 * 4)).max(MOST_TOKENS));
        Encoder { room_for: Room { longest_pretoken, most_tokens }, ..self }
    }

    /// Builds the tables for longest matches now, if the vocabulary allows them. The ids do not change.
    #[must_use]
    pub fn prepared(self) -> Encoder {
        self.prepare();
        self
    }

    /// See [`prepared`](Encoder::prepared).
    pub(super) fn prepare(&self) {
        self.matches_for(usize::MAX);
    }

    /// Shares the tables for longest matches with another encoder of the same vocabulary, whichever of the two
    /// builds them.
    pub(super) fn sharing(self, other: &Encoder) -> Encoder {
        Encoder { shortcut: Arc::clone(&other.shortcut), ..self }
    }

    /// Replaces the amount of text from which preparation pays.
    #[cfg(test)]
    pub(super) fn worth(self, bytes: usize) -> Encoder {
        Encoder { worth: bytes, ..self }
    }

    /// The tables for longest matches, if they have been built and the vocabulary allows them.
    #[inline]
    pub(super) fn matches(&self) -> Option<&Matches> {
        self.shortcut.get()?.matches.as_ref()
    }

    /// The tables for longest matches; builds them now if that pays for `bytes` of new text on one thread.
    #[inline]
    pub(super) fn matches_for(&self, bytes: usize) -> Option<&Matches> {
        if bytes < self.worth {
            return self.matches();
        }
        let make = || Shortcut::new(&self.completed, self.splitter.is_none(), self.threads);
        self.shortcut.get_or_init(make).matches.as_ref()
    }

    /// Pre-tokens that are known to be single tokens.
    pub(super) fn seeds(&self) -> &[Seed] {
        self.shortcut.get().map_or(&[], |shortcut| &shortcut.seeds)
    }

    /// The token that a pre-token is as a whole, with [`ignore_merges`](Vocabulary::ignore_merges), even if
    /// merges do not produce it.
    pub(super) fn whole(&self, pretoken: &[u8]) -> Option<TokenId> {
        self.whole.as_ref()?.find(&self.vocabulary, pretoken)
    }

    /// An empty [`TokenIds`] with capacity for `ids` ids.
    pub(super) fn room(&self, ids: usize) -> TokenIds {
        TokenIds::with_capacity(ids, self.id_limit)
    }

    /// Creates a worker. It is cheap enough to create one per thread, but not one per document.
    pub fn worker(&self) -> Worker<'_> {
        Worker::new(self, &Silent)
    }

    /// Creates a worker that also asks the observer, even within a long document, whether to stop.
    pub fn observed_worker<'a>(&'a self, observer: &'a dyn Observer) -> Worker<'a> {
        Worker::new(self, observer)
    }

    /// The vocabulary that it encodes with.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// How pre-tokens, and texts that are not split, are encoded at present: by merges until there has been
    /// enough text, unless the encoder is [prepared](Encoder::prepared).
    pub fn method(&self) -> Method {
        self.shortcut.get().map_or(LITTLE_TEXT, |shortcut| shortcut.method)
    }

    /// The configuration that it was created with.
    pub fn config(&self) -> EncodeConfig {
        self.config
    }
}

/// Checks that BOS and EOS are tokens, and that `limit`, above all ids, fits the merge tables.
fn check(vocabulary: &Vocabulary, limit: usize, config: &EncodeConfig) -> Result<()> {
    for (role, token) in [("BOS", config.bos), ("EOS", config.eos)] {
        if let Some(id) = token.filter(|&id| vocabulary.bytes(id).is_none()) {
            return Err(Error::new(ErrorKind::Usage, Fault::NoSuchToken { role, id })
                .with_help("name a token of this vocabulary, or leave it out"));
        }
    }
    if limit > long::LIMIT {
        return Err(Error::new(ErrorKind::Failed, Fault::TooManyIds { limit, most: long::LIMIT }));
    }
    Ok(())
}
