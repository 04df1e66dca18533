use std::borrow::Cow;
use std::ops::Range;

use crate::pages;
use crate::units::TokenId;

/// Token ids, in two bytes each or in four.
///
/// Two of these are equal if they hold the same ids, however wide.
#[derive(Clone, Debug)]
pub enum TokenIds {
    /// Ids below 2¹⁶.
    Narrow(Vec<u16>),
    /// Any ids.
    Wide(Vec<TokenId>),
}

impl TokenIds {
    /// None yet, with room for so many that are below `limit`.
    pub(super) fn with_capacity(room: usize, limit: usize) -> TokenIds {
        if limit <= 1 << u16::BITS {
            TokenIds::Narrow(pages::with_capacity(room))
        } else {
            TokenIds::Wide(pages::with_capacity(room))
        }
    }

    /// None yet, as wide as these and with room for as many.
    pub(crate) fn room_for_as_many(&self) -> TokenIds {
        match self {
            TokenIds::Narrow(ids) => TokenIds::Narrow(Vec::with_capacity(ids.len())),
            TokenIds::Wide(ids) => TokenIds::Wide(Vec::with_capacity(ids.len())),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            TokenIds::Narrow(ids) => ids.len(),
            TokenIds::Wide(ids) => ids.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ids in order.
    pub fn iter(&self) -> impl Iterator<Item = TokenId> {
        let (narrow, wide): (&[u16], &[TokenId]) = match self {
            TokenIds::Narrow(ids) => (ids, &[]),
            TokenIds::Wide(ids) => (&[], ids),
        };
        narrow.iter().copied().map(widened).chain(wide.iter().copied())
    }

    /// Some of the ids; copied, if they have to be widened.
    ///
    /// # Panics
    /// There are not so many.
    pub fn slice(&self, range: Range<usize>) -> Cow<'_, [TokenId]> {
        match self {
            TokenIds::Narrow(ids) => ids[range].iter().copied().map(widened).collect(),
            TokenIds::Wide(ids) => Cow::Borrowed(&ids[range]),
        }
    }

    /// All of them, copied if they have to be widened.
    pub(crate) fn into_wide(self) -> Vec<TokenId> {
        match self {
            TokenIds::Narrow(ids) => ids.into_iter().map(widened).collect(),
            TokenIds::Wide(ids) => ids,
        }
    }

    /// Appends one id.
    pub(super) fn push(&mut self, id: TokenId) {
        self.extend_from_slice(&[id]);
    }

    /// Appends ids.
    pub(super) fn extend_from_slice(&mut self, more: &[TokenId]) {
        let TokenIds::Narrow(ids) = self else { return self.wide().extend_from_slice(more) };
        let (before, mut all_bits) = (ids.len(), 0);
        ids.extend(more.iter().map(|id| {
            all_bits |= id.get();
            low16(id.get())
        }));
        if all_bits > u32::from(u16::MAX) {
            ids.truncate(before);
            self.wide().extend_from_slice(more);
        }
    }

    /// Appends some of other ids.
    ///
    /// # Panics
    /// There are not so many.
    pub(crate) fn extend(&mut self, other: &TokenIds, range: Range<usize>) {
        match (&mut *self, other) {
            (TokenIds::Narrow(ids), TokenIds::Narrow(more)) => ids.extend_from_slice(&more[range]),
            (TokenIds::Wide(ids), TokenIds::Narrow(more)) => {
                ids.extend(more[range].iter().copied().map(widened));
            }
            (_, TokenIds::Wide(more)) => self.extend_from_slice(&more[range]),
        }
    }

    /// Asks for the memory of so many more, if there is room for them.
    pub(super) fn populate(&mut self, more: usize) {
        match self {
            TokenIds::Narrow(ids) => pages::populate(ids, more),
            TokenIds::Wide(ids) => pages::populate(ids, more),
        }
    }

    /// The ids, which are wide from now on.
    fn wide(&mut self) -> &mut Vec<TokenId> {
        if let TokenIds::Narrow(ids) = self {
            *self = TokenIds::Wide(ids.iter().copied().map(widened).collect());
        }
        match self {
            TokenIds::Wide(ids) => ids,
            TokenIds::Narrow(_) => unreachable!("they were widened"),
        }
    }
}

fn low16(id: u32) -> u16 {
    let [low, high, ..] = id.to_le_bytes();
    u16::from_le_bytes([low, high])
}

fn widened(id: u16) -> TokenId {
    TokenId::new(id.into())
}

impl Default for TokenIds {
    fn default() -> TokenIds {
        TokenIds::Narrow(Vec::new())
    }
}

impl PartialEq for TokenIds {
    fn eq(&self, other: &TokenIds) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for TokenIds {}

impl FromIterator<TokenId> for TokenIds {
    fn from_iter<I: IntoIterator<Item = TokenId>>(ids: I) -> TokenIds {
        let mut all = TokenIds::default();
        ids.into_iter().for_each(|id| all.push(id));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::TokenIds;
    use crate::units::TokenId;

    fn ids(numbers: &[u32]) -> TokenIds {
        numbers.iter().copied().map(TokenId::new).collect()
    }

    #[test]
    fn ids_are_as_narrow_as_the_greatest_allows() {
        assert!(matches!(ids(&[0, 7, 65_535]), TokenIds::Narrow(found) if found == [0, 7, 65_535]));
        let wide = [1, 65_536, 2].map(TokenId::new);
        assert!(matches!(ids(&[1, 65_536, 2]), TokenIds::Wide(found) if found == wide));
        assert!(matches!(TokenIds::with_capacity(3, 65_536), TokenIds::Narrow(_)));
        assert!(matches!(TokenIds::with_capacity(3, 65_537), TokenIds::Wide(_)));
    }

    #[test]
    fn ids_of_both_widths_go_together() {
        let (narrow, wide) = (ids(&[1, 2, 3]), ids(&[4, 70_000, 6]));
        for order in [[&narrow, &wide], [&wide, &narrow], [&narrow, &narrow], [&wide, &wide]] {
            let (mut all, mut slices, mut expected) = (TokenIds::default(), TokenIds::default(), Vec::new());
            for some in order {
                all.extend(some, 1..3);
                slices.extend_from_slice(&some.slice(1..3));
                expected.extend(some.iter().skip(1));
            }
            assert_eq!((all.len(), &*all.slice(0..4), &all), (4, &*expected, &slices));
            assert_eq!(matches!(all, TokenIds::Narrow(_)), order == [&narrow, &narrow]);
            assert_eq!(all.into_wide(), expected);
        }
    }
}
