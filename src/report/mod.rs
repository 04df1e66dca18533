//! Says what a run did: numbers as JSON, pictures as one self-contained page.
//!
//! Takes plain results ([`RunReport`]); computes ratios and draws, reads nothing. Times and memory stand
//! in these two files only, so that everything else a run writes depends on its input alone.

mod facts;
mod shown;
mod compression;
mod json;
mod charts;
mod html;
mod comparison;
mod tokens;

pub use comparison::{ComparedText, ComparedTokenizer, ComparedWord, Comparison, comparison_to_html};
pub use compression::Ratios;
pub use facts::{
    CorpusFacts, EncodedSource, EncodingFacts, LearnedMerge, LearnedSource, OutputFile, PackingFacts,
    RecipeFacts, RunReport, SampleDocument, SkippedInput, StageCost, TokenizerFacts, TrainingFacts,
    VocabularyFacts,
};
pub use html::to_html;
pub use json::to_json;
pub use shown::ShownToken;
#[doc(hidden)]
pub use shown::{beginning, is_invisible, push_escaped};
pub use tokens::tokens_to_html;

use std::path::Path;

use crate::error::{Error, Result};
use crate::files::publish_bytes_within;

/// Name of the file with the numbers.
pub const JSON_NAME: &str = "report.json";

/// Name of the page.
pub const HTML_NAME: &str = "report.html";

/// Writes `report.json` and `report.html` into a folder that exists, each whole or not at all.
///
/// # Errors
/// The folder cannot be written.
pub fn write(folder: &Path, report: &RunReport) -> Result<()> {
    write_of(folder, None, report)
}

/// The same of a split that is not the first of its output, under names of its own.
pub(crate) fn write_of(folder: &Path, split: Option<&str>, report: &RunReport) -> Result<()> {
    let [json, html] = names(split);
    publish_bytes_within(&folder.join(json), to_json(report).as_bytes())?;
    publish_bytes_within(&folder.join(html), to_html(report).as_bytes())
}

/// What the files of a report are called: the numbers, and the page.
pub(crate) fn names(split: Option<&str>) -> [String; 2] {
    match split {
        None => [JSON_NAME.to_owned(), HTML_NAME.to_owned()],
        Some(split) => [format!("report-{split}.json"), format!("report-{split}.html")],
    }
}

/// Reads the report that was written into a folder.
///
/// # Errors
/// There is none, or it is not a report of this version of the program.
pub fn read(folder: &Path) -> Result<RunReport> {
    read_of(folder, None)
}

/// The same of a split that is not the first of its output.
pub(crate) fn read_of(folder: &Path, split: Option<&str>) -> Result<RunReport> {
    let [json, _] = names(split);
    let path = folder.join(json);
    let failed = |cause| Error::io("read", &path, cause);
    let text = std::fs::read(&path).map_err(failed)?;
    serde_json::from_slice(&text).map_err(|cause| failed(cause.into()))
}

#[cfg(test)]
mod tests;
