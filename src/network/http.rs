//! Requests to the hub, to web servers and to object stores, with redirects, repetitions, and limits of time and size.
//!
//! [`Http`] sends requests to one server. It is also the client of the library for object stores. Futures run on the
//! thread that waits for them in [`wait_for`], which notices when the caller is to stop. Two threads of the program serve
//! all connections. Failed requests are repeated after growing waits, as [`Patience`] says; progress resets the count.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use std::{fmt, io};

use async_trait::async_trait;
use bytes::Bytes;
use hf_hub::HFClient;
use hyper_util::client::proxy::matcher::Matcher;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpService,
};
use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderValue, RANGE};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, ClientBuilder, Method, Proxy, Response, StatusCode, Url};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};
use url::Origin;

use super::failure::{
    RequestError, Retries, Server, WRONG_ADDRESS, cannot_fetch, connection_failure, header, is_temporary,
    refused, requested_wait, too_slow,
};
use super::{HubSettings, Note, Patience};
use crate::VERSION;
use crate::base::int::{to_u64, with_unit};
use crate::base::pools::lock;
use crate::base::secrets::shown_uri;
use crate::error::{Error, ErrorKind, Result, catch_panic};

/// Maximum number of redirects that are followed.
pub(crate) const REDIRECTS: usize = 10;
/// Maximum bytes of an answer to a request without a range: a list of objects, a rank file or an error.
pub(crate) const MAX_ANSWER_BYTES: u64 = 64 << 20;
/// Maximum bytes of an error message, which may answer a request for a shorter range.
const MAX_MESSAGE_BYTES: u64 = 1 << 20;
/// An address at which nothing listens.
const NOWHERE: &str = "http://127.0.0.1:0";
/// A token that `hf-hub` does not send, since a header cannot contain it. Without any token, it would look for one in
/// the environment.
const NO_TOKEN: &str = "\n";
/// Time between two checks for a request to stop while nothing arrives.
const TICK: Duration = Duration::from_millis(100);

/// Time between two beats of the network's threads, which show that they still serve connections and timers.
const BEAT: Duration = Duration::from_millis(500);
/// Time without a beat after which the threads count as ended. They end if the system fails to tell them of events.
const NO_BEAT: Duration = Duration::from_secs(10);
/// Number of beats in this process.
static BEATS: AtomicU64 = AtomicU64::new(0);

/// The runtime that serves the connections and timers of all requests. It is started once in each process: a forked
/// process has the memory of its parent's runtime, but none of its threads, and would wait for them for ever.
///
/// # Errors
/// The system starts no threads.
fn runtime() -> io::Result<&'static Runtime> {
    /// The runtime, and the process that started it.
    static STARTED: Mutex<Option<(u32, &'static Runtime)>> = Mutex::new(None);
    let process = std::process::id();
    let mut started = lock(&STARTED);
    if let Some((_, runtime)) = started.filter(|(starter, _)| *starter == process) {
        return Ok(runtime);
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("tokenmill-network")
        .enable_all()
        .build()?;
    let runtime: &'static Runtime = Box::leak(Box::new(runtime));
    runtime.spawn(async {
        loop {
            BEATS.fetch_add(1, Ordering::Relaxed);
            sleep(BEAT).await;
        }
    });
    *started = Some((process, runtime));
    Ok(runtime)
}

/// Wakes a thread that waits in [`wait_for`].
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on the calling thread until it is ready, or until the caller is to stop.
///
/// `stop` is called every [`TICK`]. This function may be called inside other runtimes too. `what` names the file or
/// place in messages.
///
/// # Errors
/// Those of the future; or the caller is to stop, the future panics, or the threads for the network have ended.
pub(crate) fn wait_for<T>(
    stop: &dyn Fn() -> bool,
    what: &str,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let system = |cause: io::Error| cannot_fetch(ErrorKind::System, what, cause.to_string());
    let _entered = runtime().map_err(system)?.enter();
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut work = pin!(work);
    let (mut beats, mut since_beat) = (BEATS.load(Ordering::Relaxed), Duration::ZERO);
    loop {
        if stop() {
            return Err(Error::interrupted());
        }
        let started_at = Instant::now();
        // The library for object stores panics if a tag that a store sent cannot be sent back in a condition.
        let polled = catch_panic(|| work.as_mut().poll(&mut context));
        match polled.map_err(|problem| cannot_fetch(ErrorKind::Network, what, problem))? {
            Poll::Ready(outcome) => return outcome,
            Poll::Pending => thread::park_timeout(TICK),
        }
        // A process that is stopped for a while has no beats either, so a round counts for no more than its wait.
        since_beat += started_at.elapsed().min(TICK);
        let now = BEATS.load(Ordering::Relaxed);
        if now != beats {
            (beats, since_beat) = (now, Duration::ZERO);
        } else if since_beat > NO_BEAT {
            let problem = "the threads for the network have ended".to_owned();
            return Err(
                cannot_fetch(ErrorKind::System, what, problem).with_help("run the same command again")
            );
        }
    }
}

/// A client of one server. Clones share their connections.
#[derive(Clone)]
pub(crate) struct Http {
    /// Sends single requests.
    client: Client,
    /// The kind of the server, for messages.
    server: Server,
    /// The origin of the server. No other host gets the token. `None` for an object store: it has no token, since the
    /// library signs its requests.
    origin: Option<Origin>,
    /// The value of the header `Authorization`.
    token: Option<HeaderValue>,
    /// When to repeat requests and when to give up.
    patience: Patience,
    /// Receives messages about waits.
    noted: Note,
}

impl fmt::Debug for Http {
    /// Leaves out the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("server", &self.server)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

/// A request that can be sent repeatedly.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The method.
    pub(crate) method: Method,
    /// The address before redirects.
    pub(crate) url: Url,
    /// The headers. Every host that a redirect leads to receives them.
    pub(crate) headers: HeaderMap,
    /// The body. An empty one is not sent.
    pub(crate) body: HttpRequestBody,
}

impl Request {
    /// A request for a whole file or list, or with another method for its headers.
    pub(crate) fn new(method: Method, url: Url) -> Request {
        let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("identity"))]);
        Request { method, url, headers, body: Bytes::new().into() }
    }

    /// A request for the bytes of a file from `from` up to `to`, exclusive, or to the end.
    pub(crate) fn range(url: &Url, from: u64, to: Option<u64>) -> Request {
        let mut request = Request::new(Method::GET, url.clone());
        let last = to.map_or_else(String::new, |to| to.saturating_sub(1).to_string());
        if (from, to) != (0, None) {
            let range = HeaderValue::try_from(format!("bytes={from}-{last}"));
            request.headers.extend(range.ok().map(|range| (RANGE, range)));
        }
        request
    }

    /// Maximum bytes of the answer: those of a range with an end, or [`MAX_ANSWER_BYTES`].
    fn max_bytes(&self) -> u64 {
        let range = header(&self.headers, "range").and_then(|range| range.strip_prefix("bytes="));
        let length = range.and_then(|range| range.split_once('-')).and_then(|(first, last)| {
            let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
            Some(last.checked_sub(first)?.saturating_add(1).max(MAX_MESSAGE_BYTES))
        });
        length.unwrap_or(MAX_ANSWER_BYTES)
    }
}

/// The status and headers of an answer, before its body.
#[derive(Debug)]
pub(crate) struct Head {
    /// The status of the last answer, after redirects.
    pub(crate) status: StatusCode,
    /// The headers of the last answer.
    pub(crate) headers: HeaderMap,
    /// The entity tag that the server itself reports, whichever host sends the file.
    pub(crate) etag: Option<String>,
}

impl Head {
    /// The first offset and the total size from `Content-Range: bytes FIRST-LAST/TOTAL`.
    ///
    /// `None` if the header is missing or has another form, for example `*` as the total.
    pub(crate) fn first_and_total(&self) -> Option<(u64, u64)> {
        let (span, total) =
            header(&self.headers, "content-range")?.strip_prefix("bytes ")?.split_once('/')?;
        Some((span.split('-').next()?.parse().ok()?, total.parse().ok()?))
    }

    /// Whether the answer shows that the file is empty, so that it has no ranges.
    pub(crate) fn is_empty(&self) -> bool {
        match self.status {
            StatusCode::RANGE_NOT_SATISFIABLE => header(&self.headers, "content-range") == Some("bytes */0"),
            StatusCode::OK => header(&self.headers, "content-length") == Some("0"),
            _ => false,
        }
    }
}

/// An answer with a body that is arriving.
struct Answer {
    /// The status and headers, which have arrived.
    head: Head,
    /// Gives the body.
    response: Response,
    /// How long a block may take; and the time of waiting after which the body must have a certain speed.
    patience: Patience,
    /// Time spent waiting for blocks.
    waited: Duration,
    /// Bytes received so far.
    received: u64,
}

impl Answer {
    /// The next block of the body; `None` at its end.
    ///
    /// # Errors
    /// The connection fails; or the server sends less than 1 byte per millisecond on average, since its answer might
    /// never end. Repeating the request would not help then.
    async fn next(&mut self) -> Result<Option<Bytes>, RequestError> {
        let started_at = Instant::now();
        let block = within(self.patience.silence, self.response.chunk()).await?;
        self.waited += started_at.elapsed();
        self.received += block.as_ref().map_or(0, |block| to_u64(block.len()));
        if block.is_none()
            || self.waited <= self.patience.whole
            || u128::from(self.received) >= self.waited.as_millis()
        {
            return Ok(block);
        }
        let (received, waited) =
            (with_unit(self.received, "byte"), with_unit(self.waited.as_secs(), "second"));
        Err(RequestError::refused(
            ErrorKind::Network,
            format!("it has sent {received} in {waited}"),
            "check the network, and whether a proxy answers instead of the server",
        ))
    }
}

/// Waits for a part of an answer.
///
/// # Errors
/// The connection fails, or nothing arrives within the limit.
async fn within<T>(
    limit: Duration,
    part: impl Future<Output = Result<T, reqwest::Error>>,
) -> Result<T, RequestError> {
    match timeout(limit, part).await {
        Ok(part) => part.map_err(|cause| connection_failure(&cause)),
        Err(_) => {
            let limit = with_unit(limit.as_secs(), "second");
            Err(RequestError::passing(format!("nothing has arrived for {limit}")))
        }
    }
}

/// Receives the bytes of a file, over any number of requests.
pub(crate) trait Sink {
    /// The bytes that are still missing: from the first up to the second, exclusive, or to the end. `None` if the file
    /// is complete.
    ///
    /// # Errors
    /// The place where the bytes are kept cannot be read.
    fn missing(&mut self) -> Result<Option<(u64, Option<u64>)>>;

    /// Checks an answer before its body. `from` is the first byte that was requested.
    ///
    /// # Errors
    /// The answer is of another file or has other bytes.
    fn begin(&mut self, head: &Head, from: u64) -> Result<(), RequestError>;

    /// Keeps a block that follows those before.
    ///
    /// # Errors
    /// The block is not part of the file, or cannot be kept.
    fn append(&mut self, block: &[u8]) -> Result<()>;
}

/// A client that keeps connections open between requests, and does not follow redirects.
///
/// A connection that cannot be made within [`Patience::silence`] fails. Only HTTP/1 is spoken, so requests at the same
/// time have connections of their own: the streams of one HTTP/2 connection would share its speed.
pub(crate) fn client_builder(patience: &Patience) -> ClientBuilder {
    Client::builder()
        .http1_only()
        .redirect(Policy::none())
        .connect_timeout(patience.silence)
        .user_agent(format!("tokenmill/{VERSION}"))
}

/// Builds a client.
///
/// # Errors
/// The system's certificates or its random numbers are not usable.
pub(crate) fn build(builder: ClientBuilder) -> Result<Client> {
    let problem = "the network cannot be used: its client does not start";
    builder.build().map_err(|cause| Error::caused(ErrorKind::System, problem, cause))
}

impl Http {
    /// A client of the hub. Only the hub gets the token.
    ///
    /// # Errors
    /// The address of the hub or the token is invalid.
    pub(crate) fn hub(settings: &HubSettings) -> Result<Http> {
        let origin = address(&settings.endpoint)?.origin();
        let token = check_token(settings)?.map(|token| HeaderValue::try_from(format!("Bearer {token}")));
        let token = token.transpose().map_err(|cause| Error::new(ErrorKind::Authorisation, cause))?;
        let http = Http::new(Server::Hub, Some(origin), &settings.patience, &settings.noted)?;
        Ok(Http { token, ..http })
    }

    /// A client without a token.
    ///
    /// # Errors
    /// Those of [`build`].
    pub(crate) fn new(
        server: Server,
        origin: Option<Origin>,
        patience: &Patience,
        noted: &Note,
    ) -> Result<Http> {
        let client = build(client_builder(patience))?;
        Ok(Http { client, server, origin, token: None, patience: patience.clone(), noted: Arc::clone(noted) })
    }

    /// Requests a complete body of at most [`MAX_ANSWER_BYTES`], or of the length of the requested range, and returns
    /// it with its head. The request is repeated on failure, each time from the beginning.
    ///
    /// # Errors
    /// Attempts are exhausted, the server refuses, or the answer takes too long or is too large.
    pub(crate) async fn whole(&self, what: &str, request: &Request) -> Result<(Head, Bytes)> {
        self.repeat(what, || self.whole_once(request)).await
    }

    /// The same with a single request.
    async fn whole_once(&self, request: &Request) -> Result<(Head, Bytes), RequestError> {
        let (limit, has_range) = (request.max_bytes(), request.headers.contains_key(RANGE));
        let started_at = Instant::now();
        let mut answer = self.send(request).await?;
        let mut body = Vec::new();
        while let Some(block) = answer.next().await? {
            body.extend_from_slice(&block);
            if to_u64(body.len()) > limit {
                return Err(RequestError::passing(format!("its answer has more than {limit} bytes")));
            }
            if !has_range && started_at.elapsed() > self.patience.whole {
                return Err(too_slow(started_at.elapsed()));
            }
        }
        Ok((answer.head, body.into()))
    }

    /// The head of an answer.
    ///
    /// # Errors
    /// Those of [`whole`](Http::whole), except for its limits.
    pub(crate) async fn head(&self, what: &str, request: &Request) -> Result<Head> {
        self.repeat(what, || async { Ok(self.send(request).await?.head) }).await
    }

    /// Requests the bytes that a sink misses until all have arrived, each time only those that are missing.
    ///
    /// # Errors
    /// Attempts without progress are exhausted, the server refuses, or the sink fails.
    pub(crate) async fn fetch(&self, what: &str, url: &Url, sink: &mut dyn Sink) -> Result<()> {
        let mut retries = self.retries(what);
        let mut reached = 0;
        while let Some((from, to)) = sink.missing()? {
            let outcome = self.fetch_once(&Request::range(url, from, to), from, sink).await;
            let Err(trouble) = outcome else { continue };
            // A file that restarts from the beginning each time makes no progress.
            if let Some((now, _)) = sink.missing()?.filter(|(now, _)| *now > reached) {
                (reached, retries.failed) = (now, 0);
            }
            retries.failed(trouble).await?;
        }
        Ok(())
    }

    /// Requests bytes once, and gives those that arrive to the sink.
    async fn fetch_once(
        &self,
        request: &Request,
        from: u64,
        sink: &mut dyn Sink,
    ) -> Result<(), RequestError> {
        let mut answer = self.send(request).await?;
        sink.begin(&answer.head, from)?;
        while let Some(block) = answer.next().await? {
            sink.append(&block)?;
        }
        match sink.missing()? {
            None => Ok(()),
            Some((have, _)) => Err(RequestError::passing(format!("the connection ended after {have} bytes"))),
        }
    }

    /// Repeats an attempt until it succeeds or fails for good.
    ///
    /// # Errors
    /// Attempts are exhausted, or repeating would not help.
    pub(crate) async fn repeat<T, F>(&self, what: &str, mut attempt: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T, RequestError>>,
    {
        let mut retries = self.retries(what);
        loop {
            match attempt().await {
                Ok(done) => return Ok(done),
                Err(trouble) => retries.failed(trouble).await?,
            }
        }
    }

    /// Counts the failures to fetch `what`.
    fn retries(&self, what: &str) -> Retries<'_> {
        let what = format!("{what} cannot be fetched");
        Retries::new(&self.patience, &self.noted, what, "downloads continue where they stopped")
    }

    /// Sends a request, and follows redirects until an answer has a body. Each redirect is a new request.
    ///
    /// A status other than success gives an error, except "range not satisfiable", which says that a file is empty or
    /// already complete. The entity tag is that of the first answer of the server that has one, because the host of
    /// the content may send another. A redirect of the hub that has it answers a request for headers.
    ///
    /// # Errors
    /// The server cannot be reached or refuses, or redirects too often.
    async fn send(&self, request: &Request) -> Result<Answer, RequestError> {
        let (mut url, mut etag) = (request.url.clone(), None);
        for _ in 0..=REDIRECTS {
            let is_asked = self.origin.as_ref().is_none_or(|origin| *origin == url.origin());
            let response = self.send_once(request, &url, is_asked).await?;
            let (status, headers) = (response.status(), response.headers());
            if is_asked {
                etag = etag.or_else(|| entity_tag(headers));
            }
            let is_known =
                request.method == Method::HEAD && is_asked && headers.contains_key("x-linked-etag");
            let is_for_store = self.server == Server::Store && !is_temporary(status);
            if status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE || is_known || is_for_store
            {
                let head = Head { status, headers: headers.clone(), etag };
                let (patience, waited, received) = (self.patience.clone(), Duration::ZERO, 0);
                return Ok(Answer { head, response, patience, waited, received });
            }
            let Some(to) = header(headers, "location").filter(|_| status.is_redirection()) else {
                let [code, message] =
                    ["x-error-code", "x-error-message"].map(|name| header(headers, name).unwrap_or_default());
                let wait = requested_wait(status, headers);
                return Err(refused(status, code, message, wait, self.server, is_asked));
            };
            url = url.join(to).map_err(|_| {
                let problem = "it redirects to no address".to_owned();
                RequestError::refused(ErrorKind::Network, problem, WRONG_ADDRESS)
            })?;
        }
        Err(RequestError::passing(format!("it redirects more than {REDIRECTS} times")))
    }

    /// Sends a request to one address, with the token if the server itself is asked.
    async fn send_once(
        &self,
        request: &Request,
        url: &Url,
        is_asked: bool,
    ) -> Result<Response, RequestError> {
        let mut sent = self.client.request(request.method.clone(), url.clone());
        sent = sent.headers(request.headers.clone());
        if let Some(token) = self.token.as_ref().filter(|_| is_asked) {
            sent = sent.header(AUTHORIZATION, token);
        }
        let Patience { silence, whole, .. } = self.patience;
        if request.body.content_length() == 0 {
            return within(silence, sent.send()).await;
        }
        // The answer begins only when the body has been sent, which may take long over a slow connection.
        within(silence.max(whole), sent.body(reqwest::Body::wrap(request.body.clone())).send()).await
    }
}

impl HttpConnector for Http {
    /// All connections use this client, so the library's own options have no effect.
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Http {
    /// Sends a request of the library for object stores until its whole answer is here.
    ///
    /// **Memory:** the answer. It is limited by the requested range, since a server could otherwise send without end.
    ///
    /// # Errors
    /// Those of [`whole`](Http::whole). The library wraps them in its own error, in which `refused_by_store` finds them.
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let failed = |error: Error| HttpError::new(HttpErrorKind::Unknown, error);
        let (parts, body) = request.into_parts();
        let url = address(&parts.uri.to_string()).map_err(failed)?;
        let what = shown_uri(url.as_str());
        let request = Request { method: parts.method, url, headers: parts.headers, body };
        let (head, body) = self.whole(&what, &request).await.map_err(failed)?;
        let mut response = HttpResponse::new(body.into());
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers;
        Ok(response)
    }
}

/// Parses an address.
///
/// # Errors
/// The text is not the address of a server.
pub(crate) fn address(text: &str) -> Result<Url> {
    Url::parse(text).ok().filter(Url::has_host).ok_or_else(|| {
        let problem = "its address is wrong".to_owned();
        cannot_fetch(ErrorKind::Network, &shown_uri(text), problem).with_help(WRONG_ADDRESS)
    })
}

/// The token, if there is one.
///
/// # Errors
/// The token contains characters that a header cannot contain.
pub(crate) fn check_token(settings: &HubSettings) -> Result<Option<&str>> {
    let token = settings.token.as_deref();
    if token.is_none_or(|token| token.bytes().all(|byte| byte.is_ascii_graphic())) {
        return Ok(token);
    }
    let problem = "the token has characters that are not valid in a token".to_owned();
    let error = cannot_fetch(ErrorKind::Authorisation, &shown_uri(&settings.endpoint), problem);
    Err(error.with_help("check HF_TOKEN, or the file in which the token is kept"))
}

/// The entity tag without quotes and weakness prefix. For a large file, this is the tag of its content and not of the
/// pointer to it.
fn entity_tag(headers: &HeaderMap) -> Option<String> {
    let tag = header(headers, "x-linked-etag").or_else(|| header(headers, "etag"))?;
    Some(tag.trim_start_matches("W/").trim_matches('"').to_owned())
}

/// The library's client of the hub. It sends the token only to the hub, and does not repeat requests.
///
/// Its lists lead to whatever host a page names as the next, so all requests to other hosts are sent to an address at
/// which nothing listens. Redirects are followed within the hub.
///
/// # Errors
/// The address of the hub or the token is invalid.
pub(crate) fn hub_client(settings: &HubSettings) -> Result<HFClient> {
    let hub = address(&settings.endpoint)?;
    let origin = hub.origin();
    let redirects = Policy::custom(move |attempt: Attempt<'_>| {
        let is_followed = attempt.url().origin() == origin && attempt.previous().len() <= REDIRECTS;
        if is_followed { attempt.follow() } else { attempt.stop() }
    });
    let client = build(
        client_builder(&settings.patience)
            .redirect(redirects)
            .proxy(only_to(&hub))
            .read_timeout(settings.patience.silence),
    )?;
    let token = check_token(settings)?.unwrap_or(NO_TOKEN);
    let builder = HFClient::builder().client(client).retry_max_attempts(0).user_agent("").token(token);
    let built = builder.endpoint(hub.as_str()).cache_dir(&settings.cache).cache_enabled(false).build();
    built.map_err(|cause| Error::caused(ErrorKind::System, "the client of the hub does not start", cause))
}

/// Lets requests through to the hub alone: by the proxy that the environment names for it, or directly.
fn only_to(hub: &Url) -> Proxy {
    let origin = hub.origin();
    let via = hub.as_str().parse().ok().and_then(|hub| Matcher::from_env().intercept(&hub));
    let auth = via.as_ref().and_then(|via| via.basic_auth().cloned());
    let via = via.map(|via| via.uri().to_string());
    let proxy =
        Proxy::custom(move |url| if url.origin() == origin { via.clone() } else { Some(NOWHERE.to_owned()) });
    match auth {
        Some(auth) => proxy.custom_http_auth(auth),
        None => proxy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// User names before the host are not taken for it, so that another host is never mistaken for the hub.
    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let origin = |text: &str| address(text).expect("an address").origin();
        let hub = origin("https://hub.example:8080/a");
        for (text, is_hub) in [
            ("https://hub.example:8080?a", true),
            ("https://me:word@hub.example:8080", true),
            ("https://hub.example", false),
            ("http://hub.example:8080", false),
            ("https://hub.example:8080@evil/a", false),
            ("https://evil/https://hub.example:8080", false),
        ] {
            assert_eq!(origin(text) == hub, is_hub, "{text}");
        }
        for wrong in ["hub.example", "https://", "file:///a", ""] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    /// The answer to a range may have its length, or be a message; any other answer has the limit of all.
    #[test]
    fn answers_are_limited() {
        let url = address("https://hub.example/a").expect("an address");
        for (from, to, limit) in [
            (0, None, MAX_ANSWER_BYTES),
            (9, None, MAX_ANSWER_BYTES),
            (0, Some(1), MAX_MESSAGE_BYTES),
            (1 << 30, Some(3 << 30), 2 << 30),
        ] {
            assert_eq!(Request::range(&url, from, to).max_bytes(), limit, "{from} {to:?}");
        }
    }
}
