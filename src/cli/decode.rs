//! `decode`: prints the texts of files of token ids, or compares them with the documents that were encoded.
//!
//! Texts are printed byte for byte, since they are the result that other programs read.

use std::borrow::Cow;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tokenmill::base::int::to_u64;
use tokenmill::encode::{EncodeConfig, Encoder, MissingBytes, Worker};
use tokenmill::run::Inputs;
use tokenmill::run::recipe::Command;
use tokenmill::sink::{Declaration, Manifest, STATE_FOLDER, TokenReader};
use tokenmill::source::{Batch, Documents};
use tokenmill::vocab::{Vocabulary, load};
use tokenmill::{Error, ErrorKind, Observer, Result, TokenId};

use super::args::DecodeArgs;
use super::failure::Failure;
use super::flags;
use super::inspect::check_local;
use super::progress::Progress;
use super::session::{Done, Session, open_context, printing, results, tokenizer};
use super::terminal::with_unit;

/// Runs `decode`: prints the text of each row on a line, or as a JSON object with `--json`. With `--verify`, compares
/// the rows with the original documents instead.
///
/// Null rows are empty lines; with `--json`, their text is null. Without `--json`, a text that has line breaks takes
/// several lines. `--split-name` is required if an output folder has several splits.
///
/// **Memory:** a batch of rows.
///
/// # Errors
/// A file cannot be read or declares another tokenizer, a row has an id without a token, or `--verify` finds a
/// difference ([`ErrorKind::Mismatch`]).
pub(super) fn decode(args: &DecodeArgs, session: &Session<'_>) -> Result<Done, Failure> {
    args.files.iter().try_for_each(|file| check_local(file))?;
    let progress = session.progress();
    let vocabulary =
        load(&tokenizer(&args.tokenizer.tokenizer, &progress)?, &args.tokenizer.split.options(), &progress)?;
    let split = args.split_name.as_deref();
    args.files.iter().filter(|_| split.is_none()).try_for_each(|file| has_one_split(file))?;
    args.files.iter().try_for_each(|file| note_if_incomplete(file, &progress))?;
    let fingerprint = vocabulary.fingerprint();
    let rows = TokenRows { files: &args.files, split, fingerprint, vocabulary: vocabulary.into() };
    match &args.verify[..] {
        inputs @ [_, ..] => verify(&rows, args, inputs, session, &progress),
        [] => {
            progress.make_way();
            let mut out = results();
            let json = session.json();
            rows.each(&progress, &mut |text| {
                let line =
                    if json { Cow::from(json_line(text)) } else { Cow::from(text.unwrap_or_default()) };
                out.write_all(&line).and_then(|()| out.write_all(b"\n")).map_err(printing)
            })?;
            out.flush().map_err(printing)?;
            Ok(Done::Whole)
        }
    }
}

/// Returns a document as a JSON object: its text, or its bytes if they are not UTF-8. For a null row, `None`, the
/// text is null. Bytes are a list of numbers.
pub(super) fn json_line(text: Option<&[u8]>) -> Vec<u8> {
    let object = match text.map(std::str::from_utf8) {
        Some(Err(_)) => json!({ "bytes": text }),
        valid => json!({ "text": valid.and_then(std::result::Result::ok) }),
    };
    object.to_string().into_bytes()
}

/// Compares the rows with the documents of `inputs`, one after another, for `--verify`.
///
/// Both sides are read as streams, row by row. If decoding does not restore texts exactly, for example because the
/// tokenizer normalizes them, each document is encoded and decoded before it is compared. The messages and
/// `text_kept` say so.
///
/// # Errors
/// A row differs, or one side has more rows ([`ErrorKind::Mismatch`]); rows are packed; or something cannot be read.
fn verify(
    rows: &TokenRows<'_>,
    args: &DecodeArgs,
    inputs: &[String],
    session: &Session<'_>,
    progress: &Progress,
) -> Result<Done, Failure> {
    let tells_nulls = rows.are_documents()?;
    let plan = session.plan(flags::reading(Command::Read, inputs, &args.read))?;
    let input = Inputs::open(&plan, &open_context(&plan, progress))?;
    let encoder = rows.encoder()?;
    let remaking = encoder.as_ref().map(|encoder| (encoder.worker(), &*rows.vocabulary));
    let mut original = DocumentCursor::of(&input, tells_nulls, remaking);
    let (mut count, mut text_bytes) = (0_u64, 0);
    let compared = rows.each(progress, &mut |text| {
        text_bytes += to_u64(text.map_or(0, <[u8]>::len));
        original.compare(count, text)?;
        count += 1;
        Ok(())
    });
    session.or_told(compared.and_then(|()| original.end(count)), "identical")?;
    if session.json() {
        let text_kept = encoder.is_none();
        session.print_json(&json!({
            "identical": true, "text_kept": text_kept, "rows": count, "text_bytes": text_bytes,
        }))?;
    }
    let identical = match &encoder {
        None => "identical",
        Some(_) => "identical to the texts as this tokenizer changes them",
    };
    session.say(&format!("{identical}: {}, {}", with_unit(count, "row"), with_unit(text_bytes, "byte")));
    Ok(session.done(input.skipped(progress)))
}

/// Refuses an output folder with several splits, since their rows would be mixed. Single files and folders without a
/// manifest are accepted.
///
/// # Errors
/// The folder has several splits ([`ErrorKind::Usage`]), or its manifest cannot be read.
fn has_one_split(file: &str) -> Result<()> {
    let folder = Path::new(file);
    let manifest = if folder.is_dir() { Manifest::read(folder)? } else { None };
    let names = manifest.as_ref().map(Manifest::split_names).unwrap_or_default();
    if names.len() > 1 {
        return Err(Error::usage(format!("{file} has several splits: {}", names.join(", ")))
            .with_help("name one with --split-name"));
    }
    Ok(())
}

/// Tells that an output folder is not complete, so that the rows of its finished files are not taken for all rows.
///
/// # Errors
/// The manifest cannot be read.
fn note_if_incomplete(file: &str, observer: &dyn Observer) -> Result<()> {
    let folder = Path::new(file);
    if folder.join(STATE_FOLDER).is_dir() && Manifest::read(folder)?.is_none() {
        observer.noted(&format!(
            "{file} is not complete: only its finished files are read; the same `run` or `encode` command finishes it"
        ));
    }
    Ok(())
}

/// The rows of files of token ids. They are numbered from 0 within each file in error messages, and across all files
/// in comparisons.
struct TokenRows<'a> {
    /// Files of token ids, or output folders, in order.
    files: &'a [String],
    /// The split to read from output folders that hold several.
    split: Option<&'a str>,
    /// Shared with the encoder that remakes documents.
    vocabulary: Arc<Vocabulary>,
    /// The vocabulary's fingerprint, to compare with those that files declare.
    fingerprint: String,
}

impl TokenRows<'_> {
    /// Returns an encoder with the settings of the rows, if decoding does not restore texts exactly. The rows are
    /// then compared with the encoded and decoded documents.
    ///
    /// The first file decides the policies for special tokens and for bytes without a token. `None` if decoding
    /// restores all texts: the tokenizer changes no text, and either every byte has a token or such bytes were an
    /// error.
    fn encoder(&self) -> Result<Option<Encoder>> {
        let (keeps_text, lacks_bytes) =
            (self.vocabulary.keeps_text(), !self.vocabulary.missing_bytes().is_empty());
        if keeps_text && !lacks_bytes {
            return Ok(None);
        }
        let Some(file) = self.files.first() else { return Ok(None) };
        let reader = TokenReader::open_split(Path::new(file), self.split)?;
        let missing_bytes =
            reader.declaration().map_or(MissingBytes::default(), |declaration| declaration.missing_bytes);
        if keeps_text && missing_bytes == MissingBytes::Error {
            return Ok(None);
        }
        let special = reader.declaration().map(|declaration| json!(declaration.special));
        let special = special.and_then(|word| serde_json::from_value(word).ok()).unwrap_or_default();
        Encoder::new(
            Arc::clone(&self.vocabulary),
            EncodeConfig { special, missing_bytes, ..EncodeConfig::default() },
        )
        .map(Some)
    }

    /// Returns whether all files distinguish null documents from empty ones.
    ///
    /// # Errors
    /// Rows are packed, so that they do not show where documents begin and end.
    fn are_documents(&self) -> Result<bool> {
        let mut tells_nulls = true;
        for file in self.files {
            let reader = TokenReader::open_split(Path::new(file), self.split)?;
            tells_nulls &= reader.tells_nulls();
            if reader.declaration().is_some_and(|declaration| declaration.pack.is_some()) {
                let problem =
                    format!("{file} is packed: its rows are not documents, and cannot be compared with them");
                return Err(Error::usage(problem).with_help(
                    "encode without packing to compare; `verify` compares packed files with their manifest",
                ));
            }
        }
        Ok(tells_nulls)
    }

    /// Calls `take` with the text of each row; `None` is a null row. Tokens that the files declare to be around
    /// documents are left out.
    ///
    /// The text is overwritten by the next row, so `take` must copy the bytes that it needs later.
    ///
    /// # Errors
    /// A file cannot be read or decoded, or declares another tokenizer; `take` fails; or the observer asks to stop.
    fn each(&self, observer: &dyn Observer, take: &mut dyn FnMut(Option<&[u8]>) -> Result<()>) -> Result<()> {
        let mut text = Vec::new();
        for file in self.files {
            let reader = TokenReader::open_split(Path::new(file), self.split)?;
            let declaration = reader.declaration().cloned();
            let mut row = 0_u64;
            self.same_tokenizer(file, declaration.as_ref())?;
            for batch in reader {
                observer.checkpoint()?;
                for ids in batch?.iter() {
                    row += 1;
                    let Some(ids) = ids else {
                        take(None)?;
                        continue;
                    };
                    text.clear();
                    let decoded = self.vocabulary.decode(document(&ids, declaration.as_ref()), &mut text);
                    decoded.map_err(|cause| not_decoded(file, row - 1, cause))?;
                    take(Some(&text))?;
                }
            }
        }
        Ok(())
    }

    /// Refuses a file that declares another tokenizer. Files of other programs declare none and are accepted.
    fn same_tokenizer(&self, file: &str, declaration: Option<&Declaration>) -> Result<()> {
        match declaration {
            // The fingerprint is empty if the file declares none.
            Some(Declaration { tokenizer, .. })
                if !tokenizer.is_empty() && *tokenizer != self.fingerprint =>
            {
                let given = &self.fingerprint;
                let problem = format!("{file} was encoded with another tokenizer ({tokenizer}, not {given})");
                Err(Error::message(ErrorKind::Mismatch, problem).with_help(ITS_TOKENIZER))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the ids of a row without the BOS and EOS tokens that encoding added. Packed rows are returned whole, since
/// these tokens are between documents there.
///
/// Each is removed at most once, and only in the place where encoding puts it. A document that itself ends with the
/// id of EOS keeps that one.
fn document<'a>(mut ids: &'a [TokenId], declaration: Option<&Declaration>) -> &'a [TokenId] {
    let Some(declaration) = declaration.filter(|declaration| declaration.pack.is_none()) else { return ids };
    if let (Some(bos), Some((first, rest))) = (&declaration.bos, ids.split_first())
        && *first == bos.id
    {
        ids = rest;
    }
    if let (Some(eos), Some((last, rest))) = (&declaration.eos, ids.split_last())
        && *last == eos.id
    {
        ids = rest;
    }
    ids
}

/// The documents that were encoded, one after another. It is a cursor that starts before the first document and moves
/// with [`advance`](DocumentCursor::advance).
struct DocumentCursor<'a> {
    /// It describes the places of documents for errors.
    input: &'a Inputs<'a>,
    /// The batches that were not taken yet.
    documents: Documents<'static>,
    /// The batch that holds the current document.
    batch: Option<Batch>,
    /// The row of the current document in the batch.
    row: usize,
    /// Whether the rows distinguish null documents from empty ones.
    tells_nulls: bool,
    /// Encodes and decodes documents before they are compared, if decoding does not restore them exactly.
    remaking: Option<(Worker<'a>, &'a Vocabulary)>,
}

impl<'a> DocumentCursor<'a> {
    /// Nothing is read yet. The arguments are those of the fields with the same names.
    fn of(
        input: &'a Inputs<'a>,
        tells_nulls: bool,
        remaking: Option<(Worker<'a>, &'a Vocabulary)>,
    ) -> DocumentCursor<'a> {
        DocumentCursor { input, documents: input.documents(), batch: None, row: 0, tells_nulls, remaking }
    }

    /// Advances to the next document. Returns `false` after the last.
    fn advance(&mut self) -> Result<bool> {
        self.row += 1;
        while self.batch.as_ref().is_none_or(|batch| self.row >= batch.len()) {
            match self.documents.next() {
                Some(batch) => (self.batch, self.row) = (Some(batch?), 0),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Compares the next document with the text of a row. The error names the row, the document's place and the first
    /// byte that differs.
    ///
    /// If the rows do not distinguish null documents, a null document counts as an empty text.
    ///
    /// # Errors
    /// The texts differ or no document is left ([`ErrorKind::Mismatch`]), or the document cannot be read or encoded.
    fn compare(&mut self, row: u64, text: Option<&[u8]>) -> Result<()> {
        if !self.advance()? {
            return Err(mismatch(format!("the input ends before row {row}")));
        }
        let Some(batch) = &self.batch else { return Ok(()) };
        let document = batch.iter().nth(self.row).flatten();
        let document = document.or((!self.tells_nulls).then_some(&[]));
        let mut remade = Vec::new();
        let document = match (&mut self.remaking, document) {
            (Some((worker, vocabulary)), Some(document)) => {
                vocabulary.decode(worker.encode(document)?, &mut remade)?;
                Some(&*remade)
            }
            _ => document,
        };
        if document == text {
            return Ok(());
        }
        let place = self.input.place(batch, self.row);
        let at = match (document, text) {
            (Some(document), Some(text)) => document.iter().zip(text).take_while(|(a, b)| a == b).count(),
            _ => 0,
        };
        Err(mismatch(format!("row {row} decodes to a text that differs from {place}, from byte {at} on")))
    }

    /// Checks that no document is left after `rows` rows.
    ///
    /// # Errors
    /// A document is left ([`ErrorKind::Mismatch`]), or the input cannot be read.
    fn end(&mut self, rows: u64) -> Result<()> {
        if !self.advance()? {
            return Ok(());
        }
        let place = self.batch.as_ref().map_or_else(String::new, |batch| self.input.place(batch, self.row));
        Err(mismatch(format!("the files have {rows} rows, but the input continues with {place}")))
    }
}

/// Returns the error for a row with ids that cannot be decoded. The row counts from 0 within the file.
fn not_decoded(file: &str, row: u64, cause: Error) -> Error {
    Error::caused(ErrorKind::Failed, format!("{file}: row {row} cannot be decoded"), cause)
        .with_help(ITS_TOKENIZER)
}

/// The advice if a file was encoded with another tokenizer than the one that is given.
const ITS_TOKENIZER: &str = "name the tokenizer that encoded it; `run` keeps it in the folder `tokenizer`";

/// Returns the error for texts that differ. The help names the usual cause: other flags than for encoding.
fn mismatch(problem: String) -> Error {
    Error::message(ErrorKind::Mismatch, problem).with_help(
        "name the same inputs, not a recipe, and the same flags for documents and sampling, as for encoding",
    )
}
