//! Tests of tokenizers by name, against a hub that runs on this machine and can be told to fail.

use std::sync::{Arc, Mutex};

use super::ranks::RankFile;
use super::*;
use crate::base::pools::lock;
use crate::observer::Silent;
use crate::source::Note;
use crate::source::remote::tests::fake::{COMMIT, FakeHub, Fault, Part};
use crate::source::remote::tests::{hub, of};

const TOKENIZER: &str = "hf://ns/poems";

fn snapshot(cache: &Path, repository: &str) -> PathBuf {
    cache.join(repository).join("snapshots").join(COMMIT)
}

/// The files of a tokenizer are downloaded together, once; other files of the repository are not.
#[test]
fn a_tokenizer_comes_with_what_lies_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("README.md", "# a model", false),
        ("config.json", "{\"model_type\": \"gpt2\"}", false),
        ("merges.txt", "a b", false),
        ("model.safetensors", "weights", true),
        ("onnx/tokenizer_config.json", "{\"of\": \"another\"}", false),
        ("special_tokens_map.json", "{}", false),
        ("tokenizer.json", "{\"model\": {}}", true),
        ("tokenizer_config.json", "{\"eos_token\": \"b\"}", false),
        ("training.json", "{}", false),
        ("vocab.json", "{\"a\": 1}", false),
    ];
    let (hub, settings) = hub(&files, folder.path());
    let cached = snapshot(folder.path(), "models--ns--poems");
    let path = tokenizer_path(TOKENIZER, &settings, &Silent).unwrap();
    assert_eq!(path, cached.join("tokenizer.json"));
    assert_eq!(fs::read(&path).unwrap(), b"{\"model\": {}}");
    let mut found: Vec<_> = fs::read_dir(&cached)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    assert_eq!(
        found,
        [
            "config.json",
            "special_tokens_map.json",
            "tokenizer.json",
            "tokenizer_config.json",
            "training.json"
        ]
    );
    let asked = hub.asked();
    assert!(asked[0].line.starts_with("GET /api/models/ns/poems/revision/main"), "{asked:?}");
    assert!(of(&asked, Part::Files).iter().all(|asked| !asked.token), "the token is for the hub alone");
    assert!(of(&asked, Part::Api).iter().all(|asked| asked.token));

    tokenizer_path(TOKENIZER, &settings, &Silent).unwrap();
    assert!(of(&hub.asked(), Part::Resolve).is_empty(), "nothing is downloaded again");
    let offline = HubSettings { offline: true, ..settings.clone() };
    for name in [
        TOKENIZER,
        "hf://models/ns/poems",
        &format!("{TOKENIZER}@{COMMIT}"),
        "hf://ns/poems@main/tokenizer.json",
    ] {
        assert_eq!(tokenizer_path(name, &offline, &Silent).unwrap(), path, "{name}");
    }
    assert!(hub.asked().is_empty(), "offline asks nobody");
    // Other files of the repository are downloaded when they are requested.
    let pair = tokenizer_path("hf://ns/poems/vocab.json", &settings, &Silent).unwrap();
    assert_eq!(pair, cached.join("vocab.json"));
    assert!(cached.join("merges.txt").is_file());
    let of_dataset = tokenizer_path("hf://datasets/ns/poems", &settings, &Silent).unwrap();
    assert_eq!(of_dataset, snapshot(folder.path(), "datasets--ns--poems").join("tokenizer.json"));
}

/// Offline, a tokenizer that is not in the cache is an error, with advice how to get it otherwise.
#[test]
fn a_tokenizer_that_is_not_cached_is_missed_offline() {
    let folder = tempfile::tempdir().unwrap();
    let (hub, settings) = hub(&[("merges.txt", "a b", false), ("vocab.json", "{}", false)], folder.path());
    let said = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&said);
    let noted: Note = Arc::new(move |line| lock(&heard).push(line.to_owned()));
    let offline = HubSettings { offline: true, noted, ..settings.clone() };
    let missed = |name: &str| {
        let error = tokenizer_path(name, &offline, &Silent).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Network, "{error}");
        assert!(
            error.to_string().contains(name) && error.to_string().contains("is not in the cache"),
            "{error}"
        );
        let help = error.help().unwrap_or_default().to_owned();
        assert!(help.contains("HF_HUB_OFFLINE") && help.contains("hf download ns/"), "{help}");
        help
    };
    assert!(missed(TOKENIZER).contains("hf download ns/poems tokenizer.json --local-dir"));
    assert!(missed("hf://datasets/ns/poems/x.json").contains("poems x.json --repo-type dataset"));
    assert!(hub.asked().is_empty(), "offline asks nobody");
    let path = tokenizer_path(TOKENIZER, &settings, &Silent).unwrap();
    assert_eq!(tokenizer_path(TOKENIZER, &offline, &Silent).unwrap(), path);
    let said = std::mem::take(&mut *lock(&said)).join("\n");
    assert!(said.contains("vocab.json of hf://ns/poems is used; the hub may have more files"), "{said}");
    missed("hf://ns/poems@v2");
    missed("hf://ns/poems/tokenizer.json");
    // A dangling link does not count as a file.
    fs::remove_file(fs::canonicalize(path).unwrap()).unwrap();
    missed(TOKENIZER);
}

/// If a repository has no tokenizer, the error lists its files and mentions a folder that has one.
#[test]
fn what_a_repository_lacks_is_told_with_what_it_has() {
    for (files, name, kind, says, help) in [
        (&[][..], TOKENIZER, ErrorKind::Failed, "has no files", "tokenizer.json"),
        (
            &["README.md", "model.safetensors", "vocab.json"],
            TOKENIZER,
            ErrorKind::Failed,
            "the files of the repository are README.md, model.safetensors, vocab.json",
            "a model's page often says",
        ),
        (
            &["tokenizer.json"],
            "hf://ns/poems/x.json",
            ErrorKind::Failed,
            "the files of the repository are tokenizer.json",
            "",
        ),
        (
            &["model.bin", "tokenizer/tokenizer.json"],
            TOKENIZER,
            ErrorKind::Failed,
            "the files of the repository are model.bin",
            "name hf://ns/poems/tokenizer, which has one",
        ),
        (
            &["a.tiktoken", "b.tiktoken"],
            "hf://ns/poems@main",
            ErrorKind::Usage,
            "several tokenizers: a.tiktoken, b.tiktoken",
            "name one of them, as hf://ns/poems@main/a.tiktoken",
        ),
        (
            &["tokenizer.json"],
            "hf://ns/poems@v9",
            ErrorKind::Failed,
            "RevisionNotFound",
            "check the revision",
        ),
        (&["tokenizer.json"], "hf://ns/prose", ErrorKind::Failed, "RepoNotFound", "check the name"),
        (&["../tokenizer.json", "tokenizer.json"], TOKENIZER, ErrorKind::Network, "points outside of", ""),
        (&["\u{1b}[2J"], TOKENIZER, ErrorKind::Failed, "the files of the repository are \"\\u{1b}[2J\"", ""),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (hub, settings) = hub(&[], folder.path());
        files.iter().for_each(|path| hub.put(COMMIT, path, "x", false));
        let error = tokenizer_path(name, &settings, &Silent).unwrap_err();
        assert_eq!(error.kind(), kind, "{files:?} {name}: {error}");
        assert!(error.to_string().contains(says), "{files:?} {name}: {error}");
        assert!(error.help().unwrap_or_default().contains(help), "{files:?} {name}: {:?}", error.help());
        assert!(!folder.path().join("models--ns--poems").exists(), "nothing is left");
    }
}

/// A refusal of the hub is an error with advice.
#[test]
fn a_hub_that_refuses_a_tokenizer_says_what_to_do() {
    for (fault, kind, says) in [
        (Fault::Status(401, ""), ErrorKind::Authorisation, "HF_TOKEN"),
        (Fault::Status(403, "X-Error-Code: GatedRepo\r\n"), ErrorKind::Authorisation, "accept the terms"),
        (
            Fault::Status(404, "X-Error-Code: RepoNotFound\r\n"),
            ErrorKind::Failed,
            "check the name of the repository",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (hub, settings) = hub(&[("tokenizer.json", "x", false)], folder.path());
        hub.fail(Part::Api, fault.clone());
        let error = tokenizer_path(TOKENIZER, &settings, &Silent).unwrap_err();
        assert_eq!(error.kind(), kind, "{fault:?}: {error}");
        assert!(error.help().unwrap_or_default().contains(says), "{fault:?}: {:?}", error.help());
    }
    // If the hub cannot be reached, the advice includes another way to get the tokenizer.
    let folder = tempfile::tempdir().unwrap();
    let (_hub, settings) = hub(&[], folder.path());
    let nowhere = HubSettings { endpoint: "http://127.0.0.1:9".to_owned(), ..settings };
    let error = tokenizer_path(TOKENIZER, &nowhere, &Silent).unwrap_err();
    let help = error.help().unwrap_or_default();
    assert!(error.kind() == ErrorKind::Network && help.contains("hf download ns/poems"), "{error} {help}");
}

/// An interrupted download continues, and its content is verified.
#[test]
fn a_cut_download_of_a_tokenizer_goes_on_and_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let text = "0123456789".repeat(100);
    let (hub, settings) = hub(&[("tokenizer.json", &text, true)], folder.path());
    hub.fail(Part::Files, Fault::CutAfter(300));
    let path = tokenizer_path(TOKENIZER, &settings, &Silent).unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), text);
    let from: Vec<usize> = of(&hub.asked(), Part::Files).iter().map(|asked| asked.from).collect();
    assert_eq!(from, [0, 300]);
    let folder = tempfile::tempdir().unwrap();
    let settings = HubSettings { cache: folder.path().to_owned(), ..settings };
    hub.fail(Part::Files, Fault::Body(b"an error page"));
    tokenizer_path(TOKENIZER, &settings, &Silent).unwrap_err();
    assert!(!snapshot(folder.path(), "models--ns--poems").exists(), "a wrong file gets no final name");
}

/// The name `gpt2` works offline, also with caches from before the repository had a namespace.
#[test]
fn gpt_2_is_known_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let hub = FakeHub::start("openai-community/gpt2");
    hub.put(COMMIT, "tokenizer.json", "{}", false);
    let settings = HubSettings {
        endpoint: hub.endpoint.clone(),
        cache: folder.path().to_owned(),
        ..HubSettings::default()
    };
    let path = tokenizer_path("gpt2", &settings, &Silent).unwrap();
    assert_eq!(path, snapshot(folder.path(), "models--openai-community--gpt2").join("tokenizer.json"));
    hub.asked();
    assert_eq!(tokenizer_path("gpt2", &settings, &Silent).unwrap(), path);
    assert!(hub.asked().is_empty(), "it does not change");
    // The name under which older programs cached it.
    let of_old = snapshot(folder.path(), "models--gpt2").join("tokenizer.json");
    fs::rename(folder.path().join("models--openai-community--gpt2"), folder.path().join("models--gpt2"))
        .unwrap();
    let offline = HubSettings { offline: true, ..settings };
    assert_eq!(tokenizer_path("gpt2", &offline, &Silent).unwrap(), of_old);
    assert_eq!(tokenizer_path("hf://gpt2", &offline, &Silent).unwrap(), of_old);
}

/// A file as OpenAI might publish it.
const MADE_UP: RankFile = RankFile {
    address: "https://openaipublic.blob.core.windows.net/encodings/made_up.tiktoken",
    sha256: "48168fa99cb7e014e77dbf4af79fc5b2a50caac8e820883ea7326f88bc713ac9",
};

/// The SHA-1 of its address, which is its name in `tiktoken`'s cache.
const MADE_UP_PLACE: &str = "4e2b067be011ef276af91dc65755fb4c9d668ad1";

/// Rank files are stored like in `tiktoken`, and their hashes are verified.
#[test]
fn ranks_of_openai_are_kept_where_tiktoken_keeps_them() {
    let folder = tempfile::tempdir().unwrap();
    let (hub, settings) = hub(&[], folder.path());
    let cache = folder.path().join("data-gym-cache");
    let settings =
        HubSettings { ranks_endpoint: hub.endpoint.clone(), ranks_cache: cache.clone(), ..settings };
    let offline = HubSettings { offline: true, ..settings.clone() };
    let place = cache.join(MADE_UP_PLACE);

    let missed = MADE_UP.fetch(&offline, &Silent).unwrap_err();
    let help = missed.help().unwrap_or_default();
    assert!(missed.to_string().starts_with("made_up is not in the cache"), "{missed}");
    assert!(help.contains(MADE_UP.address) && help.contains("HF_HUB_OFFLINE"), "{help}");
    assert!(help.contains("made_up.tiktoken") && help.contains("get_encoding(\"made_up\")"), "{help}");

    hub.fail(Part::Resolve, Fault::Body(b"other bytes"));
    let wrong = MADE_UP.fetch(&settings, &Silent).unwrap_err();
    assert!(wrong.kind() == ErrorKind::Network && wrong.to_string().contains("SHA-256"), "{wrong}");
    hub.fail(Part::Resolve, Fault::Status(404, ""));
    let gone = MADE_UP.fetch(&settings, &Silent).unwrap_err();
    assert!(gone.help().is_some_and(|help| help.contains(MADE_UP.address)), "{gone}");
    assert!(!place.exists(), "a wrong file is not kept");
    hub.asked();

    hub.fail(Part::Resolve, Fault::Body(b"made up"));
    assert_eq!(MADE_UP.fetch(&settings, &Silent).unwrap(), place);
    assert_eq!(fs::read(&place).unwrap(), b"made up");
    let asked = hub.asked();
    assert_eq!(asked[0].line, "GET /encodings/made_up.tiktoken");
    assert!(asked.iter().all(|asked| !asked.token), "the hub's token is for the hub alone");
    for settings in [&settings, &offline] {
        assert_eq!(MADE_UP.fetch(settings, &Silent).unwrap(), place);
    }
    assert!(hub.asked().is_empty(), "nothing is downloaded again");

    fs::write(&place, "damaged").unwrap();
    let other = MADE_UP.fetch(&offline, &Silent).unwrap_err();
    assert!(other.to_string().contains("differs from the file that OpenAI publishes"), "{other}");
    hub.fail(Part::Resolve, Fault::Body(b"made up"));
    MADE_UP.fetch(&settings, &Silent).unwrap();
    assert_eq!(fs::read(&place).unwrap(), b"made up");
}

/// Offline, a missing rank file is an error that names the encoding.
#[test]
fn ranks_that_nobody_has_are_told_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let ranks_cache = folder.path().join("cache");
    let offline = HubSettings { offline: true, ranks_cache, ..HubSettings::default() };
    for name in KNOWN_TOKENIZERS.into_iter().filter(|name| *name != "gpt2") {
        let error = tokenizer_path(name, &offline, &Silent).unwrap_err();
        assert!(error.to_string().starts_with(&format!("{name} is not in the cache")), "{error}");
        assert_eq!(error.kind(), ErrorKind::Network);
    }
}
