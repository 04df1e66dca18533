//! Finds all ways to cut tokens into two other tokens, for files that list tokens without merges.

use std::cmp::Ordering;
use std::iter::successors;

use crate::base::int::to_usize;

/// Marks the absence of a token.
const NONE: u32 = u32::MAX;

/// Number of bytes of a token that are compared as one number (16).
const HEAD: usize = 16;

/// For each token, the longest other token that is its prefix, and the longest that is its suffix.
///
/// They are found without look-ups. In the order of their bytes, tokens come after their prefixes. Among the earlier
/// tokens that are a prefix of a token, the last is the longest, and all the others are prefixes of it.
///
/// **Memory:** 16 bytes per token, and 64 more during construction.
#[derive(Debug)]
pub(super) struct Affixes {
    lengths: Vec<usize>,
    /// By token, the index of the longest other token that is its prefix, or [`NONE`].
    prefixes: Vec<u32>,
    /// By token, the index of the longest other token that is its suffix, or [`NONE`].
    suffixes: Vec<u32>,
}

/// The indices of two equal tokens.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Equal(pub(super) usize, pub(super) usize);

impl Affixes {
    /// Finds the prefixes and suffixes of distinct tokens, which are identified by their indices from now on. O(n log
    /// n) comparisons, on two threads.
    ///
    /// # Errors
    /// Two tokens are equal.
    pub(super) fn new(tokens: &[&[u8]]) -> Result<Affixes, Equal> {
        let (prefixes, suffixes) =
            rayon::join(|| longest(tokens, Side::Start), || longest(tokens, Side::End));
        let lengths = tokens.iter().map(|token| token.len()).collect();
        Ok(Affixes { lengths, prefixes: prefixes?, suffixes: suffixes? })
    }

    /// Returns the ways to cut a token into two others, those with the longest left part first.
    pub(super) fn cuts(&self, token: usize) -> impl Iterator<Item = (usize, usize)> {
        let length = |token: usize| self.lengths[token];
        // The shortest suffix is last, so that it can be popped.
        let mut ends: Vec<usize> = chain(&self.suffixes, token).collect();
        chain(&self.prefixes, token).filter_map(move |left| {
            let rest = length(token) - length(left);
            while ends.pop_if(|end| length(*end) < rest).is_some() {}
            ends.last().filter(|end| length(**end) == rest).map(|&right| (left, right))
        })
    }
}

/// Returns a token's longest prefix (or suffix), the longest one of that, and so on.
fn chain(longest: &[u32], token: usize) -> impl Iterator<Item = usize> {
    let next = |&token: &usize| (longest[token] != NONE).then(|| to_usize(longest[token]));
    successors(next(&token), next)
}

/// The side of a token at which another token is looked for: prefixes or suffixes.
#[derive(Clone, Copy, Debug)]
enum Side {
    Start,
    End,
}

impl Side {
    /// Returns the first bytes from this side as a big-endian number, padded with zeros.
    fn head(self, token: &[u8]) -> u128 {
        let mut head = [0; HEAD];
        let bytes = &mut head[..token.len().min(HEAD)];
        match self {
            Side::Start => bytes.copy_from_slice(&token[..bytes.len()]),
            Side::End => {
                bytes.copy_from_slice(&token[token.len() - bytes.len()..]);
                bytes.reverse();
            }
        }
        u128::from_be_bytes(head)
    }

    /// Compares two tokens byte by byte from this side.
    fn order(self, one: &[u8], other: &[u8]) -> Ordering {
        match self {
            Side::Start => one.cmp(other),
            Side::End => one.iter().rev().cmp(other.iter().rev()),
        }
    }

    /// Returns whether `token` has `part` at this side.
    fn has(self, token: &[u8], part: &[u8]) -> bool {
        match self {
            Side::Start => token.starts_with(part),
            Side::End => token.ends_with(part),
        }
    }
}

/// Returns the number of leading bytes that two heads have in common.
fn same_bytes(head: u128, other: u128) -> usize {
    to_usize((head ^ other).leading_zeros() / u8::BITS)
}

/// Returns for each token the longest other token that it has at a side.
fn longest(tokens: &[&[u8]], side: Side) -> Result<Vec<u32>, Equal> {
    let mut sorted: Vec<(u128, u32)> = (0..).zip(tokens).map(|(at, token)| (side.head(token), at)).collect();
    let bytes = |at: u32| tokens[to_usize(at)];
    sorted.sort_unstable_by(|(head, at), (other_head, other)| {
        head.cmp(other_head).then_with(|| side.order(bytes(*at), bytes(*other)))
    });
    let mut longest = vec![NONE; tokens.len()];
    // The candidates for the next token. Each has all those before it at this side.
    let mut open: Vec<(u128, u32)> = Vec::new();
    for (head, at) in sorted {
        let has = |&(part_head, part): &(u128, u32)| {
            let (token, part) = (bytes(at), bytes(part));
            // Few tokens are longer than their heads, and only for these all bytes are compared.
            match part.len() {
                ..=HEAD => token.len() >= part.len() && same_bytes(head, part_head) >= part.len(),
                _ => side.has(token, part),
            }
        };
        while open.pop_if(|part| !has(part)).is_some() {}
        if let Some(&(_, part)) = open.last() {
            if bytes(part).len() == bytes(at).len() {
                return Err(Equal(to_usize(part.min(at)), to_usize(part.max(at))));
            }
            longest[to_usize(at)] = part;
        }
        open.push((head, at));
    }
    Ok(longest)
}

#[cfg(test)]
mod tests {
    use proptest::collection::{hash_set, vec};
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    /// Generates tokens. Some are longer than a head, and many of those begin or end with others. Some contain the
    /// byte with which heads are padded.
    fn token() -> impl Strategy<Value = Vec<u8>> {
        const LONG: &[u8] = b"aabaab\0aabaabaab\0\0aabaabaabaabaabaab\0aab";
        let long = (0..LONG.len(), 12..30_usize);
        let long = long.prop_map(|(start, length)| LONG[start.min(LONG.len() - length)..][..length].to_vec());
        prop_oneof![3 => vec(select(b"aab\0".to_vec()), 0..6), 2 => long]
    }

    proptest! {
        /// Equal tokens are reported with their indices.
        #[test]
        fn tokens_that_are_the_same_are_found(tokens in vec(token(), 0..12)) {
            let tokens: Vec<&[u8]> = tokens.iter().map(|token| &token[..]).collect();
            let equal = (0..tokens.len()).any(|at| tokens[..at].contains(&tokens[at]));
            match Affixes::new(&tokens) {
                Ok(_) => prop_assert!(!equal),
                Err(Equal(one, other)) => prop_assert!(one < other && tokens[one] == tokens[other]),
            }
        }

        /// Cuts are all ways to cut a token into two others.
        #[test]
        fn cuts_are_all_the_ways_to_cut_a_token_in_two(
            tokens in hash_set(token(), 0..30).prop_map(Vec::from_iter).prop_shuffle(),
        ) {
            let tokens: Vec<&[u8]> = tokens.iter().map(|token| &token[..]).collect();
            let affixes = Affixes::new(&tokens).expect("a set");
            let find = |bytes: &[u8]| tokens.iter().position(|token| *token == bytes);
            for (at, token) in tokens.iter().enumerate() {
                let others = |&(left, right): &(usize, usize)| left != at && right != at;
                let ways = (0..=token.len()).rev().filter_map(|middle| {
                    let (left, right) = token.split_at(middle);
                    Some((find(left)?, find(right)?))
                });
                let expected: Vec<_> = ways.filter(others).collect();
                prop_assert_eq!(affixes.cuts(at).collect::<Vec<_>>(), expected);
            }
        }
    }
}
