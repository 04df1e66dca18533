//! How requests fail: which failures are repeated, after which wait, and what an error says.

use std::io;
use std::time::{Duration, SystemTime};

use chrono::DateTime;
use hf_hub::HFError;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use super::{Note, Patience};
use crate::base::int::with_unit;
use crate::base::secrets::without_secrets;
use crate::error::{Error, ErrorKind, Result};

/// Minimum length of a wait that is reported to the user.
const TOLD: Duration = Duration::from_secs(1);

/// A request has failed for good.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {problem}")]
pub(crate) struct Refused {
    /// What cannot be done.
    what: String,
    /// The reason.
    pub(crate) problem: String,
}

impl Refused {
    /// The error of this kind.
    fn error(kind: ErrorKind, what: impl Into<String>, problem: String) -> Error {
        Error::new(kind, Refused { what: what.into(), problem })
    }
}

/// The error that `what` cannot be fetched.
pub(crate) fn cannot_fetch(kind: ErrorKind, what: &str, problem: String) -> Error {
    Refused::error(kind, format!("{what} cannot be fetched"), problem)
}

/// Counts successive failures of an operation, and decides whether to repeat it.
pub(crate) struct Retries<'a> {
    /// The limits.
    patience: &'a Patience,
    /// Receives messages about waits.
    noted: &'a Note,
    /// What cannot be done. Messages begin with it.
    what: String,
    /// What the next run does not do again. The advice ends with it.
    kept: &'static str,
    /// Number of successive failures.
    pub(super) failed: u32,
}

impl<'a> Retries<'a> {
    /// Messages are `{what}: {problem}`. Their advice ends with `kept`, which says what the next run does not do again.
    pub(crate) fn new(
        patience: &'a Patience,
        noted: &'a Note,
        what: impl Into<String>,
        kept: &'static str,
    ) -> Retries<'a> {
        Retries { patience, noted, what: what.into(), kept, failed: 0 }
    }

    /// Waits before the next attempt, or gives up with an error.
    ///
    /// # Errors
    /// Attempts are exhausted, repeating would not help, or the wait is too long.
    pub(crate) async fn failed(&mut self, trouble: impl Into<RequestError>) -> Result<()> {
        self.failed += 1;
        let (problem, asked) = match trouble.into() {
            RequestError::Temporary { problem, wait } => (problem, wait),
            RequestError::Refused { kind, problem, help } => {
                return Err(Refused::error(kind, &self.what, problem).with_help(help));
            }
            RequestError::Final(error) => return Err(error),
        };
        let patience = self.patience;
        let doubled = patience.first_wait.saturating_mul(1 << (self.failed - 1).min(16));
        let own = doubled.min(patience.longest_wait);
        let wait = asked.map_or(own, |asked| asked.max(own));
        let error = Refused::error(ErrorKind::Network, &self.what, problem);
        if self.failed >= patience.attempts || wait > patience.longest_wait {
            return Err(error.with_help(format!("{}; {}", when_again(asked), self.kept)));
        }
        if wait >= TOLD {
            (self.noted)(&format!("{error}; trying again in {}", with_unit(wait.as_secs(), "second")));
        }
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

/// The advice after the last attempt, with the time that the server asks to wait.
fn when_again(asked: Option<Duration>) -> String {
    match asked {
        Some(wait) => format!("run the same command again in {}", with_unit(wait.as_secs(), "second")),
        None => "check the network, then run the same command again".to_owned(),
    }
}

/// The reason that a request has failed.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The request may succeed later, after `wait` if the server has named a time.
    Temporary { problem: String, wait: Option<Duration> },
    /// The server refuses, and repeating the request would not help.
    Refused { kind: ErrorKind, problem: String, help: &'static str },
    /// An error on this side, or one that is already worded.
    Final(Error),
}

impl RequestError {
    /// A failure that repeating the request would not change.
    pub(super) fn refused(kind: ErrorKind, problem: String, help: &'static str) -> RequestError {
        RequestError::Refused { kind, problem, help }
    }

    /// A temporary failure for which the server has named no time.
    pub(crate) fn passing(problem: impl Into<String>) -> RequestError {
        RequestError::Temporary { problem: problem.into(), wait: None }
    }
}

impl From<Error> for RequestError {
    fn from(error: Error) -> RequestError {
        RequestError::Final(error)
    }
}

/// The failure that an answer does not end in time.
pub(crate) fn too_slow(after: Duration) -> RequestError {
    let problem = format!("its answer takes more than {}", with_unit(after.as_secs(), "second"));
    let help = "check the network, then run the same command again";
    RequestError::refused(ErrorKind::Network, problem, help)
}

/// The advice if an address is invalid.
pub(super) const WRONG_ADDRESS: &str = "check the address, and HF_ENDPOINT if it is one of the hub";

/// Classifies an error of the HTTP client. Errors are temporary unless no answer could change them.
pub(crate) fn connection_failure(cause: &reqwest::Error) -> RequestError {
    // The last cause says what happened; those before repeat the address.
    let first: &dyn std::error::Error = cause;
    let last = std::iter::successors(Some(first), |cause| cause.source()).last().unwrap_or(first);
    let problem = without_secrets(&last.to_string());
    if cause.is_builder() {
        return RequestError::refused(
            ErrorKind::Network,
            format!("its address is wrong: {problem}"),
            WRONG_ADDRESS,
        );
    }
    if is_untrusted(cause) {
        let help = "check the address, the clock, any proxy, and the certificates of this system";
        let problem = format!("the connection is not trusted: {problem}");
        return RequestError::refused(ErrorKind::Network, problem, help);
    }
    RequestError::passing(problem)
}

/// Whether a connection has failed because of its encryption, which is reported as invalid data.
fn is_untrusted(cause: &(dyn std::error::Error + 'static)) -> bool {
    match cause.downcast_ref::<io::Error>() {
        Some(io) if io.kind() == io::ErrorKind::InvalidData => true,
        Some(io) => io.get_ref().is_some_and(|inner| is_untrusted(inner)),
        None => cause.source().is_some_and(is_untrusted),
    }
}

/// Whether a status may change when the request is repeated.
pub(crate) fn is_temporary(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 425 | 429 | 500..=599)
}

/// The kind of server that requests are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// The hub, which describes errors in headers of its own.
    Hub,
    /// Any other server of files.
    Web,
    /// An object store. Its library reads refusals and redirects itself.
    Store,
}

/// Classifies a status that is not a success: whether the request may succeed later, and what to do otherwise. `code`
/// and `message` are the server's description of the failure, or empty. `wait` is the time that it asks to wait.
///
/// If the server itself refuses, the status decides. `is_asked` is false for a host that the server has redirected
/// to: the signature of its address may have expired, and the next attempt gets a new address.
pub(crate) fn refused(
    status: StatusCode,
    code: &str,
    message: &str,
    wait: Option<Duration>,
    server: Server,
    is_asked: bool,
) -> RequestError {
    let who = match (is_asked, server) {
        (true, Server::Hub) => "the hub",
        (true, _) => "the server",
        (false, _) => "the host of its files",
    };
    let problem = match in_one_line(message).as_str() {
        "" => format!("{who} answers {status}"),
        message => format!("{who} answers {status}: {message}"),
    };
    if is_temporary(status) || !is_asked {
        return RequestError::Temporary { problem, wait };
    }
    let (kind, help) = match (status.as_u16(), code) {
        (401 | 403, _) if server != Server::Hub => (
            ErrorKind::Authorisation,
            "the server requires credentials: download the file yourself, and give its local path",
        ),
        _ if server != Server::Hub => (ErrorKind::Failed, "check the address"),
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
    RequestError::refused(kind, problem, help)
}

/// The value of a header.
///
/// `None` if it is missing or is not visible ASCII. Of several headers with that name, the first counts.
pub(crate) fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// The time that the server asks to wait: seconds or a date in `Retry-After`; or `t=` in `RateLimit` if the quota is
/// used up (`r=0`).
pub(crate) fn requested_wait(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
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
pub(crate) fn in_one_line(message: &str) -> String {
    let line: String = message.chars().filter(|letter| !letter.is_control()).take(2_000).collect();
    without_secrets(&line).chars().take(200).collect()
}

/// What an error of the library of the hub says.
pub(crate) enum HubFailure {
    /// The hub answers with a status that is not a success, and perhaps with a code, a message, and a time to wait.
    Refused { status: StatusCode, code: String, message: String, wait: Option<Duration> },
    /// The connection has failed.
    Connection(reqwest::Error),
    /// The hub's answer does not have the expected form. The text says why.
    Unusable(String),
}

impl From<HFError> for HubFailure {
    fn from(cause: HFError) -> HubFailure {
        let (context, wait) = match cause {
            HFError::RateLimited { retry_after, context } => (context, retry_after),
            HFError::Http { context }
            | HFError::AuthRequired { context }
            | HFError::Forbidden { context }
            | HFError::Conflict { context }
            | HFError::RepoNotFound { context: Some(context), .. }
            | HFError::RevisionNotFound { context: Some(context), .. }
            | HFError::EntryNotFound { context: Some(context), .. } => (context, None),
            // A complete answer that is not of the expected form is not temporary.
            HFError::Request { source, .. }
                if !std::error::Error::source(&source)
                    .is_some_and(|cause| cause.is::<serde_json::Error>()) =>
            {
                return HubFailure::Connection(source);
            }
            other => return HubFailure::Unusable(in_one_line(&other.to_string())),
        };
        HubFailure::Refused {
            status: context.status,
            code: context.error_code.unwrap_or_default(),
            message: context.server_message.unwrap_or_default(),
            wait,
        }
    }
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
}
