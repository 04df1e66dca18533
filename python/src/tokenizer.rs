//! The class `Tokenizer`.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_buffer::NullBuffer;
use pyo3::exceptions::PyUnicodeDecodeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use tokenmill::encode::{Dropout, EncodeConfig, FlatIds, Probability};
use tokenmill::observer::Silent;
use tokenmill::vocab::{self, Format, LoadOptions, SpecialToken, WriteOptions};
use tokenmill::{Error, Result, TokenId};

use crate::arrow::{self, ArrowStream};
use crate::errors::{OrRaise, usage};
use crate::ids::{self, Collector, Ints, array};
use crate::job::{self, Watcher};
use crate::loading::{
    Loaded, from_json, from_name, from_path, from_ranks, settings_to_json, special_policy, split_pattern,
};
use crate::pool::on_threads;
use crate::shared::Shared;
use crate::text::Text;

/// Bytes of a text or of ids (2 KiB) below which they are encoded or decoded without releasing Python's global lock: to
/// get the lock back from another thread can take much longer.
const SHORT: usize = 2 << 10;

/// Bytes of a text (2 MiB) from which it is encoded on several threads. Signals are looked at meanwhile.
const LONG: usize = 2 << 20;

/// Tokens with their ids: pairs, or a dictionary.
struct Pairs<T>(Vec<(T, u32)>);

impl<'py, T: FromPyObjectOwned<'py>> FromPyObject<'_, 'py> for Pairs<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Pairs<T>> {
        match object.cast::<PyDict>() {
            Ok(dictionary) => dictionary.items().extract().map(Pairs),
            Err(_) => object.extract().map(Pairs),
        }
    }
}

/// A function and the arguments with which it makes a tokenizer again, as `pickle` keeps them.
type Reduced<'py> = (Bound<'py, PyAny>, (Bound<'py, PyBytes>, String));

/// Encodes text to token ids, and decodes ids to text.
///
/// Make one with ``from_file``, ``from_pretrained``, ``from_str``, ``from_tiktoken`` or ``from_ranks``, with
/// ``tokenmill.get_encoding``, or by training.
///
/// - Encode: ``encode``, ``encode_batch``; ``encode_to_numpy``, ``encode_batch_flat``; ``encode_arrow``.
/// - Count and look at tokens: ``count``, ``count_batch``, ``pieces``.
/// - Decode: ``decode``, ``decode_batch``, ``decode_bytes``, ``decode_stream``.
/// - Vocabulary: ``vocab_size``, ``special_tokens``, ``token_to_id``, ``id_to_token``, ``get_vocab``.
/// - Save and convert: ``save_pretrained``, ``to_str``, ``to_transformers``, ``as_tiktoken``.
///
/// A text is ``str``, ``bytes`` or ``bytearray``; bytes need not be UTF-8. Ids are from 0 to ``vocab_size - 1``.
///
/// A tokenizer never changes. Any number of threads can use it at the same time, and Python's lock is released while
/// texts are encoded. It can be pickled, and used in forked processes.
///
/// Example:
///     The examples of the methods use this tokenizer.
///
///     >>> import tokenmill
///     >>> texts = ["how much wood would a woodchuck chuck", "if a woodchuck could chuck wood?"]
///     >>> tokenizer = tokenmill.train_from_iterator(texts, 270, special_tokens=["<|endoftext|>"])
///     >>> tokenizer
///     Tokenizer(vocab_size=270, split="gpt4", special_tokens=1)
///     >>> tokenizer.encode("a woodchuck")
///     [97, 268]
///     >>> tokenizer.decode([97, 268])
///     'a woodchuck'
#[pyclass(frozen, weakref, module = "tokenmill")]
pub(crate) struct Tokenizer {
    /// The tokenizer of the library.
    pub(crate) shared: Shared,
    /// Its settings for `transformers`.
    settings: WriteOptions,
    /// The `int`s of its ids.
    ints: Ints,
    /// Its fingerprint, once it was asked for.
    fingerprint: PyOnceLock<String>,
}

/// The token ids that are put before and after a text.
pub(crate) struct Around {
    /// The id before it, if any.
    bos: Option<u32>,
    /// The id after it, if any.
    eos: Option<u32>,
}

impl Around {
    /// The ids of a text with them.
    fn with<'a>(&self, ids: impl Into<Cow<'a, [u32]>>) -> Cow<'a, [u32]> {
        let ids = ids.into();
        if self.bos.is_none() && self.eos.is_none() {
            return ids;
        }
        self.bos.into_iter().chain(ids.iter().copied()).chain(self.eos).collect()
    }

    /// The ids of the texts of a column with them. Nothing is put around a text that is null.
    pub(crate) fn with_each(&self, flat: FlatIds, nulls: Option<&NullBuffer>) -> FlatIds {
        if self.bos.is_none() && self.eos.is_none() {
            return flat;
        }
        let mut all = FlatIds::default();
        for (row, ids) in flat.iter().enumerate() {
            if nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                all.ids.extend(self.bos);
                all.ids.extend_from_slice(ids);
                all.ids.extend(self.eos);
            }
            all.ends.push(all.ids.len());
        }
        all
    }
}

impl Tokenizer {
    /// The class for a tokenizer of the library.
    pub(crate) fn new((tokenizer, settings): (tokenmill::Tokenizer, WriteOptions)) -> Tokenizer {
        let (shared, ints, fingerprint) = (Shared::new(tokenizer), Ints::new(), PyOnceLock::new());
        Tokenizer { shared, settings, ints, fingerprint }
    }

    /// Loads a tokenizer without Python's global lock.
    ///
    /// # Errors
    /// Those of `load`, or the policy is not known.
    fn load(
        py: Python<'_>,
        special: &str,
        load: impl FnOnce() -> Result<Loaded> + Send,
    ) -> PyResult<Tokenizer> {
        let special = special_policy(special).or_raise(py)?;
        let loaded = on_threads(py, None, || load()?.tokenizer(special))?;
        loaded.or_raise(py).map(Tokenizer::new)
    }

    /// The id of a special token that the settings name.
    ///
    /// # Errors
    /// They name none. `role` is its name in the message.
    fn named(&self, py: Python<'_>, text: Option<&str>, role: &str) -> PyResult<u32> {
        let id = text.and_then(|text| self.shared.to_read().special_token(text));
        let help = format!(
            "add the id yourself: [tokenizer.token_to_id('…'), *tokenizer.encode(text)], or load a \
                            folder whose tokenizer_config.json names the {role}_token"
        );
        id.ok_or_else(|| usage(py, &format!("the tokenizer names no {role} token"), &help))
    }

    /// The ids to put around texts.
    fn around(&self, py: Python<'_>, bos: bool, eos: bool) -> PyResult<Around> {
        let bos = bos.then(|| self.named(py, self.settings.bos.as_deref(), "bos")).transpose()?;
        let eos = eos.then(|| self.named(py, self.settings.eos.as_deref(), "eos")).transpose()?;
        Ok(Around { bos, eos })
    }

    /// The ids of a text.
    fn ids(&self, py: Python<'_>, text: Text, around: &Around) -> PyResult<Vec<u32>> {
        let length = text.as_ref().len();
        let ids = if length < LONG {
            let using = self.shared.to_encode(py)?;
            let tokenizer = &using.tokenizer;
            let encode = || tokenizer.encode(&text);
            if length < SHORT { encode() } else { py.detach(encode) }.or_raise(py)?
        } else {
            self.encode_long(py, text)?
        };
        Ok(around.with(ids).into_owned())
    }

    /// The ids of a text, some of whose merges are left out at random.
    fn ids_with_dropout(
        &self,
        py: Python<'_>,
        text: Text,
        probability: f64,
        seed: u64,
        around: &Around,
    ) -> PyResult<Vec<u32>> {
        let dropout = Dropout { probability: Probability::try_from(probability).or_raise(py)?, seed };
        let using = self.shared.to_encode(py)?;
        let tokenizer = &using.tokenizer;
        let ids = if text.as_ref().len() < LONG {
            py.detach(|| tokenizer.encode_with_dropout(&text, dropout)).or_raise(py)?
        } else {
            let config = EncodeConfig { dropout: Some(dropout), ..tokenizer.encoder().config() };
            let other = tokenizer.with_config(config).or_raise(py)?;
            Tokenizer::new((other, self.settings.clone())).encode_long(py, text)?
        };
        Ok(around.with(ids).into_owned())
    }

    /// Ids as a list.
    fn list<'py>(&self, py: Python<'py>, ids: &[u32]) -> PyResult<Bound<'py, PyList>> {
        self.ints.list(py, ids, || self.vocab_size())
    }

    /// The content of the `tokenizer.json`.
    fn json(&self) -> Result<Vec<u8>> {
        let files = vocab::render(self.shared.to_read().vocabulary(), Format::Hf, &self.settings)?;
        files
            .into_iter()
            .next()
            .map(|(_, json)| json)
            .ok_or_else(|| Error::failed("no tokenizer.json was made"))
    }

    /// Decodes ids of this tokenizer.
    fn decoder(&self, skip_special_tokens: bool) -> Decoder {
        let (tokenizer, ids, bytes) = (self.shared.to_read(), Vec::new(), Vec::new());
        Decoder { tokenizer, skip_special_tokens, ids, bytes }
    }
}

/// Decodes rows of ids, one after the other, in memory that the next row reuses.
struct Decoder {
    /// Has the vocabulary.
    tokenizer: tokenmill::Tokenizer,
    /// Whether special tokens are left out.
    skip_special_tokens: bool,
    /// The ids of the last row.
    ids: Vec<TokenId>,
    /// The bytes of its tokens.
    bytes: Vec<u8>,
}

impl Decoder {
    /// The bytes of tokens.
    fn bytes(&mut self, py: Python<'_>, ids: &Bound<'_, PyAny>) -> PyResult<&[u8]> {
        self.ids.clear();
        self.bytes.clear();
        ids::extend(&mut self.ids, ids)?;
        let vocabulary = self.tokenizer.vocabulary();
        if self.skip_special_tokens {
            self.ids.retain(|&id| vocabulary.special(id).is_none());
        }
        let mut decode = || vocabulary.decode(&self.ids, &mut self.bytes);
        if size_of_val(&*self.ids) < SHORT { decode() } else { py.detach(decode) }.or_raise(py)?;
        Ok(&self.bytes)
    }

    /// The bytes of tokens as text.
    fn text<'py>(
        &mut self,
        py: Python<'py>,
        ids: &Bound<'_, PyAny>,
        errors: &str,
    ) -> PyResult<Bound<'py, PyString>> {
        let bytes = self.bytes(py, ids)?;
        if let Ok(text) = str::from_utf8(bytes) {
            return Ok(PyString::new(py, text));
        }
        let text = PyBytes::new(py, bytes).call_method1("decode", ("utf-8", errors));
        text.map_err(|error| not_text(py, error))?.cast_into().map_err(PyErr::from)
    }
}

/// The error of ids that are not text, where that is wanted.
fn not_text(py: Python<'_>, error: PyErr) -> PyErr {
    if error.is_instance_of::<PyUnicodeDecodeError>(py) {
        return usage(
            py,
            &format!("the ids are not whole characters: {}", error.value(py)),
            "leave out errors='strict' to get U+FFFD instead, or use decode_bytes or decode_stream",
        );
    }
    error
}

#[pymethods]
impl Tokenizer {
    /// Loads a tokenizer from a file or folder.
    ///
    /// Args:
    ///     path: A folder, a ``tokenizer.json``, ranks of tiktoken (``.tiktoken``), a ``.model`` of minbpe, or a
    ///         ``vocab.json`` beside its ``merges.txt``.
    ///     split: How texts are split, if the files do not say it: the name of a pattern, or a regular expression.
    ///     special_tokens: Special tokens that the files do not have, each with its id.
    ///     special: What text that spells a special token becomes: ``"text"`` (it is encoded like any other text),
    ///         ``"allow"`` (the special token) or ``"forbid"`` (an error).
    ///
    /// Raises:
    ///     NotFoundError: There is no such file.
    ///     TokenmillError: The files are damaged, or hold something else than byte-level BPE.
    ///
    /// Example:
    ///     >>> import tempfile
    ///     >>> folder = tempfile.mkdtemp()
    ///     >>> written = tokenizer.save_pretrained(folder)
    ///     >>> tokenmill.Tokenizer.from_file(folder).encode("a woodchuck")
    ///     [97, 268]
    #[staticmethod]
    #[pyo3(signature = (path, *, split=None, special_tokens=None, special="text"))]
    fn from_file(
        py: Python<'_>,
        path: PathBuf,
        split: Option<&str>,
        special_tokens: Option<Pairs<String>>,
        special: &str,
    ) -> PyResult<Tokenizer> {
        let named = |(text, id)| SpecialToken { text, id: Some(TokenId::new(id)) };
        let options = LoadOptions {
            format: None,
            split: split.map(split_pattern).transpose().or_raise(py)?,
            special_tokens: special_tokens.into_iter().flat_map(|pairs| pairs.0).map(named).collect(),
        };
        Tokenizer::load(py, special, || from_path(&path, &options))
    }

    /// Loads a tokenizer from the content of a ``tokenizer.json``.
    ///
    /// Args:
    ///     json: The content, as text or bytes.
    ///     special: As for ``from_file``.
    ///
    /// Raises:
    ///     TokenmillError: It is damaged, or has something else than byte-level BPE.
    ///
    /// Example:
    ///     >>> tokenmill.Tokenizer.from_str(tokenizer.to_str()).encode("a woodchuck")
    ///     [97, 268]
    #[staticmethod]
    #[pyo3(signature = (json, *, special="text"))]
    fn from_str(py: Python<'_>, json: Text, special: &str) -> PyResult<Tokenizer> {
        Tokenizer::load(py, special, || from_json(json.as_ref()))
    }

    /// Loads a tokenizer of the Hugging Face hub, or a local or published one.
    ///
    /// The files are downloaded into the hub's cache, unless they are there. Ctrl-C stops the download.
    ///
    /// Args:
    ///     name: ``"org/name"`` on the hub, a local path, or a published name such as ``"gpt2"`` or ``"o200k_base"``.
    ///     revision: The branch, tag or commit on the hub; by default ``main``.
    ///     token: The token for the hub; by default that of the environment, or of ``hf auth login``.
    ///     special: As for ``from_file``.
    ///
    /// Raises:
    ///     NotFoundError: There is no such local file.
    ///     NetworkError: The files cannot be downloaded.
    ///     AuthorisationError: The hub requires a token, or the acceptance of terms.
    ///
    /// Example:
    ///     >>> tokenizer_of_qwen = tokenmill.Tokenizer.from_pretrained("Qwen/Qwen3-8B")  # doctest: +SKIP
    #[staticmethod]
    #[pyo3(signature = (name, *, revision=None, token=None, special="text"))]
    fn from_pretrained(
        py: Python<'_>,
        name: String,
        revision: Option<String>,
        token: Option<String>,
        special: &str,
    ) -> PyResult<Tokenizer> {
        let special = special_policy(special).or_raise(py)?;
        let load = move |watcher: &Watcher| {
            from_name(&name, revision.as_deref(), token, watcher)?.tokenizer(special)
        };
        let loaded = job::run(py, None, None, |_, _| Ok(()), load)?;
        Ok(Tokenizer::new(loaded))
    }

    /// Makes a tokenizer from the three parts of a ``tiktoken.Encoding``.
    ///
    /// Args:
    ///     pattern: The regular expression that splits text.
    ///     ranks: The bytes of each token with its rank, which is its id: pairs or a dictionary.
    ///     special_tokens: The text of each special token with its id: pairs or a dictionary.
    ///     special: As for ``from_file``.
    ///
    /// Raises:
    ///     TokenmillError: The ranks are not those of byte-level BPE.
    ///
    /// Example:
    ///     >>> ranks, specials = tokenizer.get_mergeable_ranks(), tokenizer.special_tokens
    ///     >>> tokenmill.Tokenizer.from_ranks(tokenizer.get_pattern(), ranks, specials).encode("a woodchuck")
    ///     [97, 268]
    #[staticmethod]
    #[pyo3(signature = (pattern, ranks, special_tokens, *, special="text"))]
    fn from_ranks(
        py: Python<'_>,
        pattern: &str,
        ranks: Pairs<Vec<u8>>,
        special_tokens: Pairs<String>,
        special: &str,
    ) -> PyResult<Tokenizer> {
        Tokenizer::load(py, special, || from_ranks(pattern, ranks.0, special_tokens.0))
    }

    /// Makes a tokenizer from a ``tiktoken.Encoding``, with the same ids.
    ///
    /// Args:
    ///     encoding: The encoding.
    ///     special: As for ``from_file``.
    ///
    /// Raises:
    ///     TokenmillError: The ranks of the encoding are not those of byte-level BPE.
    ///
    /// Example:
    ///     >>> encoding = tokenizer.as_tiktoken()
    ///     >>> tokenmill.Tokenizer.from_tiktoken(encoding).encode("a woodchuck")
    ///     [97, 268]
    #[staticmethod]
    #[pyo3(signature = (encoding, *, special="text"))]
    fn from_tiktoken<'py>(encoding: &Bound<'py, PyAny>, special: &str) -> PyResult<Bound<'py, PyAny>> {
        encoding.py().import("tokenmill.compat.tiktoken")?.call_method1("from_tiktoken", (encoding, special))
    }

    /// Builds the tables for encoding now.
    ///
    /// Otherwise they are built once they pay, during the first megabytes of text. It takes up to a second. New text is
    /// encoded several times faster afterwards.
    ///
    /// Example:
    ///     >>> tokenizer.prepare()
    fn prepare(&self, py: Python<'_>) -> PyResult<()> {
        let using = self.shared.to_encode(py)?;
        let tokenizer = &using.tokenizer;
        on_threads(py, None, || drop(tokenizer.clone().prepared()))
    }

    /// Makes the same tokenizer with another choice for text that spells a special token.
    ///
    /// Args:
    ///     special: ``"text"``, ``"allow"`` or ``"forbid"``, as for ``from_file``.
    ///
    /// Raises:
    ///     UsageError: It is none of these.
    ///
    /// Example:
    ///     >>> tokenizer.with_special("allow").encode("a wood<|endoftext|>")
    ///     [97, 263, 269]
    ///     >>> len(tokenizer.encode("a wood<|endoftext|>"))
    ///     15
    fn with_special(&self, py: Python<'_>, special: &str) -> PyResult<Tokenizer> {
        let special = special_policy(special).or_raise(py)?;
        let tokenizer = self.shared.to_read();
        let encoder = tokenizer.encoder();
        // They share no tables: a process may be forked while one of them is in use and the other is not.
        let (vocabulary, config) =
            (Arc::clone(encoder.vocabulary()), EncodeConfig { special, ..encoder.config() });
        let other = on_threads(py, None, || tokenmill::Tokenizer::new(vocabulary, config))?.or_raise(py)?;
        Ok(Tokenizer::new((other, self.settings.clone())))
    }

    /// Encodes a text.
    ///
    /// Args:
    ///     text: The text.
    ///     bos: Whether to add the token that begins a document before the ids.
    ///     eos: Whether to add the token that ends a document after the ids.
    ///     dropout: The probability that a possible merge is left out (BPE-dropout), from 0 to 1.
    ///     seed: Determines which merges are left out. Another seed for each call cuts the same text in other ways.
    ///
    /// Returns:
    ///     The ids, a list of ``int``.
    ///
    /// Raises:
    ///     UsageError: The text has half of a surrogate pair, or ``tokenizer_config.json`` names no such token.
    ///     TokenmillError: The text spells a special token, and ``special`` is ``"forbid"``.
    ///
    /// Example:
    ///     >>> tokenizer.encode("a woodchuck")
    ///     [97, 268]
    ///     >>> tokenizer.encode(b"wood\xff")
    ///     [119, 111, 260, 255]
    ///     >>> tokenizer.encode("a woodchuck", dropout=0.3, seed=1)
    ///     [97, 256, 111, 260, 257, 117, 99, 107]
    #[pyo3(signature = (text, *, bos=false, eos=false, dropout=0.0, seed=0))]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        text: Text,
        bos: bool,
        eos: bool,
        dropout: f64,
        seed: u64,
    ) -> PyResult<Bound<'py, PyList>> {
        let around = self.around(py, bos, eos)?;
        let ids = match dropout {
            0.0 => self.ids(py, text, &around)?,
            _ => self.ids_with_dropout(py, text, dropout, seed, &around)?,
        };
        self.list(py, &ids)
    }

    /// Encodes a text to an array of NumPy, of 4 bytes for each id.
    ///
    /// Args:
    ///     text: The text.
    ///     bos: As for ``encode``.
    ///     eos: As for ``encode``.
    ///
    /// Returns:
    ///     The ids, an array of shape ``(ids,)`` and dtype uint32.
    ///
    /// Raises:
    ///     ImportError: NumPy is not installed.
    ///     UsageError: As for ``encode``.
    ///     TokenmillError: As for ``encode``.
    ///
    /// Example:
    ///     >>> tokenizer.encode_to_numpy("a woodchuck")
    ///     array([ 97, 268], dtype=uint32)
    #[pyo3(signature = (text, *, bos=false, eos=false))]
    fn encode_to_numpy<'py>(
        &self,
        py: Python<'py>,
        text: Text,
        bos: bool,
        eos: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let ids = self.ids(py, text, &self.around(py, bos, eos)?)?;
        array(py, ids)
    }

    /// Encodes texts on several threads.
    ///
    /// Args:
    ///     texts: The texts.
    ///     bos: As for ``encode``, for each text.
    ///     eos: As for ``encode``, for each text.
    ///     threads: The number of threads. The default is one for each processor, and 1 in a process that was forked or
    ///         that ``multiprocessing`` started.
    ///
    /// Returns:
    ///     The ids of each text, in the order of the texts. A list takes 8 bytes for each id, an array of
    ///     ``encode_batch_flat`` 4 bytes.
    ///
    /// Raises:
    ///     UsageError: As for ``encode``; the message names the row.
    ///     TokenmillError: As for ``encode``; the message names the row.
    ///     KeyboardInterrupt: Ctrl-C was pressed.
    ///
    /// Example:
    ///     >>> tokenizer.encode_batch(["a wood", "chuck"])
    ///     [[97, 263], [262]]
    #[pyo3(signature = (texts, *, bos=false, eos=false, threads=None))]
    fn encode_batch<'py>(
        &self,
        py: Python<'py>,
        texts: &Bound<'py, PyAny>,
        bos: bool,
        eos: bool,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyList>> {
        let (around, collector, mut rows) = (self.around(py, bos, eos)?, Collector::new(py)?, Vec::new());
        self.encode_each(py, texts, threads, |encoded| {
            let _pause = collector.pause()?;
            for ids in encoded.iter() {
                rows.push(self.list(py, &around.with(ids))?);
            }
            Ok(())
        })?;
        let _pause = collector.pause()?;
        PyList::new(py, rows)
    }

    /// Encodes texts on several threads, to two arrays of NumPy.
    ///
    /// The ids of text ``i`` are ``ids[offsets[i]:offsets[i + 1]]``.
    ///
    /// Args:
    ///     texts: The texts.
    ///     bos: As for ``encode``, for each text.
    ///     eos: As for ``encode``, for each text.
    ///     threads: As for ``encode_batch``.
    ///
    /// Returns:
    ///     ``ids``, the ids of all texts end to end, an array of shape ``(ids,)`` and dtype uint32, and ``offsets``, an
    ///     array of shape ``(texts + 1,)`` and dtype int64.
    ///
    /// Raises:
    ///     ImportError: NumPy is not installed.
    ///     UsageError: As for ``encode_batch``.
    ///     TokenmillError: As for ``encode_batch``.
    ///     KeyboardInterrupt: As for ``encode_batch``.
    ///
    /// Example:
    ///     >>> ids, offsets = tokenizer.encode_batch_flat(["a wood", "chuck"])
    ///     >>> ids
    ///     array([ 97, 263, 262], dtype=uint32)
    ///     >>> offsets
    ///     array([0, 2, 3])
    #[pyo3(signature = (texts, *, bos=false, eos=false, threads=None))]
    fn encode_batch_flat<'py>(
        &self,
        py: Python<'py>,
        texts: &Bound<'py, PyAny>,
        bos: bool,
        eos: bool,
        threads: Option<usize>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let around = self.around(py, bos, eos)?;
        let (mut all, mut offsets) = (Vec::new(), vec![0]);
        self.encode_each(py, texts, threads, |encoded| {
            for ids in encoded.iter() {
                all.extend_from_slice(&around.with(ids));
                offsets.push(i64::try_from(all.len()).unwrap_or(i64::MAX));
            }
            Ok(())
        })?;
        Ok((array(py, all)?, array(py, offsets)?))
    }

    /// Encodes a column of Arrow data, as a stream of record batches that are encoded while they are read.
    ///
    /// Memory holds a batch of the input and its ids, never all of them.
    ///
    /// Args:
    ///     data: A table, a data frame, record batches or a column of pyarrow, polars, duckdb or pandas, or any other
    ///         object with ``__arrow_c_stream__``.
    ///     column: The column of text: strings or binary values of any of Arrow's types.
    ///     keep: The columns of the input that the result has as they are, before the ids.
    ///     bos: As for ``encode``, for each text.
    ///     eos: As for ``encode``, for each text.
    ///     dtype: The type of the ids: ``"int32"`` or ``"uint32"``.
    ///     threads: As for ``encode_batch``.
    ///
    /// Returns:
    ///     A stream with the columns ``keep``, and ``input_ids``: lists of ``dtype``, and null for a text that is null.
    ///
    /// Raises:
    ///     UsageError: ``data`` is not Arrow data, it lacks a column, the column is not text, or the tokenizer names no such
    ///         token.
    ///
    /// Example:
    ///     >>> import pyarrow as pa
    ///     >>> table = pa.table({"text": ["a wood", None], "n": [7, 8]})
    ///     >>> pa.table(tokenizer.encode_arrow(table, keep=["n"])).to_pylist()
    ///     [{'n': 7, 'input_ids': [97, 263]}, {'n': 8, 'input_ids': None}]
    #[pyo3(
        signature = (data, *, column="text", keep=Vec::new(), bos=false, eos=false, dtype="int32", threads=None),
        text_signature = "($self, data, *, column='text', keep=(), bos=False, eos=False, dtype='int32', threads=None)"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are those of the method in Python")]
    fn encode_arrow(
        slf: Py<Tokenizer>,
        data: &Bound<'_, PyAny>,
        column: &str,
        keep: Vec<String>,
        bos: bool,
        eos: bool,
        dtype: &str,
        threads: Option<usize>,
    ) -> PyResult<ArrowStream> {
        let around = slf.get().around(data.py(), bos, eos)?;
        arrow::encoded(slf, data, column, &keep, around, dtype, threads)
    }

    /// Counts the ids of a text, without making a list of them.
    ///
    /// Args:
    ///     text: The text.
    ///
    /// Returns:
    ///     The number of its ids.
    ///
    /// Raises:
    ///     UsageError: As for ``encode``.
    ///     TokenmillError: As for ``encode``.
    ///
    /// Example:
    ///     >>> tokenizer.count("a woodchuck")
    ///     2
    fn count(&self, py: Python<'_>, text: Text) -> PyResult<usize> {
        if text.as_ref().len() >= LONG {
            return self.encode_long(py, text).map(|ids| ids.len());
        }
        let using = self.shared.to_encode(py)?;
        let tokenizer = &using.tokenizer;
        let count = || tokenizer.count(&text);
        if text.as_ref().len() < SHORT { count() } else { py.detach(count) }.or_raise(py)
    }

    /// Counts the ids of each text, on several threads.
    ///
    /// Args:
    ///     texts: The texts.
    ///     threads: As for ``encode_batch``.
    ///
    /// Returns:
    ///     The number of ids of each text, in the order of the texts.
    ///
    /// Raises:
    ///     UsageError: As for ``encode_batch``.
    ///     TokenmillError: As for ``encode_batch``.
    ///     KeyboardInterrupt: As for ``encode_batch``.
    ///
    /// Example:
    ///     >>> tokenizer.count_batch(["a wood", "chuck"])
    ///     [2, 1]
    #[pyo3(signature = (texts, *, threads=None))]
    fn count_batch(
        &self,
        py: Python<'_>,
        texts: &Bound<'_, PyAny>,
        threads: Option<usize>,
    ) -> PyResult<Vec<usize>> {
        let mut counts = Vec::new();
        self.encode_each(py, texts, threads, |encoded| {
            counts.extend(encoded.iter().map(<[u32]>::len));
            Ok(())
        })?;
        Ok(counts)
    }

    /// Decodes ids to text.
    ///
    /// Args:
    ///     ids: A list or another sequence of ids, or an array of NumPy or torch.
    ///     errors: What bytes that are not UTF-8 become, as for ``bytes.decode``: ``"replace"`` (U+FFFD), ``"ignore"``,
    ///         ``"strict"`` (an error) and others.
    ///     skip_special_tokens: Whether to leave out special tokens, which otherwise become their text.
    ///
    /// Returns:
    ///     The text.
    ///
    /// Raises:
    ///     UsageError: The ids are not whole numbers, or are not UTF-8 and ``errors`` is ``"strict"``.
    ///     TokenmillError: There is no token with such an id.
    ///
    /// Example:
    ///     >>> tokenizer.decode([97, 265, 269])
    ///     'a chuck<|endoftext|>'
    ///     >>> tokenizer.decode([97, 265, 269], skip_special_tokens=True)
    ///     'a chuck'
    #[pyo3(signature = (ids, *, errors="replace", skip_special_tokens=false))]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'_, PyAny>,
        errors: &str,
        skip_special_tokens: bool,
    ) -> PyResult<Bound<'py, PyString>> {
        self.decoder(skip_special_tokens).text(py, ids, errors)
    }

    /// Decodes ids to bytes, which need not be UTF-8.
    ///
    /// Args:
    ///     ids: As for ``decode``.
    ///     skip_special_tokens: As for ``decode``.
    ///
    /// Returns:
    ///     The bytes of the tokens, end to end.
    ///
    /// Raises:
    ///     UsageError: The ids are not whole numbers.
    ///     TokenmillError: There is no token with such an id.
    ///
    /// Example:
    ///     >>> tokenizer.decode_bytes([97, 265, 255])
    ///     b'a chuck\xff'
    #[pyo3(signature = (ids, *, skip_special_tokens=false))]
    fn decode_bytes<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'_, PyAny>,
        skip_special_tokens: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, self.decoder(skip_special_tokens).bytes(py, ids)?))
    }

    /// Decodes rows of ids to texts.
    ///
    /// Args:
    ///     rows: The rows, each as for ``decode``.
    ///     errors: As for ``decode``.
    ///     skip_special_tokens: As for ``decode``.
    ///
    /// Returns:
    ///     The text of each row.
    ///
    /// Raises:
    ///     UsageError: As for ``decode``.
    ///     TokenmillError: As for ``decode``.
    ///
    /// Example:
    ///     >>> tokenizer.decode_batch([[97, 263], [262]])
    ///     ['a wood', 'chuck']
    #[pyo3(signature = (rows, *, errors="replace", skip_special_tokens=false))]
    fn decode_batch<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        errors: &str,
        skip_special_tokens: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let (mut decoder, decoded) = (self.decoder(skip_special_tokens), PyList::empty(py));
        for row in rows.try_iter()? {
            decoded.append(decoder.text(py, &row?, errors)?)?;
        }
        Ok(decoded)
    }

    /// Makes a decoder for ids that arrive one by one, whose text never ends within a character.
    ///
    /// Example:
    ///     >>> stream = tokenizer.decode_stream()
    ///     >>> [stream.push(id) for id in tokenizer.encode("né")]
    ///     ['n', '', 'é']
    ///     >>> stream.finish()
    ///     ''
    fn decode_stream(&self) -> DecodeStream {
        DecodeStream(self.shared.to_read().decode_stream())
    }

    /// Looks up the id of a token.
    ///
    /// Args:
    ///     token: The text or the bytes of the token. For a special token, its text.
    ///
    /// Returns:
    ///     The id, or ``None`` if no token has this text. If several have, the lowest id.
    ///
    /// Example:
    ///     >>> tokenizer.token_to_id(" wood")
    ///     263
    ///     >>> tokenizer.token_to_id("<|endoftext|>")
    ///     269
    fn token_to_id(&self, token: Text) -> Option<u32> {
        self.shared.to_read().id(&token)
    }

    /// Looks up the bytes of a token.
    ///
    /// Args:
    ///     id: The id of the token.
    ///
    /// Returns:
    ///     The bytes, for a special token those of its text; ``None`` if no token has this id.
    ///
    /// Example:
    ///     >>> tokenizer.id_to_token(263)
    ///     b' wood'
    fn id_to_token<'py>(&self, py: Python<'py>, id: i64) -> Option<Bound<'py, PyBytes>> {
        let id = u32::try_from(id).ok()?;
        self.shared.to_read().token(id).map(|bytes| PyBytes::new(py, bytes))
    }

    /// Makes a dictionary of all tokens with their ids.
    ///
    /// Returns:
    ///     The bytes of each token with its id, by id. If several tokens have the same bytes, the lowest id.
    ///
    /// Example:
    ///     >>> tokenizer.get_vocab()[b" wood"]
    ///     263
    fn get_vocab<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (tokenizer, tokens) = (self.shared.to_read(), PyDict::new(py));
        let mut highest_first: Vec<_> = tokenizer.vocabulary().tokens().collect();
        highest_first.reverse();
        for (id, bytes) in highest_first {
            tokens.set_item(PyBytes::new(py, bytes), id.get())?;
        }
        Ok(tokens)
    }

    /// The highest id plus 1: the number of rows of a table that is indexed by id, such as a model's embeddings.
    #[getter]
    fn vocab_size(&self) -> usize {
        self.shared.to_read().vocab_size()
    }

    /// The text of each special token with its id, as a dictionary.
    #[getter]
    fn special_tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (tokenizer, tokens) = (self.shared.to_read(), PyDict::new(py));
        for token in tokenizer.vocabulary().specials() {
            tokens.set_item(&*token.text, token.id.get())?;
        }
        Ok(tokens)
    }

    /// The id of the token that begins a document, or ``None`` if ``tokenizer_config.json`` names none.
    #[getter]
    fn bos_token_id(&self) -> Option<u32> {
        self.shared.to_read().special_token(self.settings.bos.as_deref()?)
    }

    /// The id of the token that ends a document, or ``None`` if ``tokenizer_config.json`` names none.
    #[getter]
    fn eos_token_id(&self) -> Option<u32> {
        self.shared.to_read().special_token(self.settings.eos.as_deref()?)
    }

    /// What text that spells a special token becomes: ``"text"``, ``"allow"`` or ``"forbid"``, as for ``from_file``.
    #[getter]
    fn special(&self) -> &'static str {
        self.shared.to_read().encoder().config().special.name()
    }

    /// A SHA-256, in 64 hexadecimal digits, of everything that decides how text is encoded and decoded, except ``special``.
    #[getter]
    fn fingerprint(&self, py: Python<'_>) -> String {
        self.fingerprint.get_or_init(py, || self.shared.to_read().vocabulary().fingerprint()).clone()
    }

    /// Cuts a text into its tokens. A notebook shows the result in colours.
    ///
    /// Args:
    ///     text: The text.
    ///
    /// Returns:
    ///     The bytes of each token, a list of ``bytes``; ``ids`` of the list has their ids.
    ///
    /// Raises:
    ///     UsageError: As for ``encode``.
    ///     TokenmillError: As for ``encode``.
    ///
    /// Example:
    ///     >>> tokenizer.pieces("a woodchuck could")
    ///     [b'a', b' woodchuck', b' ', b'c', b'o', b'uld']
    fn pieces<'py>(slf: &Bound<'py, Tokenizer>, text: Text) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let ids = this.ids(py, text, &Around { bos: None, eos: None })?;
        let tokenizer = this.shared.to_read();
        let bytes = ids.iter().map(|&id| PyBytes::new(py, tokenizer.token(id).unwrap_or_default()));
        let bytes = PyList::new(py, bytes)?;
        py.import("tokenmill._show")?.call_method1("Pieces", (bytes, ids, slf.getattr("special_tokens")?))
    }

    /// Lists the tokens as tiktoken and rustbpe do.
    ///
    /// Returns:
    ///     The bytes of each token with its rank, which is its id, by rank and without special tokens.
    ///
    /// Raises:
    ///     TokenmillError: Ranks cannot express the tokenizer.
    ///
    /// Example:
    ///     >>> tokenizer.get_mergeable_ranks()[-2:]
    ///     [(b'uld', 267), (b' woodchuck', 268)]
    fn get_mergeable_ranks<'py>(&self, py: Python<'py>) -> PyResult<Vec<(Bound<'py, PyBytes>, u32)>> {
        let tokenizer = self.shared.to_read();
        let vocabulary = tokenizer.vocabulary();
        // It says whether ranks can hold the vocabulary.
        on_threads(py, None, || vocab::render(vocabulary, Format::Tiktoken, &WriteOptions::default()))?
            .or_raise(py)?;
        Ok(vocabulary.ordinary().map(|(id, bytes)| (PyBytes::new(py, bytes), id.get())).collect())
    }

    /// Gives the regular expression that splits text, in the dialect of tiktoken and of the package ``regex``.
    ///
    /// Raises:
    ///     UsageError: No single expression does what the tokenizer does.
    ///
    /// Example:
    ///     >>> tokenmill.train_from_iterator(texts, 270, split=r"\w+|\W+").get_pattern()
    ///     '\\w+|\\W+'
    fn get_pattern(&self, py: Python<'_>) -> PyResult<String> {
        let tokenizer = self.shared.to_read();
        let split = tokenizer.vocabulary().split();
        split.regex().map(str::to_owned).ok_or_else(|| {
            usage(
                py,
                &format!("no single expression splits as {split} does"),
                "use save_pretrained and its files",
            )
        })
    }

    /// Writes the files of the tokenizer into a folder.
    ///
    /// The files are complete, or not there. A different tokenizer in the folder is not replaced.
    ///
    /// Args:
    ///     folder: The folder, which is made if it does not exist.
    ///     formats: Any of ``"hf"`` (``tokenizer.json``, ``tokenizer_config.json``), ``"tiktoken"``, ``"minbpe"`` and
    ///         ``"gpt2"`` (``vocab.json``, ``merges.txt``).
    ///
    /// Returns:
    ///     The paths of the files.
    ///
    /// Raises:
    ///     UsageError: There is no such format, or the folder has a different tokenizer.
    ///     TokenmillError: A format cannot express the tokenizer.
    ///
    /// Example:
    ///     >>> import tempfile
    ///     >>> [path.name for path in tokenizer.save_pretrained(tempfile.mkdtemp(), formats=["hf", "tiktoken"])]
    ///     ['tokenizer.json', 'tokenizer_config.json', 'tokenizer.tiktoken', 'tokenizer.tiktoken.json']
    #[pyo3(
        signature = (folder, *, formats=vec!["hf".to_owned()]),
        text_signature = "($self, folder, *, formats=['hf'])"
    )]
    fn save_pretrained(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        formats: Vec<String>,
    ) -> PyResult<Vec<PathBuf>> {
        let (tokenizer, settings) = (self.shared.to_read(), &self.settings);
        let formats: Result<Vec<Format>> = formats.iter().map(|format| format.parse()).collect();
        let formats = formats.or_raise(py)?;
        let save = |format| vocab::save(tokenizer.vocabulary(), format, &folder, settings, &Silent);
        let saved: Result<Vec<_>> = on_threads(py, None, || formats.into_iter().map(save).collect())?;
        saved.or_raise(py).map(|paths| paths.into_iter().flatten().collect())
    }

    /// Makes the content of the ``tokenizer.json``.
    ///
    /// Raises:
    ///     TokenmillError: A ``tokenizer.json`` cannot express the tokenizer.
    ///
    /// Example:
    ///     >>> import json
    ///     >>> json.loads(tokenizer.to_str())["model"]["type"]
    ///     'BPE'
    fn to_str(&self, py: Python<'_>) -> PyResult<String> {
        let json = on_threads(py, None, || self.json())?.or_raise(py)?;
        String::from_utf8(json).map_err(|cause| Error::failed(format!("not UTF-8: {cause}"))).or_raise(py)
    }

    /// Makes a tokenizer of transformers with the same ids and settings.
    ///
    /// Raises:
    ///     ImportError: transformers is not installed.
    ///     TokenmillError: A ``tokenizer.json`` cannot express the tokenizer.
    ///
    /// Example:
    ///     >>> tokenizer.to_transformers()("a woodchuck").input_ids
    ///     [97, 268]
    fn to_transformers<'py>(slf: &Bound<'py, Tokenizer>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("tokenmill.compat.hf")?.call_method1("to_transformers", (slf,))
    }

    /// Makes a ``tiktoken.Encoding`` with the same ids.
    ///
    /// Args:
    ///     name: The name of the encoding.
    ///
    /// Raises:
    ///     ImportError: tiktoken is not installed.
    ///     TokenmillError: Ranks and one regular expression cannot express the tokenizer.
    ///
    /// Example:
    ///     >>> tokenizer.as_tiktoken("wood").encode("a woodchuck")
    ///     [97, 268]
    #[pyo3(signature = (name="tokenmill"))]
    fn as_tiktoken<'py>(slf: &Bound<'py, Tokenizer>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("tokenmill.compat.tiktoken")?.call_method1("as_tiktoken", (slf, name))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        let special = self.shared.to_read().encoder().config().special;
        let json = on_threads(py, None, || self.json())?.or_raise(py)?;
        let settings = settings_to_json(&self.settings, special).or_raise(py)?;
        Ok((py.import("tokenmill._pickle")?.getattr("restore")?, (PyBytes::new(py, &json), settings)))
    }

    fn __repr__(&self) -> String {
        let tokenizer = self.shared.to_read();
        let split = tokenizer.vocabulary().split().to_string();
        let specials = tokenizer.vocabulary().specials().count();
        format!(
            "Tokenizer(vocab_size={}, split={split:?}, special_tokens={specials})",
            tokenizer.vocab_size()
        )
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Tokenizer>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("tokenmill._show")?.call_method1("tokenizer_html", (slf,))
    }
}

/// Decodes ids one by one, to text that never ends within a character. ``Tokenizer.decode_stream`` makes it.
///
/// Example:
///     >>> stream = tokenizer.decode_stream()
///     >>> print("".join(map(stream.push, [97, 268])) + stream.finish())
///     a woodchuck
#[pyclass(module = "tokenmill")]
pub(crate) struct DecodeStream(tokenmill::DecodeStream);

#[pymethods]
impl DecodeStream {
    /// Decodes the next id.
    ///
    /// Args:
    ///     id: The id.
    ///
    /// Returns:
    ///     The text that is complete with it, which may be empty.
    ///
    /// Raises:
    ///     TokenmillError: There is no token with such an id.
    ///
    /// Example:
    ///     >>> stream = tokenizer.decode_stream()
    ///     >>> stream.push(195), stream.push(169)
    ///     ('', 'é')
    fn push(&mut self, py: Python<'_>, id: u32) -> PyResult<String> {
        self.0.push(id).map(str::to_owned).or_raise(py)
    }

    /// Ends the text.
    ///
    /// Returns:
    ///     The rest of the text: U+FFFD if it ends within a character, else nothing.
    ///
    /// Example:
    ///     >>> stream = tokenizer.decode_stream()
    ///     >>> stream.push(195), stream.finish()
    ///     ('', '�')
    fn finish(&mut self) -> String {
        self.0.finish().to_owned()
    }
}
