//! Uploads files to S3, Google Cloud Storage and Azure, and asks for and removes objects there.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::multipart::PartId;
use object_store::path::Path;
use object_store::{GetOptions, MultipartId, ObjectMeta, ObjectStoreExt, PutPayload};
use sha2::{Digest, Sha256};

use super::objects::{Object, Objects};
use crate::base::int::{to_u64, u64_to_usize};
use crate::base::integrity::hex;
use crate::error::{Error, ErrorKind, Result};
use crate::network::{HubSettings, StoreSettings, wait_for};
use crate::observer::{Observer, Stage};
use crate::sink::HashedFile;
use crate::source::{Stop, WritableStore, object_version, refused_by_store, store};

/// Bytes of a part (8 MiB), at least. Files up to this size are uploaded in one request.
const PART_BYTES: u64 = 8 << 20;

/// Parts of a file, at most. The stores take 10,000.
const MAX_PARTS: u64 = 9_000;

/// Parts that are on their way at the same time. Each is in memory.
const PARTS_IN_FLIGHT: usize = 4;

/// Time (50 ms) for ending an upload when the run is asked to stop. If it does not suffice, the next run ends it.
const ABORT_WAIT: Duration = Duration::from_millis(50);

/// What a key must be allowed to do.
const MAY_NOT: &str = "give a key that may list, read, write and remove objects there, by the store's own variables (AWS_…, \
                       GOOGLE_…, AZURE_…)";

/// What to do if the store knows no such place.
const ABSENT: &str = "check the bucket, the path and the region; the bucket must exist";

/// A place in an object store.
pub(super) struct Store {
    /// The address, for messages.
    uri: String,
    /// The client.
    client: Arc<dyn WritableStore>,
    /// The place: objects are below it.
    place: Path,
    /// Asked while a request waits.
    stop: Stop,
}

impl Store {
    /// Prepares the client. Nothing is requested.
    ///
    /// # Errors
    /// The URI names no bucket, or the settings are incomplete or contradictory.
    pub(super) fn connect(
        uri: &str,
        settings: &StoreSettings,
        hub: &HubSettings,
        stop: Stop,
    ) -> Result<Store> {
        // Removing objects one by one is a request that every S3-compatible store has. The user's variables come later.
        let one_by_one = ("AWS_DISABLE_BULK_DELETE".to_owned(), "true".to_owned());
        let variables = std::iter::once(one_by_one).chain(settings.variables.iter().cloned()).collect();
        let (client, place) = store(uri, &StoreSettings { variables }, hub)?;
        Ok(Store { uri: uri.to_owned(), client, place, stop })
    }

    /// The key of an object. Names of outputs have only plain components.
    fn key(&self, name: &str) -> Path {
        name.split('/').filter(|part| !part.is_empty()).fold(self.place.clone(), |path, part| path.join(part))
    }

    /// Waits for a request about an object, or about the place if the name is empty.
    ///
    /// # Errors
    /// The store refuses or cannot be reached, or the run is asked to stop.
    fn ask<T>(&self, name: &str, request: impl Future<Output = object_store::Result<T>>) -> Result<T> {
        let what = if name.is_empty() { self.uri.clone() } else { format!("{}/{name}", self.uri) };
        let request = async { request.await.map_err(|cause| refused_by_store(&what, &cause)) };
        wait_for(&*self.stop, &what, request).map_err(|error| refusal(&what, error))
    }

    /// What the store says of an object.
    fn described(name: &str, found: &ObjectMeta) -> Object {
        Object { name: name.to_owned(), bytes: found.size, version: object_version(found) }
    }

    /// Uploads a small file in one request.
    ///
    /// # Errors
    /// The file differs or cannot be read, the store refuses or cannot be reached, or the run is asked to stop.
    fn write_whole(&self, file: &HashedFile, path: &FilePath) -> Result<()> {
        let mut reader = PartReader::open(file, path)?;
        let content = reader.next_part()?;
        reader.check_hash()?;
        self.ask(&file.name, self.client.put(&self.key(&file.name), PutPayload::from(content))).map(drop)
    }

    /// Uploads a large file in parts. `begun` receives the id of the upload.
    ///
    /// # Errors
    /// Those of [`write_whole`](Store::write_whole), or `begun` fails.
    fn write_in_parts(
        &self,
        file: &HashedFile,
        path: &FilePath,
        begun: &mut dyn FnMut(&str) -> Result<()>,
        observer: &dyn Observer,
    ) -> Result<()> {
        let (key, problem) = (self.key(&file.name), RefCell::new(None));
        let mut reader = PartReader::open(file, path)?;
        let upload = self.ask(&file.name, self.client.create_multipart(&key))?;
        begun(&upload)?;
        let sent = self.ask(&file.name, self.upload_parts(&key, &upload, &mut reader, &problem, observer));
        problem.into_inner().map_or(sent, Err)
    }

    /// Uploads a file in parts of equal size, except the last. `problem` gets an error that is not the store's.
    ///
    /// # Errors
    /// The store refuses or cannot be reached. If `problem` has an error, that is the cause.
    async fn upload_parts(
        &self,
        key: &Path,
        upload: &MultipartId,
        reader: &mut PartReader,
        problem: &RefCell<Option<Error>>,
        observer: &dyn Observer,
    ) -> object_store::Result<()> {
        let parts = reader.parts();
        let put = |number| {
            let part = reader.next_part();
            async move {
                let part = part.map_err(|cause| own_problem(problem, cause))?;
                let bytes = to_u64(part.len());
                let sent = self.client.put_part(key, upload, number, PutPayload::from(part)).await;
                sent.inspect(|_| observer.advanced(Stage::Upload, bytes))
            }
        };
        let sent = stream::iter(0..parts).map(put).buffered(PARTS_IN_FLIGHT);
        let sent: Vec<PartId> = sent.try_collect().await?;
        reader.check_hash().map_err(|cause| own_problem(problem, cause))?;
        self.client.complete_multipart(key, upload, sent).await.map(drop)
    }
}

impl Objects for Store {
    fn list(&self, folder: &str) -> Result<Vec<Object>> {
        let prefix = self.key(folder);
        let prefix = Some(&prefix).filter(|prefix| !prefix.as_ref().is_empty());
        let found = self.ask(folder, self.client.list_with_delimiter(prefix))?;
        let named = |found: &ObjectMeta| {
            let parts: Vec<String> =
                found.location.prefix_match(&self.place)?.map(|part| part.as_ref().to_owned()).collect();
            Some(Store::described(&parts.join("/"), found))
        };
        Ok(found.objects.iter().filter_map(named).collect())
    }

    fn find(&self, name: &str) -> Result<Option<Object>> {
        let key = self.key(name);
        let found = self.ask(name, async { or_none(self.client.head(&key).await) })?;
        Ok(found.map(|found| Store::described(name, &found)))
    }

    fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        let key = self.key(name);
        self.ask(name, async {
            let Some(head) = or_none(self.client.head(&key).await)? else { return Ok(None) };
            let options = GetOptions::default().with_range(Some(0..head.size.min(limit)));
            let options = if head.size == 0 { GetOptions::default() } else { options };
            let found = self.client.get_opts(&key, options).await?;
            found.bytes().await.map(|bytes| Some(bytes.into()))
        })
    }

    fn write(
        &self,
        file: &HashedFile,
        path: &FilePath,
        begun: &mut dyn FnMut(&str) -> Result<()>,
        observer: &dyn Observer,
    ) -> Result<Object> {
        if file.bytes <= PART_BYTES {
            self.write_whole(file, path)?;
            observer.advanced(Stage::Upload, file.bytes);
        } else {
            match self.write_in_parts(file, path, begun, observer) {
                // The upload is gone. If the answer to its completion is lost, the library asks again, and then there
                // is none to complete.
                Err(error) if error.kind() == ErrorKind::Failed => {
                    self.write_in_parts(file, path, begun, observer)?;
                }
                written => written?,
            }
        }
        let there = self.find(&file.name)?.filter(|there| there.bytes == file.bytes);
        there.ok_or_else(|| {
            let problem = format!("{}/{} is missing, or not as it was uploaded", self.uri, file.name);
            Error::message(ErrorKind::Network, problem)
                .with_help("run it again; check that nothing else writes to the destination")
        })
    }

    /// Azure knows no begin of an upload, so a part is sent there, which never becomes an object.
    fn begin(&self, name: &str) -> Result<String> {
        let key = self.key(name);
        self.ask(name, async {
            let upload = self.client.create_multipart(&key).await?;
            if upload.is_empty() {
                self.client.put_part(&key, &upload, 0, PutPayload::from_static(b"?")).await?;
            }
            Ok(upload)
        })
    }

    fn abort(&self, name: &str, upload: &str) -> Result<()> {
        let (key, upload) = (self.key(name), upload.to_owned());
        let abort = async { or_none(self.client.abort_multipart(&key, &upload).await).map(drop) };
        if !(self.stop)() {
            return self.ask(name, abort);
        }
        // `ask` would send nothing any more.
        let abort_in_time = async {
            let ended = tokio::time::timeout(ABORT_WAIT, abort).await;
            ended.map_err(|_| Error::interrupted())?.map_err(|cause| refused_by_store(name, &cause))
        };
        wait_for(&|| false, name, abort_in_time)
    }

    fn remove(&self, name: &str) -> Result<()> {
        let key = self.key(name);
        self.ask(name, async { or_none(self.client.delete(&key).await) }).map(drop)
    }
}

/// The error for a request about `what` that failed.
///
/// The library tells refusals of lists only by their text.
fn refusal(what: &str, error: Error) -> Error {
    let problem = error.to_string();
    if error.kind() == ErrorKind::Interrupted {
        return error;
    }
    let has = |status| error.kind() == ErrorKind::Network && problem.contains(status);
    let is_refused = has("403 Forbidden") || has("401 Unauthorized");
    let (kind, help) = match error.kind() {
        ErrorKind::Authorisation => (ErrorKind::Authorisation, MAY_NOT),
        _ if is_refused => (ErrorKind::Authorisation, MAY_NOT),
        _ if has("404 Not Found") => (ErrorKind::Failed, ABSENT),
        ErrorKind::Network => (
            ErrorKind::Network,
            "check the bucket and the store's own variables, then run it again: it continues where it stopped",
        ),
        kind => (kind, ABSENT),
    };
    let problem = problem.strip_prefix(what).unwrap_or(&problem).trim_start_matches(" cannot be fetched: ");
    Error::message(kind, format!("{what}: {problem}")).with_help(help)
}

/// `None` if there is no such object.
fn or_none<T>(found: object_store::Result<T>) -> object_store::Result<Option<T>> {
    match found {
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        found => found.map(Some),
    }
}

/// Keeps an error that is not the store's for the caller, and returns one that ends the request.
fn own_problem(problem: &RefCell<Option<Error>>, cause: Error) -> object_store::Error {
    let told = io::Error::other(cause.to_string());
    *problem.borrow_mut() = Some(cause);
    object_store::Error::Generic { store: "local file", source: Box::new(told) }
}

/// Reads a local file in parts, and checks at the end that it is the one that was written.
struct PartReader {
    /// The file, at the next part.
    input: File,
    /// Its path, for messages.
    path: std::path::PathBuf,
    /// Its expected size and hash.
    file: HashedFile,
    /// The hash of the parts so far.
    hash: Sha256,
    /// Bytes of each part but the last.
    part_bytes: u64,
}

impl PartReader {
    /// Opens a file.
    ///
    /// # Errors
    /// It cannot be opened.
    fn open(file: &HashedFile, path: &FilePath) -> Result<PartReader> {
        let input = File::open(path).map_err(|cause| Error::io("read", path, cause))?;
        let part_bytes = file.bytes.div_ceil(MAX_PARTS).next_multiple_of(1 << 20).max(PART_BYTES);
        Ok(PartReader { input, path: path.to_owned(), file: file.clone(), hash: Sha256::new(), part_bytes })
    }

    /// The number of parts.
    fn parts(&self) -> usize {
        u64_to_usize(self.file.bytes.div_ceil(self.part_bytes))
    }

    /// The next part. Empty at the end of the file.
    ///
    /// # Errors
    /// The file cannot be read.
    fn next_part(&mut self) -> Result<Vec<u8>> {
        let mut part = Vec::with_capacity(u64_to_usize(self.part_bytes.min(self.file.bytes)));
        let read = (&self.input).take(self.part_bytes).read_to_end(&mut part);
        read.map_err(|cause| Error::io("read", &self.path, cause))?;
        self.hash.update(&part);
        Ok(part)
    }

    /// Compares the parts with the expected hash.
    ///
    /// # Errors
    /// They differ ([`ErrorKind::Mismatch`]).
    fn check_hash(&self) -> Result<()> {
        if hex(&self.hash.clone().finalize()) == self.file.sha256 {
            return Ok(());
        }
        let problem = format!("{} changed before it was uploaded", self.path.display());
        Err(Error::message(ErrorKind::Mismatch, problem)
            .with_help("run it again, which writes the file again; leave the staging folder alone meanwhile"))
    }
}
