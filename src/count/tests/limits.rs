//! Pre-tokens and documents that are longer than the limit of memory allows.

use super::*;
use crate::error::ErrorKind;
use crate::observer::Silent;
use crate::source::texts;

/// Bytes that fit however small the limit is.
const FITS: usize = 1 << 20;

fn within(tables: u64, boundary: Boundary, folder: &tempfile::TempDir) -> CountConfig {
    let limit = MemoryLimit { tables: ByteCount(tables), scratch: folder.path().to_owned() };
    CountConfig { limit: Some(limit), boundary, ..CountConfig::default() }
}

/// Batches as a reader of plain text gives them: a document of one word, then `text` as one document in several
/// batches.
fn in_parts(text: &[u8]) -> Documents<'static> {
    let parts: Vec<Vec<u8>> = text.chunks(300_000).map(<[u8]>::to_vec).collect();
    let last = parts.len();
    let first = texts(["one word"]);
    let parts = parts.into_iter().enumerate().map(move |(number, part)| {
        let documents = arrow_array::BinaryViewArray::from_iter_values([part]);
        let (source, unit, first_row, columns) = (0, 0, 1, None);
        let (continued, open) = (number > 0, number + 1 < last);
        Ok(Batch { source, unit, first_row, documents, columns, continued, open })
    });
    Box::new(first.chain(parts))
}

#[test]
fn a_pretoken_that_is_too_long_for_the_limit_is_an_error_with_its_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let custom = SplitPattern::Custom("[^ ]+| +".to_owned());
    let named = ["gpt4", "gpt2"].map(|name| name.parse().expect("a name"));
    for pattern in named.into_iter().chain([custom]) {
        let splitter = crate::split::splitter(&pattern).expect("a pattern");
        let name = pattern.to_string();
        for boundary in [Boundary::Document, Boundary::Join] {
            for (length, fits) in [(FITS - 20, true), (FITS + 400_000, false)] {
                let config = within(0, boundary, &folder);
                // With joined documents, the previous word would be part of it.
                let text = [&b" "[..], &vec![b'a'; length]].concat();
                let all_at_once = || texts([b"one word".to_vec(), text.clone()]);
                for documents in [in_parts(&text), all_at_once()] {
                    let outcome = count_within_limit(documents, &*splitter, &config, &Silent);
                    let Err(error) = outcome else {
                        assert!(fits, "{name}, {boundary:?}, {length}");
                        continue;
                    };
                    assert!(!fits, "{name}, {boundary:?}, {length}: {error}");
                    assert_eq!(error.kind(), ErrorKind::Memory, "{error}");
                    let found = error.get_ref().downcast_ref::<TooLongForMemory>().expect("of a pre-token");
                    assert_eq!((found.source_number, found.unit), (0, 0));
                    assert!(
                        found.row == 1 || boundary == Boundary::Join,
                        "{name}, {boundary:?}: row {}",
                        found.row
                    );
                }
            }
        }
    }
}

#[test]
fn documents_that_do_not_fit_are_not_gathered() {
    let folder = tempfile::tempdir().expect("a folder");
    let documents = || texts(["a".repeat(60), "b".repeat(30), "a".repeat(60)]);
    for (limit, fits) in [(160, true), (100, false), (89, false), (59, false)] {
        let outcome = gather_documents(documents(), &within(limit, Boundary::Document, &folder), &Silent);
        match outcome {
            Ok(counted) => assert!(fits && counted.pretokens.len() == 2, "{limit}"),
            Err(error) => assert!(!fits && error.kind() == ErrorKind::Memory, "{limit}: {error}"),
        }
    }
    assert_eq!(count_of_all(documents()), 2);
}

fn count_of_all(documents: Documents<'_>) -> usize {
    gather_documents(documents, &CountConfig::default(), &Silent).expect("no limit").pretokens.len()
}
