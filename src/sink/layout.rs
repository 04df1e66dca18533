//! Names of the files and folders of an output, and the plan which documents go into which data file.
//!
//! ```text
//! README.md                           the dataset card
//! manifest.json                       lists all files with their hashes; written last
//! report.json, report.html
//! data/
//!   train-00000-of-00002.parquet      data files; `.bin` and `.idx` in the formats of bare ids
//! tokenizer/                          the tokenizer, if the run trained it
//! .tokenmill/                         the state, which readers of the data ignore
//!   lock, owner-N                     keep other processes out
//!   job.json                          identifies the job
//!   files.journal                     the completed data files
//!   row-groups.journal                the row groups of the incomplete data file
//!   incomplete-N                      the data file that run number N writes
//!   split-validation/                 the same files for each split but the first
//! ```

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::schema::OutputFormat;
use crate::error::{Error, Result};
use crate::source::Unit;

/// The folder of the data files within an output folder.
pub const DATA_FOLDER: &str = "data";

/// The folder of the tokenizer within the output folder of a run that trained it.
pub const TOKENIZER_FOLDER: &str = "tokenizer";

/// The folder within an output folder that holds the lock, scratch files and state.
pub const STATE_FOLDER: &str = ".tokenmill";

/// File name of the manifest.
pub const MANIFEST: &str = "manifest.json";

/// File name of the dataset card.
pub(crate) const CARD_FILE: &str = "README.md";

/// The assignment of documents to files. It is fixed before encoding and depends only on the input. So the names of
/// files are final from the start, and a later run finds the same files.
///
/// It is part of the key under which a run resumes: files of another plan are not kept.
///
/// ```
/// use tokenmill::sink::FilePlan;
/// use tokenmill::source::{RowRange, Unit};
///
/// let unit = |bytes| Unit { name: "a".to_owned(), range: RowRange::Whole, rows: None, text_bytes: Some(bytes) };
/// let plan = FilePlan::of_units(&[vec![unit(60), unit(50), unit(40)]], "train", 100)?;
/// let names = ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"];
/// assert_eq!(plan.names(), Some(names.map(str::to_owned).to_vec()));
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FilePlan {
    /// The split, with which the names of files begin.
    split_name: String,
    /// Decides the extension of the files.
    format: OutputFormat,
    /// Where files end.
    layout: FileBoundaries,
    /// Whether the file is named by the split alone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    one_file: bool,
}

/// The borders of files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) enum FileBoundaries {
    /// Each file holds a range of units, counted over all sources.
    Fixed(Vec<Range<usize>>),
    /// A new file begins with the row that would take the file's text above this number of bytes, unless it is the
    /// file's first row.
    Rolling(u64),
}

impl FilePlan {
    /// Plans the files for these units, given by source. If the text of every unit has a known size, each file holds
    /// whole units, up to about `file_text_bytes` bytes of text. A larger unit has its own file. Otherwise files are
    /// [rolling](FilePlan::rolling).
    ///
    /// # Errors
    /// `split_name` is not a [name](is_split_name) for a split ([`Usage`](crate::ErrorKind::Usage)).
    pub fn of_units(sources: &[Vec<Unit>], split_name: &str, file_text_bytes: u64) -> Result<FilePlan> {
        let bytes: Option<Vec<u64>> = sources.iter().flatten().map(|unit| unit.text_bytes).collect();
        let layout = match bytes {
            Some(bytes) => FileBoundaries::Fixed(fill_files(&bytes, file_text_bytes)),
            None => FileBoundaries::Rolling(file_text_bytes),
        };
        FilePlan::new(split_name, layout)
    }

    /// Plans files that end when they have about `file_text_bytes` bytes of text. This suits units of unknown size,
    /// and units that are taken only in part.
    ///
    /// # Errors
    /// Those of [`of_units`](FilePlan::of_units).
    pub fn rolling(split_name: &str, file_text_bytes: u64) -> Result<FilePlan> {
        FilePlan::new(split_name, FileBoundaries::Rolling(file_text_bytes))
    }

    /// Plans a number of files, without saying which documents they hold.
    ///
    /// # Errors
    /// Those of [`of_units`](FilePlan::of_units).
    pub(super) fn of_files(split_name: &str, files: usize) -> Result<FilePlan> {
        FilePlan::new(split_name, FileBoundaries::Fixed((0..files).map(|file| file..file + 1).collect()))
    }

    /// Checks the name of the split. The format is the default one.
    ///
    /// # Errors
    /// The name is not valid.
    fn new(split_name: &str, layout: FileBoundaries) -> Result<FilePlan> {
        if !is_split_name(split_name) {
            let problem = format!("{split_name:?} is not a valid name for a split of a dataset");
            return Err(Error::usage(problem).with_help(split_name_help(split_name)));
        }
        let split_name = split_name.to_owned();
        Ok(FilePlan { split_name, format: OutputFormat::default(), layout, one_file: false })
    }

    /// The same plan for another format. The default is Parquet.
    #[must_use]
    pub fn with_format(self, format: OutputFormat) -> FilePlan {
        FilePlan { format, ..self }
    }

    /// The same plan with all documents in one file, which has the name of the split.
    #[must_use]
    pub fn in_one_file(self) -> FilePlan {
        let layout = match self.layout {
            FileBoundaries::Fixed(files) => {
                let units = files.last().map_or(0, |units| units.end);
                FileBoundaries::Fixed(std::iter::once(0..units).collect())
            }
            FileBoundaries::Rolling(_) => FileBoundaries::Rolling(u64::MAX),
        };
        FilePlan { layout, one_file: true, ..self }
    }

    /// The paths of the files relative to the output folder; `None` if their number is not known yet.
    pub fn names(&self) -> Option<Vec<String>> {
        match &self.layout {
            _ if self.one_file => Some(vec![self.name(0)]),
            FileBoundaries::Fixed(files) => Some((0..files.len()).map(|number| self.name(number)).collect()),
            FileBoundaries::Rolling(_) => None,
        }
    }

    /// The path of a file relative to the output folder, with forward slashes.
    pub(super) fn name(&self, number: usize) -> String {
        let (split_name, extension) = (&self.split_name, self.format.extension());
        match &self.layout {
            _ if self.one_file => format!("{DATA_FOLDER}/{split_name}.{extension}"),
            FileBoundaries::Fixed(files) => {
                format!("{DATA_FOLDER}/{split_name}-{number:05}-of-{:05}.{extension}", files.len())
            }
            FileBoundaries::Rolling(_) => format!("{DATA_FOLDER}/{split_name}-{number:05}.{extension}"),
        }
    }

    /// The format of the files.
    pub(super) fn format(&self) -> OutputFormat {
        self.format
    }

    /// Where files end.
    pub(super) fn layout(&self) -> &FileBoundaries {
        &self.layout
    }

    /// The name of the split, with which file names begin.
    pub fn split_name(&self) -> &str {
        &self.split_name
    }
}

/// Fills files with whole units in order. There is always at least one file. The ranges follow each other and cover
/// all units. A file is closed before the unit that would take it above the limit.
fn fill_files(unit_bytes: &[u64], file_text_bytes: u64) -> Vec<Range<usize>> {
    let mut files = Vec::new();
    let (mut start, mut filled) = (0, 0_u64);
    for (unit, &bytes) in unit_bytes.iter().enumerate() {
        if unit > start && filled.saturating_add(bytes) > file_text_bytes {
            files.push(start..unit);
            (start, filled) = (unit, 0);
        }
        filled = filled.saturating_add(bytes);
    }
    files.push(start..unit_bytes.len());
    files
}

/// Number of the next rows that go into a file with `rows` rows and `filled` bytes of text. If the file has no rows,
/// at least one. `lengths` are the bytes of text of the next rows. 0 means that the file is full.
pub(super) fn rows_that_fit(lengths: &[u64], rows: u64, mut filled: u64, file_text_bytes: u64) -> usize {
    for (row, &bytes) in lengths.iter().enumerate() {
        filled = filled.saturating_add(bytes);
        if filled > file_text_bytes && (row > 0 || rows > 0) {
            return row;
        }
    }
    lengths.len()
}

/// Whether `datasets` accepts this as the name of one split: words of letters, digits and `_`, joined by `.`. The
/// name "all" means all splits there.
///
/// ```
/// use tokenmill::sink::is_split_name;
///
/// assert!(is_split_name("train") && is_split_name("dev.2024"));
/// assert!(!is_split_name("all") && !is_split_name("a-b") && !is_split_name(""));
/// ```
pub fn is_split_name(name: &str) -> bool {
    let word = |word: &str| !word.is_empty() && word.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
    name.split('.').all(word) && name != "all"
}

/// The help for a name of a split that cannot be used.
pub(crate) fn split_name_help(name: &str) -> &'static str {
    match name {
        "all" => "in `datasets`, \"all\" means all splits: choose another name, such as \"train\"",
        _ => "use words of letters, digits and underscores, joined by dots, such as \"train\"",
    }
}

/// The data files of an output and their indexes, sorted by name.
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn data_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = entries(&folder.join(DATA_FOLDER))?;
    files.retain(|path| has_data_extension(path));
    files.sort();
    Ok(files)
}

/// Whether a file in the folder of the data is a data file or an index, by its name.
fn has_data_extension(path: &Path) -> bool {
    let ours = ["parquet", "bin", "idx"].map(OsStr::new);
    path.extension().is_some_and(|extension| ours.contains(&extension))
}

/// Whether this is the name of a data file or index, relative to its output.
pub(crate) fn is_data_name(name: &str) -> bool {
    let name = name.strip_prefix(DATA_FOLDER).and_then(|name| name.strip_prefix('/'));
    name.is_some_and(|name| !name.contains('/') && has_data_extension(Path::new(name)))
}

/// The path of a data file relative to its output folder.
pub(super) fn data_name(path: &Path) -> String {
    format!("{DATA_FOLDER}/{}", path.file_name().unwrap_or_default().to_string_lossy())
}

/// Whether a file is the index of a file of bare ids, by its name.
pub(super) fn is_index(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "idx")
}

/// The entries of a folder; empty if it does not exist. The order is that of the file system.
///
/// # Errors
/// The folder cannot be read.
pub(super) fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |cause| Error::io("read", folder, cause);
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry.map_err(failed)?.path())).collect(),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(cause) => Err(failed(cause)),
    }
}

/// The first `limit` bytes of a file; `None` if it does not exist.
///
/// # Errors
/// The file cannot be read.
pub(super) fn read_up_to(limit: u64, path: &Path) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    match File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(Error::io("read", path, cause)),
        Ok(_) => Ok(Some(bytes)),
    }
}

/// The data files of a split, as paths relative to the output folder; those of all splits if `split` is `None`.
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn split_files(folder: &Path, split: Option<&str>) -> Result<Vec<String>> {
    let mut names: Vec<String> = data_files(folder)?.iter().map(|path| data_name(path)).collect();
    names.retain(|name| split.is_none_or(|split| split == split_of(name)));
    Ok(names)
}

/// The name of the split of a data file. `name` is its path relative to the output folder, or its file name. The name
/// of a split contains no hyphen, so it ends at the first one.
pub(crate) fn split_of(name: &str) -> &str {
    let file = name.strip_prefix(DATA_FOLDER).map_or(name, |file| file.trim_start_matches('/'));
    match file.split_once('-') {
        Some((split, _)) => split,
        // If a split has a single file, the file is named by the split alone.
        None => file.rsplit_once('.').map_or("", |(split, _)| split),
    }
}

/// The path of the index for a data file.
pub(super) fn index_path(data: &Path) -> PathBuf {
    data.with_extension("idx")
}

/// Whether a file has bare ids.
pub(super) fn is_flat(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("bin"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::ErrorKind;
    use crate::source::RowRange;

    fn units(bytes: &[Option<u64>]) -> Vec<Unit> {
        let unit =
            |&text_bytes| Unit { name: "in".to_owned(), range: RowRange::Whole, rows: None, text_bytes };
        bytes.iter().map(unit).collect()
    }

    #[test]
    fn whole_units_fill_files_in_order() {
        for (sources, limit, ends) in [
            (vec![vec![]], 10, vec![0]),
            (vec![vec![4, 4], vec![4]], 10, vec![2, 3]),
            (vec![vec![10, 10]], 10, vec![1, 2]),
            (vec![vec![3], vec![], vec![50, 3, 7]], 10, vec![1, 2, 4]),
            (vec![vec![0, 0, 0]], 0, vec![3]),
            (vec![vec![u64::MAX, u64::MAX]], u64::MAX - 1, vec![1, 2]),
        ] {
            let known = |bytes: &Vec<u64>| units(&bytes.iter().copied().map(Some).collect::<Vec<_>>());
            let sources: Vec<_> = sources.iter().map(known).collect();
            let plan = FilePlan::of_units(&sources, "train", limit).expect("a plan");
            let starts = std::iter::once(0).chain(ends.iter().copied());
            let expected = starts.zip(ends.iter().copied()).map(|(start, end)| start..end).collect();
            assert_eq!(plan.layout(), &FileBoundaries::Fixed(expected), "{sources:?}");
        }
    }

    #[test]
    fn names_tell_the_number_of_files_where_it_is_known() {
        let known = FilePlan::of_units(&[units(&[Some(9), Some(9), Some(9)])], "train", 20).expect("a plan");
        let names = ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"];
        assert_eq!(known.names().expect("known"), names);
        let unknown = FilePlan::of_units(&[units(&[Some(9), None])], "dev.x", 20).expect("a plan");
        assert_eq!(unknown.names(), None);
        assert_eq!(unknown.name(12), "data/dev.x-00012.parquet");
    }

    #[test]
    fn split_names_are_words() {
        for name in ["train", "validation_2", "a.b"] {
            assert!(FilePlan::rolling(name, 1).is_ok(), "{name}");
        }
        for name in ["", "a-b", "../x", "a b", "a.", "train*"] {
            let error = FilePlan::rolling(name, 1).expect_err(name);
            assert_eq!(error.kind(), ErrorKind::Usage);
        }
    }

    proptest! {
        #[test]
        fn rolling_files_are_full_and_not_overfull(lengths in prop::collection::vec(0_u64..30, 0..60)) {
            let (mut row, mut files) = (0, Vec::new());
            while row < lengths.len() {
                let fit = rows_that_fit(&lengths[row..], 0, 0, 50);
                files.push(&lengths[row..row + fit]);
                row += fit;
            }
            for pair in files.windows(2) {
                prop_assert!(pair[0].iter().sum::<u64>() + pair[1][0] > 50);
            }
            prop_assert!(files.iter().all(|file| file.len() == 1 || file.iter().sum::<u64>() <= 50));
        }
    }

    #[test]
    fn one_file_is_called_by_its_split() {
        let many = [units(&[Some(9), Some(9)]), units(&[Some(9)])];
        let unknown = [units(&[Some(9), None])];
        for (sources, split, name) in
            [(&many[..], "train", "data/train.bin"), (&unknown[..], "dev.x", "data/dev.x.bin")]
        {
            let plan = FilePlan::of_units(sources, split, 10).expect("a plan");
            let plan = plan.with_format(OutputFormat::Bin).in_one_file();
            assert_eq!(plan.names(), Some(vec![name.to_owned()]));
            assert_eq!(split_of(name), split);
        }
    }
}
