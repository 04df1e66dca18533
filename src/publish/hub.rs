//! The steps of a push to the hub: find the branch, compare its files, send the large ones, and commit.
//!
//! The commit names its parent, so it fails if somebody else has committed meanwhile. Whatever happens to a commit, the
//! steps begin again with the branch as it is then: if it has all files, the commit was made.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::pin::pin;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use futures_util::StreamExt;
use hf_hub::repository::{RepoTreeEntry, RepoTypeDataset, RepoTypeModel};
use hf_hub::{HFClient, HFError, HFResult};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha1::Sha1;
use tokio::time::timeout;

use super::http::{Http, Trouble, changed, ended, hub_failure, refused};
use super::lfs::Storage;
use super::target::{PushTarget, RepositoryKind};
use super::{FileState, Publication, PublishedKind, PushOptions, Pushed, PushedFile};
use crate::base::hash::Set;
use crate::base::int::{to_u64, with_unit};
use crate::base::integrity::{hash_of, sha256};
use crate::base::secrets::shown_uri;
use crate::error::{Error, ErrorKind, Result};
use crate::network::{HubSettings, hub_client, in_one_line, too_slow, wait_for};
use crate::observer::{Observer, Stage};
use crate::sink::{HashedFile, MANIFEST, Manifest, is_data_name};

/// Bytes of a file that becomes part of the commit, at most (16 MiB). The hub keeps only files below 10 MB in Git, so it
/// asks for no larger one; a wrong answer must not bring a large file into memory.
const MAX_INLINE_BYTES: u64 = 16 << 20;

/// Entries in the list of a repository's files, at most.
const MAX_ENTRIES: usize = 800_000;

/// Files in one question about the files of a repository.
const ASKED_AT_ONCE: usize = 256;

/// Bytes of a file from which the hub decides whether it is text.
const SAMPLE_BYTES: u64 = 512;

/// Names of files in a message, at most.
const NAMED: usize = 5;

/// Redirects that are followed to the manifest of the repository, at most.
const REDIRECTS: usize = 5;

/// The characters that a segment of an address must encode: all but the unreserved ones of RFC 3986.
const RESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Pushes a publication; see [`push`](super::push).
///
/// # Errors
/// Those of [`push`](super::push).
pub(super) fn push(
    publication: &Publication,
    target: &PushTarget,
    options: &PushOptions,
    settings: &HubSettings,
    observer: &dyn Observer,
) -> Result<Pushed> {
    check_fit(publication, target)?;
    let run = || {
        if settings.offline {
            let error = Error::message(ErrorKind::Network, "HF_HUB_OFFLINE is set");
            return Err(error.with_help("unset HF_HUB_OFFLINE to push"));
        }
        let (http, client) = (Http::new(settings)?, hub_client(settings)?);
        let push = Push { publication, target, options, settings, observer, http, client };
        wait_for(&|| observer.stopping(), &target.to_string(), push.run())
    };
    run().map_err(|error| match error.kind() {
        ErrorKind::Interrupted => error,
        _ => error.at(format!("push to {target}")),
    })
}

/// Checks that the kind of the repository is that of the publication. A data card in a model would describe nothing.
///
/// # Errors
/// An output is to become a model ([`ErrorKind::Usage`]).
fn check_fit(publication: &Publication, target: &PushTarget) -> Result<()> {
    if publication.kind == PublishedKind::Tokenizer || target.kind == RepositoryKind::Dataset {
        return Ok(());
    }
    let folder = publication.folder.display();
    let problem = format!("{folder} is the output of a job, and {target} is a repository for a model");
    let dataset = format!("hf://datasets/{}", target.repository());
    let help = format!("push to {dataset}, or push the folder of its tokenizer alone");
    Err(Error::usage(problem).with_help(help))
}

/// A push in progress.
struct Push<'a> {
    /// The files.
    publication: &'a Publication,
    /// The repository and its branch.
    target: &'a PushTarget,
    /// The user's choices.
    options: &'a PushOptions,
    /// The hub.
    settings: &'a HubSettings,
    /// Receives progress.
    observer: &'a dyn Observer,
    /// Sends what `hf-hub` cannot.
    http: Http<'a>,
    /// Sends the other requests.
    client: HFClient,
}

/// A file of the repository.
#[derive(Debug, Deserialize)]
struct RemoteFile {
    /// Its path.
    path: String,
    /// Its size in bytes.
    size: u64,
    /// The id that Git gives to it, or to the pointer to it.
    oid: String,
    /// Its object in the storage, if it is large.
    lfs: Option<RemoteObject>,
}

/// An object in the storage.
#[derive(Debug, Deserialize)]
struct RemoteObject {
    /// SHA-256 of the file.
    oid: String,
}

/// How the hub wants a file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wanted {
    /// The path of the file.
    path: String,
    /// `lfs` for files that are sent to the storage, `regular` for those that are part of the commit.
    upload_mode: String,
    /// Whether the repository's `.gitignore` excludes the file.
    #[serde(default)]
    should_ignore: bool,
}

/// The difference between the publication and a commit of the repository.
struct Changes<'a> {
    /// The files that the commit lacks or has differently.
    files: Vec<&'a HashedFile>,
    /// Files of an earlier output in the commit that the publication does not have.
    removed: Vec<String>,
    /// All files with their states.
    states: Vec<PushedFile>,
}

impl<'a> Push<'a> {
    /// Does everything, from the question for the branch to the commit.
    ///
    /// # Errors
    /// Those of [`push`](super::push).
    async fn run(&self) -> Result<Pushed> {
        let mut pushed = Pushed {
            files: Vec::new(),
            commit: None,
            url: shown_uri(&self.address(&format!("/{}", self.target.page()))),
            bytes_sent: 0,
            created: false,
        };
        let (mut retries, mut conflicts) = (self.http.retries("the commit cannot be made"), 0);
        let mut is_started = false;
        loop {
            let head = match self.head().await? {
                Some(head) => head,
                None if !self.target.is_main() => return Err(self.without_branch()),
                None if self.options.dry_run => {
                    let states = self.publication.files.iter().map(|file| state(file, FileState::New));
                    return Ok(Pushed { files: states.collect(), created: true, ..pushed });
                }
                None => {
                    self.create().await?;
                    pushed.created = true;
                    self.head().await?.ok_or_else(|| self.unseen())?
                }
            };
            let changes = self.changes(&head).await?;
            // After a commit without an answer, the states are those from before it.
            if pushed.files.is_empty() {
                pushed.files.clone_from(&changes.states);
            }
            let is_same = changes.files.is_empty() && changes.removed.is_empty();
            if is_same || self.options.dry_run {
                if is_started {
                    self.observer.finished(Stage::Upload);
                }
                return Ok(Pushed { commit: is_same.then_some(head), ..pushed });
            }
            if !is_started {
                let total = changes.files.iter().map(|file| file.bytes).sum();
                self.observer.started(Stage::Upload, Some(total));
                is_started = true;
            }
            let large = self.large(&changes.files).await?;
            pushed.bytes_sent += self.storage().send(&large).await?;
            let (body, inline) = self.commit_body(&head, &changes, &large)?;
            match self.commit(body).await {
                Ok(commit) => {
                    self.observer.advanced(Stage::Upload, inline);
                    self.observer.finished(Stage::Upload);
                    let bytes_sent = pushed.bytes_sent + inline;
                    return Ok(Pushed { commit: Some(commit), bytes_sent, ..pushed });
                }
                Err(Trouble::Conflict(_)) if conflicts == 0 => {
                    conflicts += 1;
                    let target = self.target;
                    self.observer.noted(&format!(
                        "somebody else has committed to {target} meanwhile: the push begins again on the new commit"
                    ));
                }
                Err(Trouble::Conflict(problem)) => {
                    let problem = format!("somebody else commits to the branch at the same time: {problem}");
                    return Err(Error::message(ErrorKind::Network, problem)
                        .with_help("run the same command again when nobody else writes to the branch"));
                }
                Err(trouble) => retries.failed(trouble).await?,
            }
        }
    }

    /// The commit at the head of the branch; `None` if the repository does not exist.
    ///
    /// # Errors
    /// The branch does not exist in an existing repository, or the hub cannot be reached or refuses.
    async fn head(&self) -> Result<Option<String>> {
        let PushTarget { namespace, name, branch, .. } = self.target;
        let head = async || -> HFResult<Option<String>> {
            let client = &self.client;
            Ok(match self.target.kind {
                RepositoryKind::Dataset => {
                    client.dataset(namespace, name).info().revision(branch).send().await?.sha
                }
                RepositoryKind::Model => {
                    client.model(namespace, name).info().revision(branch).send().await?.sha
                }
            })
        };
        let limit = self.http.work_limit();
        let attempt = async || match timeout(limit, head()).await.map_err(|_| too_slow(limit))? {
            Ok(None) => Err(wrong_answer("the branch has no commit").into()),
            Ok(head) => Ok(head),
            Err(failed) => match error_code(&failed) {
                Some("RepoNotFound") => Ok(None),
                Some("RevisionNotFound") => Err(self.without_branch().into()),
                _ => Err(hub_failure(failed)),
            },
        };
        ended(self.http.repeat("the repository cannot be looked up", attempt).await)
    }

    /// The error that the repository lacks the branch.
    fn without_branch(&self) -> Error {
        Error::failed(format!("the repository has no branch {:?}", self.target.branch))
            .with_help("create the branch on the hub first, or leave out @BRANCH to push to main")
    }

    /// The error that the repository exists, and this user may not see it.
    fn unseen(&self) -> Error {
        let problem = "the repository exists, and the token may not see it";
        Error::message(ErrorKind::Authorisation, problem)
            .with_help("set HF_TOKEN to a token that may write to the repository, or choose another name")
    }

    /// Creates the repository. One that exists is left as it is.
    ///
    /// # Errors
    /// The hub cannot be reached or refuses.
    async fn create(&self) -> Result<()> {
        let (repository, private) = (self.target.repository(), self.options.private);
        let attempt = async || {
            let created = match self.target.kind {
                RepositoryKind::Dataset => {
                    let create =
                        self.client.create_repository().repo_id(&repository).repo_type(RepoTypeDataset);
                    create.private(private).exist_ok(true).send().await
                }
                RepositoryKind::Model => {
                    let create =
                        self.client.create_repository().repo_id(&repository).repo_type(RepoTypeModel);
                    create.private(private).exist_ok(true).send().await
                }
            };
            created.map(drop).map_err(hub_failure)
        };
        let created = self.http.repeat("the repository does not exist and cannot be created", attempt).await;
        ended(created).map_err(|error| match error.kind() {
            ErrorKind::Authorisation => error.at("the repository does not exist and cannot be created"),
            _ => error,
        })
    }

    /// Compares the publication with a commit.
    ///
    /// # Errors
    /// The hub cannot be reached or refuses, or the commit has data files of others.
    async fn changes(&self, head: &str) -> Result<Changes<'a>> {
        let files = &self.publication.files;
        let mut remote: BTreeMap<String, RemoteFile> = BTreeMap::new();
        for files in files.chunks(ASKED_AT_ONCE) {
            let paths: Vec<&String> = files.iter().map(|file| &file.name).collect();
            let found: Vec<RemoteFile> =
                self.ask(&format!("paths-info/{head}"), &json!({ "paths": paths })).await?;
            remote.extend(found.into_iter().map(|file| (file.path.clone(), file)));
        }
        let mut changes = Changes { files: Vec::new(), removed: Vec::new(), states: Vec::new() };
        for file in files {
            let known = match remote.get(&file.name) {
                None => FileState::New,
                Some(remote) if self.is_same(file, remote)? => FileState::Unchanged,
                Some(_) => FileState::Changed,
            };
            changes.states.push(state(file, known));
            if known != FileState::Unchanged {
                changes.files.push(file);
            }
        }
        if self.publication.kind == PublishedKind::Output {
            changes.removed = self.outdated(head).await?;
            let removed = changes.removed.iter();
            changes.states.extend(removed.map(|path| PushedFile {
                path: path.clone(),
                bytes: 0,
                state: FileState::Removed,
            }));
        }
        Ok(changes)
    }

    /// Whether a file is the one of the repository.
    ///
    /// # Errors
    /// The file cannot be read.
    fn is_same(&self, file: &HashedFile, remote: &RemoteFile) -> Result<bool> {
        if let Some(object) = &remote.lfs {
            return Ok(object.oid == file.sha256);
        }
        if remote.size != file.bytes {
            return Ok(false);
        }
        let path = self.path(file);
        let blob = format!("blob {}\0", file.bytes);
        let hash = File::open(&path).and_then(|content| {
            use sha1::Digest;
            hash_of(Sha1::new().chain_update(blob), content)
        });
        Ok(hash.map_err(|cause| Error::io("read", &path, cause))? == remote.oid)
    }

    /// The data files of a commit that the publication does not have. Readers would take them for part of the data, so
    /// they are removed if the manifest of the commit lists them, which then was an earlier output.
    ///
    /// # Errors
    /// There are others ([`ErrorKind::Usage`]), or the hub cannot be reached or refuses.
    async fn outdated(&self, head: &str) -> Result<Vec<String>> {
        let own: Set<&String> = self.publication.files.iter().map(|file| &file.name).collect();
        let mut others = self.data_files(head).await?;
        others.retain(|path| !own.contains(path));
        if others.is_empty() {
            return Ok(others);
        }
        let earlier = self.earlier_manifest(head).await?;
        let listed = earlier.map(|manifest| manifest.data_names()).unwrap_or_default();
        let foreign: Vec<&str> =
            others.iter().filter(|path| !listed.contains(*path)).map(String::as_str).collect();
        if foreign.is_empty() {
            return Ok(others);
        }
        let files = with_unit(to_u64(foreign.len()), "data file");
        let names = foreign[..foreign.len().min(NAMED)].join(", ");
        let more = if foreign.len() > NAMED { ", …" } else { "" };
        let problem = format!(
            "the branch has {files} of others, which readers would take for part of the output: {names}{more}"
        );
        Err(Error::usage(problem)
            .with_help("remove them on the hub, or push to another branch or repository"))
    }

    /// The paths of the data files in a commit of a dataset. Models have none, as no output is pushed to them.
    ///
    /// # Errors
    /// The hub cannot be reached or refuses, or its list is too long.
    async fn data_files(&self, head: &str) -> Result<Vec<String>> {
        let PushTarget { namespace, name, .. } = self.target;
        let limit = self.http.work_limit();
        let attempt = async || -> Result<Vec<String>, Trouble> {
            let repository = self.client.dataset(namespace, name);
            let listed = repository.list_tree().revision(head).recursive(true).send();
            let mut listed = pin!(listed.map_err(hub_failure)?);
            let (mut paths, mut entries) = (Vec::new(), 0);
            while let Some(entry) = timeout(limit, listed.next()).await.map_err(|_| too_slow(limit))? {
                entries += 1;
                if entries > MAX_ENTRIES {
                    return Err(wrong_answer("the list of files is too long").into());
                }
                match entry.map_err(hub_failure)? {
                    RepoTreeEntry::File { path, .. } if is_data_name(&path) => paths.push(path),
                    _ => {}
                }
            }
            Ok(paths)
        };
        ended(self.http.repeat("the files of the repository cannot be listed", attempt).await)
    }

    /// The manifest in a commit; `None` if there is none that can be read.
    ///
    /// # Errors
    /// The hub cannot be reached.
    async fn earlier_manifest(&self, head: &str) -> Result<Option<Manifest>> {
        let path = format!("/{}{}/resolve/{head}/{MANIFEST}", self.target.prefix(), self.target.repository());
        let first = self.address(&path);
        let attempt = async || {
            let mut url = first.clone();
            for _ in 0..REDIRECTS {
                let limit = self.http.work_limit();
                let answer = self.http.send(Method::GET, &url, &[], Bytes::new(), limit).await?;
                match answer.redirect(&url) {
                    Some(to) => url = to,
                    None if answer.status == 404 => return Ok(None),
                    None if answer.is_success() => {
                        return Ok(Manifest::of_text(Path::new(MANIFEST), &answer.body).ok());
                    }
                    None => return Err(refused(&answer, self.http.is_hub(&url))),
                }
            }
            Ok(None)
        };
        ended(self.http.repeat("the manifest of the repository cannot be read", attempt).await)
    }

    /// The files among these that are sent to the storage.
    ///
    /// # Errors
    /// A file cannot be read, the repository ignores one, or the hub cannot be reached or refuses.
    async fn large<'f>(&self, files: &[&'f HashedFile]) -> Result<Vec<&'f HashedFile>> {
        #[derive(Deserialize)]
        struct Described {
            files: Vec<Wanted>,
        }
        let mut large: Set<String> = Set::default();
        let branch = encoded(&self.target.branch);
        for files in files.chunks(ASKED_AT_ONCE) {
            let described: Vec<Value> = files
                .iter()
                .map(|file| {
                    let sample = BASE64.encode(self.sample(file)?);
                    Ok(json!({ "path": file.name, "size": file.bytes, "sample": sample }))
                })
                .collect::<Result<_>>()?;
            let answer: Described =
                self.ask(&format!("preupload/{branch}"), &json!({ "files": described })).await?;
            if let Some(ignored) = answer.files.iter().find(|file| file.should_ignore) {
                return Err(Error::failed(format!("the repository's .gitignore excludes {}", ignored.path))
                    .with_help("remove the line from .gitignore on the hub"));
            }
            large.extend(
                answer.files.into_iter().filter(|file| file.upload_mode == "lfs").map(|file| file.path),
            );
        }
        let is_large = |file: &&HashedFile| match file.bytes {
            // The hub keeps empty files in Git.
            0 => false,
            bytes => bytes > MAX_INLINE_BYTES || large.contains(&file.name),
        };
        Ok(files.iter().copied().filter(is_large).collect())
    }

    /// The first bytes of a file.
    ///
    /// # Errors
    /// The file cannot be read.
    fn sample(&self, file: &HashedFile) -> Result<Vec<u8>> {
        let (path, mut sample) = (self.path(file), Vec::new());
        let read = File::open(&path).and_then(|file| file.take(SAMPLE_BYTES).read_to_end(&mut sample));
        read.map_err(|cause| Error::io("read", &path, cause))?;
        Ok(sample)
    }

    /// The storage for large files.
    fn storage(&self) -> Storage<'_> {
        let repository = format!("/{}{}", self.target.prefix(), self.target.repository());
        Storage {
            http: &self.http,
            address: self.address(&format!("{repository}.git/info/lfs/objects/batch")),
            branch: &self.target.branch,
            folder: &self.publication.folder,
            observer: self.observer,
        }
    }

    /// The body of the commit, one JSON object in each line, and the bytes of the files that are in it.
    ///
    /// # Errors
    /// A file cannot be read, or has changed.
    fn commit_body(&self, head: &str, changes: &Changes<'_>, large: &[&HashedFile]) -> Result<(Bytes, u64)> {
        let message = self.options.message.as_deref().map(str::trim).filter(|message| !message.is_empty());
        let message = message.map_or_else(|| self.default_message(), str::to_owned);
        let (summary, description) = message.split_once('\n').unwrap_or((&message, ""));
        let header = json!({ "summary": summary, "description": description.trim(), "parentCommit": head });
        let mut body = json!({ "key": "header", "value": header }).to_string();
        let large: Set<&String> = large.iter().map(|file| &file.name).collect();
        let mut inline = 0;
        for file in &changes.files {
            let line = if large.contains(&file.name) {
                let object =
                    json!({ "path": file.name, "algo": "sha256", "oid": file.sha256, "size": file.bytes });
                json!({ "key": "lfsFile", "value": object })
            } else {
                inline += file.bytes;
                let content = BASE64.encode(self.content(file)?);
                json!({ "key": "file", "value": { "path": file.name, "encoding": "base64", "content": content } })
            };
            body.push('\n');
            body.push_str(&line.to_string());
        }
        for path in &changes.removed {
            body.push('\n');
            body.push_str(&json!({ "key": "deletedFile", "value": { "path": path } }).to_string());
        }
        body.push('\n');
        Ok((body.into(), inline))
    }

    /// The message of a commit for which none is given.
    fn default_message(&self) -> String {
        let what = match self.publication.kind {
            PublishedKind::Output => "token ids",
            PublishedKind::Tokenizer => "tokenizer",
        };
        format!("Upload {what} with tokenmill {}", crate::VERSION)
    }

    /// The content of a small file.
    ///
    /// # Errors
    /// The file cannot be read, or has changed.
    fn content(&self, file: &HashedFile) -> Result<Vec<u8>> {
        let path = self.path(file);
        let content = std::fs::read(&path).map_err(|cause| Error::io("read", &path, cause))?;
        if sha256(&content) == file.sha256 { Ok(content) } else { Err(changed(&path)) }
    }

    /// Sends the commit once, and returns its id.
    ///
    /// # Errors
    /// The hub cannot be reached or refuses, or somebody else has committed.
    async fn commit(&self, body: Bytes) -> Result<String, Trouble> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Committed {
            commit_oid: String,
        }
        let url = self.api(&format!("commit/{}", encoded(&self.target.branch)));
        let headers = [("content-type", "application/x-ndjson")];
        let answer = self.http.send(Method::POST, &url, &headers, body, self.http.work_limit()).await?;
        if !answer.is_success() {
            return Err(refused(&answer, true));
        }
        // If the answer cannot be read, the branch is looked at again.
        let committed: Committed = serde_json::from_slice(&answer.body)
            .map_err(|cause| Trouble::passing(format!("its answer cannot be used: {cause}")))?;
        Ok(committed.commit_oid)
    }

    /// Sends a question about the repository in JSON, repeats it after a temporary failure, and reads the answer.
    ///
    /// # Errors
    /// The hub cannot be reached, refuses, or gives a wrong answer.
    async fn ask<T: DeserializeOwned>(&self, question: &str, details: &Value) -> Result<T> {
        let (url, body) = (self.api(question), Bytes::from(details.to_string()));
        let headers = [("content-type", "application/json")];
        let attempt = async || {
            let limit = self.http.answer_limit();
            let answer = self.http.send(Method::POST, &url, &headers, body.clone(), limit).await?;
            match answer.is_success() {
                true => Ok(answer),
                false => Err(refused(&answer, true)),
            }
        };
        let answer = ended(self.http.repeat("the repository cannot be asked about files", attempt).await)?;
        serde_json::from_slice(&answer.body).map_err(|cause| wrong_answer(&cause.to_string()))
    }

    /// An address at the hub.
    fn address(&self, path: &str) -> String {
        format!("{}{path}", self.settings.endpoint.trim_end_matches('/'))
    }

    /// An address of the hub's API for the repository.
    fn api(&self, question: &str) -> String {
        let (plural, repository) = (self.target.plural(), self.target.repository());
        self.address(&format!("/api/{plural}/{repository}/{question}"))
    }

    /// The path of a file.
    fn path(&self, file: &HashedFile) -> PathBuf {
        self.publication.folder.join(&file.name)
    }
}

/// A file of a push with its state.
fn state(file: &HashedFile, state: FileState) -> PushedFile {
    PushedFile { path: file.name.clone(), bytes: file.bytes, state }
}

/// Percent-encodes a text as a single segment of an address.
fn encoded(text: &str) -> String {
    utf8_percent_encode(text, &RESERVED).to_string()
}

/// The hub's code for a failure.
fn error_code(failed: &HFError) -> Option<&str> {
    match failed {
        HFError::RepoNotFound { context: Some(context), .. }
        | HFError::RevisionNotFound { context: Some(context), .. } => context.error_code.as_deref(),
        _ => None,
    }
}

/// The error for an answer of the hub that does not have the expected form.
fn wrong_answer(problem: &str) -> Error {
    let problem = format!("the hub gives an answer that cannot be used: {}", in_one_line(problem));
    Error::message(ErrorKind::Network, problem)
        .with_help("check HF_ENDPOINT, then run the same command again")
}
