use crate::units::Count;

/// One learned merge. The tokens are numbered as training numbers them: byte b is b, and merge k
/// makes token 256 + k.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Merge {
    /// The left token.
    pub left: u32,
    /// The right token.
    pub right: u32,
    /// How often the pair occurred when it was merged (overlapping occurrences counted each).
    pub count: Count,
}

/// Learned merges in the order in which they were learned. Each one's tokens are bytes or made by an
/// earlier merge, and no pair stands twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merges(Vec<Merge>);

impl Merges {
    /// Takes merges as they were learned.
    pub(crate) fn new(merges: Vec<Merge>) -> Merges {
        debug_assert!(
            merges.iter().zip(256u64..).all(|(m, id)| u64::from(m.left) < id && u64::from(m.right) < id)
        );
        Merges(merges)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first `most` of them, or all if there are fewer: what a shorter training would have learned.
    pub fn first(&self, most: usize) -> Merges {
        Merges(self.0[..self.0.len().min(most)].to_vec())
    }

    /// The merges in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Merge> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Merges {
    type Item = &'a Merge;
    type IntoIter = std::slice::Iter<'a, Merge>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The state of training after some merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct HistoryPoint {
    /// Merges learned so far.
    pub merges: u64,
    /// Tokens the corpus has then: the sum over sequences of weight × length.
    pub tokens: u64,
}

/// What training gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learned {
    /// The merges.
    pub merges: Merges,
    /// Tokens in the corpus before the first merge, after every `history_every`, and at the end.
    pub history: Vec<HistoryPoint>,
}
