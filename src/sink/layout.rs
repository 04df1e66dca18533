//! Plans the data files of an output: which documents go into which file, and the names of files.

use std::ops::Range;

use serde::Serialize;

use super::error::SinkError;
use super::schema::OutputFormat;
use crate::error::{Error, ErrorKind, Result};
use crate::source::Unit;

/// The folder of the data files within an output folder.
pub const DATA_FOLDER: &str = "data";

/// The folder of the tokenizer within the output folder of a run that trained it.
pub const TOKENIZER_FOLDER: &str = "tokenizer";

/// The assignment of documents to files. It is fixed before encoding and depends only on the input. So the names of
/// files are final from the start, and a later run finds the same files.
///
/// ```
/// use tokenmill::sink::FilePlan;
/// use tokenmill::source::{Range, Unit};
///
/// let unit = |bytes| Unit { name: "a".to_owned(), range: Range::Whole, rows: None, text_bytes: Some(bytes) };
/// let plan = FilePlan::of_units(&[vec![unit(60), unit(50), unit(40)]], "train", 100)?;
/// let names = ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"];
/// assert_eq!(plan.names(), Some(names.map(str::to_owned).to_vec()));
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FilePlan {
    split_name: String,
    format: OutputFormat,
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
    /// `split_name` is not a [name](is_split_name) for a split ([`ErrorKind::Usage`]).
    pub fn of_units(sources: &[Vec<Unit>], split_name: &str, file_text_bytes: u64) -> Result<FilePlan> {
        let bytes: Option<Vec<u64>> = sources.iter().flatten().map(|unit| unit.text_bytes).collect();
        let layout = match bytes {
            Some(bytes) => FileBoundaries::Fixed(fill_files(&bytes, file_text_bytes)),
            None => FileBoundaries::Rolling(file_text_bytes),
        };
        FilePlan::new(split_name, layout)
    }

    /// Plans files that end when they have about `file_text_bytes` bytes of text. This suits units whose text is of
    /// unknown size or is taken only in part.
    ///
    /// # Errors
    /// Those of [`of_units`](FilePlan::of_units).
    pub fn rolling(split_name: &str, file_text_bytes: u64) -> Result<FilePlan> {
        FilePlan::new(split_name, FileBoundaries::Rolling(file_text_bytes))
    }

    fn new(split_name: &str, layout: FileBoundaries) -> Result<FilePlan> {
        check_split_name(split_name)?;
        let (split_name, format) = (split_name.to_owned(), OutputFormat::default());
        Ok(FilePlan { split_name, format, layout, one_file: false })
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

    pub(super) fn format(&self) -> OutputFormat {
        self.format
    }

    pub(super) fn layout(&self) -> &FileBoundaries {
        &self.layout
    }

    /// The name of the split, with which file names begin.
    pub fn split_name(&self) -> &str {
        &self.split_name
    }
}

/// Fills files with whole units in order. There is always at least one file.
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
/// at least one.
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

/// Checks the name of a split.
///
/// # Errors
/// `datasets` does not accept it ([`ErrorKind::Usage`]).
fn check_split_name(name: &str) -> Result<()> {
    if is_split_name(name) {
        return Ok(());
    }
    let error = SinkError::SplitName { name: name.to_owned() };
    Err(Error::new(ErrorKind::Usage, error).with_help(split_name_help(name)))
}
