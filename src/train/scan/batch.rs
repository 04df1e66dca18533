use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::counts::PairCounts;
use super::rules::{MOST_RULES, MOST_STARS, Rule, Stars};
use super::text::Code;

/// What of a code decides which pairs are merged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) code: Code,
    /// Its place in the order of ties: the byte's for bytes, the number for others.
    pub(super) order: u32,
    /// Its length in bytes.
    pub(super) bytes: usize,
}

/// Which pairs may be merged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Those that occur as often or more,
    pub(super) least: u64,
    /// and whose token would have so many bytes or fewer.
    pub(super) longest: usize,
    /// How many at most.
    pub(super) most: usize,
}

/// A pair that may be merged. The greatest comes first.
type Candidate = (u64, Reverse<(u32, u32)>, Code, Code);

/// The next pairs to merge, in order: as many as can be merged in one go, with the same result as one
/// after the other. Their codes are still to be given.
///
/// Candidates are taken in order (count, then order of ties) until one does not go with those before it.
/// Why the result is the same, for a candidate c = (l, r) and the earlier ones of its batch:
///
/// - *Its count stays.* Merging (l', r') lowers only pairs that end with l' or begin with r'. No
///   candidate's left token is the right one of another.
/// - *No old pair comes between.* Counts of old pairs only fall.
/// - *No new pair comes before it.* Let x be made of (l', r'). Each (a, x) stands where (a, l') stood, so it
///   is no more frequent. (a, l') is not in the batch, since l' would be left and right; so it comes after
///   c, or it is too long, and then so is (a, x). If (a, x) is as frequent as c, then (a, l') is too and
///   comes after c by the order of ties: a > l, or a = l; and x is after r, being newer than all. So (a, x)
///   comes after c as well. Each (x, b) stands where (r', b) stood; if it is as frequent as c it comes after
///   it, since x is after l. The same holds where a or b was itself made in the batch, with the token that
///   stood there before.
/// - *A pair of twice the same token*, (a, a) → x, excludes a from all others of the batch, and all said
///   holds, except for (x, a) and (x, x), which stand where (a, a) stood, which is in the batch. A run of n
///   has n − 1 times (a, a), and after it at most (n − 1) / 2 times (x, x), and once (x, a) if n is odd and
///   3 or more: neither is more than half as frequent as (a, a) was. So c must be at least that frequent; if
///   it is just as frequent it still comes first, since x is after l.
pub(super) fn choose(counts: &PairCounts, tokens: &[Token], limits: Limits) -> Vec<Rule> {
    let mut batch: Vec<Rule> = Vec::new();
    let mut lefts = vec![false; counts.side()];
    let mut rights = vec![false; counts.side()];
    let mut least = limits.least;
    for (count, _, left, right) in candidates(counts, tokens, limits) {
        let (l, r) = (usize::from(left), usize::from(right));
        if count < least || rights[l] || lefts[r] {
            break;
        }
        batch.push(Rule { left, right, made: 0, count });
        if Stars::needed(&batch) > MOST_STARS {
            batch.pop();
            break;
        }
        lefts[l] = true;
        rights[r] = true;
        if left == right {
            (lefts[l], rights[l]) = (true, true);
            least = least.max(count.div_ceil(2));
        }
    }
    batch
}

/// The first pairs in the order in which they would be merged if nothing changed.
fn candidates(counts: &PairCounts, tokens: &[Token], limits: Limits) -> Vec<Candidate> {
    let most = limits.most.min(MOST_RULES);
    let mut best: BinaryHeap<Reverse<Candidate>> = BinaryHeap::with_capacity(most + 1);
    let mut least = limits.least.max(1);
    for left in tokens {
        let row = counts.row(left.code);
        for right in tokens {
            let count = row[usize::from(right.code)];
            if count < least || left.bytes + right.bytes > limits.longest {
                continue;
            }
            best.push(Reverse((count, Reverse((left.order, right.order)), left.code, right.code)));
            if best.len() > most {
                best.pop();
                least = best.peek().map_or(least, |Reverse(last)| last.0);
            }
        }
    }
    // Least `Reverse` first, which is the greatest candidate.
    best.into_sorted_vec().into_iter().map(|Reverse(candidate)| candidate).collect()
}
