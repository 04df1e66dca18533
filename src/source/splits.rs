//! Finds the splits of a dataset in the names of its files.

/// Names of splits. Hugging Face `datasets` recognizes them too.
const SPLITS: [&str; 9] =
    ["train", "training", "validation", "valid", "val", "dev", "test", "testing", "eval"];

/// Names of the training split.
#[cfg(feature = "hub")]
pub(super) const TRAIN: [&str; 2] = ["train", "training"];

/// The names of splits that occur as words in a path, in order.
pub(crate) fn splits(path: &str) -> impl Iterator<Item = &'static str> {
    let words = path.split(|c: char| !c.is_ascii_alphabetic());
    words.filter_map(|word| SPLITS.into_iter().find(|split| *split == word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only whole words count, and directories count as well as file names.
    #[test]
    fn splits_are_words_of_a_path() {
        let found = |path| splits(path).collect::<Vec<_>>();
        assert_eq!(found("data/train-00000-of-00002.parquet"), ["train"]);
        assert_eq!(found("/test/part.train.jsonl"), ["test", "train"]);
        assert_eq!(found("trains/latest_tests.txt"), Vec::<&str>::new());
    }
}
