//! A local object store for tests. It answers listings, reads and uploads as Amazon S3, Google Cloud Storage and Azure
//! Blob Storage do, and fails on request.

#![allow(dead_code, reason = "each of those that share it uses a part")]

use std::collections::{BTreeMap, VecDeque};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::fake::{Answer, Fault, Request, send, sha256};

/// The name of the only bucket.
pub(crate) const BUCKET: &str = "words";
/// Objects per page of a listing.
const PAGE: usize = 2;

#[derive(Default)]
struct Shelf {
    objects: BTreeMap<String, Object>,
    /// Parts of unfinished uploads, by the name of the object and the id of the upload. Azure has one without an id for
    /// each object.
    uploads: BTreeMap<(String, String), BTreeMap<String, Vec<u8>>>,
    faults: VecDeque<Fault>,
    /// Faults for requests that contain a text.
    faults_at: Vec<(String, Fault)>,
    asked: Vec<String>,
    /// Every request of the store's life that changed it, as method and name.
    changes: Vec<String>,
    read_only: bool,
    /// Time that each request takes.
    delay: Duration,
    /// Number of uploads so far, for their ids.
    begun: usize,
}

#[derive(Clone)]
struct Object {
    bytes: Arc<Vec<u8>>,
    tag: String,
}

impl Object {
    fn new(bytes: Vec<u8>) -> Object {
        Object { tag: tag(&bytes), bytes: Arc::new(bytes) }
    }
}

/// A running store. It serves until the process ends.
pub(crate) struct Bucket {
    shelf: Arc<Mutex<Shelf>>,
    /// The base URL.
    pub(crate) endpoint: String,
}

impl Bucket {
    pub(crate) fn start() -> Bucket {
        let shelf = Arc::new(Mutex::new(Shelf::default()));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let served = Arc::clone(&shelf);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shelf = Arc::clone(&served);
                // A client that disconnects in the middle of an answer is not an error here.
                std::thread::spawn(move || drop(converse(stream, &shelf)));
            }
        });
        Bucket { shelf, endpoint }
    }

    pub(crate) fn put(&self, name: &str, bytes: impl Into<Vec<u8>>) {
        self.shelf().objects.insert(name.to_owned(), Object::new(bytes.into()));
    }

    pub(crate) fn remove(&self, name: &str) {
        self.shelf().objects.remove(name).expect("an object");
    }

    /// All objects below a folder, by their names relative to it.
    pub(crate) fn objects(&self, folder: &str) -> BTreeMap<String, Vec<u8>> {
        let shelf = self.shelf();
        let below = shelf.objects.iter().filter_map(|(name, object)| {
            let name = name.strip_prefix(folder)?.strip_prefix('/')?;
            Some((name.to_owned(), object.bytes.to_vec()))
        });
        below.collect()
    }

    /// Number of uploads in parts that were begun, and neither completed nor aborted.
    pub(crate) fn unfinished(&self) -> usize {
        self.shelf().uploads.len()
    }

    /// Number of parts in such uploads.
    pub(crate) fn unfinished_parts(&self) -> usize {
        self.shelf().uploads.values().map(BTreeMap::len).sum()
    }

    /// Returns the changes of objects since the last call: `PUT` and `DELETE` with the name.
    pub(crate) fn changes(&self) -> Vec<String> {
        std::mem::take(&mut self.shelf().changes)
    }

    /// Refuses every request that would change something, or accepts them again.
    pub(crate) fn set_read_only(&self, read_only: bool) {
        self.shelf().read_only = read_only;
    }

    /// Makes each request take this time.
    pub(crate) fn set_delay(&self, delay: Duration) {
        self.shelf().delay = delay;
    }

    /// The next request with `text` in its method and target goes wrong.
    pub(crate) fn fail_at(&self, text: &str, fault: Fault) {
        self.shelf().faults_at.push((text.to_owned(), fault));
    }

    /// Queues a fault for the next request that has none.
    pub(crate) fn fail(&self, fault: Fault) {
        self.shelf().faults.push_back(fault);
    }

    /// Removes all queued faults.
    pub(crate) fn forgive(&self) {
        let mut shelf = self.shelf();
        shelf.faults.clear();
        shelf.faults_at.clear();
    }

    /// Number of queued faults that have not happened yet.
    pub(crate) fn faults_left(&self) -> usize {
        let shelf = self.shelf();
        shelf.faults.len() + shelf.faults_at.len()
    }

    /// Returns the requests since the last call, each as method and target.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.shelf().asked)
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn converse(mut stream: TcpStream, shelf: &Mutex<Shelf>) -> std::io::Result<()> {
    let request = Request::read(&stream)?;
    let delay = shelf.lock().unwrap_or_else(PoisonError::into_inner).delay;
    std::thread::sleep(delay);
    let (fault, answer) = {
        let mut shelf = shelf.lock().unwrap_or_else(PoisonError::into_inner);
        let line = format!("{} {}", request.method, request.target);
        let place = shelf.faults_at.iter().position(|(text, _)| line.contains(text));
        let fault = match place {
            Some(place) => Some(shelf.faults_at.remove(place).1),
            None => shelf.faults.pop_front(),
        };
        shelf.asked.push(line);
        // A request that fails with a status did nothing.
        let is_refused = matches!(fault, Some(Fault::Status(..) | Fault::Raw(_)));
        let answer = if is_refused { Answer::new(500, "", "") } else { shelf.answer(&request) };
        (fault, answer)
    };
    send(&mut stream, &request, answer, fault, None, |_| {})
}

impl Shelf {
    fn answer(&mut self, request: &Request) -> Answer {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        let path = decoded(path);
        let name = path.strip_prefix(&format!("/{BUCKET}")).map(|rest| rest.trim_start_matches('/'));
        let is_read = matches!(request.method.as_str(), "GET" | "HEAD");
        if self.read_only && !is_read {
            return Answer::new(403, "", "<Error><Code>AccessDenied</Code></Error>");
        }
        match name {
            Some("") if is_read => self.list(query),
            Some("") => self.delete_batch(request),
            Some(name) if is_read => self.object(name, request),
            Some(name) => self.change(name, &Query(query), request),
            None => Answer::new(404, "", "<Error><Code>NoSuchBucket</Code></Error>"),
        }
    }

    /// Stores or removes an object, or a part of one.
    fn change(&mut self, name: &str, query: &Query<'_>, request: &Request) -> Answer {
        let id = query.value("uploadId");
        let key = (name.to_owned(), id.clone());
        match (request.method.as_str(), id.is_empty()) {
            ("POST", true) => {
                self.begun += 1;
                let id = format!("upload-{}", self.begun);
                self.uploads.insert((name.to_owned(), id.clone()), BTreeMap::new());
                let body = format!(
                    "<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
                );
                return Answer::new(200, "", body);
            }
            ("PUT", false) => {
                let Some(parts) = self.uploads.get_mut(&key) else { return no_upload() };
                // Parts are put together in the order of their numbers.
                let number: usize = query.value("partNumber").parse().expect("a number");
                parts.insert(format!("{number:05}"), request.body.clone());
                return Answer::new(200, format!("ETag: {}\r\n", tag(&request.body)), "");
            }
            ("POST", false) => {
                let Some(parts) = self.uploads.remove(&key) else { return no_upload() };
                let tags = parts
                    .values()
                    .map(|part| tag(part))
                    .filter(|tag| request.text().contains(tag.trim_matches('"')));
                assert_eq!(tags.count(), parts.len(), "{}", request.text());
                let (bytes, count) = (parts.values().flatten().copied().collect::<Vec<u8>>(), parts.len());
                let tag = format!("\"{}-{count}\"", tag(&bytes).trim_matches('"'));
                let body = format!(
                    "<CompleteMultipartUploadResult><ETag>{tag}</ETag></CompleteMultipartUploadResult>"
                );
                self.store(name, Object { bytes: Arc::new(bytes), tag });
                return Answer::new(200, "", body);
            }
            ("DELETE", false) => {
                return if self.uploads.remove(&key).is_some() {
                    Answer::new(204, "", "")
                } else {
                    no_upload()
                };
            }
            _ => {}
        }
        match (request.method.as_str(), query.value("comp").as_str()) {
            ("PUT", "block") => {
                self.uploads.entry(key).or_default().insert(query.value("blockid"), request.body.clone());
                Answer::new(201, "", "")
            }
            ("PUT", "blocklist") => {
                let parts = self.uploads.remove(&key).unwrap_or_default();
                let text = request.text();
                let listed = text.split("<Uncommitted>").skip(1);
                let ids = listed.map(|rest| rest.split('<').next().unwrap_or_default());
                let bytes: Vec<u8> = ids.flat_map(|id| parts[id].clone()).collect();
                self.stored(name, bytes)
            }
            ("PUT", _) => self.stored(name, request.body.clone()),
            ("DELETE", _) => self.removed(name),
            _ => Answer::new(400, "", ""),
        }
    }

    fn store(&mut self, name: &str, object: Object) {
        self.changes.push(format!("PUT {name}"));
        self.objects.insert(name.to_owned(), object);
    }

    fn stored(&mut self, name: &str, bytes: Vec<u8>) -> Answer {
        let object = Object::new(bytes);
        let headers = format!("ETag: {}\r\n", object.tag);
        self.store(name, object);
        Answer::new(201, headers, "")
    }

    fn removed(&mut self, name: &str) -> Answer {
        if self.objects.remove(name).is_none() {
            return Answer::new(404, "", "<Error><Code>NoSuchKey</Code></Error>");
        }
        self.changes.push(format!("DELETE {name}"));
        Answer::new(204, "", "")
    }

    /// Removes the objects that a batch of Azure names.
    fn delete_batch(&mut self, request: &Request) -> Answer {
        let mut body = String::new();
        for (number, rest) in request.text().split("DELETE ").skip(1).enumerate() {
            let target = rest.split([' ', '?']).next().unwrap_or_default();
            let name = decoded(target);
            let name = name.trim_start_matches('/').trim_start_matches(BUCKET).trim_start_matches('/');
            let status = if self.objects.remove(name).is_some() { "202 Accepted" } else { "404 Not Found" };
            self.changes.push(format!("DELETE {name}"));
            body += &format!(
                "--batch\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\nHTTP/1.1 {status}\r\n\r\n\r\n"
            );
        }
        Answer::new(202, "Content-Type: multipart/mixed; boundary=batch\r\n", body + "--batch--\r\n")
    }

    fn object(&self, name: &str, request: &Request) -> Answer {
        let Some(Object { bytes, tag }) = self.objects.get(name) else {
            return Answer::new(404, "", "<Error><Code>NoSuchKey</Code></Error>");
        };
        if request.if_match.as_ref().is_some_and(|wanted| wanted != tag) {
            return Answer::new(412, "", "<Error><Code>PreconditionFailed</Code></Error>");
        }
        let headers = format!("ETag: {tag}\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n");
        Answer::file(bytes, request, headers)
    }

    /// One page of a listing, in the XML of Azure or in that of S3 and Google.
    fn list(&self, query: &str) -> Answer {
        let query = Query(query);
        let value = |key: &str| query.value(key);
        let from: usize = [value("continuation-token"), value("marker")].concat().parse().unwrap_or(0);
        let from = from.min(self.objects.len());
        let (prefix, flat) = (value("prefix"), value("delimiter").is_empty());
        let is_listed =
            |name: &str| name.strip_prefix(&prefix).is_some_and(|rest| flat || !rest.contains('/'));
        let all: Vec<_> = self.objects.iter().filter(|(name, _)| is_listed(name)).collect();
        let page = all.iter().skip(from).take(PAGE);
        let next = if from + PAGE < all.len() { (from + PAGE).to_string() } else { String::new() };
        let body = if value("comp") == "list" {
            // Azure puts quotes around entity tags everywhere but in listings.
            let blobs: String = page
                .map(|(name, Object { bytes, tag })| {
                    format!(
                        "<Blob><Name>{name}</Name><Properties><Content-Length>{}</Content-Length><Etag>{}</Etag>\
                         <Content-Type>x</Content-Type><Last-Modified>Thu, 01 Jan 2026 00:00:00 GMT</Last-Modified>\
                         </Properties></Blob>",
                        bytes.len(),
                        tag.trim_matches('"')
                    )
                })
                .collect();
            format!(
                "<EnumerationResults><Blobs>{blobs}</Blobs><NextMarker>{next}</NextMarker></EnumerationResults>"
            )
        } else {
            let contents: String = page
                .map(|(name, Object { bytes, tag })| {
                    format!(
                        "<Contents><Key>{name}</Key><Size>{}</Size><ETag>{}</ETag>\
                         <LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>",
                        bytes.len(),
                        tag
                    )
                })
                .collect();
            let next = match next.as_str() {
                "" => String::new(),
                next => format!("<NextContinuationToken>{next}</NextContinuationToken>"),
            };
            format!("<ListBucketResult>{contents}{next}</ListBucketResult>")
        };
        Answer::new(200, "Content-Type: application/xml\r\n", body)
    }
}

/// The answer about an upload that does not exist.
fn no_upload() -> Answer {
    Answer::new(404, "", "<Error><Code>NoSuchUpload</Code></Error>")
}

/// The part of a target after `?`.
struct Query<'a>(&'a str);

impl Query<'_> {
    /// The decoded value of a key; empty if there is none.
    fn value(&self, key: &str) -> String {
        let found = self.0.split('&').find_map(|part| part.strip_prefix(key)?.strip_prefix('='));
        decoded(found.unwrap_or_default())
    }
}

/// Decodes the escapes that clients use. Google's percent-encodes more characters than necessary.
fn decoded(text: &str) -> String {
    let escapes = [("%2F", "/"), ("%2E", "."), ("%2D", "-"), ("%5F", "_"), ("%3D", "="), ("%2B", "+")];
    escapes.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn tag(bytes: &[u8]) -> String {
    format!("\"{}\"", &sha256(bytes)[..16])
}
