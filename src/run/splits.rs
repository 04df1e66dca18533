//! Warns about sources that contain several splits of a dataset.

use std::collections::BTreeSet;

use crate::observer::Observer;
use crate::source::{Source, SourceSpec, shown_uri, splits};

/// Tells the observer if the names of a source's files show that they are several splits of a dataset: all are read,
/// even those for tests. Nothing is told of a pattern, since it says which files are wanted.
pub(super) fn tell_splits(spec: &SourceSpec, source: &dyn Source, observer: &dyn Observer) {
    let uri = spec.uri.as_str();
    if uri.contains(['*', '?', '[']) {
        return;
    }
    let names: Vec<&str> = source.units().iter().map(|unit| unit.name.as_str()).collect();
    let folder = common_folder(&names);
    let found: BTreeSet<&str> = names.iter().flat_map(|name| splits(&name[folder..])).collect();
    if found.len() > 1 {
        let found: Vec<&str> = found.into_iter().collect();
        observer.noted(&format!(
            "{} has files of {}: all are read. A pattern such as \"…/{}*\" selects some",
            shown_uri(uri),
            found.join(" and "),
            found[0],
        ));
    }
}

/// The length of the common beginning of the paths, up to a slash. This is the folder or repository, whose own name
/// does not matter.
fn common_folder(names: &[&str]) -> usize {
    let Some((first, others)) = names.split_first() else { return 0 };
    let common =
        |name: &&str| first.bytes().zip(name.bytes()).take_while(|(one, other)| one == other).count();
    let common = others.iter().map(common).min().unwrap_or(first.len());
    first.as_bytes()[..common].iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_paths_begin_with_says_nothing() {
        assert_eq!(
            common_folder(&["hf://datasets/a/test@1/data/train-0", "hf://datasets/a/test@1/data/train-1"]),
            28
        );
        assert_eq!(common_folder(&["a/b"]), 2);
        assert_eq!(common_folder(&["tést", "tèst"]), 0);
        assert_eq!(common_folder(&[]), 0);
    }
}
