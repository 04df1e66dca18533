//! A tokenizer for texts in memory, and decoding of ids as they arrive.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::str::from_utf8;
use std::sync::{Arc, Mutex};

use rayon::prelude::*;

use super::backtrack::EncodedChunk;
use super::encoder::{CHUNK_BYTES, EncodeConfig, Encoder};
use super::preprocess::SpecialPolicy;
use super::worker::{Worker, WorkerMemory};
use crate::base::int::TokenId;
use crate::base::pools::lock;
use crate::error::Result;
use crate::observer::Silent;
use crate::vocab::{self, LoadOptions, Vocabulary};

/// Maximum number of texts of a batch that a thread takes at a time.
const TEXTS_AT_A_TIME: usize = 256;

/// Encodes texts to token ids and decodes ids to text: a vocabulary with everything that encoding needs.
///
/// Any number of threads can use one tokenizer at the same time. Cloning it only copies a reference. Texts are
/// arbitrary bytes, UTF-8 or not.
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
    unused: Mutex<Vec<WorkerMemory>>,
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
    /// # Errors
    /// Those of [`vocab::load`] and [`Encoder::new`].
    pub fn from_file(path: impl AsRef<Path>) -> Result<Tokenizer> {
        let vocabulary = vocab::load(path.as_ref(), &LoadOptions::default(), &Silent)?;
        Tokenizer::new(vocabulary, EncodeConfig::default())
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
        Ok(Tokenizer(Arc::new(TokenizerInner { encoder, unused: Mutex::default() })))
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
    /// # Errors
    /// Those of [`Encoder::new`].
    pub fn with_config(&self, config: EncodeConfig) -> Result<Tokenizer> {
        let before = &self.0.encoder;
        let encoder = Encoder::new(Arc::clone(before.vocabulary()), config)?.sharing_tables(before);
        Ok(Tokenizer(Arc::new(TokenizerInner { encoder, unused: Mutex::default() })))
    }

    /// Encodes a text as one whole document.
    ///
    /// # Errors
    /// Those of [`Worker::encode`].
    pub fn encode(&self, text: impl AsRef<[u8]>) -> Result<Vec<u32>> {
        self.work(|worker| ids(worker, text.as_ref()))
    }

    /// Encodes each text as a whole document, and returns the ids in the order of the texts.
    ///
    /// All threads of the current rayon pool share the work. Several threads share one long text, unless
    /// normalizing changes it or added tokens occur in it.
    ///
    /// # Errors
    /// Those of [`Worker::encode`], for the first text that fails, with its index.
    pub fn encode_batch<T: AsRef<[u8]> + Sync>(&self, texts: &[T]) -> Result<Vec<Vec<u32>>> {
        self.encode_in_chunks(texts, CHUNK_BYTES)
    }

    /// Implements [`encode_batch`](Tokenizer::encode_batch), with long texts cut into chunks of about `chunk_bytes`
    /// bytes.
    pub(super) fn encode_in_chunks<T: AsRef<[u8]> + Sync>(
        &self,
        texts: &[T],
        chunk_bytes: usize,
    ) -> Result<Vec<Vec<u32>>> {
        let size = (texts.len() / (8 * rayon::current_num_threads())).clamp(1, TEXTS_AT_A_TIME);
        // The ids of a short text, or the chunks of a long one.
        let short = |text: &T, worker: &mut Worker<'_>| {
            let chunks = self.0.encoder.chunks(text.as_ref(), chunk_bytes);
            let ids = if chunks.is_empty() { ids(worker, text.as_ref()) } else { Ok(Vec::new()) };
            (ids, chunks)
        };
        let some = texts.par_chunks(size).map(|texts| {
            self.work(|worker| texts.iter().map(|text| short(text, worker)).collect::<Vec<_>>())
        });
        let encoded: Vec<Vec<_>> = some.collect();
        // Long texts one after the other, all threads on each. Going in order also returns the first error.
        let mut all = Vec::with_capacity(texts.len());
        for (row, (text, (ids, chunks))) in texts.iter().zip(encoded.into_iter().flatten()).enumerate() {
            let ids = if chunks.is_empty() { ids } else { self.encode_long(text.as_ref(), &chunks) };
            all.push(ids.map_err(|error| error.at(format_args!("the batch: row {row}")))?);
        }
        Ok(all)
    }

    /// Encodes the chunks of one long text on all threads.
    fn encode_long(&self, text: &[u8], chunks: &[Range<usize>]) -> Result<Vec<u32>> {
        let encoder = &self.0.encoder;
        let encode = |range: &Range<usize>| self.work(|worker| worker.chunk(text, range.clone()));
        let encoded: Vec<Result<EncodedChunk>> = chunks.par_iter().map(encode).collect();
        let mut stitcher = encoder.stitcher();
        for (range, chunk) in chunks.iter().zip(encoded) {
            stitcher.push(encoder.tables(), text, range.start, chunk?);
        }
        Ok(encoder.stitched(stitcher).into_wide().into_iter().map(TokenId::get).collect())
    }

    /// Number of token ids of a text. Cheaper than [`encode`](Tokenizer::encode), which copies the ids.
    ///
    /// # Errors
    /// Those of [`Worker::encode`].
    pub fn count(&self, text: impl AsRef<[u8]>) -> Result<usize> {
        self.work(|worker| Ok(worker.encode(text.as_ref())?.len()))
    }

    /// The bytes of these tokens, concatenated; for a special token, its text.
    ///
    /// The bytes need not be UTF-8: a model can emit part of a character. See
    /// [`decode_stream`](Tokenizer::decode_stream) for text.
    ///
    /// # Errors
    /// An id is not in the vocabulary.
    pub fn decode(&self, ids: &[u32]) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        for &id in ids {
            self.vocabulary().decode(&[TokenId::new(id)], &mut text)?;
        }
        Ok(text)
    }

    /// Decodes ids that arrive one by one, and returns text as soon as its characters are complete.
    pub fn decode_stream(&self) -> DecodeStream {
        DecodeStream::new(Arc::clone(self.0.encoder.vocabulary()))
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

    /// Runs `work` with a worker. The worker reuses the memory of an earlier one if any is unused.
    fn work<R>(&self, work: impl FnOnce(&mut Worker<'_>) -> R) -> R {
        let TokenizerInner { encoder, unused, .. } = &*self.0;
        let memory = lock(unused).pop();
        let mut worker =
            memory.map_or_else(|| encoder.worker(), |memory| Worker::with_memory(encoder, memory));
        let result = work(&mut worker);
        lock(unused).push(worker.into_memory());
        result
    }
}

/// The ids of a text as plain numbers.
fn ids(worker: &mut Worker<'_>, text: &[u8]) -> Result<Vec<u32>> {
    Ok(worker.encode(text)?.iter().map(|id| id.get()).collect())
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
        self.vocabulary.decode(&[TokenId::new(id)], &mut self.open)?;
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
