//! Sequences of token ids in two or four bytes each.

use std::borrow::Cow;
use std::mem;
use std::ops::Range;

use crate::base::int::TokenId;

/// A sequence of token ids, stored in two bytes or in four bytes each. Ids of 2¹⁶ and more need four.
///
/// Two sequences are equal if they hold the same ids, whatever their width and however they are joined.
///
/// ```
/// use tokenmill::TokenId;
/// use tokenmill::encode::TokenIds;
///
/// let ids: TokenIds = [3, 70_000, 5].into_iter().map(TokenId::new).collect();
/// assert_eq!(*ids.slice(1..3), [TokenId::new(70_000), TokenId::new(5)]);
///
/// let mut file = Vec::new();
/// ids.append_to(&mut file, |id| id.get().to_le_bytes());
/// assert_eq!(file.len(), 12);
/// ```
#[derive(Clone, Debug, Default)]
pub struct TokenIds {
    /// All parts but the last. Long documents are encoded in several parts; most sequences have only one.
    before: Vec<IdVec>,
    /// The part that ids are appended to. It may be narrow while earlier parts are wide, and the reverse.
    last: IdVec,
}

/// Contiguous ids.
#[derive(Clone, Debug)]
enum IdVec {
    /// Ids below 2¹⁶.
    Narrow(Vec<u16>),
    /// Any ids.
    Wide(Vec<TokenId>),
}

impl IdVec {
    /// An empty part with capacity for `room` ids, of two bytes each if `narrow`.
    fn with_capacity(room: usize, narrow: bool) -> IdVec {
        if narrow { IdVec::Narrow(Vec::with_capacity(room)) } else { IdVec::Wide(Vec::with_capacity(room)) }
    }

    /// The ids, if they have two bytes each.
    fn narrow(&self) -> Option<&[u16]> {
        match self {
            IdVec::Narrow(ids) => Some(ids),
            IdVec::Wide(_) => None,
        }
    }

    /// Whether the ids have two bytes each. A wide part may hold small ids alone.
    fn is_narrow(&self) -> bool {
        self.narrow().is_some()
    }

    /// Number of ids, not of bytes.
    fn len(&self) -> usize {
        match self {
            IdVec::Narrow(ids) => ids.len(),
            IdVec::Wide(ids) => ids.len(),
        }
    }

    /// The ids in order, narrow ones widened. Of the two slices that are chained, one is empty.
    fn iter(&self) -> impl DoubleEndedIterator<Item = TokenId> {
        let (narrow, wide): (&[u16], &[TokenId]) = match self {
            IdVec::Narrow(ids) => (ids, &[]),
            IdVec::Wide(ids) => (&[], ids),
        };
        narrow.iter().copied().map(widened).chain(wide.iter().copied())
    }

    /// The greatest id; `None` if the part is empty. Reads all ids.
    fn greatest(&self) -> Option<TokenId> {
        match self {
            IdVec::Narrow(ids) => ids.iter().max().copied().map(widened),
            IdVec::Wide(ids) => ids.iter().max().copied(),
        }
    }

    /// The ids in four bytes each. Copies them only if the part is narrow.
    fn into_wide(self) -> Vec<TokenId> {
        match self {
            IdVec::Narrow(ids) => ids.into_iter().map(widened).collect(),
            IdVec::Wide(ids) => ids,
        }
    }

    /// Appends ids. A narrow part is widened, at the cost of one copy, if one of them is 2¹⁶ or more.
    ///
    /// The ids are narrowed before it is known whether all fit, since a loop without a branch handles several at
    /// once. If they do not fit, the ids appended are discarded and taken again from `more`.
    fn extend_from_slice(&mut self, more: &[TokenId]) {
        let ids = match self {
            IdVec::Narrow(ids) => ids,
            IdVec::Wide(ids) => return ids.extend_from_slice(more),
        };
        let (before, mut all_bits) = (ids.len(), 0);
        ids.extend(more.iter().map(|id| {
            all_bits |= id.get();
            low16(id.get())
        }));
        if all_bits > u32::from(u16::MAX) {
            let known = ids[..before].iter().copied().map(widened);
            *self = IdVec::Wide(known.chain(more.iter().copied()).collect());
        }
    }

    /// Appends a range of another part. Widens this one if necessary.
    fn extend(&mut self, other: &IdVec, range: Range<usize>) {
        match (self, other) {
            (IdVec::Narrow(ids), IdVec::Narrow(more)) => ids.extend_from_slice(&more[range]),
            (IdVec::Wide(ids), IdVec::Narrow(more)) => ids.extend(more[range].iter().copied().map(widened)),
            (part, IdVec::Wide(more)) => part.extend_from_slice(&more[range]),
        }
    }

    /// Keeps the first `length` ids, or all if there are fewer. The capacity stays.
    fn truncate(&mut self, length: usize) {
        match self {
            IdVec::Narrow(ids) => ids.truncate(length),
            IdVec::Wide(ids) => ids.truncate(length),
        }
    }
}

impl TokenIds {
    /// An empty sequence with capacity for `room` ids that are all below `limit`.
    pub(super) fn with_capacity(room: usize, limit: usize) -> TokenIds {
        IdVec::with_capacity(room, limit <= 1 << u16::BITS).into()
    }

    /// An empty sequence with capacity for as many ids as this one has, in four bytes each if any part of this
    /// one has that.
    pub(crate) fn room_for_as_many(&self) -> TokenIds {
        IdVec::with_capacity(self.len(), self.parts().all(IdVec::is_narrow)).into()
    }

    /// All parts in order.
    fn parts(&self) -> impl DoubleEndedIterator<Item = &IdVec> {
        self.before.iter().chain([&self.last])
    }

    /// Number of ids.
    pub fn len(&self) -> usize {
        self.parts().map(IdVec::len).sum()
    }

    /// Whether it has no ids.
    pub fn is_empty(&self) -> bool {
        self.parts().all(|part| part.len() == 0)
    }

    /// The ids in order.
    pub fn iter(&self) -> impl Iterator<Item = TokenId> {
        self.parts().flat_map(IdVec::iter)
    }

    /// The greatest id; `None` if empty.
    pub(crate) fn greatest(&self) -> Option<TokenId> {
        self.parts().filter_map(IdVec::greatest).max()
    }

    /// The ids in a range. Borrowed if they are contiguous and have four bytes each, else copied.
    ///
    /// # Panics
    /// The range exceeds the sequence.
    pub fn slice(&self, range: Range<usize>) -> Cow<'_, [TokenId]> {
        if let (true, IdVec::Wide(ids)) = (self.before.is_empty(), &self.last) {
            return Cow::Borrowed(&ids[range]);
        }
        let mut some = TokenIds::from(IdVec::Wide(Vec::new()));
        some.extend(self, range);
        Cow::Owned(some.into_wide())
    }

    /// Appends all ids to `file`, each as the `N` bytes that `bytes_of` returns for it.
    pub fn append_to<const N: usize>(&self, file: &mut Vec<u8>, bytes_of: impl Fn(TokenId) -> [u8; N]) {
        for part in self.parts() {
            match part {
                IdVec::Narrow(ids) => append(file, ids.iter().map(|&id| bytes_of(widened(id)))),
                IdVec::Wide(ids) => append(file, ids.iter().map(|&id| bytes_of(id))),
            }
        }
    }

    /// All ids in two bytes each, if they are stored so; copied if they have several parts. Otherwise returns the
    /// sequence unchanged.
    pub(crate) fn into_narrow(self) -> Result<Vec<u16>, TokenIds> {
        match self {
            TokenIds { before, last: IdVec::Narrow(ids) } if before.is_empty() => Ok(ids),
            other => {
                let parts: Option<Vec<&[u16]>> = other.parts().map(IdVec::narrow).collect();
                parts.map(|parts| parts.concat()).ok_or(other)
            }
        }
    }

    /// All ids in four bytes each; copied if they have to be widened or joined.
    pub(crate) fn into_wide(self) -> Vec<TokenId> {
        let length = self.len();
        let TokenIds { before, last } = self;
        if before.is_empty() {
            return last.into_wide();
        }
        let mut all = Vec::with_capacity(length);
        before.into_iter().chain([last]).for_each(|part| all.extend(part.into_wide()));
        all
    }

    /// The last part, to append ids to, if it has four bytes per id.
    ///
    /// `None` if that part is narrow. It takes ids through [`extend_from_slice`](TokenIds::extend_from_slice) alone.
    pub(super) fn as_wide(&mut self) -> Option<&mut Vec<TokenId>> {
        match &mut self.last {
            IdVec::Narrow(_) => None,
            IdVec::Wide(ids) => Some(ids),
        }
    }

    /// Appends one id.
    pub(super) fn push(&mut self, id: TokenId) {
        self.extend_from_slice(&[id]);
    }

    /// Appends ids. Widens the last part if one of them is 2¹⁶ or more.
    pub(super) fn extend_from_slice(&mut self, more: &[TokenId]) {
        self.last.extend_from_slice(more);
    }

    /// Appends a range of another sequence.
    ///
    /// # Panics
    /// The range exceeds `other`.
    pub(crate) fn extend(&mut self, other: &TokenIds, range: Range<usize>) {
        let mut start = 0;
        for part in other.parts() {
            let within = |at: usize| at.saturating_sub(start).min(part.len());
            self.last.extend(part, within(range.start)..within(range.end));
            start += part.len();
        }
        assert!(range.end <= start, "there are {start} ids");
    }

    /// Copies the last `number` ids, or all if it has fewer.
    pub(super) fn last_ids(&self, number: usize) -> Vec<TokenId> {
        let mut ids: Vec<TokenId> =
            self.parts().rev().flat_map(|part| part.iter().rev()).take(number).collect();
        ids.reverse();
        ids
    }

    /// Removes the last `number` ids.
    ///
    /// # Panics
    /// The sequence has fewer.
    pub(super) fn take_back(&mut self, number: usize) {
        let mut more = number;
        while self.last.len() <= more
            && let Some(before) = self.before.pop()
        {
            more -= self.last.len();
            self.last = before;
        }
        self.last.truncate(self.last.len() - more);
    }

    /// Appends another sequence without copying its ids.
    ///
    /// The number of parts grows by those of `next`. Each later pass over the sequence handles the parts one by one.
    pub(crate) fn join(&mut self, next: TokenIds) {
        if self.is_empty() {
            *self = next;
        } else {
            self.before.push(mem::replace(&mut self.last, next.last));
            self.before.extend(next.before);
        }
    }

    /// Returns unused memory of the last part.
    pub(super) fn shrink_to_fit(&mut self) {
        match &mut self.last {
            IdVec::Narrow(ids) => ids.shrink_to_fit(),
            IdVec::Wide(ids) => ids.shrink_to_fit(),
        }
    }
}

/// Appends arrays to bytes. The compiler turns this loop into a few wide instructions. An equivalent `extend`
/// with `flat_map` becomes one store per byte.
fn append<const N: usize>(bytes: &mut Vec<u8>, more: impl ExactSizeIterator<Item = [u8; N]>) {
    let start = bytes.len();
    bytes.resize(start + N * more.len(), 0);
    let (room, _) = bytes[start..].as_chunks_mut();
    room.iter_mut().zip(more).for_each(|(room, more)| *room = more);
}

/// The low 16 bits of an id.
fn low16(id: u32) -> u16 {
    let [low, high, ..] = id.to_le_bytes();
    u16::from_le_bytes([low, high])
}

/// An id in four bytes.
fn widened(id: u16) -> TokenId {
    TokenId::new(id.into())
}

impl Default for IdVec {
    /// Narrow, as most vocabularies allow it; the first larger id widens it.
    fn default() -> IdVec {
        IdVec::Narrow(Vec::new())
    }
}

impl From<IdVec> for TokenIds {
    fn from(last: IdVec) -> TokenIds {
        TokenIds { before: Vec::new(), last }
    }
}

impl From<Vec<u16>> for TokenIds {
    fn from(ids: Vec<u16>) -> TokenIds {
        IdVec::Narrow(ids).into()
    }
}

impl From<Vec<TokenId>> for TokenIds {
    fn from(ids: Vec<TokenId>) -> TokenIds {
        IdVec::Wide(ids).into()
    }
}

impl PartialEq for TokenIds {
    /// Compares ids one by one, as the same ids can be cut into parts in many ways.
    fn eq(&self, other: &TokenIds) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for TokenIds {}

impl FromIterator<TokenId> for TokenIds {
    /// The narrowest sequence of these ids: in four bytes each if one of them is 2¹⁶ or more.
    fn from_iter<I: IntoIterator<Item = TokenId>>(ids: I) -> TokenIds {
        let mut all = TokenIds::default();
        ids.into_iter().for_each(|id| all.push(id));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::TokenIds;
    use crate::base::int::TokenId;

    fn ids(numbers: &[u32]) -> TokenIds {
        numbers.iter().copied().map(TokenId::new).collect()
    }

    /// Ids are stored in two bytes exactly if all are below 2¹⁶.
    #[test]
    fn ids_are_as_narrow_as_the_greatest_allows() {
        assert_eq!(ids(&[0, 7, 65_535]).into_narrow(), Ok(vec![0, 7, 65_535]));
        let wide = [1, 65_536, 2].map(TokenId::new);
        assert_eq!(ids(&[1, 65_536, 2]).into_narrow().map_err(TokenIds::into_wide), Err(wide.to_vec()));
        let mut joined = ids(&[1, 2]);
        joined.join(ids(&[65_535]));
        assert_eq!(joined.clone().into_narrow(), Ok(vec![1, 2, 65_535]));
        joined.join(ids(&[65_536]));
        assert_eq!(joined.clone().into_narrow(), Err(joined));
        assert!(TokenIds::with_capacity(3, 65_536).last.is_narrow());
        assert!(!TokenIds::with_capacity(3, 65_537).last.is_narrow());
    }

    /// Joined sequences have the length, slices and ids of all their parts.
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
        assert!(!joined.room_for_as_many().last.is_narrow());
        assert_eq!(joined.greatest(), Some(TokenId::new(80_000)));
        joined.extend(&parts[0], 1..3);
        assert_eq!(joined.into_wide(), ids(&[1, 2, 3, 4, 70_000, 5, 80_000, 2, 3]).into_wide());
    }

    /// Reading and removing the last ids works across parts.
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

    /// A range beyond the end panics.
    #[test]
    #[should_panic(expected = "there are 3 ids")]
    fn no_more_ids_are_taken_than_there_are() {
        let mut joined = ids(&[1]);
        joined.join(ids(&[2, 3]));
        ids(&[]).extend(&joined, 1..4);
    }

    /// Ids of both widths are written in order.
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

    /// Appending wide ids to narrow ones, and the reverse, keeps all ids.
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
            assert_eq!(all.last.is_narrow(), order == [&narrow, &narrow]);
            assert_eq!(all.into_wide(), expected);
        }
    }
}
