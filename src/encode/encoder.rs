use std::fmt;

use super::cache::Seed;
use super::config::EncodeConfig;
use super::fault::Fault;
use super::ids::TokenIds;
use super::long;
use super::longest_match::Matches;
use super::method::{Method, TOO_MUCH};
use super::pairs::Pairs;
use super::prepare::Preparation;
use super::worker::Worker;
use crate::error::{Error, ErrorKind, Result};
use crate::hashing::Map;
use crate::observer::{Observer, Silent};
use crate::split::{self, SplitPattern, Splitter};
use crate::units::{ByteCount, TokenId, place64};
use crate::vocab::{self, Vocabulary};

/// What encoding with one vocabulary needs, made once and shared by all threads.
///
/// **Memory:** 1 MB, and up to 64 bytes a merge and about 320 a token; with
/// [`ignore_merges`](Vocabulary::ignore_merges), unless pieces are encoded by longest matches, besides the bytes of all
/// tokens and 40 more for each. Where much text is not split, what two workers each have learned of it, up to 140 MiB, is
/// kept for later ones.
pub struct Encoder {
    pub(super) pairs: Pairs,
    pub(super) byte_ids: [TokenId; 256],
    /// `None` where a document is one piece.
    pub(super) splitter: Option<Box<dyn Splitter>>,
    method: Method,
    /// For pieces, if they are encoded by longest matches.
    pub(super) matches: Option<Matches>,
    /// Pieces that are tokens, if there are pieces and the vocabulary allows longest matches.
    pub(super) seeds: Box<[Seed]>,
    /// Tokens by their bytes, if a piece that is a token stays whole though merges may not make it.
    pub(super) whole: Option<Map<Box<[u8]>, TokenId>>,
    /// What happens to a text first, if anything.
    pub(super) preparation: Option<Preparation>,
    pub(super) config: EncodeConfig,
    /// All ids are below this.
    id_limit: usize,
    /// Bytes of text that each worker will encode, as far as that is known.
    pub(super) expected: usize,
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder")
            .field("config", &self.config)
            .field("method", &self.method)
            .field("id_limit", &self.id_limit)
            .finish_non_exhaustive()
    }
}

/// So many tokens, those of the lowest ids, are in a large cache from the start on.
const SEEDS: usize = 1 << 16;

/// Text has about so many bytes a token, or more: room for the tokens is made beforehand.
const BYTES_A_TOKEN: usize = 3;

impl Encoder {
    /// Prepares a vocabulary for encoding.
    ///
    /// # Errors
    /// BOS or EOS is no token of the vocabulary, its pattern is not a regular expression, or it has
    /// ids of 2³¹ or more.
    pub fn new(vocabulary: &Vocabulary, config: EncodeConfig) -> Result<Encoder> {
        let splitter = match vocabulary.split() {
            SplitPattern::None => None,
            pattern => Some(split::splitter(pattern)?),
        };
        Encoder::with_splitter(vocabulary, config, splitter)
    }

    pub(super) fn with_splitter(
        vocabulary: &Vocabulary,
        config: EncodeConfig,
        splitter: Option<Box<dyn Splitter>>,
    ) -> Result<Encoder> {
        check(vocabulary, &config)?;
        let mut method = Method::of(&vocab::check(vocabulary));
        let mut matches = None;
        if method == Method::LongestMatches {
            matches = Matches::new(vocabulary, splitter.is_none());
            method = matches.as_ref().map_or(TOO_MUCH, |_| method);
        }
        let whole = vocabulary.ignore_merges() && matches.is_none();
        // With longest matches each token is what its bytes encode to.
        let seeded = matches.is_some() && splitter.is_some();
        let tokens = seeded.then(|| vocabulary.ordinary()).into_iter().flatten();
        let seeds = tokens.filter_map(|(id, bytes)| Seed::new(id, bytes)).take(SEEDS).collect();
        Ok(Encoder {
            pairs: Pairs::new(vocabulary),
            byte_ids: *vocabulary.byte_ids(),
            splitter,
            method,
            matches,
            seeds,
            whole: whole.then(|| tokens_by_bytes(vocabulary)),
            preparation: Preparation::new(vocabulary, config.special)?,
            config,
            id_limit: vocabulary.id_limit(),
            expected: 0,
        })
    }

    /// Says how much text is to be encoded, where that is known beforehand, by as many threads as the current rayon
    /// pool has. What pays only with much text is then begun at once. The ids are the same.
    #[must_use]
    pub fn expecting(self, text_bytes: ByteCount) -> Encoder {
        Encoder { expected: place64(text_bytes.0) / rayon::current_num_threads(), ..self }
    }

    /// Room for the ids of so many bytes of text, as a rule.
    pub(super) fn room(&self, text_bytes: usize) -> TokenIds {
        TokenIds::with_capacity(text_bytes / BYTES_A_TOKEN, self.id_limit)
    }

    /// Makes a worker. Cheap enough for one a thread, too dear for one a document.
    pub fn worker(&self) -> Worker<'_> {
        Worker::new(self, &Silent)
    }

    /// Makes a worker that asks, in the midst of long documents too, whether to stop.
    pub fn observed_worker<'a>(&'a self, observer: &'a dyn Observer) -> Worker<'a> {
        Worker::new(self, observer)
    }

    /// How pieces are encoded, and texts that are not split.
    pub fn method(&self) -> Method {
        self.method
    }

    /// How documents become token ids.
    pub fn config(&self) -> EncodeConfig {
        self.config
    }
}

fn check(vocabulary: &Vocabulary, config: &EncodeConfig) -> Result<()> {
    for (role, token) in [("BOS", config.bos), ("EOS", config.eos)] {
        if let Some(id) = token.filter(|&id| vocabulary.bytes(id).is_none()) {
            return Err(Error::new(ErrorKind::Usage, Fault::NoSuchToken { role, id })
                .with_help("name a token of this vocabulary, or leave it out"));
        }
    }
    let limit = vocabulary.id_limit();
    if limit > long::LIMIT {
        return Err(Error::new(ErrorKind::Failed, Fault::TooManyIds { limit, most: long::LIMIT }));
    }
    Ok(())
}

/// Tokens that text is merged into, by their bytes; of equal ones the lowest id.
fn tokens_by_bytes(vocabulary: &Vocabulary) -> Map<Box<[u8]>, TokenId> {
    let mut whole = Map::default();
    for (id, bytes) in vocabulary.ordinary() {
        whole.entry(bytes.into()).or_insert(id);
    }
    whole
}
