//! What a URI of the hub names: a repository, a revision of it, and files. Also which paths and hashes of a server are
//! accepted.

#[cfg(feature = "hub")]
use std::collections::BTreeSet;

use super::RemoteError;
use crate::error::{ErrorKind, Result};
#[cfg(feature = "hub")]
use crate::source::listing::{TRAIN, splits};

/// The kind of a repository on the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RepoKind {
    /// A dataset.
    Dataset,
    /// A model, which includes its tokenizer.
    Model,
}

impl RepoKind {
    /// The kind's name in addresses of the API and in folder names of the cache.
    #[cfg(feature = "hub")]
    pub(super) fn plural(self) -> &'static str {
        match self {
            RepoKind::Dataset => "datasets",
            RepoKind::Model => "models",
        }
    }

    /// The prefix of the name in addresses of files and in `hf://…`.
    #[cfg(feature = "hub")]
    pub(super) fn prefix(self) -> &'static str {
        match self {
            RepoKind::Dataset => "datasets/",
            RepoKind::Model => "",
        }
    }
}

/// The parts of `hf://datasets/ns/name[@revision][/path or glob]`, or of `hf://ns/name…` for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RepoRequest {
    /// The URI as given.
    pub(super) uri: String,
    /// The kind of the repository.
    pub(super) kind: RepoKind,
    /// The namespace; empty for old models without one.
    pub(super) namespace: String,
    /// The name of the repository.
    pub(super) name: String,
    /// A branch, tag or commit; `None` means the default.
    pub(super) revision: Option<String>,
    /// A file, folder or glob in the repository; `None` means the whole repository.
    pub(super) path: Option<String>,
    /// Whether files of any name are requested, because their format is given.
    pub(super) any_name: bool,
    /// Whether all files are listed, to select those of a tokenizer from them.
    pub(super) everything: bool,
}

/// The branch in which the hub keeps a dataset converted to Parquet.
pub(super) const CONVERTED: &str = "refs/convert/parquet";
/// The short name of [`CONVERTED`] in URIs.
const CONVERTED_SHORT: &str = "~parquet";

impl RepoRequest {
    /// Parses the URI of a dataset.
    ///
    /// # Errors
    /// The URI is not one of a dataset.
    pub(super) fn parse(uri: &str) -> Result<RepoRequest> {
        RepoRequest::read(uri, RepoKind::Dataset).ok_or_else(|| {
            let error = RemoteError::Uri { uri: uri.to_owned() }.with(ErrorKind::Usage);
            error.with_help("write hf://datasets/NAMESPACE/NAME, with @REVISION or /PATH after it if needed")
        })
    }

    /// Parses the URI of a repository with a tokenizer: a model, or a dataset that has one beside its data.
    ///
    /// # Errors
    /// The URI is not one of a repository.
    pub(super) fn parse_tokenizer(uri: &str) -> Result<RepoRequest> {
        let kind = if uri.starts_with("hf://datasets/") { RepoKind::Dataset } else { RepoKind::Model };
        let wanted = RepoRequest::read(uri, kind).ok_or_else(|| {
            let error = RemoteError::TokenizerUri { uri: uri.to_owned() }.with(ErrorKind::Usage);
            error.with_help(
                "write hf://NAMESPACE/NAME, with @REVISION or /PATH after it if needed, or hf://datasets/NAMESPACE/NAME/PATH",
            )
        })?;
        Ok(RepoRequest { everything: true, ..wanted })
    }

    /// Parses a URI of this kind; `None` if it is invalid or its path leaves the repository.
    ///
    /// No part may be empty, `.` or `..`, or contain a backslash, so that paths in the cache stay in its folder.
    fn read(uri: &str, kind: RepoKind) -> Option<RepoRequest> {
        let rest = match kind {
            RepoKind::Dataset => uri.strip_prefix("hf://datasets/")?,
            RepoKind::Model => uri.strip_prefix("hf://models/").or_else(|| uri.strip_prefix("hf://"))?,
        };
        let (repository, after) = match rest.find('@') {
            Some(at) => (&rest[..at], Some(&rest[at + 1..])),
            None => (rest, None),
        };
        let mut parts = repository.splitn(3, '/');
        let (namespace, name) = match (kind, parts.next()?, parts.next()) {
            (_, namespace, Some(name)) if !namespace.is_empty() => (namespace, name),
            (RepoKind::Model, name, None) if !["datasets", "spaces"].contains(&name) => ("", name),
            _ => return None,
        };
        if kind == RepoKind::Model && namespace == "spaces" {
            return None;
        }
        let path = parts.next();
        let (revision, path) = match (after, path) {
            (None, path) => (None, path),
            // An `@` after the name of the repository belongs to the path.
            (Some(_), Some(_)) => (None, rest.splitn(3, '/').nth(2)),
            (Some(after), None) => revision_and_path(after),
        };
        let plain = |part: &str| !part.is_empty() && part != ".." && part != "." && !part.contains('\\');
        let path = path.map(|path| path.trim_end_matches('/')).filter(|path| !path.is_empty());
        if !(namespace.is_empty() || plain(namespace))
            || !plain(name)
            || !path.unwrap_or("x").split('/').all(plain)
        {
            return None;
        }
        if revision.as_deref().is_some_and(|revision| !revision.split('/').all(plain)) {
            return None;
        }
        Some(RepoRequest {
            uri: uri.to_owned(),
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            revision,
            path: path.map(str::to_owned),
            any_name: false,
            everything: false,
        })
    }

    /// `namespace/name`.
    #[cfg(feature = "hub")]
    pub(super) fn repository(&self) -> String {
        self.joined("/")
    }

    /// Namespace and name with a separator between them, or only the name if the namespace is empty.
    #[cfg(feature = "hub")]
    pub(super) fn joined(&self, separator: &str) -> String {
        let parts = [self.namespace.as_str(), &self.name].into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(separator)
    }

    /// The revisions to try in order. Without a path and a revision, the converted branch is used if the dataset
    /// itself has no Parquet files.
    #[cfg(feature = "hub")]
    pub(super) fn revisions(&self) -> Vec<&str> {
        match (&self.revision, &self.path) {
            (Some(revision), _) => vec![revision],
            (None, _) if self.everything => vec!["main"],
            (None, Some(_)) => vec!["main"],
            (None, None) => vec!["main", CONVERTED],
        }
    }

    /// Whether a file of the repository is requested: its path is the requested one, is inside the requested folder,
    /// or matches the glob. Without a path, all Parquet files are requested.
    #[cfg(feature = "hub")]
    pub(super) fn wants(&self, file: &str) -> bool {
        if self.everything {
            return true;
        }
        match &self.path {
            Some(path) => wants(path, file, self.any_name),
            // Descriptions of the dataset are not part of it.
            None if self.any_name => !is_hidden(file) && file != "README.md" && !file.starts_with("LICENSE"),
            None => file.ends_with(".parquet") && !is_hidden(file),
        }
    }

    /// If a whole dataset with several splits is requested, keeps only the training split and reports the others.
    ///
    /// `path` gives the path of an item, and `noted` receives the message. Without a training split, all files stay.
    #[cfg(feature = "hub")]
    pub(super) fn keep_train<T>(&self, files: &mut Vec<T>, path: impl Fn(&T) -> &str, noted: &dyn Fn(&str)) {
        let found: BTreeSet<&str> = files.iter().filter_map(|file| splits(path(file)).last()).collect();
        let Some(train) = TRAIN.into_iter().find(|train| found.contains(train)) else { return };
        if self.path.is_some() || self.everything || found.len() == 1 {
            return;
        }
        let others: Vec<&str> = found.into_iter().filter(|split| *split != train).collect();
        noted(&format!(
            "{} has the splits {train}, {}: {train} is read; write a path or a pattern after the name to read others",
            self.uri,
            others.join(", ")
        ));
        files.retain(|file| splits(path(file)).last() == Some(train));
    }
}

/// Whether a file is requested by a path, which may be that of a folder or a glob. The empty path requests all files
/// of known formats, or all files if `any_name` is set.
#[cfg(feature = "hub")]
pub(super) fn wants(path: &str, file: &str, any_name: bool) -> bool {
    let known = |file: &str| any_name || crate::source::listing::is_known(std::path::Path::new(file));
    if file == path {
        return true;
    }
    if is_hidden(file) {
        return false;
    }
    let below = match file.strip_prefix(path) {
        Some(below) => path.is_empty() || below.starts_with('/'),
        None => false,
    };
    if below && known(file) {
        return true;
    }
    let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
    glob::Pattern::new(path).is_ok_and(|pattern| pattern.matches_with(file, options))
}

/// Whether a file, or a folder on its path, is hidden or not part of the data.
#[cfg(feature = "hub")]
fn is_hidden(file: &str) -> bool {
    file.split('/').any(crate::source::listing::is_hidden)
}

/// Splits off the revision: a branch or commit is one part of the path, but `refs/…/…` is three.
///
/// `after` is the text after the `@`. The path is `None` if nothing follows the revision.
fn revision_and_path(after: &str) -> (Option<String>, Option<&str>) {
    let length = if after.starts_with("refs/") { 3 } else { 1 };
    let end = after.match_indices('/').nth(length - 1).map_or(after.len(), |(slash, _)| slash);
    let revision = match &after[..end] {
        CONVERTED_SHORT => CONVERTED,
        revision => revision,
    };
    // A slash in the name of a branch is written as `%2F`.
    (Some(revision.replace("%2F", "/")), after.get(end + 1..))
}

/// A file in the hub's list.
#[cfg(feature = "hub")]
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RepoFile {
    /// The path inside the repository.
    pub(super) path: String,
    /// Size in bytes.
    pub(super) bytes: u64,
    /// The hash of the content.
    pub(super) digest: ContentHash,
}

/// The hash of a file's content. It is also the file's entity tag.
#[cfg(feature = "hub")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ContentHash {
    /// SHA-256, for large files (LFS).
    Sha256(String),
    /// Git's blob hash, for other files: the SHA-1 of `blob SIZE\0` and the content.
    Git(String),
}

#[cfg(feature = "hub")]
impl ContentHash {
    /// The hash in hex, which is the entity tag.
    pub(super) fn etag(&self) -> &str {
        match self {
            ContentHash::Sha256(hex) | ContentHash::Git(hex) => hex,
        }
    }
}

/// Whether a text is the full hash of a commit.
///
/// 40 hex digits. Shortened hashes are revisions that the hub must be asked about.
#[cfg(feature = "hub")]
pub(super) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a path from a server stays inside the folder that it is joined to.
///
/// Empty parts, `.` and `..` are not allowed, nor a zero byte. On Windows, neither are backslashes and colons.
#[cfg(feature = "hub")]
pub(super) fn inside(path: &str) -> bool {
    let leads_out = |letter| letter == '\0' || cfg!(windows) && matches!(letter, '\\' | ':');
    let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(leads_out);
    path.split('/').all(plain)
}
