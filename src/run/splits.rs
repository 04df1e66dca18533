use std::collections::BTreeSet;

use crate::observer::Observer;
use crate::source::{Source, SourceSpec, shown_uri};

/// What parts of a dataset are called, by which `datasets` of Hugging Face knows them too.
const SPLITS: [&str; 9] =
    ["train", "training", "validation", "valid", "val", "dev", "test", "testing", "eval"];

/// Tells of a source whose files are the splits of a dataset, by their names: all are taken, also what is meant for tests.
/// Of a pattern it is known which files are wanted.
pub(super) fn tell_splits(spec: &SourceSpec, source: &dyn Source, observer: &dyn Observer) {
    let uri = spec.uri.as_str();
    if uri.contains(['*', '?', '[']) {
        return;
    }
    let below = |name: &str| name.find(uri).map_or(0, |at| at + uri.len());
    let found: BTreeSet<&str> =
        source.units().iter().flat_map(|unit| splits(&unit.name[below(&unit.name)..])).collect();
    if found.len() > 1 {
        let found: Vec<&str> = found.into_iter().collect();
        observer.noted(&format!(
            "{} has files of {}: all are taken. A pattern such as \"…/{}*\" takes some",
            shown_uri(uri),
            found.join(" and "),
            found[0],
        ));
    }
}

/// The splits that stand in a path as words.
fn splits(path: &str) -> impl Iterator<Item = &'static str> {
    let words = path.split(|c: char| !c.is_ascii_alphabetic());
    words.filter_map(|word| SPLITS.into_iter().find(|split| *split == word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_are_words_of_a_path() {
        let found = |path| splits(path).collect::<Vec<_>>();
        assert_eq!(found("data/train-00000-of-00002.parquet"), ["train"]);
        assert_eq!(found("/test/part.train.jsonl"), ["test", "train"]);
        assert_eq!(found("trains/latest_tests.txt"), Vec::<&str>::new());
    }
}
