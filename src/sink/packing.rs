use std::fmt;

use serde::{Deserialize, Serialize};

use super::row_group::{GROUP_IDS, GROUP_ROWS};

/// Longest row of packed documents: a row group holds at least one.
pub const MAX_PACKED_LENGTH: usize = GROUP_IDS;

/// How documents are put together into rows of one length.
///
/// All tokens are kept, and those of a document stay in their order; what stands around documents (BOS, EOS) stands
/// around them within the rows too. Documents without tokens, null ones among them, are left out. Each row says
/// in `seq_lengths` how long the documents in it are, or the parts of them. Rows are not filled up with padding:
/// the last one of a file by [`Concat`](PackRule::Concat), and any by [`BestFit`](PackRule::BestFit), can be
/// shorter.
///
/// Files hold whole documents, so which documents a file has does not depend on packing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packing {
    /// Which documents share a row.
    pub rule: PackRule,
    /// Token ids in a row, at least 1 and at most [`MAX_PACKED_LENGTH`].
    pub length: usize,
    /// Documents are packed within windows of about so many token ids, each of which becomes a row group.
    pub window: usize,
}

/// Which documents share a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PackRule {
    /// All documents of a file one after the other, cut into rows wherever a row is full. The window decides nothing
    /// but where row groups end.
    Concat,
    /// A document stays whole if it is not longer than a row; of a longer one full rows are cut off first. Within
    /// a window documents and rests go, the longest first, to the fullest row that has room; among equals the earlier
    /// document and the row begun earlier come first. Rows stand in the order of the last document in each, and the
    /// documents of a row in the order of the input.
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
    /// Packs within windows of some 4 million tokens.
    pub fn new(rule: PackRule, length: usize) -> Packing {
        Packing { rule, length, window: GROUP_IDS }
    }

    /// How many ids of the next document go to a window that holds `ids` of so many documents: all, some, or none.
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

    /// Whether a document is not whole in one row, of which so many ids come at this place of a window, after others in
    /// earlier windows if it is `continued`.
    pub(super) fn cuts(&self, at: usize, ids: usize, continued: bool) -> bool {
        match self.rule {
            PackRule::Concat => continued || (ids > 0 && at / self.length != (at + ids - 1) / self.length),
            PackRule::BestFit => ids > self.length,
        }
    }
}
