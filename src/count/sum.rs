//! Sums counts files, so that a corpus can be counted in parts, and mixed by weights without counting again.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::vec;

use serde_json::json;

use super::counts_file::{
    CountsFile, CountsInfo, CountsReader, CountsWriter, read_counts_info, read_counts_within,
};
use super::input_shards;
use super::pretokens::{BYTES_EACH, BYTES_EACH_INDEXED, DistinctPretokens, PretokenReader};
use super::spill::{RunOrder, merge};
use super::{Boundary, PretokenCounts, overflow};
use crate::base::int::{ByteCount, Count, to_u64};
use crate::error::{Error, Result};
use crate::observer::Observer;
use crate::{FORMAT_VERSION, VERSION};

/// A counts file, and the factor of its counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightedFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The factor, above zero.
    pub weight: u64,
}

/// The result of [`write_sum`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WrittenSum {
    /// Number of distinct pre-tokens.
    pub pretokens: u64,
    /// Total bytes of the distinct pre-tokens.
    pub pretoken_bytes: u64,
    /// The metadata of the written file.
    pub info: CountsInfo,
}

/// Sums counts files, each multiplied by its weight. All must have the same pattern, boundary and special tokens.
///
/// If all files are ordered, the sum is ordered, too: the pre-tokens of a file come after those of the files before
/// it. Otherwise the sum is sorted by the bytes of the pre-tokens. Shards of one input are summed in the order of the
/// input.
///
/// **Memory:** the sum and a few MB per file. If all files are ordered, also 11 to 32 bytes for each pre-token of the
/// sum, and one file at a time as [`read_counts`](super::read_counts) reads it. If only some files are ordered, also
/// all of these at once. Both the sum and the pre-tokens of the files keep within `limit`.
///
/// # Errors
/// - A file cannot be read, or was counted with other settings than the first one.
/// - A shard of an input is missing or is there more than once, or the input changed between two of them.
/// - A count exceeds 2⁶⁴ − 1.
/// - The pre-tokens exceed the limit ([`ErrorKind::Memory`](crate::ErrorKind::Memory)).
/// - The observer stops the run.
pub fn sum_counts(files: &[WeightedFile], limit: ByteCount, observer: &dyn Observer) -> Result<CountsFile> {
    let (files, info) = checked(files)?;
    let pretokens = match info.ordered {
        true => sum_in_order(&files, limit, observer)?,
        false => held_by_bytes(&files, (BYTES_EACH, limit), observer)?,
    };
    Ok(CountsFile { pretokens, info })
}

/// Writes the [sum](sum_counts) of counts files as a counts file. `path` appears in error messages only.
///
/// **Memory:** a few MB per file. With an ordered file, or more than 200 files, that of [`sum_counts`] within the
/// same `limit`.
///
/// # Errors
/// Those of [`sum_counts`] and [`write_counts`](super::write_counts).
pub fn write_sum(
    files: &[WeightedFile],
    out: impl Write + Send,
    path: &Path,
    limit: ByteCount,
    observer: &dyn Observer,
) -> Result<WrittenSum> {
    let (files, info) = checked(files)?;
    let mut writer = CountsWriter::begin(out, path, &info, observer)?;
    if info.ordered {
        writer.push_all(&sum_in_order(&files, limit, observer)?)?;
    } else {
        sum_by_bytes(&files, limit, observer, |pretoken, count| writer.push(pretoken, count))?;
    }
    let (pretokens, pretoken_bytes) = writer.end()?;
    Ok(WrittenSum { pretokens, pretoken_bytes, info })
}

/// Returns the files in the order in which they are summed, and the metadata of their sum. The sum of all shards of an
/// input has the metadata of the counts of that input.
///
/// # Errors
/// - A file cannot be read, or was counted with other settings than the first one.
/// - A shard of an input is missing or is there more than once, or the input changed between two of them.
fn checked(files: &[WeightedFile]) -> Result<(Vec<WeightedFile>, CountsInfo)> {
    let infos = files.iter().map(|file| read_counts_info(&file.path)).collect::<Result<Vec<_>>>()?;
    for (file, info) in files.iter().zip(&infos) {
        check_same_settings(&infos[0], &files[0].path, info, &file.path)?;
    }
    let paths: Vec<&Path> = files.iter().map(|file| &*file.path).collect();
    let order = input_shards::order(&paths, &infos)?;
    let files: Vec<WeightedFile> = order.iter().map(|&number| files[number].clone()).collect();
    let mut infos: Vec<CountsInfo> = order.iter().map(|&number| infos[number].clone()).collect();
    let is_unweighted = files.iter().all(|file| file.weight == 1);
    let whole = input_shards::whole_input(&infos).filter(|_| is_unweighted);
    let counted = files.iter().zip(&mut infos);
    let counted: Vec<_> = counted
        .map(|(file, info)| json!({ "weight": file.weight, "counted": info.sources.take() }))
        .collect();
    let ordered = infos.iter().all(|info| info.ordered);
    let first = infos.into_iter().next().unwrap_or_default();
    let info = CountsInfo {
        sources: whole.unwrap_or_else(|| json!({ "summed": counted })),
        ordered: ordered && !files.is_empty(),
        format_version: FORMAT_VERSION,
        tool_version: VERSION.to_owned(),
        ..first
    };
    Ok((files, info))
}

/// Checks that two counts files can be summed: they must have the same pattern, boundary and special tokens. The
/// order of the special tokens does not matter.
///
/// # Errors
/// They differ. The error names both files and the setting that differs.
pub fn check_same_settings(
    first: &CountsInfo,
    first_path: &Path,
    other: &CountsInfo,
    path: &Path,
) -> Result<()> {
    let specials = |info: &CountsInfo| {
        let mut specials = info.special_tokens.clone();
        specials.sort();
        specials
    };
    let boundary = |info: &CountsInfo| match info.boundary {
        Boundary::Document => "document".to_owned(),
        Boundary::Join => "join".to_owned(),
    };
    let (what, one, two) = if first.pattern != other.pattern {
        ("split", first.pattern.to_string(), other.pattern.to_string())
    } else if first.boundary != other.boundary {
        ("boundary", boundary(first), boundary(other))
    } else if specials(first) != specials(other) {
        ("special tokens", format!("{:?}", specials(first)), format!("{:?}", specials(other)))
    } else {
        return Ok(());
    };
    let (first, path) = (first_path.display(), path.display());
    let problem =
        format!("{path} cannot be summed with {first}: it was counted with {what} {two}, not {one}");
    Err(Error::usage(problem).with_help("count with the same pattern, boundary and special tokens"))
}

/// Sums ordered files in order of first appearance: the pre-tokens of a file come after those of the files before it.
fn sum_in_order(files: &[WeightedFile], limit: ByteCount, observer: &dyn Observer) -> Result<PretokenCounts> {
    if let [WeightedFile { path, weight: 1 }] = files {
        return Ok(read_counts_within(path, limit)?.pretokens);
    }
    let mut sum = DistinctPretokens::default();
    for file in files {
        observer.checkpoint()?;
        for (pretoken, count) in read_counts_within(&file.path, limit)?.pretokens.iter() {
            let count = multiplied(pretoken, count, file.weight)?;
            match sum.find(pretoken) {
                Ok(index) => sum.add_at(index, count)?,
                Err(hash) => {
                    sum.push(hash, pretoken, count)?;
                    sum.pretokens.check_fits(BYTES_EACH_INDEXED, limit)?;
                }
            }
        }
    }
    Ok(sum.pretokens)
}

/// Returns a count times a weight.
///
/// # Errors
/// The product exceeds 2⁶⁴ − 1. The error names the pre-token.
fn multiplied(pretoken: &[u8], count: Count, weight: u64) -> Result<Count> {
    count.checked_mul(weight).ok_or_else(|| overflow(pretoken))
}

/// Maximum number of files that are open at a time. Operating systems allow more.
const MAX_OPEN: usize = if cfg!(test) { 3 } else { 200 };

/// Passes each distinct pre-token of the files and its total count to `take`, sorted by bytes.
///
/// More than [`MAX_OPEN`] files are summed in groups first. The sums of the groups are all in memory, within
/// `limit`.
fn sum_by_bytes(
    files: &[WeightedFile],
    limit: ByteCount,
    observer: &dyn Observer,
    mut take: impl FnMut(&[u8], Count) -> Result<()>,
) -> Result<()> {
    let take = |pretoken: &[u8], count: Count, _: u64| take(pretoken, count);
    if files.len() <= MAX_OPEN {
        return merge(readers(files, limit)?.into_iter(), RunOrder::Bytes, observer, take);
    }
    let (mut left, mut sums) = (limit, Vec::new());
    for files in files.chunks(MAX_OPEN) {
        let sum = held_by_bytes(files, (BYTES_EACH_SORTED, left), observer)?;
        left = ByteCount(left.0.saturating_sub(sum.memory(BYTES_EACH_SORTED)));
        sums.push(Sorted::new(sum));
    }
    merge(sums.into_iter(), RunOrder::Bytes, observer, take)
}

/// Returns the sum, sorted by bytes. `each` is the number of bytes that a pre-token takes in addition to its own, for
/// the check against `limit`.
fn held_by_bytes(
    files: &[WeightedFile],
    (each, limit): (u64, ByteCount),
    observer: &dyn Observer,
) -> Result<PretokenCounts> {
    let mut sum = PretokenCounts::new();
    sum_by_bytes(files, limit, observer, |pretoken, count| {
        sum.push(pretoken, count);
        sum.check_fits(each, limit)
    })?;
    Ok(sum)
}

/// Returns readers that give the pre-tokens of each file sorted by bytes. Ordered files are read into memory, all of
/// them together within the limit.
fn readers(files: &[WeightedFile], limit: ByteCount) -> Result<Vec<Weighted>> {
    let mut left = limit;
    let reader = |file: &WeightedFile| {
        let reader = CountsReader::open(&file.path)?;
        let pretokens: Box<dyn PretokenReader> = if reader.info.ordered {
            let pretokens = read_counts_within(&file.path, left)?.pretokens;
            left = ByteCount(left.0.saturating_sub(pretokens.memory(BYTES_EACH_SORTED)));
            Box::new(Sorted::new(pretokens))
        } else {
            Box::new(reader)
        };
        Ok(Weighted { pretokens, weight: file.weight, count: Count::ZERO })
    };
    files.iter().map(reader).collect()
}

/// A reader that multiplies the counts by a weight.
struct Weighted {
    /// A file that is read row by row, or the sorted content of one.
    pretokens: Box<dyn PretokenReader>,
    /// The factor of all counts.
    weight: u64,
    /// The count of the current pre-token, multiplied.
    count: Count,
}

impl PretokenReader for Weighted {
    fn advance(&mut self) -> Result<bool> {
        let more = self.pretokens.advance()?;
        if more {
            let (pretoken, count, _) = self.pretokens.current();
            self.count = multiplied(pretoken, count, self.weight)?;
        }
        Ok(more)
    }

    fn current(&self) -> (&[u8], Count, u64) {
        let (pretoken, _, first) = self.pretokens.current();
        (pretoken, self.count, first)
    }
}

/// Bytes that [`Sorted`] takes for each pre-token in addition to its own bytes, including 8 for the sorted index.
const BYTES_EACH_SORTED: u64 = BYTES_EACH + 8;

/// Reads pre-tokens from memory, sorted by bytes.
struct Sorted {
    /// All pre-tokens of the file, in the file's order.
    pretokens: PretokenCounts,
    /// The indexes of the remaining pre-tokens, in order.
    rest: vec::IntoIter<usize>,
    /// The index of the current pre-token.
    index: usize,
}

impl Sorted {
    /// Sorts the pre-tokens.
    fn new(pretokens: PretokenCounts) -> Sorted {
        Sorted { rest: pretokens.by_bytes().into_iter(), pretokens, index: 0 }
    }
}

impl PretokenReader for Sorted {
    fn advance(&mut self) -> Result<bool> {
        let next = self.rest.next();
        self.index = next.unwrap_or(self.index);
        Ok(next.is_some())
    }

    /// The first position is the index in the file's order.
    fn current(&self) -> (&[u8], Count, u64) {
        (self.pretokens.pretoken(self.index), self.pretokens.counts[self.index], to_u64(self.index))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs::File;
    use std::slice::from_ref;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::base::test_support::one_case_in;
    use crate::count::{read_counts, write_counts};
    use crate::error::ErrorKind;
    use crate::observer::Silent;

    /// No limit of memory.
    const ANY: ByteCount = ByteCount(u64::MAX);

    fn write(folder: &Path, name: &str, pretokens: &PretokenCounts, ordered: bool) -> WeightedFile {
        let info = CountsInfo { pattern: "gpt4".parse().expect("a name"), ordered, ..CountsInfo::default() };
        let path = folder.join(name);
        let file = File::create(&path).expect("a writable folder");
        write_counts(file, &path, pretokens, &info, &Silent).expect("room for a small file");
        WeightedFile { path, weight: 1 }
    }

    fn counts(entries: &[(&str, u64)]) -> PretokenCounts {
        entries.iter().map(|(pretoken, count)| (pretoken.as_bytes(), Count::new(*count))).collect()
    }

    #[test]
    fn a_sum_that_overflows_names_the_pretoken() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        for ordered in [true, false] {
            let full = write(folder.path(), "full", &counts(&[("a", 1), ("often", u64::MAX)]), ordered);
            let one = write(folder.path(), "one", &counts(&[("often", 1)]), ordered);
            let doubled = WeightedFile { weight: 2, ..full.clone() };
            for files in [[full, one.clone()], [one, doubled]] {
                let error = sum_counts(&files, ANY, &Silent).expect_err("too many");
                assert!(error.to_string().contains("often"), "{error}");
                let error =
                    write_sum(&files, Vec::new(), "sum".as_ref(), ANY, &Silent).expect_err("too many");
                assert!(error.to_string().contains("often"), "{error}");
            }
        }
    }

    #[test]
    fn a_sum_that_passes_the_limit_of_memory_is_refused() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let names: Vec<String> = (0..1_000).map(|number| format!("pretoken {number}")).collect();
        let pretokens: PretokenCounts = names.iter().map(|name| (name.as_bytes(), Count::ONE)).collect();
        for (one, other) in [(true, true), (true, false), (false, false)] {
            let files = [
                write(folder.path(), "one", &pretokens, one),
                write(folder.path(), "other", &counts(&[("a", 1)]), other),
            ];
            assert!(sum_counts(&files, ByteCount(70_000), &Silent).is_ok());
            let error = sum_counts(&files, ByteCount(20_000), &Silent).expect_err("too many");
            assert_eq!(error.kind(), ErrorKind::Memory);
        }
        // The pre-tokens of several files in memory keep within the limit together.
        let mut files: Vec<WeightedFile> = (0..5)
            .map(|number| write(folder.path(), &format!("ordered {number}"), &pretokens, true))
            .collect();
        files.push(write(folder.path(), "by bytes", &pretokens, false));
        assert!(sum_counts(&files, ByteCount(5 * 35_000 + 70_000), &Silent).is_ok());
        let error = sum_counts(&files, ByteCount(70_000), &Silent).expect_err("five of them are held");
        assert_eq!(error.kind(), ErrorKind::Memory);
        // Each file fits by itself.
        let others: Vec<String> = names.iter().map(|name| format!("other {name}")).collect();
        let others: PretokenCounts = others.iter().map(|name| (name.as_bytes(), Count::ONE)).collect();
        for ordered in [true, false] {
            let files = [
                write(folder.path(), "one", &pretokens, ordered),
                write(folder.path(), "other", &others, ordered),
            ];
            let limit = ByteCount(if ordered { 70_000 } else { 35_000 });
            assert!(files.iter().all(|file| sum_counts(from_ref(file), limit, &Silent).is_ok()));
            let error = sum_counts(&files, limit, &Silent).expect_err("too many");
            assert_eq!(error.kind(), ErrorKind::Memory);
        }
    }

    /// If the files are too many to be open at a time, they are summed in groups. The sums of all groups are in memory.
    #[test]
    fn parts_of_a_sum_keep_within_the_limit_together() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let file = |number: u32| {
            let names: Vec<String> =
                (0..500).map(|pretoken| format!("pretoken {pretoken} of {number}")).collect();
            let pretokens = names.iter().map(|name| (name.as_bytes(), Count::ONE)).collect();
            write(folder.path(), &number.to_string(), &pretokens, false)
        };
        let files: Vec<WeightedFile> = (0..7).map(file).collect();
        let sum = |limit| write_sum(&files, Vec::new(), "sum".as_ref(), ByteCount(limit), &Silent);
        // Three files have about 60 kB, seven about 140 kB.
        assert_eq!(sum(150_000).expect("they fit").pretokens, 3_500);
        assert_eq!(sum(100_000).expect_err("each part fits").kind(), ErrorKind::Memory);
    }

    #[test]
    fn sums_are_those_of_a_map() {
        let inputs = vec((vec(("[ab]{1,3}", 1..1_000u64), 0..20), any::<bool>(), 1..5u64), 1..9);
        one_case_in(4, &inputs, |files| {
            let folder = tempfile::tempdir().expect("a scratch folder");
            let mut order: Vec<String> = Vec::new();
            let mut sums: BTreeMap<String, u64> = BTreeMap::new();
            let mut written = Vec::new();
            for (number, (entries, ordered, weight)) in files.iter().enumerate() {
                let mut seen = std::collections::HashSet::new();
                let distinct: Vec<(&str, u64)> = entries
                    .iter()
                    .filter(|(pretoken, _)| seen.insert(pretoken))
                    .map(|(pretoken, count)| (pretoken.as_str(), *count))
                    .collect();
                for (pretoken, count) in &distinct {
                    if !sums.contains_key(*pretoken) {
                        order.push((*pretoken).to_owned());
                    }
                    *sums.entry((*pretoken).to_owned()).or_default() += count * weight;
                }
                let file = write(folder.path(), &number.to_string(), &counts(&distinct), *ordered);
                written.push(WeightedFile { weight: *weight, ..file });
            }
            let ordered = files.iter().all(|(_, ordered, _)| *ordered);
            if !ordered {
                order.sort();
            }
            let expected: Vec<(&[u8], Count)> =
                order.iter().map(|pretoken| (pretoken.as_bytes(), Count::new(sums[pretoken]))).collect();
            let sum = sum_counts(&written, ANY, &Silent).expect("small counts");
            prop_assert_eq!(sum.pretokens.iter().collect::<Vec<_>>(), expected);
            prop_assert_eq!(sum.info.ordered, ordered);

            let path = folder.path().join("sum");
            let file = File::create(&path).expect("a writable folder");
            let written = write_sum(&written, file, &path, ANY, &Silent).expect("small counts");
            let expected = WrittenSum {
                pretokens: to_u64(order.len()),
                pretoken_bytes: order.iter().map(|pretoken| to_u64(pretoken.len())).sum(),
                info: sum.info.clone(),
            };
            prop_assert_eq!(written, expected);
            prop_assert_eq!(read_counts(&path).expect("a right file"), sum);
            Ok(())
        });
    }
}
