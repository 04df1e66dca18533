//! Tests against a hub that runs on this machine and can be told to fail: downloads, and files read by ranges.

#[path = "../../../tests/support/hub.rs"]
pub(in crate::source) mod fake;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{fs, thread};

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use fake::{Asked, COMMIT, CONVERTED_COMMIT, FakeHub, Fault, Part, git_hash, sha256};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use reqwest::Method;

use super::repository::CONVERTED;
use super::*;
use crate::base::pools::lock;
use crate::network::{Head, Http, Patience, Request, RequestError, Server, Sink, address, wait_for};
use crate::observer::Silent;
use crate::source::content::RangeRead;
use crate::source::files::FileSource;
use crate::source::skipped_rows::BadInput;
use crate::source::{
    DocumentRule, Note, OpenContext, ReadConfig, SkippedRows, Source, SourceSpec, listing, open,
    open_without_download,
};

/// All forms of URIs of datasets, and forms that are rejected.
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
        let expected = RepoRequest {
            uri: uri.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            revision: revision.map(str::to_owned),
            path: path.map(str::to_owned),
            any_name: false,
            everything: false,
            kind: RepoKind::Dataset,
        };
        assert_eq!(RepoRequest::parse(uri).unwrap(), expected, "{uri}");
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
        assert_eq!(RepoRequest::parse(wrong).unwrap_err().kind(), ErrorKind::Usage, "{wrong}");
    }
}

/// The files that a path, folder or glob requests.
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
        let wanted = RepoRequest::parse(&format!("hf://datasets/a/b{path}")).unwrap();
        assert_eq!(wanted.wants(file), expected, "{path} {file}");
    }
    // The same if the format is given.
    let cases = [
        ("", "data/a.json.gz", true),
        ("", "data/README.md", true),
        ("", "README.md", false),
        ("", "LICENSE", false),
        ("", ".gitattributes", false),
        ("/data", "data/a.json.gz", true),
        ("/data", "data/_SUCCESS", false),
        ("/data", "database.txt", false),
        ("/*/a.*", "data/a.json.gz", true),
    ];
    for (path, file, expected) in cases {
        let wanted = RepoRequest {
            any_name: true,
            ..RepoRequest::parse(&format!("hf://datasets/a/b{path}")).unwrap()
        };
        assert_eq!(wanted.wants(file), expected, "{path} {file}");
    }
}

/// A request for a whole dataset gives its training split and reports the others, also offline.
#[test]
fn of_a_whole_dataset_with_splits_the_one_for_training_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let all =
        ["test-00000-of-00001", "train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001"];
    let names: Vec<String> = all.iter().map(|name| format!("data/{name}.parquet")).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), name.as_str(), false)).collect();
    let (_hub, settings) = hub(&files, folder.path());
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&said);
    let noted: Note = Arc::new(move |line| lock(&heard).push(line.to_owned()));
    let settings = HubSettings { noted, ..settings };
    let offline = HubSettings { offline: true, ..settings.clone() };
    for (uri, settings, expected, told) in [
        (URI, &settings, &names[1..3], 1),
        (URI, &offline, &names[1..3], 0),
        ("hf://datasets/ns/poems/data", &settings, &names[..], 0),
        // All files are in the cache now.
        (URI, &offline, &names[1..3], 1),
        ("hf://datasets/ns/poems/data/test-*", &settings, &names[..1], 0),
    ] {
        let fetched = fetch(uri, false, settings, &Silent).unwrap();
        assert_eq!(texts(&fetched), expected, "{uri}");
        let said = std::mem::take(&mut *lock(&said));
        assert_eq!(said.len(), told, "{uri}: {said:?}");
        assert!(
            said.iter().all(|line| line.contains("splits train, test, validation: train is read")),
            "{said:?}"
        );
    }
}

const URI: &str = "hf://datasets/ns/poems";
/// Time without activity after which these tests give up a connection.
const SILENCE: Duration = Duration::from_millis(300);

/// A hub with these files in `main` (path, content, whether it is large), and the settings to reach it.
pub(in crate::source) fn hub(files: &[(&str, &str, bool)], cache: &Path) -> (FakeHub, HubSettings) {
    let hub = FakeHub::start("ns/poems");
    for (path, text, large) in files {
        hub.put(COMMIT, path, *text, *large);
    }
    let patience = Patience {
        attempts: 3,
        first_wait: Duration::from_millis(1),
        longest_wait: Duration::from_secs(5),
        silence: SILENCE,
        whole: Duration::from_secs(60),
    };
    let (endpoint, token, cache) = (hub.endpoint.clone(), Some("secret".to_owned()), cache.to_path_buf());
    (hub, HubSettings { endpoint, token, cache, offline: false, patience, ..HubSettings::default() })
}

fn fetch(
    uri: &str,
    any_name: bool,
    settings: &HubSettings,
    observer: &dyn Observer,
) -> crate::Result<Vec<Fetched>> {
    let (stores, never): (_, Stop) = (StoreSettings::default(), Arc::new(|| false));
    let found = super::open(uri, any_name, true, settings, &stores, observer, &never)?;
    assert!(found.iter().all(|(_, remote)| remote.is_none()), "all files are here");
    Ok(found.into_iter().map(|(fetched, _)| fetched).collect())
}

fn texts(files: &[Fetched]) -> Vec<String> {
    files.iter().map(|((path, _), _)| fs::read_to_string(path).unwrap()).collect()
}

/// The names of the files in a folder of the cache.
fn names(cache: &Path, folder: &str) -> Vec<String> {
    let entries = fs::read_dir(cache.join("datasets--ns--poems").join(folder)).into_iter().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The requests for one part of the hub.
pub(in crate::source) fn of(asked: &[Asked], part: Part) -> Vec<&Asked> {
    asked.iter().filter(|asked| asked.part == part).collect()
}

/// Downloads use the layout of the standard cache; they happen once, and the token is sent only to the hub.
#[test]
fn files_land_once_in_the_standard_cache() {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("data/b.jsonl", "{\"text\": \"small\"}", false),
        ("data/a.jsonl", "{\"text\": \"large\"}", true),
        ("data/empty one.jsonl", "", false),
        ("README.md", "# Poems", false),
    ];
    let (hub, settings) = hub(&files, folder.path());
    let uri = "hf://datasets/ns/poems/data";
    let fetched = fetch(uri, false, &settings, &Silent).unwrap();
    assert_eq!(texts(&fetched), [files[1].1, files[0].1, ""]);
    let large = sha256(files[1].1.as_bytes());
    assert_eq!(fetched[0].1, Identity::Hub { commit: COMMIT.to_owned(), etag: large.clone() });
    assert_eq!(fetched[0].0.1, format!("hf://datasets/ns/poems@{COMMIT}/data/a.jsonl"));
    let asked = hub.asked();
    assert!(of(&asked, Part::Api).len() > 2, "the tree has several pages");
    assert!(
        asked.iter().all(|asked| asked.token == (asked.part != Part::Files)),
        "the token is for the hub alone"
    );

    assert_eq!(names(folder.path(), ""), ["blobs", "refs", "snapshots"]);
    let mut blobs = [large.clone(), git_hash(files[0].1.as_bytes()), git_hash(b"")];
    blobs.sort();
    assert_eq!(names(folder.path(), "blobs"), blobs);
    let root = folder.path().join("datasets--ns--poems");
    assert_eq!(fs::read_to_string(root.join("refs/main")).unwrap(), COMMIT);
    let link = fs::read_link(root.join("snapshots").join(COMMIT).join("data/a.jsonl")).unwrap();
    assert_eq!(link, Path::new("../../../blobs").join(large));

    assert_eq!(fetch(uri, false, &settings, &Silent).unwrap(), fetched);
    assert!(of(&hub.asked(), Part::Resolve).is_empty(), "nothing is downloaded again");
    let offline = HubSettings { offline: true, ..settings.clone() };
    assert_eq!(fetch(uri, false, &offline, &Silent).unwrap(), fetched);
    let missing = fetch("hf://datasets/ns/other", false, &offline, &Silent).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Network);
    assert!(hub.asked().is_empty(), "offline asks nobody");

    let spec = SourceSpec { uri: uri.to_owned(), ..SourceSpec::default() };
    let source = open(&spec, 0, &OpenContext { hub: offline, ..OpenContext::new(&Silent) }).unwrap();
    assert_eq!(source.identity(0).unwrap(), fetched[0].1);
    let first = source.read(0).unwrap().next().unwrap().unwrap();
    assert_eq!(first.iter().collect::<Vec<_>>(), [Some(&b"large"[..])]);

    let offline = HubSettings { offline: true, ..settings };
    fs::remove_file(root.join("blobs").join(&blobs[0])).unwrap();
    let removed = fetch(uri, false, &offline, &Silent).unwrap_err();
    assert!(removed.kind() == ErrorKind::Network && removed.to_string().contains(COMMIT), "{removed}");
}

/// Offline, shards that were never downloaded are an error, not missing rows.
#[test]
fn what_was_not_downloaded_of_a_dataset_is_missed_offline() {
    let folder = tempfile::tempdir().unwrap();
    let name = |file: usize| format!("data/train-{file:05}-of-00003.jsonl");
    let files = [0, 1, 2].map(name);
    let files: Vec<_> = files.iter().map(|path| (path.as_str(), "{\"text\": \"a\"}", false)).collect();
    let (_hub, settings) = hub(&files, folder.path());
    let offline = HubSettings { offline: true, ..settings.clone() };
    let (all, two) = (format!("{URI}/data"), format!("{URI}/data/*-0000[01]-*"));
    let first = format!("{URI}/{}", name(0));
    fetch(&first, false, &settings, &Silent).unwrap();
    assert_eq!(fetch(&first, false, &offline, &Silent).unwrap().len(), 1, "this is all that was asked for");
    for (uri, lacks) in [(&two, name(1)), (&all, name(1))] {
        let error = fetch(uri, false, &offline, &Silent).unwrap_err();
        assert!(error.kind() == ErrorKind::Network && error.to_string().contains(&lacks), "{error}");
    }
    fetch(&two, false, &settings, &Silent).unwrap();
    assert_eq!(fetch(&two, false, &offline, &Silent).unwrap().len(), 2);
    assert!(fetch(&all, false, &offline, &Silent).unwrap_err().to_string().contains(&name(2)));
    fetch(&all, false, &settings, &Silent).unwrap();
    assert_eq!(fetch(&all, false, &offline, &Silent).unwrap().len(), 3);
}

/// The converted branch is used only if the dataset itself has no Parquet files.
#[test]
fn a_dataset_without_parquet_is_read_from_its_converted_branch() {
    let folder = tempfile::tempdir().unwrap();
    let (hub, settings) = hub(&[("poems.csv", "a,b", false)], folder.path());
    hub.put(CONVERTED_COMMIT, "default/train/0000.parquet", "converted", true);
    assert_eq!(texts(&fetch(URI, false, &settings, &Silent).unwrap()), ["converted"]);
    hub.put(COMMIT, "a.parquet", "native", false);
    assert_eq!(texts(&fetch(URI, false, &settings, &Silent).unwrap()), ["native"]);
}

/// Temporary faults do not prevent a correct download.
#[test]
fn what_fails_in_passing_is_tried_again() {
    let text = "0123456789".repeat(100);
    let cases: &[(&str, &[(Part, Fault)])] = &[
        ("errors of the server", &[(Part::Api, Fault::Status(500, "")), (Part::Api, Fault::Status(503, ""))]),
        ("a timeout", &[(Part::Resolve, Fault::Status(408, ""))]),
        ("a wait in seconds", &[(Part::Resolve, Fault::Status(429, "Retry-After: 1\r\n"))]),
        (
            "a wait of the limit",
            &[(Part::Resolve, Fault::Status(429, "RateLimit: \"resolvers\";r=0;t=1\r\n"))],
        ),
        ("a cut body", &[(Part::Files, Fault::CutAfter(300))]),
        // Failures with progress between them are not successive.
        (
            "a body cut often",
            &[
                (Part::Files, Fault::CutAfter(100)),
                (Part::Files, Fault::CutAfter(100)),
                (Part::Files, Fault::CutAfter(100)),
                (Part::Files, Fault::CutAfter(100)),
            ],
        ),
        ("a cut answer", &[(Part::Api, Fault::CutAfter(20))]),
        ("a stall", &[(Part::Files, Fault::Stall(SILENCE * 3))]),
        (
            "a signature that ran out",
            &[(Part::Files, Fault::CutAfter(300)), (Part::Files, Fault::Status(403, ""))],
        ),
        ("the whole for a range", &[(Part::Files, Fault::CutAfter(300)), (Part::Files, Fault::Whole)]),
        ("a body too short", &[(Part::Files, Fault::Body(b"0123"))]),
        (
            "a range that is refused",
            &[(Part::Files, Fault::CutAfter(300)), (Part::Files, Fault::Status(416, ""))],
        ),
        (
            "a loop",
            &[(Part::Resolve, Fault::Status(302, "Location: /datasets/ns/poems/resolve/main/a.parquet\r\n"))],
        ),
    ];
    for (name, faults) in cases {
        let folder = tempfile::tempdir().unwrap();
        let (hub, settings) = hub(&[("a.parquet", &text, true)], folder.path());
        faults.iter().cloned().for_each(|(part, fault)| hub.fail(part, fault));
        let told = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&told);
        let noted: Note = Arc::new(move |message| lock(&hears).push(message.to_owned()));
        let settings = HubSettings { noted, ..settings };
        let started_at = Instant::now();
        let fetched = fetch(URI, false, &settings, &Silent).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(texts(&fetched), [text.as_str()], "{name}");
        assert_eq!(hub.faults_left(), 0, "{name}");
        let waits = name.starts_with("a wait");
        assert_eq!(started_at.elapsed() >= Duration::from_secs(1), waits, "{name}");
        let told = lock(&told).join("\n");
        assert_eq!(told.starts_with("a.parquet of ns/poems cannot be fetched: "), waits, "{name}: {told}");
        assert_eq!(told.ends_with("; trying again in 1 second"), waits, "{name}: {told}");
        assert_eq!(names(folder.path(), "blobs"), [sha256(text.as_bytes())], "{name}");
    }
}

/// Lasting faults give an error with advice, and no file under a final name. The same command succeeds after the
/// faults.
#[test]
fn what_does_not_arrive_whole_does_not_land() {
    let loops: Vec<(Part, Fault)> = (0..40).map(|_| (Part::Resolve, Fault::Loop)).collect();
    let short = (0..20)
        .map(|nth| (Part::Files, [Fault::Body(b"rig"), Fault::Status(416, "")][nth % 2].clone()))
        .collect();
    let again = |part, fault: Fault| vec![(part, fault.clone()), (part, fault.clone()), (part, fault)];
    let cases = [
        ("an error page of the other host", true, vec![(Part::Files, Fault::Body(b"an error page"))]),
        ("an error page of the hub", false, vec![(Part::Resolve, Fault::Body(b"an error page"))]),
        ("other bytes of the same length", true, vec![(Part::Files, Fault::Body(b"wrong"))]),
        ("another file meanwhile", false, vec![(Part::Resolve, Fault::Etag("other"))]),
        ("another large file meanwhile", true, vec![(Part::Resolve, Fault::Etag("other"))]),
        ("a server that fails", true, again(Part::Files, Fault::Status(500, ""))),
        ("a host that refuses", true, again(Part::Files, Fault::Status(403, ""))),
        ("a body that stays short", true, again(Part::Files, Fault::Body(b""))),
        ("a file that stays short", true, short),
        ("a loop of addresses", true, loops),
        ("a wait that is too long", true, vec![(Part::Resolve, Fault::Status(429, "Retry-After: 900\r\n"))]),
    ];
    for (name, large, faults) in cases {
        let folder = tempfile::tempdir().unwrap();
        let (hub, settings) = hub(&[("a.parquet", "right", large)], folder.path());
        faults.into_iter().for_each(|(part, fault)| hub.fail(part, fault));
        let error = fetch(URI, false, &settings, &Silent).expect_err(name);
        assert_eq!(error.kind(), ErrorKind::Network, "{name}: {error}");
        assert!(error.to_string().contains("a.parquet of ns/poems"), "{name}: {error}");
        assert!(error.help().is_some_and(|help| help.contains("run the same command again")), "{name}");
        assert!(names(folder.path(), "snapshots").is_empty(), "{name}");
        let blobs = names(folder.path(), "blobs");
        assert!(blobs.iter().all(|blob| blob.ends_with(".incomplete")), "{name}: {blobs:?}");
        while hub.faults_left() > 0 {
            let _ = fetch(URI, false, &settings, &Silent);
        }
        assert_eq!(texts(&fetch(URI, false, &settings, &Silent).expect(name)), ["right"], "{name}");
    }
}

/// An interrupted download continues, and its content is verified.
#[test]
fn a_download_goes_on_where_it_was_cut() {
    let folder = tempfile::tempdir().unwrap();
    let text = "0123456789".repeat(100_000);
    let (hub, settings) = hub(&[("a.parquet", &text, true)], folder.path());
    let blobs = folder.path().join("datasets--ns--poems/blobs");
    fs::create_dir_all(&blobs).unwrap();
    let partial = blobs.join(format!("{}.incomplete", sha256(text.as_bytes())));
    fs::write(&partial, &text[..700_000]).unwrap();
    assert_eq!(texts(&fetch(URI, false, &settings, &Silent).unwrap()), [text.as_str()]);
    let asked = hub.asked();
    let sent: Vec<(usize, usize)> =
        of(&asked, Part::Files).iter().map(|asked| (asked.from, asked.sent)).collect();
    assert_eq!(sent, [(700_000, 300_000)]);

    // The bytes belong to a different file, so the download starts again, once.
    fs::remove_dir_all(folder.path().join("datasets--ns--poems/snapshots")).unwrap();
    fs::remove_file(blobs.join(sha256(text.as_bytes()))).unwrap();
    fs::write(&partial, "x".repeat(400_000)).unwrap();
    assert_eq!(texts(&fetch(URI, false, &settings, &Silent).unwrap()), [text.as_str()]);
    let asked = hub.asked();
    let from: Vec<usize> = of(&asked, Part::Files).iter().map(|asked| asked.from).collect();
    assert_eq!(from, [400_000, 0]);

    // All bytes were downloaded already, and only the final name is missing.
    fs::remove_dir_all(folder.path().join("datasets--ns--poems/snapshots")).unwrap();
    fs::rename(blobs.join(sha256(text.as_bytes())), &partial).unwrap();
    assert_eq!(texts(&fetch(URI, false, &settings, &Silent).unwrap()), [text.as_str()]);
    assert!(of(&hub.asked(), Part::Files).is_empty());
}

/// A request to stop is noticed while the server sends nothing.
#[test]
fn a_request_to_stop_is_heard_while_nothing_comes() {
    struct Stop(Instant);
    impl Observer for Stop {
        fn stopping(&self) -> bool {
            self.0.elapsed() > Duration::from_millis(200)
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let (hub, mut settings) = hub(&[("a.parquet", "right", true)], folder.path());
    settings.patience.silence = Duration::from_secs(60);
    hub.fail(Part::Files, Fault::Stall(Duration::from_secs(20)));
    let started_at = Instant::now();
    let error = fetch(URI, false, &settings, &Stop(started_at)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    assert!(started_at.elapsed() < Duration::from_secs(5));
}

/// Files in the cache are checked against the hub's list, and damaged ones are downloaded again.
#[test]
fn files_of_the_cache_are_those_that_the_hub_lists() {
    let folder = tempfile::tempdir().unwrap();
    let files = [("a.parquet", "right", true), ("b.parquet", "other", false)];
    let (hub, settings) = hub(&files, folder.path());
    let fetched = fetch(URI, false, &settings, &Silent).unwrap();
    let root = folder.path().join("datasets--ns--poems");
    let (blob, link) =
        (root.join("blobs").join(sha256(b"right")), root.join("snapshots").join(COMMIT).join("a.parquet"));
    let damages: [&dyn Fn(); 3] =
        [&|| fs::write(&blob, "rig").unwrap(), &|| fs::write(&blob, "right and more").unwrap(), &|| {
            fs::remove_file(&link).unwrap();
            std::os::unix::fs::symlink(Path::new("../../blobs").join(git_hash(b"other")), &link).unwrap();
        }];
    for damage in damages {
        damage();
        let (stores, never): (_, Stop) = (StoreSettings::default(), Arc::new(|| false));
        let streamed = super::open(URI, false, false, &settings, &stores, &Silent, &never).unwrap();
        assert_eq!(streamed.iter().map(|file| file.1.is_some()).collect::<Vec<_>>(), [true, false]);
        assert_eq!(fetch(URI, false, &settings, &Silent).unwrap(), fetched);
        assert_eq!(texts(&fetched), ["right", "other"]);
    }
    hub.asked();
    // If nothing is missing, nothing is written.
    let note = root.join("refs/main");
    let written = fs::metadata(&note).unwrap().modified().unwrap();
    fetch(URI, false, &settings, &Silent).unwrap();
    assert_eq!(fs::metadata(&note).unwrap().modified().unwrap(), written);
    assert!(of(&hub.asked(), Part::Resolve).is_empty());
}

/// A download waits for the lock file that Python's library also locks.
#[test]
fn a_download_waits_for_the_lock_that_other_programs_take() {
    let folder = tempfile::tempdir().unwrap();
    let (_hub, settings) = hub(&[("a.parquet", "right", true)], folder.path());
    let locks = folder.path().join(".locks/datasets--ns--poems");
    fs::create_dir_all(&locks).unwrap();
    let lock = fs::File::create(locks.join(format!("{}.lock", sha256(b"right")))).unwrap();
    lock.lock().unwrap();
    std::thread::scope(|scope| {
        let fetching = scope.spawn(|| texts(&fetch(URI, false, &settings, &Silent).unwrap()));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!fetching.is_finished());
        drop(lock);
        assert_eq!(fetching.join().unwrap(), ["right"]);
    });
}

/// Overlapping pages may list a file twice, but only with equal entries.
#[test]
fn a_file_that_is_listed_twice_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let (hub, settings) = hub(&[("a.parquet", "right", false)], folder.path());
    let node =
        |oid: &str| format!("{{\"type\":\"file\",\"path\":\"a.parquet\",\"size\":5,\"oid\":\"{oid}\"}}");
    let tree = |nodes: [String; 2]| {
        let nodes = nodes.join(",");
        Fault::Raw(format!("HTTP/1.1 200 x\r\nConnection: close\r\n\r\n[{nodes}]").into_bytes())
    };
    let right = git_hash(b"right");
    [Fault::Right, tree([node(&right), node(&right)])]
        .into_iter()
        .for_each(|answer| hub.fail(Part::Api, answer));
    assert_eq!(texts(&fetch(URI, false, &settings, &Silent).unwrap()), ["right"]);
    [Fault::Right, tree([node(&right), node(COMMIT)])]
        .into_iter()
        .for_each(|answer| hub.fail(Part::Api, answer));
    let error = fetch(URI, false, &settings, &Silent).unwrap_err();
    assert!(error.to_string().contains("no usable list of files"), "{error}");
}

/// A page of a list of files, with a link to the next.
fn page(next: &str, body: &str) -> Fault {
    let link = format!("Link: <{next}>; rel=\"next\"\r\n");
    Fault::Raw(format!("HTTP/1.1 200 x\r\nConnection: close\r\n{link}\r\n{body}").into_bytes())
}

/// A list of pages that leads in a circle is rejected, whether it repeats files or folders.
#[test]
fn a_list_of_files_that_does_not_end_is_no_list() {
    let folder = tempfile::tempdir().unwrap();
    let (hub, settings) = hub(&[("a.parquet", "a", false)], folder.path());
    for kind in ["file", "directory"] {
        let node = format!("{{\"type\":\"{kind}\",\"path\":\"a.parquet\",\"size\":1,\"oid\":\"{COMMIT}\"}}");
        let body = format!("[{}]", vec![node; 2_600].join(","));
        hub.fail(Part::Api, Fault::Right);
        for _ in 0..9 {
            hub.fail(Part::Api, page(&format!("{}/api/x", hub.endpoint), &body));
        }
        let error = fetch(URI, false, &settings, &Silent).unwrap_err();
        assert!(error.to_string().contains("no usable list of files"), "{kind}: {error}");
        assert_eq!(of(&hub.asked(), Part::Api).len(), 5, "{kind}: it is not asked for ever");
        hub.forgive();
    }
}

/// A page that cannot be followed does not shorten the list: neither to a relative address, nor an empty one, nor to
/// another host, which gets no request and so no token.
#[test]
fn a_list_of_files_that_ends_early_is_no_list() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    other.set_nonblocking(true).unwrap();
    let elsewhere = format!("http://{}/api/x", other.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let (hub, settings) = hub(&[("a.parquet", "a", false), ("b.parquet", "b", false)], folder.path());
    let node =
        format!("[{{\"type\":\"file\",\"path\":\"a.parquet\",\"size\":1,\"oid\":\"{}\"}}]", git_hash(b"a"));
    for (next, body) in [("/api/x", node.as_str()), (&format!("{}/api/x", hub.endpoint), "[]")] {
        [Fault::Right, page(next, body)].into_iter().for_each(|answer| hub.fail(Part::Api, answer));
        let error = fetch(URI, false, &settings, &Silent).unwrap_err();
        assert!(error.to_string().contains("no usable list of files"), "{next}: {error}");
    }
    for (fault, says) in [
        (page(&elsewhere, &node), "no usable list of files"),
        (
            Fault::Raw(
                format!("HTTP/1.1 307 x\r\nLocation: {elsewhere}\r\nContent-Length: 0\r\n\r\n").into_bytes(),
            ),
            "the hub answers 307",
        ),
    ] {
        [Fault::Right, fault].into_iter().for_each(|answer| hub.fail(Part::Api, answer));
        let error = fetch(URI, false, &settings, &Silent).unwrap_err();
        assert!(error.kind() == ErrorKind::Network && error.to_string().contains(says), "{error}");
        assert_eq!(hub.faults_left(), 0);
    }
    assert_eq!(other.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "nobody comes");
}

/// Sizes with a sum that overflows are not trusted.
#[test]
fn sizes_that_nothing_has_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (hub, settings) = hub(&[], folder.path());
    let large = |name| {
        format!(
            "{{\"type\":\"file\",\"path\":\"{name}.parquet\",\"size\":{},\"oid\":\"{COMMIT}\"}}",
            u64::MAX
        )
    };
    let tree = format!("HTTP/1.1 200 x\r\nConnection: close\r\n\r\n[{},{}]", large("a"), large("b"));
    [Fault::Right, Fault::Raw(tree.into_bytes())].into_iter().for_each(|answer| hub.fail(Part::Api, answer));
    assert_eq!(fetch(URI, false, &settings, &Silent).unwrap_err().kind(), ErrorKind::Failed);
}

/// Files that the hub stores by Xet are downloaded, read by ranges, and verified like all others.
#[test]
fn files_that_are_stored_by_xet_are_verified_like_others() {
    let (bytes, texts, _) = two_columns();
    let folder = tempfile::tempdir().unwrap();
    let (hub, settings) = hub(&[], folder.path());
    hub.put(COMMIT, "a.parquet", bytes.clone(), true);
    hub.store_by_xet();
    assert!(streamed(&settings).unwrap() == texts);
    hub.fail(Part::Files, Fault::Body(b"other bytes"));
    fetch(URI, false, &settings, &Silent).unwrap_err();
    let fetched = fetch(URI, false, &settings, &Silent).unwrap();
    assert_eq!(fs::read(&fetched[0].0.0).unwrap(), bytes);
    assert_eq!(fetched[0].1, Identity::Hub { commit: COMMIT.to_owned(), etag: sha256(&bytes) });
    assert!(hub.asked().iter().all(|asked| !asked.line.contains("xet")), "its own protocol is not needed");
}

/// Each refusal is an error of the right kind, with advice.
#[test]
fn refusals_say_what_to_do() {
    let cases = [
        (Fault::Status(401, ""), ErrorKind::Authorisation, "HF_TOKEN"),
        (Fault::Status(403, "X-Error-Code: GatedRepo\r\n"), ErrorKind::Authorisation, "terms"),
        (Fault::Status(404, "X-Error-Code: RepoNotFound\r\n"), ErrorKind::Failed, "name"),
        (Fault::Status(400, ""), ErrorKind::Network, "HF_ENDPOINT"),
        (Fault::Body(b"<html>"), ErrorKind::Network, ""),
    ];
    for (fault, kind, says) in cases {
        let folder = tempfile::tempdir().unwrap();
        let (hub, settings) = hub(&[], folder.path());
        hub.fail(Part::Api, fault.clone());
        let error = fetch(URI, false, &settings, &Silent).unwrap_err();
        assert_eq!(error.kind(), kind, "{fault:?}: {error}");
        assert!(error.help().unwrap_or_default().contains(says), "{fault:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let (hub, settings) = hub(&[], folder.path());
    let none = fetch("hf://datasets/ns/poems@nope", false, &settings, &Silent).unwrap_err();
    assert_eq!((none.kind(), none.help()), (ErrorKind::Failed, Some("check the revision after the @")));
    assert!(fetch(URI, false, &settings, &Silent).unwrap_err().to_string().contains("no files"));
    // Files that are not requested may have any names.
    hub.put(COMMIT, "images/12:30.png", "", false);
    hub.put(COMMIT, "12:30.parquet", "right", false);
    assert_eq!(texts(&fetch(URI, false, &settings, &Silent).unwrap()), ["right"]);
    hub.put(COMMIT, "../x.parquet", "", false);
    let outside = fetch(URI, false, &settings, &Silent).unwrap_err();
    assert!(outside.to_string().contains("points outside of the repository"), "{outside}");
    assert!(!format!("{settings:?}").contains("secret"));
    for token in ["a\nb", "tök"] {
        let settings = HubSettings { token: Some(token.to_owned()), ..settings.clone() };
        let error = fetch(URI, false, &settings, &Silent).unwrap_err();
        assert!(error.help().is_some_and(|help| help.contains("HF_TOKEN")), "{error}");
        assert_eq!(error.kind(), ErrorKind::Authorisation);
    }
}

/// A server that starts every answer and then sends a byte now and then, as long as the client listens.
fn dripping() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut stream = stream;
                let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
                let mut sent = stream.read(&mut [0; 4096]).and_then(|_| stream.write_all(head));
                while sent.is_ok() {
                    thread::sleep(Duration::from_millis(20));
                    sent = stream.write_all(b" ");
                }
            });
        }
    });
    address
}

/// A file without an end.
struct Endless(u64);

impl Sink for Endless {
    fn missing(&mut self) -> crate::Result<Option<(u64, Option<u64>)>> {
        Ok(Some((self.0, None)))
    }

    fn begin(&mut self, _head: &Head, _from: u64) -> Result<(), RequestError> {
        Ok(())
    }

    fn append(&mut self, block: &[u8]) -> crate::Result<()> {
        self.0 += crate::base::int::to_u64(block.len());
        Ok(())
    }
}

/// A server of this kind is given up, for complete bodies and for downloads.
#[test]
fn a_server_that_sends_a_byte_now_and_then_is_given_up() {
    let patience = Patience { whole: Duration::from_millis(300), ..Patience::default() };
    let settings = HubSettings { endpoint: dripping(), patience, ..HubSettings::default() };
    let http = Http::new(Server::Web, None, &settings.patience, &settings.noted).unwrap();
    let url = address(&format!("{}/list", settings.endpoint)).unwrap();
    let list = Request::new(Method::GET, url.clone());
    let refused = wait_for(&|| false, "a list", http.whole("a list", &list)).expect_err("it does not end");
    assert_eq!(refused.kind(), ErrorKind::Network, "{refused}");
    let mut endless = Endless(0);
    let slow = wait_for(&|| false, "a file", http.fetch("a file", &url, &mut endless)).unwrap_err();
    assert!(slow.kind() == ErrorKind::Network && slow.to_string().contains("it has sent"), "{slow}");
}

/// A connection without valid encryption is refused at once, without further attempts.
#[test]
fn a_server_that_is_not_trusted_is_not_asked_again() {
    let address = dripping().replace("http://", "https://");
    let patience = Patience { first_wait: Duration::from_secs(100), ..Patience::default() };
    let settings = HubSettings { patience, ..HubSettings::default() };
    let error = read(&format!("{address}/a.txt"), DocumentRule::File, &settings).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Network);
    assert!(error.to_string().contains("the connection is not trusted"), "{error}");
}

/// A Parquet file with three row groups, a column of long texts, and an equally long second column.
fn two_columns() -> (Vec<u8>, Vec<String>, usize) {
    let texts: Vec<String> =
        (0..300).map(|row| format!("{row} {}", "0123456789abcdef".repeat(300))).collect();
    let column: ArrayRef = Arc::new(StringArray::from_iter_values(&texts));
    let rows = RecordBatch::try_from_iter([("other", Arc::clone(&column)), ("text", column)]).unwrap();
    let properties =
        WriterProperties::builder().set_max_row_group_row_count(Some(100)).set_dictionary_enabled(false);
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, rows.schema(), Some(properties.build())).unwrap();
    writer.write(&rows).unwrap();
    let metadata = writer.close().unwrap();
    let groups = metadata.row_groups().iter();
    let needed = groups.map(|group| usize::try_from(group.column(1).compressed_size()).unwrap()).sum();
    (bytes, texts, needed)
}

/// Opens and reads a source with `stream` set.
fn read(
    uri: &str,
    documents: DocumentRule,
    settings: &HubSettings,
) -> crate::Result<(Vec<String>, Identity)> {
    let spec = SourceSpec { uri: uri.to_owned(), documents, stream: true, ..SourceSpec::default() };
    let source = open(&spec, 0, &OpenContext { hub: settings.clone(), ..OpenContext::new(&Silent) })?;
    let mut texts = Vec::new();
    for unit in 0..source.units().len() {
        for batch in source.read(unit)? {
            texts.extend(batch?.iter().map(|text| String::from_utf8(text.unwrap().to_vec()).unwrap()));
        }
    }
    Ok((texts, source.identity(0)?))
}

fn streamed(settings: &HubSettings) -> crate::Result<Vec<String>> {
    let (texts, identity) = read(URI, DocumentRule::File, settings)?;
    assert!(matches!(identity, Identity::Hub { commit, .. } if commit == COMMIT));
    Ok(texts)
}

/// Only the needed ranges are transferred, nothing is stored, and the token is sent only to the hub.
#[test]
fn a_stream_reads_the_ranges_it_needs_and_keeps_nothing() {
    let (bytes, texts, needed) = two_columns();
    let faults: &[&[(Part, Fault)]] = &[
        &[],
        &[(Part::Files, Fault::CutAfter(1_000)), (Part::Files, Fault::Status(403, ""))],
        &[(Part::Files, Fault::Status(500, "")), (Part::Files, Fault::Stall(SILENCE * 3))],
    ];
    for faults in faults {
        let folder = tempfile::tempdir().unwrap();
        let (hub, settings) = hub(&[], folder.path());
        hub.put(COMMIT, "a.parquet", bytes.clone(), true);
        faults.iter().cloned().for_each(|(part, fault)| hub.fail(part, fault));
        assert!(streamed(&settings).unwrap() == texts);
        let asked = hub.asked();
        let files = of(&asked, Part::Files);
        let sent: usize = files.iter().map(|asked| asked.sent).sum();
        assert!(sent <= needed + (64 << 10) + 1_000, "{sent} bytes sent, {needed} needed");
        assert!(files.iter().all(|asked| !asked.token), "the token is for the hub alone");
        assert!(fs::read_dir(folder.path()).unwrap().next().is_none(), "nothing is kept");
        let offline = HubSettings { offline: true, ..settings.clone() };
        assert_eq!(streamed(&offline).unwrap_err().kind(), ErrorKind::Network);
        fetch(URI, false, &settings, &Silent).unwrap();
        hub.asked();
        assert!(streamed(&offline).unwrap() == texts && streamed(&settings).unwrap() == texts);
        assert!(of(&hub.asked(), Part::Files).is_empty(), "what the cache has is read there");
    }
}

/// Streamed files are single units, whether the cache has them or not.
#[test]
fn units_of_a_stream_do_not_depend_on_what_the_cache_has() {
    let folder = tempfile::tempdir().unwrap();
    let (_hub, settings) = hub(&[("data/a.txt", "one\ntwo\nthree\n", true)], folder.path());
    let uri = format!("{URI}/data");
    let (documents, config) = (DocumentRule::Line, ReadConfig { range_bytes: 4, ..ReadConfig::default() });
    let spec = |stream| {
        let (uri, documents) = (uri.clone(), documents.clone());
        SourceSpec { uri, documents, stream, ..SourceSpec::default() }
    };
    let context = || OpenContext { hub: settings.clone(), config, ..OpenContext::new(&Silent) };
    let units = |stream| open(&spec(stream), 0, &context()).unwrap().units().to_vec();
    let looked_at = || open_without_download(&spec(false), 0, &context()).unwrap().units().to_vec();
    let expected = units(true);
    assert_eq!(looked_at(), expected, "a file that the cache lacks cannot be cut");
    assert!(!settings.cache.exists() || fs::read_dir(&settings.cache).unwrap().next().is_none());
    let cut = units(false);
    assert_eq!(cut.len(), 3, "a downloaded file is cut");
    assert_eq!(units(true), expected);
    assert_eq!(looked_at(), cut, "a cached file is cut too");
}

/// Changed files, missing support of ranges, and error pages are detected.
#[test]
fn a_stream_notices_what_is_not_the_listed_file() {
    let (bytes, _, _) = two_columns();
    let cases = [
        (Part::Resolve, Fault::Etag("other"), "changed"),
        (Part::Files, Fault::Whole, "range requests"),
        (Part::Files, Fault::Body(b"an error page"), "range requests"),
    ];
    for (part, fault, says) in cases {
        let folder = tempfile::tempdir().unwrap();
        let (hub, settings) =
            hub(&[("b.jsonl", r#"{"text": "x"}"#, false), ("c.arrow", "", true)], folder.path());
        hub.put(COMMIT, "a.parquet", bytes.clone(), true);
        hub.fail(part, fault);
        let error = streamed(&settings).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Network);
        assert!(error.to_string().contains(says) && error.to_string().contains("a.parquet"), "{error}");
        assert_eq!(read(&format!("{URI}/b.jsonl"), DocumentRule::File, &settings).unwrap().0, ["x"]);
        let refused = read(&format!("{URI}/c.arrow"), DocumentRule::File, &settings).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Usage, "{refused}");
    }
}

/// Files of a web server without the hub's API are read in every format.
#[test]
fn files_of_a_web_server_are_read_where_they_lie() {
    let folder = tempfile::tempdir().unwrap();
    let (hub, settings) =
        hub(&[("b.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}", false)], folder.path());
    let (parquet, texts, _) = two_columns();
    let lines: Vec<String> = (0..1_500_000).map(|line| format!("line {line}")).collect();
    let text = lines.join("\n");
    hub.put(COMMIT, "a.parquet", parquet, false);
    hub.put(COMMIT, "c.txt", text.as_bytes(), false);
    hub.put(COMMIT, "d.txt.zst", zstd::encode_all(text.as_bytes(), 1).unwrap(), false);
    // Only the files are requested here, not the API, so this hub acts as an ordinary web server.
    let uri = |name: &str| format!("{}/resolve-cache/{COMMIT}/{name}", hub.endpoint);
    hub.fail(Part::Resolve, Fault::Status(503, ""));
    let (found, identity) = read(&uri("a.parquet?x=1"), DocumentRule::File, &settings).unwrap();
    assert!(found == texts);
    assert!(matches!(identity, Identity::Web { bytes, etag } if bytes > 0 && etag.len() == 40));
    assert_eq!(read(&uri("b.jsonl"), DocumentRule::Line, &settings).unwrap().0, ["one", "two"]);
    for name in ["c.txt", "d.txt.zst"] {
        assert!(read(&uri(name), DocumentRule::Line, &settings).unwrap().0 == lines, "{name}");
    }
    hub.put(COMMIT, "e.txt", "", false);
    assert!(read(&uri("e.txt"), DocumentRule::Line, &settings).unwrap().0.is_empty());
    let columns = SourceSpec { uri: uri("c.txt"), columns: vec!["id".to_owned()], ..SourceSpec::default() };
    let context = OpenContext { hub: settings.clone(), ..OpenContext::new(&Silent) };
    let refused = open(&columns, 0, &context).map(|_| ()).unwrap_err();
    assert!(refused.kind() == ErrorKind::Usage && refused.to_string().contains("no columns"), "{refused}");
    assert!(hub.asked().iter().all(|asked| !asked.token), "the token is for the hub alone");
    for (fault, kind) in
        [(Fault::Status(403, ""), ErrorKind::Authorisation), (Fault::Status(404, ""), ErrorKind::Failed)]
    {
        hub.fail(Part::Resolve, fault);
        let error = read(&uri("c.txt"), DocumentRule::Line, &settings).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains("the server answers"), "{error}");
    }
}

/// A remote file in memory.
#[derive(Debug)]
struct Elsewhere(Vec<u8>);

impl RangeRead for Elsewhere {
    fn bytes(&self) -> u64 {
        crate::base::int::to_u64(self.0.len())
    }

    fn range(&self, start: u64, length: usize) -> crate::Result<bytes::Bytes> {
        let start = crate::base::int::u64_to_usize(start);
        Ok(self.0[start..start + length].to_vec().into())
    }
}

/// Without an entity tag or a time, a file is identified by its content.
#[test]
fn a_file_without_tag_and_time_is_known_by_its_content() {
    let parquet = |text: &str| {
        let column: ArrayRef = Arc::new(StringArray::from(vec![text]));
        let rows = RecordBatch::try_from_iter([("text", column)]).unwrap();
        let mut writer = ArrowWriter::try_new(Vec::new(), rows.schema(), None).unwrap();
        writer.write(&rows).unwrap();
        writer.into_inner().unwrap()
    };
    let identity = |name: &str, bytes: Vec<u8>, etag: &str| {
        let known = Identity::Web { bytes: crate::base::int::to_u64(bytes.len()), etag: etag.to_owned() };
        let remote: Arc<dyn RangeRead> = Arc::new(Elsewhere(bytes));
        let place = (std::path::PathBuf::from(name), name.to_owned());
        let files = listing::named(name, vec![place], vec![Some(remote)], None, &mut Vec::new()).unwrap();
        let spec = SourceSpec { uri: name.to_owned(), ..SourceSpec::default() };
        let bad =
            BadInput { policy: spec.on_bad_input, source: 0, skipped_rows: Arc::new(SkippedRows::default()) };
        let files = FileSource::open(&spec, files, vec![known], ReadConfig::default(), bad).unwrap();
        files.identity(0).unwrap()
    };
    for (name, one, two) in
        [("a.txt", b"one".to_vec(), b"two".to_vec()), ("a.parquet", parquet("one"), parquet("two"))]
    {
        assert_eq!(one.len(), two.len());
        assert_eq!(identity(name, one.clone(), ""), identity(name, one.clone(), ""), "{name}");
        assert_ne!(identity(name, one.clone(), ""), identity(name, two.clone(), ""), "{name}");
        assert_eq!(identity(name, one, "tag"), identity(name, two, "tag"), "{name}");
    }
}
