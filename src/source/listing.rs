//! Lists the files of a path, folder or glob, in byte order of their paths.
//!
//! A file's format follows from its name, after removing the extension of a compression (`.gz`, `.zst`, `.zstd`,
//! `.bz2`, `.xz`, `.lz4`):
//!
//! | format | extensions |
//! | --- | --- |
//! | Parquet | `.parquet` |
//! | Arrow | `.arrow`, `.arrows`, `.feather`, `.ipc` |
//! | JSON Lines | `.jsonl`, `.ndjson`, `.jsonlines` |
//! | JSON, CSV, TSV | `.json`, `.csv`, `.tsv` |
//! | text | `.txt`, `.text`, and any other name |
//!
//! Names also tell the splits of a dataset (`test`), and its shards (`train-00001-of-00007.parquet`). Missing shards
//! are a common result of an interrupted copy, and would silently leave out a part of a dataset, so gaps are reported.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::content::{RangeRead, SourceFile};
use super::{Compression, Format};
use crate::base::int::{to_u64, with_unit};
use crate::error::{Error, ErrorKind, Result};

/// A local file. `format` takes precedence over the format that the name shows.
fn listed(path: PathBuf, name: String, format: Option<Format>) -> SourceFile {
    let (by_name, compression) = by_extension(&path);
    // A file with a name that shows no format is text: a Markdown page, a log, a program.
    let format = format.or(by_name).unwrap_or(Format::Text);
    SourceFile { path, name, format, compression, remote: None }
}

/// The format and compression that a file name's extensions show.
fn by_extension(path: &Path) -> (Option<Format>, Compression) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let (name, compression) = match name.rsplit_once('.') {
        Some((inner, "gz")) => (inner, Compression::Gzip),
        Some((inner, "zst" | "zstd")) => (inner, Compression::Zstd),
        Some((inner, "bz2")) => (inner, Compression::Bzip2),
        Some((inner, "xz")) => (inner, Compression::Xz),
        Some((inner, "lz4")) => (inner, Compression::Lz4),
        _ => (name.as_str(), Compression::None),
    };
    let format = match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("parquet") => Some(Format::Parquet),
        Some("arrow" | "arrows" | "feather" | "ipc") => Some(Format::Arrow),
        Some("jsonl" | "ndjson" | "jsonlines") => Some(Format::Jsonl),
        Some("json") => Some(Format::Json),
        Some("csv") => Some(Format::Csv),
        Some("tsv") => Some(Format::Tsv),
        Some("txt" | "text") => Some(Format::Text),
        _ => None,
    };
    (format, compression)
}

/// Whether a file's name shows its format, and the format is not one that is also used for notes beside the data.
pub(super) fn is_known(path: &Path) -> bool {
    by_extension(path).0.is_some_and(|format| !is_secondary(format))
}

/// Whether a file's name shows a format that both data and notes beside data have. A folder's files of this kind are
/// read only if it has no others.
fn is_known_alone(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    by_extension(path).0.is_some_and(is_secondary) && !NOTES.contains(&&*name)
}

/// Whether files of this format may be notes beside the data.
fn is_secondary(format: Format) -> bool {
    matches!(format, Format::Json | Format::Csv | Format::Tsv)
}

/// Lists the files of a path, folder or glob.
///
/// In a folder, only files with a known extension count, unless `format` is given. These never count: hidden files
/// and folders; names that begin with `_`, which other programs (Spark, Delta Lake) use for unfinished files or
/// metadata; and results that the library `datasets` caches beside the files of a dataset. A file or glob may have
/// any name.
///
/// `notes` receives sentences about anything odd: how many files of a folder were left out, and shards that are
/// missing or belong to two sets.
///
/// # Errors
/// The path does not exist or cannot be read; nothing matches; or the files have different formats.
pub(super) fn list(uri: &str, format: Option<Format>, notes: &mut Vec<String>) -> Result<Vec<SourceFile>> {
    let path = Path::new(uri);
    let files = match fs::metadata(path) {
        Ok(found) if found.is_dir() => folder(path, format, notes)?,
        Ok(_) => vec![path.to_path_buf()],
        Err(_) if uri.contains(['*', '?', '[']) => glob_files(uri)?,
        Err(cause) => return Err(Error::io("read", path, cause)),
    };
    let named = |path: PathBuf| {
        let name = path.to_string_lossy().into_owned();
        listed(path, name, format)
    };
    let listed: Vec<SourceFile> = files.into_iter().map(named).collect();
    one_format(uri, &listed)?;
    notes.extend(notes_on(listed.iter().map(|file| file.name.as_str())));
    Ok(listed)
}

/// Lists the Parquet files of a path, folder or pattern in byte order. A path may have any name. In a folder and of a
/// pattern, files whose names begin with `_` or `.` never count.
///
/// # Errors
/// The path does not exist or cannot be read; nothing matches; or a file of a folder or pattern is not Parquet by its
/// name.
pub(crate) fn parquet_files(uri: &str, notes: &mut Vec<String>) -> Result<Vec<PathBuf>> {
    let path = Path::new(uri);
    let mut files = match fs::metadata(path) {
        Ok(found) if found.is_dir() => folder(path, None, notes)?,
        Ok(_) => return Ok(vec![path.to_path_buf()]),
        Err(_) if uri.contains(['*', '?', '[']) => glob_files(uri)?,
        Err(cause) => return Err(Error::io("read", path, cause)),
    };
    let is_data = |path: &PathBuf| !is_hidden(&path.file_name().unwrap_or_default().to_string_lossy());
    files.retain(is_data);
    let other = files.iter().find(|path| by_extension(path).0 != Some(Format::Parquet));
    let problem = match (other, files.is_empty()) {
        (Some(other), _) => format!("{uri} has files that are not Parquet: {}", other.display()),
        (None, true) => format!("{uri} matches no file of counts"),
        (None, false) => return Ok(files),
    };
    Err(Error::usage(problem).with_help("choose the files with a pattern such as \"counts/*.parquet\""))
}

/// Creates the list from files that are already found, for example in a hub's cache: each with its path and displayed
/// name, and with access to its bytes if it is remote.
///
/// # Errors
/// The files have different formats.
pub(super) fn named(
    uri: &str,
    files: Vec<(PathBuf, String)>,
    remotes: Vec<Option<Arc<dyn RangeRead>>>,
    format: Option<Format>,
    notes: &mut Vec<String>,
) -> Result<Vec<SourceFile>> {
    let listed = |((path, name), remote)| SourceFile { remote, ..listed(path, name, format) };
    let listed: Vec<SourceFile> = files.into_iter().zip(remotes).map(listed).collect();
    one_format(uri, &listed)?;
    notes.extend(notes_on(listed.iter().map(|file| file.name.as_str())));
    Ok(listed)
}

/// Checks that all files have one format: otherwise a stray file beside the data would be read as data.
///
/// # Errors
/// Two files have different formats; the error names both.
fn one_format(uri: &str, listed: &[SourceFile]) -> Result<()> {
    let Some(first) = listed.first() else { return Ok(()) };
    match listed.iter().find(|other| other.format != first.format) {
        None => Ok(()),
        Some(other) => Err(Error::usage(format!(
            "{uri} has files of several formats: {} is {}, {} is {}",
            first.name, first.format, other.name, other.format
        ))
        .with_help("choose the files with a pattern such as \"data/*.parquet\", or give the format")),
    }
}

/// The files below a folder, in byte order.
///
/// # Errors
/// A folder cannot be read, no file counts, or a saved dataset is incomplete.
fn folder(root: &Path, format: Option<Format>, notes: &mut Vec<String>) -> Result<Vec<PathBuf>> {
    let (mut files, mut ignored) = (Vec::new(), IgnoredFiles::default());
    let any = |_: &Path| true;
    walk(root, if format.is_some() { any } else { is_known }, &mut files, &mut ignored)?;
    if files.is_empty() {
        ignored = IgnoredFiles::default();
        walk(root, is_known_alone, &mut files, &mut ignored)?;
    }
    notes.extend(ignored.notes_on(&root.display().to_string()));
    if files.is_empty() {
        return Err(Error::failed(format!("the folder {} has no files to read", root.display())).with_help(
            "files are recognized by the endings .parquet, .arrow, .arrows, .feather, .ipc, .jsonl, \
             .jsonlines, .ndjson, .txt or .text, or, if no file has one, by .json, .csv or .tsv, all but \
             the first five also with .gz, .zst, .bz2, .xz or .lz4, and their names do not begin with . or \
             _; give the format to read files of any name",
        ));
    }
    sort(&mut files);
    Ok(files)
}

/// Counts of the files of a folder that are left out.
#[derive(Debug, Default)]
struct IgnoredFiles {
    /// The files with names that do not show that they hold documents, counted by extension.
    endings: BTreeMap<String, u64>,
    /// The paths of JSON, CSV and TSV files beside files of other formats.
    secondary: Vec<String>,
    /// The files of a dataset that was previously saved in the same folder.
    earlier: u64,
}

impl IgnoredFiles {
    /// Counts a file by its extension, without that of a compression.
    fn add(&mut self, name: &str) {
        let inner =
            [".gz", ".zst", ".zstd", ".bz2", ".xz", ".lz4"].iter().find_map(|end| name.strip_suffix(end));
        let start = inner.unwrap_or(name).rfind('.').unwrap_or(name.len());
        let ending = if start == 0 || start == name.len() { "without an ending" } else { &name[start..] };
        *self.endings.entry(ending.to_owned()).or_default() += 1;
    }

    /// Sentences about the files that were left out; none if none were.
    fn notes_on(&self, folder: &str) -> impl Iterator<Item = String> {
        let files = with_unit(self.earlier, "file");
        let earlier = (self.earlier > 0).then(|| {
            format!("left out, because by {STATE} they are of an earlier dataset: {files} of {folder}")
        });
        earlier.into_iter().chain(self.extensions_note(folder)).chain(self.secondary_note(folder))
    }

    /// A sentence about the files that may be notes or data, with the first of them by name.
    fn secondary_note(&self, folder: &str) -> Option<String> {
        let first = self.secondary.iter().min()?;
        let (files, were) = match to_u64(self.secondary.len()) {
            1 => (first.clone(), "is"),
            all => (format!("{first} and {} of {folder}", with_unit(all - 1, "other file")), "are"),
        };
        Some(format!(
            "{files} {were} not read, because JSON, CSV and TSV files beside files of other formats are often \
             metadata: if they hold documents, name them as a further input"
        ))
    }

    /// A sentence about the extensions, most frequent first.
    fn extensions_note(&self, folder: &str) -> Option<String> {
        /// Maximum number of extensions in a sentence.
        const SHOWN: usize = 5;
        let mut endings: Vec<_> = self.endings.iter().collect();
        endings.sort_by_key(|(_, count)| Reverse(**count));
        let all: u64 = self.endings.values().sum();
        let shown = endings.iter().take(SHOWN).map(|(ending, count)| format!("{count} {ending}"));
        let shown: Vec<String> = shown.chain((endings.len() > SHOWN).then(|| "others".to_owned())).collect();
        let were = if all == 1 { "is" } else { "are" };
        (all > 0).then(|| {
            format!(
                "{} of {folder} {were} left out, with names that show no format: {}",
                with_unit(all, "file"),
                shown.join(", ")
            )
        })
    }
}

/// The part of `state.json` in which `datasets` lists the files of a saved dataset.
#[derive(Deserialize)]
struct SavedDataset {
    #[serde(rename = "_data_files")]
    /// The files of the dataset.
    files: Vec<SavedFile>,
}

/// The name of a saved file.
#[derive(Deserialize)]
struct SavedFile {
    /// The name in the folder.
    filename: String,
}

/// The files of the dataset that `save_to_disk` has saved in this folder, if any. It does not delete the files of a
/// dataset that was saved there before.
fn saved(folder: &Path) -> Option<BTreeSet<String>> {
    /// Maximum bytes that are read of the file, in case it is of another program.
    const MAX_BYTES: u64 = 64 << 20;
    let mut text = Vec::new();
    fs::File::open(folder.join(STATE)).ok()?.take(MAX_BYTES).read_to_end(&mut text).ok()?;
    let saved: SavedDataset = serde_json::from_slice(&text).ok()?;
    Some(saved.files.into_iter().map(|file| file.filename).collect())
}

/// The file in which `datasets` describes a saved dataset.
const STATE: &str = "state.json";

/// Files in which `datasets` describes one or several datasets beside their files.
const NOTES: [&str; 4] = [STATE, "dataset_info.json", "dataset_dict.json", "dataset_infos.json"];

/// Adds the files below a folder for which `counts` returns `true`, and counts the others.
///
/// # Errors
/// A folder cannot be read, or a file of a saved dataset is missing.
fn walk(
    folder: &Path,
    counts: fn(&Path) -> bool,
    files: &mut Vec<PathBuf>,
    ignored: &mut IgnoredFiles,
) -> Result<()> {
    let io = |cause| Error::io("read", folder, cause);
    let saved = saved(folder);
    let gone = saved.iter().flatten().find(|name| fs::symlink_metadata(folder.join(name.as_str())).is_err());
    if let Some(name) = gone {
        let folder = folder.display();
        return Err(Error::failed(format!("{name} of the dataset that was saved in {folder} is missing"))
            .with_help("save the dataset again, or name the files that are to be read"));
    }
    for entry in fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        let path = entry.path();
        if is_hidden(&entry.file_name().to_string_lossy()) || is_computed(&path) {
            continue;
        }
        let kind = entry.file_type().map_err(io)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if kind.is_dir() {
            walk(&path, counts, files, ignored)?;
        } else if !kind.is_file() && !may_be_file(&path) || NOTES.contains(&&*name) {
            // A link to a file counts. A link to a folder does not, because it could lead back up.
        } else if saved.as_ref().is_some_and(|saved| name.ends_with(".arrow") && !saved.contains(&name)) {
            ignored.earlier += 1;
        } else if counts(&path) {
            files.push(path);
        } else if is_known_alone(&path) {
            ignored.secondary.push(path.display().to_string());
        } else {
            ignored.add(&name);
        }
    }
    Ok(())
}

/// Whether a file or folder with this name is stored with the data but is not part of it.
pub(super) fn is_hidden(name: &str) -> bool {
    name.starts_with(['.', '_'])
}

/// Whether `datasets` has cached the result of a computation like `map` in this file, next to its dataset.
fn is_computed(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("cache-")
        && name.ends_with(".arrow")
        && path.with_file_name("dataset_info.json").exists()
}

/// The files that match a glob, in byte order, each once.
///
/// # Errors
/// The glob is invalid, nothing matches, or a folder cannot be read.
fn glob_files(pattern: &str) -> Result<Vec<PathBuf>> {
    let wrong = |cause: glob::PatternError| {
        let problem = format!("{pattern} is not a valid pattern of file names");
        Error::caused(ErrorKind::Usage, problem, cause)
    };
    // The pattern is checked as a whole first: a character class may contain a slash.
    glob::Pattern::new(pattern).map_err(wrong)?;
    let parts = pattern.split('/').filter(|part| !part.is_empty());
    let parts: Vec<glob::Pattern> = parts.map(glob::Pattern::new).collect::<Result<_, _>>().map_err(wrong)?;
    let mut files = Vec::new();
    expand(Path::new(if pattern.starts_with('/') { "/" } else { "" }), &parts, &mut files)?;
    if files.is_empty() {
        return Err(Error::failed(format!("no file matches {pattern}")));
    }
    sort(&mut files);
    files.dedup();
    Ok(files)
}

/// Adds the files below a folder that match the remaining parts of a pattern. A name that is not UTF-8 is compared in
/// its lossy form.
///
/// # Errors
/// A folder cannot be read.
fn expand(below: &Path, parts: &[glob::Pattern], files: &mut Vec<PathBuf>) -> Result<()> {
    /// As in a shell: a `*` matches neither a slash nor a leading dot.
    const OPTIONS: glob::MatchOptions = glob::MatchOptions {
        case_sensitive: true,
        require_literal_separator: true,
        require_literal_leading_dot: true,
    };
    let Some((part, rest)) = parts.split_first() else {
        if may_be_file(below) {
            files.push(below.to_path_buf());
        }
        return Ok(());
    };
    if !part.as_str().contains(['*', '?', '[']) {
        let path = below.join(part.as_str());
        return if fs::symlink_metadata(&path).is_ok() { expand(&path, rest, files) } else { Ok(()) };
    }
    let folder = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    if !folder.is_dir() {
        return Ok(());
    }
    let any_folders = part.as_str() == "**";
    if any_folders && !rest.is_empty() {
        expand(below, rest, files)?;
    }
    let io = |cause| Error::io("read", folder, cause);
    for entry in fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        if !part.matches_with(&entry.file_name().to_string_lossy(), OPTIONS) {
            continue;
        }
        let path = below.join(entry.file_name());
        // Links to folders are not followed by `**`, because they could lead back up.
        if any_folders && entry.file_type().map_err(io)?.is_dir() {
            expand(&path, parts, files)?;
        } else if !any_folders || rest.is_empty() {
            expand(&path, rest, files)?;
        }
    }
    Ok(())
}

/// Whether a path may be a file. A path that cannot be examined, for example a dangling link, counts: opening it
/// reports the problem, whereas skipping it would hide it.
fn may_be_file(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |found| found.is_file())
}

/// Sorts by the bytes of the paths, so that the order does not depend on the locale.
fn sort(files: &mut [PathBuf]) {
    files.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
}

/// Maximum number of digits of a shard number.
const MAX_DIGITS: usize = 6;

/// The parts of a file name that all shards of a set share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ShardSet<'a> {
    /// The path up to the shard number.
    start: &'a str,
    /// The text after the number of files, for example the extension.
    rest: &'a str,
    /// The number of files as written, with leading zeros.
    files: &'a str,
}

impl<'a> ShardSet<'a> {
    /// The set that a file belongs to and its number in the set, if its name has this form.
    pub(super) fn of(path: &'a str) -> Option<(ShardSet<'a>, u32)> {
        let (before, after) = path.rsplit_once("-of-")?;
        let (start, number) = before.rsplit_once('-')?;
        let (files, rest) = after.split_at_checked(number.len())?;
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let numbered = (1..=MAX_DIGITS).contains(&number.len())
            && digits(number)
            && digits(files)
            && !rest.starts_with(|c: char| c.is_ascii_digit());
        numbered.then(|| (ShardSet { start, rest, files }, number.parse().unwrap_or(0)))
    }

    /// The path of the shard with this number.
    fn path(&self, number: u32) -> String {
        let ShardSet { start, files, rest } = self;
        format!("{start}-{number:0digits$}-of-{files}{rest}", digits = files.len())
    }

    /// The paths of all shards of the set.
    #[cfg(feature = "hub")]
    pub(super) fn paths(self) -> impl Iterator<Item = String> {
        let files = self.files.parse().unwrap_or(0_u32);
        (0..files).map(move |number| self.path(number))
    }
}

/// Sentences about oddities in a list of paths: a set with missing shards, and two sets with one name, which usually
/// are the results of two runs.
pub(super) fn notes_on<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut sets: BTreeMap<ShardSet<'a>, BTreeSet<u32>> = BTreeMap::new();
    for (set, number) in paths.filter_map(ShardSet::of) {
        sets.entry(set).or_default().insert(number);
    }
    let mut notes = Vec::new();
    let mut before: Option<ShardSet<'a>> = None;
    for (set, numbers) in &sets {
        if let Some(other) = before.filter(|other| (other.start, other.rest) == (set.start, set.rest)) {
            notes.push(format!(
                "{} and {} differ in the number of shards, as if from two runs: all are read",
                other.path(0),
                set.path(0)
            ));
        }
        before = Some(*set);
        let files = set.files.parse().unwrap_or(0_u32);
        // A set that is numbered from 1 has a shard with the last number too.
        let first = u32::from(!numbers.contains(&0) && numbers.contains(&files));
        let missing = (first..files + first).find(|number| !numbers.contains(number));
        if let Some(missing) = missing {
            let there = numbers.len();
            notes.push(format!("{} is missing: {there} of {files} files exist", set.path(missing)));
        }
    }
    notes
}

/// Names of splits. Hugging Face `datasets` recognizes them too.
const SPLITS: [&str; 9] =
    ["train", "training", "validation", "valid", "val", "dev", "test", "testing", "eval"];

/// Names of the training split.
#[cfg(feature = "hub")]
pub(super) const TRAIN: [&str; 2] = ["train", "training"];

/// The names of splits that occur as words in a path, in order.
pub(crate) fn splits(path: &str) -> impl Iterator<Item = &'static str> {
    let words = path.split(|c: char| !c.is_ascii_alphabetic());
    words.filter_map(|word| SPLITS.into_iter().find(|split| *split == word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Complete sets and other names are not reported; numbers may start at 0 or 1.
    #[test]
    fn incomplete_or_mixed_shard_sets_are_reported() {
        let set = |name: &str, files: u32, numbers: &[u32]| {
            numbers.iter().map(|number| format!("{name}-{number:05}-of-{files:05}.txt")).collect::<Vec<_>>()
        };
        let all: Vec<u32> = (0..1024).collect();
        let whole =
            [set("a/train", 2, &[0, 1]), set("a/test", 3, &[0, 1, 2]), set("b/train", 1, &[0])].concat();
        let plain = ["part-0.txt", "a-1-of-22.txt", "a-b-of-c", "-of-"].map(str::to_owned).to_vec();
        for (paths, expected) in [
            (whole, &[][..]),
            (plain, &[]),
            (set("train", 4, &[1, 2, 3, 4]), &[]),
            (set("train", 4, &[0, 1, 3]), &["train-00002-of-00004.txt is missing: 3 of 4 files exist"]),
            (set("x", 1024, &all[..1023]), &["x-01023-of-01024.txt is missing: 1023 of 1024 files exist"]),
            (
                [set("t", 2, &[0, 1]), set("t", 3, &[0, 1, 2])].concat(),
                &[
                    "t-00000-of-00002.txt and t-00000-of-00003.txt differ in the number of shards, as if from two runs: all are read",
                ],
            ),
            (set("t", 999_999, &[5]), &["t-00000-of-999999.txt is missing: 1 of 999999 files exist"][..0]),
        ] {
            let found = notes_on(paths.iter().map(String::as_str));
            assert_eq!(found, expected, "{:?}", &paths[..1]);
        }
    }

    /// Only whole words count, and directories count as well as file names.
    #[test]
    fn splits_are_words_of_a_path() {
        let found = |path| splits(path).collect::<Vec<_>>();
        assert_eq!(found("data/train-00000-of-00002.parquet"), ["train"]);
        assert_eq!(found("/test/part.train.jsonl"), ["test", "train"]);
        assert_eq!(found("trains/latest_tests.txt"), Vec::<&str>::new());
    }
}
