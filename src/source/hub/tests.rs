use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::uri::{CONVERTED, Wanted};
use super::*;
use crate::observer::Silent;
use crate::source::{OpenContext, SourceSpec, content, open};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const CONVERTED_COMMIT: &str = "fedcba9876543210fedcba9876543210fedcba98";

#[test]
fn uris_are_taken_apart() {
    let cases = [
        ("hf://datasets/a/b", "a", "b", None, None),
        ("hf://datasets/a/b/", "a", "b", None, None),
        ("hf://datasets/a/b@v1", "a", "b", Some("v1"), None),
        ("hf://datasets/a/b@v1/data/*.parquet", "a", "b", Some("v1"), Some("data/*.parquet")),
        ("hf://datasets/a/b/data/x@y.parquet", "a", "b", None, Some("data/x@y.parquet")),
        ("hf://datasets/a/b@~parquet/c", "a", "b", Some(CONVERTED), Some("c")),
        ("hf://datasets/a/b@refs/pr/1/c/d", "a", "b", Some("refs/pr/1"), Some("c/d")),
        ("hf://datasets/a/b@x%2Fy", "a", "b", Some("x/y"), None),
    ];
    for (uri, namespace, name, revision, path) in cases {
        let expected = Wanted {
            uri: uri.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            revision: revision.map(str::to_owned),
            path: path.map(str::to_owned),
        };
        assert_eq!(Wanted::parse(uri).unwrap(), expected, "{uri}");
    }
    for wrong in [
        "hf://datasets/a",
        "hf://datasets//b",
        "hf://models/a/b",
        "hf://datasets/../b",
        "hf://datasets/a/b/../c",
        "hf://datasets/a/b@../x",
        "hf://datasets/a/b@x%2F..",
        "hf://datasets/a/b@",
    ] {
        assert_eq!(Wanted::parse(wrong).unwrap_err().kind(), ErrorKind::Usage, "{wrong}");
    }
}

#[test]
fn paths_choose_files() {
    let cases = [
        ("", "data/a.parquet", true),
        ("", "data/a.jsonl", false),
        ("", ".cache/a.parquet", false),
        ("/data", "data/a.jsonl", true),
        ("/data", "data/readme.md", false),
        ("/data", "database.txt", false),
        ("/data/readme.md", "data/readme.md", true),
        ("/*/a.*", "data/a.jsonl", true),
        ("/*", "data/a.jsonl", false),
    ];
    for (path, file, expected) in cases {
        let wanted = Wanted::parse(&format!("hf://datasets/a/b{path}")).unwrap();
        assert_eq!(wanted.wants(file), expected, "{path} {file}");
    }
}

/// What the hub on loopback has, and what it was asked.
#[derive(Default)]
struct Shelf {
    /// Files by commit and path: their bytes, and whether they lie on the other host.
    files: BTreeMap<(&'static str, String), (Vec<u8>, bool)>,
    /// The body sent in place of a file's.
    wrong_body: Option<Vec<u8>>,
    /// A status for every answer.
    status: Option<u16>,
    asked: Vec<String>,
    tokens_on_other_host: usize,
    other_host: String,
}

type Shared = Arc<Mutex<Shelf>>;

fn serve(shelf: Shared, answer: fn(&Shared, &str, &str, bool) -> Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let shelf = Arc::clone(&shelf);
            std::thread::spawn(move || converse(stream, &shelf, answer));
        }
    });
    address
}

fn converse(mut stream: TcpStream, shelf: &Shared, answer: fn(&Shared, &str, &str, bool) -> Vec<u8>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let Some(Ok(request)) = lines.next() else { return };
    let headers: Vec<String> =
        lines.map_while(std::result::Result::ok).take_while(|line| !line.is_empty()).collect();
    let token = headers.iter().any(|header| header.to_ascii_lowercase().starts_with("authorization"));
    let mut words = request.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let _ = stream.write_all(&answer(shelf, method, target, token));
}

fn response(status: &str, headers: &str, body: &[u8], method: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n");
    [head.as_bytes(), if method == "HEAD" { b"" } else { body }].concat()
}

/// A file as the tree lists it: a large one has the hash of its content beside that of its pointer.
fn node(path: &str, bytes: &[u8], elsewhere: bool) -> serde_json::Value {
    let mut node =
        serde_json::json!({"type": "file", "oid": git_hash(bytes), "size": bytes.len(), "path": path});
    if elsewhere {
        node["lfs"] = serde_json::json!({
            "oid": content::sha256(bytes).unwrap(), "size": bytes.len(), "pointerSize": 128
        });
    }
    node
}

fn git_hash(bytes: &[u8]) -> String {
    let whole = [format!("blob {}\0", bytes.len()).as_bytes(), bytes].concat();
    content::hash(sha1::Sha1::default(), whole.as_slice()).unwrap()
}

fn hub_answer(shelf: &Shared, method: &str, target: &str, _token: bool) -> Vec<u8> {
    let mut shelf = shelf.lock().unwrap();
    shelf.asked.push(format!("{method} {target}"));
    if let Some(status) = shelf.status {
        return response(&format!("{status} Refused"), "", b"{}", method);
    }
    let target = target.split('?').next().unwrap_or_default();
    let not_found = || response("404 Not Found", "", b"{}", method);
    let json = |value: serde_json::Value| {
        response("200 OK", "Content-Type: application/json\r\n", value.to_string().as_bytes(), method)
    };
    if let Some(revision) = target.strip_prefix("/api/datasets/ns/poems/revision/") {
        let commit = match revision {
            "main" | COMMIT => COMMIT,
            "refs%2Fconvert%2Fparquet" => CONVERTED_COMMIT,
            _ => return response("404 Not Found", "X-Error-Code: RevisionNotFound\r\n", b"{}", method),
        };
        return json(serde_json::json!({"id": "ns/poems", "sha": commit}));
    }
    if let Some(commit) = target.strip_prefix("/api/datasets/ns/poems/tree/") {
        let files = shelf.files.iter().filter(|((of, _), _)| *of == commit);
        return json(serde_json::Value::Array(
            files.map(|((_, path), (bytes, elsewhere))| node(path, bytes, *elsewhere)).collect(),
        ));
    }
    let Some((commit, path)) =
        target.strip_prefix("/datasets/ns/poems/resolve/").and_then(|rest| rest.split_once('/'))
    else {
        return not_found();
    };
    let commit = if commit == COMMIT { COMMIT } else { CONVERTED_COMMIT };
    let Some((bytes, elsewhere)) = shelf.files.get(&(commit, path.to_owned())) else { return not_found() };
    let sha256 = content::sha256(bytes.as_slice()).unwrap();
    if *elsewhere {
        let headers = format!(
            "Location: {}/{commit}/{path}\r\nX-Linked-Etag: \"{sha256}\"\r\nX-Linked-Size: {}\r\n\
             X-Repo-Commit: {commit}\r\n",
            shelf.other_host,
            bytes.len()
        );
        return response("302 Found", &headers, b"", method);
    }
    let headers = format!("ETag: \"{}\"\r\nX-Repo-Commit: {commit}\r\n", git_hash(bytes));
    response("200 OK", &headers, shelf.wrong_body.as_ref().unwrap_or(bytes), method)
}

fn other_answer(shelf: &Shared, method: &str, target: &str, token: bool) -> Vec<u8> {
    let mut shelf = shelf.lock().unwrap();
    shelf.tokens_on_other_host += usize::from(token);
    let found = target.trim_start_matches('/').split_once('/').and_then(|(commit, path)| {
        shelf.files.iter().find(|((of, at), _)| *of == commit && at == path).map(|(_, (bytes, _))| bytes)
    });
    match found {
        Some(bytes) => response("200 OK", "", shelf.wrong_body.as_ref().unwrap_or(bytes), method),
        None => response("404 Not Found", "", b"", method),
    }
}

fn hub(files: &[(&'static str, &str, &str, bool)], cache: &Path) -> (Shared, HubSettings) {
    let shelf = Shared::default();
    let other_host = serve(Arc::clone(&shelf), other_answer);
    let endpoint = serve(Arc::clone(&shelf), hub_answer);
    let mut filled = shelf.lock().unwrap();
    filled.other_host = other_host.replace("127.0.0.1", "localhost");
    for (commit, path, text, elsewhere) in files {
        filled.files.insert((commit, (*path).to_owned()), (text.as_bytes().to_vec(), *elsewhere));
    }
    drop(filled);
    let (token, cache) = (Some("secret".to_owned()), cache.to_path_buf());
    let wait = Duration::from_millis(1);
    let patience =
        Patience { attempts: 3, first_wait: wait, silence: Duration::from_secs(1), ..Patience::default() };
    (shelf, HubSettings { endpoint, token, cache, offline: false, patience })
}

fn texts(files: &[Fetched]) -> Vec<String> {
    files.iter().map(|((path, _), _)| std::fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn files_land_once_in_the_standard_cache() {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        (COMMIT, "data/b.jsonl", "{\"text\": \"small\"}", false),
        (COMMIT, "data/a.jsonl", "{\"text\": \"large\"}", true),
        (COMMIT, "README.md", "# Poems", false),
    ];
    let (shelf, settings) = hub(&files, folder.path());
    let uri = "hf://datasets/ns/poems/data";
    let fetched = fetch(uri, &settings, &Silent).unwrap();
    assert_eq!(texts(&fetched), [files[1].2, files[0].2]);
    let sha256 = content::sha256(files[1].2.as_bytes()).unwrap();
    assert_eq!(fetched[0].1, Identity::Hub { commit: COMMIT.to_owned(), etag: sha256.clone() });
    assert_eq!(fetched[0].0.1, format!("hf://datasets/ns/poems@{COMMIT}/data/a.jsonl"));
    assert_eq!(shelf.lock().unwrap().tokens_on_other_host, 0, "the token is for the hub alone");

    let root = folder.path().join("datasets--ns--poems");
    assert_eq!(std::fs::read_to_string(root.join("refs/main")).unwrap(), COMMIT);
    assert_eq!(std::fs::read_to_string(root.join("blobs").join(&sha256)).unwrap(), files[1].2);
    let link = std::fs::read_link(root.join("snapshots").join(COMMIT).join("data/a.jsonl")).unwrap();
    assert_eq!(link, Path::new("../../../blobs").join(sha256));
    let mut left: Vec<_> =
        std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["blobs", "refs", "snapshots"]);

    let downloads =
        |shelf: &Shared| shelf.lock().unwrap().asked.iter().filter(|a| a.contains("resolve")).count();
    let before = downloads(&shelf);
    assert_eq!(fetch(uri, &settings, &Silent).unwrap(), fetched);
    assert_eq!(downloads(&shelf), before, "nothing is downloaded again");

    let asked = shelf.lock().unwrap().asked.len();
    let offline = HubSettings { offline: true, ..settings };
    assert_eq!(fetch(uri, &offline, &Silent).unwrap(), fetched);
    let missing = fetch("hf://datasets/ns/other", &offline, &Silent).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Network);
    assert_eq!(shelf.lock().unwrap().asked.len(), asked, "offline asks nobody");

    let spec = SourceSpec { uri: uri.to_owned(), ..SourceSpec::default() };
    let source = open(&spec, 0, &OpenContext { hub: offline, ..OpenContext::new(&Silent) }).unwrap();
    assert_eq!(source.identity(0).unwrap(), fetched[0].1);
    let first = source.read(0).unwrap().next().unwrap().unwrap();
    assert_eq!(first.iter().collect::<Vec<_>>(), [Some(&b"large"[..])]);
}

#[test]
fn a_dataset_without_parquet_is_read_from_its_converted_branch() {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        (COMMIT, "poems.csv", "a,b", false),
        (CONVERTED_COMMIT, "default/train/0000.parquet", "converted", true),
    ];
    let (shelf, settings) = hub(&files, folder.path());
    assert_eq!(texts(&fetch("hf://datasets/ns/poems", &settings, &Silent).unwrap()), ["converted"]);
    shelf.lock().unwrap().files.insert((COMMIT, "a.parquet".to_owned()), (b"native".to_vec(), false));
    assert_eq!(texts(&fetch("hf://datasets/ns/poems", &settings, &Silent).unwrap()), ["native"]);
}

#[test]
fn what_does_not_arrive_whole_does_not_land() {
    for (elsewhere, body) in [(false, "an error page"), (true, "an error page"), (true, "wrong")] {
        let folder = tempfile::tempdir().unwrap();
        let (shelf, settings) = hub(&[(COMMIT, "a.parquet", "right", elsewhere)], folder.path());
        shelf.lock().unwrap().wrong_body = Some(body.as_bytes().to_vec());
        let error = fetch("hf://datasets/ns/poems", &settings, &Silent).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Network, "{error}");
        assert!(error.to_string().contains("a.parquet"), "{error}");
        let root = folder.path().join("datasets--ns--poems");
        assert!(!root.join("snapshots").exists());
        assert_eq!(std::fs::read_dir(root.join("blobs")).unwrap().count(), 0, "neither blob nor snapshot");
        shelf.lock().unwrap().wrong_body = None;
        assert_eq!(texts(&fetch("hf://datasets/ns/poems", &settings, &Silent).unwrap()), ["right"]);
    }
}

#[test]
fn refusals_say_what_to_do() {
    let cases = [(401, ErrorKind::Authorisation, "HF_TOKEN"), (403, ErrorKind::Authorisation, "terms")];
    for (status, kind, says) in cases {
        let folder = tempfile::tempdir().unwrap();
        let (shelf, settings) = hub(&[], folder.path());
        shelf.lock().unwrap().status = Some(status);
        let error = fetch("hf://datasets/ns/poems", &settings, &Silent).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.help().unwrap().contains(says));
    }
    let folder = tempfile::tempdir().unwrap();
    let (shelf, settings) = hub(&[], folder.path());
    let none = fetch("hf://datasets/ns/poems@nope", &settings, &Silent).unwrap_err();
    assert_eq!((none.kind(), none.help()), (ErrorKind::Failed, Some("check the revision after the @")));
    assert!(
        fetch("hf://datasets/ns/poems", &settings, &Silent).unwrap_err().to_string().contains("no files")
    );
    shelf.lock().unwrap().files.insert((COMMIT, "../x.parquet".to_owned()), (vec![], false));
    let outside = fetch("hf://datasets/ns/poems", &settings, &Silent).unwrap_err();
    assert!(outside.to_string().contains("leads out of the repository"), "{outside}");
    assert!(!format!("{settings:?}").contains("secret"));
}
