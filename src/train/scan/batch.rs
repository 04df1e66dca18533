//! Chooses the pairs that one pass merges, and prepares the tables with which the text is matched.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::text::{Code, MAX_CODES, PairCounts};

/// A token, with the properties that decide which pairs are merged.
#[derive(Clone, Copy, Debug)]
pub(super) struct CodeToken {
    pub(super) code: Code,
    /// Rank in the tie order: the byte's rank for bytes, the id for other tokens.
    pub(super) order: u32,
    /// Length in bytes.
    pub(super) bytes: usize,
}

/// Which pairs may be merged.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchLimits {
    /// Minimum count.
    pub(super) min_count: u64,
    /// Maximum length in bytes of the token that a pair makes.
    pub(super) max_bytes: usize,
    /// Maximum number of pairs.
    pub(super) max_pairs: usize,
}

/// A pair that may be merged: count, reversed ranks of both tokens, both codes. The greatest is merged first.
type Candidate = (u64, Reverse<(u32, u32)>, Code, Code);

/// The next pairs to merge, in order: as many as can be merged in one pass with the same result as one after
/// the other. Their new codes are not chosen yet.
///
/// Candidates are taken in order (by count, then in tie order) until one is incompatible with those before it.
/// Take a candidate c = (l, r) and the pairs before it in the batch. The result is the same as one by one,
/// because:
///
/// - *The count of c does not change.* Merging (l', r') lowers only the counts of pairs that end with l' or
///   begin with r'. No token is the left one of a pair in the batch and the right one of another.
/// - *No old pair overtakes c.* The counts of old pairs only fall.
/// - *No new pair comes before c.* Let x be the token made of (l', r'). Each (a, x) is where (a, l') was, so it
///   is no more frequent. (a, l') is not in the batch, since l' would be on both sides; so (a, l') comes after
///   c, or its token is too long, and then so is the token of (a, x). If (a, x) is as frequent as c, then so is
///   (a, l'), which comes after c in tie order: a > l, or a = l. And x comes after r, because x is newer than
///   all other tokens. So (a, x) comes after c as well. Each (x, b) is where (r', b) was; if it is as frequent
///   as c, it comes after c, since x comes after l. The same holds where a or b was itself made in the batch,
///   with the token that it replaced.
/// - *A pair of equal tokens*, (a, a) → x, excludes a from all other pairs of the batch. All of the above then
///   holds except for (x, a) and (x, x), which are where (a, a) was, and (a, a) is in the batch. A run of n
///   tokens has (a, a) n − 1 times. After the merge it has (x, x) at most (n − 1) / 2 times, and (x, a) once if
///   n is odd and at least 3. So neither is more than half as frequent as (a, a) was. Therefore c must be at
///   least half as frequent as (a, a); if it is exactly half as frequent, it still comes first, since x comes
///   after l.
pub(super) fn choose(counts: &PairCounts, tokens: &[CodeToken], limits: BatchLimits) -> Vec<BatchRule> {
    let mut batch: Vec<BatchRule> = Vec::new();
    let mut lefts = vec![false; counts.side];
    let mut rights = vec![false; counts.side];
    let mut min_count = limits.min_count;
    for (count, _, left, right) in candidates(counts, tokens, limits) {
        let (l, r) = (usize::from(left), usize::from(right));
        if count < min_count || rights[l] || lefts[r] {
            break;
        }
        batch.push(BatchRule { left, right, new_code: 0, count });
        if cover_with_stars(&batch).len() > MAX_STARS {
            batch.pop();
            break;
        }
        lefts[l] = true;
        rights[r] = true;
        if left == right {
            min_count = min_count.max(count.div_ceil(2));
        }
    }
    batch
}

/// The first pairs in the order in which they would be merged if nothing changed, at most `limits.max_pairs`.
fn candidates(counts: &PairCounts, tokens: &[CodeToken], limits: BatchLimits) -> Vec<Candidate> {
    let max_pairs = limits.max_pairs.min(MAX_RULES);
    let mut best: BinaryHeap<Reverse<Candidate>> = BinaryHeap::with_capacity(max_pairs + 1);
    let mut min_count = limits.min_count.max(1);
    for left in tokens {
        let row = counts.row(left.code);
        for right in tokens {
            let count = row[usize::from(right.code)];
            if count < min_count || left.bytes + right.bytes > limits.max_bytes {
                continue;
            }
            best.push(Reverse((count, Reverse((left.order, right.order)), left.code, right.code)));
            if best.len() > max_pairs {
                best.pop();
                min_count = best.peek().map_or(min_count, |Reverse(last)| last.0);
            }
        }
    }
    // Ascending order of `Reverse`, so the greatest candidate comes first.
    best.into_sorted_vec().into_iter().map(|Reverse(candidate)| candidate).collect()
}

/// A merge as the scan carries it out: each `left` that is followed by `right` becomes `new_code`, and that `right`
/// is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchRule {
    pub(super) left: Code,
    pub(super) right: Code,
    /// Code of the new token.
    pub(super) new_code: Code,
    /// How often the pair occurs; overlapping occurrences count each.
    pub(super) count: u64,
}

/// Maximum number of rules in one pass.
pub(super) const MAX_RULES: usize = 32;

/// Maximum number of stars: each code has 16 bits for them, in two bytes.
pub(super) const MAX_STARS: usize = 16;

/// The merges of one pass over the text. No code is the left one of a rule and the right one of another.
pub(super) struct BatchRules {
    /// The rules in the order of the merges.
    pub(super) list: Vec<BatchRule>,
    /// The codes of rules with two equal codes.
    pub(super) doubles: Vec<Code>,
    /// The rules with two different codes.
    pub(super) stars: Vec<StarBits>,
    /// Index of each code among the distinct left codes, counted from 1; 0 for other codes.
    left_indices: Box<[u8; MAX_CODES]>,
    /// The same for right codes.
    right_indices: Box<[u8; MAX_CODES]>,
    /// Index of the rule, by left and right index, or [`NONE`].
    found: [[u8; MAX_RULES + 1]; MAX_RULES + 1],
}

/// Marks pairs for which no rule exists.
const NONE: u8 = u8::MAX;

impl BatchRules {
    /// Builds the tables for at most [`MAX_RULES`] rules.
    pub(super) fn new(list: Vec<BatchRule>) -> BatchRules {
        let mut rules = BatchRules {
            doubles: list.iter().filter(|rule| rule.left == rule.right).map(|rule| rule.left).collect(),
            stars: star_sets(&list),
            left_indices: Box::new([0; MAX_CODES]),
            right_indices: Box::new([0; MAX_CODES]),
            found: [[NONE; MAX_RULES + 1]; MAX_RULES + 1],
            list,
        };
        let (mut lefts, mut rights) = (0, 0);
        for (number, rule) in (0..).zip(&rules.list) {
            let left = index_in(&mut rules.left_indices, rule.left, &mut lefts);
            let right = index_in(&mut rules.right_indices, rule.right, &mut rights);
            rules.found[usize::from(left)][usize::from(right)] = number;
        }
        rules
    }

    /// Index of the rule that merges these codes, if any.
    pub(super) fn find(&self, left: Code, right: Code) -> Option<usize> {
        let rule = self.number(left, right);
        (rule != NONE).then_some(usize::from(rule))
    }

    /// Index of the rule that merges these codes, or [`NONE`].
    fn number(&self, left: Code, right: Code) -> u8 {
        let left = self.left_indices[usize::from(left) % MAX_CODES];
        let right = self.right_indices[usize::from(right) % MAX_CODES];
        self.found[usize::from(left)][usize::from(right)]
    }

    /// The rule that merges these codes, and its index.
    ///
    /// # Panics
    /// If no rule does.
    pub(super) fn rule(&self, left: Code, right: Code) -> (usize, &BatchRule) {
        let number = usize::from(self.number(left, right));
        (number, &self.list[number])
    }
}

/// Index of a code among the distinct codes of its side, counted from 1. Adds the code if it is new.
fn index_in(indices: &mut [u8; MAX_CODES], code: Code, known: &mut u8) -> u8 {
    let index = &mut indices[usize::from(code)];
    if *index == 0 {
        *known += 1;
        *index = *known;
    }
    *index
}

/// The rules of two different codes, as tables of bits with which whole blocks of text are looked up at once.
///
/// The pairs are covered by stars: one left code with several right codes, or one right code with several left
/// codes. Each star has a bit. A pair is a rule exactly if some star has its left code on the left and its
/// right code on the right. The several codes of a star share their high byte, so one bit for each low byte and
/// one for each high byte identify its codes exactly. Each set has up to eight stars.
fn star_sets(rules: &[BatchRule]) -> Vec<StarBits> {
    let mut sets = Vec::new();
    for eight in cover_with_stars(rules).chunks(8) {
        let mut bits = StarBits { left: SideBits::NONE, right: SideBits::NONE };
        for (star, bit) in eight.iter().zip((0..8).map(|n| 1 << n)) {
            for &(left, right) in star {
                bits.left.add(left, bit);
                bits.right.add(right, bit);
            }
        }
        sets.push(bits);
    }
    sets
}

/// The bits of up to eight stars, one bit for each star.
#[derive(Clone, Debug)]
pub(super) struct StarBits {
    pub(super) left: SideBits,
    pub(super) right: SideBits,
}

/// The bits of the stars that have a code at one side. A code is in a star if the bit is set for both its
/// bytes.
#[derive(Clone, Debug)]
pub(super) struct SideBits {
    pub(super) low: [u8; 256],
    pub(super) high: [u8; 16],
}

impl SideBits {
    const NONE: SideBits = SideBits { low: [0; 256], high: [0; 16] };

    /// Sets a star's bit for a code.
    fn add(&mut self, code: Code, bit: u8) {
        let [low, high] = code.to_le_bytes();
        self.low[usize::from(low)] |= bit;
        self.high[usize::from(high)] |= bit;
    }
}

/// Stars that cover the pairs of different codes. Greedy: takes the star that covers the most remaining pairs,
/// until all are covered.
fn cover_with_stars(rules: &[BatchRule]) -> Vec<Vec<(Code, Code)>> {
    let mut rest: Vec<(Code, Code)> =
        rules.iter().map(|rule| (rule.left, rule.right)).filter(|(left, right)| left != right).collect();
    let mut stars = Vec::new();
    while !rest.is_empty() {
        let candidates = rest.iter().flat_map(|&pair| {
            [
                star(&rest, |other| (other.0, other.1 >> 8) == (pair.0, pair.1 >> 8)),
                star(&rest, |other| (other.1, other.0 >> 8) == (pair.1, pair.0 >> 8)),
            ]
        });
        let best = candidates.max_by_key(Vec::len).expect("there is a rest");
        rest.retain(|pair| !best.contains(pair));
        stars.push(best);
    }
    stars
}

/// The remaining pairs that belong to a star.
fn star(rest: &[(Code, Code)], belongs: impl Fn((Code, Code)) -> bool) -> Vec<(Code, Code)> {
    rest.iter().copied().filter(|&pair| belongs(pair)).collect()
}
