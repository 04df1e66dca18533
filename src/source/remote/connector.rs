//! The HTTP client of the library for object stores, implemented with the client of the rest of the program.

use std::io::Read;
use std::thread;

use async_trait::async_trait;
use bytes::Bytes;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use tokio::sync::oneshot;
use ureq::Agent;
use ureq::http::Request;

/// Maximum bytes of an answer to a request without a range, which is a list, a key or an error.
const MOST_BYTES: u64 = 64 << 20;

/// Lets the library for object stores use the same HTTP client as the rest of the program. Each request runs on its
/// own thread, so that waiting for it can be interrupted.
#[derive(Clone, Debug)]
pub(super) struct Connector(pub(super) Agent);

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Connector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let agent = self.0.clone();
        let (send, answer) = oneshot::channel();
        thread::Builder::new()
            .spawn(move || drop(send.send(ask(&agent, request))))
            .map_err(|cause| HttpError::new(HttpErrorKind::Interrupted, cause))?;
        answer.await.unwrap_or_else(|gone| Err(HttpError::new(HttpErrorKind::Interrupted, gone)))
    }
}

/// Runs a request and reads its answer up to the limit.
///
/// # Errors
/// The server cannot be reached, or its answer breaks off or is too long.
fn ask(agent: &Agent, request: HttpRequest) -> Result<HttpResponse, HttpError> {
    let most = range_bytes(&request).unwrap_or(MOST_BYTES);
    let (parts, body) = request.into_parts();
    let answer = match body.as_bytes() {
        Some(body) if !body.is_empty() => agent.run(Request::from_parts(parts, &body[..])),
        _ => agent.run(Request::from_parts(parts, ())),
    };
    let (parts, body) = answer.map_err(broken)?.into_parts();
    let mut bytes = Vec::new();
    let mut reader = body.into_with_config().limit(u64::MAX).reader().take(most + 1);
    let cut_off = |cause| HttpError::new(HttpErrorKind::Interrupted, cause);
    let read = reader.read_to_end(&mut bytes).map_err(cut_off)?;
    if u64::try_from(read).is_ok_and(|read| read > most) {
        let problem = format!("its answer has more than the {most} bytes that were expected");
        return Err(HttpError::new(HttpErrorKind::Decode, std::io::Error::other(problem)));
    }
    Ok(HttpResponse::from_parts(parts, Bytes::from(bytes).into()))
}

/// Maximum bytes of the answer if the request is for a range.
fn range_bytes(request: &HttpRequest) -> Option<u64> {
    let range = request.headers().get("range")?.to_str().ok()?.strip_prefix("bytes=")?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    // The answer may be an error message that is longer than the range.
    Some(last.checked_sub(first)?.saturating_add(1).max(1 << 20))
}

/// The library repeats requests that fail with an error of these kinds.
fn broken(cause: ureq::Error) -> HttpError {
    let kind = match cause {
        ureq::Error::Timeout(_) => HttpErrorKind::Timeout,
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => HttpErrorKind::Connect,
        ureq::Error::Io(_) | ureq::Error::Protocol(_) => HttpErrorKind::Request,
        _ => HttpErrorKind::Unknown,
    };
    HttpError::new(kind, cause)
}
