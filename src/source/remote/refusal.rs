use std::time::{Duration, SystemTime};

use chrono::DateTime;
use ureq::http::{HeaderMap, StatusCode};

use super::HubFault;
use super::http::text;
use crate::error::{Error, ErrorKind};
use crate::source::secrets::without_secrets;

/// What kind of server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    /// The hub, which says in headers of its own what is wrong.
    Hub,
    /// Any other.
    Web,
}

/// Why a request brought nothing.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It may go better the next time, after the wait if the server named one.
    Passing { problem: String, wait: Option<Duration> },
    /// The server does not want to, and will not the next time.
    Refused { kind: ErrorKind, problem: String, help: &'static str },
    /// Something on this side.
    Final(Error),
}

impl Trouble {
    pub(super) fn passing(problem: impl Into<String>) -> Trouble {
        Trouble::Passing { problem: problem.into(), wait: None }
    }
}

/// Refuses what no header can hold.
pub(super) fn check_token(token: Option<&str>) -> Result<(), Trouble> {
    let is_token = token.is_none_or(|token| token.bytes().all(|byte| byte.is_ascii_graphic()));
    is_token.then_some(()).ok_or_else(|| Trouble::Refused {
        kind: ErrorKind::Authorisation,
        problem: "the token has characters that no token has".to_owned(),
        help: "check HF_TOKEN, or the file in which the token is kept",
    })
}

/// What the library could not do. All of it may pass but what no answer can mend.
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
            help: "check HF_ENDPOINT, the clock, and the proxy between here and there",
        },
        _ => Trouble::passing(said),
    }
}

/// What a status that is not a success means. The hub says more in `X-Error-Code`; another host refuses
/// where the signature of an address has run out, and a new address comes with the next try.
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
            "the server wants credentials: download the file yourself, and name it where it lies",
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

/// How long the server wants to be left alone: seconds or a date in `Retry-After`; or `t=` in `RateLimit`, where what is
/// allowed is used up (`r=0`).
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

/// A server's words on one line of bounded length, without the secrets that it repeats.
fn plain(said: &str) -> String {
    let line: String = said.chars().filter(|letter| !letter.is_control()).take(2_000).collect();
    without_secrets(&line).chars().take(200).collect()
}

pub(super) fn error(kind: ErrorKind, what: &str, problem: String) -> Error {
    HubFault::Refused { what: what.to_owned(), problem }.with(kind)
}

/// The error after the last try.
pub(super) fn given_up(what: &str, problem: String, asked: Option<Duration>) -> Error {
    let help = match asked {
        Some(wait) => {
            format!(
                "run the same command again in {} seconds; downloads go on where they ended",
                wait.as_secs()
            )
        }
        None => {
            "check the network, then run the same command again; downloads go on where they ended".to_owned()
        }
    };
    error(ErrorKind::Network, what, problem).with_help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

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
