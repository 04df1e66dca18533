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

/// An answer to what is no range is a listing, a key, or an error.
const MOST_BYTES: u64 = 64 << 20;

/// Lets the library for object stores ask by the same client as all else. Each request runs on a thread of its
/// own, so that whoever waits for it can stop.
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
        let problem = format!("its answer has more than the {most} bytes that were to come");
        return Err(HttpError::new(HttpErrorKind::Decode, std::io::Error::other(problem)));
    }
    Ok(HttpResponse::from_parts(parts, Bytes::from(bytes).into()))
}

/// How many bytes are asked for, if it is a range.
fn range_bytes(request: &HttpRequest) -> Option<u64> {
    let range = request.headers().get("range")?.to_str().ok()?.strip_prefix("bytes=")?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    // An error may be longer than the range.
    Some(last.checked_sub(first)?.saturating_add(1).max(1 << 20))
}

/// What may pass is tried again by the library.
fn broken(cause: ureq::Error) -> HttpError {
    let kind = match cause {
        ureq::Error::Timeout(_) => HttpErrorKind::Timeout,
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => HttpErrorKind::Connect,
        ureq::Error::Io(_) | ureq::Error::Protocol(_) => HttpErrorKind::Request,
        _ => HttpErrorKind::Unknown,
    };
    HttpError::new(kind, cause)
}
