use std::io::Read;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use ureq::Agent;
use ureq::http::{HeaderMap, Response, StatusCode};

use super::address::{join, origin};
use super::refusal::{self, Trouble};
use super::{HubSettings, Patience};
use crate::error::Result;
use crate::observer::Observer;

/// Answers lead on to other addresses at most this often.
const REDIRECTS: usize = 10;
const BLOCK_BYTES: usize = 1 << 17;
const BLOCKS_AHEAD: usize = 16;
/// How soon a request to stop is heard while nothing arrives.
const TICK: Duration = Duration::from_millis(100);

/// Asks the hub, and the hosts that it points to.
///
/// Redirects are followed here and not by the library, so that the token goes to the hub alone and the
/// hub's own headers are seen. Each request runs on a thread of its own: whoever waits for it can stop.
pub(super) struct Http<'a> {
    agent: Agent,
    settings: &'a HubSettings,
    observer: &'a dyn Observer,
}

/// The head of an answer whose body is still to come.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// The entity tag that the hub itself gives the file, wherever its bytes lie.
    pub(super) etag: Option<String>,
}

/// An answer as it arrives.
pub(super) struct Answer<'a> {
    pub(super) head: Head,
    blocks: Receiver<Result<Vec<u8>, Trouble>>,
    observer: &'a dyn Observer,
}

impl<'a> Http<'a> {
    pub(super) fn new(settings: &'a HubSettings, observer: &'a dyn Observer) -> Http<'a> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(settings.patience.silence))
            .timeout_per_read(Some(settings.patience.silence))
            .timeout_per_write(Some(settings.patience.silence))
            .user_agent(concat!("tokenmill/", env!("CARGO_PKG_VERSION")));
        Http { agent: config.build().new_agent(), settings, observer }
    }

    /// Asks once for what is at an address, from a byte on.
    pub(super) fn get(&self, url: &str, from: u64) -> Result<Answer<'a>, Trouble> {
        let request = Request {
            agent: self.agent.clone(),
            hub: origin(&self.settings.endpoint).to_owned(),
            token: self.settings.token.clone(),
            url: url.to_owned(),
            from,
        };
        let (send_head, head) = bounded(1);
        let (send_block, blocks) = bounded(BLOCKS_AHEAD);
        thread::spawn(move || request.run(&send_head, &send_block));
        let head =
            receive(&head, self.observer)?.unwrap_or_else(|| Err(Trouble::passing("it does not answer")))?;
        Ok(Answer { head, blocks, observer: self.observer })
    }

    /// A whole body of at most `limit` bytes, asked for until it comes, with the headers before it.
    pub(super) fn whole(&self, what: &str, url: &str, limit: usize) -> Result<(HeaderMap, Vec<u8>)> {
        let mut tries = Tries::new(&self.settings.patience, self.observer, what);
        loop {
            match self.whole_once(url, limit) {
                Ok(answer) => return Ok(answer),
                Err(trouble) => tries.failed(trouble)?,
            }
        }
    }

    fn whole_once(&self, url: &str, limit: usize) -> Result<(HeaderMap, Vec<u8>), Trouble> {
        let mut answer = self.get(url, 0)?;
        let mut body = Vec::new();
        while let Some(block) = answer.next()? {
            body.extend_from_slice(&block);
            if body.len() > limit {
                return Err(Trouble::passing(format!("its answer has more than {limit} bytes")));
            }
        }
        Ok((answer.head.headers, body))
    }

    pub(super) fn tries(&self, what: &'a str) -> Tries<'a> {
        Tries::new(&self.settings.patience, self.observer, what)
    }
}

impl Answer<'_> {
    /// The next bytes of the body; `None` at its end.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, Trouble> {
        receive(&self.blocks, self.observer)?.transpose()
    }
}

/// Waits for a message, or for a request to stop. `None` if there will be no further one.
fn receive<T>(from: &Receiver<T>, observer: &dyn Observer) -> Result<Option<T>, Trouble> {
    loop {
        observer.checkpoint().map_err(Trouble::Final)?;
        match from.recv_timeout(TICK) {
            Ok(message) => return Ok(Some(message)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
    }
}

/// A request with all that its thread needs.
struct Request {
    agent: Agent,
    hub: String,
    token: Option<String>,
    url: String,
    from: u64,
}

impl Request {
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

    /// Goes where the answers point until one has a body to give.
    fn follow(&self) -> Result<(Head, Response<ureq::Body>), Trouble> {
        let mut url = self.url.clone();
        let mut etag = None;
        for _ in 0..=REDIRECTS {
            let at_hub = origin(&url) == self.hub;
            let mut request = self.agent.get(&url).header("Accept-Encoding", "identity");
            if let Some(token) = self.token.as_ref().filter(|_| at_hub) {
                request = request.header("Authorization", format!("Bearer {token}"));
            }
            if self.from > 0 {
                request = request.header("Range", format!("bytes={}-", self.from));
            }
            let response = request.call().map_err(refusal::broken)?;
            let (status, headers) = (response.status(), response.headers());
            if at_hub {
                etag = entity_tag(headers).or(etag);
            }
            if status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE {
                return Ok((Head { status, headers: headers.clone(), etag }, response));
            }
            let location = text(headers, "location").filter(|_| status.is_redirection());
            url = match location {
                Some(location) => join(&url, location),
                None => return Err(refusal::of(status, headers, at_hub)),
            };
        }
        Err(Trouble::passing(format!("it leads on to another address more than {REDIRECTS} times")))
    }
}

/// Hands a body on, block by block, until it ends, breaks, or nobody wants it any more.
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

/// A header's text.
pub(super) fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// The entity tag without quotes and weakness; of a large file the one of its content, not of the pointer.
fn entity_tag(headers: &HeaderMap) -> Option<String> {
    let tag = text(headers, "x-linked-etag").or_else(|| text(headers, "etag"))?;
    Some(tag.trim_start_matches("W/").trim_matches('"').to_owned())
}

/// How often something has failed in a row, and whether to try again.
pub(super) struct Tries<'a> {
    patience: &'a Patience,
    observer: &'a dyn Observer,
    what: &'a str,
    failed: u32,
}

impl<'a> Tries<'a> {
    fn new(patience: &'a Patience, observer: &'a dyn Observer, what: &'a str) -> Tries<'a> {
        Tries { patience, observer, what, failed: 0 }
    }

    /// There was progress: a later failure is the first again.
    pub(super) fn progressed(&mut self) {
        self.failed = 0;
    }

    /// Waits before the next try, or gives up.
    pub(super) fn failed(&mut self, trouble: Trouble) -> Result<()> {
        self.failed += 1;
        let (problem, asked) = match trouble {
            Trouble::Passing { problem, wait } => (problem, wait),
            Trouble::Refused { kind, problem, help } => {
                return Err(refusal::error(kind, self.what, problem).with_help(help));
            }
            Trouble::Final(error) => return Err(error),
        };
        let doubled = self.patience.first_wait.saturating_mul(1 << (self.failed - 1).min(16));
        let wait = asked.unwrap_or(doubled.min(self.patience.longest_wait));
        if self.failed >= self.patience.attempts || wait > self.patience.longest_wait {
            return Err(refusal::given_up(self.what, problem, asked));
        }
        let until = Instant::now() + wait;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            self.observer.checkpoint()?;
            thread::sleep(left.min(TICK));
        }
        Ok(())
    }
}
