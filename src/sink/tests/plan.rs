use proptest::prelude::*;

use crate::error::ErrorKind;
use crate::sink::OutputFormat;
use crate::sink::layout::{FileBoundaries, FilePlan, rows_that_fit};
use crate::source::{Range, Unit};

fn units(bytes: &[Option<u64>]) -> Vec<Unit> {
    let unit = |&text_bytes| Unit { name: "in".to_owned(), range: Range::Whole, rows: None, text_bytes };
    bytes.iter().map(unit).collect()
}

#[test]
fn whole_units_fill_files_in_order() {
    for (sources, limit, ends) in [
        (vec![vec![]], 10, vec![0]),
        (vec![vec![4, 4], vec![4]], 10, vec![2, 3]),
        (vec![vec![10, 10]], 10, vec![1, 2]),
        (vec![vec![3], vec![], vec![50, 3, 7]], 10, vec![1, 2, 4]),
        (vec![vec![0, 0, 0]], 0, vec![3]),
        (vec![vec![u64::MAX, u64::MAX]], u64::MAX - 1, vec![1, 2]),
    ] {
        let known = |bytes: &Vec<u64>| units(&bytes.iter().copied().map(Some).collect::<Vec<_>>());
        let sources: Vec<_> = sources.iter().map(known).collect();
        let plan = FilePlan::of_units(&sources, "train", limit).expect("a plan");
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let expected = starts.zip(ends.iter().copied()).map(|(start, end)| start..end).collect();
        assert_eq!(plan.layout(), &FileBoundaries::Fixed(expected), "{sources:?}");
    }
}

#[test]
fn names_tell_the_number_of_files_where_it_is_known() {
    let known = FilePlan::of_units(&[units(&[Some(9), Some(9), Some(9)])], "train", 20).expect("a plan");
    let names = ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"];
    assert_eq!(known.names().expect("known"), names);
    let unknown = FilePlan::of_units(&[units(&[Some(9), None])], "dev.x", 20).expect("a plan");
    assert_eq!(unknown.names(), None);
    assert_eq!(unknown.name(12), "data/dev.x-00012.parquet");
}

#[test]
fn split_names_are_words() {
    for name in ["train", "validation_2", "a.b"] {
        assert!(FilePlan::rolling(name, 1).is_ok(), "{name}");
    }
    for name in ["", "a-b", "../x", "a b", "a.", "train*"] {
        let error = FilePlan::rolling(name, 1).expect_err(name);
        assert_eq!(error.kind(), ErrorKind::Usage);
    }
}

proptest! {
    #[test]
    fn rolling_files_are_full_and_not_overfull(lengths in prop::collection::vec(0_u64..30, 0..60)) {
        let (mut row, mut files) = (0, Vec::new());
        while row < lengths.len() {
            let fit = rows_that_fit(&lengths[row..], 0, 0, 50);
            files.push(&lengths[row..row + fit]);
            row += fit;
        }
        for pair in files.windows(2) {
            prop_assert!(pair[0].iter().sum::<u64>() + pair[1][0] > 50);
        }
        prop_assert!(files.iter().all(|file| file.len() == 1 || file.iter().sum::<u64>() <= 50));
    }
}

#[test]
fn one_file_is_called_by_its_split() {
    let many = [units(&[Some(9), Some(9)]), units(&[Some(9)])];
    let unknown = [units(&[Some(9), None])];
    for (sources, split, name) in
        [(&many[..], "train", "data/train.bin"), (&unknown[..], "dev.x", "data/dev.x.bin")]
    {
        let plan = FilePlan::of_units(sources, split, 10).expect("a plan");
        let plan = plan.with_format(OutputFormat::Bin).in_one_file();
        assert_eq!(plan.names(), Some(vec![name.to_owned()]));
        assert_eq!(crate::sink::manifest::split_of(name), split);
    }
}
