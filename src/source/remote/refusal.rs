//! Classifies failed requests: whether to repeat them, which kind of error they are, and what the user can do.

use std::time::{Duration, SystemTime};

use chrono::DateTime;
use ureq::http::{HeaderMap, StatusCode};

use super::HubFault;
use super::http::text;
use crate::base::secrets::without_secrets;
use crate::error::{Error, ErrorKind};

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
pub(super) enum Trouble {
    /// The request may succeed later, after `wait` if the server has named a time.
    Passing { problem: String, wait: Option<Duration> },
    /// The server refuses, and repeating the request would not help.
    Refused { kind: ErrorKind, problem: String, help: &'static str },
    /// An error on this side.
    Final(Error),
}

impl Trouble {
    /// A temporary failure for which the server has named no time.
    pub(super) fn passing(problem: impl Into<String>) -> Trouble {
        Trouble::Passing { problem: problem.into(), wait: None }
    }
}

/// Fails if a token contains characters that a header cannot contain.
pub(super) fn check_token(token: Option<&str>) -> Result<(), Trouble> {
    let is_token = token.is_none_or(|token| token.bytes().all(|byte| byte.is_ascii_graphic()));
    is_token.then_some(()).ok_or_else(|| Trouble::Refused {
        kind: ErrorKind::Authorisation,
        problem: "the token has characters that are not valid in a token".to_owned(),
        help: "check HF_TOKEN, or the file in which the token is kept",
    })
}

/// Classifies an error of the HTTP library. Errors are temporary unless no answer could change them.
pub(super) fn broken(cause: ureq::Error) -> Trouble {
    let said = without_secrets(&cause.to_string());
    match cause {
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => Trouble::Refused {
            kind: ErrorKind::Network,
            problem: format!("its address is wrong: {said}"),
            help: "check HF_ENDPOINT",
        },
        ureq::Error::Tls(_) | ureq::Error::Rustls(_) | ureq::Error::Pem(_) => Trouble::Refused {
            kind: ErrorKind::Network,
            problem: format!("the connection is not trusted: {said}"),
            help: "check HF_ENDPOINT, the clock, and any proxy",
        },
        _ => Trouble::passing(said),
    }
}

/// Classifies a status that is not a success. The hub gives details in `X-Error-Code`. If another host refuses, the
/// signature of its address may have expired, and the next attempt gets a new address.
pub(super) fn of(status: StatusCode, headers: &HeaderMap, server: Server, is_asked: bool) -> Trouble {
    let said = text(headers, "x-error-message").map(plain).unwrap_or_default();
    let who = match (is_asked, server) {
        (true, Server::Hub) => "the hub",
        (true, Server::Web) => "the server",
        (false, _) => "the host of its files",
    };
    let problem = match said.as_str() {
        "" => format!("{who} answers {status}"),
        said => format!("{who} answers {status}: {said}"),
    };
    let passing = matches!(status.as_u16(), 408 | 425 | 429 | 500..=599);
    if passing || !is_asked {
        return Trouble::Passing { problem, wait: wait(status, headers) };
    }
    let code = text(headers, "x-error-code").unwrap_or_default();
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
    Trouble::Refused { kind, problem, help }
}

/// The time that the server asks to wait: seconds or a date in `Retry-After`; or `t=` in `RateLimit` if the quota is
/// used up (`r=0`).
fn wait(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let after = text(headers, "retry-after").map(str::trim);
    let seconds = after.and_then(|after| after.parse().ok()).map(Duration::from_secs);
    let date = || {
        let date = SystemTime::from(DateTime::parse_from_rfc2822(after?).ok()?);
        date.duration_since(SystemTime::now()).ok()
    };
    let limit = || {
        let limit = text(headers, "ratelimit").filter(|_| status == StatusCode::TOO_MANY_REQUESTS)?;
        let number = |name: &str| {
            limit.split([';', ',']).find_map(|part| part.trim().strip_prefix(name)?.parse::<u64>().ok())
        };
        number("t=").filter(|_| number("r=").is_none_or(|left| left == 0)).map(Duration::from_secs)
    };
    seconds.or_else(date).or_else(limit)
}

/// A server's message in one line of at most 200 characters, without secrets that it repeats.
fn plain(said: &str) -> String {
    let line: String = said.chars().filter(|letter| !letter.is_control()).take(2_000).collect();
    without_secrets(&line).chars().take(200).collect()
}

/// The error that `what` cannot be fetched.
pub(super) fn error(kind: ErrorKind, what: &str, problem: String) -> Error {
    HubFault::Refused { what: what.to_owned(), problem }.with(kind)
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
    error(ErrorKind::Network, what, problem).with_help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All headers that name a time to wait are understood.
    #[test]
    fn servers_say_in_several_ways_how_long_to_wait() {
        let wait = |status: u16, name: &'static str, value: &str| {
            let headers = HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())]);
            super::wait(StatusCode::from_u16(status).unwrap(), &headers).map(|wait| wait.as_secs())
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
