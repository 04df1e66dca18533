//! Selects the files of a repository that belong to its tokenizer, and downloads the rank files that OpenAI publishes
//! into the cache of Python's `tiktoken`.

use std::fs;
use std::path::{Path, PathBuf};

use sha1::{Digest as _, Sha1};

use super::http::{Http, Server, agent};
use super::repository::{RepoFile, RepoKind, RepoRequest};
use super::{HubSettings, RemoteError};
use crate::base::atomic_file::publish_bytes;
use crate::base::folder_of;
use crate::base::int::ByteCount;
use crate::base::integrity::{hex, sha256};
use crate::error::{Error, ErrorKind, Result, excerpt};
use crate::observer::Observer;

/// Files that each are a complete tokenizer, in order of preference.
const SINGLE_FILES: [&str; 2] = ["tokenizer.json", "tekken.json"];

/// Pairs of files that only together are a tokenizer. The first of each pair is the main file.
const PAIRS: [[&str; 2]; 2] = [["vocab.json", "merges.txt"], ["encoder.json", "vocab.bpe"]];

/// Files that accompany a tokenizer: its special tokens, the chat template, and how it was trained.
const COMPANIONS: [&str; 6] = [
    // Without this file, `transformers` cannot open the tokenizer offline.
    "config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "training.json",
];

/// Maximum bytes of a file of a tokenizer. The limit for reading is the same.
const MAX_BYTES: u64 = 256 << 20;

/// Maximum number of files in a message.
const LISTED: usize = 20;

/// The files of a tokenizer in a repository.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TokenizerFiles<'a> {
    /// The main file, which is the one to open.
    pub(super) main: &'a str,
    /// The files that belong to it, in the same folder.
    pub(super) companions: Vec<&'a str>,
}

/// The reason that no tokenizer was selected.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotChosen {
    /// The folder has none. `files` are those of the repository; `elsewhere` is another folder that has one, if any.
    Nothing { files: Vec<String>, elsewhere: Option<String> },
    /// The folder has several, and one must be named.
    Several(Vec<String>),
}

/// Selects the files of a tokenizer. `files` are the sorted paths of a repository, and `asked` is a file or folder in
/// it.
///
/// A file that is named is taken as it is. In a folder, a complete file comes first, then ranks of `tiktoken`, then a
/// pair of files, then a `.model`. Files of subfolders do not count.
///
/// # Errors
/// The reason that no tokenizer was selected.
pub(super) fn choose<'a>(files: &[&'a str], asked: Option<&str>) -> Result<TokenizerFiles<'a>, NotChosen> {
    if let Some(&file) = files.iter().find(|file| Some(**file) == asked) {
        return Ok(with_companions(files, file));
    }
    let folder = asked.map_or_else(String::new, |asked| format!("{asked}/"));
    if let Some(main) = stands_for_one(files, &folder)? {
        return Ok(with_companions(files, main));
    }
    let folders = files.iter().filter_map(|file| Some(&file[..=file.rfind('/')?]));
    let elsewhere = folders
        .filter(|other| *other != folder)
        .find(|other| matches!(stands_for_one(files, other), Ok(Some(_))))
        .map(|other| other.trim_end_matches('/').to_owned());
    Err(NotChosen::Nothing { files: files.iter().map(|file| (*file).to_owned()).collect(), elsewhere })
}

/// The main file of a tokenizer in a folder. `folder` is empty or ends with a slash.
///
/// `None` if the folder has no such file.
///
/// # Errors
/// The folder has several files that could each be the main file.
fn stands_for_one<'a>(files: &[&'a str], folder: &str) -> Result<Option<&'a str>, NotChosen> {
    let inside = || files.iter().filter_map(|file| Some((*file, file.strip_prefix(folder)?)));
    let named = |name: &str| inside().find(|(_, found)| *found == name).map(|(file, _)| file);
    let only = |extension: &str| -> Result<Option<&'a str>, NotChosen> {
        let is_one = |name: &str| !name.contains('/') && name.ends_with(extension) && name != extension;
        let found: Vec<&str> = inside().filter(|(_, name)| is_one(name)).map(|(file, _)| file).collect();
        match found[..] {
            [] => Ok(None),
            [one] => Ok(Some(one)),
            _ => Err(NotChosen::Several(found.into_iter().map(str::to_owned).collect())),
        }
    };
    if let Some(whole) = SINGLE_FILES.into_iter().find_map(named) {
        return Ok(Some(whole));
    }
    if let Some(ranks) = only(".tiktoken")? {
        return Ok(Some(ranks));
    }
    let pair = PAIRS.into_iter().find_map(|[one, other]| named(one).filter(|_| named(other).is_some()));
    match pair {
        Some(pair) => Ok(Some(pair)),
        // Most files with this extension are SentencePiece models; those of Llama 3 are ranks.
        None => only(".model"),
    }
}

/// The main file with the files beside it that belong to it.
///
/// Only files of the same folder belong to it: those in [`COMPANIONS`], the other one of a pair, and the sidecar
/// `NAME.json`.
fn with_companions<'a>(files: &[&'a str], main: &'a str) -> TokenizerFiles<'a> {
    let (folder, name) = main.split_at(main.rfind('/').map_or(0, |slash| slash + 1));
    let pair = PAIRS.into_iter().find(|pair| pair.contains(&name)).unwrap_or_default();
    let sidecar = format!("{name}.json");
    let belongs = |other: &str| COMPANIONS.contains(&other) || pair.contains(&other) || other == sidecar;
    let companions =
        files.iter().copied().filter(|file| *file != main && file.strip_prefix(folder).is_some_and(belongs));
    TokenizerFiles { main, companions: companions.collect() }
}

/// Whether a file is a complete tokenizer without other files.
pub(super) fn is_complete_alone(file: &str) -> bool {
    SINGLE_FILES.iter().any(|whole| file.rsplit('/').next() == Some(whole))
}

/// Rejects files before downloading them if they would be rejected when they are read.
///
/// # Errors
/// A file exceeds the limit.
pub(super) fn check_sizes(wanted: &RepoRequest, files: &[&RepoFile]) -> Result<()> {
    let Some(file) = files.iter().find(|file| file.bytes > MAX_BYTES) else { return Ok(()) };
    let error = RemoteError::TooLong {
        uri: wanted.uri.clone(),
        path: excerpt(&file.path),
        bytes: ByteCount(file.bytes),
        limit: ByteCount(MAX_BYTES),
    };
    Err(error.with(ErrorKind::Failed).with_help("name the file of a tokenizer in the repository"))
}

/// Advice on how to get a tokenizer of the hub otherwise.
fn elsewhere(wanted: &RepoRequest) -> String {
    let repository = wanted.repository();
    let kind = match wanted.kind {
        RepoKind::Dataset => " --repo-type dataset",
        RepoKind::Model => "",
    };
    let file = wanted.path.as_deref().unwrap_or(SINGLE_FILES[0]);
    format!(
        "download it where the hub can be reached, with `hf download {repository} {file}{kind} --local-dir \
         FOLDER`, and give that folder"
    )
}

/// Adds this advice to an error of the network.
pub(super) fn with_elsewhere(error: Error, wanted: &RepoRequest) -> Error {
    let Some(help) = error.help().filter(|_| error.kind() == ErrorKind::Network) else { return error };
    let help = format!("{help}; or {}", elsewhere(wanted));
    error.with_help(help)
}

impl NotChosen {
    /// The error, with advice on which path to give.
    pub(super) fn error(self, wanted: &RepoRequest) -> Error {
        let uri = wanted.uri.clone();
        let prefix = format!("hf://{}{}", wanted.kind.prefix(), wanted.repository());
        let prefix = match &wanted.revision {
            Some(revision) => format!("{prefix}@{}", revision.replace('/', "%2F")),
            None => prefix,
        };
        match self {
            NotChosen::Several(files) => {
                let help = format!("name one of them, as {prefix}/{}", files[0]);
                RemoteError::SeveralTokenizers { uri, files: listed(&files) }
                    .with(ErrorKind::Usage)
                    .with_help(help)
            }
            NotChosen::Nothing { files, elsewhere } => {
                let help = match elsewhere {
                    Some(folder) => format!("name {prefix}/{folder}, which has one"),
                    None => "give a repository, folder or file with a tokenizer.json, tekken.json, \
                             vocab.json beside its merges.txt, or ranks of tiktoken; a model's page often \
                             says which other model its tokenizer is from"
                        .to_owned(),
                };
                let files = match files.is_empty() {
                    true => "the repository has no files".to_owned(),
                    false => format!("the files of the repository are {}", listed(&files)),
                };
                RemoteError::NoTokenizer { uri, files }.with(ErrorKind::Failed).with_help(help)
            }
        }
    }
}

/// The first [`LISTED`] paths, and the number of further ones.
fn listed(files: &[String]) -> String {
    let shown: Vec<String> = files.iter().take(LISTED).map(|file| plain(file)).collect();
    match files.len().saturating_sub(LISTED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// A path, in quotes and escaped if it is long or has unusual characters.
fn plain(file: &str) -> String {
    let is_plain = file.len() <= 100 && file.chars().all(|c| c.is_alphanumeric() || "-_./ ".contains(c));
    if is_plain { file.to_owned() } else { excerpt(file) }
}

/// Maximum bytes of a file. The largest has 3.6 MB.
const MAX_RANKS_BYTES: usize = 16 << 20;

/// A file that OpenAI publishes.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankFile {
    /// The address of the file.
    pub(super) address: &'static str,
    /// The SHA-256 of its content in hex, which `tiktoken` checks too.
    pub(super) sha256: &'static str,
}

/// The files of `tiktoken`'s encodings.
pub(super) const PUBLISHED: [RankFile; 4] = [
    RankFile {
        address: "https://openaipublic.blob.core.windows.net/encodings/r50k_base.tiktoken",
        sha256: "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
    },
    RankFile {
        address: "https://openaipublic.blob.core.windows.net/encodings/p50k_base.tiktoken",
        sha256: "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
    },
    RankFile {
        address: "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken",
        sha256: "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    },
    RankFile {
        address: "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken",
        sha256: "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    },
];

impl RankFile {
    /// The name of the encoding.
    fn name(&self) -> &'static str {
        self.address.rsplit(['/', '.']).nth(1).unwrap_or_default()
    }

    /// The path in `tiktoken`'s cache: the SHA-1 of the published address, even if another server sent the file.
    fn path(&self, cache: &Path) -> PathBuf {
        cache.join(hex(&Sha1::digest(self.address)))
    }

    /// Whether the cache has the right file.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    fn cached(&self, path: &Path) -> Result<CachedRanks> {
        use std::io::ErrorKind::NotFound;
        match fs::read(path) {
            Ok(bytes) if sha256(&bytes) == self.sha256 => Ok(CachedRanks::Right),
            Ok(_) => Ok(CachedRanks::Other),
            Err(cause) if cause.kind() == NotFound => Ok(CachedRanks::Nothing),
            Err(cause) => Err(Error::io("read", path, cause)),
        }
    }

    /// Advice on how to get the file otherwise.
    fn alternatives(&self) -> String {
        let name = self.name();
        format!(
            "download {} on a machine with a network and give its path, with the file name {name}.tiktoken; \
             or let Python do it, with `tiktoken.get_encoding({name:?})`, and copy its cache \
             (TIKTOKEN_CACHE_DIR)",
            self.address
        )
    }

    /// Downloads the file unless the cache has it, and returns its path. A file counts only if its hash is right.
    ///
    /// # Errors
    /// The file cannot be downloaded or has a wrong hash, or the cache cannot be written.
    pub(super) fn fetch(&self, settings: &HubSettings, observer: &dyn Observer) -> Result<PathBuf> {
        let path = self.path(&settings.ranks_cache);
        let cached = self.cached(&path)?;
        if matches!(cached, CachedRanks::Right) {
            return Ok(path);
        }
        if settings.offline {
            let error = match cached {
                CachedRanks::Other => RemoteError::OtherRanks { name: self.name().to_owned(), path },
                _ => RemoteError::NoRanks { name: self.name().to_owned(), path },
            };
            let help = format!("run it once online, without HF_HUB_OFFLINE; or {}", self.alternatives());
            return Err(error.with(ErrorKind::Network).with_help(help));
        }
        let bytes = self.download(settings, observer)?;
        let unwritable =
            |error: Error| error.with_help("set TIKTOKEN_CACHE_DIR to a folder that can be written");
        let folder = folder_of(&path);
        fs::create_dir_all(folder).map_err(|cause| unwritable(Error::io("create", folder, cause)))?;
        publish_bytes(&path, &bytes).map_err(unwritable)?;
        Ok(path)
    }

    /// Downloads the file and checks its hash.
    ///
    /// # Errors
    /// The file cannot be downloaded, or its hash is wrong. Except for an interruption, the error has advice on how
    /// to get the file otherwise.
    fn download(&self, settings: &HubSettings, observer: &dyn Observer) -> Result<Vec<u8>> {
        let endpoint = settings.ranks_endpoint.clone();
        let path = self.address.splitn(4, '/').nth(3).unwrap_or_default();
        let url = format!("{endpoint}/{path}");
        let settings = HubSettings { endpoint, token: None, ..settings.clone() };
        let stop = || observer.stopping();
        let http = Http::new(agent(&settings.patience), Server::Web, &settings, &stop);
        let alternatives = |error: Error| match error.kind() {
            ErrorKind::Interrupted => error,
            _ => error.with_help(format!("check the network; or {}", self.alternatives())),
        };
        let (_, bytes) = http.whole(&url, &url, MAX_RANKS_BYTES).map_err(alternatives)?;
        let found = sha256(&bytes);
        if found != self.sha256 {
            let problem = format!("its SHA-256 is {found}, not {}", self.sha256);
            return Err(alternatives(RemoteError::Broken { what: url, problem }.with(ErrorKind::Network)));
        }
        Ok(bytes)
    }
}

/// What the cache has at the path of a file.
enum CachedRanks {
    /// The right file.
    Right,
    /// A different file.
    Other,
    /// No file.
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of preference, and the files that belong to each kind.
    #[test]
    fn files_of_a_tokenizer_are_chosen() {
        for (files, asked, main, companions) in [
            (&["merges.txt", "tokenizer.json", "vocab.json"][..], None, "tokenizer.json", &[][..]),
            (
                &[
                    "added_tokens.json",
                    "merges.txt",
                    "model.safetensors",
                    "tokenizer_config.json",
                    "vocab.json",
                ],
                None,
                "vocab.json",
                &["added_tokens.json", "merges.txt", "tokenizer_config.json"],
            ),
            (&["encoder.json", "vocab.bpe"], None, "encoder.json", &["vocab.bpe"]),
            (&["tekken.json", "tokenizer.model"], None, "tekken.json", &[]),
            (&["qwen.tiktoken", "tokenizer.model"], None, "qwen.tiktoken", &[]),
            (&["a.tiktoken", "a.tiktoken.json"], None, "a.tiktoken", &["a.tiktoken.json"]),
            (&["merges.txt", "tokenizer.model", "vocab.json"], None, "vocab.json", &["merges.txt"]),
            (&["tokenizer.model"], None, "tokenizer.model", &[]),
            (&["x/tokenizer.json", "x/training.json"], Some("x"), "x/tokenizer.json", &["x/training.json"]),
            (&["tokenizer.json", "x/tokenizer.json"], Some("x"), "x/tokenizer.json", &[]),
            (&["a.tiktoken", "b.tiktoken"], Some("b.tiktoken"), "b.tiktoken", &[]),
            (
                &["merges.txt", "tokenizer.json", "vocab.json"],
                Some("vocab.json"),
                "vocab.json",
                &["merges.txt"],
            ),
            (&["x/merges.txt", "x/vocab.json"], Some("x/merges.txt"), "x/merges.txt", &["x/vocab.json"]),
        ] {
            let expected = TokenizerFiles { main, companions: companions.to_vec() };
            assert_eq!(choose(files, asked), Ok(expected), "{files:?} {asked:?}");
        }
    }

    /// Incomplete tokenizers do not count, and one in another folder is mentioned.
    #[test]
    fn what_is_no_tokenizer_is_not_chosen() {
        for (files, asked, elsewhere) in [
            (&[][..], None, None),
            (&["README.md", "vocab.json"], None, None),
            (&["tokenizer.json"], Some("x"), None),
            (&[".tiktoken", "tokenizer.json.bak", "xtokenizer.json"], None, None),
            (&["README.md", "tokenizer/tokenizer.json"], None, Some("tokenizer")),
            (&["a/b/tekken.json", "a/x"], Some("a"), Some("a/b")),
            (&["vocab.json", "x/merges.txt"], None, None),
        ] {
            let Err(NotChosen::Nothing { elsewhere: found, .. }) = choose(files, asked) else {
                panic!("{files:?} {asked:?}");
            };
            assert_eq!(found.as_deref(), elsewhere, "{files:?} {asked:?}");
        }
        let several = Err(NotChosen::Several(vec!["a.tiktoken".to_owned(), "b.tiktoken".to_owned()]));
        assert_eq!(choose(&["a.tiktoken", "b.tiktoken"], None), several);
    }

    /// A long list of files is shortened, and control characters are escaped.
    #[test]
    fn a_listing_is_short() {
        let files: Vec<String> = (0..25).map(|number| format!("{number}.bin")).collect();
        assert!(listed(&files).ends_with("19.bin and 5 more"), "{}", listed(&files));
        assert_eq!(plain("a\u{1b}[31m"), "\"a\\u{1b}[31m\"");
    }
}
