use std::fmt;

use bytes::Bytes;
use ureq::Agent;
use ureq::http::StatusCode;

use super::http::{Http, Span, first_and_total};
use super::refusal::{Server, Trouble};
use super::web::without_ranges;
use super::{HubFault, HubSettings};
use crate::error::Result;
use crate::source::open::Stop;
use crate::source::ranges::Ranged;
use crate::units::amount;

/// A file that is read by ranges and never stored. Of a file of the hub each range is asked for at the hub, which
/// signs an address anew.
pub(super) struct RemoteFile {
    pub(super) agent: Agent,
    pub(super) settings: HubSettings,
    pub(super) stop: Stop,
    pub(super) url: String,
    /// The file as messages name it.
    pub(super) what: String,
    pub(super) bytes: u64,
    /// The entity tag that it had when it was listed, if its server gives any.
    pub(super) etag: Option<String>,
    pub(super) server: Server,
}

impl fmt::Debug for RemoteFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteFile")
            .field("url", &self.url)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Ranged for RemoteFile {
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
    /// Asks for what is missing of a range and takes what comes.
    fn go_on(&self, http: &Http<'_>, start: u64, length: usize, got: &mut Vec<u8>) -> Result<(), Trouble> {
        let from = start + amount(got.len());
        let mut answer = http.get(&self.url, Span { from, to: Some(start + amount(length)) })?;
        let head = &answer.head;
        let is_other = matches!((&head.etag, &self.etag), (Some(now), Some(listed)) if now != listed);
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
