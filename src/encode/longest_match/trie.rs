use std::iter;

use super::NONE;
use crate::base::int::{to_usize, truncate_to_u32};
use crate::vocab::Vocabulary;

/// Bytes examined per byte of text above which longest matches are slower than merging.
const MOST_LOOKED_AT: u32 = 64;

/// A trie of the prefixes of all tokens. Prefixes are numbered in the order in which they first occur in the
/// tokens by rank: first the empty one, then the single bytes.
///
/// **Memory:** 256 KiB, and 32 bytes per prefix.
pub(super) struct Trie {
    prefixes: Vec<Prefix>,
    /// The number of each prefix of two bytes, indexed by these bytes, the first one lowest; [`EMPTY`] if no
    /// token has the prefix.
    two: Vec<u32>,
}

/// The number of the empty prefix, which is no child of any prefix and so also means "none".
const EMPTY: u32 = 0;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prefix {
    parent: u32,
    /// The first child, and the next child of the same parent; [`EMPTY`] for none.
    child: u32,
    sibling: u32,
    pub(super) length: u32,
    /// The longest token that is a prefix of this one, or equal to it, and that token's length.
    pub(super) token: u32,
    pub(super) token_length: u32,
    /// The last byte.
    pub(super) byte: u8,
}

impl Prefix {
    /// Whether this prefix is itself a token.
    fn is_token(&self) -> bool {
        self.token_length == self.length
    }
}

impl Trie {
    /// The trie of a vocabulary; `None` if it would have more than `most` prefixes.
    pub(super) fn new(vocabulary: &Vocabulary, most: usize) -> Option<Trie> {
        let empty = Prefix { token: NONE, ..Prefix::default() };
        let mut trie = Trie { prefixes: vec![empty], two: vec![EMPTY; 1 << 16] };
        let bytes = vocabulary.byte_ids().iter().copied();
        let made = vocabulary.merges().iter().map(|merge| merge.result);
        for id in bytes.chain(made) {
            let bytes = vocabulary.bytes(id).unwrap_or_default();
            let end = trie.add(bytes, most)?;
            (end.token, end.token_length) = (id.get(), end.length);
        }
        for number in 1..trie.prefixes.len() {
            let parent = trie.prefixes[to_usize(trie.prefixes[number].parent)];
            let prefix = &mut trie.prefixes[number];
            if !prefix.is_token() {
                (prefix.token, prefix.token_length) = (parent.token, parent.token_length);
            }
        }
        Some(trie)
    }

    /// All prefixes by number; parents come before their children.
    pub(super) fn prefixes(&self) -> &[Prefix] {
        &self.prefixes
    }

    /// The prefixes that are one byte longer than this one, with their numbers, in the order in which they were
    /// added.
    pub(super) fn children(&self, prefix: &Prefix) -> impl Iterator<Item = (u32, &Prefix)> {
        let numbered = |number: u32| (number != EMPTY).then(|| (number, &self.prefixes[to_usize(number)]));
        iter::successors(numbered(prefix.child), move |(_, child)| numbered(child.sibling))
    }

    /// Whether searching for longest tokens can examine far more bytes than a text has. This happens at the
    /// beginnings of long tokens if only short tokens occur in them: the search at each of these short tokens
    /// follows the long one almost to its end. Only constructed vocabularies are like that. One example is `ab`,
    /// `aab`, `aaab` and so on: in a run of `a`, each search follows the longest token.
    pub(super) fn is_slow(&self) -> bool {
        let long = |prefix: &&Prefix| prefix.is_token() && prefix.length > MOST_LOOKED_AT;
        self.prefixes.iter().filter(long).any(|prefix| {
            let text = self.spelled(prefix.parent);
            let (mut at, mut looked_at) = (0, 0);
            while at < text.len() && looked_at <= to_usize(MOST_LOOKED_AT) * text.len() {
                let (prefix, length) = self.walk(&text[at..]);
                at += to_usize(self.prefixes[to_usize(prefix)].token_length);
                looked_at += length;
            }
            at < text.len()
        })
    }

    /// For each token by id, the longest token that is a proper prefix of it, or [`NONE`].
    pub(super) fn shorter(&self, ids: usize) -> Vec<u32> {
        let mut shorter = vec![NONE; ids];
        for prefix in self.prefixes.iter().skip(1).filter(|prefix| prefix.is_token()) {
            shorter[to_usize(prefix.token)] = self.prefixes[to_usize(prefix.parent)].token;
        }
        shorter
    }

    /// The bytes of a prefix.
    fn spelled(&self, prefix: u32) -> Vec<u8> {
        let on_the_way =
            iter::successors(Some(prefix), |&prefix| Some(self.prefixes[to_usize(prefix)].parent));
        let on_the_way = on_the_way.take_while(|&prefix| prefix != EMPTY);
        let mut bytes: Vec<u8> = on_the_way.map(|prefix| self.prefixes[to_usize(prefix)].byte).collect();
        bytes.reverse();
        bytes
    }

    /// The longest prefix that a text begins with, and its length.
    fn walk(&self, text: &[u8]) -> (u32, usize) {
        let (mut prefix, mut length) = (EMPTY, 0);
        while let Some(child) = text.get(length).and_then(|&byte| self.child(prefix, byte)) {
            (prefix, length) = (child, length + 1);
        }
        (prefix, length)
    }

    /// The number of the child of a prefix by a byte, if any.
    fn child(&self, parent: u32, byte: u8) -> Option<u32> {
        let prefix = &self.prefixes[to_usize(parent)];
        let child = match prefix.length {
            // The single bytes come first, in order.
            0 => 1 + u32::from(byte),
            1 => self.two[two([prefix.byte, byte])],
            _ => {
                return self.children(prefix).find(|(_, child)| child.byte == byte).map(|(number, _)| number);
            }
        };
        (child != EMPTY && to_usize(child) < self.prefixes.len()).then_some(child)
    }

    /// The prefix with these bytes; adds it and its own prefixes if they are new. `None` if the trie then has
    /// more than `most`.
    fn add(&mut self, bytes: &[u8], most: usize) -> Option<&mut Prefix> {
        let mut prefix = EMPTY;
        for &byte in bytes {
            prefix = self.child(prefix, byte).unwrap_or_else(|| self.add_child(prefix, byte));
            if self.prefixes.len() > most {
                return None;
            }
        }
        Some(&mut self.prefixes[to_usize(prefix)])
    }

    /// Adds a child to a prefix and returns its number.
    fn add_child(&mut self, parent: u32, byte: u8) -> u32 {
        let number = truncate_to_u32(self.prefixes.len());
        let last = self.children(&self.prefixes[to_usize(parent)]).last().map(|(last, _)| last);
        match last {
            Some(last) => self.prefixes[to_usize(last)].sibling = number,
            None => self.prefixes[to_usize(parent)].child = number,
        }
        let Prefix { length, byte: first, .. } = self.prefixes[to_usize(parent)];
        if length == 1 {
            self.two[two([first, byte])] = number;
        }
        self.prefixes.push(Prefix { parent, byte, length: length + 1, ..Prefix::default() });
        number
    }
}

/// The index for two bytes in tables of all byte pairs.
pub(super) fn two(bytes: [u8; 2]) -> usize {
    usize::from(u16::from_le_bytes(bytes))
}
