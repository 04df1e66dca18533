use std::iter;

use super::NONE;
use crate::units::{low32, place};
use crate::vocab::Vocabulary;

/// Where more bytes than these are looked at for each byte of a text, other ways are faster.
const MOST_LOOKED_AT: u32 = 64;

/// The prefixes of all tokens, numbered as they come up in the tokens by rank: the empty one first, then the bytes.
///
/// **Memory:** 256 KiB, and 32 bytes for each prefix.
pub(super) struct Trie {
    prefixes: Vec<Prefix>,
    /// By two bytes, the first one lowest, the number of the prefix that they are, or [`EMPTY`].
    two: Vec<u32>,
}

/// The number of the empty prefix, which is nobody's child.
const EMPTY: u32 = 0;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prefix {
    parent: u32,
    /// The first that it goes on with, and the next that its parent goes on with; [`EMPTY`] if there is none.
    child: u32,
    sibling: u32,
    pub(super) length: u32,
    /// The longest token that is a prefix of it, and that one's length.
    pub(super) token: u32,
    pub(super) token_length: u32,
    /// The last byte.
    pub(super) byte: u8,
}

impl Prefix {
    /// Whether it is a token itself.
    fn is_token(&self) -> bool {
        self.token_length == self.length
    }
}

impl Trie {
    /// Of a vocabulary; `None` if it would have more prefixes than `most`.
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
            let parent = trie.prefixes[place(trie.prefixes[number].parent)];
            let prefix = &mut trie.prefixes[number];
            if !prefix.is_token() {
                (prefix.token, prefix.token_length) = (parent.token, parent.token_length);
            }
        }
        Some(trie)
    }

    /// By number: parents come before their children.
    pub(super) fn prefixes(&self) -> &[Prefix] {
        &self.prefixes
    }

    /// The prefixes with one byte more than this one, by number, in the order in which they came up.
    pub(super) fn children(&self, prefix: &Prefix) -> impl Iterator<Item = (u32, &Prefix)> {
        let numbered = |number: u32| (number != EMPTY).then(|| (number, &self.prefixes[place(number)]));
        iter::successors(numbered(prefix.child), move |(_, child)| numbered(child.sibling))
    }

    /// Whether there is a text of which far more is looked at than it has bytes, again and again for each of short tokens:
    /// the beginnings of long tokens, of which nothing but short ones are tokens. Such vocabularies are made up. One has
    /// `ab`, `aab`, and so on; in a run of `a`, each is the beginning of the longest.
    pub(super) fn is_slow(&self) -> bool {
        let long = |prefix: &&Prefix| prefix.is_token() && prefix.length > MOST_LOOKED_AT;
        self.prefixes.iter().filter(long).any(|prefix| {
            let text = self.spelled(prefix.parent);
            let (mut at, mut looked_at) = (0, 0);
            while at < text.len() && looked_at <= place(MOST_LOOKED_AT) * text.len() {
                let (prefix, length) = self.walk(&text[at..]);
                at += place(self.prefixes[place(prefix)].token_length);
                looked_at += length;
            }
            at < text.len()
        })
    }

    /// The longest token that is a proper prefix of each, by id, or [`NONE`].
    pub(super) fn shorter(&self, ids: usize) -> Vec<u32> {
        let mut shorter = vec![NONE; ids];
        for prefix in self.prefixes.iter().skip(1).filter(|prefix| prefix.is_token()) {
            shorter[place(prefix.token)] = self.prefixes[place(prefix.parent)].token;
        }
        shorter
    }

    /// The bytes of a prefix.
    fn spelled(&self, prefix: u32) -> Vec<u8> {
        let on_the_way = iter::successors(Some(prefix), |&prefix| Some(self.prefixes[place(prefix)].parent));
        let on_the_way = on_the_way.take_while(|&prefix| prefix != EMPTY);
        let mut bytes: Vec<u8> = on_the_way.map(|prefix| self.prefixes[place(prefix)].byte).collect();
        bytes.reverse();
        bytes
    }

    /// The longest prefix that a text begins with, and how many bytes it has.
    fn walk(&self, text: &[u8]) -> (u32, usize) {
        let (mut prefix, mut length) = (EMPTY, 0);
        while let Some(child) = text.get(length).and_then(|&byte| self.child(prefix, byte)) {
            (prefix, length) = (child, length + 1);
        }
        (prefix, length)
    }

    /// The number of a prefix with a byte more, if there is one.
    fn child(&self, parent: u32, byte: u8) -> Option<u32> {
        let prefix = &self.prefixes[place(parent)];
        let child = match prefix.length {
            // The bytes come up first, in order.
            0 => 1 + u32::from(byte),
            1 => self.two[two([prefix.byte, byte])],
            _ => {
                return self.children(prefix).find(|(_, child)| child.byte == byte).map(|(number, _)| number);
            }
        };
        (child != EMPTY && place(child) < self.prefixes.len()).then_some(child)
    }

    /// The prefix that has these bytes, which may be new as well as shorter ones; `None` if there are more than `most` then.
    fn add(&mut self, bytes: &[u8], most: usize) -> Option<&mut Prefix> {
        let mut prefix = EMPTY;
        for &byte in bytes {
            prefix = self.child(prefix, byte).unwrap_or_else(|| self.add_child(prefix, byte));
            if self.prefixes.len() > most {
                return None;
            }
        }
        Some(&mut self.prefixes[place(prefix)])
    }

    fn add_child(&mut self, parent: u32, byte: u8) -> u32 {
        let number = low32(self.prefixes.len());
        let last = self.children(&self.prefixes[place(parent)]).last().map(|(last, _)| last);
        match last {
            Some(last) => self.prefixes[place(last)].sibling = number,
            None => self.prefixes[place(parent)].child = number,
        }
        let Prefix { length, byte: first, .. } = self.prefixes[place(parent)];
        if length == 1 {
            self.two[two([first, byte])] = number;
        }
        self.prefixes.push(Prefix { parent, byte, length: length + 1, ..Prefix::default() });
        number
    }
}

/// The place of two bytes in tables by both.
pub(super) fn two(bytes: [u8; 2]) -> usize {
    usize::from(u16::from_le_bytes(bytes))
}
