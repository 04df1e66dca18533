//! A local object store for tests. It answers listings and reads as Amazon S3, Google Cloud Storage and Azure
//! Blob Storage do, and fails on request.

#![allow(dead_code, reason = "each of those that share it uses a part")]

use std::collections::{BTreeMap, VecDeque};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::fake::{Answer, Fault, Request, send, sha256};

/// The name of the only bucket.
pub(crate) const BUCKET: &str = "words";
/// Objects per page of a listing.
const PAGE: usize = 2;

#[derive(Default)]
struct Shelf {
    objects: BTreeMap<String, Arc<Vec<u8>>>,
    faults: VecDeque<Fault>,
    asked: Vec<String>,
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
        self.shelf().objects.insert(name.to_owned(), Arc::new(bytes.into()));
    }

    /// Queues a fault for the next request that has none.
    pub(crate) fn fail(&self, fault: Fault) {
        self.shelf().faults.push_back(fault);
    }

    /// Removes all queued faults.
    pub(crate) fn forgive(&self) {
        self.shelf().faults.clear();
    }

    /// Number of queued faults that have not happened yet.
    pub(crate) fn faults_left(&self) -> usize {
        self.shelf().faults.len()
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
    let (fault, answer) = {
        let mut shelf = shelf.lock().unwrap_or_else(PoisonError::into_inner);
        shelf.asked.push(format!("{} {}", request.method, request.target));
        (shelf.faults.pop_front(), shelf.answer(&request))
    };
    send(&mut stream, &request, answer, fault, None, |_| {})
}

impl Shelf {
    fn answer(&self, request: &Request) -> Answer {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        // Google's client percent-encodes more characters than necessary.
        let path = path.replace("%2F", "/").replace("%2E", ".");
        let name = path.strip_prefix(&format!("/{BUCKET}")).map(|rest| rest.trim_start_matches('/'));
        match name {
            Some("") => self.list(query),
            Some(name) => self.object(name, request),
            None => Answer::new(404, "", "<Error><Code>NoSuchBucket</Code></Error>"),
        }
    }

    fn object(&self, name: &str, request: &Request) -> Answer {
        let Some(bytes) = self.objects.get(name) else {
            return Answer::new(404, "", "<Error><Code>NoSuchKey</Code></Error>");
        };
        let etag = tag(bytes);
        if request.if_match.as_ref().is_some_and(|wanted| *wanted != etag) {
            return Answer::new(412, "", "<Error><Code>PreconditionFailed</Code></Error>");
        }
        let headers = format!("ETag: {etag}\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n");
        Answer::file(bytes, request, headers)
    }

    /// One page of a listing, in the XML of Azure or in that of S3 and Google.
    fn list(&self, query: &str) -> Answer {
        let value = |key: &str| {
            let found = query.split('&').find_map(|part| part.strip_prefix(key)?.strip_prefix('='));
            found.unwrap_or_default().replace("%2F", "/").replace("%2E", ".")
        };
        let from: usize = [value("continuation-token"), value("marker")].concat().parse().unwrap_or(0);
        let from = from.min(self.objects.len());
        let prefix = value("prefix");
        let all: Vec<_> = self.objects.iter().filter(|(name, _)| name.starts_with(&prefix)).collect();
        let page = all.iter().skip(from).take(PAGE);
        let next = if from + PAGE < all.len() { (from + PAGE).to_string() } else { String::new() };
        let body = if value("comp") == "list" {
            // Azure puts quotes around entity tags everywhere but in listings.
            let blobs: String = page
                .map(|(name, bytes)| {
                    format!(
                        "<Blob><Name>{name}</Name><Properties><Content-Length>{}</Content-Length><Etag>{}</Etag>\
                         <Content-Type>x</Content-Type><Last-Modified>Thu, 01 Jan 2026 00:00:00 GMT</Last-Modified>\
                         </Properties></Blob>",
                        bytes.len(),
                        tag(bytes).trim_matches('"')
                    )
                })
                .collect();
            format!(
                "<EnumerationResults><Blobs>{blobs}</Blobs><NextMarker>{next}</NextMarker></EnumerationResults>"
            )
        } else {
            let contents: String = page
                .map(|(name, bytes)| {
                    format!(
                        "<Contents><Key>{name}</Key><Size>{}</Size><ETag>{}</ETag>\
                         <LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>",
                        bytes.len(),
                        tag(bytes)
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

fn tag(bytes: &[u8]) -> String {
    format!("\"{}\"", &sha256(bytes)[..16])
}
