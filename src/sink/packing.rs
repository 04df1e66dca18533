//! Packs documents into rows of equal length, within the limits of a row group.
//!
//! Documents are gathered until they fill a window. Then [`Packing::pack`] assigns ranges of the window's ids to
//! rows, and the rows become one row group. Nothing is carried from one window to the next.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Number of token ids in a row group; a single row may have more. These 16 MiB are few enough that encoding and
/// compression overlap on all cores with little memory, and enough that readers do not notice the borders.
pub(super) const GROUP_IDS: usize = 1 << 22;

/// Maximum number of rows in a row group. Unit tests write several row groups in less time if these are small.
pub(super) const GROUP_ROWS: usize = if cfg!(test) { 1 << 15 } else { 1 << 20 };

/// Length of a packed row in token ids, at most: a row group holds at least one row.
pub const MAX_PACKED_LENGTH: usize = GROUP_IDS;

/// How documents are packed into rows of equal length.
///
/// All tokens are kept, and those of a document keep their order. BOS and EOS tokens stay with their documents within
/// the rows. Documents without tokens, including null ones, are left out. The column `seq_lengths` gives the lengths
/// of the documents in each row, or of their parts. Rows are not padded, so some are shorter: the last one of a file
/// with [`Concat`](PackRule::Concat), and any with [`BestFit`](PackRule::BestFit).
///
/// Each file holds complete documents, so packing does not change which documents a file has.
///
/// ```
/// use tokenmill::sink::{Declaration, PackRule, Packing};
///
/// // Rows of 2 048 ids, in which short documents are kept whole.
/// let pack = Some(Packing::new(PackRule::BestFit, 2048));
/// let declaration = Declaration { pack, ..Declaration::default() };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packing {
    /// The rule for documents that share a row.
    pub rule: PackRule,
    /// Token ids per row, from 1 to [`MAX_PACKED_LENGTH`].
    pub length: usize,
    /// Token ids per window, about. Documents are packed within a window, which becomes a row group.
    pub window: usize,
}

/// The rule for documents that share a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PackRule {
    /// Concatenates all documents of a file, and cuts them wherever a row is full. The window only determines where
    /// row groups end.
    Concat,
    /// Keeps a document whole if it is not longer than a row. Full rows are first cut off longer documents. Within a
    /// window, documents and remainders are placed longest first, each into the fullest row that has room. Among
    /// equals, the earlier document and the row begun earlier come first. Rows are in the order of their last
    /// documents, and the documents of a row in the order of the input.
    BestFit,
}

impl fmt::Display for PackRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PackRule::Concat => "concat",
            PackRule::BestFit => "best-fit",
        })
    }
}

impl Packing {
    /// Packs with windows of about 4 million tokens.
    pub fn new(rule: PackRule, length: usize) -> Packing {
        Packing { rule, length, window: GROUP_IDS }
    }

    /// Packs the documents of a window, given as ranges of ids, into rows.
    ///
    /// The ranges must follow each other from 0 on. Every id is in exactly one segment of the result.
    pub(super) fn pack(&self, documents: impl Iterator<Item = Range<usize>>) -> PackedRows {
        match self.rule {
            PackRule::Concat => concat(documents, self.length),
            PackRule::BestFit => best_fit(documents, self.length),
        }
    }

    /// Number of ids of the next document, which has `document` ids, that fit into a window with `ids` ids of
    /// `documents` documents: all, some, or none.
    pub(super) fn ids_that_fit(&self, ids: usize, documents: usize, document: usize) -> usize {
        match self.rule {
            PackRule::Concat => {
                let full_rows = (self.window / self.length).max(1) * self.length;
                document.min(full_rows.saturating_sub(ids))
            }
            PackRule::BestFit => {
                let fits = ids + document <= self.window && documents < GROUP_ROWS;
                if fits || ids == 0 { document } else { 0 }
            }
        }
    }

    /// Whether packing cuts a document. `ids` ids of it come at offset `at` of a window. `continued` says that
    /// earlier ids of it are in an earlier window.
    pub(super) fn cuts(&self, at: usize, ids: usize, continued: bool) -> bool {
        match self.rule {
            PackRule::Concat => continued || (ids > 0 && at / self.length != (at + ids - 1) / self.length),
            PackRule::BestFit => ids > self.length,
        }
    }
}

/// The assignment of ids to rows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PackedRows {
    /// Documents and parts of documents, as ranges of ids, in the order of the rows.
    pub(super) segments: Vec<Range<usize>>,
    /// For each row, the end of its range in `segments`.
    pub(super) row_ends: Vec<usize>,
}

/// Cuts documents wherever a row is full. No document is empty, and each begins where the one before ends.
/// O(documents + rows).
fn concat(documents: impl Iterator<Item = Range<usize>>, length: usize) -> PackedRows {
    let mut rows = PackedRows::default();
    for document in documents {
        let mut start = document.start;
        while start < document.end {
            let row_end = (start / length + 1) * length;
            let end = row_end.min(document.end);
            rows.segments.push(start..end);
            if end == row_end {
                rows.row_ends.push(rows.segments.len());
            }
            start = end;
        }
    }
    if rows.row_ends.last().copied().unwrap_or(0) < rows.segments.len() {
        rows.row_ends.push(rows.segments.len());
    }
    rows
}

/// Cuts full rows off documents that are longer than a row. Then puts the remaining chunks, longest first, each into
/// the fullest row that has room for it (best-fit decreasing). O(n log n) in the number of chunks.
fn best_fit(documents: impl Iterator<Item = Range<usize>>, length: usize) -> PackedRows {
    let cut = |document: Range<usize>| {
        let end = document.end;
        document.step_by(length).map(move |start| start..end.min(start + length))
    };
    let segments: Vec<Range<usize>> = documents.flat_map(cut).collect();
    let row_of = rows_by_best_fit(&segments, length);
    let mut last = vec![0; row_of.len()];
    row_of.iter().enumerate().for_each(|(segment, &row)| last[row] = segment);
    // In the order of their first documents, the rest of a document could come before its full rows.
    let mut order: Vec<usize> = (0..segments.len()).collect();
    order.sort_by_key(|&segment| (last[row_of[segment]], segment));
    let row_ends = order.iter().enumerate().filter(|&(_, &segment)| last[row_of[segment]] == segment);
    PackedRows {
        row_ends: row_ends.map(|(index, _)| index + 1).collect(),
        segments: order.iter().map(|&segment| segments[segment].clone()).collect(),
    }
}

/// The row of each chunk. Rows are numbered in the order in which they were begun. A new row is begun only if no open
/// row has room.
fn rows_by_best_fit(segments: &[Range<usize>], length: usize) -> Vec<usize> {
    let mut longest_first: Vec<usize> = (0..segments.len()).collect();
    longest_first.sort_by_key(|&segment| Reverse(segments[segment].len()));
    let mut row_of = vec![0; segments.len()];
    let mut rows = 0;
    // The rows that are not full, as pairs of free room and row.
    let mut open: BTreeSet<(usize, usize)> = BTreeSet::new();
    for segment in longest_first {
        let ids = segments[segment].len();
        let fullest = open.range((ids, 0)..).next().copied();
        let (room, row) = fullest.unwrap_or_else(|| {
            rows += 1;
            (length, rows - 1)
        });
        open.remove(&(room, row));
        row_of[segment] = row;
        if room > ids {
            open.insert((room - ids, row));
        }
    }
    row_of
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use arrow::array::{Array, AsArray};
    use arrow::datatypes::Int32Type;
    use bytes::Bytes;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use proptest::prelude::*;

    use super::*;
    use crate::base::int::{to_u64, to_usize, u64_to_usize};
    use crate::base::test_support::one_case_in;
    use crate::encode::TokenBatch;
    use crate::error::ErrorKind;
    use crate::observer::Silent;
    use crate::sink::tests::{Row, batch, config, output_bytes, strings, unit};
    use crate::sink::{
        Compression, DatasetConfig, DatasetWriter, Declaration, DocumentSpan, FileSpec, Manifest,
        OutputFolder, OutputFormat, RowGroupEncoders, RowTotals, ShardWriter, output_schema,
    };
    use crate::source::Identity;

    /// Documents whose ids encode the number of the document and the position in it.
    fn documents(lengths: &[Option<usize>]) -> Vec<Row> {
        let document = |(number, length): (usize, &Option<usize>)| {
            let id = |place| u32::try_from(number * 1_000 + place).expect("small");
            length.map(|length| (0..length).map(id).collect())
        };
        lengths.iter().enumerate().map(document).collect()
    }

    /// Documents with null and empty ones among them, many longer than a row of 16. They are the same in every call.
    fn some_documents() -> Vec<Row> {
        let length = |number: usize| match number % 9 {
            4 => None,
            7 => Some(0),
            _ => Some(number * 7_919 % 61 % (1 + number % 50)),
        };
        documents(&(0..150).map(length).collect::<Vec<_>>())
    }

    /// Consecutive documents in batches of these sizes in turn.
    fn batches(documents: &[Row], sizes: &[usize]) -> Vec<TokenBatch> {
        let (mut start, mut sizes) = (0, sizes.iter().cycle());
        let mut batches = Vec::new();
        while start < documents.len() {
            let end = documents.len().min(start + sizes.next().expect("a size"));
            batches.push(TokenBatch { first_row: to_u64(start), ..batch(&documents[start..end]) });
            start = end;
        }
        batches
    }

    fn declared(packing: Packing) -> Declaration {
        Declaration { pack: Some(packing), ..Declaration::default() }
    }

    /// Writes a file in memory. Returns its bytes and totals.
    fn write_packed(packing: Packing, batches: Vec<TokenBatch>, threads: usize) -> (Vec<u8>, RowTotals) {
        let schema = output_schema(&[]).expect("legal columns");
        let spec = FileSpec::new(schema, Compression::Default, &declared(packing)).expect("a legal packing");
        let mut writer = ShardWriter::new(
            Vec::new(),
            "memory",
            &spec,
            &RowGroupEncoders::start(threads).expect("threads"),
        )
        .expect("a writer");
        for batch in batches {
            writer.write(batch).expect("a written batch");
        }
        let done = writer.close().expect("a finished file");
        (done.out, done.totals)
    }

    /// The rows of a file, each with its documents or parts of documents.
    fn read_packed(bytes: &[u8]) -> Vec<Vec<Vec<u32>>> {
        let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::copy_from_slice(bytes)).expect("a file");
        let mut rows = Vec::new();
        for batch in reader.build().expect("a reader") {
            let batch = batch.expect("rows");
            let numbers = |column: &dyn Array, row: usize| -> Vec<u32> {
                let values = column.as_list::<i32>().value(row);
                values.as_primitive::<Int32Type>().values().iter().map(|&id| id.unsigned_abs()).collect()
            };
            for row in 0..batch.num_rows() {
                let ids = numbers(batch.column(0), row);
                let length = batch.column(1).as_primitive::<Int32Type>().value(row);
                assert_eq!(to_u64(ids.len()), u64::from(length.unsigned_abs()));
                let mut rest = ids.as_slice();
                let mut ranges = Vec::new();
                for length in numbers(batch.column(2), row) {
                    let (part, behind) = rest.split_at(to_usize(length));
                    assert!(!part.is_empty());
                    ranges.push(part.to_vec());
                    rest = behind;
                }
                assert!(rest.is_empty());
                rows.push(ranges);
            }
        }
        rows
    }

    /// The documents that packing takes: those with ids.
    fn with_ids(documents: &[Row]) -> Vec<Vec<u32>> {
        documents.iter().flatten().filter(|document| !document.is_empty()).cloned().collect()
    }

    /// Best-fit in its simplest form, for the documents of one window.
    fn obvious_best_fit(documents: &[Row], length: usize) -> Vec<Vec<Vec<u32>>> {
        let segments: Vec<Vec<u32>> = with_ids(documents)
            .iter()
            .flat_map(|document| document.chunks(length).map(<[u32]>::to_vec))
            .collect();
        let mut longest_first = segments;
        longest_first.sort_by_key(|segment| (std::cmp::Reverse(segment.len()), segment[0]));
        let mut rows: Vec<Vec<Vec<u32>>> = Vec::new();
        for segment in longest_first {
            let room = |row: &Vec<Vec<u32>>| length - row.iter().map(Vec::len).sum::<usize>();
            let fullest =
                rows.iter_mut().filter(|row| room(row) >= segment.len()).min_by_key(|row| room(row));
            match fullest {
                Some(row) => row.push(segment),
                None => rows.push(vec![segment]),
            }
        }
        rows.iter_mut().for_each(|row| row.sort());
        rows.sort_by_key(|row| row.last().map(|segment| segment[0]));
        rows
    }

    /// Number of documents that are not in a single row.
    fn cut(rows: &[Vec<Vec<u32>>]) -> u64 {
        let mut ranges = std::collections::BTreeMap::<u32, u64>::new();
        rows.iter().flatten().for_each(|part| *ranges.entry(part[0] / 1_000).or_default() += 1);
        to_u64(ranges.values().filter(|&&ranges| ranges > 1).count())
    }

    fn lengths() -> impl Strategy<Value = Vec<Option<usize>>> {
        let length = prop_oneof![6 => 0_usize..12, 2 => 0_usize..40, 1 => 0_usize..300];
        prop::collection::vec(prop::option::weighted(0.9, length), 0..60)
    }

    #[test]
    fn every_token_is_packed_once_and_in_its_order() {
        let inputs = (
            lengths(),
            prop_oneof![Just(PackRule::Concat), Just(PackRule::BestFit)],
            1_usize..40,
            1_usize..200,
            prop::collection::vec(1_usize..20, 1..5),
            1_usize..4,
        );
        one_case_in(4, &inputs, |(lengths, rule, length, window, sizes, threads)| {
            let documents = documents(&lengths);
            let packing = Packing { rule, length, window };
            let (bytes, found) = write_packed(packing, batches(&documents, &sizes), threads);
            let (whole, same) = write_packed(packing, batches(&documents, &[60]), 1);
            prop_assert!(bytes == whole && found == same);
            let rows = read_packed(&bytes);
            let sum: usize = documents.iter().flatten().map(Vec::len).sum();
            prop_assert_eq!((found.rows, found.tokens), (to_u64(rows.len()), to_u64(sum)));
            prop_assert_eq!(found.documents, to_u64(documents.len()));
            prop_assert_eq!(
                found.null_documents,
                to_u64(documents.iter().filter(|row| row.is_none()).count())
            );
            prop_assert_eq!(found.cut_documents, cut(&rows));
            prop_assert!(rows.iter().all(|row| row.iter().map(Vec::len).sum::<usize>() <= length));
            // The ids of all documents, in the order of the rows.
            let mut packed: Vec<u32> = rows.iter().flatten().flatten().copied().collect();
            let all: Vec<u32> = with_ids(&documents).concat();
            match rule {
                PackRule::Concat => {
                    let full = rows.len().saturating_sub(1);
                    prop_assert!(
                        rows[..full].iter().all(|row| row.iter().map(Vec::len).sum::<usize>() == length)
                    );
                }
                PackRule::BestFit => {
                    packed.sort_by_key(|id| id / 1_000);
                    let ranges = rows.iter().flatten();
                    let whole = ranges.filter(|part| {
                        documents[to_usize(part[0]) / 1_000].as_ref().is_some_and(|all| all == *part)
                    });
                    let short =
                        with_ids(&documents).iter().filter(|document| document.len() <= length).count();
                    prop_assert_eq!(whole.count(), short);
                }
            }
            prop_assert_eq!(packed, all);
            Ok(())
        });
    }

    proptest! {
        #[test]
        fn best_fit_is_what_its_definition_says(lengths in lengths(), length in 1_usize..40) {
            let documents = documents(&lengths);
            let packing = Packing::new(PackRule::BestFit, length);
            let (bytes, _) = write_packed(packing, batches(&documents, &[7]), 2);
            prop_assert_eq!(read_packed(&bytes), obvious_best_fit(&documents, length));
        }
    }

    fn job(packing: Packing) -> DatasetConfig {
        DatasetConfig { declaration: declared(packing), ..config(vec![vec![unit("in", None)]], 600) }
    }

    /// Writes the missing documents in batches of `size`, at most `most` batches. Returns the number of row groups
    /// that were kept, and the manifest if the output is complete.
    fn write_on(folder: &Path, packing: Packing, size: usize, most: usize) -> (usize, Option<Manifest>) {
        let documents = some_documents();
        let folder = OutputFolder::open(folder).expect("the folder");
        let mut writer = DatasetWriter::create(&folder, job(packing), &Silent).expect("a writer");
        let (reused, mut written) = (writer.reused().row_groups, 0);
        // The first documents do not come again if anything was kept.
        let of_the_first = writer.reused().remarks.iter().filter(|&remark| remark == 0).count();
        assert!(of_the_first <= 1, "{:?}", writer.reused().remarks);
        for span in writer.missing() {
            let DocumentSpan { from, documents: count, .. } = writer.begin(span).expect("a span");
            let first = u64_to_usize(from.row);
            let end = count.map_or(documents.len(), |count| first + u64_to_usize(count));
            for mut batch in batches(&documents[first..end], &[size]) {
                if written == most {
                    return (reused, None);
                }
                batch.first_row += from.row;
                writer.remark(batch.first_row.into());
                writer.write(batch).expect("a batch");
                written += 1;
            }
            writer.end(span).expect("the end of a span");
        }
        let (manifest, sum) = writer.finish(|_, _| Ok(Identity::Generated)).expect("an output");
        assert_eq!((sum.documents, sum.rows), (to_u64(documents.len()), manifest.rows()));
        assert_eq!(sum.tokens, to_u64(with_ids(&documents).concat().len()));
        manifest.write(folder.path()).expect("a manifest");
        manifest.verify(folder.path(), &Silent).expect("as the manifest says");
        (reused, Some(manifest))
    }

    #[test]
    fn packing_goes_on_where_it_was_killed() {
        for (rule, window) in [(PackRule::Concat, 16), (PackRule::Concat, 100), (PackRule::BestFit, 64)] {
            let packing = Packing { rule, length: 16, window };
            let whole = tempfile::tempdir().expect("a folder");
            assert!(write_on(whole.path(), packing, 150, usize::MAX).1.is_some());
            let whole = output_bytes(whole.path());
            assert!(whole.len() > 4, "several data files");
            let mut groups = 0;
            for most in 1..38 {
                let folder = tempfile::tempdir().expect("a folder");
                assert!(write_on(folder.path(), packing, 4, most).1.is_none());
                let (reused, manifest) = write_on(folder.path(), packing, 3, usize::MAX);
                groups += reused;
                assert!(
                    manifest.is_some() && output_bytes(folder.path()) == whole,
                    "{rule:?} after {most} batches"
                );
            }
            assert!(groups > 20, "{groups} row groups used again");
        }
    }

    /// The damaged row group is recorded again when it is rewritten. The journal must not list it twice.
    #[test]
    fn packing_goes_on_after_damage_where_it_was_killed_again() {
        let packing = Packing { rule: PackRule::Concat, length: 16, window: 16 };
        let whole = tempfile::tempdir().expect("a folder");
        assert!(write_on(whole.path(), packing, 150, usize::MAX).1.is_some());
        let whole = output_bytes(whole.path());
        let mut groups = 0;
        for most in 1..30 {
            let folder = tempfile::tempdir().expect("a folder");
            assert!(write_on(folder.path(), packing, 4, most).1.is_none());
            let unfinished = folder.path().join(".tokenmill/incomplete-1");
            let Ok(mut bytes) = std::fs::read(&unfinished) else { continue };
            bytes.iter_mut().next_back().into_iter().for_each(|last| *last ^= 1);
            std::fs::write(&unfinished, bytes).expect("a damaged file");
            assert!(write_on(folder.path(), packing, 4, 5).1.is_none());
            let (reused, manifest) = write_on(folder.path(), packing, 4, usize::MAX);
            groups += reused;
            assert!(manifest.is_some() && output_bytes(folder.path()) == whole, "after {most} batches");
        }
        assert!(groups > 20, "{groups} row groups used again");
    }

    #[test]
    fn of_packed_files_only_the_damaged_one_is_written_again() {
        for rule in [PackRule::Concat, PackRule::BestFit] {
            let packing = Packing { rule, length: 16, window: 64 };
            let folder = tempfile::tempdir().expect("a folder");
            write_on(folder.path(), packing, 10, usize::MAX);
            let whole = output_bytes(folder.path());
            std::fs::write(folder.path().join("data/train-00001.parquet"), "PAR1").expect("a damaged file");
            assert!(write_on(folder.path(), packing, 7, 12).1.is_some(), "{rule:?}");
            assert!(output_bytes(folder.path()) == whole, "{rule:?}");
        }
    }

    #[test]
    fn a_window_has_room_for_no_more_documents_than_a_row_group_has_rows() {
        let packing = Packing::new(PackRule::BestFit, 8);
        let room = |documents| packing.ids_that_fit(GROUP_ROWS, documents, 3);
        assert_eq!([GROUP_ROWS - 1, GROUP_ROWS].map(room), [3, 0]);
    }

    #[test]
    fn documents_without_tokens_make_no_rows() {
        for rule in [PackRule::Concat, PackRule::BestFit] {
            let (bytes, found) = write_packed(Packing::new(rule, 8), vec![batch(&[None, Some(vec![])])], 1);
            assert!(read_packed(&bytes).is_empty());
            assert_eq!((found.rows, found.documents, found.null_documents), (0, 2, 1));
        }
    }

    #[test]
    fn what_cannot_be_packed_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = OutputFolder::open(folder.path()).expect("a folder");
        let packing = Packing::new(PackRule::Concat, 8);
        let column = strings("name", &[Some("x")]);
        let mut with_columns = job(packing);
        with_columns.columns = column.schema().fields().to_vec();
        let mut flat = job(packing);
        flat.plan = flat.plan.with_format(OutputFormat::Bin);
        let lengths = [0, GROUP_IDS + 1].map(|length| job(Packing { length, ..packing }));
        for job in [with_columns, flat].into_iter().chain(lengths) {
            let error = DatasetWriter::create(&folder, job, &Silent).map(|_| ()).expect_err("refused");
            assert!(error.kind() == ErrorKind::Usage && error.help().is_some(), "{error}");
        }
    }
}
