//! Sums counts files, so that a corpus can be counted in parts, and mixed by weights without counting again.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::counts_file::{
    CountsFile, CountsInfo, CountsReader, CountsWriter, read_counts_info_if_ours, read_counts_within,
};
use super::foreign::{ForeignRows, check_columns};
use super::input_shards;
use super::pretokens::{BYTES_EACH, BYTES_EACH_INDEXED, DistinctPretokens, PretokenReader, multiplied};
use super::spill::{BYTES_EACH_SORTED, RunOrder, Sorted, merge};
use super::{Boundary, MemoryLimit, PretokenCounts};
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
    /// Number of files that were summed.
    pub files: u64,
    /// The metadata of the written file.
    pub info: CountsInfo,
}

/// Settings of [`sum_counts`] and [`write_sum`].
#[derive(Clone, Debug)]
pub struct SumConfig {
    /// How the text behind the files that another program wrote was split. `None` makes such files an error.
    pub foreign: Option<CountsInfo>,
    /// The memory, and the folder for rows of such files beyond it.
    pub limit: MemoryLimit,
}

impl SumConfig {
    /// Sums files that this program wrote, within a limit of memory.
    pub fn new(limit: MemoryLimit) -> SumConfig {
        SumConfig { foreign: None, limit }
    }
}

/// Sums counts files, each multiplied by its weight. All must have the same pattern, boundary and special tokens.
///
/// If all files are ordered, the sum is ordered, too: the pre-tokens of a file come after those of the files before
/// it. Otherwise the sum is sorted by the bytes of the pre-tokens. Shards of one input are summed in the order of the
/// input.
///
/// A Parquet file without the metadata of a counts file is taken for one that another program wrote. It has the columns
/// `pretoken` (text or binary) and `count` (integers, or decimals without decimal places); its rows have any order, and
/// those with equal pre-tokens are summed. [`SumConfig::foreign`] says how its text was split. If that split cuts more
/// than a tenth of the pre-tokens that are checked, about a thousand of each file, another split made them.
///
/// **Memory:** the sum and a few MB per file. If all files are ordered, also 11 to 32 bytes for each pre-token of the
/// sum, and one file at a time as [`read_counts`](super::read_counts) reads it. If only some files are ordered, also
/// all of these at once. Both the sum and the pre-tokens of the files keep within the limit. Rows of other programs
/// that exceed it are written to unnamed files in its folder.
///
/// # Errors
/// - A file cannot be read, or was counted with other settings than the first one.
/// - A shard of an input is missing or is there more than once, or the input changed between two of them.
/// - A file of another program lacks a column, has a value that no counts have, or pre-tokens of another split.
/// - A count exceeds 2⁶⁴ − 1.
/// - The pre-tokens exceed the limit ([`ErrorKind::Memory`](crate::ErrorKind::Memory)).
/// - The observer stops the run.
pub fn sum_counts(files: &[WeightedFile], config: &SumConfig, observer: &dyn Observer) -> Result<CountsFile> {
    let (parts, limit) = (Parts::of(files, config)?, config.limit.table_bytes);
    if parts.info.ordered {
        return Ok(CountsFile { pretokens: sum_in_order(&parts.all, limit, observer)?, info: parts.info });
    }
    let mut foreign = parts.foreign_rows(config, observer)?;
    let pretokens = held_by_bytes(&parts.ours, weighted(&mut foreign), (BYTES_EACH, limit), observer)?;
    Ok(CountsFile { pretokens, info: parts.info })
}

/// Writes the [sum](sum_counts) of counts files as a counts file. `path` appears in error messages only.
///
/// **Memory:** a few MB per file. With an ordered file, more than 200 files, or files of other programs, that of
/// [`sum_counts`] within the same limit.
///
/// # Errors
/// Those of [`sum_counts`] and [`write_counts`](super::write_counts).
pub fn write_sum(
    files: &[WeightedFile],
    out: impl Write + Send,
    path: &Path,
    config: &SumConfig,
    observer: &dyn Observer,
) -> Result<WrittenSum> {
    let (parts, limit) = (Parts::of(files, config)?, config.limit.table_bytes);
    let mut writer = CountsWriter::begin(out, path, &parts.info, observer)?;
    if parts.info.ordered {
        writer.push_all(&sum_in_order(&parts.all, limit, observer)?)?;
    } else {
        let mut foreign = parts.foreign_rows(config, observer)?;
        let push = |pretoken: &[u8], count| writer.push(pretoken, count);
        sum_by_bytes(&parts.ours, weighted(&mut foreign), limit, observer, push)?;
    }
    let (pretokens, pretoken_bytes) = writer.end()?;
    Ok(WrittenSum { pretokens, pretoken_bytes, files: to_u64(files.len()), info: parts.info })
}

/// The files of a sum.
struct Parts {
    /// All of them, in the order in which they are summed.
    all: Vec<WeightedFile>,
    /// Those that this program wrote.
    ours: Vec<WeightedFile>,
    /// Those that another program wrote.
    foreign: Vec<WeightedFile>,
    /// The metadata of the sum.
    info: CountsInfo,
}

impl Parts {
    /// Reads the metadata of the files.
    ///
    /// # Errors
    /// - A file cannot be read, was counted with other settings than the first one, or is of another program and nothing
    ///   says how its text was split.
    /// - A shard of an input is missing or is there more than once, or the input changed between two of them.
    fn of(files: &[WeightedFile], config: &SumConfig) -> Result<Parts> {
        let (mut infos, mut is_ours) = (Vec::new(), Vec::new());
        for file in files {
            let info = read_counts_info_if_ours(&file.path)?;
            is_ours.push(info.is_some());
            infos.push(info.map_or_else(|| info_of_foreign(&file.path, config), Ok)?);
        }
        for (file, info) in files.iter().zip(&infos) {
            check_same_settings(&infos[0], &files[0].path, info, &file.path)?;
        }
        let paths: Vec<&Path> = files.iter().map(|file| &*file.path).collect();
        let order = input_shards::order(&paths, &infos)?;
        let files_if = |wanted: &dyn Fn(usize) -> bool| -> Vec<WeightedFile> {
            order.iter().filter(|&&number| wanted(number)).map(|&number| files[number].clone()).collect()
        };
        let all = files_if(&|_| true);
        let infos = order.iter().map(|&number| infos[number].clone()).collect();
        let info = info_of_sum(&all, infos);
        Ok(Parts {
            ours: files_if(&|number| is_ours[number]),
            foreign: files_if(&|number| !is_ours[number]),
            all,
            info,
        })
    }

    /// Reads the files that another program wrote.
    fn foreign_rows(&self, config: &SumConfig, observer: &dyn Observer) -> Result<ForeignRows> {
        let files = self.foreign.iter().map(|file| (file.path.as_path(), file.weight));
        ForeignRows::read(files, &self.info, &config.limit, observer)
    }
}

/// Returns the metadata for a file of another program, which has none itself.
///
/// # Errors
/// The file lacks a column, or nothing says how its text was split.
fn info_of_foreign(path: &Path, config: &SumConfig) -> Result<CountsInfo> {
    check_columns(path)?;
    let info = config.foreign.clone().ok_or_else(|| without_split(path))?;
    Ok(CountsInfo { ordered: false, sources: json!({ "foreign": path }), ..info })
}

/// Returns the error of a file of another program, if nothing says how its text was split.
fn without_split(path: &Path) -> Error {
    let problem = format!("{} does not say how its text was split: another program wrote it", path.display());
    Error::usage(problem)
        .with_help("name the split of its pre-tokens, and the boundary and the special tokens if it has others than usual")
}

/// Returns the metadata of the sum of these files, each of which has its own in `infos`. The sum of all shards of an
/// input has the metadata of the counts of that input.
fn info_of_sum(files: &[WeightedFile], mut infos: Vec<CountsInfo>) -> CountsInfo {
    let is_unweighted = files.iter().all(|file| file.weight == 1);
    let whole = input_shards::whole_input(&infos).filter(|_| is_unweighted);
    let counted = files.iter().zip(&mut infos);
    let counted: Vec<_> = counted
        .map(|(file, info)| json!({ "weight": file.weight, "counted": info.sources.take() }))
        .collect();
    let ordered = infos.iter().all(|info| info.ordered);
    let first = infos.into_iter().next().unwrap_or_default();
    CountsInfo {
        sources: whole.unwrap_or_else(|| json!({ "summed": counted })),
        ordered: ordered && !files.is_empty(),
        format_version: FORMAT_VERSION,
        tool_version: VERSION.to_owned(),
        ..first
    }
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

/// Maximum number of files that are open at a time. Operating systems allow more.
const MAX_OPEN: usize = if cfg!(test) { 3 } else { 200 };

/// Passes each distinct pre-token of the files and of further readers with its total count to `take`, sorted by bytes.
///
/// More than [`MAX_OPEN`] files are summed in groups first. The sums of the groups are all in memory, within
/// `limit`.
fn sum_by_bytes(
    files: &[WeightedFile],
    more: Vec<Weighted<'_>>,
    limit: ByteCount,
    observer: &dyn Observer,
    mut take: impl FnMut(&[u8], Count) -> Result<()>,
) -> Result<()> {
    let (mut left, mut readers) = (limit, more);
    if files.len() <= MAX_OPEN {
        readers.extend(readers_of(files, limit)?);
    } else {
        for files in files.chunks(MAX_OPEN) {
            let sum = held_by_bytes(files, Vec::new(), (BYTES_EACH_SORTED, left), observer)?;
            left = ByteCount(left.0.saturating_sub(sum.memory(BYTES_EACH_SORTED)));
            readers.push(Weighted::new(Box::new(Sorted::new(sum)), 1));
        }
    }
    merge(readers.into_iter(), RunOrder::Bytes, observer, |pretoken, count, _| take(pretoken, count))
}

/// Returns the sum, sorted by bytes. `each` is the number of bytes that a pre-token takes in addition to its own, for
/// the check against `limit`.
fn held_by_bytes(
    files: &[WeightedFile],
    more: Vec<Weighted<'_>>,
    (each, limit): (u64, ByteCount),
    observer: &dyn Observer,
) -> Result<PretokenCounts> {
    let mut sum = PretokenCounts::new();
    sum_by_bytes(files, more, limit, observer, |pretoken, count| {
        sum.push(pretoken, count);
        sum.check_fits(each, limit)
    })?;
    Ok(sum)
}

/// Returns readers that give the pre-tokens of each file sorted by bytes. Ordered files are read into memory, all of
/// them together within the limit.
fn readers_of(files: &[WeightedFile], limit: ByteCount) -> Result<Vec<Weighted<'static>>> {
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
        Ok(Weighted::new(pretokens, file.weight))
    };
    files.iter().map(reader).collect()
}

/// Returns the readers of foreign rows, which have the weights already.
fn weighted(rows: &mut ForeignRows) -> Vec<Weighted<'_>> {
    rows.readers().into_iter().map(|reader| Weighted::new(reader, 1)).collect()
}

/// A reader that multiplies the counts by a weight.
struct Weighted<'a> {
    /// A file that is read row by row, or sorted pre-tokens in memory.
    pretokens: Box<dyn PretokenReader + 'a>,
    /// The factor of all counts.
    weight: u64,
    /// The count of the current pre-token, multiplied.
    count: Count,
}

impl<'a> Weighted<'a> {
    /// Multiplies the counts of a reader.
    fn new(pretokens: Box<dyn PretokenReader + 'a>, weight: u64) -> Weighted<'a> {
        Weighted { pretokens, weight, count: Count::ZERO }
    }
}

impl PretokenReader for Weighted<'_> {
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
    const ANY: u64 = u64::MAX;

    fn within(bytes: u64) -> SumConfig {
        let spill_folder = std::env::temp_dir();
        SumConfig::new(MemoryLimit { table_bytes: ByteCount(bytes), spill_folder })
    }

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
                let error = sum_counts(&files, &within(ANY), &Silent).expect_err("too many");
                assert!(error.to_string().contains("often"), "{error}");
                let error = write_sum(&files, Vec::new(), "sum".as_ref(), &within(ANY), &Silent)
                    .expect_err("too many");
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
            assert!(sum_counts(&files, &within(70_000), &Silent).is_ok());
            let error = sum_counts(&files, &within(20_000), &Silent).expect_err("too many");
            assert_eq!(error.kind(), ErrorKind::Memory);
        }
        // The pre-tokens of several files in memory keep within the limit together.
        let mut files: Vec<WeightedFile> = (0..5)
            .map(|number| write(folder.path(), &format!("ordered {number}"), &pretokens, true))
            .collect();
        files.push(write(folder.path(), "by bytes", &pretokens, false));
        assert!(sum_counts(&files, &within(5 * 35_000 + 70_000), &Silent).is_ok());
        let error = sum_counts(&files, &within(70_000), &Silent).expect_err("five of them are held");
        assert_eq!(error.kind(), ErrorKind::Memory);
        // Each file fits by itself.
        let others: Vec<String> = names.iter().map(|name| format!("other {name}")).collect();
        let others: PretokenCounts = others.iter().map(|name| (name.as_bytes(), Count::ONE)).collect();
        for ordered in [true, false] {
            let files = [
                write(folder.path(), "one", &pretokens, ordered),
                write(folder.path(), "other", &others, ordered),
            ];
            let limit = within(if ordered { 70_000 } else { 35_000 });
            assert!(files.iter().all(|file| sum_counts(from_ref(file), &limit, &Silent).is_ok()));
            let error = sum_counts(&files, &limit, &Silent).expect_err("too many");
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
        let sum = |limit| write_sum(&files, Vec::new(), "sum".as_ref(), &within(limit), &Silent);
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
            let sum = sum_counts(&written, &within(ANY), &Silent).expect("small counts");
            prop_assert_eq!(sum.pretokens.iter().collect::<Vec<_>>(), expected);
            prop_assert_eq!(sum.info.ordered, ordered);

            let path = folder.path().join("sum");
            let file = File::create(&path).expect("a writable folder");
            let written = write_sum(&written, file, &path, &within(ANY), &Silent).expect("small counts");
            let expected = WrittenSum {
                pretokens: to_u64(order.len()),
                pretoken_bytes: order.iter().map(|pretoken| to_u64(pretoken.len())).sum(),
                files: to_u64(files.len()),
                info: sum.info.clone(),
            };
            prop_assert_eq!(written, expected);
            prop_assert_eq!(read_counts(&path).expect("a right file"), sum);
            Ok(())
        });
    }
}
