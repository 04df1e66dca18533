//! Files that are read by ranges and never stored: of the hub, of web servers, and of object stores.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore};
use reqwest::{Method, StatusCode, Url};

use super::{RemoteError, Streamed};
use crate::base::int::to_u64;
use crate::base::secrets::{shown_uri, without_secrets};
use crate::error::{Error, ErrorKind, Result};
use crate::network::{
    Head, Http, HubSettings, Refused, Request, RequestError, Server, Sink, address, cannot_fetch, header,
    in_one_line, wait_for,
};
use crate::source::content::RangeRead;
use crate::source::{Identity, Stop};

/// The information by which a server distinguishes versions of a file, as far as it sends any.
#[derive(Clone, Debug, Default)]
pub(super) struct Version {
    /// The entity tag.
    pub(super) etag: Option<String>,
    /// The time of the last change, as text.
    pub(super) last_modified: Option<String>,
}

impl Version {
    /// The version that the headers of an answer show.
    fn of(head: &Head) -> Version {
        let last_modified = header(&head.headers, "last-modified").map(str::to_owned);
        Version { etag: head.etag.clone(), last_modified }
    }

    /// The version of an object. The time has whole seconds, as not all answers of a store have fractions.
    pub(super) fn of_object(object: &ObjectMeta) -> Version {
        let last_modified = object.last_modified.format("%Y-%m-%dT%H:%M:%S+00:00").to_string();
        Version { etag: object.e_tag.clone().map(quoted), last_modified: Some(last_modified) }
    }

    /// The entity tag, or otherwise the time of the last change; empty if neither is known.
    pub(super) fn name(&self) -> &str {
        self.etag.as_deref().or(self.last_modified.as_deref()).unwrap_or_default()
    }

    /// Whether the contents certainly differ. Answers of a server need not all have the same headers.
    fn differs(&self, other: &Version) -> bool {
        match (&self.etag, &other.etag, &self.last_modified, &other.last_modified) {
            (Some(one), Some(other), ..) | (_, _, Some(one), Some(other)) => one != other,
            _ => false,
        }
    }
}

/// Where a file is.
pub(super) enum Place {
    /// At an address, without signatures. For a file of the hub, each request gets a newly signed address.
    Address(Arc<Http>, Url),
    /// In an object store, under this key.
    Object(Arc<dyn ObjectStore>, Path),
}

/// A file that is read by ranges and never stored.
pub(super) struct RemoteFile {
    /// Where the file is.
    pub(super) place: Place,
    /// The file's name in messages.
    pub(super) what: String,
    /// Size in bytes.
    pub(super) bytes: u64,
    /// Its version when it was listed.
    pub(super) version: Version,
    /// Asked while a range arrives.
    pub(super) stop: Stop,
}

impl fmt::Debug for RemoteFile {
    /// Leaves out the place, because its client has credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteFile")
            .field("what", &self.what)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl RangeRead for RemoteFile {
    /// The size when the file was listed.
    fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Requests the range until all of it has arrived.
    ///
    /// # Errors
    /// The file has changed since it was listed; the server does not support ranges, refuses or cannot be reached; or
    /// the caller is to stop.
    fn range(&self, start: u64, length: usize) -> Result<Bytes> {
        wait_for(&*self.stop, &self.what, async {
            match &self.place {
                Place::Address(http, url) => {
                    let mut range = RangeBytes { file: self, start, length, bytes: Vec::new() };
                    http.fetch(&self.what, url, &mut range).await?;
                    Ok(range.bytes.into())
                }
                Place::Object(store, key) => self.of_object(&**store, key, start, length).await,
            }
        })
    }
}

impl RemoteFile {
    /// A range of an object, on the condition that the object still has its entity tag.
    ///
    /// # Errors
    /// Those of [`range`](RemoteFile::range).
    async fn of_object(
        &self,
        store: &dyn ObjectStore,
        key: &Path,
        start: u64,
        length: usize,
    ) -> Result<Bytes> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(start..start + to_u64(length))),
            if_match: self.version.etag.clone(),
            ..GetOptions::default()
        };
        let failed = |cause| refused_by_store(&self.what, &cause);
        let found = store.get_opts(key, options).await.map_err(failed)?;
        // Not every store supports the condition or sends an entity tag, so the answer is checked as well.
        let is_other =
            found.meta.size != self.bytes || Version::of_object(&found.meta).differs(&self.version);
        let bytes = found.bytes().await.map_err(failed)?;
        if is_other || bytes.len() != length {
            return Err(RemoteError::changed(&self.what));
        }
        Ok(bytes)
    }
}

/// A range of a file that is arriving.
struct RangeBytes<'a> {
    /// The file.
    file: &'a RemoteFile,
    /// Offset of the range.
    start: u64,
    /// Length of the range in bytes.
    length: usize,
    /// The bytes so far.
    bytes: Vec<u8>,
}

impl Sink for RangeBytes<'_> {
    fn missing(&mut self) -> Result<Option<(u64, Option<u64>)>> {
        let (from, end) = (self.start + to_u64(self.bytes.len()), self.start + to_u64(self.length));
        Ok((from < end).then_some((from, Some(end))))
    }

    fn begin(&mut self, head: &Head, from: u64) -> Result<(), RequestError> {
        let is_other = Version::of(head).differs(&self.file.version);
        if head.status == StatusCode::OK && !is_other {
            return Err(without_ranges(&self.file.what).into());
        }
        if is_other || head.first_and_total() != Some((from, self.file.bytes)) {
            return Err(RemoteError::changed(&self.file.what).into());
        }
        Ok(())
    }

    fn append(&mut self, block: &[u8]) -> Result<()> {
        if self.bytes.len() + block.len() > self.length {
            return Err(RemoteError::changed(&self.file.what));
        }
        self.bytes.extend_from_slice(block);
        Ok(())
    }
}

/// Requests the size and version of a file on a web server. The file is read by ranges and never stored.
///
/// A range of one byte is requested, because the answer to it shows the total size and whether ranges are supported.
/// The requests never have the hub's token.
///
/// # Errors
/// The server cannot be reached, refuses, or does not support ranges; or the network must not be used.
pub(super) fn open(uri: &str, settings: &HubSettings, stop: &Stop) -> Result<Streamed> {
    let what = shown_uri(uri);
    if settings.offline {
        return Err(cannot_fetch(ErrorKind::Network, &what, "HF_HUB_OFFLINE is set".to_owned()));
    }
    let url = address(uri)?;
    let http = Http::new(Server::Web, Some(url.origin()), &settings.patience, &settings.noted)?;
    let first = Request::range(&url, 0, Some(1));
    let head = wait_for(&**stop, &what, http.head(&what, &first))?;
    let total = head.first_and_total().map(|(_, total)| total);
    let bytes = total.or(head.is_empty().then_some(0)).ok_or_else(|| without_ranges(&what))?;
    let version = Version::of(&head);
    let identity = Identity::Web { bytes, etag: version.name().to_owned() };
    let place = Place::Address(Arc::new(http), url);
    let remote = RemoteFile { place, what: what.clone(), bytes, version, stop: Arc::clone(stop) };
    // The query is not part of the name from which the format is derived.
    let path = uri.split(['?', '#']).next().unwrap_or(uri);
    Ok((((PathBuf::from(path), what), identity), Some(Arc::new(remote))))
}

/// Downloads a whole file of a web server into memory, at most
/// [`MAX_ANSWER_BYTES`](crate::network::MAX_ANSWER_BYTES). The requests never have the hub's token.
///
/// # Errors
/// The server cannot be reached, refuses, or sends too much or too slowly; or the caller is to stop.
pub(in crate::source) fn download(
    address: &str,
    settings: &HubSettings,
    stop: &dyn Fn() -> bool,
) -> Result<Bytes> {
    let (url, what) = (crate::network::address(address)?, shown_uri(address));
    let http = Http::new(Server::Web, Some(url.origin()), &settings.patience, &settings.noted)?;
    let file = Request::new(Method::GET, url);
    Ok(wait_for(stop, &what, http.whole(&what, &file))?.1)
}

/// The error that a server does not support ranges.
fn without_ranges(what: &str) -> Error {
    let problem = "its host does not support range requests".to_owned();
    cannot_fetch(ErrorKind::Network, what, problem)
        .with_help("download the file, and give its local path; on the hub leave `stream` out")
}

/// The entity tag of an object, or the time of its last change if the store gives no tag. It changes with the content.
pub(crate) fn object_version(object: &ObjectMeta) -> String {
    Version::of_object(object).name().to_owned()
}

/// An entity tag with quotes, as conditions require. Azure omits the quotes in lists of objects, and only there.
fn quoted(tag: String) -> String {
    if tag.ends_with('"') { tag } else { format!("\"{tag}\"") }
}

/// The error for a failure that the library reports, or that [`Http`] has reported to it.
///
/// `what` is the URI. The library's message is shown without secrets.
pub(crate) fn refused_by_store(what: &str, cause: &object_store::Error) -> Error {
    use object_store::Error::{NotFound, PermissionDenied, Precondition, Unauthenticated};
    let first: &dyn std::error::Error = cause;
    let mut causes = std::iter::successors(Some(first), |cause| cause.source());
    if let Some(error) = causes.find_map(|cause| cause.downcast_ref::<Error>()) {
        let problem = match error.get_ref().downcast_ref() {
            Some(Refused { problem, .. }) => problem.clone(),
            _ => error.to_string(),
        };
        return cannot_fetch(error.kind(), what, problem)
            .with_help(error.help().unwrap_or_default().to_owned());
    }
    let (kind, help) = match cause {
        Precondition { .. } => return RemoteError::changed(what),
        NotFound { .. } => (ErrorKind::Failed, "check the bucket, the path and the region"),
        PermissionDenied { .. } | Unauthenticated { .. } => (
            ErrorKind::Authorisation,
            "give the store's own variables (AWS_…, GOOGLE_…, AZURE_…); a public bucket needs \
             AWS_SKIP_SIGNATURE, GOOGLE_SKIP_SIGNATURE or AZURE_SKIP_SIGNATURE set to true",
        ),
        _ => (ErrorKind::Network, "check the bucket and the store's own variables, then run it again"),
    };
    cannot_fetch(kind, what, plainly(&cause.to_string())).with_help(help)
}

/// The library's message without secrets. Of an answer of the store, it has the status and what the store says, without
/// the request and the XML around them.
fn plainly(message: &str) -> String {
    let Some((_, answer)) = message.split_once("non-2xx status code: ") else {
        return without_secrets(message);
    };
    let (status, body) = answer.split_once(": ").unwrap_or((answer, ""));
    let element = |name| Some(body.split_once(name)?.1.split_once('<')?.0);
    let text = element("<Message>").or_else(|| element("<Code>")).unwrap_or_default();
    let answers = format!("the store answers {status}: {}", in_one_line(text));
    answers.trim_end_matches(": ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stores answer in XML.
    #[test]
    fn what_a_store_says_is_shown_without_its_xml() {
        let of_library = "Generic S3 error: Error performing GET http://s/b in 5ms - Server returned non-2xx status code: ";
        for (answer, expected) in [
            (
                "404 Not Found: <Error><Code>NoSuchBucket</Code><Message>No such bucket</Message></Error>",
                "404 Not Found: No such bucket",
            ),
            ("403 Forbidden: <Error><Code>AccessDenied</Code></Error>", "403 Forbidden: AccessDenied"),
            ("403 Forbidden: ", "403 Forbidden"),
            ("502 Bad Gateway: <html>", "502 Bad Gateway"),
        ] {
            assert_eq!(plainly(&format!("{of_library}{answer}")), format!("the store answers {expected}"));
        }
        assert_eq!(plainly("Generic S3 error: no region"), "Generic S3 error: no region");
    }

    /// Versions differ only if both have the same kind of information.
    #[test]
    fn contents_differ_where_both_answers_say_so_in_one_way() {
        let version = |etag: Option<&str>, last_modified: Option<&str>| Version {
            etag: etag.map(str::to_owned),
            last_modified: last_modified.map(str::to_owned),
        };
        let listed = version(Some("a"), Some("Monday"));
        for (etag, last_modified, differs) in [
            (Some("a"), Some("Tuesday"), false),
            (Some("b"), Some("Monday"), true),
            (None, Some("Monday"), false),
            (None, Some("Tuesday"), true),
            (None, None, false),
        ] {
            let now = version(etag, last_modified);
            assert_eq!((now.differs(&listed), listed.differs(&now)), (differs, differs), "{etag:?}");
        }
        assert!(!version(None, Some("Monday")).differs(&version(Some("a"), None)));
        assert_eq!([listed.name(), version(None, Some("Monday")).name()], ["a", "Monday"]);
    }
}
