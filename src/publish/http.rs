//! HTTP requests that send data, with repetitions and time limits. One client is used for the hub and for the hosts
//! where it stores files.
//!
//! Redirects are not followed by the client, and the token goes only to addresses with the hub's origin. All requests
//! of a push are one future, which [`wait_for`](crate::network::wait_for) drops as soon as the observer asks to stop.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::{Either, select};
use futures_util::stream;
use hf_hub::HFError;
use reqwest::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderMap, LOCATION};
use reqwest::{Body, Client, Method, RequestBuilder, StatusCode, Url};
use sha2::{Digest, Sha256};
use tokio::time::sleep;
use url::Origin;

use crate::base::int::{to_u64, u64_to_usize, with_unit};
use crate::base::integrity::hex;
use crate::base::pools::lock;
use crate::error::{Error, ErrorKind, Result};
use crate::network::{
    HubFailure, HubSettings, MAX_ANSWER_BYTES, RequestError, Retries, address, build, check_token,
    client_builder, connection_failure, in_one_line, requested_wait,
};

/// Time between two reports of progress, and two checks whether data still moves.
const TICK: Duration = Duration::from_millis(100);
/// Bytes of a file that are read and handed to the connection at once (256 KiB).
const BLOCK_BYTES: u64 = 1 << 18;

/// The token, which a push always needs.
///
/// # Errors
/// There is none, or it has characters that a header cannot have ([`ErrorKind::Authorisation`]).
fn token(settings: &HubSettings) -> Result<&str> {
    check_token(settings)?.filter(|token| !token.is_empty()).ok_or_else(|| {
        let problem = "a push needs a token of the hub, and none is set";
        Error::message(ErrorKind::Authorisation, problem).with_help("set HF_TOKEN to a token that may write")
    })
}

/// Sends requests, and repeats those that fail temporarily.
pub(super) struct Http<'a> {
    /// The client for all hosts.
    client: Client,
    /// The hub's address and token, and the limits.
    settings: &'a HubSettings,
    /// The hub, which alone gets the token.
    hub: Origin,
    /// The token, checked.
    token: &'a str,
}

/// An answer with its complete body.
#[derive(Debug)]
pub(super) struct Answer {
    /// The status.
    pub(super) status: StatusCode,
    /// The headers.
    pub(super) headers: HeaderMap,
    /// The body.
    pub(super) body: Vec<u8>,
}

/// The reason that a request has failed.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The request may succeed later, after `wait` if the server has named a time.
    Passing { problem: String, wait: Option<Duration> },
    /// An address that the hub gave is refused. Its signature may have expired, so a new address is needed.
    Stale(String),
    /// Somebody else has changed the branch.
    Conflict(String),
    /// Repeating would not help.
    Final(Error),
}

impl Trouble {
    /// A temporary failure for which the server has named no time.
    pub(super) fn passing(problem: impl Into<String>) -> Trouble {
        Trouble::Passing { problem: problem.into(), wait: None }
    }
}

impl From<RequestError> for Trouble {
    fn from(failed: RequestError) -> Trouble {
        match failed {
            RequestError::Temporary { problem, wait } => Trouble::Passing { problem, wait },
            RequestError::Refused { kind, problem, help } => {
                Trouble::Final(Error::message(kind, problem).with_help(help))
            }
            RequestError::Final(error) => Trouble::Final(error),
        }
    }
}

impl From<Trouble> for RequestError {
    fn from(trouble: Trouble) -> RequestError {
        match trouble {
            Trouble::Passing { problem, wait } => RequestError::Temporary { problem, wait },
            Trouble::Stale(problem) | Trouble::Conflict(problem) => RequestError::passing(problem),
            Trouble::Final(error) => RequestError::Final(error),
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Final(error)
    }
}

impl<'a> Http<'a> {
    /// # Errors
    /// There is no token, or the client cannot be set up.
    pub(super) fn new(settings: &'a HubSettings) -> Result<Http<'a>> {
        let (token, hub) = (token(settings)?, address(&settings.endpoint)?.origin());
        Ok(Http { client: build(client_builder(&settings.patience))?, settings, hub, token })
    }

    /// Counts the failures of an operation. `what` is the beginning of messages.
    pub(super) fn retries(&self, what: impl Into<String>) -> Retries<'a> {
        let HubSettings { patience, noted, .. } = self.settings;
        Retries::new(patience, noted, what, "files that were sent are not sent again")
    }

    /// Repeats an operation that fails temporarily.
    ///
    /// # Errors
    /// The first failure that is not temporary, or the last one when attempts are exhausted.
    pub(super) async fn repeat<T>(
        &self,
        what: &str,
        mut attempt: impl AsyncFnMut() -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        let mut retries = self.retries(what);
        loop {
            match attempt().await {
                Err(passing @ Trouble::Passing { .. }) => retries.failed(passing).await?,
                done => return done,
            }
        }
    }

    /// Sends a request once, with a body that is in memory, and returns the answer of any status. The answer must
    /// arrive within `limit`.
    ///
    /// # Errors
    /// The server cannot be reached or does not answer in time.
    pub(super) async fn send(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: Bytes,
        limit: Duration,
    ) -> Result<Answer, Trouble> {
        let request = self.request(method, url, headers).body(body).timeout(limit);
        received(request.send().await.map_err(|cause| connection_failure(&cause))?).await
    }

    /// Sends a part of a file once, and returns the answer of any status. `told` is called with the number of bytes
    /// that were handed over so far.
    ///
    /// Nothing may be silent for [`silence`](crate::source::Patience::silence) while the part is sent, and the answer
    /// must arrive within [`whole`](crate::source::Patience::whole) after it.
    ///
    /// **Memory:** a few blocks of 256 KiB.
    ///
    /// # Errors
    /// The server cannot be reached or does not answer in time, or the file cannot be read or has changed.
    pub(super) async fn send_part(
        &self,
        url: &str,
        headers: &[(&str, &str)],
        part: &FilePart,
        mut told: impl FnMut(u64),
    ) -> Result<(Answer, Sha256), Trouble> {
        let (blocks, sending) = part.open()?;
        let body = Body::wrap_stream(stream::iter(blocks));
        let request = self.request(Method::PUT, url, headers).header(CONTENT_LENGTH, part.bytes).body(body);
        let patience = &self.settings.patience;
        let watch = async {
            loop {
                sleep(TICK).await;
                let Sending { bytes, moved, .. } = &*lock(&sending);
                told(*bytes);
                let limit = if *bytes < part.bytes { patience.silence } else { patience.whole };
                if moved.elapsed() > limit {
                    return with_unit(limit.as_secs(), "second");
                }
            }
        };
        let sent =
            async { received(request.send().await.map_err(|cause| connection_failure(&cause))?).await };
        let outcome = match select(pin!(sent), pin!(watch)).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right((limit, _)) => Err(Trouble::passing(format!("no data could be sent for {limit}"))),
        };
        let Sending { bytes, hash, failed, .. } = &mut *lock(&sending);
        if let Some(failed) = failed.take() {
            return Err(Trouble::Final(failed));
        }
        let answer = outcome?;
        if answer.is_success() && *bytes < part.bytes {
            return Err(Trouble::passing("the answer came before all bytes were sent"));
        }
        told(*bytes);
        Ok((answer, hash.clone()))
    }

    /// A request with the headers that are given, and the token if it is for the hub.
    fn request(&self, method: Method, url: &str, headers: &[(&str, &str)]) -> RequestBuilder {
        let mut request = self.client.request(method, url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let is_given = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        match self.is_hub(url) && !is_given {
            true => request.header(AUTHORIZATION, format!("Bearer {}", self.token)),
            false => request,
        }
    }

    /// Whether an address is of the hub itself, which alone gets the token.
    pub(super) fn is_hub(&self, url: &str) -> bool {
        Url::parse(url).is_ok_and(|url| url.origin() == self.hub)
    }

    /// The time within which the hub must answer a question.
    pub(super) fn answer_limit(&self) -> Duration {
        self.settings.patience.silence
    }

    /// The time within which the hub must finish the work of a request, for example a commit.
    pub(super) fn work_limit(&self) -> Duration {
        self.settings.patience.whole
    }
}

/// Turns a conflict or an expired address into an error, where neither can be helped.
///
/// # Errors
/// The outcome is a failure.
pub(super) fn ended<T>(outcome: Result<T, Trouble>) -> Result<T> {
    outcome.map_err(|trouble| match trouble {
        Trouble::Final(error) => error,
        Trouble::Passing { problem, .. } | Trouble::Stale(problem) | Trouble::Conflict(problem) => {
            Error::message(ErrorKind::Network, problem).with_help("run the same command again")
        }
    })
}

/// Reads the body of an answer.
///
/// # Errors
/// The connection ends too early, or the body is too long.
async fn received(mut response: reqwest::Response) -> Result<Answer, Trouble> {
    let (status, headers) = (response.status(), response.headers().clone());
    let mut body = Vec::new();
    while let Some(block) = response.chunk().await.map_err(|cause| connection_failure(&cause))? {
        body.extend_from_slice(&block);
        if to_u64(body.len()) > MAX_ANSWER_BYTES {
            return Err(Trouble::passing(format!("the answer has more than {MAX_ANSWER_BYTES} bytes")));
        }
    }
    Ok(Answer { status, headers, body })
}

/// The failure that an error of the hub's own client means.
pub(super) fn hub_failure(failed: HFError) -> Trouble {
    match HubFailure::from(failed) {
        HubFailure::Refused { status, message, wait, .. } => refused_by_hub(status.as_u16(), &message, wait),
        HubFailure::Connection(cause) => connection_failure(&cause).into(),
        HubFailure::Unusable(problem) => Trouble::passing(format!("its answer cannot be used: {problem}")),
    }
}

/// The failure that a status means which is no success. `is_hub` says whether the hub itself answers.
pub(super) fn refused(answer: &Answer, is_hub: bool) -> Trouble {
    let wait = requested_wait(answer.status, &answer.headers);
    let status = answer.status.as_u16();
    if is_hub {
        return refused_by_hub(status, &answer.message(), wait);
    }
    let problem = format!("the host of the hub's files answers {status}");
    match status {
        408 | 425 | 429 | 500..=506 | 508..=599 => Trouble::Passing { problem, wait },
        413 | 507 => Trouble::Final(too_large(problem)),
        _ => Trouble::Stale(problem),
    }
}

/// The failure that a status of the hub means.
pub(super) fn refused_by_hub(status: u16, message: &str, wait: Option<Duration>) -> Trouble {
    let problem = match in_one_line(message).as_str() {
        "" => format!("the hub answers {status}"),
        message => format!("the hub answers {status}: {message}"),
    };
    let failed =
        |kind, help: &'static str| Trouble::Final(Error::message(kind, problem.clone()).with_help(help));
    let is_quota = ["storage", "quota"].iter().any(|word| message.to_lowercase().contains(word));
    match status {
        402 | 403 | 507 if is_quota || status != 403 => failed(
            ErrorKind::Authorisation,
            "free some space in the account, or push to a repository of an account that has more",
        ),
        408 | 425 | 429 | 500..=599 => Trouble::Passing { problem, wait },
        409 | 412 => Trouble::Conflict(problem),
        401 => {
            failed(ErrorKind::Authorisation, "set HF_TOKEN to a valid token that may write to the repository")
        }
        403 => failed(
            ErrorKind::Authorisation,
            "check the namespace, and set HF_TOKEN to a token that may write to the repository",
        ),
        404 => failed(
            ErrorKind::Authorisation,
            "check the name of the repository, and that the token in HF_TOKEN may write to it",
        ),
        413 => Trouble::Final(too_large(problem)),
        300..=399 => failed(ErrorKind::Failed, "the repository was renamed: give its present name"),
        _ => failed(ErrorKind::Failed, "correct what the hub refuses, then run the same command again"),
    }
}

/// The error that something is too large for a server.
fn too_large(problem: String) -> Error {
    Error::message(ErrorKind::Network, problem).with_help(
        "the file is too large for the hub: write smaller ones (file_text_bytes in [output], or --file-text-bytes)",
    )
}

impl Answer {
    /// The server's explanation: the header that the hub sends, or the field `error` of the body.
    fn message(&self) -> String {
        let header = self.headers.get("x-error-message").and_then(|value| value.to_str().ok());
        let body = || {
            let body: serde_json::Value = serde_json::from_slice(&self.body).ok()?;
            Some(body["error"].as_str().or(body["message"].as_str())?.to_owned())
        };
        header.map(str::to_owned).or_else(body).unwrap_or_default()
    }

    /// The address to which the answer to a request for `url` redirects; `None` if it does not.
    pub(super) fn redirect(&self, url: &str) -> Option<String> {
        let location = self.headers.get(LOCATION).filter(|_| self.status.is_redirection())?;
        Some(Url::parse(url).ok()?.join(location.to_str().ok()?).ok()?.into())
    }

    /// Whether the status is a success.
    pub(super) fn is_success(&self) -> bool {
        self.status.is_success()
    }
}

/// A part of a file that is sent in one request.
#[derive(Clone, Debug)]
pub(super) struct FilePart {
    /// The file.
    pub(super) path: PathBuf,
    /// Offset of the first byte.
    pub(super) from: u64,
    /// Number of bytes.
    pub(super) bytes: u64,
    /// The hash of all bytes before the part.
    pub(super) before: Sha256,
    /// The SHA-256 of the file, in hex, if this is its last part.
    pub(super) sha256: Option<String>,
}

impl FilePart {
    /// Opens the file at the part.
    ///
    /// # Errors
    /// It cannot be read.
    fn open(&self) -> Result<(Blocks, Arc<Mutex<Sending>>)> {
        let cannot = |cause| Error::io("read", &self.path, cause);
        let mut file = File::open(&self.path).map_err(cannot)?;
        file.seek(SeekFrom::Start(self.from)).map_err(cannot)?;
        let sending = Sending { bytes: 0, moved: Instant::now(), hash: self.before.clone(), failed: None };
        let sending = Arc::new(Mutex::new(sending));
        Ok((Blocks { file, part: self.clone(), sending: Arc::clone(&sending) }, sending))
    }
}

/// How far a request with a part of a file is.
struct Sending {
    /// Bytes of the part that were handed over.
    bytes: u64,
    /// When bytes were last handed over.
    moved: Instant,
    /// The hash of the file up to there.
    hash: Sha256,
    /// Why the file cannot be sent.
    failed: Option<Error>,
}

/// Reads the blocks of a part. The last block of a file comes only if the file has the hash that it should have, so
/// that no server takes a file that has changed.
struct Blocks {
    /// The file, at the next block.
    file: File,
    /// The part.
    part: FilePart,
    /// Shared with the sender.
    sending: Arc<Mutex<Sending>>,
}

impl Iterator for Blocks {
    type Item = io::Result<Bytes>;

    fn next(&mut self) -> Option<io::Result<Bytes>> {
        let mut sending = lock(&self.sending);
        let left = self.part.bytes - sending.bytes;
        if left == 0 || sending.failed.is_some() {
            return None;
        }
        match read_block(&mut self.file, &self.part, left.min(BLOCK_BYTES), &mut sending) {
            Ok(block) => Some(Ok(block)),
            Err(error) => {
                sending.failed = Some(error);
                Some(Err(io::Error::other("the file cannot be sent")))
            }
        }
    }
}

/// Reads the next `length` bytes of a part.
///
/// # Errors
/// The file cannot be read, is shorter than the part, or has another hash than it should have.
fn read_block(file: &mut File, part: &FilePart, length: u64, sending: &mut Sending) -> Result<Bytes> {
    let mut block = vec![0; u64_to_usize(length)];
    match file.read_exact(&mut block) {
        Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => return Err(changed(&part.path)),
        read => read.map_err(|cause| Error::io("read", &part.path, cause))?,
    }
    sending.hash.update(&block);
    let bytes = sending.bytes + to_u64(block.len());
    if let Some(sha256) = part.sha256.as_ref().filter(|_| bytes == part.bytes)
        && *sha256 != hex(&sending.hash.clone().finalize())
    {
        return Err(changed(&part.path));
    }
    (sending.bytes, sending.moved) = (bytes, Instant::now());
    Ok(block.into())
}

/// The error that a file has changed since it was checked.
pub(super) fn changed(path: &Path) -> Error {
    let problem = format!("{}: changed since the push began", path.display());
    Error::message(ErrorKind::InputChanged, problem)
        .with_help("run the same command again once nothing writes to the folder")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::integrity::sha256;

    #[test]
    fn a_status_decides_whether_to_repeat_and_what_to_do() {
        use ErrorKind::{Authorisation, Failed, Network};
        for (status, message, kind, help) in [
            (401, "", Authorisation, "HF_TOKEN"),
            (402, "", Authorisation, "free some space"),
            (403, "no rights", Authorisation, "check the namespace"),
            (403, "Private repository storage limit reached", Authorisation, "free some space"),
            (404, "", Authorisation, "check the name"),
            (413, "", Network, "file_text_bytes"),
            (307, "", Failed, "renamed"),
            (422, "bad card", Failed, "correct what the hub refuses"),
        ] {
            let trouble = refused_by_hub(status, message, None);
            let Trouble::Final(error) = trouble else { panic!("{status}: {trouble:?}") };
            assert_eq!(error.kind(), kind, "{status}");
            assert!(error.help().is_some_and(|said| said.contains(help)), "{error:?}");
            assert!(error.to_string().contains(message), "{error}");
        }
        for status in [408, 425, 429, 500, 503] {
            let trouble = refused_by_hub(status, "", Some(Duration::from_secs(7)));
            assert!(matches!(trouble, Trouble::Passing { wait: Some(_), .. }), "{status}: {trouble:?}");
        }
        for status in [409, 412] {
            assert!(matches!(refused_by_hub(status, "", None), Trouble::Conflict(_)), "{status}");
        }
        let stored = |status| {
            let status = StatusCode::from_u16(status).expect("a status");
            refused(&Answer { status, headers: HeaderMap::new(), body: Vec::new() }, false)
        };
        assert!(matches!(stored(403), Trouble::Stale(_)) && matches!(stored(400), Trouble::Stale(_)));
        assert!(matches!(stored(503), Trouble::Passing { .. }) && matches!(stored(413), Trouble::Final(_)));
    }

    /// A file of two and a half blocks, and a part of it.
    fn part(from: u64, content: &[u8], sha256: &str) -> (tempfile::NamedTempFile, FilePart) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), content).expect("written");
        let bytes = 5 * BLOCK_BYTES / 2;
        let before = Sha256::new_with_prefix(&content[..u64_to_usize(from)]);
        let (path, sha256) = (file.path().to_owned(), Some(sha256.to_owned()));
        (file, FilePart { path, from, bytes: bytes - from, before, sha256 })
    }

    #[test]
    fn the_last_block_comes_only_if_the_whole_file_is_right() {
        let content = vec![7; u64_to_usize(5 * BLOCK_BYTES / 2)];
        let right = sha256(&content);
        for (from, kept, hash, complete) in [
            (0, content.len(), right.as_str(), true),
            (BLOCK_BYTES, content.len(), &right, true),
            (0, content.len() - 1, &right, false),
            (0, content.len(), "other", false),
            (BLOCK_BYTES, content.len(), "other", false),
        ] {
            let (_file, part) = part(from, &content[..kept], hash);
            let (blocks, sending) = part.open().expect("a readable file");
            let sent: io::Result<Vec<Bytes>> = blocks.collect();
            assert_eq!(sent.is_ok(), complete, "{from} {kept} {hash}");
            match sent {
                Ok(blocks) => assert_eq!(blocks.concat(), content[u64_to_usize(from)..]),
                Err(_) => {
                    let failed = lock(&sending).failed.take().expect("an error");
                    assert_eq!(failed.kind(), ErrorKind::InputChanged);
                }
            }
        }
    }
}
