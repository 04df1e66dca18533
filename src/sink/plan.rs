use std::ops::Range;

use serde::Serialize;

use super::fault::Fault;
use super::schema::OutputFormat;
use crate::error::{Error, ErrorKind, Result};
use crate::source::Unit;

/// The folder of the data files within an output folder.
pub const DATA_FOLDER: &str = "data";

/// The folder of the tokenizer within the output folder of a run that learned it.
pub const TOKENIZER_FOLDER: &str = "tokenizer";

/// Which documents go to which file; fixed before the first is encoded, and a function of the input
/// alone, so that names are final from the start and a later run finds the same files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FilePlan {
    split_name: String,
    format: OutputFormat,
    layout: Layout,
    /// Whether the file is called by the split alone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    one_file: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Layout {
    /// Whole units to each file, in order, counted through all sources.
    Fixed(Vec<Range<usize>>),
    /// A new file begins with the row that would take the text of a file that has rows past this.
    Rolling(u64),
}

impl FilePlan {
    /// Plans the files of these units, given by source: fixed where the text bytes of every unit are
    /// known, rolling otherwise. A unit that is larger than a file gets a file of its own.
    ///
    /// # Errors
    /// `split_name` is not one or more words of letters, digits and `_`, joined by `.`
    /// ([`ErrorKind::Usage`]).
    pub fn of_units(sources: &[Vec<Unit>], split_name: &str, file_text_bytes: u64) -> Result<FilePlan> {
        let bytes: Option<Vec<u64>> = sources.iter().flatten().map(|unit| unit.text_bytes).collect();
        let layout = match bytes {
            Some(bytes) => Layout::Fixed(fill(&bytes, file_text_bytes)),
            None => Layout::Rolling(file_text_bytes),
        };
        FilePlan::new(split_name, layout)
    }

    /// Plans files that are cut by the text seen, for units whose text is not known beforehand or
    /// taken only in part.
    ///
    /// # Errors
    /// As [`of_units`](FilePlan::of_units).
    pub fn rolling(split_name: &str, file_text_bytes: u64) -> Result<FilePlan> {
        FilePlan::new(split_name, Layout::Rolling(file_text_bytes))
    }

    fn new(split_name: &str, layout: Layout) -> Result<FilePlan> {
        check_split_name(split_name)?;
        let (split_name, format) = (split_name.to_owned(), OutputFormat::default());
        Ok(FilePlan { split_name, format, layout, one_file: false })
    }

    /// The same with files of another format.
    #[must_use]
    pub fn with_format(self, format: OutputFormat) -> FilePlan {
        FilePlan { format, ..self }
    }

    /// The same with all documents in one file, whose name is that of the split.
    #[must_use]
    pub fn in_one_file(self) -> FilePlan {
        let layout = match self.layout {
            Layout::Fixed(files) => {
                let units = files.last().map_or(0, |units| units.end);
                Layout::Fixed(std::iter::once(0..units).collect())
            }
            Layout::Rolling(_) => Layout::Rolling(u64::MAX),
        };
        FilePlan { layout, one_file: true, ..self }
    }

    /// The names of the files below the output folder; `None` where their number is not known yet.
    pub fn names(&self) -> Option<Vec<String>> {
        match &self.layout {
            _ if self.one_file => Some(vec![self.name(0)]),
            Layout::Fixed(files) => Some((0..files.len()).map(|number| self.name(number)).collect()),
            Layout::Rolling(_) => None,
        }
    }

    /// The path of a file below the output folder, with forward slashes.
    pub(super) fn name(&self, number: usize) -> String {
        let (split_name, extension) = (&self.split_name, self.format.extension());
        match &self.layout {
            _ if self.one_file => format!("{DATA_FOLDER}/{split_name}.{extension}"),
            Layout::Fixed(files) => {
                format!("{DATA_FOLDER}/{split_name}-{number:05}-of-{:05}.{extension}", files.len())
            }
            Layout::Rolling(_) => format!("{DATA_FOLDER}/{split_name}-{number:05}.{extension}"),
        }
    }

    pub(super) fn format(&self) -> OutputFormat {
        self.format
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The split's name, with which file names begin.
    pub fn split_name(&self) -> &str {
        &self.split_name
    }
}

/// Fills files with whole units in order; always at least one file.
fn fill(unit_bytes: &[u64], file_text_bytes: u64) -> Vec<Range<usize>> {
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

/// How many of the next rows go to a file that holds `rows` rows with `filled` bytes of text: at least
/// one where the file has none.
pub(super) fn rows_that_fit(lengths: &[u64], rows: u64, mut filled: u64, file_text_bytes: u64) -> usize {
    for (row, &bytes) in lengths.iter().enumerate() {
        filled = filled.saturating_add(bytes);
        if filled > file_text_bytes && (row > 0 || rows > 0) {
            return row;
        }
    }
    lengths.len()
}

/// Whether `datasets` takes this for the name of one split: by "all" it means all of them.
pub fn is_split_name(name: &str) -> bool {
    let word = |word: &str| !word.is_empty() && word.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
    name.split('.').all(word) && name != "all"
}

/// What the name of a split is to be, where `name` will not do.
pub(crate) fn split_name_help(name: &str) -> &'static str {
    match name {
        "all" => "`datasets` means all splits by \"all\": choose another, like \"train\"",
        _ => "words of letters, digits and underscores will do, joined by dots, like \"train\"",
    }
}

fn check_split_name(name: &str) -> Result<()> {
    if is_split_name(name) {
        return Ok(());
    }
    let fault = Fault::SplitName { name: name.to_owned() };
    Err(Error::new(ErrorKind::Usage, fault).with_help(split_name_help(name)))
}
