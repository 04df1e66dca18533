//! Opens files of web servers for reading by ranges.

use std::path::PathBuf;
use std::sync::Arc;

use super::address::origin;
use super::http::{Http, Span, agent, first_and_total, is_empty};
use super::ranged::{RemoteFile, Version};
use super::refusal::Server;
use super::{HubFault, HubSettings, Streamed};
use crate::base::secrets::shown_uri;
use crate::error::{Error, ErrorKind, Result};
use crate::source::Identity;
use crate::source::Stop;
use crate::source::content::RangeRead;

/// Requests the size and version of a file on a web server. The file is read by ranges and never stored.
///
/// # Errors
/// The server cannot be reached, refuses, or does not support ranges.
pub(super) fn look(uri: &str, settings: &HubSettings, stop: &Stop) -> Result<Streamed> {
    let settings = HubSettings { endpoint: origin(uri).to_owned(), token: None, ..settings.clone() };
    let agent = agent(&settings.patience);
    let http = Http::new(agent.clone(), Server::Web, &settings, &**stop);
    let what = shown_uri(uri);
    let mut tries = http.tries(&what);
    let head = loop {
        match http.get(uri, Span { from: 0, to: Some(1) }) {
            Ok(answer) => break answer.head,
            Err(trouble) => tries.failed(trouble)?,
        }
    };
    let total = first_and_total(&head.headers).map(|(_, total)| total);
    let bytes = total.or(is_empty(&head).then_some(0)).ok_or_else(|| without_ranges(&what))?;
    let version = Version::of(&head);
    let identity = Identity::Web { bytes, etag: version.name().to_owned() };
    let remote: Arc<dyn RangeRead> = Arc::new(RemoteFile {
        agent,
        stop: Arc::clone(stop),
        url: uri.to_owned(),
        what: what.clone(),
        bytes,
        version,
        settings,
        server: Server::Web,
    });
    // The query is not part of the name from which the format is derived.
    let path = uri.split(['?', '#']).next().unwrap_or(uri);
    Ok((((PathBuf::from(path), what), identity), Some(remote)))
}

/// The error that a server does not support ranges.
pub(super) fn without_ranges(what: &str) -> Error {
    let fault = HubFault::Refused {
        what: what.to_owned(),
        problem: "its host does not support range requests".to_owned(),
    };
    fault
        .with(ErrorKind::Network)
        .with_help("download the file, and give its local path; on the hub leave `stream` out")
}
