//! HTTP requests to the hub and to web servers, with redirects, repetitions, and time limits.
//!
//! A request runs on its own thread and sends blocks of the answer through a bounded channel. The caller waits with a
//! short timeout, so that it notices a request to stop. Failures are repeated with growing waits, as [`Patience`]
//! says; progress resets the count.

use std::io::Read;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use ureq::Agent;
use ureq::http::{HeaderMap, Response, StatusCode};

use super::address::{join, origin};
use super::refusal::{self, Server, Trouble};
use super::{HubSettings, Patience};
use crate::VERSION;
use crate::base::int::{counted, to_u64};
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
pub(super) struct Span {
    /// Offset of the first byte.
    pub(super) from: u64,
    /// Offset after the last byte; `None` for the end of the file.
    pub(super) to: Option<u64>,
}

impl Span {
    /// Value of the `Range` header; `None` for the whole file.
    fn header(self) -> Option<String> {
        match self {
            Span { from: 0, to: None } => None,
            Span { from, to: None } => Some(format!("bytes={from}-")),
            Span { from, to: Some(to) } => Some(format!("bytes={from}-{}", to.saturating_sub(1))),
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
pub(super) struct Answer<'a> {
    pub(super) head: Head,
    /// The blocks that the request's thread sends.
    blocks: Receiver<Result<Vec<u8>, Trouble>>,
    stop: &'a dyn Fn() -> bool,
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
    fn check(&self) -> Result<(), Trouble> {
        if self.waited <= self.patience || u128::from(self.received) >= self.waited.as_millis() {
            return Ok(());
        }
        Err(Trouble::Refused {
            kind: ErrorKind::Network,
            problem: format!(
                "it has sent {} in {}",
                counted(self.received, "byte"),
                counted(self.waited.as_secs(), "second")
            ),
            help: "check the network, and whether a proxy answers instead of the server",
        })
    }
}

/// A client that keeps connections open between requests.
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
    /// # Errors
    /// The server cannot be reached, does not answer in time, or refuses; or the caller is to stop.
    pub(super) fn get(&self, url: &str, span: Span) -> Result<Answer<'a>, Trouble> {
        refusal::check_token(self.settings.token.as_deref())?;
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
            .map_err(|cause| Trouble::passing(format!("no thread can be started: {cause}")))?;
        let head =
            receive(&head, self.stop)?.unwrap_or_else(|| Err(Trouble::passing("it does not answer")))?;
        let pace = Pace { patience: self.settings.patience.whole, waited: Duration::ZERO, received: 0 };
        Ok(Answer { head, blocks, stop: self.stop, pace })
    }

    /// Requests a complete body of at most `limit` bytes, repeating the request on failure, and returns it with its
    /// headers.
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
    fn whole_once(&self, url: &str, limit: usize) -> Result<(HeaderMap, Vec<u8>), Trouble> {
        let mut answer = self.get(url, Span::default())?;
        let mut body = Vec::new();
        let begun = Instant::now();
        while let Some(block) = answer.next()? {
            body.extend_from_slice(&block);
            if begun.elapsed() > self.settings.patience.whole {
                return Err(Trouble::Refused {
                    kind: ErrorKind::Network,
                    problem: format!("its answer takes more than {} seconds", begun.elapsed().as_secs()),
                    help: "check the network, then run the same command again",
                });
            }
            if body.len() > limit {
                return Err(Trouble::passing(format!("its answer has more than {limit} bytes")));
            }
        }
        Ok((answer.head.headers, body))
    }

    /// Counts failures of an operation that messages call `what`.
    pub(super) fn tries<'w>(&self, what: &'w str) -> Tries<'w>
    where
        'a: 'w,
    {
        Tries { settings: self.settings, stop: self.stop, what, failed: 0 }
    }
}

impl Answer<'_> {
    /// The next block of the body; `None` at its end.
    ///
    /// # Errors
    /// The connection fails or is too slow, or the caller is to stop.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, Trouble> {
        let begun = Instant::now();
        let block = receive(&self.blocks, self.stop)?.transpose()?;
        self.pace.waited += begun.elapsed();
        if let Some(block) = &block {
            self.pace.received += to_u64(block.len());
            self.pace.check()?;
        }
        Ok(block)
    }
}

/// Waits for a message or a request to stop; `None` if no further message can come.
fn receive<T>(from: &Receiver<T>, stop: &dyn Fn() -> bool) -> Result<Option<T>, Trouble> {
    loop {
        checkpoint(stop).map_err(Trouble::Final)?;
        match from.recv_timeout(TICK) {
            Ok(message) => return Ok(Some(message)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
    }
}

/// Fails if the operation is to stop.
fn checkpoint(stop: &dyn Fn() -> bool) -> Result<()> {
    if stop() { Err(Error::interrupted()) } else { Ok(()) }
}

/// A request, with everything that its thread needs.
struct Request {
    agent: Agent,
    server: Server,
    /// The hub's origin, which alone gets the token.
    hub: String,
    token: Option<String>,
    url: String,
    span: Span,
}

impl Request {
    /// Sends the answer's head and then its body to the waiting thread.
    fn run(&self, head: &Sender<Result<Head, Trouble>>, blocks: &Sender<Result<Vec<u8>, Trouble>>) {
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
    /// # Errors
    /// The server cannot be reached or refuses, or redirects too often.
    fn follow(&self) -> Result<(Head, Response<ureq::Body>), Trouble> {
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
            let response = request.call().map_err(refusal::broken)?;
            let (status, headers) = (response.status(), response.headers());
            if at_hub {
                etag = etag.or_else(|| entity_tag(headers));
            }
            if status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE {
                return Ok((Head { status, headers: headers.clone(), etag }, response));
            }
            let location = text(headers, "location").filter(|_| status.is_redirection());
            url = match location {
                Some(location) => join(&url, location),
                None => return Err(refusal::of(status, headers, self.server, at_hub)),
            };
        }
        Err(Trouble::passing(format!("it redirects more than {REDIRECTS} times")))
    }
}

/// Forwards a body block by block, until it ends or fails, or the receiver is gone.
fn forward(response: Response<ureq::Body>, blocks: &Sender<Result<Vec<u8>, Trouble>>) {
    let mut reader = response.into_body().into_with_config().limit(u64::MAX).reader();
    loop {
        let mut block = vec![0; BLOCK_BYTES];
        let message = match reader.read(&mut block) {
            Ok(0) => return,
            Ok(read) => {
                block.truncate(read);
                Ok(block)
            }
            Err(cause) => Err(refusal::broken(ureq::Error::from(cause))),
        };
        let last = message.is_err();
        if blocks.send(message).is_err() || last {
            return;
        }
    }
}

/// The first offset and the total size from `Content-Range: bytes FIRST-LAST/TOTAL`.
pub(super) fn first_and_total(headers: &HeaderMap) -> Option<(u64, u64)> {
    let (span, total) = text(headers, "content-range")?.strip_prefix("bytes ")?.split_once('/')?;
    Some((span.split('-').next()?.parse().ok()?, total.parse().ok()?))
}

/// Whether an answer shows that the file is empty, so that it has no ranges.
pub(super) fn is_empty(head: &Head) -> bool {
    match head.status {
        StatusCode::RANGE_NOT_SATISFIABLE => text(&head.headers, "content-range") == Some("bytes */0"),
        StatusCode::OK => text(&head.headers, "content-length") == Some("0"),
        _ => false,
    }
}

/// The value of a header.
pub(super) fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// The entity tag without quotes and weakness prefix. For a large file, this is the tag of its content and not of the
/// pointer to it.
fn entity_tag(headers: &HeaderMap) -> Option<String> {
    let tag = text(headers, "x-linked-etag").or_else(|| text(headers, "etag"))?;
    Some(tag.trim_start_matches("W/").trim_matches('"').to_owned())
}

/// Counts successive failures of an operation, and decides whether to repeat it.
pub(super) struct Tries<'a> {
    settings: &'a HubSettings,
    stop: &'a dyn Fn() -> bool,
    what: &'a str,
    /// Number of successive failures.
    failed: u32,
}

impl Tries<'_> {
    /// Returns whether an attempt has succeeded. If not, waits before the next one, or gives up with an error.
    /// `progressed` resets the count: failures with progress between them are not successive.
    ///
    /// # Errors
    /// Attempts are exhausted, repeating would not help, or the caller is to stop.
    pub(super) fn is_done(&mut self, progressed: bool, outcome: Result<(), Trouble>) -> Result<bool> {
        if progressed {
            self.failed = 0;
        }
        outcome.map_or_else(|trouble| self.failed(trouble).map(|()| false), |()| Ok(true))
    }

    /// Waits before the next attempt, or gives up with an error.
    ///
    /// # Errors
    /// Attempts are exhausted, repeating would not help, the wait is too long, or the caller is to stop.
    pub(super) fn failed(&mut self, trouble: Trouble) -> Result<()> {
        self.failed += 1;
        let (problem, asked) = match trouble {
            Trouble::Passing { problem, wait } => (problem, wait),
            Trouble::Refused { kind, problem, help } => {
                return Err(refusal::error(kind, self.what, problem).with_help(help));
            }
            Trouble::Final(error) => return Err(error),
        };
        let HubSettings { patience, noted, .. } = self.settings;
        let doubled = patience.first_wait.saturating_mul(1 << (self.failed - 1).min(16));
        let own = doubled.min(patience.longest_wait);
        let wait = asked.map_or(own, |asked| asked.max(own));
        if self.failed >= patience.attempts || wait > patience.longest_wait {
            return Err(refusal::given_up(self.what, problem, asked));
        }
        if wait >= TOLD {
            let seconds = counted(wait.as_secs(), "second");
            let error = refusal::error(ErrorKind::Network, self.what, problem);
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
