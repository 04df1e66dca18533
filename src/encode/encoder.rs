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
use crate::error::{Error, ErrorKind, Result};
use crate::observer::{Observer, Silent};
use crate::split::{self, SplitPattern, Splitter};
use crate::units::{ByteCount, TokenId, place, place64};
use crate::vocab::Vocabulary;

/// Making ready for longest matches takes about as long as they save in so many bytes of new text for each token of the
/// vocabulary.
const WORTH: usize = 16;

/// Of text that is split about one byte in so many is new, or fewer: the rest is in pieces met before.
const NEW: usize = 8;

/// What encoding with one vocabulary needs, shared by all threads.
///
/// It is made in two steps. Merging, which is right for every vocabulary, is made ready at once. What longest matches
/// need, which encode new text several times faster and take up to a second to make ready for hundreds of thousands of
/// tokens, follows when a thread has met so much new text that it pays, or at once where that much
/// [is expected](Encoder::expecting). The ids are the same.
///
/// **Memory:** the vocabulary, and a second one where bytes have no token; 1 MB, and up to 64 bytes a merge; for longest matches about 320 a token; with
/// [`ignore_merges`](Vocabulary::ignore_merges) up to 21 a token. Where much text is not split, what two workers each
/// have learned of it, up to 160 MiB, is kept for later ones.
pub struct Encoder {
    vocabulary: Arc<Vocabulary>,
    /// The same with a token for every byte: text without missing bytes is encoded by it.
    completed: Arc<Vocabulary>,
    pub(super) missing: Option<Missing>,
    pub(super) pairs: Pairs,
    pub(super) byte_ids: [TokenId; 256],
    /// `None` where a document is one piece.
    pub(super) splitter: Option<Box<dyn Splitter>>,
    /// Made once it pays.
    shortcut: Arc<OnceLock<Shortcut>>,
    /// So many bytes of new text that one thread has are worth making it.
    worth: usize,
    /// It is made by so many: threads that encode may be in no pool that would tell.
    pub(super) threads: usize,
    /// If a piece that is a token stays whole though merges may not make it.
    whole: Option<ByBytes>,
    /// What happens to a text first, if anything.
    pub(super) preparation: Option<Preparation>,
    pub(super) config: EncodeConfig,
    /// All ids are below this.
    id_limit: usize,
    /// Bytes of text that each worker will encode, as far as that is known.
    pub(super) expected: usize,
    pub(super) room_for: Room,
}

/// What there is memory for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// The most bytes of a piece, where text is split.
    longest_piece: usize,
    /// The most tokens of a document.
    most_tokens: usize,
}

impl Room {
    const ENDLESS: Room = Room { longest_piece: usize::MAX, most_tokens: usize::MAX };

    /// Checks the pieces of a text of so many bytes, which end at these places.
    #[inline]
    pub(super) fn check_pieces(&self, bytes: usize, ends: &[u32]) -> Result<()> {
        if bytes <= self.longest_piece { Ok(()) } else { self.check_each(ends) }
    }

    #[cold]
    fn check_each(&self, ends: &[u32]) -> Result<()> {
        let starts = std::iter::once(&0).chain(ends);
        let longest = place(starts.zip(ends).map(|(start, end)| end - start).max().unwrap_or(0));
        if longest <= self.longest_piece {
            return Ok(());
        }
        Err(without_room(Fault::LongPiece { bytes: longest, most: self.longest_piece }))
    }

    /// Checks how many tokens a document has so far.
    pub(super) fn check_tokens(&self, tokens: usize) -> Result<()> {
        let most = self.most_tokens;
        if tokens <= most { Ok(()) } else { Err(without_room(Fault::ManyTokens { most })) }
    }
}

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
    /// BOS or EOS is no token of the vocabulary, its pattern is not a regular expression, it has
    /// ids of 2³¹ or more, or bytes without a token cannot be dealt with as the configuration says.
    pub fn new(vocabulary: impl Into<Arc<Vocabulary>>, config: EncodeConfig) -> Result<Encoder> {
        let vocabulary = vocabulary.into();
        let splitter = match vocabulary.split() {
            SplitPattern::None => None,
            pattern => Some(split::splitter(pattern)?),
        };
        Encoder::with_splitter(vocabulary, config, splitter)
    }

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

    /// Says how much text is to be encoded, where that is known beforehand, by as many threads as the current rayon
    /// pool has. What pays only with much text is then begun at once. The ids are the same.
    #[must_use]
    pub fn expecting(self, text_bytes: ByteCount) -> Encoder {
        let expected = place64(text_bytes.0) / rayon::current_num_threads();
        let new = if self.splitter.is_some() { expected / NEW } else { expected };
        self.matches_for(new);
        Encoder { expected, ..self }
    }

    /// Limits the memory that one document takes. A piece of a split that would take more while it is encoded and written,
    /// at 17 bytes of memory for each of its own, is an error of [`ErrorKind::Memory`]; so is a document whose ids take more
    /// than an eleventh of it, at 4 bytes each, since several documents are on their way at once. Pieces of 1 MiB and documents of 2 million tokens always fit. The ids are the
    /// same.
    #[must_use]
    pub fn within(self, memory: ByteCount) -> Encoder {
        const LONGEST_PIECE: u64 = 1 << 20;
        const MOST_TOKENS: u64 = 2 << 20;
        let longest_piece = place64((memory.0 / 17).max(LONGEST_PIECE));
        let most_tokens = place64((memory.0 / (11 * 4)).max(MOST_TOKENS));
        Encoder { room_for: Room { longest_piece, most_tokens }, ..self }
    }

    /// Makes at once what encoding by longest matches needs, if the vocabulary allows that. The ids are the same.
    #[must_use]
    pub fn prepared(self) -> Encoder {
        self.prepare();
        self
    }

    pub(super) fn prepare(&self) {
        self.matches_for(usize::MAX);
    }

    /// Shares with another encoder of the same vocabulary what encoding by longest matches needs, whichever makes it.
    pub(super) fn sharing(self, other: &Encoder) -> Encoder {
        Encoder { shortcut: Arc::clone(&other.shortcut), ..self }
    }

    /// The same with another amount of text that is worth preparing for.
    #[cfg(test)]
    pub(super) fn worth(self, bytes: usize) -> Encoder {
        Encoder { worth: bytes, ..self }
    }

    /// What encoding by longest matches needs, once it has been made.
    #[inline]
    pub(super) fn matches(&self) -> Option<&Matches> {
        self.shortcut.get()?.matches.as_ref()
    }

    /// The same, made now if it pays for so many bytes of new text on one thread.
    #[inline]
    pub(super) fn matches_for(&self, bytes: usize) -> Option<&Matches> {
        if bytes < self.worth {
            return self.matches();
        }
        let make = || Shortcut::new(&self.completed, self.splitter.is_none(), self.threads);
        self.shortcut.get_or_init(make).matches.as_ref()
    }

    /// Pieces that are known to be tokens.
    pub(super) fn seeds(&self) -> &[Seed] {
        self.shortcut.get().map_or(&[], |shortcut| &shortcut.seeds)
    }

    /// The token that a piece is though merges may not make it.
    pub(super) fn whole(&self, piece: &[u8]) -> Option<TokenId> {
        self.whole.as_ref()?.find(&self.vocabulary, piece)
    }

    /// Room for so many ids.
    pub(super) fn room(&self, ids: usize) -> TokenIds {
        TokenIds::with_capacity(ids, self.id_limit)
    }

    /// Makes a worker. Cheap enough for one a thread, too dear for one a document.
    pub fn worker(&self) -> Worker<'_> {
        Worker::new(self, &Silent)
    }

    /// Makes a worker that asks, in the midst of long documents too, whether to stop.
    pub fn observed_worker<'a>(&'a self, observer: &'a dyn Observer) -> Worker<'a> {
        Worker::new(self, observer)
    }

    /// What it encodes with.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// How pieces are encoded, and texts that are not split: by merges as long as there has been little text, unless
    /// it is [prepared](Encoder::prepared).
    pub fn method(&self) -> Method {
        self.shortcut.get().map_or(LITTLE_TEXT, |shortcut| shortcut.method)
    }

    /// How documents become token ids.
    pub fn config(&self) -> EncodeConfig {
        self.config
    }
}

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
