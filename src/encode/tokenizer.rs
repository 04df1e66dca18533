//! A tokenizer for texts in memory, and decoding of ids as they arrive.

use std::fmt;
use std::ops::Range;
use std::path::Path;
#[cfg(feature = "data")]
use std::path::PathBuf;
use std::str::from_utf8;
use std::string::FromUtf8Error;
use std::sync::{Arc, Mutex, OnceLock};

use super::dropout::Dropout;
use super::encoder::{EncodeConfig, Encoder};
use super::preprocess::SpecialPolicy;
use super::worker::{Worker, WorkerMemory};
use crate::base::int::TokenId;
use crate::base::pools::lock;
use crate::error::{Error, Result};
use crate::observer::{Observer, Silent};
#[cfg(feature = "data")]
use crate::vocab::Format;
use crate::vocab::{self, LoadOptions, Vocabulary, WriteOptions};

/// Bytes of text for each id that memory is first reserved for when ids are decoded.
const BYTES_PER_TOKEN: usize = 4;

/// Encodes texts to token ids and decodes ids to text: a vocabulary with everything that encoding needs.
///
/// Any number of threads can use one tokenizer at the same time. Cloning it only copies a reference. Texts are
/// arbitrary bytes, UTF-8 or not.
///
/// Ids are `u32` here, the type in which models, tensors and files of ids hold them: lists of ids pass in and out
/// without being converted. Behind this type, in [`EncodeConfig`], [`Vocabulary`] and [`Encoder`], an id is a
/// [`TokenId`], so that the compiler tells ids from ranks, counts and positions. [`TokenId::new`] and
/// [`TokenId::get`] convert one into the other.
///
/// ```
/// use tokenmill::Tokenizer;
/// # use tokenmill::{count::PretokenCounts, Count, observer::Silent, split::SplitPattern};
/// # use tokenmill::{train::{TrainConfig, learn_merges}, vocab::{Format, SpecialTokensAt, Vocabulary, write}};
///
/// # fn main() -> tokenmill::Result<()> {
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let folder = folder.path();
/// # let text: &[u8] = "how much wood would a woodchuck chuck? é".as_bytes();
/// # let sequences: PretokenCounts = [(text, Count::ONE)].into_iter().collect();
/// # let learned = learn_merges(sequences, &TrainConfig::new(20), &Silent)?;
/// # let specials = ["<|endoftext|>".to_owned()];
/// # let made = Vocabulary::from_merges(&learned.merges, &specials, SpecialTokensAt::End, SplitPattern::None)?;
/// # write(&made, Format::Hf, folder, &Default::default())?;
/// let file = folder.join("tokenizer.json");
/// let tokenizer = Tokenizer::from_file(&file)?; // or `from_json(include_bytes!(…))`
/// let ids = tokenizer.encode("would a woodchuck chuck?")?;
/// assert_eq!(tokenizer.decode(&ids)?, b"would a woodchuck chuck?");
/// assert_eq!(tokenizer.count("would a woodchuck chuck?")?, ids.len());
///
/// let batch = tokenizer.encode_batch(&["how much wood", "would"])?;
/// assert_eq!(batch[1], tokenizer.encode("would")?);
/// # let json = std::fs::read(file).expect("the file");
/// # assert_eq!(Tokenizer::from_json(json)?.encode("would")?, batch[1]);
/// # Ok(())
/// # }
/// ```
///
/// **Memory:** that of a [`Vocabulary`] and an [`Encoder`]. In addition, one [`Worker`] for each of the most
/// calls that ever ran at the same time; workers' memory is kept for later calls.
#[derive(Clone)]
pub struct Tokenizer(Arc<TokenizerInner>);

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer").field("encoder", &self.0.encoder).finish_non_exhaustive()
    }
}

/// What all clones of a tokenizer share.
struct TokenizerInner {
    /// The encoder that all calls share. A call may build its backtracking tables.
    encoder: Encoder,
    /// Memory of workers that no call is using.
    unused: Mutex<Vec<Box<WorkerMemory>>>,
    /// What the files of the tokenizer say apart from the vocabulary. An example is the token that ends a document.
    settings: Arc<WriteOptions>,
    /// The ids in the order of their tokens' bytes, then by number. Built by the first look-up.
    by_bytes: Arc<OnceLock<Vec<TokenId>>>,
}

impl TokenizerInner {
    /// What a new tokenizer shares, before anything was encoded.
    fn new(encoder: Encoder, settings: WriteOptions) -> TokenizerInner {
        TokenizerInner {
            encoder,
            unused: Mutex::default(),
            settings: Arc::new(settings),
            by_bytes: Arc::default(),
        }
    }
}

impl Tokenizer {
    /// Reads a tokenizer from a file or folder in any format that [`vocab::load`] knows: `tokenizer.json`;
    /// tiktoken ranks (OpenAI's files are recognized by name, others have a sidecar file, the name with `.json`
    /// appended); a minbpe `.model`; or GPT-2's `vocab.json` and `merges.txt`.
    ///
    /// Special tokens are treated as text, and no tokens are added around texts, whatever the program that the
    /// file comes from does. If a file does not say everything, for example the pattern of ranks that are not
    /// OpenAI's, use [`vocab::load`] with [`LoadOptions`], and then [`new`](Tokenizer::new).
    ///
    /// The settings for `transformers` beside the file, such as [`eos_token`](Tokenizer::eos), are kept: `save` writes
    /// them again.
    ///
    /// # Errors
    /// Those of [`vocab::load`], [`vocab::read_transformers_settings`] and [`Encoder::new`].
    pub fn from_file(path: impl AsRef<Path>) -> Result<Tokenizer> {
        let path = path.as_ref();
        let vocabulary = vocab::load(path, &LoadOptions::default(), &Silent)?;
        let settings = vocab::read_transformers_settings(path, &vocabulary, &Silent)?;
        let encoder = Encoder::new(vocabulary, EncodeConfig::default())?;
        Ok(Tokenizer(Arc::new(TokenizerInner::new(encoder, settings))))
    }

    /// Reads a tokenizer from the content of a `tokenizer.json`, for example one that is embedded in the program.
    ///
    /// # Errors
    /// Those of [`vocab::from_json`] and [`Encoder::new`].
    pub fn from_json(json: impl AsRef<[u8]>) -> Result<Tokenizer> {
        Tokenizer::new(vocab::from_json(json.as_ref(), &Silent)?, EncodeConfig::default())
    }

    /// Creates a tokenizer from a vocabulary: one just trained, or one loaded with options.
    ///
    /// # Errors
    /// Those of [`Encoder::new`].
    pub fn new(vocabulary: impl Into<Arc<Vocabulary>>, config: EncodeConfig) -> Result<Tokenizer> {
        let encoder = Encoder::new(vocabulary, config)?;
        Ok(Tokenizer(Arc::new(TokenizerInner::new(encoder, WriteOptions::default()))))
    }

    /// Builds the backtracking tables now, so that no later call has to wait for them: see [`Encoder`].
    #[must_use]
    pub fn prepared(self) -> Tokenizer {
        self.0.encoder.prepare();
        self
    }

    /// A tokenizer with the same vocabulary and another policy for the text of special tokens.
    ///
    /// ```
    /// use tokenmill::Tokenizer;
    /// use tokenmill::encode::{EncodeConfig, SpecialPolicy};
    /// # use tokenmill::{split::SplitPattern, train::Merges, vocab::{SpecialTokensAt, Vocabulary}};
    ///
    /// # fn main() -> tokenmill::Result<()> {
    /// # let (merges, specials) = (Merges::default(), ["<end>".to_owned()]);
    /// # let vocabulary = Vocabulary::from_merges(&merges, &specials, SpecialTokensAt::End, SplitPattern::None)?;
    /// let tokenizer = Tokenizer::new(vocabulary, EncodeConfig::default())?;
    /// let end = tokenizer.special_token("<end>").expect("the vocabulary has it");
    /// assert_eq!(tokenizer.count("<end>")?, 5);
    /// assert_eq!(tokenizer.with_special(SpecialPolicy::Allow)?.encode("<end>")?, [end]);
    /// assert!(tokenizer.with_special(SpecialPolicy::Forbid)?.encode("<end>").is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Encoder::new`].
    pub fn with_special(&self, policy: SpecialPolicy) -> Result<Tokenizer> {
        self.with_config(EncodeConfig { special: policy, ..self.0.encoder.config() })
    }

    /// A tokenizer with the same vocabulary and another configuration, for example one that adds an EOS token
    /// with an id that is known only after loading.
    ///
    /// This rebuilds the merge tables, which takes milliseconds, so keep the result instead of calling this for
    /// every text. The backtracking tables are shared.
    ///
    /// ```
    /// use tokenmill::encode::EncodeConfig;
    /// use tokenmill::{TokenId, Tokenizer};
    /// # use tokenmill::{split::SplitPattern, train::Merges, vocab::{SpecialTokensAt, Vocabulary}};
    ///
    /// # fn main() -> tokenmill::Result<()> {
    /// # let (merges, specials) = (Merges::default(), ["<end>".to_owned()]);
    /// # let vocabulary = Vocabulary::from_merges(&merges, &specials, SpecialTokensAt::End, SplitPattern::None)?;
    /// let tokenizer = Tokenizer::new(vocabulary, EncodeConfig::default())?;
    /// let end = tokenizer.special_token("<end>").expect("the vocabulary has it");
    /// let config = EncodeConfig { eos: Some(TokenId::new(end)), ..EncodeConfig::default() };
    /// assert_eq!(tokenizer.with_config(config)?.encode("a")?, [u32::from(b'a'), end]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Encoder::new`].
    pub fn with_config(&self, config: EncodeConfig) -> Result<Tokenizer> {
        let TokenizerInner { encoder: before, settings, by_bytes, .. } = &*self.0;
        let encoder = Encoder::new(Arc::clone(before.vocabulary()), config)?.sharing_tables(before);
        let (settings, by_bytes) = (Arc::clone(settings), Arc::clone(by_bytes));
        Ok(Tokenizer(Arc::new(TokenizerInner { encoder, unused: Mutex::default(), settings, by_bytes })))
    }

    /// Encodes a text as one whole document.
    ///
    /// # Errors
    /// Those of [`Worker::encode`].
    pub fn encode(&self, text: impl AsRef<[u8]>) -> Result<Vec<u32>> {
        self.work(&Silent, |worker| Ok(worker.encode(text.as_ref())?.iter().map(|id| id.get()).collect()))
    }

    /// Encodes a text as document 0 and leaves merges out at random: see [`Dropout`]. Another seed for each call gives
    /// other ids. To encode a batch with one seed, set [`EncodeConfig::dropout`].
    ///
    /// # Errors
    /// Those of [`Worker::encode`].
    pub fn encode_with_dropout(&self, text: impl AsRef<[u8]>, dropout: Dropout) -> Result<Vec<u32>> {
        self.work(&Silent, |worker| {
            worker.set_dropout(dropout);
            Ok(worker.encode(text.as_ref())?.iter().map(|id| id.get()).collect())
        })
    }

    /// Number of token ids of a text. Cheaper than [`encode`](Tokenizer::encode), which copies the ids.
    ///
    /// # Errors
    /// Those of [`Worker::encode`].
    pub fn count(&self, text: impl AsRef<[u8]>) -> Result<usize> {
        self.work(&Silent, |worker| Ok(worker.encode(text.as_ref())?.len()))
    }

    /// Encodes a text as [`encode`](Tokenizer::encode) does, and returns with each id the bytes of the text that the
    /// token stands for.
    ///
    /// The ranges follow each other without gaps and cover the whole text, so the slices of the text, joined, are the
    /// text. BOS and EOS tokens, which [`EncodeConfig`] adds, have empty ranges at its start and end. A token can begin
    /// or end within a character: slice the text's bytes.
    ///
    /// ```
    /// use tokenmill::Tokenizer;
    /// use tokenmill::encode::EncodeConfig;
    /// # use tokenmill::{split::SplitPattern, train::Merges, vocab::{SpecialTokensAt, Vocabulary}};
    ///
    /// # fn main() -> tokenmill::Result<()> {
    /// # let vocabulary = Vocabulary::from_merges(&Merges::default(), &[], SpecialTokensAt::End, SplitPattern::None)?;
    /// // A vocabulary of the 256 bytes alone: the id of a token is its byte, and é has two.
    /// let tokenizer = Tokenizer::new(vocabulary, EncodeConfig::default())?;
    /// assert_eq!(tokenizer.encode_with_offsets("aé")?, [(0x61, 0..1), (0xC3, 1..2), (0xA9, 2..3)]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`encode`](Tokenizer::encode), or the tokens are not the text byte for byte: the tokenizer normalizes
    /// this text, puts a space before it, takes white space into an added token, or drops or replaces bytes without a
    /// token.
    pub fn encode_with_offsets(&self, text: impl AsRef<[u8]>) -> Result<Vec<(u32, Range<usize>)>> {
        let text = text.as_ref();
        let ids = self.encode(text)?;
        let EncodeConfig { bos, eos, .. } = self.0.encoder.config();
        let inner = usize::from(bos.is_some())..ids.len() - usize::from(eos.is_some());
        let mut rest = text;
        let mut with_offsets = Vec::with_capacity(ids.len());
        for (place, id) in ids.into_iter().enumerate() {
            let start = text.len() - rest.len();
            if inner.contains(&place) {
                let token = self.token(id).unwrap_or_default();
                rest = rest.strip_prefix(token).ok_or_else(|| changed_text(start))?;
            }
            with_offsets.push((id, start..text.len() - rest.len()));
        }
        if rest.is_empty() { Ok(with_offsets) } else { Err(changed_text(text.len() - rest.len())) }
    }

    /// The bytes of these tokens, concatenated; for a special token, its text.
    ///
    /// The bytes need not be UTF-8: a model can emit part of a character. See
    /// [`decode_to_string`](Tokenizer::decode_to_string) and [`decode_stream`](Tokenizer::decode_stream) for text.
    ///
    /// # Errors
    /// An id is not in the vocabulary.
    pub fn decode(&self, ids: &[u32]) -> Result<Vec<u8>> {
        let vocabulary = self.vocabulary();
        let mut text = Vec::with_capacity(BYTES_PER_TOKEN * ids.len());
        for &id in ids {
            vocabulary.decode_one(TokenId::new(id), &mut text)?;
        }
        Ok(text)
    }

    /// The text of these tokens, with U+FFFD for bytes that are not UTF-8, as [`String::from_utf8_lossy`] puts it.
    ///
    /// ```
    /// use tokenmill::Tokenizer;
    /// use tokenmill::encode::EncodeConfig;
    /// # use tokenmill::{split::SplitPattern, train::Merges, vocab::{SpecialTokensAt, Vocabulary}};
    ///
    /// # fn main() -> tokenmill::Result<()> {
    /// # let vocabulary = Vocabulary::from_merges(&Merges::default(), &[], SpecialTokensAt::End, SplitPattern::None)?;
    /// // A vocabulary of the 256 bytes alone.
    /// let tokenizer = Tokenizer::new(vocabulary, EncodeConfig::default())?;
    /// let ids = tokenizer.encode("café")?;
    /// assert_eq!(tokenizer.decode_to_string(&ids)?, "café");
    /// assert_eq!(tokenizer.decode_to_string(&ids[..4])?, "caf\u{FFFD}"); // the first byte of é alone
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// An id is not in the vocabulary.
    pub fn decode_to_string(&self, ids: &[u32]) -> Result<String> {
        let lossy = |error: FromUtf8Error| String::from_utf8_lossy(error.as_bytes()).into_owned();
        Ok(String::from_utf8(self.decode(ids)?).unwrap_or_else(lossy))
    }

    /// Decodes ids that arrive one by one, and returns text as soon as its characters are complete.
    pub fn decode_stream(&self) -> DecodeStream {
        DecodeStream::new(Arc::clone(self.0.encoder.vocabulary()))
    }

    /// The bytes of the token with this id, for a special token those of its text. `None` if the id is not in use.
    ///
    /// ```
    /// use tokenmill::Tokenizer;
    /// use tokenmill::encode::EncodeConfig;
    /// # use tokenmill::{split::SplitPattern, train::Merges, vocab::{SpecialTokensAt, Vocabulary}};
    ///
    /// # fn main() -> tokenmill::Result<()> {
    /// # let (merges, specials) = (Merges::default(), ["<end>".to_owned()]);
    /// # let vocabulary = Vocabulary::from_merges(&merges, &specials, SpecialTokensAt::End, SplitPattern::None)?;
    /// // The 256 bytes have the ids 0 to 255, and the special token has the next.
    /// let tokenizer = Tokenizer::new(vocabulary, EncodeConfig::default())?;
    /// assert_eq!(tokenizer.token(97), Some(&b"a"[..]));
    /// assert_eq!(tokenizer.token(256), Some(&b"<end>"[..]));
    /// assert_eq!(tokenizer.token(257), None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn token(&self, id: u32) -> Option<&[u8]> {
        self.vocabulary().bytes(TokenId::new(id))
    }

    /// The id of the token with these bytes, for a special token those of its text. `None` if there is no such token.
    /// If several tokens have these bytes, the lowest of their ids.
    ///
    /// ```
    /// use tokenmill::Tokenizer;
    /// use tokenmill::encode::EncodeConfig;
    /// # use tokenmill::{split::SplitPattern, train::Merges, vocab::{SpecialTokensAt, Vocabulary}};
    ///
    /// # fn main() -> tokenmill::Result<()> {
    /// # let (merges, specials) = (Merges::default(), ["<end>".to_owned()]);
    /// # let vocabulary = Vocabulary::from_merges(&merges, &specials, SpecialTokensAt::End, SplitPattern::None)?;
    /// // The 256 bytes have the ids 0 to 255, and the special token has the next.
    /// let tokenizer = Tokenizer::new(vocabulary, EncodeConfig::default())?;
    /// assert_eq!(tokenizer.id("a"), Some(97));
    /// assert_eq!(tokenizer.id("<end>"), Some(256));
    /// assert_eq!(tokenizer.id("ab"), None); // a text of two tokens
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// O(log of the number of tokens), after the first call, which sorts them. **Memory:** 4 bytes per token.
    pub fn id(&self, token: impl AsRef<[u8]>) -> Option<u32> {
        let (vocabulary, token) = (self.vocabulary(), Some(token.as_ref()));
        let by_bytes = self.0.by_bytes.get_or_init(|| {
            let mut ids: Vec<TokenId> = vocabulary.tokens().map(|(id, _)| id).collect();
            ids.sort_by_key(|&id| vocabulary.bytes(id));
            ids
        });
        let place = by_bytes.partition_point(|&id| vocabulary.bytes(id) < token);
        by_bytes.get(place).filter(|&&id| vocabulary.bytes(id) == token).map(|id| id.get())
    }

    /// The size of a table that is indexed by id, such as a model's embeddings: the highest id plus one.
    ///
    /// It is the number of tokens if every id below it is in use, as in vocabularies that this crate trained.
    ///
    /// ```
    /// use tokenmill::Tokenizer;
    /// use tokenmill::encode::EncodeConfig;
    /// # use tokenmill::{split::SplitPattern, train::Merges, vocab::{SpecialTokensAt, Vocabulary}};
    ///
    /// # fn main() -> tokenmill::Result<()> {
    /// # let (merges, specials) = (Merges::default(), ["<end>".to_owned()]);
    /// # let vocabulary = Vocabulary::from_merges(&merges, &specials, SpecialTokensAt::End, SplitPattern::None)?;
    /// // The 256 bytes have the ids 0 to 255, and the special token has the next.
    /// let tokenizer = Tokenizer::new(vocabulary, EncodeConfig::default())?;
    /// assert_eq!(tokenizer.vocab_size(), 257);
    /// # Ok(())
    /// # }
    /// ```
    pub fn vocab_size(&self) -> usize {
        self.vocabulary().id_limit()
    }

    /// The id of the token that ends a document: the one that [`EncodeConfig::eos`] adds, or else the one that the
    /// settings for `transformers` beside the tokenizer's file name as `eos_token`. `None` if neither is given.
    ///
    /// Only in the first case does encoding add it.
    ///
    /// ```
    /// use tokenmill::encode::EncodeConfig;
    /// use tokenmill::{TokenId, Tokenizer};
    /// # use tokenmill::{split::SplitPattern, train::Merges, vocab::{SpecialTokensAt, Vocabulary}};
    ///
    /// # fn main() -> tokenmill::Result<()> {
    /// # let (merges, specials) = (Merges::default(), ["<end>".to_owned()]);
    /// # let vocabulary = Vocabulary::from_merges(&merges, &specials, SpecialTokensAt::End, SplitPattern::None)?;
    /// // The 256 bytes have the ids 0 to 255, and the special token has the next.
    /// let tokenizer = Tokenizer::new(vocabulary, EncodeConfig::default())?;
    /// assert_eq!(tokenizer.eos(), None); // a special token need not be one that ends documents
    ///
    /// let config = EncodeConfig { eos: Some(TokenId::new(256)), ..EncodeConfig::default() };
    /// let tokenizer = tokenizer.with_config(config)?;
    /// assert_eq!(tokenizer.eos(), Some(256));
    /// assert_eq!(tokenizer.encode("a")?, [97, 256]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn eos(&self) -> Option<u32> {
        let named = || self.special_token(self.0.settings.eos.as_deref()?);
        self.0.encoder.config().eos.map(TokenId::get).or_else(named)
    }

    /// Writes the tokenizer into a folder, which is created if it does not exist, and returns the paths of its files,
    /// the main one first. It gives the files of the command `convert`: each appears complete or not at all, and
    /// settings for `transformers` that were beside the tokenizer's file are kept with [`Format::Hf`].
    ///
    /// ```
    /// use tokenmill::Tokenizer;
    /// use tokenmill::encode::EncodeConfig;
    /// use tokenmill::vocab::Format;
    /// # use tokenmill::{split::SplitPattern, train::Merges, vocab::{SpecialTokensAt, Vocabulary}};
    ///
    /// # fn main() -> tokenmill::Result<()> {
    /// # let vocabulary = Vocabulary::from_merges(&Merges::default(), &[], SpecialTokensAt::End, SplitPattern::None)?;
    /// # let tokenizer = Tokenizer::new(vocabulary, EncodeConfig::default())?;
    /// # let place = tempfile::tempdir().expect("a folder");
    /// # let folder = place.path().join("mine");
    /// tokenizer.save(&folder, Format::Hf)?; // tokenizer.json and tokenizer_config.json
    /// let ranks = tokenizer.save(&folder, "tiktoken".parse()?)?;
    /// assert_eq!(ranks[0], folder.join("tokenizer.tiktoken"));
    ///
    /// let again = Tokenizer::from_file(&folder)?;
    /// assert_eq!(again.encode("wood")?, tokenizer.encode("wood")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`vocab::save`].
    #[cfg(feature = "data")]
    pub fn save(&self, folder: impl AsRef<Path>, format: Format) -> Result<Vec<PathBuf>> {
        let options = if format == Format::Hf { self.settings() } else { WriteOptions::default() };
        vocab::save(self.vocabulary(), format, folder.as_ref(), &options, &Silent)
    }

    /// The settings for `transformers`. The tokens that encoding adds take the place of those that the files name.
    #[cfg(feature = "data")]
    fn settings(&self) -> WriteOptions {
        let EncodeConfig { bos, eos, .. } = self.0.encoder.config();
        let text = |id: Option<TokenId>| Some(self.vocabulary().added_token(id?)?.text.clone());
        let named = WriteOptions::clone(&self.0.settings);
        WriteOptions { bos: text(bos).or(named.bos), eos: text(eos).or(named.eos), ..named }
    }

    /// The id of the added token with this text, whether or not its file marks it as special.
    pub fn special_token(&self, text: &str) -> Option<u32> {
        self.vocabulary().added().iter().find(|token| token.text == text).map(|token| token.id.get())
    }

    /// The vocabulary that it encodes with.
    pub fn vocabulary(&self) -> &Vocabulary {
        self.0.encoder.vocabulary()
    }

    /// The encoder, for threads that keep a [worker](Encoder::worker) of their own.
    pub fn encoder(&self) -> &Encoder {
        &self.0.encoder
    }

    /// Runs `work` with a worker that asks `observer` whether to stop. The worker reuses the memory of an earlier one
    /// if any is unused.
    pub(super) fn work<R>(&self, observer: &dyn Observer, work: impl FnOnce(&mut Worker<'_>) -> R) -> R {
        let TokenizerInner { encoder, unused, .. } = &*self.0;
        let memory = lock(unused).pop();
        let mut worker = match memory {
            Some(memory) => Worker::with_memory(encoder, observer, memory),
            None => encoder.observed_worker(observer),
        };
        let result = work(&mut worker);
        lock(unused).push(worker.into_memory());
        result
    }
}

/// The error if the tokens of a text differ from the text itself, first at this byte.
fn changed_text(byte: usize) -> Error {
    let problem = format!(
        "byte {byte} of the text: the tokenizer changes the text here, so its tokens have no offsets"
    );
    Error::failed(problem)
        .with_help("encode without offsets, or make the change before encoding, such as NFC")
}

/// Decodes token ids one by one, as a model emits them, to text that never ends within a character.
///
/// The returned texts, concatenated, are the whole decoded text, with U+FFFD for bytes that are not UTF-8,
/// exactly as [`String::from_utf8_lossy`] gives it.
///
/// ```
/// use tokenmill::Tokenizer;
/// use tokenmill::encode::EncodeConfig;
/// # use tokenmill::{split::SplitPattern, train::Merges, vocab::{SpecialTokensAt, Vocabulary}};
///
/// # fn main() -> tokenmill::Result<()> {
/// # let vocabulary = Vocabulary::from_merges(&Merges::default(), &[], SpecialTokensAt::End, SplitPattern::None)?;
/// // A vocabulary of the 256 bytes alone.
/// let tokenizer = Tokenizer::new(vocabulary, EncodeConfig::default())?;
/// let mut stream = tokenizer.decode_stream();
/// assert_eq!(stream.push(0xC3)?, "");
/// assert_eq!(stream.push(0xA9)?, "é");
/// assert_eq!(stream.push(0xC3)?, "");
/// assert_eq!(stream.finish(), "\u{FFFD}");
/// # Ok(())
/// # }
/// ```
///
/// **Memory:** the text of the last id, and up to three bytes of an incomplete character.
pub struct DecodeStream {
    /// Shared with the tokenizer, which may be dropped before the stream.
    vocabulary: Arc<Vocabulary>,
    /// Bytes that are not decoded yet. Between calls: at most the beginning of one character.
    open: Vec<u8>,
    /// The text that the last call returned. It is kept so that its memory is reused.
    text: String,
}

impl fmt::Debug for DecodeStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodeStream").field("open", &self.open).finish_non_exhaustive()
    }
}

impl DecodeStream {
    /// A stream at the start of a text.
    pub(super) fn new(vocabulary: Arc<Vocabulary>) -> DecodeStream {
        DecodeStream { vocabulary, open: Vec::new(), text: String::new() }
    }

    /// Decodes the next id and returns the text that is complete with it, which may be empty. A special token
    /// gives its text. The result is valid until the next call.
    ///
    /// # Errors
    /// The id is not in the vocabulary; the stream is then unchanged.
    pub fn push(&mut self, id: u32) -> Result<&str> {
        self.vocabulary.decode_one(TokenId::new(id), &mut self.open)?;
        self.text.clear();
        let mut rest = self.open.as_slice();
        while let Err(error) = from_utf8(rest) {
            let (valid, behind) = rest.split_at(error.valid_up_to());
            self.text.extend(from_utf8(valid));
            rest = behind;
            let Some(invalid) = error.error_len() else { break };
            self.text.push(char::REPLACEMENT_CHARACTER);
            rest = &rest[invalid..];
        }
        if let Ok(valid) = from_utf8(rest) {
            self.text.push_str(valid);
            rest = &[];
        }
        let done = self.open.len() - rest.len();
        self.open.drain(..done);
        Ok(&self.text)
    }

    /// Ends the text: an incomplete character becomes U+FFFD. The next id begins another text.
    pub fn finish(&mut self) -> &str {
        self.text.clear();
        if !self.open.is_empty() {
            self.text.push(char::REPLACEMENT_CHARACTER);
        }
        self.open.clear();
        &self.text
    }
}
