//! Moves the files of an output from its local staging folder to an object store, and records the objects there.
//!
//! The staging folder is an output folder like any other, except that complete data files leave it. A journal in its
//! state folder says which objects belong to the output: each with its size and hash, and with the version that the
//! store gave it. So a later run knows without reading an object whether it is still the one that was uploaded, and
//! which objects it may replace or remove. Objects of others are never touched.
//!
//! Every object appears complete or not at all, because stores work like that. The manifest is the last object to
//! appear and the first to go, so a destination with a manifest is complete.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use serde::{Deserialize, Serialize};

use super::objects::{Object, Objects};
use crate::base::atomic_file;
use crate::base::integrity::sha256;
use crate::base::pools::lock;
use crate::error::{Error, ErrorKind, Result};
use crate::observer::{Observer, Stage};
use crate::sink::{
    CARD_FILE, DATA_FOLDER, FileStore, HashedFile, Journal, MANIFEST, Manifest, OutputFile, OutputFolder,
    STATE_FOLDER, TOKENIZER_FOLDER, data_files, is_data_name, is_root_file, split_of,
};
use crate::source::OpenContext;

/// The name under which a run asks whether it may write. No object of this name ever appears.
const PROBE: &str = "tokenmill-may-write";

/// Bytes of a manifest at the destination that are read, at most (64 MiB).
const MAX_MANIFEST_BYTES: u64 = 64 << 20;

/// What a run did at the destination. The names of the variants are part of the stored form.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Record {
    /// An object of this name is about to appear, and belongs to the output from now on. If it is uploaded in parts,
    /// the id of the upload follows in a second record.
    Begun { name: String, upload: Option<String> },
    /// The upload in parts no longer exists.
    Ended { name: String },
    /// An object is complete.
    Written(Written),
    /// There is no object of this name any more.
    Removed { name: String },
}

/// An object that was uploaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Written {
    /// Its name, size and hash.
    #[serde(flatten)]
    file: HashedFile,
    /// The version that the store gave it.
    version: String,
}

/// The objects of an output, by name, as its journal tells.
#[derive(Debug, Default)]
struct Known {
    /// `None` if an upload was begun, but its end is not known.
    objects: BTreeMap<String, Option<Written>>,
    /// Uploads in parts that may be unfinished, by the name of the object.
    uploads: BTreeMap<String, String>,
}

impl Known {
    /// Takes a record into account.
    fn apply(&mut self, record: Record) {
        match record {
            Record::Begun { name, upload } => {
                if let Some(upload) = upload {
                    self.uploads.insert(name.clone(), upload);
                }
                self.objects.insert(name, None);
            }
            Record::Ended { name } => {
                self.uploads.remove(&name);
            }
            Record::Written(written) => {
                self.uploads.remove(&written.file.name);
                self.objects.insert(written.file.name.clone(), Some(written));
            }
            Record::Removed { name } => {
                self.objects.remove(&name);
            }
        }
    }

    /// What the records say together.
    fn of(records: Vec<Record>) -> Known {
        let mut known = Known::default();
        records.into_iter().for_each(|record| known.apply(record));
        known
    }
}

/// The journal on disk, and the sum of its records.
struct UploadJournal {
    /// The file.
    journal: Journal,
    /// The sum of its records.
    known: Known,
}

/// The path of the journal for a destination, in the state folder of the staging folder. Each destination has its own.
fn journal_path(folder: &Path, uri: &str) -> PathBuf {
    folder.join(STATE_FOLDER).join(format!("uploads-{}.journal", &sha256(uri)[..16]))
}

/// Connects to a destination and lists it, so that a wrong address or key is found before any work.
///
/// # Errors
/// The store refuses or cannot be reached.
pub(crate) fn check_destination(uri: &str, context: &OpenContext<'_>) -> Result<()> {
    connect(uri, context)?.list("").map(drop)
}

/// The names of the data files that were uploaded from a staging folder, as its journal tells. Nothing is requested.
///
/// # Errors
/// The journal cannot be read.
pub(crate) fn uploaded_data(folder: &Path, uri: &str) -> Result<BTreeSet<String>> {
    let records = Journal::parsable_records::<Record>(&journal_path(folder, uri))?;
    let objects = Known::of(records).objects.into_iter();
    Ok(objects
        .filter(|(name, object)| object.is_some() && is_data_name(name))
        .map(|(name, _)| name)
        .collect())
}

/// The objects of a destination.
///
/// # Errors
/// The address or the settings of the store are wrong.
#[cfg(feature = "hub")]
fn connect(uri: &str, context: &OpenContext<'_>) -> Result<Box<dyn Objects>> {
    let store = super::store::Store::connect(uri, &context.stores, &context.hub, context.stop.clone())?;
    Ok(Box::new(store))
}

/// Fails, because this build lacks the client.
#[cfg(not(feature = "hub"))]
fn connect(uri: &str, _context: &OpenContext<'_>) -> Result<Box<dyn Objects>> {
    let problem = format!("nothing can be written to {uri}: this program was built without the feature hub");
    Err(Error::usage(problem).with_help("build with the feature `hub`, or write to a folder and copy it"))
}

/// The destination of an output, while its staging folder is locked.
///
/// **Memory:** a record for each object, and four parts of one file. A part has 8 MiB, or more if the file has more than
/// 75 GB.
pub(crate) struct Destination<'a> {
    /// The address, for messages.
    uri: String,
    /// The objects.
    objects: Box<dyn Objects>,
    /// The staging folder.
    folder: PathBuf,
    /// The split that is written; `None` if all data files belong to this run.
    split: Option<String>,
    /// The uploads and removals so far.
    journal: Mutex<UploadJournal>,
    /// Gets the progress of uploads.
    observer: &'a dyn Observer,
}

impl<'a> Destination<'a> {
    /// Opens the destination of a locked staging folder, and refuses one with objects of others in the places of the
    /// output. `trains` says that a tokenizer will be written there. With `force`, the output of another run is
    /// accepted: its objects are recorded, and then replaced or removed by the run.
    ///
    /// # Errors
    /// - An object has the name of one of the output, and this staging folder has no record of it
    ///   ([`ErrorKind::Usage`]).
    /// - The staging folder holds data files of another output, which would leave it ([`ErrorKind::Usage`]).
    /// - The store refuses or cannot be reached, or the journal cannot be read.
    pub(crate) fn open(
        uri: &str,
        folder: &OutputFolder,
        trains: bool,
        force: bool,
        context: &OpenContext<'a>,
    ) -> Result<Destination<'a>> {
        let path = journal_path(folder.path(), uri);
        if !path.exists() && !data_files(folder.path())?.is_empty() {
            let folder = folder.path().display();
            let problem = format!("{folder} holds data files of another output, which would move to {uri}");
            return Err(Error::usage(problem).with_help("name another staging folder"));
        }
        // Damaged records prove nothing of the objects, but their names are still those of the output.
        let hints = Known::of(Journal::parsable_records(&path)?);
        let (journal, records) = Journal::open::<Record>(path, uri)?;
        let destination = Destination {
            uri: uri.to_owned(),
            objects: connect(uri, context)?,
            folder: folder.path().to_owned(),
            split: folder.split().map(str::to_owned),
            journal: Mutex::new(UploadJournal { journal, known: Known::of(records) }),
            observer: context.observer,
        };
        destination.remember(hints)?;
        destination.refuse_unrecorded(trains, force)?;
        Ok(destination)
    }

    /// Prepares to write: ends uploads of runs that were killed, and asks the store whether this run may write.
    ///
    /// # Errors
    /// It may not, or the store cannot be reached.
    pub(crate) fn begin(&self) -> Result<()> {
        self.end_unfinished()?;
        let upload = self.objects.begin(PROBE)?;
        self.record(Record::Begun { name: PROBE.to_owned(), upload: Some(upload.clone()) })?;
        self.abort(PROBE, &upload)?;
        self.record(Record::Removed { name: PROBE.to_owned() })
    }

    /// Whether objects of a split's data files are known, or of any split's if `split` is `None`.
    pub(crate) fn holds_data(&self, split: Option<&str>) -> bool {
        let journal = self.journal();
        let mut names = journal.known.objects.keys().filter(|name| is_data_name(name));
        names.any(|name| split.is_none_or(|split| split_of(name) == split))
    }

    /// Uploads the files of the complete output that the destination lacks, the manifest last. If any file must be
    /// uploaded, an earlier manifest is removed first. Objects of earlier outputs are removed, except those with a file
    /// of the same name in the staging folder.
    ///
    /// The dataset card at the destination may have been edited, so it stays unless the run wrote another one.
    ///
    /// # Errors
    /// The store refuses or cannot be reached, a file differs from the manifest or cannot be read, or the run is asked
    /// to stop.
    pub(crate) fn finish(&self) -> Result<()> {
        let Some(manifest) = Manifest::read_checked(&self.folder)? else { return Ok(()) };
        self.end_unfinished()?;
        let here = |file: &&OutputFile| file.names().any(|name| self.folder.join(name).exists());
        manifest.files.iter().filter(here).try_for_each(|file| self.take(file))?;
        let mut listed: BTreeSet<&String> = manifest.files.iter().flat_map(OutputFile::names).collect();
        let mut missing = Vec::new();
        let others = manifest.other_files.iter().map(|file| &file.name);
        for name in others.chain(&manifest.tokenizer_files).chain(&manifest.reports) {
            if !listed.insert(name) {
                continue;
            }
            let file = HashedFile::of_file(&self.folder, name)?;
            if !self.is_current(&file)? {
                missing.push(file);
            }
        }
        let stale: Vec<String> = {
            let journal = self.journal();
            let names = journal.known.objects.keys().filter(|name| *name != MANIFEST);
            names.filter(|name| !listed.contains(name) && !self.folder.join(name).exists()).cloned().collect()
        };
        if !missing.is_empty() || !stale.is_empty() {
            self.remove(MANIFEST)?;
        }
        stale.iter().try_for_each(|name| self.remove(name))?;
        let manifest = HashedFile::of_file(&self.folder, MANIFEST)?;
        if !self.is_current(&manifest)? {
            missing.push(manifest);
        }
        self.upload(&missing)
    }

    /// Records the objects and uploads that only damaged records name. What the objects hold is not known.
    ///
    /// # Errors
    /// The journal cannot be written.
    fn remember(&self, hints: Known) -> Result<()> {
        let is_lost = |name: &String| {
            let journal = self.journal();
            let upload = hints.uploads.get(name);
            !journal.known.objects.contains_key(name)
                || (upload.is_some() && upload != journal.known.uploads.get(name))
        };
        let lost: Vec<&String> = hints.objects.keys().filter(|name| is_lost(name)).collect();
        for name in lost {
            let upload = hints.uploads.get(name).cloned();
            self.record(Record::Begun { name: name.clone(), upload })?;
        }
        Ok(())
    }

    /// Ends uploads of runs that were killed.
    ///
    /// # Errors
    /// The store refuses or cannot be reached.
    fn end_unfinished(&self) -> Result<()> {
        let unfinished = self.journal().known.uploads.clone();
        unfinished.iter().try_for_each(|(name, upload)| self.abort(name, upload))
    }

    /// The journal, also after a thread has panicked with it: each record is complete or missing.
    fn journal(&self) -> MutexGuard<'_, UploadJournal> {
        lock(&self.journal)
    }

    /// Adds a record, which is on disk when this returns.
    ///
    /// # Errors
    /// The journal cannot be written.
    fn record(&self, record: Record) -> Result<()> {
        let mut journal = self.journal();
        journal.journal.append(&record)?;
        journal.journal.sync()?;
        journal.known.apply(record);
        Ok(())
    }

    /// Refuses objects in the places of the output that the journal does not know.
    ///
    /// # Errors
    /// There is one ([`ErrorKind::Usage`]), or the store cannot be asked.
    fn refuse_unrecorded(&self, trains: bool, force: bool) -> Result<()> {
        let mut found = self.objects.list("")?;
        found.retain(|object| is_root_file(&object.name));
        let of_data = self.objects.list(DATA_FOLDER)?;
        found.extend(of_data.into_iter().filter(|object| is_data_name(&object.name)));
        if trains {
            found.extend(self.objects.list(TOKENIZER_FOLDER)?);
        }
        let unknown = |object: &&Object| !self.journal().known.objects.contains_key(&object.name);
        if found.iter().filter(unknown).any(|object| object.name == MANIFEST) {
            self.adopt(force)?;
        }
        match found.iter().find(unknown) {
            None => Ok(()),
            Some(Object { name, .. }) => {
                let (uri, folder) = (&self.uri, self.folder.display());
                let problem =
                    format!("{uri} holds {name}, and the staging folder {folder} has no record of it");
                Err(Error::usage(problem).with_help(
                    "choose another destination, remove the object, or name the staging folder of the run that wrote it \
                     (`staging`, --staging)",
                ))
            }
        }
    }

    /// Takes over the objects that a manifest of an unknown run lists, to replace them.
    ///
    /// # Errors
    /// - `force` is not set, the manifest lists other splits, which would be lost, or the object is no manifest
    ///   ([`ErrorKind::Usage`]).
    /// - The store cannot be asked.
    fn adopt(&self, force: bool) -> Result<()> {
        let place = PathBuf::from(format!("{}/{MANIFEST}", self.uri));
        let Some(text) = self.objects.read(MANIFEST, MAX_MANIFEST_BYTES)? else { return Ok(()) };
        let manifest = Manifest::of_text(&place, &text).map_err(|error| {
            let error = Error::new(ErrorKind::Usage, error);
            error.with_help("choose another destination, or remove the object")
        })?;
        if !force {
            let (uri, folder) = (&self.uri, self.folder.display());
            let problem = format!(
                "{uri} holds the result of a run, and the staging folder {folder} has no record of it"
            );
            return Err(Error::usage(problem).with_help(
                "choose another destination, name the staging folder of that run (`staging`, --staging), or replace the \
                 result with --force",
            ));
        }
        let own = self.split.as_deref();
        let others = manifest.split_names();
        if let Some(other) = others.iter().find(|name| own.is_some_and(|own| own != **name)) {
            let problem = format!("{} holds the split {other:?} of a run without a record here", self.uri);
            return Err(Error::usage(problem).with_help(
                "choose another destination, name the staging folder of that run (`staging`, --staging), or remove the \
                 objects",
            ));
        }
        let others = manifest.other_files.iter().map(|file| &file.name).chain(&manifest.tokenizer_files);
        let names = manifest.files.iter().flat_map(OutputFile::names).chain(others).chain(&manifest.reports);
        let begun = |name: &str| self.record(Record::Begun { name: name.to_owned(), upload: None });
        names.map(String::as_str).try_for_each(begun)?;
        begun(MANIFEST)
    }

    /// Whether the destination has the object of a file as this output uploaded it.
    ///
    /// # Errors
    /// The store cannot be asked.
    fn is_there(&self, name: &str, bytes: u64, sha256: &str) -> Result<bool> {
        let written = self.journal().known.objects.get(name).cloned().flatten();
        let Some(Written { file, version }) = written else { return Ok(false) };
        if file.bytes != bytes || file.sha256 != sha256 {
            return Ok(false);
        }
        let found = self.objects.find(name)?;
        Ok(found.is_some_and(|found| found.bytes == bytes && found.version == version))
    }

    /// Whether a small file need not be uploaded. An edited dataset card stays as it is.
    ///
    /// # Errors
    /// The store cannot be asked.
    fn is_current(&self, file: &HashedFile) -> Result<bool> {
        let HashedFile { name, bytes, sha256 } = file;
        if name == CARD_FILE {
            let written = self.journal().known.objects.get(name).cloned().flatten();
            let is_same = written.is_some_and(|written| written.file == *file);
            return Ok(is_same && self.objects.find(name)?.is_some());
        }
        self.is_there(name, *bytes, sha256)
    }

    /// Uploads files of the staging folder, one after the other, as one stage for the observer.
    ///
    /// # Errors
    /// Those of [`send`](Destination::send).
    fn upload(&self, files: &[HashedFile]) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        self.observer.started(Stage::Upload, Some(files.iter().map(|file| file.bytes).sum()));
        files.iter().try_for_each(|file| self.send(file))?;
        self.observer.finished(Stage::Upload);
        Ok(())
    }

    /// Uploads a file. An upload that fails is ended at the store, too, if the store can be reached; otherwise the next
    /// run does that.
    ///
    /// # Errors
    /// The file differs or cannot be read, the store refuses or cannot be reached, or the run is asked to stop.
    fn send(&self, file: &HashedFile) -> Result<()> {
        let begun = |upload: Option<&str>| {
            self.record(Record::Begun { name: file.name.clone(), upload: upload.map(str::to_owned) })
        };
        begun(None)?;
        let path = self.folder.join(&file.name);
        match self.objects.write(file, &path, &mut |upload| begun(Some(upload)), self.observer) {
            Ok(Object { version, .. }) => {
                self.record(Record::Written(Written { file: file.clone(), version }))
            }
            Err(error) => {
                let upload = self.journal().known.uploads.get(&file.name).cloned();
                // The first error matters. The journal still has the upload if it cannot be ended now.
                let _ = upload.map_or(Ok(()), |upload| self.abort(&file.name, &upload));
                Err(error)
            }
        }
    }

    /// Ends an unfinished upload.
    ///
    /// # Errors
    /// The store refuses or cannot be reached.
    fn abort(&self, name: &str, upload: &str) -> Result<()> {
        self.objects.abort(name, upload)?;
        self.record(Record::Ended { name: name.to_owned() })
    }

    /// Removes an object of the output, if there is one.
    ///
    /// # Errors
    /// The store refuses or cannot be reached.
    fn remove(&self, name: &str) -> Result<()> {
        if !self.journal().known.objects.contains_key(name) {
            return Ok(());
        }
        self.objects.remove(name)?;
        self.record(Record::Removed { name: name.to_owned() })
    }
}

impl FileStore for Destination<'_> {
    /// The index is uploaded first, so that a data file is never without it.
    fn take(&self, file: &OutputFile) -> Result<()> {
        let data = HashedFile { name: file.name.clone(), bytes: file.bytes, sha256: file.sha256.clone() };
        let mut missing = Vec::new();
        for part in file.index.iter().chain([&data]) {
            if !self.is_there(&part.name, part.bytes, &part.sha256)? {
                missing.push(part.clone());
            }
        }
        self.upload(&missing)?;
        file.names().try_for_each(|name| atomic_file::remove(&self.folder.join(name)))
    }

    fn holds(&self, file: &OutputFile) -> Result<bool> {
        if let Some(HashedFile { name, bytes, sha256 }) = &file.index
            && !self.is_there(name, *bytes, sha256)?
        {
            return Ok(false);
        }
        self.is_there(&file.name, file.bytes, &file.sha256)
    }

    fn keep_only(&self, keep: &dyn Fn(&str) -> bool) -> Result<()> {
        if self.folder.join(MANIFEST).exists() {
            let manifest = HashedFile::of_file(&self.folder, MANIFEST)?;
            if !self.is_current(&manifest)? {
                self.upload(&[manifest])?;
            }
        } else {
            self.remove(MANIFEST)?;
        }
        let names: Vec<String> = self.journal().known.objects.keys().cloned().collect();
        let mut stale = names.iter().filter(|name| is_data_name(name) && !keep(name));
        stale.try_for_each(|name| self.remove(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: &str) -> Written {
        let file = HashedFile { name: name.to_owned(), bytes: 3, sha256: sha256(name) };
        Written { file, version: "\"1\"".to_owned() }
    }

    /// Each record comes back from its stored form, and all together name the objects and unfinished uploads.
    #[test]
    fn records_tell_what_is_there() {
        let begun = |name: &str, upload: Option<&str>| Record::Begun {
            name: name.to_owned(),
            upload: upload.map(str::to_owned),
        };
        let records = vec![
            begun("a", None),
            begun("a", Some("1")),
            Record::Written(written("a")),
            begun("b", Some("2")),
            begun("c", Some("3")),
            Record::Ended { name: "c".to_owned() },
            begun("d", None),
            Record::Written(written("d")),
            Record::Removed { name: "d".to_owned() },
        ];
        let text = serde_json::to_string(&records).expect("plain data");
        let known = Known::of(serde_json::from_str(&text).expect("the same data"));
        let objects: Vec<_> = known.objects.iter().map(|(name, object)| (name.as_str(), object)).collect();
        assert_eq!(objects, [("a", &Some(written("a"))), ("b", &None), ("c", &None)]);
        assert_eq!(known.uploads, BTreeMap::from([("b".to_owned(), "2".to_owned())]));
    }
}
