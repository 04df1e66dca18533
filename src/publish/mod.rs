//! Puts finished work where others read it: in a repository of the Hugging Face hub, or in an object store.
//!
//! A [`Publication`] is the files of a folder that are published, checked against their hashes, in the order in which
//! they are sent: data first, the manifest last. [`push`] sends those that a repository does not have. Readers see
//! all of them or none, because a commit is made only after all large files are stored.
//!
//! An output in an object store is written in a local staging folder, from which complete files move there. `staging`
//! decides which files are uploaded, kept and removed, and records that; `store` speaks with the object store.

#[cfg(feature = "hub")]
mod http;
#[cfg(feature = "hub")]
mod hub;
#[cfg(feature = "hub")]
mod lfs;
#[cfg_attr(not(feature = "hub"), allow(dead_code, reason = "without a client, nothing is uploaded"))]
mod objects;
#[cfg_attr(not(feature = "hub"), allow(dead_code, reason = "without a client, nothing is uploaded"))]
mod staging;
#[cfg(feature = "hub")]
mod store;
mod target;

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::base::hash::Set;
use crate::error::{Error, ErrorKind, Result};
use crate::network::HubSettings;
use crate::observer::{Observer, Silent};
use crate::report;
use crate::sink::{CARD_FILE, DATA_FOLDER, HashedFile, MANIFEST, Manifest, OutputFolder, STATE_FOLDER};
use crate::source::belongs_to_tokenizer;
use crate::vocab::{self, LoadOptions};

pub(crate) use staging::{Destination, check_destination, uploaded_data};
pub use target::{PushTarget, RepositoryKind};

/// Files beside a tokenizer that are published with it.
const TOKENIZER_REPORTS: [&str; 3] = [report::JSON_NAME, report::HTML_NAME, CARD_FILE];

/// The ends of the names of tokenizer files that a user may name.
const TOKENIZER_ENDINGS: [&str; 4] = [".tiktoken", ".tiktoken.json", ".model", ".vocab"];

/// The folder of further chat templates beside a tokenizer.
const TEMPLATE_FOLDER: &str = "additional_chat_templates";

/// The remedy for a path that cannot be published.
const NAME_FOLDER: &str = "name the output folder of `run` or `encode`, or the folder of a tokenizer";

/// The kind of what a folder holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishedKind {
    /// The output of `run` or `encode`, with its manifest.
    Output,
    /// A tokenizer.
    Tokenizer,
}

/// The files of a folder that are published.
///
/// ```
/// use tokenmill::observer::Silent;
/// use tokenmill::publish::Publication;
///
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let folder = folder.path();
/// assert!(Publication::of(folder, &Silent).is_err(), "the folder is empty");
/// ```
#[derive(Clone, Debug)]
pub struct Publication {
    /// What the folder holds.
    pub kind: PublishedKind,
    /// The folder.
    pub folder: PathBuf,
    /// The files, with paths relative to the folder. They were read completely to compute the hashes.
    pub files: Vec<HashedFile>,
}

impl Publication {
    /// Finds the files of a folder, and checks them.
    ///
    /// Of an output, these are the files that its manifest lists, the dataset card, the reports and the manifest.
    /// They must be [as they were written](Manifest::verify), except the card, which may be edited. Of a tokenizer,
    /// these are the files of its formats and those that belong to them by name; it must be readable in each format.
    /// State, temporary files, and files of others are left out.
    ///
    /// # Errors
    /// - The folder holds neither, or an output that is not complete ([`ErrorKind::Usage`]), or a process is writing it.
    /// - A file differs from the manifest ([`ErrorKind::Mismatch`]).
    /// - A file cannot be read.
    /// - The observer asks to stop.
    pub fn of(folder: &Path, observer: &dyn Observer) -> Result<Publication> {
        let found =
            fs::metadata(folder).map_err(|cause| Error::io("read", folder, cause).with_help(NAME_FOLDER))?;
        if !found.is_dir() {
            return Err(Error::usage(format!("{} is a file, and a push needs a folder", folder.display()))
                .with_help(NAME_FOLDER));
        }
        OutputFolder::check_unheld(folder)?;
        if let Some(manifest) = Manifest::read_checked(folder)? {
            return Publication::of_output(folder, &manifest, observer);
        }
        if is_begun(folder) {
            let problem = format!("{}: the output is not complete: it has no {MANIFEST}", folder.display());
            return Err(Error::usage(problem)
                .with_help("give the same `run` or `encode` command again, which continues; then push"));
        }
        Publication::of_tokenizer(folder, observer)
    }

    /// The files of an output.
    ///
    /// # Errors
    /// Those of [`of`](Publication::of).
    fn of_output(folder: &Path, manifest: &Manifest, observer: &dyn Observer) -> Result<Publication> {
        manifest.verify(folder, observer)?;
        manifest.reports.iter().try_for_each(|name| report::check(&folder.join(name)))?;
        let data = manifest.files.iter().flat_map(|file| {
            let data = HashedFile { name: file.name.clone(), bytes: file.bytes, sha256: file.sha256.clone() };
            std::iter::once(data).chain(file.index.clone())
        });
        let others = manifest.other_files.iter().filter(|file| file.name != CARD_FILE);
        let mut files: Vec<HashedFile> = data.chain(others.cloned()).collect();
        let hashed: Set<String> = files.iter().map(|file| file.name.clone()).collect();
        let unhashed = manifest.tokenizer_files.iter().filter(|name| !hashed.contains(*name));
        // A card or a report that somebody has removed is no part of the output any more.
        let removable = manifest.reports.iter().map(String::as_str).chain([CARD_FILE]);
        let there = removable.filter(|name| folder.join(name).is_file());
        for name in unhashed.map(String::as_str).chain(there).chain([MANIFEST]) {
            observer.checkpoint()?;
            files.push(HashedFile::of_file(folder, name)?);
        }
        Ok(Publication { kind: PublishedKind::Output, folder: folder.to_owned(), files })
    }

    /// The files of a tokenizer.
    ///
    /// # Errors
    /// Those of [`of`](Publication::of).
    fn of_tokenizer(folder: &Path, observer: &dyn Observer) -> Result<Publication> {
        let formats = vocab::formats_in(folder)?;
        let mut fingerprints = Set::default();
        for format in formats {
            observer.checkpoint()?;
            let options = LoadOptions { format: Some(format), ..LoadOptions::default() };
            fingerprints.insert(vocab::load(folder, &options, &Silent)?.fingerprint());
        }
        match fingerprints.len() {
            0 => {
                let problem = format!("{}: neither an output nor a tokenizer", folder.display());
                return Err(Error::usage(problem).with_help(NAME_FOLDER));
            }
            1 => {}
            _ => {
                let problem = format!("{}: its formats hold different tokenizers", folder.display());
                return Err(Error::message(ErrorKind::Mismatch, problem)
                    .with_help("remove the files of those that are not to be published"));
            }
        }
        let mut names = file_names(folder)?;
        names.retain(|name| {
            belongs_to_tokenizer(name)
                || TOKENIZER_REPORTS.contains(&name.as_str())
                || TOKENIZER_ENDINGS.iter().any(|end| name.ends_with(end))
        });
        let templates = folder.join(TEMPLATE_FOLDER);
        if templates.is_dir() {
            let templates = file_names(&templates)?.into_iter().filter(|name| name.ends_with(".jinja"));
            names.extend(templates.map(|name| format!("{TEMPLATE_FOLDER}/{name}")));
        }
        let files = names.iter().map(|name| HashedFile::of_file(folder, name)).collect::<Result<_>>()?;
        Ok(Publication { kind: PublishedKind::Tokenizer, folder: folder.to_owned(), files })
    }
}

/// Whether a job has begun to write an output in a folder.
fn is_begun(folder: &Path) -> bool {
    let state = folder.join(STATE_FOLDER);
    let has_job = fs::read_dir(state).is_ok_and(|entries| {
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.into_iter().any(|name| name == "job.json" || name.starts_with("split-"))
    });
    has_job || folder.join(DATA_FOLDER).is_dir()
}

/// The names of the files of a folder that are not hidden, sorted.
///
/// # Errors
/// The folder cannot be read.
fn file_names(folder: &Path) -> Result<Vec<String>> {
    let cannot = |cause| Error::io("read", folder, cause);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let name = entry.file_name().into_string().ok();
        names.extend(name.filter(|name| !name.starts_with('.') && entry.path().is_file()));
    }
    names.sort();
    Ok(names)
}

/// How to push.
#[derive(Clone, Debug, Default)]
pub struct PushOptions {
    /// Whether a repository that does not exist yet is created as a private one.
    pub private: bool,
    /// Whether only to find out what would be sent.
    pub dry_run: bool,
    /// The message of the commit; `None` for one that names the program.
    pub message: Option<String>,
}

/// The state of a file in the repository before a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileState {
    /// The repository has no file of this name.
    New,
    /// The repository has another file of this name.
    Changed,
    /// The repository has the same file.
    Unchanged,
    /// The repository has this file of an earlier output, and the new one does not.
    Removed,
}

/// A file of a push.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PushedFile {
    /// Path in the folder and in the repository.
    pub path: String,
    /// Size in bytes; 0 for a file that is removed.
    pub bytes: u64,
    /// Its state before the push.
    pub state: FileState,
}

/// The result of a push.
#[derive(Clone, Debug)]
pub struct Pushed {
    /// The files, in the order of the publication; then those that are removed.
    pub files: Vec<PushedFile>,
    /// The commit that has the files; `None` for a dry run in which files would be sent.
    pub commit: Option<String>,
    /// The address of the repository's page.
    pub url: String,
    /// Bytes of files that were sent. Those that the hub had are not among them.
    pub bytes_sent: u64,
    /// Whether the repository was created, or would be in a dry run.
    pub created: bool,
}

impl Pushed {
    /// Whether the repository had all files before.
    pub fn is_unchanged(&self) -> bool {
        self.files.iter().all(|file| file.state == FileState::Unchanged)
    }
}

/// Sends the files of a publication to a repository as one commit, and creates the repository if it does not exist.
///
/// Large files that the hub has stored are not sent again, also if a push was interrupted before its commit. If the
/// repository has all files, no commit is made. Progress is reported as [`Stage::Upload`](crate::Stage::Upload).
///
/// **Memory:** the files that the hub keeps in Git, which are below 10 MB each, and a third more.
///
/// # Errors
/// - The publication does not fit the repository ([`ErrorKind::Usage`]).
/// - The hub cannot be reached ([`ErrorKind::Network`]), or refuses ([`ErrorKind::Authorisation`]).
/// - A file changes while it is sent ([`ErrorKind::InputChanged`]).
/// - The observer asks to stop.
#[cfg(feature = "hub")]
pub fn push(
    publication: &Publication,
    target: &PushTarget,
    options: &PushOptions,
    settings: &HubSettings,
    observer: &dyn Observer,
) -> Result<Pushed> {
    hub::push(publication, target, options, settings, observer)
}

/// Fails, because this build lacks the hub's client.
#[cfg(not(feature = "hub"))]
pub fn push(
    _publication: &Publication,
    target: &PushTarget,
    _options: &PushOptions,
    _settings: &HubSettings,
    _observer: &dyn Observer,
) -> Result<Pushed> {
    let problem =
        format!("nothing can be pushed to {target}: this program was built without the feature hub");
    Err(Error::message(ErrorKind::Usage, problem).with_help("build with the feature `hub`"))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// A folder with these files.
    fn folder(files: &[(&str, &str)]) -> TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, content) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, content).expect("written");
        }
        folder
    }

    fn names(folder: &TempDir) -> Result<Vec<String>> {
        let publication = Publication::of(folder.path(), &Silent)?;
        Ok(publication.files.into_iter().map(|file| file.name).collect())
    }

    /// A tokenizer of two letters and one merge.
    const TOKENIZER: &str = r#"{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}}"#;

    #[test]
    fn what_belongs_to_a_tokenizer_is_published_and_nothing_else() {
        let folder = folder(&[
            ("tokenizer.json", TOKENIZER),
            ("tokenizer_config.json", "{}"),
            ("README.md", "# Mine"),
            ("report.json", "{}"),
            ("additional_chat_templates/tool.jinja", "x"),
            ("additional_chat_templates/notes.txt", "x"),
            ("notes.txt", "x"),
            ("model.safetensors", "x"),
            (".hidden", "x"),
            (".tokenmill/lock", ""),
            ("vocab-300/tokenizer.json", TOKENIZER),
        ]);
        let expected = [
            "README.md",
            "report.json",
            "tokenizer.json",
            "tokenizer_config.json",
            "additional_chat_templates/tool.jinja",
        ];
        assert_eq!(names(&folder).expect("a tokenizer"), expected);
    }

    #[test]
    fn an_output_is_what_its_manifest_lists_and_the_manifest_last() {
        let folder = folder(&[
            ("tokenizer/tokenizer.json", TOKENIZER),
            ("tokenizer/notes.txt", "x"),
            ("README.md", "# Edited"),
            ("data/notes.txt", "x"),
            (".tokenmill/job.json", "{}"),
        ]);
        let name = "tokenizer/tokenizer.json";
        let mut manifest = Manifest::new("job".to_owned(), "tokenizer".to_owned());
        manifest.tokenizer_files = vec![name.to_owned()];
        manifest.other_files = vec![HashedFile::of_file(folder.path(), name).expect("hashed")];
        manifest.reports = vec!["report.json".to_owned()];
        manifest.write(folder.path()).expect("written");
        assert_eq!(names(&folder).expect("an output"), [name, "README.md", "manifest.json"]);

        fs::write(folder.path().join(name), TOKENIZER.replace('b', "c")).expect("written");
        let error = names(&folder).expect_err("a changed file");
        assert!(error.kind() == ErrorKind::Mismatch && error.to_string().contains(name), "{error}");
    }

    #[test]
    fn what_is_neither_complete_nor_a_tokenizer_is_refused() {
        let begun = [(".tokenmill/job.json", "{}"), ("tokenizer.json", TOKENIZER)];
        let split = [(".tokenmill/split-dev/job.json", "{}")];
        let different = [
            ("tokenizer.json", TOKENIZER),
            ("vocab.json", r#"{"a": 0, "b": 1, "ba": 2}"#),
            ("merges.txt", "b a\n"),
        ];
        for (files, kind, said) in [
            (&begun[..], ErrorKind::Usage, "not complete"),
            (&split, ErrorKind::Usage, "not complete"),
            (&[("data/train.parquet", "x")], ErrorKind::Usage, "not complete"),
            (&[("notes.txt", "x")], ErrorKind::Usage, "neither an output nor a tokenizer"),
            (&different, ErrorKind::Mismatch, "different tokenizers"),
        ] {
            let error = names(&folder(files)).expect_err(said);
            assert!(error.kind() == kind && error.to_string().contains(said), "{error:?}");
            assert!(error.help().is_some(), "{error}");
        }
        let folder = folder(&[("tokenizer.json", TOKENIZER)]);
        let file = folder.path().join("tokenizer.json");
        let error = Publication::of(&file, &Silent).expect_err("a file");
        assert!(error.to_string().contains("is a file"), "{error}");
    }
}
