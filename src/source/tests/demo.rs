//! Tests of the generators.

use std::collections::HashSet;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;

use super::*;

fn demo(uri: &str) -> SourceSpec {
    SourceSpec { uri: uri.to_owned(), ..SourceSpec::default() }
}

fn lines(uri: &str, config: ReadConfig) -> Texts {
    read(&demo(uri), config).unwrap()
}

/// The generated text has the lengths, the punctuation and the growth of vocabulary of natural text.
#[test]
fn verse_looks_like_verse() {
    let lines = lines("demo:verse?lines=20_000&seed=1", ReadConfig::default());
    assert_eq!(lines.len(), 20_000);
    let lines: Vec<String> =
        lines.into_iter().flatten().map(|line| String::from_utf8(line).expect("UTF-8")).collect();
    assert!(lines.iter().all(|line| (20..=60).contains(&line.len())));
    assert!(lines.iter().all(|line| line.starts_with(|c: char| c.is_ascii_uppercase())));
    assert!(lines.iter().any(|line| line.contains('é')));
    assert!(lines.iter().any(|line| line.ends_with(';')));
    // Twice the text has 2^0.6 ≈ 1.5 times the distinct words.
    let words = |lines: &[String]| {
        let words = lines.iter().flat_map(|line| line.split(|c: char| !c.is_alphabetic()));
        crate::base::int::to_u64(words.map(str::to_lowercase).collect::<HashSet<_>>().len())
    };
    let growth = crate::base::int::ratio(words(&lines), words(&lines[..10_000]));
    assert!((1.35..1.65).contains(&growth), "{growth}");
}

/// Rows do not depend on batches and units, and differ between seeds.
#[test]
fn rows_depend_on_number_and_seed_alone() {
    let few = lines("demo:verse?lines=300000&seed=5", ReadConfig::default());
    let same = lines("demo:verse?seed=5&lines=270000", SMALL);
    assert_eq!(few[..270_000], same[..]);
    let other = lines("demo:verse?lines=1000&seed=6", ReadConfig::default());
    assert!(few.iter().zip(&other).all(|(a, b)| a != b));
    assert_eq!(opened(&demo("demo:verse?lines=300000"), SMALL).unwrap().units().len(), 2);
}

/// Pass-through columns belong to their lines.
#[test]
fn columns_follow_the_lines() {
    let columns = vec!["gutenberg_id".to_owned(), "line".to_owned()];
    let spec = SourceSpec { columns, ..demo("demo:verse?lines=9000") };
    let source = opened(&spec, ReadConfig::default()).unwrap();
    let mut books: HashSet<i64> = HashSet::new();
    for batch in batches(&*source).unwrap() {
        let columns = batch.columns.as_ref().expect("columns were asked for");
        assert_eq!(columns.schema(), source.columns().expect("columns were asked for"));
        books.extend(columns.column(0).as_primitive::<Int64Type>().values());
        assert!(
            columns.column(1).as_string_view().iter().map(|line| line.map(str::as_bytes)).eq(batch.iter())
        );
    }
    assert_eq!(books.len(), 3);
    let wrong = SourceSpec { column: Some("gutenberg_id".to_owned()), ..spec.clone() };
    assert!(failure(opened(&wrong, SMALL)).1.contains("not text"));
    let wrong = SourceSpec { column: Some("text".to_owned()), ..spec };
    assert!(failure(opened(&wrong, SMALL)).1.contains("line, gutenberg_id"));
}

/// `demo:words` gives exactly the requested number of distinct words.
#[test]
fn words_are_as_many_as_asked_for() {
    let words = |uri| {
        let lines = lines(uri, ReadConfig::default()).into_iter().flatten();
        let text = lines.collect::<Vec<_>>().join(&b' ');
        text.split(|&byte| byte == b' ').map(<[u8]>::to_vec).collect::<HashSet<_>>().len()
    };
    assert_eq!(words("demo:words?distinct=60000&seed=3"), 60_000);
    assert_eq!(words("demo:words?distinct=100&lines=1000"), 100);
}

/// The estimate of a unit's text is close to its actual size.
#[test]
fn the_estimate_of_a_unit_is_about_its_text() {
    for uri in ["demo:verse?lines=20_000", "demo:words?distinct=60_000"] {
        let source = opened(&demo(uri), ReadConfig::default()).expect("generated");
        let told: u64 = source.units().iter().filter_map(|unit| unit.text_bytes).sum();
        let bytes: usize = lines(uri, ReadConfig::default()).iter().flatten().map(Vec::len).sum();
        let share = crate::base::int::ratio(told, crate::base::int::to_u64(bytes));
        assert!((0.95..1.05).contains(&share), "{uri}: {told} for {bytes}");
    }
}
