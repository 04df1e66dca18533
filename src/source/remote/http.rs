//! HTTP requests to the hub and to web servers, with redirects, repetitions, and time limits. Also URLs, `Link` headers
//! (RFC 8288), and the classification of failed requests.
//!
//! A request runs on its own thread and sends blocks of the answer through a bounded channel. The caller waits with a
//! short timeout, so that it notices a request to stop. Failures are repeated with growing waits, as [`Patience`]
//! says; progress resets the count.

use std::io::Read;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use chrono::DateTime;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ureq::Agent;
use ureq::http::{HeaderMap, Response, StatusCode};

use super::{HubSettings, Patience, RemoteError};
use crate::VERSION;
use crate::base::int::{to_u64, with_unit};
use crate::base::secrets::without_secrets;
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of redirects that are followed.
const REDIRECTS: usize = 10;
/// Maximum bytes of a block of an answer.
const BLOCK_BYTES: usize = 1 << 17;
/// Number of blocks that may wait to be taken.
const BLOCKS_AHEAD: usize = 16;
/// Time between two checks for a request to stop while nothing arrives.
const TICK: Duration = Duration::from_millis(100);

/// Minimum length of a wait that is reported to the user.
const TOLD: Duration = Duration::from_secs(1);

/// Sends requests to the hub or a server, and to the hosts that it redirects to.
///
/// Redirects are followed here and not by the library, so that the token is sent only to the hub and the hub's own
/// headers are seen. Each request runs on its own thread, so that waiting for it can be interrupted.
pub(super) struct Http<'a> {
    /// The client, which keeps connections open.
    agent: Agent,
    /// The kind of server, for messages.
    server: Server,
    /// The hub's address and token, and the limits.
    settings: &'a HubSettings,
    /// Returns whether to give up.
    stop: &'a dyn Fn() -> bool,
}

/// The bytes of a file to request: from `from` up to `to`, exclusive, or to the end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ByteSpan {
    /// Offset of the first byte.
    pub(super) from: u64,
    /// Offset after the last byte; `None` for the end of the file.
    pub(super) to: Option<u64>,
}

impl ByteSpan {
    /// Value of the `Range` header; `None` for the whole file.
    fn header(self) -> Option<String> {
        match self {
            ByteSpan { from: 0, to: None } => None,
            ByteSpan { from, to: None } => Some(format!("bytes={from}-")),
            ByteSpan { from, to: Some(to) } => Some(format!("bytes={from}-{}", to.saturating_sub(1))),
        }
    }
}

/// The status and headers of an answer, before its body.
#[derive(Debug)]
pub(super) struct Head {
    /// The status of the last answer, after redirects.
    pub(super) status: StatusCode,
    /// The headers of the last answer.
    pub(super) headers: HeaderMap,
    /// The entity tag that the hub itself reports, whichever host sends the file.
    pub(super) etag: Option<String>,
}

/// An answer with a body that is arriving.
///
/// If it is dropped before the end, the request's thread ends at the next block that it tries to send.
///
/// **Memory:** at most [`BLOCKS_AHEAD`] blocks of [`BLOCK_BYTES`], 2 MiB in all, and those that the thread and the
/// caller hold.
pub(super) struct Answer<'a> {
    /// The part that has arrived already.
    pub(super) head: Head,
    /// The blocks that the request's thread sends.
    blocks: Receiver<Result<Vec<u8>, RequestError>>,
    /// Returns whether to give up.
    stop: &'a dyn Fn() -> bool,
    /// Limits how slowly the body may arrive.
    pace: Pace,
}

/// Measures the speed at which an answer arrives.
struct Pace {
    /// The speed is checked after this time of waiting.
    patience: Duration,
    /// Time spent waiting for blocks.
    waited: Duration,
    /// Bytes received so far.
    received: u64,
}

impl Pace {
    /// Fails if the server sends less than 1 byte per millisecond on average, since its answer might never end.
    /// Repeating the request would not help.
    ///
    /// # Errors
    /// The answer is too slow.
    fn check(&self) -> Result<(), RequestError> {
        if self.waited <= self.patience || u128::from(self.received) >= self.waited.as_millis() {
            return Ok(());
        }
        Err(RequestError::Refused {
            kind: ErrorKind::Network,
            problem: format!(
                "it has sent {} in {}",
                with_unit(self.received, "byte"),
                with_unit(self.waited.as_secs(), "second")
            ),
            help: "check the network, and whether a proxy answers instead of the server",
        })
    }
}

/// A client that keeps connections open between requests.
///
/// It neither follows redirects nor treats a status as an error. A connection that is silent for
/// [`Patience::silence`] fails.
pub(super) fn agent(patience: &Patience) -> Agent {
    let silence = Some(patience.silence);
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_connect(silence)
        .timeout_per_read(silence)
        .timeout_per_write(silence)
        .user_agent(format!("tokenmill/{VERSION}"));
    config.build().new_agent()
}

impl<'a> Http<'a> {
    /// `stop` returns whether to give up as soon as possible.
    pub(super) fn new(
        agent: Agent,
        server: Server,
        settings: &'a HubSettings,
        stop: &'a dyn Fn() -> bool,
    ) -> Http<'a> {
        Http { agent, server, settings, stop }
    }

    /// Sends a single request, without repetitions.
    ///
    /// Returns when the head has arrived, after redirects. A status other than success gives an error, except "range
    /// not satisfiable", which says that a file is empty or already complete.
    ///
    /// # Errors
    /// The server cannot be reached, does not answer in time, or refuses; or the caller is to stop.
    pub(super) fn get(&self, url: &str, span: ByteSpan) -> Result<Answer<'a>, RequestError> {
        check_token(self.settings.token.as_deref())?;
        let request = Request {
            agent: self.agent.clone(),
            server: self.server,
            hub: origin(&self.settings.endpoint).to_owned(),
            token: self.settings.token.clone(),
            url: url.to_owned(),
            span,
        };
        let (send_head, head) = bounded(1);
        let (send_block, blocks) = bounded(BLOCKS_AHEAD);
        thread::Builder::new()
            .spawn(move || request.run(&send_head, &send_block))
            .map_err(|cause| RequestError::passing(format!("no thread can be started: {cause}")))?;
        let head =
            receive(&head, self.stop)?.unwrap_or_else(|| Err(RequestError::passing("it does not answer")))?;
        let pace = Pace { patience: self.settings.patience.whole, waited: Duration::ZERO, received: 0 };
        Ok(Answer { head, blocks, stop: self.stop, pace })
    }

    /// Requests a complete body of at most `limit` bytes, repeating the request on failure, and returns it with its
    /// headers.
    ///
    /// For small answers: lists, descriptions and rank files. Each attempt starts from the beginning.
    ///
    /// # Errors
    /// Attempts are exhausted, the server refuses, the answer takes too long, or the caller is to stop.
    pub(super) fn whole(&self, what: &str, url: &str, limit: usize) -> Result<(HeaderMap, Vec<u8>)> {
        let mut tries = self.tries(what);
        loop {
            match self.whole_once(url, limit) {
                Ok(answer) => return Ok(answer),
                Err(trouble) => tries.failed(trouble)?,
            }
        }
    }

    /// The same with a single request.
    fn whole_once(&self, url: &str, limit: usize) -> Result<(HeaderMap, Vec<u8>), RequestError> {
        let mut answer = self.get(url, ByteSpan::default())?;
        let mut body = Vec::new();
        let started_at = Instant::now();
        while let Some(block) = answer.next()? {
            body.extend_from_slice(&block);
            if started_at.elapsed() > self.settings.patience.whole {
                return Err(RequestError::Refused {
                    kind: ErrorKind::Network,
                    problem: format!("its answer takes more than {} seconds", started_at.elapsed().as_secs()),
                    help: "check the network, then run the same command again",
                });
            }
            if body.len() > limit {
                return Err(RequestError::passing(format!("its answer has more than {limit} bytes")));
            }
        }
        Ok((answer.head.headers, body))
    }

    /// Counts failures of an operation that messages call `what`.
    pub(super) fn tries<'w>(&self, what: &'w str) -> Retries<'w>
    where
        'a: 'w,
    {
        Retries { settings: self.settings, stop: self.stop, what, failed: 0 }
    }
}

impl Answer<'_> {
    /// The next block of the body; `None` at its end.
    ///
    /// # Errors
    /// The connection fails or is too slow, or the caller is to stop.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, RequestError> {
        let started_at = Instant::now();
        let block = receive(&self.blocks, self.stop)?.transpose()?;
        self.pace.waited += started_at.elapsed();
        if let Some(block) = &block {
            self.pace.received += to_u64(block.len());
            self.pace.check()?;
        }
        Ok(block)
    }
}

/// Waits for a message or a request to stop; `None` if no further message can come.
fn receive<T>(from: &Receiver<T>, stop: &dyn Fn() -> bool) -> Result<Option<T>, RequestError> {
    loop {
        checkpoint(stop).map_err(RequestError::Final)?;
        match from.recv_timeout(TICK) {
            Ok(message) => return Ok(Some(message)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
    }
}

/// Fails if the operation is to stop.
///
/// # Errors
/// [`ErrorKind::Interrupted`].
fn checkpoint(stop: &dyn Fn() -> bool) -> Result<()> {
    if stop() { Err(Error::interrupted()) } else { Ok(()) }
}

/// A request, with everything that its thread needs.
///
/// It owns everything, because the thread may live longer than the call that started it.
struct Request {
    /// The client. Other requests use the same connections.
    agent: Agent,
    /// The kind of server, for messages.
    server: Server,
    /// The hub's origin, which alone gets the token.
    hub: String,
    /// The token, checked to be valid in a header.
    token: Option<String>,
    /// The address before redirects.
    url: String,
    /// The bytes to request, from every host that a redirect leads to.
    span: ByteSpan,
}

impl Request {
    /// Sends the answer's head and then its body to the waiting thread.
    fn run(&self, head: &Sender<Result<Head, RequestError>>, blocks: &Sender<Result<Vec<u8>, RequestError>>) {
        match self.follow() {
            Err(trouble) => drop(head.send(Err(trouble))),
            Ok((answered, response)) => {
                if head.send(Ok(answered)).is_ok() {
                    forward(response, blocks);
                }
            }
        }
    }

    /// Follows redirects until an answer has a body.
    ///
    /// Each redirect is a new request. The entity tag is taken from the first answer of the hub that has one, because
    /// the host of the content may send another.
    ///
    /// # Errors
    /// The server cannot be reached or refuses, or redirects too often.
    fn follow(&self) -> Result<(Head, Response<ureq::Body>), RequestError> {
        let mut url = self.url.clone();
        let mut etag = None;
        for _ in 0..=REDIRECTS {
            let at_hub = origin(&url) == self.hub;
            let mut request = self.agent.get(&url).header("Accept-Encoding", "identity");
            if let Some(token) = self.token.as_ref().filter(|_| at_hub) {
                request = request.header("Authorization", format!("Bearer {token}"));
            }
            if let Some(range) = self.span.header() {
                request = request.header("Range", range);
            }
            let response = request.call().map_err(connection_failure)?;
            let (status, headers) = (response.status(), response.headers());
            if at_hub {
                etag = etag.or_else(|| entity_tag(headers));
            }
            if status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE {
                return Ok((Head { status, headers: headers.clone(), etag }, response));
            }
            let location = header(headers, "location").filter(|_| status.is_redirection());
            url = match location {
                Some(location) => resolve_location(&url, location),
                None => return Err(refused(status, headers, self.server, at_hub)),
            };
        }
        Err(RequestError::passing(format!("it redirects more than {REDIRECTS} times")))
    }
}

/// Forwards a body block by block, until it ends or fails, or the receiver is gone.
///
/// The reader has no limit of its own: the receiver counts bytes. A failure is sent as the last message.
fn forward(response: Response<ureq::Body>, blocks: &Sender<Result<Vec<u8>, RequestError>>) {
    let mut reader = response.into_body().into_with_config().limit(u64::MAX).reader();
    loop {
        let mut block = vec![0; BLOCK_BYTES];
        let message = match reader.read(&mut block) {
            Ok(0) => return,
            Ok(read) => {
                block.truncate(read);
                Ok(block)
            }
            Err(cause) => Err(connection_failure(ureq::Error::from(cause))),
        };
        let last = message.is_err();
        if blocks.send(message).is_err() || last {
            return;
        }
    }
}

/// The first offset and the total size from `Content-Range: bytes FIRST-LAST/TOTAL`.
///
/// `None` if the header is missing or has another form, for example `*` as the total.
pub(super) fn first_and_total(headers: &HeaderMap) -> Option<(u64, u64)> {
    let (span, total) = header(headers, "content-range")?.strip_prefix("bytes ")?.split_once('/')?;
    Some((span.split('-').next()?.parse().ok()?, total.parse().ok()?))
}

/// Whether an answer shows that the file is empty, so that it has no ranges.
pub(super) fn is_empty(head: &Head) -> bool {
    match head.status {
        StatusCode::RANGE_NOT_SATISFIABLE => header(&head.headers, "content-range") == Some("bytes */0"),
        StatusCode::OK => header(&head.headers, "content-length") == Some("0"),
        _ => false,
    }
}

/// The value of a header.
///
/// `None` if it is missing or is not visible ASCII. Of several headers with that name, the first counts.
pub(super) fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// The entity tag without quotes and weakness prefix. For a large file, this is the tag of its content and not of the
/// pointer to it.
fn entity_tag(headers: &HeaderMap) -> Option<String> {
    let tag = header(headers, "x-linked-etag").or_else(|| header(headers, "etag"))?;
    Some(tag.trim_start_matches("W/").trim_matches('"').to_owned())
}

/// Counts successive failures of an operation, and decides whether to repeat it.
pub(super) struct Retries<'a> {
    /// The limits, and the callback for waits.
    settings: &'a HubSettings,
    /// Returns whether to give up, asked during waits.
    stop: &'a dyn Fn() -> bool,
    /// The name of the operation's object in messages.
    what: &'a str,
    /// Number of successive failures.
    failed: u32,
}

impl Retries<'_> {
    /// Returns whether an attempt has succeeded. If not, waits before the next one, or gives up with an error.
    /// `progressed` resets the count: failures with progress between them are not successive.
    ///
    /// # Errors
    /// Attempts are exhausted, repeating would not help, or the caller is to stop.
    pub(super) fn is_done(&mut self, progressed: bool, outcome: Result<(), RequestError>) -> Result<bool> {
        if progressed {
            self.failed = 0;
        }
        outcome.map_or_else(|trouble| self.failed(trouble).map(|()| false), |()| Ok(true))
    }

    /// Waits before the next attempt, or gives up with an error.
    ///
    /// # Errors
    /// Attempts are exhausted, repeating would not help, the wait is too long, or the caller is to stop.
    pub(super) fn failed(&mut self, trouble: RequestError) -> Result<()> {
        self.failed += 1;
        let (problem, asked) = match trouble {
            RequestError::Temporary { problem, wait } => (problem, wait),
            RequestError::Refused { kind, problem, help } => {
                return Err(cannot_fetch(kind, self.what, problem).with_help(help));
            }
            RequestError::Final(error) => return Err(error),
        };
        let HubSettings { patience, noted, .. } = self.settings;
        let doubled = patience.first_wait.saturating_mul(1 << (self.failed - 1).min(16));
        let own = doubled.min(patience.longest_wait);
        let wait = asked.map_or(own, |asked| asked.max(own));
        if self.failed >= patience.attempts || wait > patience.longest_wait {
            return Err(given_up(self.what, problem, asked));
        }
        if wait >= TOLD {
            let seconds = with_unit(wait.as_secs(), "second");
            let error = cannot_fetch(ErrorKind::Network, self.what, problem);
            noted(&format!("{error}; trying again in {seconds}"));
        }
        let until = Instant::now() + wait;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            checkpoint(self.stop)?;
            thread::sleep(left.min(TICK));
        }
        Ok(())
    }
}

/// The kind of server that a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    /// The hub, which describes errors in headers of its own.
    Hub,
    /// Any other server.
    Web,
}

/// The reason that a request has failed.
#[derive(Debug)]
pub(super) enum RequestError {
    /// The request may succeed later, after `wait` if the server has named a time.
    Temporary { problem: String, wait: Option<Duration> },
    /// The server refuses, and repeating the request would not help.
    Refused { kind: ErrorKind, problem: String, help: &'static str },
    /// An error on this side.
    Final(Error),
}

impl RequestError {
    /// A temporary failure for which the server has named no time.
    pub(super) fn passing(problem: impl Into<String>) -> RequestError {
        RequestError::Temporary { problem: problem.into(), wait: None }
    }
}

/// Fails if a token contains characters that a header cannot contain.
pub(super) fn check_token(token: Option<&str>) -> Result<(), RequestError> {
    let is_token = token.is_none_or(|token| token.bytes().all(|byte| byte.is_ascii_graphic()));
    is_token.then_some(()).ok_or_else(|| RequestError::Refused {
        kind: ErrorKind::Authorisation,
        problem: "the token has characters that are not valid in a token".to_owned(),
        help: "check HF_TOKEN, or the file in which the token is kept",
    })
}

/// Classifies an error of the HTTP library. Errors are temporary unless no answer could change them.
pub(super) fn connection_failure(cause: ureq::Error) -> RequestError {
    let message = without_secrets(&cause.to_string());
    match cause {
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => RequestError::Refused {
            kind: ErrorKind::Network,
            problem: format!("its address is wrong: {message}"),
            help: "check HF_ENDPOINT",
        },
        ureq::Error::Tls(_) | ureq::Error::Rustls(_) | ureq::Error::Pem(_) => RequestError::Refused {
            kind: ErrorKind::Network,
            problem: format!("the connection is not trusted: {message}"),
            help: "check HF_ENDPOINT, the clock, and any proxy",
        },
        _ => RequestError::passing(message),
    }
}

/// Classifies a status that is not a success. The hub gives details in `X-Error-Code`. If another host refuses, the
/// signature of its address may have expired, and the next attempt gets a new address.
///
/// If the server itself refuses, the status decides: 408, 425, 429 and 500 to 599 are temporary, and all others
/// final. `is_asked` is false for a host that the server has redirected to.
pub(super) fn refused(
    status: StatusCode,
    headers: &HeaderMap,
    server: Server,
    is_asked: bool,
) -> RequestError {
    let message = header(headers, "x-error-message").map(in_one_line).unwrap_or_default();
    let who = match (is_asked, server) {
        (true, Server::Hub) => "the hub",
        (true, Server::Web) => "the server",
        (false, _) => "the host of its files",
    };
    let problem = match message.as_str() {
        "" => format!("{who} answers {status}"),
        message => format!("{who} answers {status}: {message}"),
    };
    let passing = matches!(status.as_u16(), 408 | 425 | 429 | 500..=599);
    if passing || !is_asked {
        return RequestError::Temporary { problem, wait: requested_wait(status, headers) };
    }
    let code = header(headers, "x-error-code").unwrap_or_default();
    let (kind, help) = match (status.as_u16(), code) {
        (401 | 403, _) if server == Server::Web => (
            ErrorKind::Authorisation,
            "the server requires credentials: download the file yourself, and give its local path",
        ),
        _ if server == Server::Web => (ErrorKind::Failed, "check the address"),
        (403, _) | (_, "GatedRepo") => (
            ErrorKind::Authorisation,
            "accept the terms on the repository's page, and set HF_TOKEN to a token that may read it",
        ),
        (401, _) => (
            ErrorKind::Authorisation,
            "the repository is missing, or private: check its name, or set HF_TOKEN to a token that may read it",
        ),
        (_, "RepoNotFound") => (ErrorKind::Failed, "check the name of the repository"),
        (_, "RevisionNotFound") => (ErrorKind::Failed, "check the revision after the @"),
        (_, "EntryNotFound") => (ErrorKind::Failed, "check the path in the repository"),
        (404, _) => (ErrorKind::Failed, "check the name of the repository and the revision after the @"),
        _ => (ErrorKind::Network, "check HF_ENDPOINT, then run the same command again"),
    };
    RequestError::Refused { kind, problem, help }
}

/// The time that the server asks to wait: seconds or a date in `Retry-After`; or `t=` in `RateLimit` if the quota is
/// used up (`r=0`).
fn requested_wait(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let after = header(headers, "retry-after").map(str::trim);
    let seconds = after.and_then(|after| after.parse().ok()).map(Duration::from_secs);
    let date = || {
        let date = SystemTime::from(DateTime::parse_from_rfc2822(after?).ok()?);
        date.duration_since(SystemTime::now()).ok()
    };
    let limit = || {
        let limit = header(headers, "ratelimit").filter(|_| status == StatusCode::TOO_MANY_REQUESTS)?;
        let number = |name: &str| {
            limit.split([';', ',']).find_map(|part| part.trim().strip_prefix(name)?.parse::<u64>().ok())
        };
        number("t=").filter(|_| number("r=").is_none_or(|left| left == 0)).map(Duration::from_secs)
    };
    seconds.or_else(date).or_else(limit)
}

/// A server's message in one line of at most 200 characters, without secrets that it repeats.
fn in_one_line(message: &str) -> String {
    let line: String = message.chars().filter(|letter| !letter.is_control()).take(2_000).collect();
    without_secrets(&line).chars().take(200).collect()
}

/// The error that `what` cannot be fetched.
pub(super) fn cannot_fetch(kind: ErrorKind, what: &str, problem: String) -> Error {
    RemoteError::Refused { what: what.to_owned(), problem }.with(kind)
}

/// The error after the last attempt.
pub(super) fn given_up(what: &str, problem: String, asked: Option<Duration>) -> Error {
    let help = match asked {
        Some(wait) => {
            format!(
                "run the same command again in {} seconds; downloads continue where they stopped",
                wait.as_secs()
            )
        }
        None => "check the network, then run the same command again; downloads continue where they stopped"
            .to_owned(),
    };
    cannot_fetch(ErrorKind::Network, what, problem).with_help(help)
}

/// Scheme, host and port of an address. The hub's token is sent only to addresses with the hub's origin.
pub(super) fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url[host..].find(['/', '?', '#']).map_or(url.len(), |at| host + at);
    &url[..end]
}

/// Resolves the header `Location: to` of an answer from `base`.
pub(super) fn resolve_location(base: &str, to: &str) -> String {
    // `to` is absolute only if its scheme precedes any path or query, because a query may contain an address too.
    if to.find("://").is_some_and(|scheme| !to[..scheme].contains(['/', '?', '#'])) {
        return to.to_owned();
    }
    if to.starts_with("//") {
        let scheme = base.find("//").unwrap_or(0);
        return format!("{}{to}", &base[..scheme]);
    }
    if to.starts_with('/') {
        return format!("{}{to}", origin(base));
    }
    let path = base.split(['?', '#']).next().unwrap_or(base);
    if to.starts_with('?') {
        return format!("{path}{to}");
    }
    let folder = path.rfind('/').filter(|&at| at >= origin(base).len()).map_or(path.len(), |at| at);
    format!("{}/{to}", &path[..folder])
}

/// The characters that a segment of a URL's path must encode: all but the unreserved ones of RFC 3986.
const RESERVED_IN_SEGMENTS: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The characters that a URL's path must encode.
const RESERVED_IN_PATHS: AsciiSet = RESERVED_IN_SEGMENTS.remove(b'/');

/// Percent-encodes a text as a single segment of a URL's path.
pub(super) fn percent_encode_segment(text: &str) -> String {
    utf8_percent_encode(text, &RESERVED_IN_SEGMENTS).to_string()
}

/// Percent-encodes a path, except for its slashes.
pub(super) fn percent_encode_path(text: &str) -> String {
    utf8_percent_encode(text, &RESERVED_IN_PATHS).to_string()
}

/// Whether a list has another page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextPage {
    /// The list continues at this address.
    Next(String),
    /// The list is complete.
    Last,
    /// The headers cannot be read, so the list may be incomplete.
    Unreadable,
}

/// The next page from `Link: <address>; rel="next"`, among other links and in any of several headers.
pub(super) fn next_page(headers: &HeaderMap) -> NextPage {
    for header in headers.get_all("link") {
        let Ok(mut rest) = header.to_str() else { return NextPage::Unreadable };
        while !rest.trim_matches([' ', '\t', ',']).is_empty() {
            let Some((link, after)) = link(rest) else { return NextPage::Unreadable };
            if link.is_next() {
                return NextPage::Next(link.address.to_owned());
            }
            rest = after;
        }
    }
    NextPage::Last
}

/// One link of a header.
struct Link<'a> {
    /// The address, which may be relative.
    address: &'a str,
    /// The parameters `; name=value` or `; name="value"` that follow the address.
    parameters: Vec<(&'a str, &'a str)>,
}

impl Link<'_> {
    /// Whether the link leads to the next page.
    fn is_next(&self) -> bool {
        // If the relation is given repeatedly, the first one counts.
        let relation = self.parameters.iter().find(|(name, _)| name.eq_ignore_ascii_case("rel"));
        relation.is_some_and(|(_, kinds)| {
            kinds.split_ascii_whitespace().any(|kind| kind.eq_ignore_ascii_case("next"))
        })
    }
}

/// The first link of a header, and the text after it.
fn link(header: &str) -> Option<(Link<'_>, &str)> {
    let (address, mut rest) =
        header.trim_start_matches([' ', '\t', ',']).strip_prefix('<')?.split_once('>')?;
    let mut parameters = Vec::new();
    while let Some(parameter) = rest.trim_start().strip_prefix(';') {
        let end = parameter.find(['=', ';', ',']).unwrap_or(parameter.len());
        let name = parameter[..end].trim();
        rest = &parameter[end..];
        let Some(value) = rest.strip_prefix('=').map(str::trim_start) else { continue };
        let (value, after) = match value.strip_prefix('"') {
            // Relations contain no quotes, so escapes need not be handled.
            Some(quoted) => quoted.split_once('"')?,
            None => value.split_at(value.find([';', ',']).unwrap_or(value.len())),
        };
        parameters.push((name, value.trim()));
        rest = after;
    }
    let rest = rest.trim_start();
    (rest.is_empty() || rest.starts_with(',')).then_some((Link { address, parameters }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All headers that name a time to wait are understood.
    #[test]
    fn servers_say_in_several_ways_how_long_to_wait() {
        let wait = |status: u16, name: &'static str, value: &str| {
            let headers = HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())]);
            requested_wait(StatusCode::from_u16(status).unwrap(), &headers).map(|wait| wait.as_secs())
        };
        assert_eq!(wait(503, "retry-after", " 7 "), Some(7));
        assert_eq!(wait(503, "retry-after", "soon"), None);
        let date = DateTime::<chrono::Utc>::from(SystemTime::now() + Duration::from_secs(100));
        let date = date.format("%a, %d %b %Y %H:%M:%S GMT").to_string();
        assert!((95..=100).contains(&wait(503, "retry-after", &date).unwrap()));
        assert_eq!(wait(503, "retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"), None);
        for (status, limit, expected) in [
            (429, "\"api\";r=0;t=20", Some(20)),
            (429, "limit=500, t=20", Some(20)),
            (429, "\"api\";r=490;t=20", None),
            (500, "\"api\";r=0;t=20", None),
        ] {
            assert_eq!(wait(status, "ratelimit", limit), expected, "{status} {limit}");
        }
    }

    /// Absolute, scheme-relative and relative locations are resolved.
    #[test]
    fn locations_are_taken_from_where_they_stand() {
        let base = "https://hub.example:8080/a/b?c=/d";
        for (to, expected) in [
            ("https://other/x", "https://other/x"),
            ("//other/x", "https://other/x"),
            ("/x?y", "https://hub.example:8080/x?y"),
            ("x", "https://hub.example:8080/a/x"),
            ("?x", "https://hub.example:8080/a/b?x"),
            ("/x?from=https://other/y", "https://hub.example:8080/x?from=https://other/y"),
            ("x?from=https://other/y", "https://hub.example:8080/a/x?from=https://other/y"),
        ] {
            assert_eq!(resolve_location(base, to), expected);
        }
        assert_eq!(resolve_location("http://hub", "x"), "http://hub/x");
    }

    /// User names before the host are part of the origin, so that another host is never mistaken for the hub.
    #[test]
    fn an_origin_is_scheme_host_and_port() {
        for (url, expected) in [
            ("https://hub.example:8080/a", "https://hub.example:8080"),
            ("https://hub.example?a", "https://hub.example"),
            ("https://hub.example", "https://hub.example"),
            ("https://hub.example@evil/a", "https://hub.example@evil"),
        ] {
            assert_eq!(origin(url), expected);
        }
    }

    /// A segment's slashes are encoded; a path's are not.
    #[test]
    fn paths_are_encoded() {
        assert_eq!(percent_encode_segment("refs/convert/parquet"), "refs%2Fconvert%2Fparquet");
        assert_eq!(percent_encode_path("a b/ü#?.parquet"), "a%20b/%C3%BC%23%3F.parquet");
    }

    fn next(links: &[&'static str]) -> NextPage {
        let mut headers = HeaderMap::new();
        for link in links {
            headers.append("link", link.parse().expect("a header"));
        }
        next_page(&headers)
    }

    /// All notations that the standard allows.
    #[test]
    fn the_next_page_is_named_in_many_ways() {
        for links in [
            &["</p>; rel=\"next\""][..],
            &["</p>;rel=next"],
            &["</p> ; REL = \"Next\""],
            &["</p>; rel=\"next last\""],
            &["</p>; title=\"a, b; c\"; rel=next"],
            &["</first>; rel=first, </p>; rel=next"],
            &["</first>; rel=first", "</p>; rel=next"],
            &["</first>; crossorigin; rel=first,, </p>; rel=next"],
        ] {
            assert_eq!(next(links), NextPage::Next("/p".to_owned()), "{links:?}");
        }
        assert_eq!(next(&["</p?a=1,2;b>; rel=next"]), NextPage::Next("/p?a=1,2;b".to_owned()));
    }

    /// A list without a link to a next page is complete.
    #[test]
    fn a_listing_ends_where_no_link_leads_on() {
        for links in
            [&[][..], &[""], &["</p>; rel=prev"], &["</p>; rel=prev; rel=next"], &["</p>; title=\"next\""]]
        {
            assert_eq!(next(links), NextPage::Last, "{links:?}");
        }
    }

    /// Headers that cannot be parsed might have contained a link, so the list may be incomplete.
    #[test]
    fn what_is_no_link_may_have_been_one() {
        for links in ["next", "</p; rel=next", "</p>; rel=\"next", "</p> rel=next"] {
            assert_eq!(next(&[links]), NextPage::Unreadable, "{links}");
        }
    }
}
