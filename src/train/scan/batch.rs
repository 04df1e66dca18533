//! Chooses the pairs that one pass merges.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::counts::PairCounts;
use super::rules::{MOST_RULES, MOST_STARS, Rule, Stars};
use super::text::Code;

/// A token, with the properties that decide which pairs are merged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) code: Code,
    /// Rank in the tie order: the byte's rank for bytes, the id for other tokens.
    pub(super) order: u32,
    /// Length in bytes.
    pub(super) bytes: usize,
}

/// Which pairs may be merged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Minimum count.
    pub(super) least: u64,
    /// Maximum length in bytes of the token that a pair makes.
    pub(super) longest: usize,
    /// Maximum number of pairs.
    pub(super) most: usize,
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
            least = least.max(count.div_ceil(2));
        }
    }
    batch
}

/// The first pairs in the order in which they would be merged if nothing changed, at most `limits.most`.
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
    // Ascending order of `Reverse`, so the greatest candidate comes first.
    best.into_sorted_vec().into_iter().map(|Reverse(candidate)| candidate).collect()
}
