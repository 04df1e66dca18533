//! The rules by which documents are packed into rows.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::row_group::{GROUP_IDS, GROUP_ROWS};

/// Length of a packed row in token ids, at most: a row group holds at least one row.
pub const MAX_PACKED_LENGTH: usize = GROUP_IDS;

/// How documents are packed into rows of equal length.
///
/// All tokens are kept, and those of a document keep their order. BOS and EOS tokens stay with their documents within
/// the rows. Documents without tokens, including null ones, are left out. The column `seq_lengths` gives the lengths
/// of the documents in each row, or of their parts. Rows are not padded, so some are shorter: the last one of a file
/// with [`Concat`](PackRule::Concat), and any with [`BestFit`](PackRule::BestFit).
///
/// Each file holds complete documents, so packing does not change which documents a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packing {
    /// The rule for documents that share a row.
    pub rule: PackRule,
    /// Token ids per row, from 1 to [`MAX_PACKED_LENGTH`].
    pub length: usize,
    /// Token ids per window, about. Documents are packed within a window, which becomes a row group.
    pub window: usize,
}

/// The rule for documents that share a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PackRule {
    /// Concatenates all documents of a file, and cuts them wherever a row is full. The window only determines where
    /// row groups end.
    Concat,
    /// Keeps a document whole if it is not longer than a row. Full rows are first cut off longer documents. Within a
    /// window, documents and remainders are placed longest first, each into the fullest row that has room. Among
    /// equals, the earlier document and the row begun earlier come first. Rows are in the order of their last
    /// documents, and the documents of a row in the order of the input.
    BestFit,
}

impl fmt::Display for PackRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PackRule::Concat => "concat",
            PackRule::BestFit => "best-fit",
        })
    }
}

impl Packing {
    /// Packs with windows of about 4 million tokens.
    pub fn new(rule: PackRule, length: usize) -> Packing {
        Packing { rule, length, window: GROUP_IDS }
    }

    /// Number of ids of the next document, which has `document` ids, that go into a window with `ids` ids of
    /// `documents` documents: all, some, or none.
    pub(super) fn room(&self, ids: usize, documents: usize, document: usize) -> usize {
        match self.rule {
            PackRule::Concat => {
                let full_rows = (self.window / self.length).max(1) * self.length;
                document.min(full_rows.saturating_sub(ids))
            }
            PackRule::BestFit => {
                let fits = ids + document <= self.window && documents < GROUP_ROWS;
                if fits || ids == 0 { document } else { 0 }
            }
        }
    }

    /// Whether packing cuts a document. `ids` ids of it come at offset `at` of a window. `continued` says that
    /// earlier ids of it are in an earlier window.
    pub(super) fn cuts(&self, at: usize, ids: usize, continued: bool) -> bool {
        match self.rule {
            PackRule::Concat => continued || (ids > 0 && at / self.length != (at + ids - 1) / self.length),
            PackRule::BestFit => ids > self.length,
        }
    }
}
