use crate::units::{Count, amount, place};

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
    #[must_use]
    pub fn first(&self, most: usize) -> Merges {
        Merges(self.0[..self.0.len().min(most)].to_vec())
    }

    /// How many bytes the tokens have together that they make; 2⁶⁴ - 1 if there are more.
    pub fn token_bytes(&self) -> u64 {
        let mut lengths = vec![1_u64; 256];
        for merge in &self.0 {
            lengths.push(lengths[place(merge.left)].saturating_add(lengths[place(merge.right)]));
        }
        lengths[256..].iter().fold(0, |sum, &length| sum.saturating_add(length))
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
    /// Tokens in the corpus before the first merge, where the settings want them to be told, and at the end.
    pub history: Vec<HistoryPoint>,
}

impl Learned {
    /// With a last point of the history, at which the text has so many tokens.
    pub(super) fn new(merges: Vec<Merge>, mut history: Vec<HistoryPoint>, tokens: u64) -> Learned {
        let last = HistoryPoint { merges: amount(merges.len()), tokens };
        if history.last().is_none_or(|before| before.merges != last.merges) {
            history.push(last);
        }
        Learned { merges: Merges::new(merges), history }
    }
}
