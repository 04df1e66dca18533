//! Batches of documents, which sources give: their sizes, how they are split, and how documents that were split over
//! several batches are joined again. [`texts`] makes batches of strings that a program holds in memory.

use std::collections::VecDeque;

use arrow::array::{
    AnyDictionaryArray, Array, ArrayBuilder, AsArray, BinaryViewArray, BinaryViewBuilder, OffsetSizeTrait,
    RecordBatch, make_view,
};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use super::DEFAULT_BATCH_BYTES;
use super::error::{damaged, too_long};
use crate::base::int::{to_u64, truncate_to_u32, u64_to_usize};
use crate::error::{Error, Result};

/// Number of rows for which pass-through bytes are summed at once. The sum needs memory for every item of a list, so
/// this bounds it.
const ROWS_AT_ONCE: usize = 1 << 10;

/// Consecutive documents of one unit, read together.
///
/// A document that is larger than a batch is split over several batches. Then the last document of a batch and the
/// first document of the next one are parts of the same document, which `open` and `continued` indicate. A null
/// document is never split.
///
/// **Memory:** about the requested batch size, or one row if a row is larger.
///
/// ```
/// use tokenmill::source;
///
/// let batch = source::texts(["one", "two", "three"]).next().expect("a batch")?;
/// assert_eq!(batch.len(), 3);
/// assert_eq!(batch.text_bytes(), 11);
/// assert_eq!(batch.slice(1, 2).iter().next(), Some(Some(&b"two"[..])));
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Batch {
    /// Index of the source among the sources of the run, from 0.
    pub source: usize,
    /// Index of the unit in that source, from 0.
    pub unit: usize,
    /// Index of the first document's row within the unit, from 0. A file that is one document has one row.
    pub first_row: u64,
    /// The documents' bytes. A null row is null and has length 0.
    pub documents: BinaryViewArray,
    /// The requested pass-through columns, one row for each document; `None` if none were requested.
    pub columns: Option<RecordBatch>,
    /// Whether the first document continues the last document of the previous batch.
    pub continued: bool,
    /// Whether the last document continues in the next batch.
    pub open: bool,
}

impl Batch {
    /// The number of documents or parts of documents, nulls included.
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    /// Whether the batch has no documents.
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// The documents in order; `None` is a null row.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<&[u8]>> {
        self.documents.iter()
    }

    /// `length` documents starting at index `from`, without copying their text. The flags `continued` and `open` are
    /// kept if the slice includes the batch's first or last document, respectively.
    ///
    /// # Panics
    /// If the batch has fewer than `from + length` documents.
    #[must_use]
    pub fn slice(&self, from: usize, length: usize) -> Batch {
        Batch {
            source: self.source,
            unit: self.unit,
            first_row: self.first_row + to_u64(from),
            documents: self.documents.slice(from, length),
            columns: self.columns.as_ref().map(|columns| columns.slice(from, length)),
            continued: self.continued && from == 0,
            open: self.open && from + length == self.len(),
        }
    }

    /// Size of the batch in memory: bytes of text, plus the memory of the pass-through columns.
    pub(super) fn bytes(&self) -> u64 {
        let columns = self.columns.iter().flat_map(RecordBatch::columns);
        let passed = columns.map(|column| column.to_data().get_slice_memory_size().unwrap_or(0));
        self.text_bytes() + to_u64(passed.sum::<usize>())
    }

    /// Size of each row: bytes of text, plus the bytes that its pass-through columns would take as plain arrays. It
    /// does not depend on how rows were batched.
    pub(crate) fn row_bytes(&self) -> Vec<u64> {
        let mut sums: Vec<u64> = self.documents.lengths().map(u64::from).collect();
        if let Some(columns) = &self.columns {
            for (part, sums) in sums.chunks_mut(ROWS_AT_ONCE).enumerate() {
                let rows = columns.slice(part * ROWS_AT_ONCE, sums.len());
                sums.iter_mut().zip(row_bytes(&rows)).for_each(|(sum, bytes)| *sum += bytes);
            }
        }
        sums
    }

    /// Bytes of text in the batch.
    pub fn text_bytes(&self) -> u64 {
        self.documents.lengths().map(u64::from).sum()
    }
}

/// Batches in document order. Each is read when the iterator is advanced. Nothing useful follows an error.
pub type Documents<'a> = Box<dyn Iterator<Item = crate::error::Result<Batch>> + Send + 'a>;

/// The size in bytes of each row of a batch, as if all columns were plain arrays. It depends on the values
/// alone, so that files that are divided by it do not depend on how the rows were batched. Values of views and
/// dictionaries may share bytes; each counts as if it had its own.
pub(crate) fn row_bytes(batch: &RecordBatch) -> Vec<u64> {
    let mut sums = vec![0; batch.num_rows()];
    for column in batch.columns() {
        add(&mut sums, &value_bytes(column));
    }
    sums
}

/// Adds the sizes of another column.
fn add(sums: &mut [u64], bytes: &[u64]) {
    for (sum, bytes) in sums.iter_mut().zip(bytes) {
        *sum += bytes;
    }
}

/// The size in bytes of each value of an array.
fn value_bytes(array: &dyn Array) -> Vec<u64> {
    let mut bytes = match array.data_type() {
        DataType::Utf8 => spans(array.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => spans(array.as_string::<i64>().value_offsets()),
        DataType::Binary => spans(array.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => spans(array.as_binary::<i64>().value_offsets()),
        DataType::Utf8View => array.as_string_view().lengths().map(u64::from).collect(),
        DataType::BinaryView => array.as_binary_view().lengths().map(u64::from).collect(),
        DataType::Dictionary(..) => of_dictionary(array.as_any_dictionary()),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            within(list.value_offsets(), list.values())
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            within(list.value_offsets(), list.values())
        }
        DataType::Map(..) => {
            let map = array.as_map();
            within(map.value_offsets(), map.entries())
        }
        DataType::FixedSizeList(_, length) => {
            let length = usize::try_from(*length).unwrap_or(0);
            let items = value_bytes(array.as_fixed_size_list().values());
            (0..array.len()).map(|row| items[row * length..][..length].iter().sum()).collect()
        }
        DataType::Struct(_) => {
            let mut sums = vec![0; array.len()];
            for column in array.as_struct().columns() {
                add(&mut sums, &value_bytes(column));
            }
            sums
        }
        DataType::FixedSizeBinary(width) => vec![u64::from(width.unsigned_abs()); array.len()],
        flat => vec![to_u64(flat.primitive_width().unwrap_or(1)); array.len()],
    };
    // A null counts 0. The bytes under it are not written, and may be anything.
    if let Some(nulls) = array.nulls() {
        for (row, bytes) in bytes.iter_mut().enumerate() {
            *bytes *= u64::from(nulls.is_valid(row));
        }
    }
    bytes
}

/// The sizes of the values to which the keys refer.
fn of_dictionary(dictionary: &dyn AnyDictionaryArray) -> Vec<u64> {
    let values = dictionary.values();
    if values.is_empty() {
        return vec![0; dictionary.len()];
    }
    let keys = dictionary.normalized_keys().into_iter();
    // A few rows may have a dictionary of millions, so then only the values that occur are measured.
    if values.len() > dictionary.len() {
        return keys.map(|key| value_bytes(&values.slice(key, 1)).iter().sum()).collect();
    }
    let bytes = value_bytes(values);
    keys.map(|key| bytes[key]).collect()
}

/// The distances between offsets.
fn spans<O: OffsetSizeTrait>(offsets: &[O]) -> Vec<u64> {
    offsets.windows(2).map(|ends| to_u64((ends[1] - ends[0]).as_usize())).collect()
}

/// The size of each list: the sum over its items, and 4 bytes for the list itself. Otherwise a column of empty
/// lists would never fill a row group.
///
/// A slice of a list array still has the items of all lists, so only those between its offsets are measured.
fn within<O: OffsetSizeTrait>(offsets: &[O], items: &dyn Array) -> Vec<u64> {
    let [first, .., last] = offsets else { return Vec::new() };
    let (first, last) = (first.as_usize(), last.as_usize());
    let items = value_bytes(&items.slice(first, last - first));
    let list = |ends: &[O]| items[ends[0].as_usize() - first..ends[1].as_usize() - first].iter().sum::<u64>();
    offsets.windows(2).map(|ends| list(ends) + 4).collect()
}

/// Maximum bytes of a document that a batch holds as a whole: the length limit of an Arrow view (2 GiB − 1).
pub const LONGEST_DOCUMENT: u64 = (1 << 31) - 1;

/// Builds an array of documents from texts that are stored end to end.
#[derive(Default)]
pub(crate) struct TextBuilder {
    /// The texts, end to end.
    pub(crate) bytes: Vec<u8>,
    /// Views of the texts, one per document; a null document has an empty view.
    views: Vec<u128>,
    /// Whether each document is present, not null.
    valid: Vec<bool>,
}

impl TextBuilder {
    /// Number of documents.
    pub(super) fn len(&self) -> usize {
        self.views.len()
    }

    /// Adds the bytes from the offset `from` on as a document, or an empty null document if it is not valid.
    #[inline]
    pub(crate) fn push(&mut self, from: usize, is_valid: bool) {
        self.views.push(make_view(&self.bytes[from..], 0, truncate_to_u32(from)));
        self.valid.push(is_valid);
    }

    /// The array of all documents.
    ///
    /// # Errors
    /// The texts have more bytes in total than a view can address.
    pub(crate) fn finish(self) -> Result<BinaryViewArray, ArrowError> {
        let nulls = self.valid.contains(&false).then(|| NullBuffer::from(self.valid));
        BinaryViewArray::try_new(self.views.into(), vec![Buffer::from_vec(self.bytes)], nulls)
    }
}

/// Joins the parts of split documents, so that every batch holds complete documents only.
///
/// **Memory:** one batch and the longest document.
///
/// # Errors
/// Those of `documents`, and an error for a document of more than [`LONGEST_DOCUMENT`] bytes, which names its source
/// and unit by index. After an error the iterator ends.
///
/// # Examples
/// ```
/// use tokenmill::source;
///
/// let long = "a".repeat(5 << 20);
/// let mut batches = source::collected_documents(source::texts([&long]));
/// let batch = batches.next().expect("a batch")?;
/// assert_eq!((batch.len(), batch.open), (1, false));
/// # Ok::<(), tokenmill::Error>(())
/// ```
pub fn collected_documents(documents: Documents<'_>) -> Documents<'_> {
    collected_documents_named(documents, |source, unit| format!("source {source}, unit {unit}"))
}

/// Like [`collected_documents`], but errors name the file that `name` returns for a source and unit.
pub fn collected_documents_named<'a>(
    documents: Documents<'a>,
    name: impl Fn(usize, usize) -> String + Send + 'a,
) -> Documents<'a> {
    let (name, longest) = (Box::new(name), LONGEST_DOCUMENT);
    Box::new(CollectedDocuments { documents, name, partial: None, next: None, longest, failed: false })
}

/// Iterator over complete documents.
struct CollectedDocuments<'a> {
    /// Batches that may have parts of documents.
    documents: Documents<'a>,
    /// Returns the name of a source's unit, for errors.
    name: Box<dyn Fn(usize, usize) -> String + Send + 'a>,
    /// The split document that is being joined.
    partial: Option<PartialDocument>,
    /// The documents of the last batch that follow the end of a split document.
    next: Option<Batch>,
    /// Maximum bytes of a document.
    longest: u64,
    /// Whether an error was given.
    failed: bool,
}

/// A document with parts still to be read.
struct PartialDocument {
    /// Index of the source.
    source: usize,
    /// Index of the unit in the source.
    unit: usize,
    /// Index of the row in the unit.
    row: u64,
    /// The bytes so far.
    bytes: Vec<u8>,
    /// The pass-through columns of the document, which come with its first part.
    columns: Option<RecordBatch>,
}

impl PartialDocument {
    /// Appends a part and returns `true`, or returns `false` if the document would become too long.
    fn add(&mut self, part: &[u8], longest: u64) -> bool {
        let fits = to_u64(self.bytes.len() + part.len()) <= longest;
        if fits {
            self.bytes.extend_from_slice(part);
        }
        fits
    }

    /// A batch with the complete document.
    fn end(self) -> Result<Batch> {
        let PartialDocument { source, unit, row: first_row, bytes, columns } = self;
        let texts = TextBuilder { views: vec![make_view(&bytes, 0, 0)], valid: vec![true], bytes };
        let documents = texts.finish().map_err(|cause| damaged("a document", "its text", cause))?;
        Ok(Batch { source, unit, first_row, documents, columns, continued: false, open: false })
    }
}

impl CollectedDocuments<'_> {
    /// The error that a document is too long.
    fn too_long(&self, document: &PartialDocument) -> Error {
        let file = (self.name)(document.source, document.unit);
        too_long(&file, document.row, self.longest).with_help(
            "cut the text into documents: --documents line or paragraph, or --separator (in a recipe \
             `documents = \"line\"`)",
        )
    }

    /// Processes the next batch; returns complete documents if it has any.
    ///
    /// # Errors
    /// A document is too long.
    fn take(&mut self, batch: Batch) -> Result<Option<Batch>> {
        let Some(mut partial) = self.partial.take() else {
            return self.after(batch);
        };
        if batch.is_empty() {
            self.partial = Some(partial);
            return Ok(None);
        }
        if !partial.add(batch.documents.value(0), self.longest) {
            return Err(self.too_long(&partial));
        }
        if batch.open && batch.len() == 1 {
            self.partial = Some(partial);
            return Ok(None);
        }
        if batch.len() > 1 {
            self.next = Some(batch.slice(1, batch.len() - 1));
        }
        partial.end().map(Some)
    }

    /// Processes a batch that does not begin in the middle of a document.
    ///
    /// # Errors
    /// A document is too long.
    fn after(&mut self, batch: Batch) -> Result<Option<Batch>> {
        let Some(last) = batch.len().checked_sub(1) else { return Ok(None) };
        if !batch.open {
            return Ok(Some(batch));
        }
        let part = batch.slice(last, 1);
        let mut partial = PartialDocument {
            source: part.source,
            unit: part.unit,
            row: part.first_row,
            bytes: Vec::new(),
            columns: part.columns,
        };
        if !partial.add(part.documents.value(0), self.longest) {
            return Err(self.too_long(&partial));
        }
        self.partial = Some(partial);
        Ok((last > 0).then(|| Batch { open: false, ..batch.slice(0, last) }))
    }
}

impl Iterator for CollectedDocuments<'_> {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        while !self.failed {
            let taken = match self.next.take() {
                Some(batch) => self.after(batch),
                None => match self.documents.next() {
                    Some(batch) => batch.and_then(|batch| self.take(batch)),
                    // Sources mark the end of every document. If the mark is missing, the document ends here.
                    None => return Some(self.partial.take()?.end()),
                },
            };
            self.failed = taken.is_err();
            if let Some(batch) = taken.transpose() {
                return Some(batch);
            }
        }
        None
    }
}

/// Bytes that a text takes in a batch besides its own.
const VIEW: usize = 16;

/// The documents of texts that a program holds or produces, one document per text, as a single unit of source 0. The
/// iterator is advanced as batches are needed.
///
/// **Memory:** one batch: about 4 MiB of text, or one text that is larger.
///
/// # Errors
/// A text has more than [`LONGEST_DOCUMENT`] bytes. The error is the last item of the iterator.
///
/// # Examples
/// ```
/// use tokenmill::count::{CountConfig, count_pretokens};
/// use tokenmill::encode::EncodeConfig;
/// use tokenmill::observer::Silent;
/// use tokenmill::split::{NamedPattern, SplitPattern, splitter};
/// use tokenmill::train::{TrainConfig, learn_merges};
/// use tokenmill::vocab::SpecialTokensAt;
/// use tokenmill::{Tokenizer, Vocabulary, source};
///
/// let texts = ["how much wood", "would a woodchuck chuck"];
/// let pattern = SplitPattern::Named(NamedPattern::Gpt4);
/// let counted =
///     count_pretokens(source::texts(texts), &*splitter(&pattern)?, &CountConfig::default(), &Silent)?;
/// let learned = learn_merges(counted.pretokens, &TrainConfig::new(5), &Silent)?;
/// let vocabulary = Vocabulary::from_merges(&learned.merges, &[], SpecialTokensAt::End, pattern)?;
/// let tokenizer = Tokenizer::new(vocabulary, EncodeConfig::default())?;
/// assert_eq!(tokenizer.decode(&tokenizer.encode("a wooden chuck")?)?, b"a wooden chuck");
/// # Ok::<(), tokenmill::Error>(())
/// ```
pub fn texts<'a, T: AsRef<[u8]>>(texts: impl IntoIterator<Item = T, IntoIter: Send + 'a>) -> Documents<'a> {
    texts_from(0, texts)
}

/// The documents of [texts](self::texts), the first of which has row `first_row`: a program that hands its texts over in
/// portions chains the documents of the portions.
///
/// # Errors
/// Those of [`texts`](self::texts).
pub fn texts_from<'a, T: AsRef<[u8]>>(
    first_row: u64,
    texts: impl IntoIterator<Item = T, IntoIter: Send + 'a>,
) -> Documents<'a> {
    let mut texts = texts.into_iter().fuse();
    let (mut row, mut failed, mut ended) = (first_row, None, false);
    Box::new(std::iter::from_fn(move || {
        if ended {
            return None;
        }
        let mut documents = BinaryViewBuilder::new();
        failed = failed.take().or_else(|| fill(&mut documents, &mut texts, row).err());
        let documents = documents.finish();
        if documents.is_empty() {
            ended = true;
            return failed.take().map(Err);
        }
        let (source, unit, first_row, columns, continued, open) = (0, 0, row, None, false, false);
        row += to_u64(documents.len());
        Some(Ok(Batch { source, unit, first_row, documents, columns, continued, open }))
    }))
}

/// Appends texts until the batch is full or none is left. `first_row` is the index of the first one, for the error.
///
/// # Errors
/// A text has more than [`LONGEST_DOCUMENT`] bytes.
fn fill<T: AsRef<[u8]>>(
    documents: &mut BinaryViewBuilder,
    texts: &mut impl Iterator<Item = T>,
    first_row: u64,
) -> Result<()> {
    let mut room = u64_to_usize(DEFAULT_BATCH_BYTES);
    for text in texts {
        let text = text.as_ref();
        if to_u64(text.len()) > LONGEST_DOCUMENT {
            let row = first_row + to_u64(documents.len());
            return Err(too_long("a text", row, LONGEST_DOCUMENT).with_help("cut it into several"));
        }
        documents.append_value(text);
        room = room.saturating_sub(text.len() + VIEW);
        if room == 0 {
            break;
        }
    }
    Ok(())
}

/// Splits rows into batches of about `batch_bytes` each, counting text and pass-through columns. Equal values of
/// these columns may share memory; each counts in full.
pub(super) fn split(whole: Batch, batch_bytes: u64) -> VecDeque<Batch> {
    let mut batches = VecDeque::new();
    let (mut start, mut bytes) = (0, 0);
    for (row, length) in whole.row_bytes().into_iter().enumerate() {
        if bytes > 0 && bytes + length > batch_bytes {
            batches.push_back(whole.slice(start, row - start));
            (start, bytes) = (row, 0);
        }
        bytes += length;
    }
    if start == 0 {
        batches.push_back(whole);
    } else {
        batches.push_back(whole.slice(start, whole.len() - start));
    }
    batches
}

/// The number of rows for a batch of about `batch_bytes`, if `rows` rows have `bytes` bytes in total.
pub(super) fn rows_in_batch(batch_bytes: u64, bytes: u64, rows: u64) -> usize {
    /// Maximum number of rows in a batch, even if they are empty.
    const MAX: u64 = 1 << 16;
    let row_bytes = (bytes / rows.max(1)).max(1);
    u64_to_usize((batch_bytes / row_bytes).clamp(1, MAX))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, DictionaryArray, ListArray, StringArray, StringViewArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{Field, Int32Type};

    use super::*;

    #[test]
    fn what_shares_its_bytes_counts_as_if_it_had_its_own() {
        let words = [Some("one"), None, Some("a word that no view has inline"), Some(""), Some("one"), None];
        let plain: ArrayRef = Arc::new(StringArray::from_iter(words));
        let views: ArrayRef = Arc::new(StringViewArray::from_iter(words));
        let dictionary: ArrayRef = Arc::new(words.into_iter().collect::<DictionaryArray<Int32Type>>());
        let nothing: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::from_iter([None::<&str>; 6]));
        let list = |items: &ArrayRef| -> ArrayRef {
            let item = Arc::new(Field::new("item", items.data_type().clone(), true));
            let offsets = OffsetBuffer::from_lengths([2, 0, 1, 3]);
            Arc::new(ListArray::new(item, offsets, Arc::clone(items), None))
        };
        for (from, rows) in [(0, 6), (1, 5), (2, 1)] {
            let expected = value_bytes(&plain.slice(from, rows));
            assert_eq!(value_bytes(&views.slice(from, rows)), expected);
            assert_eq!(value_bytes(&dictionary.slice(from, rows)), expected, "{rows} rows");
        }
        assert_eq!(value_bytes(&list(&plain)), [7, 4, 34, 7]);
        assert_eq!(value_bytes(&list(&views)), value_bytes(&list(&plain)));
        assert_eq!(value_bytes(&list(&dictionary)), value_bytes(&list(&plain)));
        assert_eq!(value_bytes(&nothing), [0; 6]);
    }

    /// Parts are joined up to the limit; the error names the file and the row.
    #[test]
    fn a_document_that_is_too_long_is_named() {
        let batch = |first_row, texts: &[&str], open| {
            let documents = BinaryViewArray::from_iter_values(texts);
            Ok(Batch {
                source: 1,
                unit: 2,
                first_row,
                documents,
                columns: None,
                continued: first_row > 0,
                open,
            })
        };
        let parts = [batch(0, &["a", "begun"], true), batch(1, &["more"], true), batch(1, &["end"], false)];
        let name = Box::new(|source, unit| format!("file {source}.{unit}"));
        let documents = Box::new(parts.into_iter());
        let whole =
            CollectedDocuments { documents, name, partial: None, next: None, longest: 10, failed: false };
        let outcome: Vec<_> = whole.collect();
        assert_eq!(outcome.len(), 2);
        let error = outcome[1].as_ref().expect_err("12 bytes");
        assert_eq!(error.to_string(), "file 1.2: row 1: a document is longer than 10 bytes");
        assert!(error.help().is_some_and(|help| help.contains("--documents line")));
    }

    /// An empty batch may be marked as open.
    #[test]
    fn a_batch_without_documents_begins_none() {
        let documents = BinaryViewArray::from_iter_values([""; 0]);
        let (source, unit, first_row, columns) = (0, 0, 0, None);
        let batch = Batch { source, unit, first_row, documents, columns, continued: false, open: true };
        assert_eq!(collected_documents(Box::new([Ok(batch)].into_iter())).count(), 0);
    }
}
