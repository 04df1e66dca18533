//! Tokenizers by name: finds a tokenizer locally, on the hub, or among the files that OpenAI publishes.

#[cfg(feature = "hub")]
mod files;
#[cfg(feature = "hub")]
mod ranks;

#[cfg(test)]
#[cfg(feature = "hub")]
#[path = "tests.rs"]
mod hub_tests;

use std::fs;
use std::io::ErrorKind as IoErrorKind;
use std::path::{Path, PathBuf};

#[cfg(feature = "hub")]
use super::remote::RepoRequest;
#[cfg(feature = "hub")]
use crate::base::int::ByteCount;
use crate::base::secrets::shown_uri;
use crate::error::{Error, ErrorKind, Result};
use crate::network::HubSettings;
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

/// Whether a file of this name is a tokenizer or belongs to one, except for the formats whose files a user may name.
pub(crate) fn belongs_to_tokenizer(name: &str) -> bool {
    SINGLE_FILES.contains(&name) || PAIRS.as_flattened().contains(&name) || COMPANIONS.contains(&name)
}

/// The ways in which a tokenizer cannot be found by its name or address.
#[derive(Debug, thiserror::Error)]
enum TokenizerError {
    /// An address with a scheme is neither `hf://` nor that of a known rank file.
    #[error("{address} is not an address of a tokenizer")]
    Address { address: String },
    /// No file of the repository, or of the folder in it, is a tokenizer. `files` is part of the message.
    #[error("{uri} has no tokenizer that can be read: {files}")]
    #[cfg(feature = "hub")]
    NoTokenizer { uri: String, files: String },
    /// The user must name one of these files.
    #[error("{uri} has several tokenizers: {files}")]
    #[cfg(feature = "hub")]
    SeveralTokenizers { uri: String, files: String },
    /// A file of a tokenizer is too large. It is not downloaded.
    #[error("{path} of {uri} has {bytes}, and the limit of a tokenizer file is {limit}")]
    #[cfg(feature = "hub")]
    TooLong { uri: String, path: String, bytes: ByteCount, limit: ByteCount },
    /// A rank file is not cached, and the network must not be used.
    #[error("{name} is not in the cache {}", path.display())]
    #[cfg(feature = "hub")]
    NoRanks { name: String, path: PathBuf },
    /// A rank file in the cache has a wrong hash, and the network must not be used.
    #[error("{name} in the cache differs from the file that OpenAI publishes: {}", path.display())]
    #[cfg(feature = "hub")]
    OtherRanks { name: String, path: PathBuf },
    /// A server has sent a rank file with a wrong hash.
    #[error("{url} did not arrive completely: its SHA-256 is {found}, not {expected}")]
    #[cfg(feature = "hub")]
    WrongRanks { url: String, found: String, expected: &'static str },
}

impl TokenizerError {
    /// The error of this kind.
    fn with(self, kind: ErrorKind) -> Error {
        Error::new(kind, self)
    }
}

/// Known names of tokenizers and their addresses.
const NAMED: [(&str, &str); 5] = [
    ("gpt2", GPT2),
    ("r50k_base", "https://openaipublic.blob.core.windows.net/encodings/r50k_base.tiktoken"),
    ("p50k_base", "https://openaipublic.blob.core.windows.net/encodings/p50k_base.tiktoken"),
    ("cl100k_base", "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"),
    ("o200k_base", "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"),
];

/// Names of tokenizers that [`tokenizer_path`] knows: GPT-2 on the Hugging Face hub, and the encodings of `tiktoken`
/// that consist of one file.
pub const KNOWN_TOKENIZERS: [&str; 5] = ["gpt2", "r50k_base", "p50k_base", "cl100k_base", "o200k_base"];

/// The address of GPT-2's tokenizer.
const GPT2: &str = "hf://openai-community/gpt2";

/// The address of the same repository before it had a namespace. Older caches have it under this name.
#[cfg(feature = "hub")]
const GPT2_OF_OLD: &str = "hf://gpt2";

/// The address of a tokenizer with a known name, or `None`.
///
/// ```
/// use tokenmill::source::tokenizer_address;
///
/// assert_eq!(tokenizer_address("gpt2"), Some("hf://openai-community/gpt2"));
/// assert_eq!(tokenizer_address("unknown"), None);
/// ```
pub fn tokenizer_address(name: &str) -> Option<&'static str> {
    NAMED.iter().find(|(known, _)| *known == name).map(|(_, address)| *address)
}

/// The local path of a tokenizer, for [`vocab::load`](crate::vocab::load). `name` is one of:
///
/// - the path of a file or folder, which is returned as it is and takes precedence over a known name;
/// - `hf://NAMESPACE/NAME[@REVISION][/PATH]`, which is downloaded unless the hub's cache has it;
/// - one of the [known names](KNOWN_TOKENIZERS), which is downloaded likewise.
///
/// ```no_run
/// use tokenmill::Tokenizer;
/// use tokenmill::observer::Silent;
/// use tokenmill::source::{HubSettings, tokenizer_path};
///
/// let hub = HubSettings::from_variables(&|name| std::env::var(name).ok(), std::env::home_dir().as_deref());
/// let tokenizer = Tokenizer::from_file(tokenizer_path("hf://Qwen/Qwen3-8B", &hub, &Silent)?)?;
/// # Ok::<(), tokenmill::Error>(())
/// ```
///
/// # Errors
/// No such file exists, and the name is not known; the hub or the server cannot be reached, refuses, sends invalid
/// data, or has no tokenizer at that address; or the cache cannot be written.
pub fn tokenizer_path(name: impl AsRef<Path>, hub: &HubSettings, observer: &dyn Observer) -> Result<PathBuf> {
    let path = name.as_ref();
    // A path that is not UTF-8 is not a known name.
    let Some(text) = path.to_str() else { return Ok(path.to_owned()) };
    let address = tokenizer_address(text);
    if let Some(address) = Some(text).filter(|text| text.contains("://")) {
        return fetch(address, hub, observer);
    }
    match (fs::metadata(path), address) {
        (Err(cause), Some(address)) if cause.kind() == IoErrorKind::NotFound => fetch(address, hub, observer),
        (Err(cause), None) if cause.kind() == IoErrorKind::NotFound => {
            Err(Error::io("read", path, cause).with_help(unknown(text)))
        }
        // Whoever reads the file reports other errors.
        _ => Ok(path.to_owned()),
    }
}

/// The advice if neither a file nor a known name matches.
fn unknown(text: &str) -> String {
    let hub = match text.split('/').collect::<Vec<_>>()[..] {
        [namespace, name] if !namespace.is_empty() && !namespace.starts_with('.') && !name.is_empty() => {
            format!("a tokenizer of the Hugging Face hub is written hf://{text}")
        }
        _ => "a tokenizer of the Hugging Face hub is written hf://NAMESPACE/NAME".to_owned(),
    };
    format!("check the path; {hub}, and the names that are known are {}", KNOWN_TOKENIZERS.join(", "))
}

/// Downloads a tokenizer, unless the cache has it.
///
/// # Errors
/// The address is not one of a tokenizer, or the file cannot be downloaded.
#[cfg(feature = "hub")]
fn fetch(address: &str, hub: &HubSettings, observer: &dyn Observer) -> Result<PathBuf> {
    if let Some(ranks) = ranks::PUBLISHED.iter().find(|ranks| ranks.address == address) {
        return ranks.fetch(hub, observer);
    }
    if !address.starts_with("hf://") {
        return Err(no_address(address));
    }
    if address == GPT2 {
        // GPT-2's tokenizer does not change, so the hub need not be asked about a cached one.
        let cached = [GPT2, GPT2_OF_OLD]
            .into_iter()
            .find_map(|uri| files::cached(&RepoRequest::parse_tokenizer(uri).ok()?, hub, &|_| ()).ok());
        if let Some(path) = cached {
            return Ok(path);
        }
    }
    files::fetch(&RepoRequest::parse_tokenizer(address)?, hub, observer)
}

/// Fails, because this build lacks the hub's client.
#[cfg(not(feature = "hub"))]
fn fetch(address: &str, _hub: &HubSettings, _observer: &dyn Observer) -> Result<PathBuf> {
    if !address.starts_with("hf://") && !NAMED.iter().any(|(_, known)| *known == address) {
        return Err(no_address(address));
    }
    Err(super::remote::without(address))
}

/// The error that an address is not one of the hub, with the correct address if it can be derived.
fn no_address(address: &str) -> Error {
    let error = TokenizerError::Address { address: shown_uri(address) }.with(ErrorKind::Usage);
    let of_hub = address.strip_prefix("https://huggingface.co/").map(|rest| rest.trim_end_matches('/'));
    match of_hub.filter(|rest| !rest.is_empty()) {
        Some(rest) => error.with_help(format!("write {}", as_uri(rest))),
        None => error.with_help(
            "download the file and give its local path; a tokenizer of the Hugging Face hub is hf://NAMESPACE/NAME",
        ),
    }
}

/// Converts the path of a page or file on the hub's website to a URI.
fn as_uri(page: &str) -> String {
    let page = page.split(['?', '#']).next().unwrap_or(page);
    for view in ["/blob/", "/resolve/", "/tree/", "/raw/"] {
        if let Some((repository, at)) = page.split_once(view) {
            return format!("hf://{repository}@{at}").replace("@main/", "/").replace("@main", "");
        }
    }
    format!("hf://{page}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::HubSettings;
    use crate::observer::Silent;

    /// The lists of names and addresses agree.
    #[test]
    fn names_are_those_of_the_addresses() {
        assert_eq!(NAMED.map(|(name, _)| name), KNOWN_TOKENIZERS);
        #[cfg(feature = "hub")]
        assert_eq!(
            NAMED[1..].iter().map(|(_, address)| *address).collect::<Vec<_>>(),
            ranks::PUBLISHED.map(|ranks| ranks.address)
        );
    }

    /// Each wrong address is answered with the form that would be right.
    #[test]
    fn addresses_that_are_none_of_a_tokenizer_are_refused() {
        let refused = |address: &str, help: &str| {
            let error = tokenizer_path(address, &HubSettings::default(), &Silent).expect_err(address);
            assert_eq!(error.kind(), ErrorKind::Usage, "{address}");
            assert!(error.help().is_some_and(|said| said.starts_with(help)), "{address}: {:?}", error.help());
        };
        for (address, help) in [
            ("https://huggingface.co/Qwen/Qwen3-8B", "write hf://Qwen/Qwen3-8B"),
            ("https://huggingface.co/a/b/tree/main", "write hf://a/b"),
            ("https://huggingface.co/a/b/blob/main/x/tokenizer.json", "write hf://a/b/x/tokenizer.json"),
            ("https://huggingface.co/a/b/resolve/v1/tokenizer.json?x=y", "write hf://a/b@v1/tokenizer.json"),
            ("https://huggingface.co/datasets/a/b/", "write hf://datasets/a/b"),
            ("https://example.com/tokenizer.json", "download the file"),
            ("s3://bucket/tokenizer.json", "download the file"),
        ] {
            refused(address, help);
        }
        #[cfg(feature = "hub")]
        for (address, help) in [
            ("hf://", "write hf://NAMESPACE/NAME"),
            ("hf://datasets/a", "write hf://NAMESPACE/NAME"),
            ("hf://spaces/a/b", "write hf://NAMESPACE/NAME"),
            ("hf://a/b/../c", "write hf://NAMESPACE/NAME"),
            ("hf://a/b@", "write hf://NAMESPACE/NAME"),
            ("hf://../b", "write hf://NAMESPACE/NAME"),
            ("hf://..", "write hf://NAMESPACE/NAME"),
        ] {
            refused(address, help);
        }
    }

    /// A local file or folder takes precedence over a known name.
    #[test]
    fn paths_go_before_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("gpt2");
        let error = tokenizer_path(&path, &HubSettings::default(), &Silent).expect_err("nothing is there");
        assert!(error.help().is_some_and(|help| help.contains("cl100k_base")), "{:?}", error.help());
        fs::create_dir(&path).expect("a folder");
        assert_eq!(tokenizer_path(&path, &HubSettings::default(), &Silent).expect("a path"), path);
        assert_eq!(
            unknown("Qwen/Qwen3-8B").split(';').nth(1).map(|hub| hub.contains("hf://Qwen/Qwen3-8B")),
            Some(true)
        );
    }
}
