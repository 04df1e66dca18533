//! The class `Tokenizer`.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyUnicodeDecodeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use tokenmill::encode::EncodeConfig;
use tokenmill::observer::Silent;
use tokenmill::vocab::{self, Format, LoadOptions, SpecialToken, WriteOptions};
use tokenmill::{Error, Result};

use crate::arrow::TokenStream;
use crate::errors::{OrRaise, usage, with_causes};
use crate::ids::{Ids, Ints, array};
use crate::loading::{
    Loaded, from_json, from_name, from_path, from_ranks, settings_to_json, special_policy, split_pattern,
};
use crate::pool::on_threads;
use crate::shared::Shared;
use crate::text::{Text, texts};
use crate::{arrow, job};

/// Bytes of text (32 MiB) that are encoded between two looks at signals.
const PORTION_BYTES: usize = 32 << 20;

/// A function and the arguments with which it makes a tokenizer again, as `pickle` keeps them.
type Reduced<'py> = (Bound<'py, PyAny>, (Bound<'py, PyBytes>, String));

/// Encodes texts to token ids, and decodes ids to text.
///
/// Any number of threads can use one tokenizer at the same time. It can be pickled, and used in forked processes.
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
struct Around {
    /// The id before it, if any.
    bos: Option<u32>,
    /// The id after it, if any.
    eos: Option<u32>,
}

impl Around {
    /// Adds them to the ids of a text.
    fn add_to(&self, mut ids: Vec<u32>) -> Vec<u32> {
        if let Some(bos) = self.bos {
            ids.insert(0, bos);
        }
        ids.extend(self.eos);
        ids
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
    fn ids(&self, py: Python<'_>, text: &Text, around: &Around) -> PyResult<Vec<u32>> {
        let using = self.shared.to_encode(py)?;
        let tokenizer = &using.tokenizer;
        py.detach(|| tokenizer.encode(text)).or_raise(py).map(|ids| around.add_to(ids))
    }

    /// Encodes texts on several threads, portion by portion, and gives the ids of each portion to `take`. Between them,
    /// signal handlers run.
    fn in_portions(
        &self,
        py: Python<'_>,
        texts: &[Text],
        threads: Option<usize>,
        mut take: impl FnMut(Vec<Vec<u32>>) -> PyResult<()>,
    ) -> PyResult<()> {
        let using = self.shared.to_encode(py)?;
        let tokenizer = &using.tokenizer;
        let mut row = 0;
        while row < texts.len() {
            let mut bytes = 0;
            let fits = |text: &&Text| {
                bytes += text.as_ref().len();
                bytes <= PORTION_BYTES
            };
            let portion = &texts[row..][..texts[row..].iter().take_while(fits).count().max(1)];
            let encoded = on_threads(py, threads, || {
                tokenizer.encode_batch(portion).map_err(|error| in_row(tokenizer, row, portion, error))
            })?;
            take(encoded.or_raise(py)?)?;
            row += portion.len();
            py.check_signals()?;
        }
        Ok(())
    }

    /// Ids as a list.
    fn list<'py>(&self, py: Python<'py>, ids: &[u32]) -> PyResult<Bound<'py, PyList>> {
        self.ints.list(py, ids, self.vocab_size())
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

    /// The bytes of tokens as text. Special tokens are left out if that is wanted.
    fn decoded<'py>(
        &self,
        py: Python<'py>,
        ids: &[u32],
        errors: &str,
        skip_special_tokens: bool,
    ) -> PyResult<Bound<'py, PyString>> {
        let bytes = self.bytes_of(py, ids, skip_special_tokens)?;
        if let Ok(text) = str::from_utf8(&bytes) {
            return Ok(PyString::new(py, text));
        }
        let text = PyBytes::new(py, &bytes).call_method1("decode", ("utf-8", errors));
        text.map_err(|error| not_text(py, error))?.cast_into().map_err(PyErr::from)
    }

    /// The bytes of tokens.
    fn bytes_of(&self, py: Python<'_>, ids: &[u32], skip_special_tokens: bool) -> PyResult<Vec<u8>> {
        let tokenizer = self.shared.to_read();
        py.detach(|| {
            if !skip_special_tokens {
                return tokenizer.decode(ids);
            }
            let is_special =
                |&id: &u32| tokenizer.vocabulary().special(tokenmill::TokenId::new(id)).is_some();
            tokenizer.decode(&ids.iter().copied().filter(|id| !is_special(id)).collect::<Vec<_>>())
        })
        .or_raise(py)
    }
}

/// The error of the first text of a portion that cannot be encoded, with its row among all texts.
fn in_row(tokenizer: &tokenmill::Tokenizer, first_row: usize, portion: &[Text], error: Error) -> Error {
    let failed = portion.iter().enumerate().find_map(|(row, text)| Some((row, tokenizer.count(text).err()?)));
    let Some((row, cause)) = failed else { return error };
    let row = first_row + row;
    let message = Error::message(cause.kind(), format!("the batch: row {row}: {}", with_causes(&cause)));
    match cause.help() {
        Some(help) => message.with_help(help.to_owned()),
        None => message,
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
    /// Loads a tokenizer from a file or folder: tokenizer.json, ranks of tiktoken, a minbpe .model, or vocab.json with
    /// merges.txt.
    ///
    /// `split` (a name or a regular expression) and `special_tokens` (texts with ids) say what the files do not. What
    /// texts that spell special tokens become is up to `special`: "text", "allow" (the token) or "forbid" (an error).
    #[staticmethod]
    #[pyo3(signature = (path, *, split=None, special_tokens=None, special="text"))]
    fn from_file(
        py: Python<'_>,
        path: PathBuf,
        split: Option<&str>,
        special_tokens: Option<Vec<(String, u32)>>,
        special: &str,
    ) -> PyResult<Tokenizer> {
        let named = |(text, id)| SpecialToken { text, id: Some(tokenmill::TokenId::new(id)) };
        let options = LoadOptions {
            format: None,
            split: split.map(split_pattern),
            special_tokens: special_tokens.into_iter().flatten().map(named).collect(),
        };
        Tokenizer::load(py, special, || from_path(&path, &options))
    }

    /// Loads a tokenizer from the content of a tokenizer.json.
    #[staticmethod]
    #[pyo3(signature = (json, *, special="text"))]
    fn from_str(py: Python<'_>, json: Text, special: &str) -> PyResult<Tokenizer> {
        Tokenizer::load(py, special, || from_json(json.as_ref()))
    }

    /// Loads a tokenizer of the Hugging Face hub ("org/name"), or a local or published one.
    ///
    /// Its files are downloaded, unless the hub's cache has them.
    #[staticmethod]
    #[pyo3(signature = (name, *, revision=None, token=None, special="text"))]
    fn from_pretrained(
        py: Python<'_>,
        name: &str,
        revision: Option<&str>,
        token: Option<String>,
        special: &str,
    ) -> PyResult<Tokenizer> {
        let special = special_policy(special).or_raise(py)?;
        let loaded = job::run(
            py,
            None,
            None,
            |_, _| Ok(()),
            |watcher| from_name(name, revision, token, watcher)?.tokenizer(special),
        )?;
        Ok(Tokenizer::new(loaded))
    }

    /// Makes a tokenizer from a pattern, ranks and special tokens; `from_tiktoken` takes them from an encoding.
    #[staticmethod]
    #[pyo3(signature = (pattern, ranks, special_tokens, *, special="text"))]
    fn from_ranks(
        py: Python<'_>,
        pattern: &str,
        ranks: Vec<(Vec<u8>, u32)>,
        special_tokens: Vec<(String, u32)>,
        special: &str,
    ) -> PyResult<Tokenizer> {
        Tokenizer::load(py, special, || from_ranks(pattern, ranks, special_tokens))
    }

    /// Makes a tokenizer from a tiktoken.Encoding.
    #[staticmethod]
    #[pyo3(signature = (encoding, *, special="text"))]
    fn from_tiktoken<'py>(encoding: &Bound<'py, PyAny>, special: &str) -> PyResult<Bound<'py, PyAny>> {
        encoding.py().import("tokenmill.compat.tiktoken")?.call_method1("from_tiktoken", (encoding, special))
    }

    /// The same tokenizer with another policy for the text of special tokens: "text", "allow" or "forbid".
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

    /// The ids of a text. `bos` and `eos` add the tokens that the tokenizer's settings name.
    #[pyo3(signature = (text, *, bos=false, eos=false))]
    fn encode<'py>(&self, py: Python<'py>, text: Text, bos: bool, eos: bool) -> PyResult<Bound<'py, PyList>> {
        let ids = self.ids(py, &text, &self.around(py, bos, eos)?)?;
        self.list(py, &ids)
    }

    /// The ids of a text as an array of NumPy, dtype uint32.
    #[pyo3(signature = (text, *, bos=false, eos=false))]
    fn encode_to_numpy<'py>(
        &self,
        py: Python<'py>,
        text: Text,
        bos: bool,
        eos: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let ids = self.ids(py, &text, &self.around(py, bos, eos)?)?;
        array(py, &ids, "uint32", u32::to_ne_bytes)
    }

    /// The ids of each text, encoded on several threads.
    #[pyo3(signature = (texts, *, bos=false, eos=false, threads=None))]
    fn encode_batch<'py>(
        &self,
        py: Python<'py>,
        texts: &Bound<'py, PyAny>,
        bos: bool,
        eos: bool,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyList>> {
        let (texts, around) = (self::texts(texts)?, self.around(py, bos, eos)?);
        let mut rows = Vec::with_capacity(texts.len());
        self.in_portions(py, &texts, threads, |encoded| {
            for ids in encoded {
                rows.push(self.list(py, &around.add_to(ids))?);
            }
            Ok(())
        })?;
        PyList::new(py, rows)
    }

    /// The ids of all texts as one array (uint32), and where each text begins and ends in it: an array (int64) of one
    /// number more than texts.
    #[pyo3(signature = (texts, *, bos=false, eos=false, threads=None))]
    fn encode_batch_flat<'py>(
        &self,
        py: Python<'py>,
        texts: &Bound<'py, PyAny>,
        bos: bool,
        eos: bool,
        threads: Option<usize>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (texts, around) = (self::texts(texts)?, self.around(py, bos, eos)?);
        let (mut all, mut offsets) = (Vec::new(), vec![0_usize]);
        self.in_portions(py, &texts, threads, |encoded| {
            for ids in encoded {
                all.extend(around.bos);
                all.extend_from_slice(&ids);
                all.extend(around.eos);
                offsets.push(all.len());
            }
            Ok(())
        })?;
        let offset = |offset: usize| i64::try_from(offset).unwrap_or(i64::MAX).to_ne_bytes();
        Ok((array(py, &all, "uint32", u32::to_ne_bytes)?, array(py, &offsets, "int64", offset)?))
    }

    /// Encodes a column of Arrow data: a table, a stream of record batches, or anything else with `__arrow_c_stream__`.
    ///
    /// The result is a stream of record batches with the columns `keep`, and the ids as `input_ids`, a list of int32 or
    /// `dtype`. It is encoded as it is read. Null texts have null ids.
    #[pyo3(
        signature = (data, *, column="text", keep=Vec::new(), dtype="int32", threads=None),
        text_signature = "($self, data, *, column='text', keep=(), dtype='int32', threads=None)"
    )]
    fn encode_arrow(
        slf: Py<Tokenizer>,
        data: &Bound<'_, PyAny>,
        column: &str,
        keep: Vec<String>,
        dtype: &str,
        threads: Option<usize>,
    ) -> PyResult<TokenStream> {
        arrow::encoded(slf, data, column, &keep, dtype, threads)
    }

    /// The number of ids of a text.
    fn count(&self, py: Python<'_>, text: Text) -> PyResult<usize> {
        let using = self.shared.to_encode(py)?;
        let tokenizer = &using.tokenizer;
        py.detach(|| tokenizer.count(&text)).or_raise(py)
    }

    /// The number of ids of each text, encoded on several threads.
    #[pyo3(signature = (texts, *, threads=None))]
    fn count_batch(
        &self,
        py: Python<'_>,
        texts: &Bound<'_, PyAny>,
        threads: Option<usize>,
    ) -> PyResult<Vec<usize>> {
        let texts = self::texts(texts)?;
        let mut counts = Vec::with_capacity(texts.len());
        self.in_portions(py, &texts, threads, |encoded| {
            counts.extend(encoded.iter().map(Vec::len));
            Ok(())
        })?;
        Ok(counts)
    }

    /// The text of ids. `errors` says what bytes that are not UTF-8 become, as for bytes.decode.
    #[pyo3(signature = (ids, *, errors="replace", skip_special_tokens=false))]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        ids: Ids,
        errors: &str,
        skip_special_tokens: bool,
    ) -> PyResult<Bound<'py, PyString>> {
        self.decoded(py, &ids.0, errors, skip_special_tokens)
    }

    /// The bytes of ids.
    #[pyo3(signature = (ids, *, skip_special_tokens=false))]
    fn decode_bytes<'py>(
        &self,
        py: Python<'py>,
        ids: Ids,
        skip_special_tokens: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.bytes_of(py, &ids.0, skip_special_tokens)?))
    }

    /// The text of each row of ids.
    #[pyo3(signature = (rows, *, errors="replace", skip_special_tokens=false))]
    fn decode_batch<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        errors: &str,
        skip_special_tokens: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let decoded = PyList::empty(py);
        for row in rows.try_iter()? {
            decoded.append(self.decoded(py, &row?.extract::<Ids>()?.0, errors, skip_special_tokens)?)?;
        }
        Ok(decoded)
    }

    /// Decodes ids that arrive one by one, to text that never ends within a character.
    fn decode_stream(&self) -> DecodeStream {
        DecodeStream(self.shared.to_read().decode_stream())
    }

    /// The id of the token with this text or these bytes, or None. For a special token, its text.
    fn token_to_id(&self, token: Text) -> Option<u32> {
        self.shared.to_read().id(&token)
    }

    /// The bytes of a token, for a special token those of its text; None if the id is not in use.
    fn id_to_token<'py>(&self, py: Python<'py>, id: u32) -> Option<Bound<'py, PyBytes>> {
        self.shared.to_read().token(id).map(|bytes| PyBytes::new(py, bytes))
    }

    /// All tokens with their ids. If several have the same bytes, the lowest id.
    fn get_vocab<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (tokenizer, tokens) = (self.shared.to_read(), PyDict::new(py));
        let mut highest_first: Vec<_> = tokenizer.vocabulary().tokens().collect();
        highest_first.reverse();
        for (id, bytes) in highest_first {
            tokens.set_item(PyBytes::new(py, bytes), id.get())?;
        }
        Ok(tokens)
    }

    /// The highest id plus one: the size of a table that is indexed by id.
    #[getter]
    fn vocab_size(&self) -> usize {
        self.shared.to_read().vocab_size()
    }

    /// The texts of the special tokens with their ids.
    #[getter]
    fn special_tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (tokenizer, tokens) = (self.shared.to_read(), PyDict::new(py));
        for token in tokenizer.vocabulary().specials() {
            tokens.set_item(&*token.text, token.id.get())?;
        }
        Ok(tokens)
    }

    /// The id of the token that begins a document, if the settings name one.
    #[getter]
    fn bos_token_id(&self) -> Option<u32> {
        self.shared.to_read().special_token(self.settings.bos.as_deref()?)
    }

    /// The id of the token that ends a document, if the settings name one.
    #[getter]
    fn eos_token_id(&self) -> Option<u32> {
        self.shared.to_read().special_token(self.settings.eos.as_deref()?)
    }

    /// What texts that spell special tokens become: "text", "allow" or "forbid".
    #[getter]
    fn special(&self) -> &'static str {
        self.shared.to_read().encoder().config().special.name()
    }

    /// A SHA-256 of everything that decides how text is encoded and decoded.
    #[getter]
    fn fingerprint(&self, py: Python<'_>) -> String {
        self.fingerprint.get_or_init(py, || self.shared.to_read().vocabulary().fingerprint()).clone()
    }

    /// The bytes of each token of a text. A notebook shows them in colours.
    fn pieces<'py>(slf: &Bound<'py, Tokenizer>, text: Text) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let ids = this.ids(py, &text, &Around { bos: None, eos: None })?;
        let tokenizer = this.shared.to_read();
        let bytes = ids.iter().map(|&id| PyBytes::new(py, tokenizer.token(id).unwrap_or_default()));
        py.import("tokenmill._show")?.call_method1("Pieces", (PyList::new(py, bytes)?,))
    }

    /// The ranks of tiktoken: the bytes of each token with its rank, which is its id, without special tokens.
    fn get_mergeable_ranks<'py>(&self, py: Python<'py>) -> PyResult<Vec<(Bound<'py, PyBytes>, u32)>> {
        let tokenizer = self.shared.to_read();
        let vocabulary = tokenizer.vocabulary();
        // It says whether ranks can hold the vocabulary.
        on_threads(py, None, || vocab::render(vocabulary, Format::Tiktoken, &WriteOptions::default()))?
            .or_raise(py)?;
        Ok(vocabulary.ordinary().map(|(id, bytes)| (PyBytes::new(py, bytes), id.get())).collect())
    }

    /// The regular expression that splits text, in the dialect of tiktoken and Python's regex.
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

    /// Writes the tokenizer into a folder in each of the formats "hf", "tiktoken", "minbpe" and "gpt2", and returns the
    /// paths of the files. A different tokenizer in the folder is not replaced.
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

    /// The content of the tokenizer.json.
    fn to_str(&self, py: Python<'_>) -> PyResult<String> {
        let json = on_threads(py, None, || self.json())?.or_raise(py)?;
        String::from_utf8(json).map_err(|cause| Error::failed(format!("not UTF-8: {cause}"))).or_raise(py)
    }

    /// The tokenizer as one of transformers, with the same ids and settings.
    fn to_transformers<'py>(slf: &Bound<'py, Tokenizer>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("tokenmill.compat.hf")?.call_method1("to_transformers", (slf,))
    }

    /// The tokenizer as a tiktoken.Encoding with the same ids.
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

/// Decodes ids one by one, to text that never ends within a character.
#[pyclass(module = "tokenmill")]
pub(crate) struct DecodeStream(tokenmill::DecodeStream);

#[pymethods]
impl DecodeStream {
    /// Decodes the next id, and returns the text that is complete with it, which may be empty.
    fn push(&mut self, py: Python<'_>, id: u32) -> PyResult<String> {
        self.0.push(id).map(str::to_owned).or_raise(py)
    }

    /// Ends the text: an incomplete character becomes U+FFFD.
    fn finish(&mut self) -> String {
        self.0.finish().to_owned()
    }
}
