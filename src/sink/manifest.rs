//! The manifest of an output folder, and verification of the folder against it.
//!
//! An output may have several splits, each written by its own job. Their files are listed one split after another.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::file_reader::row_count;
use super::layout::{CARD_FILE, MANIFEST, data_files, data_name, read_up_to, split_of};
use super::schema::Declaration;
use super::state_folder::recorded_files;
use crate::base::hash::Set;
use crate::base::int::{bytes_per_token, to_u64, with_unit};
use crate::base::integrity::{JSON_CHECKSUM, hex, sha256, sha256_of, update_from};
use crate::base::{atomic_file, integrity};
use crate::error::{Error, ErrorKind, Result, json_problem_at};
use crate::observer::{Observer, Stage};
use crate::source::{Identity, RowRange};
use crate::{FORMAT_VERSION, VERSION};

/// Bytes of a manifest that are read, at most (1 GiB). The manifest for a terabyte of text has a few megabytes.
const MAX_MANIFEST_BYTES: u64 = 1 << 30;

/// The remedy for a manifest that cannot be used.
const REMOVE_MANIFEST: &str =
    "remove it, then give the same `run` or `encode` command again: complete files are kept";

/// Bytes of a file that are verified between two reports of progress (1 MiB).
const BYTES_PER_REPORT: u64 = 1 << 20;

/// The contents of an output folder and their origin. The manifest is written last: an output with a manifest is
/// complete.
///
/// ```
/// use tokenmill::observer::Silent;
/// use tokenmill::sink::Manifest;
///
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let folder = folder.path();
/// match Manifest::read(folder)? {
///     Some(manifest) => manifest.verify(folder, &Silent)?, // reads all files
///     None => println!("not complete"),
/// }
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT_VERSION`](crate::FORMAT_VERSION) of the program that wrote it.
    pub format_version: u32,
    /// Version of the program that wrote it.
    pub tool_version: String,
    /// Fingerprint of everything that the output depends on.
    pub job: String,
    /// Fingerprint of the tokenizer.
    pub tokenizer: String,
    /// What the data files declare about their tokens; in Parquet files, their metadata has it, too. `None` if there
    /// are none, or if they are Parquet files and the version of the program did not repeat it here.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub declaration: Option<Declaration>,
    /// The shard, if the output is one of several that together hold the result of a job. Then the inputs are those of
    /// the shard alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub shard: Option<ManifestShard>,
    /// The inputs that were read, in order, whether or not their rows are in the data files.
    #[serde(default)]
    pub inputs: Vec<ManifestInput>,
    /// Number of rows or files of the inputs that were left out, because they could not be read. The versions of the
    /// program that did not list it have 0.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub skipped_inputs: u64,
    /// The data files, in order.
    pub files: Vec<OutputFile>,
    /// The files of the tokenizer that was trained and of the smaller ones, as paths relative to the output folder
    /// with forward slashes. Empty if the tokenizer was given, or if the version of the program did not list them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tokenizer_files: Vec<String>,
    /// Other files that the output depends on or that its readers use, with their hashes: those of the tokenizer, and
    /// the dataset card. Empty if the version of the program did not list them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub other_files: Vec<HashedFile>,
    /// The files of the reports. They contain times, so they have no hash here, but end with their own checksums.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub reports: Vec<String>,
    /// The jobs that wrote the splits, in the order of their files, if there are several splits. Then `job` is the
    /// last one that ended.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub splits: Vec<SplitJob>,
}

/// The shard that an output holds, and the job and listing that all shards of the job share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestShard {
    /// The number of the shard, from 1.
    pub index: u64,
    /// The number of all shards.
    pub of: u64,
    /// Fingerprint of the whole job: of the settings, the tokenizer, the version of the program, the listing and the
    /// number of shards.
    pub job: String,
    /// Hash of the listing of the whole input, from which the shard follows.
    pub listing: String,
}

impl fmt::Display for ManifestShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

/// The job that wrote a split of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitJob {
    /// The name of the split.
    pub name: String,
    /// The fingerprint of the job.
    pub job: String,
    /// The number of the manifest's inputs that belong to the split. Those of the first split come first.
    pub inputs: usize,
    /// The number of rows or files that the job left out.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub skipped_inputs: u64,
}

/// Whether a number is left out of the manifest.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A file that a run read, or a range of a file with its own identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestInput {
    /// The path or URI of the file. For a file of the hub it contains the commit.
    pub name: String,
    /// The part of the file.
    pub range: RowRange,
    /// The identity of its content.
    pub identity: Identity,
}

/// A data file of an output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputFile {
    /// Path relative to the output folder, with forward slashes.
    pub name: String,
    /// Number of rows, nulls included.
    pub rows: u64,
    /// Number of token ids in all rows.
    pub tokens: u64,
    /// How many of these are BOS or EOS tokens that encoding added.
    #[serde(default)]
    pub added_tokens: u64,
    /// Bytes of the text that was encoded.
    pub text_bytes: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// SHA-256 of the file, in hex.
    pub sha256: String,
    /// The index beside the file, if the format has one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub index: Option<HashedFile>,
    /// The parts of the input that the file holds, in order.
    pub units: Vec<UnitPart>,
}

/// A file besides the data files, with its size and hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HashedFile {
    /// Path relative to the output folder, with forward slashes.
    pub name: String,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// SHA-256 of the file, in hex.
    pub sha256: String,
}

/// The part of an input unit that a data file holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitPart {
    /// The file or URI of the unit.
    pub name: String,
    /// The part of that file that the unit covers.
    pub range: RowRange,
    /// The identity of its content.
    pub identity: Identity,
    /// The first row of the unit that is in the data file.
    pub first_row: u64,
    /// Number of rows of the unit, from that one on, in the data file.
    pub rows: u64,
}

/// A place outside of the output folder for complete data files. Names are relative to the output, with forward
/// slashes.
pub(crate) trait FileStore: Sync {
    /// Moves a complete data file and its index there, or begins to. Once they are moved, they are stored there for
    /// good, and the folder no longer has them.
    ///
    /// # Errors
    /// This file, or one before it, cannot be read, stored or removed.
    fn take(&self, file: &OutputFile) -> Result<()>;

    /// Waits until all files that were taken are moved.
    ///
    /// # Errors
    /// One of them cannot be moved.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// Whether the place has a data file and its index as they were stored.
    ///
    /// # Errors
    /// The place cannot be asked.
    fn holds(&self, file: &OutputFile) -> Result<bool>;

    /// Removes the data files there, except those with names that `keep` accepts. Before that, the manifest there
    /// becomes that of the folder, or is removed if the folder has none: a manifest says that its files are complete.
    ///
    /// # Errors
    /// The place refuses, or cannot be asked.
    fn keep_only(&self, keep: &dyn Fn(&str) -> bool) -> Result<()>;
}

impl Manifest {
    /// The manifest of an output without files, written by this version of the program.
    pub(crate) fn new(job: String, tokenizer: String) -> Manifest {
        Manifest {
            format_version: FORMAT_VERSION,
            tool_version: VERSION.to_owned(),
            job,
            tokenizer,
            declaration: None,
            shard: None,
            inputs: Vec::new(),
            skipped_inputs: 0,
            files: Vec::new(),
            tokenizer_files: Vec::new(),
            other_files: Vec::new(),
            reports: Vec::new(),
            splits: Vec::new(),
        }
    }

    /// Reads the manifest of an output folder; `None` if it has none.
    ///
    /// # Errors
    /// The file cannot be read, is not a manifest, is of a later version, or names files outside of the folder.
    pub fn read(folder: &Path) -> Result<Option<Manifest>> {
        let path = folder.join(MANIFEST);
        let Some(text) = read_text(&path)? else { return Ok(None) };
        parse(&path, &text).map(Some)
    }

    /// The paths of the data files and their indexes, relative to the output folder.
    #[cfg(feature = "hub")]
    pub(crate) fn data_names(&self) -> Set<String> {
        self.files.iter().flat_map(OutputFile::names).cloned().collect()
    }

    /// Reads the manifest of an output folder and verifies the checksum at its end. `None` if the folder has no
    /// manifest. Manifests of earlier versions have no checksum, and are accepted.
    ///
    /// # Errors
    /// Those of [`read`](Manifest::read), or the checksum differs ([`ErrorKind::Mismatch`]).
    pub fn read_checked(folder: &Path) -> Result<Option<Manifest>> {
        let path = folder.join(MANIFEST);
        let Some(text) = read_text(&path)? else { return Ok(None) };
        let manifest = parse(&path, &text)?;
        // Versions that write checksums also list other files.
        if JSON_CHECKSUM.holds(&text).unwrap_or(manifest.other_files.is_empty()) {
            return Ok(Some(manifest));
        }
        let problem = format!("{}: not as it was written: its checksum differs", path.display());
        Err(Error::message(ErrorKind::Mismatch, problem).with_help(REMOVE_MANIFEST))
    }

    /// Parses a manifest, for example of a repository or an object store. Messages call it `place`.
    ///
    /// # Errors
    /// The text is not a manifest, is of a later version, or names files outside of its folder.
    pub(crate) fn of_text(place: &Path, text: &[u8]) -> Result<Manifest> {
        parse(place, text)
    }

    /// Writes the manifest to an output folder. Call it after everything else is written. The file appears complete
    /// or not at all, and ends with its own checksum.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(MANIFEST);
        let mut text = serde_json::to_string_pretty(self).expect("plain fields with text keys");
        text.push('\n');
        atomic_file::publish_bytes_within(&path, JSON_CHECKSUM.end(&text).as_bytes())
    }

    /// Number of rows in all files.
    pub fn rows(&self) -> u64 {
        self.files.iter().map(|file| file.rows).sum()
    }

    /// Number of token ids in all files.
    pub fn tokens(&self) -> u64 {
        self.files.iter().map(|file| file.tokens).sum()
    }

    /// Bytes of text per token, without BOS and EOS; 0 if there are no other tokens.
    pub fn bytes_per_token(&self) -> f64 {
        let added_tokens = self.files.iter().map(|file| file.added_tokens).sum();
        bytes_per_token(self.text_bytes(), self.tokens(), added_tokens)
    }

    /// Bytes of the text that was encoded into all files.
    pub fn text_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.text_bytes).sum()
    }

    /// Size of all data files in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Verifies an output folder. Reads all data files and compares their size, hash and number of rows with the
    /// manifest, then looks for data files that are not listed. Compares size and hash of [the other
    /// files](Manifest::other_files), except the dataset card, which may be [edited](Manifest::card_is_edited).
    ///
    /// Progress is reported as [`Stage::Verify`]. All threads of the current rayon pool read, one file each.
    ///
    /// # Errors
    /// - Files are missing, differ, or are not listed ([`ErrorKind::Mismatch`]). The message names the first 20.
    /// - A file cannot be read.
    /// - The observer asks to stop.
    pub fn verify(&self, folder: &Path, observer: &dyn Observer) -> Result<()> {
        self.verify_for(None, folder, None, observer)
    }

    /// Verifies an output folder, like [`verify`](Manifest::verify), for the job of one split. The job cannot repair
    /// data files of other splits, so a difference in them is no error: the observer receives a note of one for each
    /// split. Data files that the folder lacks are looked for in `store`.
    ///
    /// # Errors
    /// Those of [`verify`](Manifest::verify), except for other splits.
    pub(crate) fn verify_for(
        &self,
        split: Option<&str>,
        folder: &Path,
        store: Option<&dyn FileStore>,
        observer: &dyn Observer,
    ) -> Result<()> {
        let (mut told, mut differences) = (Set::default(), Vec::new());
        let mut collect = |name: &str, damage: Error| {
            let of = split_of(name);
            if damage.kind() != ErrorKind::Mismatch {
                return Err(damage);
            }
            if split.is_none_or(|own| own == of) {
                differences.push(damage);
            } else if told.insert(of.to_owned()) {
                observer.noted(&format!(
                    "{damage}. It is of the split {of:?}: give the command of that split again"
                ));
            }
            Ok(())
        };
        let others = self.other_files.iter().filter(|file| file.name != CARD_FILE);
        let bytes = others.clone().fold(self.bytes(), |sum, file| sum.saturating_add(file.bytes));
        observer.started(Stage::Verify, Some(bytes));
        let compared =
            self.files.par_iter().with_max_len(1).map(|file| file.verify_in(folder, store, observer));
        for (file, compared) in self.files.iter().zip(compared.collect::<Vec<_>>()) {
            compared.or_else(|damage| collect(&file.name, damage))?;
        }
        let listed: Set<PathBuf> =
            self.files.iter().flat_map(OutputFile::names).map(|name| folder.join(name)).collect();
        for path in data_files(folder)?.into_iter().filter(|path| !listed.contains(path)) {
            let help = match self.is_of_incomplete_split(folder, &path)? {
                true => {
                    "its split is not complete: give the same `run` or `encode` command again, which continues"
                }
                false => {
                    "remove files that are not listed: readers of the folder take them for part of the data"
                }
            };
            let problem = format!("{}: not listed in the manifest", path.display());
            let error = Error::message(ErrorKind::Mismatch, problem).with_help(help);
            collect(&data_name(&path), error)?;
        }
        // Earlier versions list the tokenizer's files without their hashes.
        let hashed: Set<&String> = others.clone().map(|file| &file.name).collect();
        let unhashed = self.tokenizer_files.iter().filter(|name| !hashed.contains(name));
        let missing = unhashed.map(|name| folder.join(name)).filter(|path| !path.is_file());
        differences.extend(missing.map(|path| file_missing(&path)));
        for file in others {
            match file.verify(folder, observer) {
                Err(damage) if damage.kind() == ErrorKind::Mismatch => differences.push(damage),
                compared => compared?,
            }
        }
        no_difference(&differences)?;
        observer.finished(Stage::Verify);
        Ok(())
    }

    /// Number of files that are missing or have another size than listed, without those that the manifest lists without
    /// a size, without the dataset card, which people edit, and without data files for which `moved` returns true. No
    /// file is read.
    pub(crate) fn files_of_other_size(&self, folder: &Path, moved: impl Fn(&str) -> bool) -> u64 {
        let here = || self.files.iter().filter(|file| !moved(&file.name));
        let data = here().map(|file| (&file.name, file.bytes));
        let others = self.other_files.iter().filter(|file| file.name != CARD_FILE);
        let others = others.chain(here().filter_map(|file| file.index.as_ref()));
        let is_as_listed = |(name, bytes): &(&String, u64)| {
            folder.join(name).metadata().is_ok_and(|file| file.is_file() && file.len() == *bytes)
        };
        let listed = data.chain(others.map(|file| (&file.name, file.bytes)));
        to_u64(listed.filter(|file| !is_as_listed(file)).count())
    }

    /// Whether the dataset card differs from the one that was written. People add to it what a program cannot know.
    ///
    /// # Errors
    /// The card cannot be read, or the observer asks to stop.
    pub fn card_is_edited(&self, folder: &Path, observer: &dyn Observer) -> Result<bool> {
        let Some(card) = self.other_files.iter().find(|file| file.name == CARD_FILE) else {
            return Ok(false);
        };
        match card.verify(folder, observer) {
            Err(error) if error.kind() == ErrorKind::Mismatch => Ok(true),
            compared => compared.map(|()| false),
        }
    }

    /// Whether a data file that is not listed was written for a split that is not listed either. The user then gets
    /// the advice to continue instead of the advice to remove the file.
    ///
    /// # Errors
    /// A journal cannot be read.
    fn is_of_incomplete_split(&self, folder: &Path, path: &Path) -> Result<bool> {
        let name = data_name(path);
        let listed = self.split_names().contains(&split_of(&name));
        Ok(!listed && recorded_files(folder)?.contains(&name))
    }
}

impl OutputFile {
    /// Compares the size, the hash and the number of rows with the file. The number of rows comes from the footer or
    /// the index.
    ///
    /// # Errors
    /// Those of [`verify_bytes`](OutputFile::verify_bytes), or the number of rows differs or cannot be read.
    pub(super) fn verify(&self, folder: &Path, observer: &dyn Observer) -> Result<()> {
        self.verify_bytes(folder, observer)?;
        let path = folder.join(&self.name);
        let rows = row_count(&path)?;
        if rows != self.rows {
            return Err(differs(&path, "the number of rows", rows, self.rows));
        }
        Ok(())
    }

    /// Verifies the file in the folder, or in the store if the folder lacks it.
    ///
    /// # Errors
    /// It is missing or differs ([`ErrorKind::Mismatch`]), cannot be read, or the observer asks to stop.
    pub(super) fn verify_in(
        &self,
        folder: &Path,
        store: Option<&dyn FileStore>,
        observer: &dyn Observer,
    ) -> Result<()> {
        let Some(store) = store.filter(|_| !folder.join(&self.name).exists()) else {
            return self.verify(folder, observer);
        };
        observer.checkpoint()?;
        if !store.holds(self)? {
            let problem = format!("{}: missing at the destination, or not as it was uploaded", self.name);
            return Err(Error::message(ErrorKind::Mismatch, problem));
        }
        observer.advanced(Stage::Verify, self.bytes);
        Ok(())
    }

    /// Compares the size and the hash with the file and its index.
    ///
    /// # Errors
    /// The file or its index is missing or differs ([`ErrorKind::Mismatch`]), cannot be read, or the observer asks to
    /// stop.
    pub(super) fn verify_bytes(&self, folder: &Path, observer: &dyn Observer) -> Result<()> {
        verify_file(&folder.join(&self.name), self.bytes, &self.sha256, observer)?;
        self.index.as_ref().map_or(Ok(()), |index| index.verify(folder, observer))
    }

    /// The names of the data file and its index.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.name).chain(self.index.iter().map(|index| &index.name))
    }
}

impl HashedFile {
    /// The entry for content that was written under this name, relative to the output folder.
    pub(super) fn of_content(name: impl Into<String>, content: &[u8]) -> HashedFile {
        HashedFile { name: name.into(), bytes: to_u64(content.len()), sha256: sha256(content) }
    }

    /// The entry for an existing file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn of_file(folder: &Path, name: &str) -> Result<HashedFile> {
        let path = folder.join(name);
        let read = || {
            let file = File::open(&path)?;
            let bytes = file.metadata()?.len();
            Ok((bytes, sha256_of(file)?))
        };
        let (bytes, sha256) = read().map_err(|cause| Error::io("read", &path, cause))?;
        Ok(HashedFile { name: name.to_owned(), bytes, sha256 })
    }

    /// Compares the size and the hash with the file.
    ///
    /// # Errors
    /// The file is missing or differs ([`ErrorKind::Mismatch`]), cannot be read, or the observer asks to stop.
    fn verify(&self, folder: &Path, observer: &dyn Observer) -> Result<()> {
        verify_file(&folder.join(&self.name), self.bytes, &self.sha256, observer)
    }
}

/// The remedy for files of an output that are missing or differ.
const WRITE_AGAIN: &str =
    "give the same `run` or `encode` command again, which writes missing and damaged files again";

/// The error for a file that is not as the manifest says. `what` names the property.
fn differs(path: &Path, what: &str, found: impl fmt::Display, expected: impl fmt::Display) -> Error {
    let problem = format!("{}: {what} is {found}, the manifest says {expected}", path.display());
    Error::message(ErrorKind::Mismatch, problem).with_help(WRITE_AGAIN)
}

/// Joins the differences of an output and their remedies to one error.
///
/// # Errors
/// There is a difference ([`ErrorKind::Mismatch`]).
fn no_difference(differences: &[Error]) -> Result<()> {
    /// Differences that the message names, at most.
    const NAMED: usize = 20;
    if differences.is_empty() {
        return Ok(());
    }
    let mut problems: Vec<String> = differences.iter().take(NAMED).map(Error::to_string).collect();
    if differences.len() > NAMED {
        problems.push(format!("and {}", with_unit(to_u64(differences.len() - NAMED), "other file")));
    }
    let mut remedies: Vec<&str> = Vec::new();
    for remedy in differences.iter().filter_map(Error::help) {
        if !remedies.contains(&remedy) {
            remedies.push(remedy);
        }
    }
    Err(Error::message(ErrorKind::Mismatch, problems.join("; ")).with_help(remedies.join("; ")))
}

/// Compares the size and the hash of a file.
///
/// # Errors
/// It is missing or differs ([`ErrorKind::Mismatch`]), cannot be read, or the observer asks to stop.
fn verify_file(path: &Path, bytes: u64, sha256: &str, observer: &dyn Observer) -> Result<()> {
    let file = match File::open(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
            return Err(file_missing(path));
        }
        opened => opened.map_err(|cause| Error::io("read", path, cause))?,
    };
    let size = file.metadata().map_err(|cause| Error::io("read", path, cause))?.len();
    if size != bytes {
        return Err(differs(path, "the size", size, bytes));
    }
    let found = hash(file, path, observer)?;
    if found == sha256 { Ok(()) } else { Err(differs(path, "the SHA-256", found, sha256)) }
}

/// SHA-256 of a file in hex. Reports progress to the observer.
///
/// # Errors
/// The file cannot be read, or the observer asks to stop.
fn hash(mut file: File, path: &Path, observer: &dyn Observer) -> Result<String> {
    let mut hash = Sha256::new();
    loop {
        observer.checkpoint()?;
        let bytes = update_from(&mut hash, (&mut file).take(BYTES_PER_REPORT));
        match bytes.map_err(|cause| Error::io("read", path, cause))? {
            0 => return Ok(hex(&hash.finalize())),
            bytes => observer.advanced(Stage::Verify, bytes),
        }
    }
}

/// The text of a manifest; `None` if there is none.
///
/// # Errors
/// It cannot be read, or is larger than [`MAX_MANIFEST_BYTES`].
fn read_text(path: &Path) -> Result<Option<Vec<u8>>> {
    let text = read_up_to(MAX_MANIFEST_BYTES + 1, path)?;
    if text.as_ref().is_some_and(|text| to_u64(text.len()) > MAX_MANIFEST_BYTES) {
        return Err(Error::failed(format!("{}: larger than {MAX_MANIFEST_BYTES} bytes", path.display())));
    }
    Ok(text)
}

/// Parses a manifest and checks it.
///
/// # Errors
/// The text is not a manifest, is of a later version, or [has a flaw](Manifest::mistake).
fn parse(path: &Path, text: &[u8]) -> Result<Manifest> {
    let damaged = |cause: serde_json::Error| {
        Error::failed(format!("{}: not a manifest: {}", path.display(), json_problem_at(&cause)))
            .with_help(REMOVE_MANIFEST)
    };
    integrity::check_format_version(path, text, damaged)?;
    let manifest: Manifest = serde_json::from_slice(text).map_err(damaged)?;
    match manifest.mistake() {
        Some(mistake) => Err(Error::failed(format!("{}: {mistake}", path.display()))),
        None => Ok(manifest),
    }
}

impl Manifest {
    /// The first reason why a manifest that was parsed cannot be used; `None` if it can. A manifest may come from
    /// anywhere, so no name may lead out of the folder, and sums must fit 64 bits.
    pub(super) fn mistake(&self) -> Option<&'static str> {
        let inside = |name: &str| {
            !name.is_empty() && Path::new(name).components().all(|part| matches!(part, Component::Normal(_)))
        };
        let others = self.other_files.iter().map(|file| &file.name).chain(&self.tokenizer_files);
        let mut all = self.files.iter().flat_map(OutputFile::names).chain(others).chain(&self.reports);
        if !all.all(|name| inside(name)) {
            return Some("names a file outside the folder");
        }
        let mut names = Set::default();
        if !self.files.iter().flat_map(OutputFile::names).all(|name| names.insert(name)) {
            return Some("names a file twice");
        }
        let counts: [fn(&OutputFile) -> u64; 5] = [
            |file| file.rows,
            |file| file.tokens,
            |file| file.added_tokens,
            |file| file.text_bytes,
            |file| file.bytes,
        ];
        let fits = |count| self.files.iter().map(count).try_fold(0, u64::checked_add).is_some();
        (!counts.into_iter().all(fits)).then_some("its totals exceed 64 bits")
    }

    /// The names of the splits, in the order of their files.
    pub fn split_names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for file in &self.files {
            let name = split_of(&file.name);
            if names.last() != Some(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The fingerprint of the job that wrote a split, or of the whole output if `split` is `None`. Returns `None` if
    /// the manifest has no such split.
    ///
    /// An output with one split lists no split jobs, and its own job wrote that split.
    pub fn job_of(&self, split: Option<&str>) -> Option<&str> {
        let Some(split) = split else { return Some(&self.job) };
        match self.splits.as_slice() {
            [] => {
                let own = self.files.first().is_none_or(|file| split_of(&file.name) == split);
                own.then_some(&*self.job)
            }
            splits => splits.iter().find(|part| part.name == split).map(|part| &*part.job),
        }
    }

    /// The manifest of one split alone; `None` if the manifest has no such split. If `split` is `None`, returns all
    /// of it.
    pub fn of_split(&self, split: Option<&str>) -> Option<Manifest> {
        match split {
            None => Some(self.clone()),
            Some(split) => self
                .job_of(Some(split))
                .and_then(|_| self.with_splits(|name| name == split).or_else(|| Some(self.clone()))),
        }
    }

    /// The manifest without one split; `None` if no split remains.
    pub(crate) fn without_split(&self, split: Option<&str>) -> Option<Manifest> {
        self.with_splits(|name| split.is_some_and(|split| split != name))
    }

    /// The manifest of the splits for which `keep` returns true; `None` if they have no files. The inputs of other
    /// splits are left out, too.
    fn with_splits(&self, keep: impl Fn(&str) -> bool) -> Option<Manifest> {
        let files: Vec<OutputFile> =
            self.files.iter().filter(|file| keep(split_of(&file.name))).cloned().collect();
        let first = split_of(&files.first()?.name).to_owned();
        let (mut inputs, mut splits, mut at) = (Vec::new(), Vec::new(), 0);
        for part in &self.splits {
            let end = (at + part.inputs).min(self.inputs.len());
            if keep(&part.name) {
                inputs.extend_from_slice(&self.inputs[at..end]);
                splits.push(part.clone());
            }
            at = end;
        }
        let mut skipped_inputs =
            splits.iter().map(|part: &SplitJob| part.skipped_inputs).fold(0, u64::saturating_add);
        if self.splits.is_empty() {
            inputs.clone_from(&self.inputs);
            skipped_inputs = self.skipped_inputs;
        }
        let job = self.job_of(Some(&first)).unwrap_or(&self.job).to_owned();
        if splits.len() < 2 {
            splits.clear();
        }
        Some(Manifest { job, inputs, skipped_inputs, files, splits, ..self.clone() })
    }

    /// Joins the manifest of a split with that of the other splits of an output. Files of both are listed once, as
    /// this one has them. The other splits come first, and the job is that of this one.
    pub(crate) fn joined(self, others: Option<Manifest>) -> Manifest {
        let Some(others) = others else { return self };
        let part = |manifest: &Manifest| match manifest.splits.as_slice() {
            [] => vec![SplitJob {
                name: manifest.split_names().first().copied().unwrap_or_default().to_owned(),
                job: manifest.job.clone(),
                inputs: manifest.inputs.len(),
                skipped_inputs: manifest.skipped_inputs,
            }],
            splits => splits.to_vec(),
        };
        let splits = [part(&others), part(&self)].concat();
        let tokenizer_files =
            if self.tokenizer_files.is_empty() { others.tokenizer_files } else { self.tokenizer_files };
        let own: Set<&str> = self.other_files.iter().map(|file| &*file.name).collect();
        let mut other_files = others.other_files;
        other_files.retain(|file| !own.contains(&*file.name));
        Manifest {
            other_files: [&*other_files, &*self.other_files].concat(),
            reports: joined_names(others.reports, &self.reports),
            inputs: [others.inputs, self.inputs].concat(),
            skipped_inputs: others.skipped_inputs.saturating_add(self.skipped_inputs),
            files: [others.files, self.files].concat(),
            tokenizer_files,
            splits,
            ..self
        }
    }
}

/// Appends names that are not in a list yet, and moves those that are to its end.
fn joined_names(mut names: Vec<String>, more: &[String]) -> Vec<String> {
    names.retain(|name| !more.contains(name));
    [&*names, more].concat()
}

/// The error that a file of the manifest is missing.
fn file_missing(path: &Path) -> Error {
    let problem = format!("{}: listed in the manifest, but missing", path.display());
    Error::message(ErrorKind::Mismatch, problem).with_help(WRITE_AGAIN)
}
