use std::borrow::Cow;
use std::ops::Range;

use crate::pages;
use crate::units::TokenId;

/// Token ids, in two bytes each or in four.
///
/// Two of these are equal if they hold the same ids, however wide and however joined.
#[derive(Clone, Debug)]
pub enum TokenIds {
    /// Ids below 2¹⁶.
    Narrow(Vec<u16>),
    /// Any ids.
    Wide(Vec<TokenId>),
    /// Those of a long document, in the parts in which it was encoded.
    Joined(Parts),
}

/// Parts of [`TokenIds`], one at least, none of them joined itself.
#[derive(Clone, Debug)]
pub struct Parts(Vec<TokenIds>);

impl TokenIds {
    /// None yet, with room for so many that are below `limit`.
    pub(super) fn with_capacity(room: usize, limit: usize) -> TokenIds {
        if limit <= 1 << u16::BITS {
            TokenIds::Narrow(Vec::with_capacity(room))
        } else {
            TokenIds::Wide(Vec::with_capacity(room))
        }
    }

    /// None yet, wide if any of these are, and with room for as many.
    pub(crate) fn room_for_as_many(&self) -> TokenIds {
        match self.parts().iter().all(|part| matches!(part, TokenIds::Narrow(_))) {
            true => TokenIds::Narrow(Vec::with_capacity(self.len())),
            false => TokenIds::Wide(Vec::with_capacity(self.len())),
        }
    }

    /// They as parts, each of them narrow or wide.
    pub(crate) fn parts(&self) -> &[TokenIds] {
        match self {
            TokenIds::Joined(Parts(parts)) => parts,
            one => std::slice::from_ref(one),
        }
    }

    /// The part that more ids are appended to.
    fn last(&mut self) -> &mut TokenIds {
        match self {
            TokenIds::Joined(Parts(parts)) => parts.last_mut().expect("there is one at least"),
            one => one,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            TokenIds::Narrow(ids) => ids.len(),
            TokenIds::Wide(ids) => ids.len(),
            TokenIds::Joined(Parts(parts)) => parts.iter().map(TokenIds::len).sum(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parts().iter().all(|part| part.len() == 0)
    }

    /// The ids in order.
    pub fn iter(&self) -> impl Iterator<Item = TokenId> {
        self.parts().iter().flat_map(|part| {
            let (narrow, wide): (&[u16], &[TokenId]) = match part {
                TokenIds::Narrow(ids) => (ids, &[]),
                TokenIds::Wide(ids) => (&[], ids),
                TokenIds::Joined(_) => unreachable!("a part is not joined itself"),
            };
            narrow.iter().copied().map(widened).chain(wide.iter().copied())
        })
    }

    /// Some of the ids; copied, if they have to be widened or joined.
    ///
    /// # Panics
    /// There are not so many.
    pub fn slice(&self, range: Range<usize>) -> Cow<'_, [TokenId]> {
        if let TokenIds::Wide(ids) = self {
            return Cow::Borrowed(&ids[range]);
        }
        let mut some = TokenIds::Wide(Vec::new());
        some.extend(self, range);
        Cow::Owned(some.into_wide())
    }

    /// Appends all of them to a file's bytes, each as the `N` bytes that `bytes_of` makes of it.
    pub fn append_to<const N: usize>(&self, file: &mut Vec<u8>, bytes_of: impl Fn(TokenId) -> [u8; N]) {
        for part in self.parts() {
            match part {
                TokenIds::Narrow(ids) => append(file, ids.iter().map(|&id| bytes_of(widened(id)))),
                TokenIds::Wide(ids) => append(file, ids.iter().map(|&id| bytes_of(id))),
                TokenIds::Joined(_) => unreachable!("a part is not joined itself"),
            }
        }
    }

    /// All of them, copied if they have to be widened or joined.
    pub(crate) fn into_wide(self) -> Vec<TokenId> {
        let length = self.len();
        match self {
            TokenIds::Narrow(ids) => ids.into_iter().map(widened).collect(),
            TokenIds::Wide(ids) => ids,
            TokenIds::Joined(Parts(parts)) => {
                let mut all = Vec::with_capacity(length);
                parts.into_iter().for_each(|part| all.extend(part.into_wide()));
                all
            }
        }
    }

    /// Appends one id.
    pub(super) fn push(&mut self, id: TokenId) {
        self.extend_from_slice(&[id]);
    }

    /// Appends ids.
    pub(super) fn extend_from_slice(&mut self, more: &[TokenId]) {
        let last = self.last();
        let TokenIds::Narrow(ids) = last else { return last.wide().extend_from_slice(more) };
        let (before, mut all_bits) = (ids.len(), 0);
        ids.extend(more.iter().map(|id| {
            all_bits |= id.get();
            low16(id.get())
        }));
        if all_bits > u32::from(u16::MAX) {
            ids.truncate(before);
            last.wide().extend_from_slice(more);
        }
    }

    /// Appends some of other ids.
    ///
    /// # Panics
    /// There are not so many.
    pub(crate) fn extend(&mut self, other: &TokenIds, range: Range<usize>) {
        match (self.last(), other) {
            (TokenIds::Narrow(ids), TokenIds::Narrow(more)) => ids.extend_from_slice(&more[range]),
            (TokenIds::Wide(ids), TokenIds::Narrow(more)) => {
                ids.extend(more[range].iter().copied().map(widened));
            }
            (last, TokenIds::Wide(more)) => last.extend_from_slice(&more[range]),
            (last, TokenIds::Joined(Parts(parts))) => {
                let mut start = 0;
                for part in parts {
                    let within = |at: usize| at.saturating_sub(start).min(part.len());
                    last.extend(part, within(range.start)..within(range.end));
                    start += part.len();
                }
                assert!(range.end <= start, "there are {start} ids");
            }
            (TokenIds::Joined(_), _) => unreachable!("a part is not joined itself"),
        }
    }

    /// The last so many, copied.
    ///
    /// # Panics
    /// There are not so many.
    pub(super) fn last_ids(&self, number: usize) -> Vec<TokenId> {
        let (mut first, mut more) = (self.parts().len(), number);
        while more > 0 {
            first -= 1;
            more = more.saturating_sub(self.parts()[first].len());
        }
        let some = self.parts()[first..].iter().flat_map(TokenIds::iter);
        let length: usize = self.parts()[first..].iter().map(TokenIds::len).sum();
        some.skip(length - number).collect()
    }

    /// Takes the last so many off.
    ///
    /// # Panics
    /// There are not so many.
    pub(super) fn take_back(&mut self, number: usize) {
        let mut more = number;
        if let TokenIds::Joined(Parts(parts)) = self {
            while let [_, .., last] = &parts[..]
                && last.len() <= more
            {
                more -= last.len();
                parts.pop();
            }
        }
        match self.last() {
            TokenIds::Narrow(ids) => ids.truncate(ids.len() - more),
            TokenIds::Wide(ids) => ids.truncate(ids.len() - more),
            TokenIds::Joined(_) => unreachable!("a part is not joined itself"),
        }
    }

    /// Appends a part without copying it. It must not be joined itself.
    pub(crate) fn join(&mut self, next: TokenIds) {
        match self {
            one if one.is_empty() => *one = next,
            TokenIds::Joined(Parts(parts)) => parts.push(next),
            one => *one = TokenIds::Joined(Parts(vec![std::mem::take(one), next])),
        }
    }

    /// Asks for the memory of so many more, if there is room for them.
    pub(super) fn populate(&mut self, more: usize) {
        match self.last() {
            TokenIds::Narrow(ids) => pages::populate(ids, more),
            TokenIds::Wide(ids) => pages::populate(ids, more),
            TokenIds::Joined(_) => unreachable!("a part is not joined itself"),
        }
    }

    /// The ids of a part, which are wide from now on.
    fn wide(&mut self) -> &mut Vec<TokenId> {
        if let TokenIds::Narrow(ids) = self {
            *self = TokenIds::Wide(ids.iter().copied().map(widened).collect());
        }
        match self {
            TokenIds::Wide(ids) => ids,
            _ => unreachable!("a part is not joined itself, and was widened"),
        }
    }
}

/// Appends arrays to bytes. Of this the compiler makes a few wide instructions; of `extend` and `flat_map`, which says
/// the same, one store for each byte.
fn append<const N: usize>(bytes: &mut Vec<u8>, more: impl ExactSizeIterator<Item = [u8; N]>) {
    let start = bytes.len();
    bytes.resize(start + N * more.len(), 0);
    let (room, _) = bytes[start..].as_chunks_mut();
    room.iter_mut().zip(more).for_each(|(room, more)| *room = more);
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
    fn joined_ids_are_those_of_all_parts() {
        let parts = [ids(&[1, 2, 3]), ids(&[]), ids(&[4, 70_000]), ids(&[5])];
        let mut joined = TokenIds::default();
        parts.iter().for_each(|part| joined.join(part.clone()));
        joined.push(TokenId::new(80_000));
        let all = ids(&[1, 2, 3, 4, 70_000, 5, 80_000]);
        assert_eq!((joined.len(), &joined), (7, &all));
        for (start, end) in (0..=7).flat_map(|start| (start..=7).map(move |end| (start, end))) {
            assert_eq!(joined.slice(start..end), all.slice(start..end));
            let (mut more, mut expected) = (ids(&[9]), ids(&[9]));
            more.extend(&joined, start..end);
            expected.extend(&all, start..end);
            assert_eq!(more, expected);
        }
        assert!(matches!(joined.room_for_as_many(), TokenIds::Wide(_)));
        joined.extend(&parts[0], 1..3);
        assert_eq!(joined.into_wide(), ids(&[1, 2, 3, 4, 70_000, 5, 80_000, 2, 3]).into_wide());
    }

    #[test]
    fn the_last_ids_are_those_of_several_parts() {
        let parts = [ids(&[1, 2, 3]), ids(&[]), ids(&[4, 70_000]), ids(&[5]), ids(&[])];
        let mut joined = TokenIds::default();
        parts.iter().for_each(|part| joined.join(part.clone()));
        let all = ids(&[1, 2, 3, 4, 70_000, 5]).into_wide();
        for length in 0..=6 {
            assert_eq!(joined.last_ids(6 - length), all[length..]);
            let mut first = joined.clone();
            first.take_back(6 - length);
            assert_eq!(first.into_wide(), all[..length]);
        }
    }

    #[test]
    #[should_panic(expected = "there are 3 ids")]
    fn no_more_ids_are_taken_than_there_are() {
        let mut joined = ids(&[1]);
        joined.join(ids(&[2, 3]));
        ids(&[]).extend(&joined, 1..4);
    }

    #[test]
    fn ids_of_all_parts_become_bytes() {
        let mut joined = ids(&[1, 300, 7]);
        joined.join(ids(&[70_000, 2]));
        joined.join(ids(&[65_535]));
        let mut bytes = vec![9];
        joined.append_to(&mut bytes, |id| id.get().to_le_bytes());
        let expected = [1, 300, 7, 70_000, 2, 65_535_u32].into_iter().flat_map(u32::to_le_bytes);
        assert_eq!(bytes, [9].into_iter().chain(expected).collect::<Vec<u8>>());
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
