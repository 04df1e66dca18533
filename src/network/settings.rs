//! How to reach the hub, web servers and object stores.
//!
//! The library reads no environment variables itself, except those that name a proxy. [`HubSettings`] and
//! [`StoreSettings`] hold the values that other tools take from them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, fs};

use crate::base::secrets::shown_uri;

/// Callback for messages to the user, for example why a read waits. Any thread may call it.
pub type Note = Arc<dyn Fn(&str) + Send + Sync>;

/// How to reach the Hugging Face hub, and the location of its cache.
///
/// The `Debug` form shows neither the token nor passwords in addresses.
#[derive(Clone)]
pub struct HubSettings {
    /// Address of the hub, without a slash at its end.
    pub endpoint: String,
    /// The user's token. It is sent only to `endpoint`.
    pub token: Option<String>,
    /// Folder of the cache, with a folder for each repository. The default is relative to the working directory;
    /// [`from_variables`](HubSettings::from_variables) finds the user's cache.
    pub cache: PathBuf,
    /// Whether to use only the cache and never the network.
    pub offline: bool,
    /// Address of the server with OpenAI's rank files (`cl100k_base.tiktoken` and others), without a slash at its end.
    pub ranks_endpoint: String,
    /// Folder in which these files are stored, which is that of Python's `tiktoken`.
    pub ranks_cache: PathBuf,
    /// When to repeat failed requests, and when to give up.
    pub patience: Patience,
    /// Callback that reports each wait of at least one second before a request is repeated, with the reason.
    pub noted: Note,
}

/// The limits for repeating requests to a server or on a connection that fails.
///
/// The wait after the n-th successive failure is `first_wait` · 2^(n − 1), at most `longest_wait`, or the time that
/// the server asks for if that is longer. With the defaults (6 attempts, 1 second, 300 seconds), a request that
/// always fails is given up after waits of 1, 2, 4, 8 and 16 seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Number of successive failures, without a byte of progress between them, after which to give up.
    pub attempts: u32,
    /// Wait after the first failure. It doubles with each further failure.
    pub first_wait: Duration,
    /// Maximum wait. It is an error if a server asks for a longer one.
    pub longest_wait: Duration,
    /// Time without any activity after which a connection counts as broken.
    pub silence: Duration,
    /// Time within which a description or a page of a list must arrive completely. After this time, a file must arrive
    /// with at least 1 kB/s on average. This stops a server that sends a byte now and then from blocking the program.
    pub whole: Duration,
}

impl Default for Patience {
    /// Six attempts, within about half a minute of waits. A connection may be silent for 30 seconds.
    fn default() -> Patience {
        Patience {
            attempts: 6,
            first_wait: Duration::from_secs(1),
            longest_wait: Duration::from_secs(300),
            silence: Duration::from_secs(30),
            whole: Duration::from_secs(600),
        }
    }
}

impl HubSettings {
    /// Settings from the environment variables that other tools use. The hub is found as by Python's
    /// `huggingface_hub`: `HF_ENDPOINT`, `HF_TOKEN` or the token file (`HF_TOKEN_PATH`), `HF_HOME`, `HF_HUB_CACHE`,
    /// `HF_HUB_OFFLINE`, `HF_HUB_DOWNLOAD_TIMEOUT` and `XDG_CACHE_HOME`. OpenAI's rank files are found as by
    /// `tiktoken`: `TIKTOKEN_CACHE_DIR`, `DATA_GYM_CACHE_DIR` and `TMPDIR`; `TOKENMILL_RANKS_ENDPOINT` names another
    /// server for them.
    ///
    /// `variable` returns the value of a variable, and `user` is the user's home folder; the function looks up
    /// nothing else in the environment. Empty values count as not set.
    ///
    /// ```no_run
    /// use std::env;
    /// use tokenmill::source::HubSettings;
    ///
    /// let hub = HubSettings::from_variables(&|name| env::var(name).ok(), env::home_dir().as_deref());
    /// ```
    pub fn from_variables(variable: &dyn Fn(&str) -> Option<String>, user: Option<&Path>) -> HubSettings {
        let set =
            |name| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let in_home = |path: String| match path
            .strip_prefix('~')
            .filter(|rest| rest.is_empty() || rest.starts_with('/'))
        {
            Some(rest) => user.map(|user| user.join(rest.trim_start_matches('/'))),
            None => Some(PathBuf::from(path)),
        };
        let path = |name| set(name).and_then(in_home);
        let cache = path("XDG_CACHE_HOME").or_else(|| Some(user?.join(".cache")));
        let home = path("HF_HOME").or_else(|| Some(cache?.join("huggingface")));
        let token_file = path("HF_TOKEN_PATH").or_else(|| Some(home.as_ref()?.join("token")));
        let stored = || Some(fs::read_to_string(token_file?).ok()?.trim().to_owned());
        let silence = set("HF_HUB_DOWNLOAD_TIMEOUT").and_then(|seconds| seconds.parse().ok());
        let silence = silence
            .filter(|&seconds| seconds > 0)
            .map(|seconds: u64| Duration::from_secs(seconds.min(A_DAY)));
        let defaults = HubSettings::default();
        let address = |name: &'static str, other: String| {
            set(name).map_or(other, |url| url.trim_end_matches('/').to_owned())
        };
        let ranks_cache = set("TIKTOKEN_CACHE_DIR").or_else(|| set("DATA_GYM_CACHE_DIR")).map(PathBuf::from);
        let temporary = || ["TMPDIR", "TEMP", "TMP"].into_iter().find_map(set).map(PathBuf::from);
        HubSettings {
            endpoint: address("HF_ENDPOINT", defaults.endpoint),
            ranks_endpoint: address("TOKENMILL_RANKS_ENDPOINT", defaults.ranks_endpoint),
            ranks_cache: ranks_cache
                .or_else(|| Some(temporary()?.join(RANKS_FOLDER)))
                .unwrap_or(defaults.ranks_cache),
            token: set("HF_TOKEN").or_else(stored).filter(|token| !token.is_empty()),
            cache: path("HF_HUB_CACHE").or_else(|| Some(home?.join("hub"))).unwrap_or(defaults.cache),
            offline: set("HF_HUB_OFFLINE").is_some_and(|value| is_true(&value)),
            patience: Patience { silence: silence.unwrap_or(defaults.patience.silence), ..defaults.patience },
            noted: defaults.noted,
        }
    }
}

/// Folder in which `tiktoken` stores files, inside the folder for temporary files.
const RANKS_FOLDER: &str = "data-gym-cache";

/// Maximum timeout, in seconds. It bounds a value that means to wait forever.
const A_DAY: u64 = 24 * 60 * 60;

/// Whether a variable's value means true, as in `huggingface_hub`.
///
/// Case does not matter. All other values mean false.
fn is_true(value: &str) -> bool {
    matches!(value.to_ascii_uppercase().as_str(), "1" | "ON" | "YES" | "TRUE")
}

impl Default for HubSettings {
    /// The public hub without a token, online, and a cache below the working directory. Notes are dropped.
    fn default() -> HubSettings {
        let endpoint = "https://huggingface.co".to_owned();
        let cache = PathBuf::from(".cache/huggingface/hub");
        let ranks_endpoint = "https://openaipublic.blob.core.windows.net".to_owned();
        let ranks_cache = Path::new("/tmp").join(RANKS_FOLDER);
        let (patience, noted): (_, Note) = (Patience::default(), Arc::new(|_| ()));
        HubSettings {
            endpoint,
            token: None,
            cache,
            offline: false,
            ranks_endpoint,
            ranks_cache,
            patience,
            noted,
        }
    }
}

impl fmt::Debug for HubSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token.as_ref().map(|_| "…");
        f.debug_struct("HubSettings")
            .field("endpoint", &shown_uri(&self.endpoint))
            .field("token", &token)
            .field("cache", &self.cache)
            .field("offline", &self.offline)
            .field("ranks_endpoint", &shown_uri(&self.ranks_endpoint))
            .field("ranks_cache", &self.ranks_cache)
            .field("patience", &self.patience)
            .finish()
    }
}

/// How to reach object stores.
///
/// The default has no variables, and so no credentials. The `Debug` form does not show values.
#[derive(Clone, Default)]
pub struct StoreSettings {
    /// Environment variables that the stores' own tools read: names (`AWS_ACCESS_KEY_ID`) and values.
    /// A store ignores names that it does not know.
    pub variables: Vec<(String, String)>,
}

impl fmt::Debug for StoreSettings {
    /// Shows only the names, because some values are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.variables.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The precedence among variables is that of `huggingface_hub` and `tiktoken`.
    #[test]
    fn the_hub_is_where_the_variables_say() {
        let hub = |set: &[(&str, &str)]| {
            let variable = |name: &str| {
                let found = set.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            HubSettings::from_variables(&variable, Some(Path::new("/nobody")))
        };
        let plain = hub(&[]);
        assert_eq!(plain.cache, Path::new("/nobody/.cache/huggingface/hub"));
        assert_eq!(
            (plain.endpoint.as_str(), plain.token, plain.offline),
            ("https://huggingface.co", None, false)
        );
        assert_eq!(hub(&[("XDG_CACHE_HOME", "/x")]).cache, Path::new("/x/huggingface/hub"));
        assert_eq!(hub(&[("XDG_CACHE_HOME", "/x"), ("HF_HOME", "/h")]).cache, Path::new("/h/hub"));
        assert_eq!(hub(&[("HF_HOME", "/h"), ("HF_HUB_CACHE", "/c")]).cache, Path::new("/c"));
        assert_eq!(hub(&[("HF_HOME", "~/h")]).cache, Path::new("/nobody/h/hub"));
        assert_eq!(hub(&[("HF_HUB_CACHE", "~other/c")]).cache, Path::new("~other/c"));
        for (set, expected) in [
            (&[][..], "/tmp/data-gym-cache"),
            (&[("TMPDIR", "/t")], "/t/data-gym-cache"),
            (&[("TMPDIR", "/t"), ("DATA_GYM_CACHE_DIR", "/d")], "/d"),
            (&[("DATA_GYM_CACHE_DIR", "/d"), ("TIKTOKEN_CACHE_DIR", "/k")], "/k"),
        ] {
            assert_eq!(hub(set).ranks_cache, Path::new(expected), "{set:?}");
        }
        let silence = |seconds| hub(&[("HF_HUB_DOWNLOAD_TIMEOUT", seconds)]).patience.silence.as_secs();
        assert_eq!(["7", "0", "18446744073709551615"].map(silence), [7, 30, A_DAY]);
        let mirror =
            hub(&[("HF_ENDPOINT", "http://localhost:1/"), ("HF_TOKEN", " t\n"), ("HF_HUB_OFFLINE", "1")]);
        assert_eq!((mirror.endpoint.as_str(), mirror.token.as_deref()), ("http://localhost:1", Some("t")));
        assert!(mirror.offline);

        let home = tempfile::tempdir().expect("a folder");
        fs::write(home.path().join("token"), "stored\n").expect("a writable folder");
        let stored = hub(&[("HF_HOME", &home.path().to_string_lossy()), ("HF_TOKEN", "")]);
        assert_eq!(stored.token.as_deref(), Some("stored"));
    }
}
