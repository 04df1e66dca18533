//! The splits of a dataset, as the names of its files tell them.

/// What parts of a dataset are called, by which `datasets` of Hugging Face knows them too.
const SPLITS: [&str; 9] =
    ["train", "training", "validation", "valid", "val", "dev", "test", "testing", "eval"];

/// What the part for training is called.
#[cfg(feature = "hub")]
pub(super) const TRAIN: [&str; 2] = ["train", "training"];

/// The splits that stand in a path as words.
pub(crate) fn splits(path: &str) -> impl Iterator<Item = &'static str> {
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
