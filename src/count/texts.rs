//! Counts the pre-tokens of texts that the program holds.

use rayon::prelude::*;

use super::PretokenCounts;
use super::fold::fold;
use super::table::PretokenTable;
use crate::base::int::{Count, to_u64};
use crate::error::Result;
use crate::split::Splitter;

/// Counts the pre-tokens of texts, in order of first appearance, on all threads of the current rayon pool. Each text
/// counts once, and special tokens in it are ordinary text.
///
/// **Memory:** about 40 bytes and its own length for each distinct pre-token, once per thread.
///
/// # Errors
/// The splitter fails, for example because a text has 4 GiB or more; or a count exceeds 2⁶⁴ − 1.
///
/// ```
/// use tokenmill::count::count_texts;
/// use tokenmill::split::{SplitPattern, splitter};
///
/// let splitter = splitter(&SplitPattern::named("gpt4").unwrap())?;
/// let counts = count_texts(&["the cat sat", "the cat ran"], &*splitter)?;
/// let counts: Vec<_> = counts.iter().map(|(pretoken, count)| (pretoken, count.get())).collect();
/// assert_eq!(counts[..3], [(&b"the"[..], 2), (b" cat", 2), (b" sat", 1)]);
/// # Ok::<(), tokenmill::Error>(())
/// ```
pub fn count_texts<T: AsRef<[u8]> + Sync>(texts: &[T], splitter: &dyn Splitter) -> Result<PretokenCounts> {
    let mut position = 0;
    let texts: Vec<(u64, &[u8])> = texts
        .iter()
        .map(|text| {
            let start = position;
            position += to_u64(text.as_ref().len());
            (start, text.as_ref())
        })
        .collect();
    let share = texts.len().div_ceil(rayon::current_num_threads()).max(1);
    let count = |texts: &[(u64, &[u8])]| -> Result<PretokenTable> {
        let (mut table, mut ends) = (PretokenTable::new(), Vec::new());
        for &(position, text) in texts {
            ends.clear();
            splitter.pretoken_ends(text, &mut ends)?;
            table.count(text, 0, &ends, Count::ONE, position)?;
        }
        Ok(table)
    };
    fold(texts.par_chunks(share).map(count).collect::<Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::{CountConfig, reference};
    use super::*;
    use crate::split::{Named, SplitPattern, splitter};

    proptest! {
        #[test]
        fn texts_are_counted_as_the_reference_does(texts in vec("[ab 1\n]{0,12}", 0..40)) {
            let splitter = splitter(&SplitPattern::Named(Named::Gpt4))?;
            let documents: Vec<_> = texts.iter().map(|text| (0, Some(text.clone().into_bytes()))).collect();
            let expected = reference::count_pretokens(&documents, &*splitter, &CountConfig::default())?;
            prop_assert_eq!(count_texts(&texts, &*splitter)?, expected);
        }
    }
}
