//! A local server for tests that behaves like the Hugging Face hub and fails on request.
//!
//! It has one repository, as a dataset and as a model, to which commits can be made. Small files come from the hub
//! itself, behind a redirect to a relative address. Large files come from another host, at an address with a new
//! signature for each request.

#![allow(dead_code, reason = "each of the tests that share it uses a part")]

mod uploads;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use uploads::Uploads;

/// The commit of `main`.
pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
/// The commit of `refs/convert/parquet`, the branch of files that the hub converted to Parquet.
pub(crate) const CONVERTED_COMMIT: &str = "fedcba9876543210fedcba9876543210fedcba98";
/// Entries per page of the file tree.
const PAGE: usize = 2;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Requests to `/api`: facts about the repository and lists of its files.
    Api,
    /// Files, requested from the hub itself.
    Resolve,
    /// Files, requested from the other host.
    Files,
    /// Requests for a new repository.
    Create,
    /// Questions how files are to be sent.
    Preupload,
    /// Questions to the storage of large files, and messages that they are complete.
    Batch,
    /// Large files or parts of them, sent to the other host.
    Store,
    /// Commits.
    Commit,
}

impl Part {
    /// The kind of a request to the hub or to the other host.
    fn of(request: &Request, other_host: bool) -> Part {
        let is_post = request.method == "POST";
        let has = |text: &str| request.target.contains(text);
        match (other_host, request.target.starts_with("/api/")) {
            (true, _) if request.method == "PUT" => Part::Store,
            (true, _) => Part::Files,
            (false, _) if is_post && has("/api/repos/create") => Part::Create,
            (false, true) if is_post && has("/preupload/") => Part::Preupload,
            (false, true) if is_post && has("/commit/") => Part::Commit,
            (false, true) => Part::Api,
            (false, false) if is_post => Part::Batch,
            (false, false) => Part::Resolve,
        }
    }
}

/// How one answer goes wrong.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The answer is correct. It delays the faults queued after it.
    Right,
    /// These bytes are the whole response, head and body.
    Raw(Vec<u8>),
    /// An empty body with this status and these headers, each ended by `\r\n`.
    Status(u16, &'static str),
    /// The connection ends after this many bytes of the body, before the declared length.
    CutAfter(usize),
    /// Nothing is sent for this time, then the connection ends.
    Stall(Duration),
    /// This body, with its correct length.
    Body(&'static [u8]),
    /// The headers give this entity tag instead of the right one.
    Etag(&'static str),
    /// A request for a range gets the whole file.
    Whole,
    /// A redirect to the same address.
    Loop,
    /// The connection ends after this many bytes of the request's body.
    Drop(usize),
    /// Somebody else makes a commit before the request is carried out.
    Overtaken,
}

/// A request, and the number of bytes of the body that were sent in response.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) part: Part,
    pub(crate) line: String,
    pub(crate) from: usize,
    pub(crate) token: bool,
    pub(crate) sent: usize,
}

#[derive(Clone)]
struct File {
    bytes: Arc<Vec<u8>>,
    large: bool,
    sha256: String,
    /// Git's hash of the file, or of the pointer to a large one.
    git_hash: String,
}

#[derive(Default)]
struct Shelf {
    /// The name of the repository: `namespace/name`.
    name: String,
    /// Whether large files are stored by Xet.
    xet: bool,
    /// Bytes per second from the other host; unlimited if `None`.
    rate: Option<usize>,
    /// Number of connections that clients have not left.
    conversations: usize,
    files: BTreeMap<(String, String), File>,
    faults: VecDeque<(Part, Fault)>,
    asked: Vec<Asked>,
    /// Number of requests that [`FakeHub::asked`] has already returned.
    forgotten: usize,
    endpoint: String,
    other_host: String,
    signatures: usize,
    uploads: Uploads,
}

/// A running hub. It serves until the process ends.
#[derive(Clone)]
pub(crate) struct FakeHub {
    shelf: Arc<Mutex<Shelf>>,
    /// The base URL.
    pub(crate) endpoint: String,
}

impl FakeHub {
    /// Starts a hub with one empty repository, `namespace/name`.
    pub(crate) fn start(name: &str) -> FakeHub {
        let shelf = Arc::new(Mutex::new(Shelf { name: name.to_owned(), ..Shelf::default() }));
        let other_host = listen(&shelf, true).replace("127.0.0.1", "localhost");
        let endpoint = listen(&shelf, false);
        let hub = FakeHub { shelf, endpoint };
        hub.shelf().other_host = other_host;
        hub.shelf().endpoint.clone_from(&hub.endpoint);
        hub
    }

    /// Adds a file to a commit. A large file is served by the other host.
    pub(crate) fn put(&self, commit: &str, path: &str, bytes: impl Into<Vec<u8>>, large: bool) {
        let bytes = bytes.into();
        let sha256 = sha256(&bytes);
        let git_hash = match large {
            true => git_hash(pointer(&sha256, bytes.len()).as_bytes()),
            false => git_hash(&bytes),
        };
        let file = File { bytes: Arc::new(bytes), large, sha256, git_hash };
        self.shelf().files.insert((commit.to_owned(), path.to_owned()), file);
    }

    /// Queues a fault for the next request of this kind that has none.
    pub(crate) fn fail(&self, part: Part, fault: Fault) {
        self.shelf().faults.push_back((part, fault));
    }

    /// Removes all queued faults.
    pub(crate) fn forgive(&self) {
        self.shelf().faults.clear();
    }

    /// Waits until all clients have left. What a killed client had sent may be taken after its end.
    ///
    /// # Panics
    /// If a client stays for 10 seconds.
    pub(crate) fn wait_until_left(&self) {
        for _ in 0..10_000 {
            if self.shelf().conversations == 0 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        panic!("a client stays");
    }

    /// Limits the other host to this many bytes per second; `None` lifts the limit.
    pub(crate) fn slow_down(&self, rate: Option<usize>) {
        self.shelf().rate = rate;
    }

    /// Stores large files by Xet from now on.
    pub(crate) fn store_by_xet(&self) {
        self.shelf().xet = true;
    }

    /// Returns the requests since the last call.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        let mut shelf = self.shelf();
        shelf.forgotten += shelf.asked.len();
        std::mem::take(&mut shelf.asked)
    }

    /// Number of queued faults that have not happened yet.
    pub(crate) fn faults_left(&self) -> usize {
        self.shelf().faults.len()
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        lock(&self.shelf)
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The id that Git gives to a file of these bytes (SHA-1 with a blob header).
pub(crate) fn git_hash(bytes: &[u8]) -> String {
    let hash = Sha1::new().chain_update(format!("blob {}\0", bytes.len()));
    hex(&hash.chain_update(bytes).finalize())
}

/// The file that Git keeps in place of a large one.
fn pointer(sha256: &str, bytes: usize) -> String {
    format!("version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {bytes}\n")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn lock(shelf: &Mutex<Shelf>) -> MutexGuard<'_, Shelf> {
    shelf.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen(shelf: &Arc<Mutex<Shelf>>, other_host: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let shelf = Arc::clone(shelf);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let shelf = Arc::clone(&shelf);
            lock(&shelf).conversations += 1;
            std::thread::spawn(move || {
                // A client that disconnects in the middle of an answer is not an error here.
                drop(converse(stream, &shelf, other_host));
                lock(&shelf).conversations -= 1;
            });
        }
    });
    address
}

pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    from: Option<usize>,
    /// End of the requested range, exclusive.
    to: Option<usize>,
    pub(crate) token: bool,
    /// The entity tag that the client requires (`If-Match`).
    pub(crate) if_match: Option<String>,
    headers: BTreeMap<String, String>,
    length: usize,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn read(stream: &TcpStream) -> std::io::Result<Request> {
        let mut reader = BufReader::new(stream);
        let mut request = Request::read_head(&mut reader)?;
        request.read_body(&mut reader, usize::MAX)?;
        Ok(request)
    }

    /// Reads up to `most` bytes of the body.
    fn read_body(&mut self, reader: &mut impl std::io::Read, most: usize) -> std::io::Result<()> {
        self.body = vec![0; self.length.min(most)];
        reader.read_exact(&mut self.body)
    }

    /// The value of a header. The name is in lower case.
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; null if it is none.
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    fn read_head(reader: &mut impl BufRead) -> std::io::Result<Request> {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let mut words = line.split(' ').map(str::to_owned);
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (mut from, mut to, mut token, mut if_match, mut length) = (None, None, false, None, 0);
        let mut headers = BTreeMap::new();
        loop {
            let mut header = String::new();
            reader.read_line(&mut header)?;
            let Some((name, value)) = header.trim_end().split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
            match name.to_ascii_lowercase().as_str() {
                "authorization" => token = true,
                "if-match" => if_match = Some(value.trim().to_owned()),
                "range" => {
                    let (first, last) =
                        value.trim().trim_start_matches("bytes=").split_once('-').unwrap_or_default();
                    from = first.parse().ok();
                    to = last.parse().ok().map(|last: usize| last + 1);
                }
                "content-length" => length = value.trim().parse().unwrap_or(0),
                _ => {}
            }
        }
        let body = Vec::new();
        Ok(Request { method, target, from, to, token, if_match, headers, length, body })
    }
}

/// A response before a fault is applied to it.
pub(crate) struct Answer {
    status: u16,
    headers: String,
    body: Arc<Vec<u8>>,
    /// The part of the body to send: `from..to`.
    from: usize,
    to: usize,
}

impl Answer {
    pub(crate) fn new(status: u16, headers: impl Into<String>, body: impl Into<Vec<u8>>) -> Answer {
        Answer { status, headers: headers.into(), body: Arc::new(body.into()), from: 0, to: usize::MAX }
    }

    fn json(value: &Value) -> Answer {
        Answer::new(200, "Content-Type: application/json\r\n", value.to_string())
    }

    fn missing(code: &str) -> Answer {
        Answer::new(404, format!("X-Error-Code: {code}\r\nX-Error-Message: {code}\r\n"), "{}")
    }

    /// A file, or the range of it that is requested.
    pub(crate) fn file(bytes: &Arc<Vec<u8>>, request: &Request, headers: String) -> Answer {
        let total = bytes.len();
        let whole = Answer { status: 200, headers, body: Arc::clone(bytes), from: 0, to: total };
        match request.from {
            Some(from) if from >= total => {
                Answer::new(416, format!("Content-Range: bytes */{total}\r\n"), "")
            }
            Some(from) => {
                let to = request.to.unwrap_or(total).min(total);
                let headers = format!("{}Content-Range: bytes {from}-{}/{total}\r\n", whole.headers, to - 1);
                Answer { status: 206, headers, from, to, ..whole }
            }
            None => whole,
        }
    }
}

fn converse(mut stream: TcpStream, shelf: &Mutex<Shelf>, other_host: bool) -> std::io::Result<()> {
    let mut reader = BufReader::new(&stream);
    let mut request = Request::read_head(&mut reader)?;
    let part = Part::of(&request, other_host);
    let (dropped, rate) = {
        let shelf = lock(shelf);
        let fault = shelf.faults.iter().find(|(of, _)| *of == part);
        let dropped = fault.and_then(|(_, fault)| match fault {
            Fault::Drop(bytes) => Some(*bytes),
            _ => None,
        });
        (dropped, shelf.rate.filter(|_| part == Part::Store))
    };
    if let Some(rate) = rate {
        let micros = request.length.saturating_mul(1_000_000) / rate;
        std::thread::sleep(Duration::from_micros(micros.try_into().expect("a short time")));
    }
    request.read_body(&mut reader, dropped.unwrap_or(usize::MAX))?;
    let (number, fault, answer, rate) = {
        let mut shelf = lock(shelf);
        let line = format!("{} {}", request.method, request.target);
        let (from, token) = (request.from.unwrap_or(0), request.token);
        let number = shelf.forgotten + shelf.asked.len();
        shelf.asked.push(Asked { part, line, from, token, sent: 0 });
        let at = shelf.faults.iter().position(|(of, _)| *of == part);
        let fault = at.and_then(|at| shelf.faults.remove(at)).map(|(_, fault)| fault);
        if matches!(fault, Some(Fault::Whole)) {
            request.from = None;
        }
        match fault {
            Some(Fault::Drop(_)) => return Ok(()),
            Some(Fault::Overtaken) => shelf.commit_by_others(),
            _ => {}
        }
        // A change that is answered by an error is not made.
        let is_refused =
            matches!(fault, Some(Fault::Status(..) | Fault::Stall(_))) && request.method != "GET";
        let answer = match other_host {
            _ if is_refused => Answer::new(500, "", ""),
            true => shelf.other(&request),
            false => shelf.hub(&request),
        };
        (number, fault, answer, shelf.rate.filter(|_| other_host))
    };
    send(&mut stream, &request, answer, fault, rate, |bytes| {
        let mut shelf = lock(shelf);
        let place = number.checked_sub(shelf.forgotten);
        if let Some(asked) = place.and_then(|place| shelf.asked.get_mut(place)) {
            asked.sent += bytes;
        }
    })
}

/// Sends an answer with a fault applied. Calls `told` with the number of bytes after each block of the body.
pub(crate) fn send(
    stream: &mut TcpStream,
    request: &Request,
    answer: Answer,
    fault: Option<Fault>,
    rate: Option<usize>,
    mut told: impl FnMut(usize),
) -> std::io::Result<()> {
    let Answer { mut status, mut headers, mut body, mut from, to } = answer;
    let mut cut = usize::MAX;
    match fault {
        Some(Fault::Raw(bytes)) => return stream.write_all(&bytes),
        Some(Fault::Status(other, more)) => {
            (status, headers, body, from) = (other, more.to_owned(), Arc::default(), 0);
        }
        Some(Fault::CutAfter(bytes)) => cut = bytes,
        Some(Fault::Stall(time)) => {
            std::thread::sleep(time);
            return Ok(());
        }
        Some(Fault::Body(other)) => (status, body, from) = (200, Arc::new(other.to_vec()), 0),
        Some(Fault::Etag(etag)) => {
            headers = headers
                .lines()
                .filter(|line| !line.to_ascii_lowercase().contains("etag"))
                .fold(String::new(), |all, line| all + line + "\r\n");
            headers += &format!("ETag: \"{etag}\"\r\n");
        }
        Some(Fault::Loop) => (status, headers) = (302, format!("Location: {}\r\n", request.target)),
        Some(Fault::Whole | Fault::Right | Fault::Drop(_) | Fault::Overtaken) | None => {}
    }
    let rest = &body[from..to.min(body.len())];
    let length = rest.len();
    // The head goes out in one write. Several small packets would wait for each other's acknowledgement.
    let head =
        format!("HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n");
    stream.write_all(head.as_bytes())?;
    if request.method == "HEAD" {
        return Ok(());
    }
    let rest = &rest[..rest.len().min(cut)];
    for block in rest.chunks(rate.map_or(1 << 20, |rate| rate.div_ceil(50))) {
        stream.write_all(block)?;
        told(block.len());
        if rate.is_some() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

impl Shelf {
    fn hub(&mut self, request: &Request) -> Answer {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        if let Some(answer) = self.take(request) {
            return answer;
        }
        if !self.uploads.exists() {
            return Answer::missing("RepoNotFound");
        }
        let name = self.name.clone();
        for (question, files) in [("datasets", "/datasets"), ("models", "")] {
            if let Some(question) = path.strip_prefix(&format!("/api/{question}/{name}/")) {
                return self.api(&format!("/{question}"), query, request);
            }
            if let Some(rest) = path.strip_prefix(&format!("{files}/{name}/resolve/")) {
                return self.resolve(rest);
            }
        }
        if path == format!("/api/datasets/{name}") || path == format!("/api/models/{name}") {
            return self.api("", query, request);
        }
        match path.strip_prefix("/resolve-cache/").and_then(|rest| self.file(rest)) {
            Some((commit, file)) => {
                let headers = format!("ETag: \"{}\"\r\nX-Repo-Commit: {commit}\r\n", file.git_hash);
                Answer::file(&file.bytes, request, headers)
            }
            None => Answer::missing("RepoNotFound"),
        }
    }

    fn api(&self, question: &str, query: &str, request: &Request) -> Answer {
        if let Some(rest) = question.strip_prefix("/tree/") {
            return self.tree(rest, query, request);
        }
        if let Some(rest) = question.strip_prefix("/paths-info/") {
            let Some(commit) = self.commit_of(rest) else { return Answer::missing("RevisionNotFound") };
            let asked = request.json();
            let wanted =
                |path: &str| asked["paths"].as_array().is_some_and(|all| all.iter().any(|one| one == path));
            return Answer::json(
                &self
                    .nodes(&commit)
                    .into_iter()
                    .filter(|node| node["path"].as_str().is_some_and(wanted))
                    .collect(),
            );
        }
        let revision = question.strip_prefix("/revision/").unwrap_or("main");
        let Some(commit) = self.commit_of(revision) else { return Answer::missing("RevisionNotFound") };
        let siblings: Vec<Value> =
            self.nodes(&commit).iter().map(|node| json!({"rfilename": node["path"]})).collect();
        Answer::json(
            &json!({"id": self.name, "sha": commit, "siblings": siblings, "private": false, "tags": [],
            "downloads": 0, "likes": 0, "lastModified": "2026-01-01T00:00:00.000Z"}),
        )
    }

    /// One page of the file tree, with a `Link` header to the next.
    fn tree(&self, rest: &str, query: &str, request: &Request) -> Answer {
        let (revision, folder) = rest.split_once('/').unwrap_or((rest, ""));
        let Some(commit) = self.commit_of(revision) else { return Answer::missing("RevisionNotFound") };
        let mut nodes = self.nodes(&commit);
        nodes.extend(self.folders(&commit));
        let recursive = query.split('&').any(|part| part.eq_ignore_ascii_case("recursive=true"));
        let below = |path: &str| match path.strip_prefix(folder).map(|rest| rest.trim_start_matches('/')) {
            Some(rest) => !rest.is_empty() && (recursive || !rest.contains('/')),
            None => false,
        };
        nodes.retain(|node| node["path"].as_str().is_some_and(below));
        let cursor: usize =
            query.split('&').find_map(|part| part.strip_prefix("cursor=")?.parse().ok()).unwrap_or(0);
        let mut answer = Answer::json(&nodes.iter().skip(cursor).take(PAGE).cloned().collect());
        if cursor + PAGE < nodes.len() {
            let base = request.target.split("&cursor=").next().unwrap_or_default();
            let mark = if base.contains('?') { '&' } else { '?' };
            answer.headers +=
                &format!("Link: <{}{base}{mark}cursor={}>; rel=\"next\"\r\n", self.endpoint, cursor + PAGE);
        }
        answer
    }

    fn nodes(&self, commit: &str) -> Vec<Value> {
        let of_commit = self.files.iter().filter(|((of, _), _)| of == commit);
        of_commit
            .map(|((_, path), file)| {
                let bytes = &file.bytes;
                let mut node =
                    json!({"type": "file", "oid": file.git_hash, "size": bytes.len(), "path": path});
                if file.large {
                    node["lfs"] = json!({"oid": file.sha256, "size": bytes.len(), "pointerSize": 128});
                    if self.xet {
                        node["xetHash"] = json!(file.sha256);
                    }
                }
                node
            })
            .collect()
    }

    fn folders(&self, commit: &str) -> Vec<Value> {
        let paths = self.files.keys().filter(|(of, _)| of == commit).map(|(_, path)| path);
        let folders: BTreeSet<&str> =
            paths.flat_map(|path| path.match_indices('/').map(|(at, _)| &path[..at])).collect();
        folders
            .iter()
            .map(|path| json!({"type": "directory", "oid": COMMIT, "size": 0, "path": path}))
            .collect()
    }

    fn file(&self, rest: &str) -> Option<(String, File)> {
        let (revision, path) = rest.split_once('/')?;
        let commit = self.commit_of(revision)?;
        let path = path.replace("%20", " ").replace("%3A", ":");
        Some((commit.clone(), self.files.get(&(commit, path))?.clone()))
    }

    /// Redirects a large file to the other host, a small one to a relative address on this host.
    fn resolve(&mut self, rest: &str) -> Answer {
        let Some((commit, file)) = self.file(rest) else { return Answer::missing("EntryNotFound") };
        if file.large {
            self.signatures += 1;
            let mut headers = format!(
                "Location: {}/{rest}?signature={}\r\nX-Linked-Etag: \"{}\"\r\nX-Linked-Size: {}\r\nX-Repo-Commit: {commit}\r\n",
                self.other_host,
                self.signatures,
                file.sha256,
                file.bytes.len()
            );
            if self.xet {
                let token = format!("{}/api/models/{}/xet-read-token/{commit}", self.endpoint, self.name);
                headers += &format!("X-Xet-Hash: {}\r\nLink: <{token}>; rel=\"xet-auth\"\r\n", file.sha256);
            }
            return Answer::new(302, headers, "");
        }
        let etag = &file.git_hash;
        let headers =
            format!("Location: /resolve-cache/{rest}\r\nETag: \"{etag}\"\r\nX-Repo-Commit: {commit}\r\n");
        Answer::new(307, headers, "")
    }

    /// The commit of a branch or of its own id.
    fn commit_of(&self, revision: &str) -> Option<String> {
        self.uploads.commit_of(revision)
    }

    fn other(&mut self, request: &Request) -> Answer {
        if request.method == "PUT" {
            return self.put_object(request);
        }
        let path = request.target.split('?').next().unwrap_or_default().trim_start_matches('/');
        match self.file(path) {
            // The other host identifies files by its own entity tags.
            Some((_, file)) => Answer::file(&file.bytes, request, "ETag: \"of-the-store\"\r\n".to_owned()),
            None => Answer::new(404, "", ""),
        }
    }
}
