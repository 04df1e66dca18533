//! The reference counter: all text in memory, one map, one thread. Tests compare the fast counter with it.

use std::collections::BTreeMap;

use super::{Boundary, CountConfig, PretokenCounts};
use crate::base::int::{Count, to_usize};
use crate::error::Result;
use crate::split::{Segment, Splitter};

/// Counts the pre-tokens of documents. Each document has the number of its source; `None` is a null document.
///
/// # Errors
/// Splitting fails.
///
/// # Panics
/// A count exceeds 2⁶⁴ − 1.
pub fn count_pretokens(
    documents: &[(usize, Option<Vec<u8>>)],
    splitter: &dyn Splitter,
    config: &CountConfig,
) -> Result<PretokenCounts> {
    let mut seen: BTreeMap<Vec<u8>, (usize, u64)> = BTreeMap::new();
    for (source, text) in texts(documents, config.boundary) {
        let weight = config.weight(source);
        if weight == 0 {
            continue;
        }
        for segment in config.specials.segments(&text) {
            let Segment::Text(range) = segment else { continue };
            let (text, mut ends, mut start) = (&text[range], Vec::new(), 0);
            splitter.pretoken_ends(text, &mut ends)?;
            for end in ends {
                let end = to_usize(end);
                let order = seen.len();
                let (_, count) = seen.entry(text[start..end].to_vec()).or_insert((order, 0));
                *count = count.checked_add(weight).expect("the reference is for small corpora");
                start = end;
            }
        }
    }
    let mut pretokens: Vec<_> = seen.iter().collect();
    pretokens.sort_by_key(|(_, (order, _))| *order);
    Ok(pretokens.iter().map(|(pretoken, (_, count))| (&pretoken[..], Count::new(*count))).collect())
}

/// Returns the texts to split, with the numbers of their sources.
fn texts(documents: &[(usize, Option<Vec<u8>>)], boundary: Boundary) -> Vec<(usize, Vec<u8>)> {
    let mut texts: Vec<(usize, Vec<u8>)> = Vec::new();
    for (source, document) in documents {
        let Some(document) = document else { continue };
        match texts.last_mut() {
            Some((last, text)) if boundary == Boundary::Join && last == source => {
                text.extend_from_slice(document);
            }
            _ => texts.push((*source, document.clone())),
        }
    }
    texts
}
