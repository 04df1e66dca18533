//! Damaged answers of a hub, a web server and an object store. The servers are those of the tests, on the
//! loopback interface.

#[path = "../../tests/support/bucket.rs"]
mod bucket;
#[path = "../../tests/support/hub.rs"]
mod fake;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use tokenmill::observer::Silent;
use tokenmill::source::{DocumentRule, HubSettings, OpenContext, Patience, SourceSpec};

use super::readers::read_all;
use super::{Result, Target};
use fake::{COMMIT, FakeHub, Fault, Part, git_hash, sha256};

const NAME: &str = "ns/poems";

/// Refusing answers, with all headers that the client heeds in such answers.
const REFUSALS: [&str; 3] = [
    "HTTP/1.1 429 x\r\nRetry-After: 1\r\nRateLimit: \"api\";r=0;t=3\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 503 x\r\nRetry-After: Wed, 21 Oct 2026 07:28:00 GMT\r\nContent-Length: 2\r\n\r\n{}",
    "HTTP/1.1 403 x\r\nX-Error-Code: GatedRepo\r\nX-Error-Message: not you\r\nContent-Length: 0\r\n\r\n",
];

/// A redirect.
const REDIRECT: &str = "HTTP/1.1 302 x\r\nLocation: /resolve-cache/0123456789abcdef0123456789abcdef01234567/c.txt\r\n\
                        Content-Length: 0\r\n\r\n";

pub(crate) fn targets(scratch: &Path) -> Result<Vec<Target>> {
    let mut targets = hub_targets(scratch)?;
    targets.extend(web_targets(scratch)?);
    targets.extend(store::targets(scratch)?);
    Ok(targets)
}

/// A hub with small and large files, in a listing of several pages.
fn hub() -> Result<FakeHub> {
    let hub = FakeHub::start(NAME);
    for (number, large) in [(1, true), (2, false), (3, true), (4, false)] {
        hub.put(COMMIT, &format!("data/{number}.jsonl"), format!("{{\"text\": \"no. {number}\"}}\n"), large);
    }
    hub.put(COMMIT, "rows/a.parquet", parquet()?, true);
    hub.put(COMMIT, "c.txt", "a line\n".repeat(500), false);
    Ok(hub)
}

fn parquet() -> Result<Vec<u8>> {
    let column: ArrayRef =
        std::sync::Arc::new(StringArray::from_iter_values((0..50).map(|row| row.to_string())));
    let rows = RecordBatch::try_from_iter([("text", column)])?;
    let mut writer = ArrowWriter::try_new(Vec::new(), rows.schema(), None)?;
    writer.write(&rows)?;
    Ok(writer.into_inner()?)
}

fn settings(endpoint: &str, scratch: &Path) -> HubSettings {
    let patience = Patience {
        attempts: 2,
        first_wait: Duration::from_millis(1),
        longest_wait: Duration::from_millis(5),
        silence: Duration::from_millis(300),
        whole: Duration::from_secs(2),
    };
    let (token, cache) = (Some("secret".to_owned()), scratch.join("cache"));
    HubSettings {
        endpoint: endpoint.to_owned(),
        token,
        cache,
        offline: false,
        patience,
        ..HubSettings::default()
    }
}

/// The answer of a server, with and without the length of its body. Without it, the body ends when the
/// connection does.
fn answers(address: &str, method: &str, path: &str, headers: &str) -> Result<Vec<Vec<u8>>> {
    let mut stream = TcpStream::connect(address.trim_start_matches("http://"))?;
    stream.write_all(format!("{method} {path} HTTP/1.1\r\n{headers}\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let is_length = |line: &&[u8]| line.starts_with(b"Content-Length");
    let endless = answer.split_inclusive(|&byte| byte == b'\n').filter(|line| !is_length(line));
    Ok(vec![endless.collect::<Vec<_>>().concat(), answer])
}

/// Target of a redirect.
fn location(answer: &[u8]) -> Result<String> {
    let text = String::from_utf8_lossy(answer);
    let line = text.lines().find_map(|line| line.strip_prefix("Location: "));
    Ok(line.ok_or("an answer that leads nowhere")?.to_owned())
}

/// Whether an answer could lead the client to another machine.
fn leads_away(answer: &[u8]) -> bool {
    let head = answer.windows(4).position(|end| end == b"\r\n\r\n").unwrap_or(answer.len());
    let text = String::from_utf8_lossy(&answer[..head]);
    text.match_indices("//").any(|(at, _)| {
        let authority: String =
            text[at + 2..].chars().take_while(|letter| !"/?#<>\"\r\n".contains(*letter)).collect();
        let host = authority.split(':').next().unwrap_or_default();
        !["127.0.0.1", "localhost"].contains(&host) || authority.contains('@')
    })
}

fn hub_targets(scratch: &Path) -> Result<Vec<Target>> {
    let hub = hub()?;
    let get = |path: &str, headers: &str| answers(&hub.endpoint, "GET", path, headers);
    let resolve = |file: &str| get(&format!("/datasets/{NAME}/resolve/{COMMIT}/{file}"), "");
    let tree = format!("/api/datasets/{NAME}/tree/{COMMIT}?recursive=true");
    let revision = get(&format!("/api/datasets/{NAME}/revision/main"), "")?;
    let pages = [get(&tree, "")?, get(&format!("{tree}&cursor=6"), "")?].concat();
    let leads = resolve("data/1.jsonl")?;
    let refusals: Vec<Vec<u8>> = REFUSALS.iter().map(|text| text.as_bytes().to_vec()).collect();
    let signed = |file: &str, headers: &str| -> Result<Vec<Vec<u8>>> {
        let address = location(&resolve(file)?[0])?;
        let (host, path) = address.trim_start_matches("http://").split_once('/').ok_or("no path")?;
        answers(host, "GET", &format!("/{path}"), headers)
    };
    let whole = signed("data/1.jsonl", "")?;
    let ranges = signed("rows/a.parquet", "Range: bytes=0-65535\r\n")?;
    let (down, rows) = (("data", false), ("rows", true));
    let right = |part| (part, Fault::Right);
    let cases = [
        ("hub revision", [revision, refusals.clone()].concat(), vec![], Part::Api, down),
        ("hub tree", pages.clone(), vec![right(Part::Api)], Part::Api, down),
        ("hub tree again", pages, vec![right(Part::Api), right(Part::Api)], Part::Api, down),
        // The first request for a large file asks for its entity tag, the second for its content.
        ("hub tag", [leads.clone(), refusals.clone()].concat(), vec![], Part::Resolve, down),
        ("hub resolve", [leads, refusals].concat(), vec![right(Part::Resolve)], Part::Resolve, down),
        ("hub file", whole, vec![], Part::Files, down),
        ("hub stream tag", resolve("rows/a.parquet")?, vec![], Part::Resolve, rows),
        ("hub stream resolve", resolve("rows/a.parquet")?, vec![right(Part::Resolve)], Part::Resolve, rows),
        ("hub stream range", ranges, vec![], Part::Files, rows),
    ];
    type Case = (&'static str, Vec<Vec<u8>>, Vec<(Part, Fault)>, Part, (&'static str, bool));
    let target = |(name, seeds, before, part, (folder, stream)): Case| {
        let (hub, settings) = (hub.clone(), settings(&hub.endpoint, &scratch.join("hub")));
        let spec =
            SourceSpec { uri: format!("hf://datasets/{NAME}/{folder}"), stream, ..SourceSpec::default() };
        Target::new(name, "answer", seeds, move |path| {
            let faults =
                [before.clone(), vec![(part, Fault::Raw(fs::read(path).unwrap_or_default()))]].concat();
            reads(&hub, faults, &spec, &settings)
        })
    };
    Ok(cases.into_iter().map(target).collect())
}

/// Reads a source while the hub gives these answers, and checks the cache afterwards. Returns whether the
/// source was accepted.
fn reads(hub: &FakeHub, faults: Vec<(Part, Fault)>, spec: &SourceSpec, settings: &HubSettings) -> bool {
    if faults.iter().any(|(_, fault)| matches!(fault, Fault::Raw(bytes) if leads_away(bytes))) {
        return false;
    }
    let place = settings.cache.parent().expect("a folder for the cache");
    drop(fs::remove_dir_all(place));
    fs::create_dir_all(place).expect("a folder for the cache");
    faults.into_iter().for_each(|(part, fault)| hub.fail(part, fault));
    let context = OpenContext { hub: settings.clone(), ..OpenContext::new(&Silent) };
    let accepted = read_all(spec, &context);
    hub.forgive();
    let to_others = |asked: &fake::Asked| asked.part == Part::Files && asked.token;
    assert!(!hub.asked().iter().any(to_others), "the token is for the hub alone");
    check_cache(place);
    accepted
}

/// Panics if a file in the cache does not have the hash that is its name, or if any file is outside the cache.
fn check_cache(place: &Path) {
    let names =
        |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    assert!(names(place).all(|path| path.ends_with("cache")), "a file outside the cache");
    for repository in names(&place.join("cache")) {
        assert!(repository.ends_with("datasets--ns--poems"), "a folder outside the dataset's");
        for blob in names(&repository.join("blobs")) {
            let name = blob.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let bytes = fs::read(&blob).expect("a blob");
            let right = [sha256(&bytes), git_hash(&bytes)].contains(&name);
            assert!(right || name.ends_with(".incomplete"), "{name} is another file");
        }
    }
}

fn web_targets(scratch: &Path) -> Result<Vec<Target>> {
    let hub = hub()?;
    hub.put(COMMIT, "a.parquet", parquet()?, false);
    let cases = [
        ("web look", "a.parquet", "bytes=0-0", 0),
        ("web rows", "a.parquet", "bytes=0-65535", 1),
        ("web text", "c.txt", "bytes=0-65535", 1),
    ];
    let target = |(name, file, range, right)| {
        let (hub, settings) = (hub.clone(), settings(&hub.endpoint, &scratch.join("web")));
        let path = format!("/resolve-cache/{COMMIT}/{file}");
        let mut seeds = answers(&hub.endpoint, "GET", &path, &format!("Range: {range}\r\n"))?;
        seeds.push(REFUSALS[0].as_bytes().to_vec());
        seeds.push(REDIRECT.as_bytes().to_vec());
        let uri = format!("{}{path}", hub.endpoint);
        let spec = SourceSpec { uri, documents: DocumentRule::Line, ..SourceSpec::default() };
        let read = move |path: &Path| {
            let mut faults = vec![(Part::Resolve, Fault::Right); right];
            faults.push((Part::Resolve, Fault::Raw(fs::read(path).unwrap_or_default())));
            reads(&hub, faults, &spec, &settings)
        };
        Ok(Target::new(name, "answer", seeds, read))
    };
    cases.into_iter().map(target).collect()
}

mod store {
    use super::bucket::{BUCKET, Bucket};
    use super::*;
    use tokenmill::source::StoreSettings;

    /// Listings and objects, as the stores of Amazon and Microsoft send them.
    pub(super) fn targets(scratch: &Path) -> Result<Vec<Target>> {
        let cases = [
            ("s3 list", "s3", "GET", "?list-type=2&prefix=", "", 0),
            ("az list", "az", "GET", "?restype=container&comp=list", "", 0),
            ("s3 head", "s3", "HEAD", "/a.parquet", "/a.parquet", 0),
            ("s3 range", "s3", "GET", "/a.parquet", "/a.parquet", 1),
        ];
        let target = |(name, scheme, method, asked, path, right)| {
            let bucket = Bucket::start();
            for object in ["a.parquet", "b.parquet", "c.parquet"] {
                bucket.put(object, parquet()?);
            }
            let range = if right > 0 { "Range: bytes=0-65535\r\n" } else { "" };
            let seeds = answers(&bucket.endpoint, method, &format!("/{BUCKET}{asked}"), range)?;
            let context = variables(&bucket.endpoint);
            let settings = settings("http://127.0.0.1:1", &scratch.join("store"));
            let spec = SourceSpec { uri: format!("{scheme}://{BUCKET}{path}"), ..SourceSpec::default() };
            let read = move |path: &Path| {
                (0..right).for_each(|_| bucket.fail(Fault::Right));
                bucket.fail(Fault::Raw(fs::read(path).unwrap_or_default()));
                let (hub, stores) = (settings.clone(), StoreSettings { variables: context.clone() });
                let accepted = read_all(&spec, &OpenContext { hub, stores, ..OpenContext::new(&Silent) });
                bucket.forgive();
                bucket.asked();
                accepted
            };
            Ok(Target::new(name, "answer", seeds, read))
        };
        cases.into_iter().map(target).collect()
    }

    fn variables(endpoint: &str) -> Vec<(String, String)> {
        let variables = [
            ("AWS_ENDPOINT", endpoint),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_SKIP_SIGNATURE", "true"),
            ("AZURE_ENDPOINT", endpoint),
            ("AZURE_SKIP_SIGNATURE", "true"),
            ("AZURE_STORAGE_ACCOUNT_NAME", "somebody"),
            ("AZURE_ALLOW_HTTP", "true"),
        ];
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }
}
