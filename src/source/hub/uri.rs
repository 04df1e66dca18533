use super::HubFault;
use crate::error::{ErrorKind, Result};

/// What `hf://datasets/ns/name[@revision][/path or glob]` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) uri: String,
    /// Empty for the few datasets that have no namespace.
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) revision: Option<String>,
    pub(super) path: Option<String>,
}

/// The branch that holds a dataset converted to Parquet, and its short name in URIs.
pub(super) const CONVERTED: &str = "refs/convert/parquet";
const CONVERTED_SHORT: &str = "~parquet";

impl Wanted {
    pub(super) fn parse(uri: &str) -> Result<Wanted> {
        Wanted::read(uri).ok_or_else(|| {
            let error = HubFault::Uri { uri: uri.to_owned() }.with(ErrorKind::Usage);
            error.with_help("write hf://datasets/NAMESPACE/NAME, with @REVISION or /PATH after it if need be")
        })
    }

    fn read(uri: &str) -> Option<Wanted> {
        let rest = uri.strip_prefix("hf://datasets/")?;
        let (repository, after) = match rest.find('@') {
            Some(at) => (&rest[..at], Some(&rest[at + 1..])),
            None => (rest, None),
        };
        let mut parts = repository.splitn(3, '/');
        let (namespace, name) = (parts.next()?, parts.next()?);
        let path = parts.next();
        let (revision, path) = match (after, path) {
            (None, path) => (None, path),
            // An `@` further on belongs to the path.
            (Some(_), Some(_)) => (None, rest.splitn(3, '/').nth(2)),
            (Some(after), None) => revision_and_path(after),
        };
        let plain = |part: &str| !part.is_empty() && part != ".." && part != "." && !part.contains('\\');
        let path = path.map(|path| path.trim_end_matches('/')).filter(|path| !path.is_empty());
        if !plain(namespace) || !plain(name) || !path.unwrap_or("x").split('/').all(plain) {
            return None;
        }
        if revision.as_deref().is_some_and(|revision| !revision.split('/').all(plain)) {
            return None;
        }
        Some(Wanted {
            uri: uri.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            revision,
            path: path.map(str::to_owned),
        })
    }
}

/// Takes the revision off: a branch or commit is one part of the path, but `refs/…/…` is three.
fn revision_and_path(after: &str) -> (Option<String>, Option<&str>) {
    let length = if after.starts_with("refs/") { 3 } else { 1 };
    let end = after.match_indices('/').nth(length - 1).map_or(after.len(), |(slash, _)| slash);
    let revision = match &after[..end] {
        CONVERTED_SHORT => CONVERTED,
        revision => revision,
    };
    // A slash in a branch's name is written %2F.
    (Some(revision.replace("%2F", "/")), after.get(end + 1..))
}
