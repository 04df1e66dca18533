/// Where a group may match nothing. A loop whose last round took nothing ends there, where other alternatives of the
/// round are tried here.
#[derive(Clone, Copy)]
pub(super) struct Nothing {
    /// What has been read of the alternative may take nothing,
    pub(super) so_far: bool,
    /// and so may that without the last item.
    pub(super) before: bool,
    /// An alternative before may take nothing.
    earlier: bool,
    /// The last item takes nothing by an alternative that others follow.
    pub(super) last: bool,
    /// Some item does, or the group itself by an alternative before.
    any: bool,
}

impl Default for Nothing {
    fn default() -> Nothing {
        Nothing { so_far: true, before: true, earlier: false, last: false, any: false }
    }
}

impl Nothing {
    /// An item has come that takes something, or need not.
    pub(super) fn item(&mut self, takes: bool) {
        (self.before, self.last) = (self.so_far, false);
        self.so_far &= !takes;
    }

    /// A group has come.
    pub(super) fn group(&mut self, inner: Nothing, looks: bool) {
        let may_be_empty = inner.so_far || inner.earlier;
        self.item(!may_be_empty && !looks);
        self.last = inner.any && may_be_empty && !looks;
        self.any |= self.last;
    }

    /// The next alternative begins.
    pub(super) fn alternative(&mut self) {
        self.earlier |= self.so_far;
        self.any |= self.so_far;
        (self.so_far, self.before, self.last) = (true, true, false);
    }
}

/// How often at least and at most a repetition repeats.
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
