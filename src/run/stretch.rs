//! Selects a range of documents by number.

use crate::base::int::{to_u64, u64_to_usize};
use crate::source::Documents;

/// Skips `skip` documents and passes on at most `take` further ones. Batches must hold complete documents.
pub(super) fn stretch(mut documents: Documents<'_>, mut skip: u64, take: Option<u64>) -> Documents<'_> {
    let mut left = take.unwrap_or(u64::MAX);
    Box::new(std::iter::from_fn(move || {
        while left > 0 {
            match documents.next()? {
                Ok(batch) => {
                    let from = skip.min(to_u64(batch.len()));
                    let rows = left.min(to_u64(batch.len()) - from);
                    skip -= from;
                    left -= rows;
                    if rows > 0 {
                        return Some(Ok(batch.slice(u64_to_usize(from), u64_to_usize(rows))));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
        None
    }))
}

#[cfg(test)]
mod tests {
    use arrow_array::BinaryViewArray;

    use super::*;
    use crate::source::Batch;

    fn batch(first_row: u64, rows: usize) -> Batch {
        let documents = BinaryViewArray::from_iter_values((0..rows).map(|row| vec![0; row]));
        Batch { source: 0, unit: 0, first_row, documents, columns: None, continued: false, open: false }
    }

    #[test]
    fn gives_the_rows_asked_for_whatever_the_batches() {
        for (skip, take) in [(0, None), (2, None), (3, Some(4)), (5, Some(0)), (9, None), (1, Some(99))] {
            let batches = [batch(0, 3), batch(3, 2), batch(5, 4)];
            let documents: Documents<'_> = Box::new(batches.into_iter().map(Ok));
            let rows: Vec<u64> = stretch(documents, skip, take)
                .map(|batch| batch.expect("no error"))
                .flat_map(|batch| batch.first_row..batch.first_row + to_u64(batch.len()))
                .collect();
            let end = take.map_or(9, |take| (skip + take).min(9));
            assert_eq!(rows, (skip..end).collect::<Vec<u64>>(), "{skip} {take:?}");
        }
    }
}
