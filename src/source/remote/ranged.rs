//! Reads files of the hub and of web servers by ranges, and detects files that change meanwhile.

use std::fmt;

use bytes::Bytes;
use ureq::Agent;
use ureq::http::StatusCode;

use super::http::{Head, Http, Span, first_and_total, text};
use super::refusal::{Server, Trouble};
use super::web::without_ranges;
use super::{HubFault, HubSettings};
use crate::base::int::to_u64;
use crate::error::Result;
use crate::source::Stop;
use crate::source::content::RangeRead;

/// A file that is read by ranges and never stored. For a file of the hub, each range is requested from the hub, which
/// returns a newly signed address.
pub(super) struct RemoteFile {
    pub(super) agent: Agent,
    pub(super) settings: HubSettings,
    pub(super) stop: Stop,
    /// The address of the file, without signatures.
    pub(super) url: String,
    /// The file's name in messages.
    pub(super) what: String,
    /// Size in bytes.
    pub(super) bytes: u64,
    /// Its version when it was listed.
    pub(super) version: Version,
    pub(super) server: Server,
}

/// The information by which a server distinguishes versions of a file, as far as it sends any.
#[derive(Clone, Default)]
pub(super) struct Version {
    /// The entity tag.
    etag: Option<String>,
    /// The header `Last-Modified`.
    last_modified: Option<String>,
}

impl Version {
    /// The version that the headers of an answer show.
    pub(super) fn of(head: &Head) -> Version {
        let last_modified = text(&head.headers, "last-modified").map(str::to_owned);
        Version { etag: head.etag.clone(), last_modified }
    }

    /// The version with this entity tag.
    pub(super) fn tagged(etag: String) -> Version {
        Version { etag: Some(etag), ..Version::default() }
    }

    /// The entity tag, or otherwise the time of the last change; empty if neither is known.
    pub(super) fn name(&self) -> &str {
        self.etag.as_deref().or(self.last_modified.as_deref()).unwrap_or_default()
    }

    /// Whether the contents certainly differ. Answers of a server need not all have the same headers.
    fn differs(&self, other: &Version) -> bool {
        match (&self.etag, &other.etag, &self.last_modified, &other.last_modified) {
            (Some(one), Some(other), ..) | (_, _, Some(one), Some(other)) => one != other,
            _ => false,
        }
    }
}

impl fmt::Debug for RemoteFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteFile")
            .field("url", &self.url)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl RangeRead for RemoteFile {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn range(&self, start: u64, length: usize) -> Result<Bytes> {
        let http = Http::new(self.agent.clone(), self.server, &self.settings, &*self.stop);
        let mut tries = http.tries(&self.what);
        let mut got = Vec::new();
        while got.len() < length {
            let before = got.len();
            let outcome = self.go_on(&http, start, length, &mut got);
            tries.is_done(got.len() > before, outcome)?;
        }
        Ok(got.into())
    }
}

impl RemoteFile {
    /// Requests the missing bytes of a range and appends those that arrive.
    ///
    /// # Errors
    /// The file has changed, the server does not support ranges, or the connection fails.
    fn go_on(&self, http: &Http<'_>, start: u64, length: usize, got: &mut Vec<u8>) -> Result<(), Trouble> {
        let from = start + to_u64(got.len());
        let mut answer = http.get(&self.url, Span { from, to: Some(start + to_u64(length)) })?;
        let head = &answer.head;
        let is_other = Version::of(head).differs(&self.version);
        if head.status == StatusCode::OK && !is_other {
            return Err(Trouble::Final(without_ranges(&self.what)));
        }
        if is_other || first_and_total(&head.headers) != Some((from, self.bytes)) {
            return Err(Trouble::Final(HubFault::changed(&self.what)));
        }
        while let Some(block) = answer.next()? {
            if got.len() + block.len() > length {
                return Err(Trouble::Final(HubFault::changed(&self.what)));
            }
            got.extend_from_slice(&block);
        }
        let whole = got.len() == length;
        if whole { Ok(()) } else { Err(Trouble::passing("the connection ended in the middle of a range")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Versions differ only if both have the same kind of information.
    #[test]
    fn contents_differ_where_both_answers_say_so_in_one_way() {
        let version = |etag: Option<&str>, last_modified: Option<&str>| Version {
            etag: etag.map(str::to_owned),
            last_modified: last_modified.map(str::to_owned),
        };
        let listed = version(Some("a"), Some("Monday"));
        for (etag, last_modified, differs) in [
            (Some("a"), Some("Tuesday"), false),
            (Some("b"), Some("Monday"), true),
            (None, Some("Monday"), false),
            (None, Some("Tuesday"), true),
            (None, None, false),
        ] {
            let now = version(etag, last_modified);
            assert_eq!((now.differs(&listed), listed.differs(&now)), (differs, differs), "{etag:?}");
        }
        assert!(!version(None, Some("Monday")).differs(&version(Some("a"), None)));
        assert_eq!([listed.name(), version(None, Some("Monday")).name()], ["a", "Monday"]);
    }
}
