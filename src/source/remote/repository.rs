//! What a URI of the hub names: a repository, a revision of it, and files. Also says which paths and hashes of a server
//! are accepted.

use std::collections::BTreeSet;
use std::io::Read;

use sha1::{Digest as _, Sha1};

use super::RemoteError;
use crate::base::int::to_u64;
use crate::base::integrity;
use crate::error::{ErrorKind, Result};
use crate::source::listing::{TRAIN, splits};

/// The kind of a repository on the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::source) enum RepoKind {
    /// A dataset.
    Dataset,
    /// A model, which includes its tokenizer.
    Model,
}

impl RepoKind {
    /// The kind's name in addresses of the API and in folder names of the cache.
    pub(in crate::source) fn plural(self) -> &'static str {
        match self {
            RepoKind::Dataset => "datasets",
            RepoKind::Model => "models",
        }
    }

    /// The prefix of the name in addresses of files and in `hf://…`.
    pub(in crate::source) fn prefix(self) -> &'static str {
        match self {
            RepoKind::Dataset => "datasets/",
            RepoKind::Model => "",
        }
    }
}

/// The parts of `hf://datasets/ns/name[@revision][/path or glob]`, or of `hf://ns/name…` for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::source) struct RepoRequest {
    /// The URI as given.
    pub(in crate::source) uri: String,
    /// The kind of the repository.
    pub(in crate::source) kind: RepoKind,
    /// The namespace; empty for old models without one.
    pub(in crate::source) namespace: String,
    /// The name of the repository.
    pub(in crate::source) name: String,
    /// A branch, tag or commit; `None` means the default.
    pub(in crate::source) revision: Option<String>,
    /// A file, folder or glob in the repository; `None` means the whole repository.
    pub(in crate::source) path: Option<String>,
    /// Whether files of any name are requested, because their format is given.
    pub(in crate::source) any_name: bool,
    /// Whether all files are listed, to select those of a tokenizer from them.
    pub(in crate::source) everything: bool,
}

/// The branch in which the hub keeps a dataset converted to Parquet.
pub(in crate::source) const CONVERTED: &str = "refs/convert/parquet";
/// The short name of [`CONVERTED`] in URIs.
const CONVERTED_SHORT: &str = "~parquet";

impl RepoRequest {
    /// Parses the URI of a dataset.
    ///
    /// # Errors
    /// The URI is not one of a dataset.
    pub(in crate::source) fn parse(uri: &str) -> Result<RepoRequest> {
        RepoRequest::read(uri, RepoKind::Dataset).ok_or_else(|| {
            let error = RemoteError::Uri { uri: uri.to_owned() }.with(ErrorKind::Usage);
            error.with_help("write hf://datasets/NAMESPACE/NAME, with @REVISION or /PATH after it if needed")
        })
    }

    /// Parses the URI of a repository with a tokenizer: a model, or a dataset that has one beside its data.
    ///
    /// # Errors
    /// The URI is not one of a repository.
    pub(in crate::source) fn parse_tokenizer(uri: &str) -> Result<RepoRequest> {
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
        let (repository, after) = match rest.split_once('@') {
            Some((repository, after)) => (repository, Some(after)),
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
        let all_plain = |text: &str| text.split('/').all(plain);
        let is_valid = (namespace.is_empty() || plain(namespace))
            && plain(name)
            && path.is_none_or(all_plain)
            && revision.as_deref().is_none_or(all_plain);
        if !is_valid {
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
    pub(in crate::source) fn repository(&self) -> String {
        self.joined("/")
    }

    /// Namespace and name with a separator between them, or only the name if the namespace is empty.
    pub(in crate::source) fn joined(&self, separator: &str) -> String {
        let parts = [self.namespace.as_str(), &self.name].into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(separator)
    }

    /// The revisions to try in order. Without a path and a revision, the converted branch is used if the dataset
    /// itself has no Parquet files.
    pub(in crate::source) fn revisions(&self) -> Vec<&str> {
        match (&self.revision, &self.path) {
            (Some(revision), _) => vec![revision],
            (None, None) if !self.everything => vec!["main", CONVERTED],
            _ => vec!["main"],
        }
    }

    /// Whether a file of the repository is requested: its path is the requested one, is inside the requested folder,
    /// or matches the glob. Without a path, all Parquet files are requested.
    pub(in crate::source) fn wants(&self, file: &str) -> bool {
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
    pub(in crate::source) fn keep_train<T>(
        &self,
        files: &mut Vec<T>,
        path: impl Fn(&T) -> &str,
        noted: &dyn Fn(&str),
    ) {
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
pub(in crate::source) fn wants(path: &str, file: &str, any_name: bool) -> bool {
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::source) struct RepoFile {
    /// The path inside the repository.
    pub(in crate::source) path: String,
    /// Size in bytes.
    pub(in crate::source) bytes: u64,
    /// The hash of the content.
    pub(in crate::source) digest: ContentHash,
}

/// The hash of a file's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::source) enum ContentHash {
    /// SHA-256, for large files (LFS). It is also the file's entity tag.
    Sha256(String),
    /// Git's blob hash, for other files: the SHA-1 of `blob SIZE\0` and the content. It is also the entity tag.
    Git(String),
    /// Git's hash of the pointer to a large file. Lists have no other hash of large files.
    Pointer(String),
}

impl ContentHash {
    /// The hash in hex.
    pub(in crate::source) fn hex(&self) -> &str {
        match self {
            ContentHash::Sha256(hex) | ContentHash::Git(hex) | ContentHash::Pointer(hex) => hex,
        }
    }

    /// Whether a file of `bytes` bytes with this entity tag has this hash. The pointer to a large file contains no more
    /// than the size and the SHA-256, so its hash proves them.
    pub(in crate::source) fn is_of(&self, etag: &str, bytes: u64) -> bool {
        let ContentHash::Pointer(hash) = self else { return self.hex() == etag };
        let pointer =
            format!("version https://git-lfs.github.com/spec/v1\noid sha256:{etag}\nsize {bytes}\n");
        git_hash(pointer.as_bytes(), to_u64(pointer.len())).is_ok_and(|found| found == *hash)
    }
}

/// Git's hash of a file of `bytes` bytes.
pub(in crate::source) fn git_hash(from: impl Read, bytes: u64) -> std::io::Result<String> {
    let mut hash = Sha1::new();
    hash.update(format!("blob {bytes}\0"));
    integrity::hash_of(hash, from)
}

/// Whether a text is a hash of this many hex digits.
pub(in crate::source) fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a text is the full hash of a commit.
///
/// 40 hex digits. Shortened hashes are revisions that the hub must be asked about.
pub(in crate::source) fn is_commit(text: &str) -> bool {
    is_hex(text, 40)
}

/// Whether a path from a server stays inside the folder that it is joined to.
///
/// Empty parts, `.` and `..` are not allowed, nor a zero byte. On Windows, neither are backslashes and colons.
pub(in crate::source) fn inside(path: &str) -> bool {
    let leads_out = |letter| letter == '\0' || cfg!(windows) && matches!(letter, '\\' | ':');
    let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(leads_out);
    path.split('/').all(plain)
}
