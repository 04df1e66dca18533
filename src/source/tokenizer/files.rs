//! Selects the files of a repository that belong to its tokenizer, and gets them from the hub or its cache.

use std::collections::HashSet;
use std::path::PathBuf;

use super::{COMPANIONS, PAIRS, SINGLE_FILES, TokenizerError};
use crate::base::int::ByteCount;
use crate::error::{Error, ErrorKind, Result, excerpt};
use crate::network::HubSettings;
use crate::observer::Observer;
use crate::source::remote::{Cache, RepoFile, RepoKind, RepoRequest, fetch_chosen};

/// Maximum bytes of a file of a tokenizer. The limit for reading is the same.
const MAX_BYTES: u64 = 256 << 20;

/// Maximum number of files in a message.
const LISTED: usize = 20;

/// The files of a tokenizer in a repository.
#[derive(Debug, PartialEq, Eq)]
struct TokenizerFiles<'a> {
    /// The main file, which is the one to open.
    main: &'a str,
    /// The files that belong to it, in the same folder.
    companions: Vec<&'a str>,
}

/// The reason that no tokenizer was selected.
#[derive(Debug, PartialEq, Eq)]
enum NotChosen {
    /// The folder has none. `files` are those of the repository; `elsewhere` is another folder that has one, if any.
    Nothing { files: Vec<String>, elsewhere: Option<String> },
    /// The folder has several, and one must be named.
    Several(Vec<String>),
}

/// Selects the files of a tokenizer. `files` are the paths of a repository in byte order, and `asked` is a file or
/// folder in it.
///
/// A file that is named is taken as it is. In a folder, a complete file comes first, then ranks of `tiktoken`, then a
/// pair of files, then a `.model`. Files of subfolders do not count.
///
/// # Errors
/// The reason that no tokenizer was selected.
fn choose<'a>(files: &[&'a str], asked: Option<&str>) -> Result<TokenizerFiles<'a>, NotChosen> {
    if let Some(&file) = files.iter().find(|file| Some(**file) == asked) {
        return Ok(with_companions(files, file));
    }
    let folder = asked.map_or_else(String::new, |asked| format!("{asked}/"));
    if let Some(main) = stands_for_one(files, &folder)? {
        return Ok(with_companions(files, main));
    }
    // A dataset may have many files in a folder, so each folder is searched once.
    let mut seen = HashSet::from([folder.as_str()]);
    let folders = files.iter().filter_map(|file| Some(&file[..=file.rfind('/')?]));
    let elsewhere = folders
        .filter(|other| seen.insert(*other))
        .find(|other| matches!(stands_for_one(files, other), Ok(Some(_))))
        .map(|other| other.trim_end_matches('/').to_owned());
    Err(NotChosen::Nothing { files: files.iter().map(|file| (*file).to_owned()).collect(), elsewhere })
}

/// The main file of a tokenizer in a folder. `files` are in byte order, and `folder` is empty or ends with a slash.
///
/// `None` if the folder has no such file.
///
/// # Errors
/// The folder has several files that could each be the main file.
fn stands_for_one<'a>(files: &[&'a str], folder: &str) -> Result<Option<&'a str>, NotChosen> {
    // In byte order, the paths in a folder follow each other.
    let first = files.partition_point(|file| *file < folder);
    let inside = || files[first..].iter().map_while(|file| Some((*file, file.strip_prefix(folder)?)));
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
fn is_complete_alone(file: &str) -> bool {
    SINGLE_FILES.iter().any(|whole| file.rsplit('/').next() == Some(whole))
}

/// Rejects files before downloading them if they would be rejected when they are read.
///
/// # Errors
/// A file exceeds the limit.
fn check_sizes(wanted: &RepoRequest, files: &[&RepoFile]) -> Result<()> {
    let Some(file) = files.iter().find(|file| file.bytes > MAX_BYTES) else { return Ok(()) };
    let error = TokenizerError::TooLong {
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

/// Downloads a tokenizer, unless the cache has it, and returns the path of its main file.
///
/// Files beside the main one are downloaded as well, because other programs expect them there.
///
/// # Errors
/// The repository has no tokenizer at the path, or several; or the files cannot be downloaded, or are not in the cache
/// while the hub is not to be asked.
pub(super) fn fetch(
    wanted: &RepoRequest,
    settings: &HubSettings,
    observer: &dyn Observer,
) -> Result<PathBuf> {
    let found = match settings.offline {
        true => cached(wanted, settings, &*settings.noted),
        false => fetch_chosen(wanted, settings, observer, |files| chosen(wanted, files)),
    };
    found.map_err(|error| with_elsewhere(error, wanted))
}

/// The files of the tokenizer, the main one last: if it is in the cache, so are the others.
///
/// # Errors
/// Those of [`choose`]; or a file is too large.
fn chosen<'f>(wanted: &RepoRequest, files: &'f [RepoFile]) -> Result<Vec<&'f RepoFile>> {
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let chosen = choose(&paths, wanted.path.as_deref()).map_err(|unchosen| unchosen.error(wanted))?;
    let paths = chosen.companions.iter().chain([&chosen.main]);
    let needed: Vec<&RepoFile> =
        paths.filter_map(|path| files.iter().find(|file| file.path == *path)).collect();
    check_sizes(wanted, &needed)?;
    Ok(needed)
}

/// The main file of a tokenizer in the cache, without asking the hub.
///
/// `noted` receives a note if files beside the main one may be missing.
///
/// # Errors
/// The cache lacks the revision, or has no tokenizer there.
pub(super) fn cached(wanted: &RepoRequest, settings: &HubSettings, noted: &dyn Fn(&str)) -> Result<PathBuf> {
    let cache = Cache::of(wanted, settings);
    for (commit, paths) in cache.complete_files(wanted)? {
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let Ok(chosen) = choose(&paths, wanted.path.as_deref()) else { continue };
        if !is_complete_alone(chosen.main) {
            let unknown = "the hub may have more files beside it";
            noted(&format!("offline: {} of {} is used; {unknown}", chosen.main, wanted.uri));
        }
        return Ok(cache.snapshot(&commit, chosen.main));
    }
    Err(cache.not_cached(wanted.uri.clone()))
}

/// Adds this advice to an error of the network.
fn with_elsewhere(error: Error, wanted: &RepoRequest) -> Error {
    let Some(help) = error.help().filter(|_| error.kind() == ErrorKind::Network) else { return error };
    let help = format!("{help}; or {}", elsewhere(wanted));
    error.with_help(help)
}

impl NotChosen {
    /// The error, with advice on which path to give.
    fn error(self, wanted: &RepoRequest) -> Error {
        let uri = wanted.uri.clone();
        let prefix = format!("hf://{}{}", wanted.kind.prefix(), wanted.repository());
        let prefix = match &wanted.revision {
            Some(revision) => format!("{prefix}@{}", revision.replace('/', "%2F")),
            None => prefix,
        };
        match self {
            NotChosen::Several(files) => {
                let help = format!("name one of them, as {prefix}/{}", files[0]);
                TokenizerError::SeveralTokenizers { uri, files: listed(&files) }
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
                TokenizerError::NoTokenizer { uri, files }.with(ErrorKind::Failed).with_help(help)
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
            (&["x!/tokenizer.json", "x/a", "x0/tokenizer.json"], Some("x"), Some("x!")),
            (&["x/a", "x/b", "y/c", "y/tokenizer.json"], None, Some("y")),
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
