//! Reports of what a run did: the numbers as JSON, and charts as one self-contained HTML page.
//!
//! Takes plain results ([`RunReport`]), computes ratios, and draws. Reads no inputs. Times and memory use appear
//! in these two files only, so everything else that a run writes depends on its input alone.
//!
//! ```
//! use tokenmill::report::{EncodingFacts, Ratios, RunReport, to_json};
//!
//! let encoding = EncodingFacts { text_bytes: 10, tokens: 6, added_tokens: 2, ..EncodingFacts::default() };
//! let report = RunReport { encoding: Some(encoding), ..RunReport::default() };
//! assert_eq!(Ratios::of(&report).bytes_per_token, Some(2.5));
//! assert!(to_json(&report).contains("\"bytes_per_token\": 2.5"));
//! ```

mod facts;
mod shown;
mod compression;
mod charts;
mod html;
mod comparison;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};

use super::base::atomic_file::publish_bytes_within;
use super::base::integrity::{HTML_CHECKSUM, JSON_CHECKSUM};
use super::error::{Error, ErrorKind, Result};

pub use comparison::{ComparedText, ComparedTokenizer, ComparedWord, Comparison, comparison_to_html};
pub use compression::Ratios;
pub use facts::{
    CorpusFacts, EncodedSource, EncodingFacts, LearnedMerge, LearnedSource, OutputFile, PackingFacts,
    RecipeFacts, RunReport, SampleDocument, SkippedInput, StageCost, TokenizerFacts, TrainingFacts,
    VocabularyFacts,
};
pub use html::{to_html, tokens_to_html};
pub use shown::ShownToken;
#[doc(hidden)]
pub use shown::{beginning, is_invisible, push_escaped};

/// Name of the file with the numbers, in an output's folder.
pub const JSON_NAME: &str = "report.json";

/// Name of the page, in an output's folder.
pub const HTML_NAME: &str = "report.html";

/// Writes `report.json` and `report.html` into an existing folder. Each file is replaced as a whole or not at
/// all.
///
/// # Errors
/// The folder cannot be written to.
pub fn write(folder: &Path, report: &RunReport) -> Result<()> {
    write_of(folder, None, report)
}

/// Writes the report of one split. `split` is `None` for the first split of an output; the others have file names
/// of their own.
pub(crate) fn write_of(folder: &Path, split: Option<&str>, report: &RunReport) -> Result<()> {
    let [json, html] = names(split);
    publish_bytes_within(&folder.join(json), to_json(report).as_bytes())?;
    publish_bytes_within(&folder.join(html), to_html(report).as_bytes())
}

/// The file names of a report: of the numbers, and of the page.
pub(crate) fn names(split: Option<&str>) -> [String; 2] {
    match split {
        None => [JSON_NAME.to_owned(), HTML_NAME.to_owned()],
        Some(split) => [format!("report-{split}.json"), format!("report-{split}.html")],
    }
}

/// Reads the report in a folder that [`write()`] wrote.
///
/// # Errors
/// The folder has no report, or one that this version of the program cannot read.
pub fn read(folder: &Path) -> Result<RunReport> {
    read_of(folder, None)
}

/// Reads the report of one split: see [`write_of`].
pub(crate) fn read_of(folder: &Path, split: Option<&str>) -> Result<RunReport> {
    let [json, _] = names(split);
    let path = folder.join(json);
    let failed = |cause| Error::io("read", &path, cause);
    let text = std::fs::read(&path).map_err(failed)?;
    serde_json::from_slice(&text).map_err(|cause| failed(cause.into()))
}

/// Compares a file of a report with the checksum at its end. A file that is not there is no fault.
///
/// # Errors
/// It is not as it was written ([`ErrorKind::Mismatch`]), or cannot be read.
pub(crate) fn check(path: &Path) -> Result<()> {
    let text = match std::fs::read(path) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        read => read.map_err(|cause| Error::io("read", path, cause))?,
    };
    let is_page = path.extension().is_some_and(|extension| extension == "html");
    let checksum = if is_page { &HTML_CHECKSUM } else { &JSON_CHECKSUM };
    match checksum.holds(&text) {
        Some(true) => Ok(()),
        _ => Err(Error::new(ErrorKind::Mismatch, Changed { path: path.to_owned() })),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{}: changed since it was written: its checksum differs", path.display())]
struct Changed {
    path: PathBuf,
}

/// The layout of `report.json`.
#[derive(Serialize)]
struct Content<'a> {
    #[serde(flatten)]
    report: &'a RunReport,
    ratios: Ratios,
}

/// The content of `report.json`: the report, its [`Ratios`], and a checksum, with a newline at the end.
pub fn to_json(report: &RunReport) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Lines::default());
    let content = Content { report, ratios: Ratios::of(report) };
    content.serialize(&mut serializer).expect("plain values can be written to memory");
    bytes.push(b'\n');
    JSON_CHECKSUM.end(&String::from_utf8(bytes).expect("JSON is UTF-8"))
}

/// Indents objects but writes a list on one line, or a list of objects with one line per object. So the list of
/// all merge counts, which can have a hundred thousand entries, takes one line.
#[derive(Default)]
struct Lines {
    pretty: PrettyFormatter<'static>,
    lists: usize,
    objects_in_list: usize,
}

impl Formatter for Lines {
    fn begin_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.lists += 1;
        out.write_all(b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.lists -= 1;
        out.write_all(b"]")
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b",") }
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, _out: &mut W) -> io::Result<()> {
        Ok(())
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        if self.lists == 0 {
            return self.pretty.begin_object(out);
        }
        let outermost = self.objects_in_list == 0;
        self.objects_in_list += 1;
        out.write_all(if outermost { b"\n      {" } else { b"{" })
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        if self.lists == 0 {
            return self.pretty.end_object(out);
        }
        self.objects_in_list -= 1;
        out.write_all(b"}")
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        match (self.lists, first) {
            (0, _) => self.pretty.begin_object_key(out, first),
            (_, true) => Ok(()),
            (_, false) => out.write_all(b", "),
        }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        if self.lists == 0 { self.pretty.end_object_value(out) } else { Ok(()) }
    }
}
