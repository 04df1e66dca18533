//! Reads objects of S3, Google Cloud Storage and Azure by ranges, with the HTTP client of the rest of the program.

use std::future::Future;
use std::io::Read;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, thread};

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientOptions, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, RetryConfig,
};
use tokio::sync::oneshot;
use tokio::time::timeout;
use ureq::Agent;
use ureq::http::Request;

use super::http::agent;
use super::repository::wants;
use super::{Patience, RemoteError, StoreSettings, Streamed};
use crate::base::int::to_u64;
use crate::base::secrets::without_secrets;
use crate::error::{Error, ErrorKind, Result, catch_panic};
use crate::source::content::RangeRead;
use crate::source::{Identity, Stop};

/// Time between two checks for a request to stop.
const TICK: Duration = Duration::from_millis(100);

/// The parts of `s3://bucket/path`, `gs://…` or `az://container/path`.
struct ObjectRequest<'a> {
    /// `s3`, `gs` or `az`.
    scheme: &'a str,
    /// The bucket or container.
    bucket: &'a str,
    /// An object, a folder or a glob; empty for the whole bucket.
    path: &'a str,
}

impl ObjectRequest<'_> {
    /// Splits a URI into its parts; `None` if it names no bucket.
    fn parse(uri: &str) -> Option<ObjectRequest<'_>> {
        let (scheme, rest) = uri.split_once("://")?;
        let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
        (!bucket.is_empty()).then(|| ObjectRequest { scheme, bucket, path: path.trim_end_matches('/') })
    }

    /// The URI of an object.
    fn name(&self, object: &Path) -> String {
        format!("{}://{}/{object}", self.scheme, self.bucket)
    }

    /// The deepest folder that contains all requested objects.
    ///
    /// It is the part of the path before the first component with a wildcard, or the whole path without one. It has no
    /// slash at its end.
    fn folder(&self) -> &str {
        let is_pattern = |part: &str| part.contains(['*', '?', '[']);
        match self.path.split('/').position(is_pattern) {
            None => self.path,
            Some(plain) => {
                let bytes: usize = self.path.split('/').take(plain).map(|part| part.len() + 1).sum();
                self.path[..bytes].trim_end_matches('/')
            }
        }
    }

    /// The store that the environment variables of its own tools describe.
    ///
    /// Variables that the store's library does not know are ignored. The library repeats failed requests itself, with
    /// the waits of `patience`.
    ///
    /// # Errors
    /// The variables are incomplete or contradictory.
    fn store(
        &self,
        settings: &StoreSettings,
        patience: &Patience,
    ) -> object_store::Result<Arc<dyn ObjectStore>> {
        let url = format!("{}://{}", self.scheme, self.bucket);
        let retry = RetryConfig {
            backoff: BackoffConfig {
                init_backoff: patience.first_wait,
                max_backoff: patience.longest_wait,
                base: 2.0,
            },
            max_retries: usize::try_from(patience.attempts.saturating_sub(1)).unwrap_or(usize::MAX),
            ..RetryConfig::default()
        };
        // The three builders have these functions in common, but no trait for them.
        macro_rules! built {
            ($builder:ty) => {{
                let mut builder = <$builder>::new();
                for (name, value) in &settings.variables {
                    if let Ok(key) = name.to_ascii_lowercase().parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                let connector = Connector(agent(patience));
                Arc::new(builder.with_url(url).with_retry(retry).with_http_connector(connector).build()?)
            }};
        }
        Ok(match self.scheme {
            "gs" => built!(GoogleCloudStorageBuilder),
            "az" => built!(MicrosoftAzureBuilder),
            _ => built!(AmazonS3Builder),
        })
    }
}

/// Lists the objects that a URI names, in byte order of their names.
///
/// Lists all of the folder before anything is returned. Objects are shared by one client of the store.
///
/// # Errors
/// The URI names no bucket or no objects; or the store cannot be reached, or refuses.
pub(super) fn list(
    uri: &str,
    any_name: bool,
    settings: &StoreSettings,
    patience: &Patience,
    stop: &Stop,
) -> Result<Vec<Streamed>> {
    let nowhere = || {
        let error = RemoteError::Store { uri: uri.to_owned() }.with(ErrorKind::Usage);
        error.with_help("write s3://BUCKET/PATH, gs://BUCKET/PATH or az://CONTAINER/PATH")
    };
    let wanted = ObjectRequest::parse(uri).ok_or_else(nowhere)?;
    let store = wanted.store(settings, patience).map_err(|cause| refused(uri, cause))?;
    let mut objects = wait_for(stop, uri, find(&wanted, any_name, &*store))?;
    if objects.is_empty() {
        let error = RemoteError::NoFiles { uri: uri.to_owned() }.with(ErrorKind::Failed);
        return Err(error.with_help("check the path: in a folder, files are known by their extensions"));
    }
    objects.sort_by(|one, other| one.location.as_ref().cmp(other.location.as_ref()));
    let streamed = objects.into_iter().map(|object| {
        let ObjectMeta { location, last_modified, size, e_tag, .. } = object;
        let (name, e_tag) = (wanted.name(&location), e_tag.map(quoted));
        let identity =
            Identity::Web { bytes: size, etag: e_tag.clone().unwrap_or_else(|| last_modified.to_rfc3339()) };
        let path = PathBuf::from(location.as_ref());
        let remote: Arc<dyn RangeRead> = Arc::new(StoredObject {
            store: Arc::clone(&store),
            stop: Arc::clone(stop),
            name: name.clone(),
            location,
            bytes: size,
            last_modified,
            etag: e_tag,
        });
        (((path, name), identity), Some(remote))
    });
    Ok(streamed.collect())
}

/// The requested objects: a single one with that name, or those in the folder that match.
///
/// If the path has no wildcard, it is first taken as the name of an object, and as that of a folder only if there is
/// no such object. `any_name` says that the extension does not matter.
///
/// # Errors
/// The store refuses or cannot be reached. If nothing matches, the list is empty.
async fn find(
    wanted: &ObjectRequest<'_>,
    any_name: bool,
    store: &dyn ObjectStore,
) -> object_store::Result<Vec<ObjectMeta>> {
    let folder = Path::parse(wanted.folder())?;
    if !wanted.path.is_empty() && folder.as_ref() == wanted.path {
        match store.head(&folder).await {
            Ok(object) => return Ok(vec![object]),
            Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let mut objects = Vec::new();
    let prefix = Some(&folder).filter(|folder| !folder.as_ref().is_empty());
    let mut listed = store.list(prefix);
    while let Some(object) = std::future::poll_fn(|context| listed.as_mut().poll_next(context)).await {
        let object = object?;
        if wants(wanted.path, object.location.as_ref(), any_name) {
            objects.push(object);
        }
    }
    Ok(objects)
}

/// An object that is read by ranges and never stored.
struct StoredObject {
    /// The client of the store, which all objects of a list share.
    store: Arc<dyn ObjectStore>,
    /// Asked while a range arrives.
    stop: Stop,
    /// The URI of the object.
    name: String,
    /// The object's key.
    location: Path,
    /// Size in bytes.
    bytes: u64,
    /// The time of the last change, which identifies the content if the store sends no entity tag.
    last_modified: DateTime<Utc>,
    /// The entity tag with its quotes.
    etag: Option<String>,
}

impl fmt::Debug for StoredObject {
    /// Leaves out the store, because its settings include credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredObject")
            .field("name", &self.name)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl RangeRead for StoredObject {
    /// The size when the object was listed.
    fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Requests the range, on the condition that the object still has its entity tag.
    ///
    /// # Errors
    /// - The object has changed since it was listed, or the answer has another length.
    /// - The store refuses or cannot be reached, or the caller is to stop.
    fn range(&self, start: u64, length: usize) -> Result<Bytes> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(start..start + to_u64(length))),
            if_match: self.etag.clone(),
            ..GetOptions::default()
        };
        let (object, bytes) = wait_for(&self.stop, &self.name, async {
            let found = self.store.get_opts(&self.location, options).await?;
            Ok((found.meta.clone(), found.bytes().await?))
        })?;
        // Not every store supports the condition or sends an entity tag, so the answer is checked as well.
        let second = |time: DateTime<Utc>| time.timestamp();
        let is_later = self.etag.is_none() && second(object.last_modified) != second(self.last_modified);
        let is_other = object.size != self.bytes || object.e_tag.map(quoted) != self.etag || is_later;
        if is_other || bytes.len() != length {
            return Err(RemoteError::changed(&self.name));
        }
        Ok(bytes)
    }
}

/// An entity tag with quotes, as conditions require. Azure omits the quotes in lists of objects, and only there.
fn quoted(tag: String) -> String {
    if tag.ends_with('"') { tag } else { format!("\"{tag}\"") }
}

/// Waits for a store, or for a request to stop.
///
/// Each call has a runtime of its own on the calling thread, which checks every [`TICK`] whether to stop. A panic in
/// the library becomes an error.
///
/// # Errors
/// The store refuses or cannot be reached, or the caller is to stop.
fn wait_for<T>(stop: &Stop, what: &str, work: impl Future<Output = object_store::Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|cause| Error::io("read", what, cause))?;
    let waiting = async {
        let mut work = pin!(work);
        loop {
            if let Ok(outcome) = timeout(TICK, work.as_mut()).await {
                return outcome.map_err(|cause| refused(what, cause));
            }
            if stop() {
                return Err(Error::interrupted());
            }
        }
    };
    // The library panics if the entity tag that a store sent cannot be sent back in a condition.
    catch_panic(|| runtime.block_on(waiting)).unwrap_or_else(|problem| {
        Err(RemoteError::Refused { what: what.to_owned(), problem }.with(ErrorKind::Network))
    })
}

/// The error for a failure that the library reports.
///
/// `what` is the URI. The library's message is shown without secrets.
fn refused(what: &str, cause: object_store::Error) -> Error {
    use object_store::Error::{NotFound, PermissionDenied, Precondition, Unauthenticated};
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
    RemoteError::Refused { what: what.to_owned(), problem: without_secrets(&cause.to_string()) }
        .with(kind)
        .with_help(help)
}

/// Maximum bytes of an answer to a request without a range, which is a list, a key or an error.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// Lets the library for object stores use the same HTTP client as the rest of the program. Each request runs on its
/// own thread, so that waiting for it can be interrupted.
#[derive(Clone, Debug)]
pub(super) struct Connector(pub(super) Agent);

impl HttpConnector for Connector {
    /// All connections use the one agent, so the library's own options have no effect.
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Connector {
    /// Starts a thread for the request, and waits for its answer without blocking the runtime.
    ///
    /// # Errors
    /// Those of [`run_request`], or no thread can be started.
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let agent = self.0.clone();
        let (send, answer) = oneshot::channel();
        thread::Builder::new()
            .spawn(move || drop(send.send(run_request(&agent, request))))
            .map_err(|cause| HttpError::new(HttpErrorKind::Interrupted, cause))?;
        answer.await.unwrap_or_else(|gone| Err(HttpError::new(HttpErrorKind::Interrupted, gone)))
    }
}

/// Runs a request and reads its answer up to the limit.
///
/// The whole body is in memory at the end. It is limited by the requested range, since a server could otherwise send
/// without end.
///
/// # Errors
/// The server cannot be reached, or its answer breaks off or is too long.
fn run_request(agent: &Agent, request: HttpRequest) -> Result<HttpResponse, HttpError> {
    let max_bytes = range_bytes(&request).unwrap_or(MAX_ANSWER_BYTES);
    let (parts, body) = request.into_parts();
    let answer = match body.as_bytes() {
        Some(body) if !body.is_empty() => agent.run(Request::from_parts(parts, &body[..])),
        _ => agent.run(Request::from_parts(parts, ())),
    };
    let (parts, body) = answer.map_err(client_error)?.into_parts();
    let mut bytes = Vec::new();
    let mut reader = body.into_with_config().limit(u64::MAX).reader().take(max_bytes + 1);
    let cut_off = |cause| HttpError::new(HttpErrorKind::Interrupted, cause);
    let read = reader.read_to_end(&mut bytes).map_err(cut_off)?;
    if u64::try_from(read).is_ok_and(|read| read > max_bytes) {
        let problem = format!("its answer has more than the {max_bytes} bytes that were expected");
        return Err(HttpError::new(HttpErrorKind::Decode, std::io::Error::other(problem)));
    }
    Ok(HttpResponse::from_parts(parts, Bytes::from(bytes).into()))
}

/// Maximum bytes of the answer if the request is for a range.
///
/// `None` for a request without a range, or with one that has no end.
fn range_bytes(request: &HttpRequest) -> Option<u64> {
    let range = request.headers().get("range")?.to_str().ok()?.strip_prefix("bytes=")?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    // The answer may be an error message that is longer than the range.
    Some(last.checked_sub(first)?.saturating_add(1).max(1 << 20))
}

/// The library repeats requests that fail with an error of these kinds.
///
/// All errors of other kinds are final.
fn client_error(cause: ureq::Error) -> HttpError {
    let kind = match cause {
        ureq::Error::Timeout(_) => HttpErrorKind::Timeout,
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => HttpErrorKind::Connect,
        ureq::Error::Io(_) | ureq::Error::Protocol(_) => HttpErrorKind::Request,
        _ => HttpErrorKind::Unknown,
    };
    HttpError::new(kind, cause)
}
