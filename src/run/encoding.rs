//! Encodes the documents of a plan into the data files of an output folder, and collects what the report shows of
//! single documents.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use arrow::datatypes::FieldRef;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::inputs::{Inputs, ReadBy};
use super::plan::{DEFAULT_FILE_TEXT_BYTES, EncodePlan, EncodedDocuments, Plan};
use super::state::JobState;
use crate::base::int::{ByteCount, TokenId, to_u64, u64_to_usize, with_unit};
use crate::encode::{EncodeConfig, Encoder, TokenBatch, encode_batches};
use crate::error::{Error, Result};
use crate::observer::{Observer, Stage};
use crate::report::{SampleDocument, ShownToken};
use crate::sink::{
    DatasetConfig, DatasetWriter, Declaration, DeclaredToken, DocumentSpan, FilePlan, FileStore,
    InBackground, Manifest, OutputFolder, OutputFormat, Reused, RowTotals, UnsupportedColumn,
    columns_datasets_cannot_read, dropped_annotations, output_schema,
};
use crate::source::{Documents, SkippedRows, UnitSkips};
use crate::vocab::Vocabulary;

/// The result of encoding: the data files are written, and the manifest is yet to be written.
pub(super) struct Encoded {
    /// The manifest of the data files. The job adds the inputs, the tokenizer files and the reports before it writes
    /// the manifest.
    pub(super) manifest: Manifest,
    /// Totals of all data files, including those that an earlier run wrote.
    pub(super) contents: RowTotals,
    /// Bytes of text that an earlier run encoded.
    pub(super) reused_bytes: u64,
    /// The documents that the report shows.
    pub(super) samples: Vec<SampleDocument>,
}

/// Where data files go.
#[derive(Clone, Copy)]
pub(super) struct OutputPlace<'a> {
    /// The output folder, locked.
    pub(super) folder: &'a OutputFolder,
    /// The place to which complete data files move from there; `None` if they stay.
    pub(super) store: Option<&'a dyn FileStore>,
}

/// Encodes the documents that the plan selects and writes the data files. Files and row groups that an
/// earlier run of the same job wrote are kept.
///
/// `state` identifies the job: the files of another job are never continued. If all documents are encoded, each unit
/// has its own identity in the manifest. A sample counts as one unit with the identity of the whole input.
///
/// The observer gets notes about columns that readers may not support, about reused files, and about an empty result.
///
/// # Errors
/// - Errors from reading, encoding and writing.
/// - The input changed since it was first identified.
pub(super) fn encode(
    plan: &Plan,
    encode: &EncodePlan,
    vocabulary: &Arc<Vocabulary>,
    inputs: &Inputs<'_>,
    OutputPlace { folder, store }: OutputPlace<'_>,
    state: &JobState,
    observer: &dyn Observer,
) -> Result<Encoded> {
    thread::scope(|scope| {
        let background = store.map(|store| InBackground::new(scope, store));
        let store = background.as_ref().map(|background| {
            let store: &dyn FileStore = background;
            store
        });
        let place = OutputPlace { folder, store };
        encode_files(plan, encode, vocabulary, inputs, place, state, observer)
    })
}

/// Encodes into data files that stay in the folder, or move to a store that may do so meanwhile.
///
/// # Errors
/// Those of [`encode`].
fn encode_files(
    plan: &Plan,
    encode: &EncodePlan,
    vocabulary: &Arc<Vocabulary>,
    inputs: &Inputs<'_>,
    OutputPlace { folder, store }: OutputPlace<'_>,
    state: &JobState,
    observer: &dyn Observer,
) -> Result<Encoded> {
    let encoder = encoder(encode, vocabulary)?.numbering_units_from(inputs.first_units());
    let is_complete = encodes_all(encode, inputs);
    let config = dataset_config(plan, encode, &encoder, inputs, state.fingerprint())?;
    note_columns(&config.columns, observer)?;
    let mut small_files = SmallFiles::new(encode, config.plan.names(), observer);
    let mut writer = DatasetWriter::create_moving(folder, store, config, observer)?;
    let text_bytes = inputs.text_bytes().filter(|_| is_complete);
    let reused_bytes = writer.reused().text_bytes;
    let remaining = text_bytes.map(|all| all.saturating_sub(reused_bytes));
    observer.started(Stage::Encode, remaining);
    note_reused(writer.reused(), observer);
    let encoder = encoder.expecting(ByteCount(remaining.unwrap_or(0))).within(inputs.memory());
    let mut shown_documents =
        ShownDocuments::new(is_complete.then_some(inputs.skipped_rows()), &writer.reused().remarks);
    // The file of a sampled row is not known.
    let name = |source, unit| match is_complete {
        true => inputs.unit_name(source, unit),
        false => inputs.sample_name(source),
    };
    for span in writer.missing() {
        let DocumentSpan { from, documents, .. } = writer.begin(span)?;
        shown_documents.set_unit(from.source, from.unit);
        let all = match is_complete {
            true => inputs.all_from(from.source, from.unit),
            false => inputs.sampled(ReadBy::Readers),
        };
        let documents = skip_and_take(inputs.join_parts(all), from.row, documents);
        // The documents of a sample can come from any unit at any time, so their rows are numbered through the whole
        // sample.
        let mut position = from.row;
        encode_batches(documents, &encoder, name, observer, |batch| {
            let units = |source| inputs.units_of(source);
            let show = |id| shown_token(vocabulary, id);
            // Before the batch is written, so that its remarks are stored with it.
            let remarks = shown_documents.observe_batch(&batch, units, name, show);
            remarks.into_iter().for_each(|remark| writer.remark(remark));
            small_files.observe_batch(&batch);
            let row = position;
            position += to_u64(batch.len());
            if is_complete { writer.write(batch) } else { writer.write_sampled(row, batch) }
        })?;
        writer.end(span)?;
    }
    writer.set_skipped_inputs(inputs.skipped_rows().count());
    let (manifest, contents) = if is_complete {
        let identities = inputs.identities_now()?;
        writer.finish(|source, unit| Ok(identities[source][unit].clone()))
    } else {
        inputs.check_unchanged()?;
        writer.finish(|_, _| Ok(inputs.as_one_identity(&state.inputs)))
    }?;
    observer.finished(Stage::Encode);
    note_empty_input(&contents, inputs, is_complete, observer);
    note_bin_format(encode, to_u64(vocabulary.id_limit()), &contents, observer);
    Ok(Encoded { manifest, contents, reused_bytes, samples: shown_documents.finish() })
}

/// Gives the observer notes about columns that readers of the output cannot read, and about annotations that it lacks.
///
/// # Errors
/// A column cannot be written.
fn note_columns(columns: &[FieldRef], observer: &dyn Observer) -> Result<()> {
    for UnsupportedColumn { column, what, by_card } in columns_datasets_cannot_read(&*output_schema(columns)?)
    {
        observer.noted(&match by_card {
            true => format!(
                "Hugging Face `datasets` reads column {column:?}, which has {what}, only with the dataset \
                 card: load the folder, not its files"
            ),
            false => format!(
                "Hugging Face `datasets` cannot read column {column:?}, which has {what}, nor files with \
                 that column; pyarrow, DuckDB and polars can"
            ),
        });
    }
    for (name, what) in dropped_annotations(columns) {
        observer.noted(&format!(
            "column {name:?} is written without {}; its values are kept",
            what.join(" and ")
        ));
    }
    Ok(())
}

/// Checks that one output can hold the new split beside its existing splits, before anything is removed.
///
/// # Errors
/// - The splits differ in tokenizer, format, packing, columns, or the treatment of special tokens.
/// - The plan names a token that the vocabulary lacks.
/// - A file of another split cannot be read.
pub(super) fn check_dataset_splits(
    plan: &Plan,
    encode: &EncodePlan,
    vocabulary: &Arc<Vocabulary>,
    inputs: &Inputs<'_>,
    folder: &OutputFolder,
    state: &JobState,
) -> Result<()> {
    let encoder = encoder(encode, vocabulary)?;
    dataset_config(plan, encode, &encoder, inputs, state.fingerprint())?.check_splits(folder)
}

/// The encoder for a plan, with the special tokens that the plan puts around documents.
///
/// # Errors
/// The vocabulary lacks one of them, or cannot be used for encoding.
pub(super) fn encoder(encode: &EncodePlan, vocabulary: &Arc<Vocabulary>) -> Result<Encoder> {
    let tokens = added_tokens(encode, vocabulary)?;
    Encoder::new(Arc::clone(vocabulary), tokens.config(encode))
}

/// Whether all documents are encoded, in the order of the sources, and not only a sample of them.
pub(super) fn encodes_all(encode: &EncodePlan, inputs: &Inputs<'_>) -> bool {
    encode.documents == EncodedDocuments::All || inputs.sample_is_everything()
}

/// How the data files of a job are written. `job` is its fingerprint, which the manifest records.
///
/// The estimate of disk space passes an empty `job`, since it writes no manifest.
///
/// # Errors
/// - Two sources give a column types without a common type.
/// - The name of the split is not allowed: see [`is_split_name`](crate::sink::is_split_name).
pub(super) fn dataset_config(
    plan: &Plan,
    encode: &EncodePlan,
    encoder: &Encoder,
    inputs: &Inputs<'_>,
    job: String,
) -> Result<DatasetConfig> {
    let is_complete = encodes_all(encode, inputs);
    Ok(DatasetConfig {
        job,
        plan: file_plan(encode, inputs, is_complete)?,
        units: if is_complete { inputs.units() } else { vec![vec![inputs.as_one_unit()]] },
        columns: inputs.columns()?,
        ids: to_u64(encoder.vocabulary().id_limit()),
        compression: encode.compression,
        declaration: Declaration {
            recipe: plan.recipe_hash.clone(),
            pack: encode.pack,
            ..Declaration::of(encoder)
        },
    })
}

/// If there were no documents, or only null ones, tells the observer the probable cause.
fn note_empty_input(contents: &RowTotals, inputs: &Inputs<'_>, is_complete: bool, observer: &dyn Observer) {
    if contents.documents == 0 && !is_complete {
        observer.noted(&format!("the sample has no documents: {}", inputs.why_sample_is_empty()));
    } else if let Some(part) = inputs.part().filter(|_| contents.documents == 0) {
        observer.noted(&format!("shard {} has no documents", part.shard));
    } else if contents.documents == 0 {
        observer.noted("the input has no documents: check that it is the right input");
    } else if contents.null_documents == contents.documents {
        observer.noted("all documents are null: check that the column or field of the text is the right one");
    }
}

/// Bytes of text in a file (1 MB) below which many of them are a burden: opening a file takes longer than reading it.
const SMALL_FILE: ByteCount = ByteCount(1_000_000);

/// Number of small files above which a note says so.
const MANY_FILES: u64 = 1_000;

/// Notices that `file_text_bytes` makes many small files, and says so once.
struct SmallFiles<'a> {
    /// Bytes of text per file, about.
    file_text_bytes: ByteCount,
    /// Number of documents so far.
    documents: u64,
    /// Bytes of text so far.
    text_bytes: u64,
    /// Gets the note. `None` once it has it, and if files are large.
    observer: Option<&'a dyn Observer>,
}

impl<'a> SmallFiles<'a> {
    /// `names` are the files, if their number is known beforehand.
    fn new(encode: &EncodePlan, names: Option<Vec<String>>, observer: &'a dyn Observer) -> SmallFiles<'a> {
        let file_text_bytes = encode.file_text_bytes;
        let is_small = !encode.one_file && file_text_bytes < SMALL_FILE;
        let observer = is_small.then_some(observer);
        let mut small_files = SmallFiles { file_text_bytes, documents: 0, text_bytes: 0, observer };
        if let Some(names) = names {
            small_files.note_if_many(to_u64(names.len()));
            small_files.observer = None;
        }
        small_files
    }

    /// Counts the documents of a batch. Each file has at least one, and all but the last are full.
    fn observe_batch(&mut self, batch: &TokenBatch) {
        self.documents += to_u64(batch.len());
        self.text_bytes += batch.text_bytes;
        self.note_if_many(self.documents.min(self.text_bytes / self.file_text_bytes.0));
    }

    /// Tells the observer if this number of files is above [`MANY_FILES`].
    fn note_if_many(&mut self, files: u64) {
        if files > MANY_FILES
            && let Some(observer) = self.observer.take()
        {
            observer.noted(&format!(
                "more than {MANY_FILES} data files of about {} of text each: so many small files are slow to open and \
                 to copy. Raise `file_text_bytes` (--file-text-bytes); without it, files have about {}",
                self.file_text_bytes, DEFAULT_FILE_TEXT_BYTES,
            ));
        }
    }
}

/// Tells the observer about properties of a `.bin` file that its readers may not expect.
fn note_bin_format(encode: &EncodePlan, ids: u64, contents: &RowTotals, observer: &dyn Observer) {
    if encode.format != OutputFormat::Bin {
        return;
    }
    if ids > 1 << 16 {
        observer.noted(&format!(
            "the .bin has 32 bits per id, because the tokenizer has {ids} ids: read it as np.uint32, where \
             nanoGPT uses np.uint16"
        ));
    }
    if contents.tokens == 0 {
        observer.noted("the .bin has no ids: nanoGPT and others cannot map an empty file");
    } else if encode.bos.is_none() && encode.eos.is_none() && contents.documents > 1 {
        observer.noted(
            "no token separates the documents in the .bin, and only the .idx says where they end: name an \
             end token (`eos`), as nanoGPT expects",
        );
    }
}

/// Tells the observer how much of an earlier run is kept.
fn note_reused(reused: &Reused, observer: &dyn Observer) {
    let &Reused { files, row_groups, text_bytes, .. } = reused;
    if text_bytes > 0 {
        let data_files = with_unit(to_u64(files), "data file");
        let groups = with_unit(to_u64(row_groups), "row group");
        let completed = match (files, row_groups) {
            (0, _) => groups,
            (_, 0) => data_files,
            _ => format!("{data_files} and {groups} of another"),
        };
        observer.noted(&format!(
            "continuing an earlier run: it completed {completed}, with {} of text",
            ByteCount(text_bytes)
        ));
    }
}

/// The data files to write. Their borders are fixed in advance if all documents are encoded and the text of every
/// unit has a known size. Otherwise a new file begins when one is full.
///
/// # Errors
/// The name of the split is not allowed: see [`is_split_name`](crate::sink::is_split_name).
fn file_plan(encode: &EncodePlan, inputs: &Inputs<'_>, is_complete: bool) -> Result<FilePlan> {
    if is_complete && inputs.text_bytes().is_some() {
        FilePlan::of_units(&inputs.units(), &encode.split_name, encode.file_text_bytes.0)
    } else {
        FilePlan::rolling(&encode.split_name, encode.file_text_bytes.0)
    }
    .map(|plan| plan.with_format(encode.format))
    .map(|plan| if encode.one_file { plan.in_one_file() } else { plan })
}

/// The special tokens that are put around every document.
pub(super) struct AddedTokens {
    /// The BOS token before each document; `None` if the plan adds none.
    pub(super) bos: Option<DeclaredToken>,
    /// The EOS token after each document; `None` if the plan adds none.
    pub(super) eos: Option<DeclaredToken>,
}

impl AddedTokens {
    /// The configuration of an encoder that adds these tokens and treats text as the plan says.
    fn config(&self, encode: &EncodePlan) -> EncodeConfig {
        let id = |token: &Option<DeclaredToken>| token.as_ref().map(|token| token.id);
        let &EncodePlan { special, missing_bytes, dropout, .. } = encode;
        EncodeConfig { special, bos: id(&self.bos), eos: id(&self.eos), missing_bytes, dropout }
    }
}

/// Finds the BOS and EOS tokens that a plan names.
///
/// # Errors
/// The vocabulary has no special token of that text.
pub(super) fn added_tokens(encode: &EncodePlan, vocabulary: &Vocabulary) -> Result<AddedTokens> {
    let find = |name: &Option<String>| -> Result<Option<DeclaredToken>> {
        let Some(text) = name else { return Ok(None) };
        let found = vocabulary.specials().find(|special| special.text == *text);
        let found = found.ok_or_else(|| {
            let tokenizer = encode.tokenizer.as_deref().unwrap_or(Path::new("the tokenizer")).display();
            let known: Vec<&str> = vocabulary.specials().map(|special| special.text.as_str()).collect();
            let help = match known.as_slice() {
                [] => "it has no special tokens: name them when it is trained ([train] special_tokens)"
                    .to_owned(),
                known => format!("it has {}", known.join(", ")),
            };
            Error::usage(format!("{tokenizer} has no special token {text:?}")).with_help(help)
        })?;
        Ok(Some(DeclaredToken { id: found.id, text: text.clone() }))
    };
    Ok(AddedTokens { bos: find(&encode.bos)?, eos: find(&encode.eos)? })
}

/// A token in readable form.
///
/// An id without a token is shown with no bytes.
pub fn shown_token(vocabulary: &Vocabulary, id: TokenId) -> ShownToken {
    match vocabulary.special(id) {
        Some(special) => ShownToken::special(id, &special.text),
        None => ShownToken::new(id, vocabulary.bytes(id).unwrap_or_default()),
    }
}

/// Maximum number of documents that the report shows.
const MAX_SHOWN_DOCUMENTS: usize = 6;

/// Number of tokens to show from the start of each document.
const SHOWN_TOKENS: usize = 60;
/// Number of tokens to show from the end of a document that has more.
const SHOWN_END_TOKENS: usize = 4;

/// Collects the documents that the report shows with their tokens, and the skipped rows of each unit. Documents that an
/// earlier run encoded are included.
///
/// The remarks that [`observe_batch`](ShownDocuments::observe_batch) returns have everything that a resumed run needs
/// to make the same report. At most [`MAX_SHOWN_DOCUMENTS`] documents are kept, with at most [`SHOWN_TOKENS`] +
/// [`SHOWN_END_TOKENS`] tokens each.
pub(super) struct ShownDocuments<'a> {
    /// The rows that were skipped, if units are encoded in order; `None` for a sample.
    skipped_rows: Option<&'a SkippedRows>,
    /// The unit of the next documents, by source and number.
    unit: (usize, usize),
    /// The documents to show, in the order in which they were encoded.
    documents: Vec<ShownDocument>,
    /// The skipped rows of each finished unit that has some.
    skipped_units: Vec<SkippedUnitRows>,
}

/// A remark in the journal of the output: what a resumed run must know of documents that it does not encode again.
///
/// The names of the variants are part of the stored form.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum DocumentRemark {
    /// A document to show.
    #[serde(rename = "document-sample")]
    ShownDocument(ShownDocument),
    /// The skipped rows of a finished unit.
    UnitSkips(SkippedUnitRows),
}

/// A document that the report shows, with its place.
///
/// The place is the key: a document that is encoded again is not shown twice.
#[derive(Clone, Serialize, Deserialize)]
struct ShownDocument {
    source: usize,
    unit: usize,
    row: u64,
    shown: SampleDocument,
}

/// The rows of a unit that were skipped because they could not be read. Source and unit are numbers, from 0.
#[derive(Clone, Serialize, Deserialize)]
struct SkippedUnitRows {
    source: usize,
    unit: usize,
    #[serde(flatten)]
    rows: UnitSkips,
}

impl<'a> ShownDocuments<'a> {
    /// Starts from the remarks of an earlier run; there are none for a new output.
    ///
    /// Unknown remarks are ignored.
    pub(super) fn new(skipped_rows: Option<&'a SkippedRows>, remarks: &[Value]) -> ShownDocuments<'a> {
        let (mut documents, mut skipped_units) = (Vec::new(), Vec::new());
        for remark in remarks {
            match DocumentRemark::deserialize(remark) {
                Ok(DocumentRemark::ShownDocument(document)) => documents.push(document),
                Ok(DocumentRemark::UnitSkips(unit)) => skipped_units.push(unit),
                // This should not happen: a journal of another version of the program has another key and counts as
                // empty.
                Err(_) => {}
            }
        }
        ShownDocuments { skipped_rows, unit: (0, 0), documents, skipped_units }
    }

    /// Announces that the next documents are of this unit or later ones.
    pub(super) fn set_unit(&mut self, source: usize, unit: usize) {
        self.unit = (source, unit);
    }

    /// Looks at a batch and returns the remarks to store before it is written. `units` gives the number of units of a
    /// source, `name` the name of a unit, and `show` a token in readable form.
    ///
    /// Batches must come in the order of the input. When a batch of a later unit comes, all units before it are
    /// complete, and their skipped rows become remarks.
    pub(super) fn observe_batch(
        &mut self,
        batch: &TokenBatch,
        units: impl Fn(usize) -> usize,
        name: impl Fn(usize, usize) -> String,
        show: impl Fn(TokenId) -> ShownToken,
    ) -> Vec<Value> {
        let mut remarks = Vec::new();
        while let Some(skipped_rows) = self.skipped_rows.filter(|_| self.unit < (batch.source, batch.unit)) {
            let (source, unit) = self.unit;
            let rows = skipped_rows.in_unit(source, unit);
            if rows.count > 0 {
                let skipped_unit = SkippedUnitRows { source, unit, rows };
                remarks.push(DocumentRemark::UnitSkips(skipped_unit.clone()));
                self.skipped_units.push(skipped_unit);
            }
            self.unit = if unit + 1 < units(source) { (source, unit + 1) } else { (source + 1, 0) };
        }
        let new_documents = self.show(batch, name, show);
        remarks.extend(new_documents.iter().cloned().map(DocumentRemark::ShownDocument));
        remarks.iter().map(|remark| serde_json::to_value(remark).expect("plain data")).collect()
    }

    /// Keeps the first documents that have tokens, in the form that the report shows, and returns the new ones.
    fn show(
        &mut self,
        batch: &TokenBatch,
        name: impl Fn(usize, usize) -> String,
        show: impl Fn(TokenId) -> ShownToken,
    ) -> &[ShownDocument] {
        let (source, unit) = (batch.source, batch.unit);
        let known = self.documents.len();
        for (row, span) in (batch.first_row..).zip(batch.spans()) {
            if self.documents.len() >= MAX_SHOWN_DOCUMENTS {
                break;
            }
            let Some(span) = span.filter(|span| !span.is_empty()) else { continue };
            let place = (source, unit, row);
            if self.documents[..known]
                .iter()
                .any(|document| (document.source, document.unit, document.row) == place)
            {
                continue;
            }
            let shown = |span| batch.ids.slice(span).iter().map(|&id| show(id)).collect();
            let first = span.end.min(span.start + SHOWN_TOKENS);
            let last = span.end.saturating_sub(SHOWN_END_TOKENS).max(first);
            let document = SampleDocument {
                unit: name(source, unit),
                row,
                tokens: to_u64(span.len()),
                first: shown(span.start..first),
                last: shown(last..span.end),
            };
            self.documents.push(ShownDocument { source, unit, row, shown: document });
        }
        &self.documents[known..]
    }

    /// Adds the rows that an earlier run skipped to the skipped rows of this run, and returns the documents to show: in
    /// the order of the input, or of the sample if there is one.
    pub(super) fn finish(mut self) -> Vec<SampleDocument> {
        if let Some(skipped_rows) = self.skipped_rows {
            for SkippedUnitRows { source, unit, rows } in &self.skipped_units {
                skipped_rows.restore(*source, *unit, rows);
            }
            self.documents.sort_by_key(|document| (document.source, document.unit, document.row));
        }
        self.documents.into_iter().map(|document| document.shown).collect()
    }
}

/// Skips `skip` documents and passes on at most `take` further ones. Batches must hold complete documents.
///
/// Nothing is read after the last document that is taken. Errors are passed on.
pub(super) fn skip_and_take(mut documents: Documents<'_>, mut skip: u64, take: Option<u64>) -> Documents<'_> {
    let mut remaining = take.unwrap_or(u64::MAX);
    Box::new(std::iter::from_fn(move || {
        while remaining > 0 {
            match documents.next()? {
                Ok(batch) => {
                    let from = skip.min(to_u64(batch.len()));
                    let rows = remaining.min(to_u64(batch.len()) - from);
                    skip -= from;
                    remaining -= rows;
                    if rows > 0 {
                        return Some(Ok(batch.slice(u64_to_usize(from), u64_to_usize(rows))));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
        None
    }))
}

#[cfg(test)]
mod tests {
    use arrow::array::BinaryViewArray;

    use super::*;
    use crate::source::Batch;

    fn batch(first_row: u64, rows: usize) -> Batch {
        let documents = BinaryViewArray::from_iter_values((0..rows).map(|row| vec![0; row]));
        Batch { source: 0, unit: 0, first_row, documents, columns: None, continued: false, open: false }
    }

    #[test]
    fn gives_the_rows_asked_for_whatever_the_batches() {
        for (skip, take) in [(0, None), (2, None), (3, Some(4)), (5, Some(0)), (9, None), (1, Some(99))] {
            let batches = [batch(0, 3), batch(3, 2), batch(5, 4)];
            let documents: Documents<'_> = Box::new(batches.into_iter().map(Ok));
            let rows: Vec<u64> = skip_and_take(documents, skip, take)
                .map(|batch| batch.expect("no error"))
                .flat_map(|batch| batch.first_row..batch.first_row + to_u64(batch.len()))
                .collect();
            let end = take.map_or(9, |take| (skip + take).min(9));
            assert_eq!(rows, (skip..end).collect::<Vec<u64>>(), "{skip} {take:?}");
        }
    }
}
