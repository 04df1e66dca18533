use std::ops::Range;

use super::fault::Fault;
use super::row_group::GROUP_IDS;
use crate::error::{Error, ErrorKind, Result};
use crate::units::TokenId;

/// Token ids, in two bytes each where all of them fit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ids {
    Narrow(Vec<u16>),
    Wide(Vec<i32>),
}

impl Default for Ids {
    fn default() -> Ids {
        Ids::Narrow(Vec::new())
    }
}

impl Ids {
    /// Takes ids over. Those of a row that is larger than a row group stay as wide as they are, so that they
    /// exist once.
    ///
    /// # Errors
    /// One does not fit 31 bits.
    pub(super) fn new(ids: Vec<TokenId>) -> Result<Ids> {
        // Folding first keeps the other loops free of branches.
        let all_bits = ids.iter().fold(0, |bits, id| bits | id.get());
        if all_bits <= u32::from(u16::MAX) && ids.len() <= GROUP_IDS {
            return Ok(Ids::Narrow(ids.iter().map(|id| low16(id.get())).collect()));
        }
        if i32::try_from(all_bits).is_err() {
            let id = ids.iter().map(|id| id.get()).max().unwrap_or(0);
            return Err(Error::new(ErrorKind::Failed, Fault::IdTooLarge { id }));
        }
        Ok(Ids::Wide(ids.into_iter().map(|id| id.get().cast_signed()).collect()))
    }

    /// None yet, as wide as these and with room for as many.
    pub(super) fn room_for_as_many(&self) -> Ids {
        match self {
            Ids::Narrow(ids) => Ids::Narrow(Vec::with_capacity(ids.len())),
            Ids::Wide(ids) => Ids::Wide(Vec::with_capacity(ids.len())),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Ids::Narrow(ids) => ids.len(),
            Ids::Wide(ids) => ids.len(),
        }
    }

    /// Appends some of other ids.
    pub(super) fn extend(&mut self, other: &Ids, range: Range<usize>) {
        match (&mut *self, other) {
            (Ids::Narrow(ids), Ids::Narrow(more)) => ids.extend_from_slice(&more[range]),
            (Ids::Wide(ids), Ids::Wide(more)) => ids.extend_from_slice(&more[range]),
            (Ids::Wide(ids), Ids::Narrow(more)) => ids.extend(more[range].iter().map(|&id| i32::from(id))),
            (Ids::Narrow(ids), Ids::Wide(more)) => {
                let mut widened: Vec<i32> = ids.iter().map(|&id| i32::from(id)).collect();
                widened.extend_from_slice(&more[range]);
                *self = Ids::Wide(widened);
            }
        }
    }

    /// Some of the ids, in `room` if they have to be widened.
    pub(super) fn widened<'a>(&'a self, range: Range<usize>, room: &'a mut Vec<i32>) -> &'a [i32] {
        match self {
            Ids::Wide(ids) => &ids[range],
            Ids::Narrow(ids) => {
                room.clear();
                room.extend(ids[range].iter().map(|&id| i32::from(id)));
                room
            }
        }
    }
}

fn low16(id: u32) -> u16 {
    let [low, high, ..] = id.to_le_bytes();
    u16::from_le_bytes([low, high])
}

#[cfg(test)]
mod tests {
    use super::Ids;
    use crate::units::TokenId;

    fn ids(ids: &[u32]) -> Ids {
        Ids::new(ids.iter().copied().map(TokenId::new).collect()).expect("they fit")
    }

    #[test]
    fn ids_are_as_narrow_as_the_greatest_allows() {
        assert_eq!(ids(&[0, 7, 65_535]), Ids::Narrow(vec![0, 7, 65_535]));
        assert_eq!(ids(&[1, 65_536]), Ids::Wide(vec![1, 65_536]));
        assert!(Ids::new(vec![TokenId::new(1 << 31)]).is_err());
    }

    #[test]
    fn ids_of_both_widths_go_together() {
        let (narrow, wide) = (ids(&[1, 2, 3]), ids(&[4, 70_000, 6]));
        for order in [[&narrow, &wide], [&wide, &narrow], [&narrow, &narrow], [&wide, &wide]] {
            let (mut all, mut expected, mut room) = (Ids::default(), Vec::new(), Vec::new());
            for some in order {
                all.extend(some, 1..3);
                expected.extend_from_slice(some.widened(1..3, &mut room));
            }
            assert_eq!(all.len(), 4);
            assert_eq!(all.widened(0..4, &mut room), expected);
            assert_eq!(matches!(all, Ids::Narrow(_)), order == [&narrow, &narrow]);
        }
    }
}
