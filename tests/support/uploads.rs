//! What the local hub takes: new repositories, large files by the protocol of Git LFS, and commits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use super::{Answer, COMMIT, CONVERTED_COMMIT, FakeHub, File, Request, Shelf, git_hash, sha256};

/// A header that the storage wants with every object, as stores with signed addresses do.
const WANTED_HEADER: (&str, &str) = ("x-wanted", "exactly");

/// What a hub needs to take files.
pub(super) struct Uploads {
    /// Whether the repository exists.
    exists: bool,
    /// Whether it was created as a private one.
    private: Option<bool>,
    /// The head of each branch.
    heads: BTreeMap<String, String>,
    /// The ids and messages of the commits that were made, in order.
    commits: Vec<(String, String)>,
    /// The objects of the storage by their SHA-256.
    objects: BTreeMap<String, Arc<Vec<u8>>>,
    /// The parts of objects that are not complete, by object and number.
    parts: BTreeMap<(String, usize), Vec<u8>>,
    /// Objects that are complete, but not confirmed.
    unverified: BTreeSet<String>,
    /// Requests with objects, or parts of objects, that were stored and confirmed before.
    sent_again: usize,
    /// Bytes from which an object is sent in parts, and the bytes of each.
    part_bytes: u64,
    /// Bytes from which a file of any name goes to the storage.
    large_from: u64,
    /// Why the storage refuses all objects: a code and a message.
    refusal: Option<(u16, &'static str)>,
}

impl Default for Uploads {
    fn default() -> Uploads {
        let branches = [("main", COMMIT), ("refs/convert/parquet", CONVERTED_COMMIT)];
        Uploads {
            exists: true,
            private: None,
            heads: branches.map(|(branch, commit)| (branch.to_owned(), commit.to_owned())).into(),
            commits: Vec::new(),
            objects: BTreeMap::new(),
            parts: BTreeMap::new(),
            unverified: BTreeSet::new(),
            sent_again: 0,
            part_bytes: u64::MAX,
            large_from: 100_000,
            refusal: None,
        }
    }
}

impl Uploads {
    /// The commit of a branch, encoded for an address, or of its own id.
    pub(super) fn commit_of(&self, revision: &str) -> Option<String> {
        let revision = revision.replace("%2F", "/");
        let is_commit = |id: &str| self.heads.values().any(|head| head == id) || self.made(id);
        self.heads.get(&revision).cloned().or_else(|| is_commit(&revision).then_some(revision))
    }

    /// Whether a commit of this id was made, or is the first one.
    fn made(&self, id: &str) -> bool {
        [COMMIT, CONVERTED_COMMIT].contains(&id) || self.commits.iter().any(|(made, _)| made == id)
    }

    /// Whether the repository exists.
    pub(super) fn exists(&self) -> bool {
        self.exists
    }
}

impl FakeHub {
    /// Starts a hub without the repository, which can be created.
    pub(crate) fn without_repository(name: &str) -> FakeHub {
        let hub = FakeHub::start(name);
        hub.shelf().uploads.exists = false;
        hub
    }

    /// Adds a branch with the files of `main`.
    pub(crate) fn add_branch(&self, branch: &str) {
        let mut shelf = self.shelf();
        let head = shelf.uploads.heads["main"].clone();
        shelf.uploads.heads.insert(branch.to_owned(), head);
    }

    /// Sends objects from this size on in parts of this size, and files from `large_from` on to the storage.
    pub(crate) fn take_in_parts(&self, part_bytes: u64, large_from: u64) {
        let mut shelf = self.shelf();
        (shelf.uploads.part_bytes, shelf.uploads.large_from) = (part_bytes, large_from);
    }

    /// Refuses all objects with a code and a message, until `None` is given.
    pub(crate) fn refuse_objects(&self, refusal: Option<(u16, &'static str)>) {
        self.shelf().uploads.refusal = refusal;
    }

    /// Number of requests with objects, or parts of objects, that the storage had already.
    pub(crate) fn sent_again(&self) -> usize {
        self.shelf().uploads.sent_again
    }

    /// The messages of the commits that were made.
    pub(crate) fn commits(&self) -> Vec<String> {
        self.shelf().uploads.commits.iter().map(|(_, message)| message.clone()).collect()
    }

    /// Whether the repository was created as a private one; `None` if it was not created.
    pub(crate) fn created_private(&self) -> Option<bool> {
        self.shelf().uploads.private
    }

    /// The files at the head of a branch.
    pub(crate) fn files_of(&self, branch: &str) -> BTreeMap<String, Arc<Vec<u8>>> {
        let shelf = self.shelf();
        let head = &shelf.uploads.heads[branch];
        let files = shelf.files.iter().filter(|((commit, _), _)| commit == head);
        files.map(|((_, path), file)| (path.clone(), Arc::clone(&file.bytes))).collect()
    }
}

impl Shelf {
    /// Answers a request that changes the hub, or prepares a change; `None` if it is none.
    pub(super) fn take(&mut self, request: &Request) -> Option<Answer> {
        let path = request.target.split('?').next().unwrap_or_default().to_owned();
        if request.method != "POST" {
            return None;
        }
        if path == "/api/repos/create" {
            return Some(self.create(request));
        }
        let name = self.name.clone();
        let mut rest = None;
        for (question, files) in [("datasets", "/datasets"), ("models", "")] {
            let api = path.strip_prefix(&format!("/api/{question}/{name}/"));
            rest = rest.or(api).or(path.strip_prefix(&format!("{files}/{name}.git/info/lfs/")));
        }
        let (step, what) = rest?.split_once('/')?;
        if !["preupload", "commit", "objects", "complete", "verify"].contains(&step) {
            return None;
        }
        if !request.token {
            return Some(refusal(401, "Invalid username or password."));
        }
        if !self.uploads.exists {
            return Some(Answer::missing("RepoNotFound"));
        }
        Some(match step {
            "preupload" => self.preupload(request),
            "commit" => self.commit(what, request),
            "objects" => self.batch(request),
            "complete" => self.complete(what, request),
            _ => self.verify(request),
        })
    }

    fn create(&mut self, request: &Request) -> Answer {
        let asked = request.json();
        let name = format!(
            "{}/{}",
            asked["organization"].as_str().unwrap_or(""),
            asked["name"].as_str().unwrap_or("")
        );
        if !request.token {
            return refusal(401, "Invalid username or password.");
        }
        if name != self.name {
            return refusal(403, "You don't have the rights to create a repository under this namespace");
        }
        if self.uploads.exists {
            return refusal(409, "You already created this repository");
        }
        (self.uploads.exists, self.uploads.private) = (true, asked["private"].as_bool());
        Answer::json(&json!({ "url": format!("{}/{name}", self.endpoint) }))
    }

    fn preupload(&self, request: &Request) -> Answer {
        let asked = request.json();
        let files = asked["files"].as_array().cloned().unwrap_or_default();
        let mode = |file: &Value| {
            let path = file["path"].as_str().unwrap_or_default();
            let is_large = file["size"].as_u64().unwrap_or(0) >= self.uploads.large_from;
            let is_binary = [".parquet", ".bin"].iter().any(|ending| path.ends_with(ending));
            let mode = if is_large || is_binary { "lfs" } else { "regular" };
            json!({ "path": path, "uploadMode": mode, "shouldIgnore": path.contains("ignored"), "oid": null })
        };
        Answer::json(&json!({ "files": files.iter().map(mode).collect::<Vec<_>>() }))
    }

    fn batch(&mut self, request: &Request) -> Answer {
        let asked = request.json();
        let transfers = asked["transfers"].as_array().cloned().unwrap_or_default();
        assert!(transfers.contains(&json!("basic")) && transfers.contains(&json!("multipart")));
        let objects = asked["objects"].as_array().cloned().unwrap_or_default();
        let objects: Vec<Value> = objects.iter().map(|object| self.object(object)).collect();
        Answer::json(&json!({ "transfer": "basic", "objects": objects }))
    }

    /// The answer about one object.
    fn object(&mut self, asked: &Value) -> Value {
        let (oid, size) = (asked["oid"].as_str().unwrap_or_default(), asked["size"].as_u64().unwrap_or(0));
        let mut answer = json!({ "oid": oid, "size": size, "authenticated": true });
        if let Some((code, message)) = self.uploads.refusal {
            answer["error"] = json!({ "code": code, "message": message });
        } else if !self.uploads.objects.contains_key(oid) || self.uploads.unverified.contains(oid) {
            self.signatures += 1;
            let (signature, store) = (self.signatures, &self.other_host);
            let hub = format!("{}/{}.git/info/lfs", self.endpoint, self.name);
            let part_bytes = self.uploads.part_bytes;
            let upload = if size > part_bytes {
                let mut header = json!({ "chunk_size": part_bytes.to_string() });
                for part in 1..=size.div_ceil(part_bytes) {
                    let number = part.to_string();
                    header[&number] = json!(format!("{store}/parts/{oid}/{number}?signature={signature}"));
                }
                json!({ "href": format!("{hub}/complete/{oid}"), "header": header })
            } else {
                let (name, value) = WANTED_HEADER;
                json!({ "href": format!("{store}/objects/{oid}?signature={signature}"), "header": { name: value } })
            };
            answer["actions"] = json!({ "upload": upload, "verify": { "href": format!("{hub}/verify/x") } });
        }
        answer
    }

    fn complete(&mut self, oid: &str, request: &Request) -> Answer {
        let asked = request.json();
        let mut bytes = Vec::new();
        for (number, part) in (1..).zip(asked["parts"].as_array().into_iter().flatten()) {
            let Some(content) = self.uploads.parts.get(&(oid.to_owned(), number)) else {
                return refusal(400, "a part is missing");
            };
            if part != &json!({ "partNumber": number, "etag": format!("\"{}\"", sha256(content)) }) {
                return refusal(400, "a part differs");
            }
            bytes.extend_from_slice(content);
        }
        self.store(oid, bytes)
    }

    /// Keeps an object that has the right hash.
    fn store(&mut self, oid: &str, bytes: Vec<u8>) -> Answer {
        if sha256(&bytes) != oid {
            return refusal(400, "the object has another hash");
        }
        self.uploads.parts.retain(|(of, _), _| of != oid);
        self.uploads.objects.insert(oid.to_owned(), Arc::new(bytes));
        self.uploads.unverified.insert(oid.to_owned());
        Answer::json(&json!({}))
    }

    fn verify(&mut self, request: &Request) -> Answer {
        let asked = request.json();
        let oid = asked["oid"].as_str().unwrap_or_default();
        let size = self.uploads.objects.get(oid).map(|object| size_of(object));
        if size.is_none() || size != asked["size"].as_u64() {
            return refusal(404, "no such object");
        }
        self.uploads.unverified.remove(oid);
        Answer::json(&json!({}))
    }

    /// Takes an object, or a part of one, at the other host.
    pub(super) fn put_object(&mut self, request: &Request) -> Answer {
        let path = request.target.split('?').next().unwrap_or_default();
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let body = request.body.clone();
        let is_stored = parts.get(1).is_some_and(|oid| {
            self.uploads.objects.contains_key(*oid) && !self.uploads.unverified.contains(*oid)
        });
        self.uploads.sent_again += usize::from(is_stored);
        match parts.as_slice() {
            ["objects", oid] if request.header(WANTED_HEADER.0) == Some(WANTED_HEADER.1) => {
                self.store(oid, body)
            }
            ["parts", oid, number] => {
                let tag = format!("ETag: \"{}\"\r\n", sha256(&body));
                let number = number.parse().unwrap_or(0);
                self.uploads.parts.insert(((*oid).to_owned(), number), body);
                Answer::new(200, tag, "")
            }
            _ => refusal(403, "SignatureDoesNotMatch"),
        }
    }

    /// Makes a commit of all lines of a request, or of none.
    fn commit(&mut self, branch: &str, request: &Request) -> Answer {
        let branch = branch.replace("%2F", "/");
        let Some(head) = self.uploads.heads.get(&branch).cloned() else {
            return Answer::missing("RevisionNotFound");
        };
        let lines: Vec<Value> = request
            .body
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap_or_default())
            .collect();
        let header = &lines[0]["value"];
        if header["parentCommit"] != json!(head) {
            return refusal(412, "A commit has happened since. Please refresh and try again.");
        }
        let old = self.files.iter().filter(|((commit, _), _)| *commit == head);
        let mut files: BTreeMap<String, File> =
            old.map(|((_, path), file)| (path.clone(), file.clone())).collect();
        for line in &lines[1..] {
            let (value, path) = (&line["value"], line["value"]["path"].as_str().unwrap_or_default());
            let (bytes, large) = match line["key"].as_str() {
                Some("file") => {
                    let content = BASE64.decode(value["content"].as_str().unwrap_or_default());
                    (Arc::new(content.unwrap_or_default()), false)
                }
                Some("lfsFile") => {
                    let oid = value["oid"].as_str().unwrap_or_default();
                    match self.uploads.objects.get(oid).filter(|_| !self.uploads.unverified.contains(oid)) {
                        Some(object) => (Arc::clone(object), true),
                        None => {
                            return refusal(400, "Your push was rejected because an LFS pointer is missing");
                        }
                    }
                }
                Some("deletedFile") => {
                    files.remove(path);
                    continue;
                }
                _ => return refusal(400, "an unknown operation"),
            };
            let (sha256, git_hash) = (sha256(&bytes), git_hash(&bytes));
            files.insert(path.to_owned(), File { bytes, large, sha256, git_hash });
        }
        let message = header["summary"].as_str().unwrap_or_default();
        let id = self.add_commit(&branch, message, files);
        Answer::json(
            &json!({ "success": true, "commitOid": id, "commitUrl": format!("{}/commit/{id}", self.endpoint) }),
        )
    }

    /// Makes a commit of these files the head of a branch, and returns its id.
    fn add_commit(&mut self, branch: &str, message: &str, files: BTreeMap<String, File>) -> String {
        let id = git_hash(format!("{branch} {}", self.uploads.commits.len()).as_bytes());
        self.files.extend(files.into_iter().map(|(path, file)| ((id.clone(), path), file)));
        self.uploads.commits.push((id.clone(), message.to_owned()));
        self.uploads.heads.insert(branch.to_owned(), id.clone());
        id
    }

    /// Makes a commit as somebody else.
    pub(super) fn commit_by_others(&mut self) {
        let head = self.uploads.heads["main"].clone();
        let old = self.files.iter().filter(|((commit, _), _)| *commit == head);
        let mut files: BTreeMap<String, File> =
            old.map(|((_, path), file)| (path.clone(), file.clone())).collect();
        let bytes = Arc::new(self.uploads.commits.len().to_string().into_bytes());
        let (sha256, git_hash) = (sha256(&bytes), git_hash(&bytes));
        files.insert("of-others.txt".to_owned(), File { bytes, large: false, sha256, git_hash });
        self.add_commit("main", "by others", files);
    }
}

/// The number of bytes.
fn size_of(bytes: &[u8]) -> u64 {
    bytes.len().try_into().expect("a size")
}

/// An answer that refuses, in the form of the hub.
fn refusal(status: u16, message: &str) -> Answer {
    Answer::new(status, format!("X-Error-Message: {message}\r\n"), "{}")
}
