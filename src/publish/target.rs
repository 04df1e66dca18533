//! What the URI of a push names: a repository of the hub, and a branch of it.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The kind of a repository on the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepositoryKind {
    /// A dataset.
    Dataset,
    /// A model, which includes its tokenizer.
    Model,
}

/// The branch to which a push goes if none is named.
const MAIN: &str = "main";

/// A repository of the hub to push to, and its branch.
///
/// The texts are `hf://datasets/NAMESPACE/NAME[@BRANCH]`, `hf://models/NAMESPACE/NAME[@BRANCH]`, and
/// `hf://NAMESPACE/NAME[@BRANCH]`, which is a model.
///
/// ```
/// use tokenmill::publish::{PushTarget, RepositoryKind};
///
/// let target: PushTarget = "hf://datasets/me/verse@trial".parse()?;
/// assert_eq!((target.kind, target.branch.as_str()), (RepositoryKind::Dataset, "trial"));
/// assert!("hf://datasets/me/verse/data".parse::<PushTarget>().is_err());
/// # Ok::<(), tokenmill::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushTarget {
    /// The kind of the repository.
    pub kind: RepositoryKind,
    /// The user or organisation.
    pub namespace: String,
    /// The name of the repository.
    pub name: String,
    /// The branch, `main` by default.
    pub branch: String,
}

impl FromStr for PushTarget {
    type Err = Error;

    /// # Errors
    /// The text is not the URI of a whole repository ([`Usage`](crate::ErrorKind::Usage)).
    fn from_str(uri: &str) -> Result<PushTarget> {
        parse(uri).ok_or_else(|| {
            Error::usage(format!("{uri:?} does not name a repository of the hub to push to")).with_help(
                "write hf://datasets/NAMESPACE/NAME or hf://models/NAMESPACE/NAME, with @BRANCH after it if needed; a push has the whole repository, so no path follows",
            )
        })
    }
}

/// Parses a URI; `None` if it is invalid.
fn parse(uri: &str) -> Option<PushTarget> {
    let rest = uri.strip_prefix("hf://")?;
    let (kind, rest) = match rest.split_once('/')? {
        ("datasets", rest) => (RepositoryKind::Dataset, rest),
        ("models", rest) => (RepositoryKind::Model, rest),
        ("spaces", _) => return None,
        _ => (RepositoryKind::Model, rest),
    };
    let (repository, branch) = rest.split_once('@').unwrap_or((rest, MAIN));
    let (namespace, name) = repository.split_once('/')?;
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let is_name =
        |name: &str| !name.is_empty() && name != "." && !name.contains("..") && name.chars().all(is_letter);
    let is_branch = |part: &str| {
        !part.is_empty()
            && !part.contains("..")
            && part.chars().all(|c| !c.is_whitespace() && !c.is_control())
    };
    let is_valid = is_name(namespace) && is_name(name) && branch.split('/').all(is_branch);
    let [namespace, name, branch] = [namespace, name, branch].map(str::to_owned);
    is_valid.then_some(PushTarget { kind, namespace, name, branch })
}

impl PushTarget {
    /// `namespace/name`.
    pub(super) fn repository(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The kind's name in addresses of the API.
    #[cfg(feature = "hub")]
    pub(super) fn plural(&self) -> &'static str {
        match self.kind {
            RepositoryKind::Dataset => "datasets",
            RepositoryKind::Model => "models",
        }
    }

    /// The prefix of the name in addresses of pages and files.
    pub(super) fn prefix(&self) -> &'static str {
        match self.kind {
            RepositoryKind::Dataset => "datasets/",
            RepositoryKind::Model => "",
        }
    }

    /// Whether the branch is the one that every repository has.
    pub(super) fn is_main(&self) -> bool {
        self.branch == MAIN
    }

    /// The path of the repository's page at the hub.
    #[cfg(feature = "hub")]
    pub(super) fn page(&self) -> String {
        let page = format!("{}{}", self.prefix(), self.repository());
        if self.is_main() { page } else { format!("{page}/tree/{}", self.branch) }
    }
}

impl fmt::Display for PushTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hf://{}{}", self.prefix(), self.repository())?;
        if self.is_main() { Ok(()) } else { write!(f, "@{}", self.branch) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_uri_names_a_whole_repository_and_a_branch() {
        use RepositoryKind::{Dataset, Model};
        for (uri, kind, repository, branch, shown) in [
            ("hf://datasets/me/a.b-c", Dataset, "me/a.b-c", "main", "hf://datasets/me/a.b-c"),
            ("hf://datasets/me/a@refs/pr/1", Dataset, "me/a", "refs/pr/1", "hf://datasets/me/a@refs/pr/1"),
            ("hf://models/me/a@main", Model, "me/a", "main", "hf://me/a"),
            ("hf://me/a@x", Model, "me/a", "x", "hf://me/a@x"),
        ] {
            let target: PushTarget = uri.parse().expect(uri);
            assert_eq!((target.kind, target.branch.as_str()), (kind, branch), "{uri}");
            assert_eq!((target.repository().as_str(), target.to_string().as_str()), (repository, shown));
        }
        for uri in [
            "",
            "me/a",
            "hf://a",
            "hf://me/",
            "hf://datasets/a",
            "hf://datasets/me/a/data",
            "hf://spaces/me/a",
            "hf://me/a@",
            "hf://me/a@x//y",
            "hf://me/a@x y",
            "hf://me/..",
            "hf://../a",
            "hf://me/a?b",
            "s3://me/a",
        ] {
            let error = uri.parse::<PushTarget>().expect_err(uri);
            assert!(error.kind() == ErrorKind::Usage && error.help().is_some(), "{error}");
        }
    }
}
