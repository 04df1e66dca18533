/// Tracks whether the alternatives of a group can match the empty text.
///
/// The engines differ in loops over such groups. If an iteration matches nothing, Oniguruma ends the loop, but
/// fancy-regex tries the other alternatives of that iteration.
#[derive(Clone, Copy)]
pub(super) struct Nothing {
    /// The current alternative, as far as it was read, can match nothing.
    pub(super) so_far: bool,
    /// The current alternative without its last item can match nothing.
    pub(super) before: bool,
    /// An earlier alternative can match nothing.
    earlier: bool,
    /// The last item can match nothing through an alternative that has another one after it.
    pub(super) last: bool,
    /// Some item, or an earlier alternative of the group itself, matches nothing in this way.
    any: bool,
}

impl Default for Nothing {
    fn default() -> Nothing {
        Nothing { so_far: true, before: true, earlier: false, last: false, any: false }
    }
}

impl Nothing {
    /// Records the next item. `takes` says whether it always matches some text.
    pub(super) fn item(&mut self, takes: bool) {
        (self.before, self.last) = (self.so_far, false);
        self.so_far &= !takes;
    }

    /// Records a group that has ended as the next item. `looks` says whether it is a look-around.
    pub(super) fn group(&mut self, inner: Nothing, looks: bool) {
        let may_be_empty = inner.so_far || inner.earlier;
        self.item(!may_be_empty && !looks);
        self.last = inner.any && may_be_empty && !looks;
        self.any |= self.last;
    }

    /// Records that the next alternative starts.
    pub(super) fn alternative(&mut self) {
        self.earlier |= self.so_far;
        self.any |= self.so_far;
        (self.so_far, self.before, self.last) = (true, true, false);
    }
}

/// Returns the smallest and the largest number of iterations of a repetition operator.
pub(super) fn times(repetition: &str) -> (u64, u64) {
    let number = |digits: &str| digits.parse().ok();
    match repetition.as_bytes().first() {
        Some(b'?') => (0, 1),
        Some(b'*') => (0, u64::MAX),
        Some(b'{') => {
            let (numbers, _) = repetition[1..].split_once('}').unwrap_or_default();
            let (least, most) = numbers.split_once(',').unwrap_or((numbers, numbers));
            (number(least).unwrap_or(0), number(most).unwrap_or(u64::MAX))
        }
        _ => (1, u64::MAX),
    }
}
