//! The longest-prefix trie: finds the longest token that a text begins with. A plain trie is built first and then
//! converted to a double array.

use std::hint::select_unpredictable;
use std::iter;

use super::NONE;
use crate::base::huge_pages;
use crate::base::int::{to_usize, truncate_to_u32};
use crate::vocab::Vocabulary;

/// Bytes examined per byte of text above which backtracking is slower than merging.
const MAX_EXAMINED: u32 = 64;

/// A trie of the prefixes of all tokens. Prefixes are numbered in the order in which they first occur in the
/// tokens by rank: first the empty one, then the single bytes.
///
/// **Memory:** 256 KiB, and 32 bytes per prefix.
pub(super) struct TrieBuilder {
    /// The prefixes by number. A parent comes before its children.
    prefixes: Vec<TriePrefix>,
    /// The number of each prefix of two bytes, indexed by these bytes, the first one lowest; [`EMPTY`] if no
    /// token has the prefix.
    two: Vec<u32>,
}

/// The number of the empty prefix, which is no child of any prefix and so also means "none".
const EMPTY: u32 = 0;

/// A prefix of one or more tokens. Numbers refer to other prefixes of the same [`TrieBuilder`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TriePrefix {
    /// The prefix without its last byte.
    parent: u32,
    /// The first child; [`EMPTY`] for none.
    child: u32,
    /// The next child of the same parent; [`EMPTY`] for none.
    sibling: u32,
    /// Length in bytes.
    pub(super) length: u32,
    /// The longest token that is a prefix of this one, or equal to it.
    pub(super) token: u32,
    /// The length of that token in bytes.
    pub(super) token_length: u32,
    /// The last byte.
    pub(super) byte: u8,
}

impl TriePrefix {
    /// Whether this prefix is itself a token.
    fn is_token(&self) -> bool {
        self.token_length == self.length
    }
}

impl TrieBuilder {
    /// The trie of a vocabulary; `None` if it would have more than `max_prefixes` prefixes.
    pub(super) fn new(vocabulary: &Vocabulary, max_prefixes: usize) -> Option<TrieBuilder> {
        let empty = TriePrefix { token: NONE, ..TriePrefix::default() };
        let mut trie = TrieBuilder { prefixes: vec![empty], two: vec![EMPTY; 1 << 16] };
        let bytes = vocabulary.byte_ids().iter().copied();
        let made = vocabulary.merges().iter().map(|merge| merge.result);
        for id in bytes.chain(made) {
            let bytes = vocabulary.bytes(id).unwrap_or_default();
            let end = trie.add(bytes, max_prefixes)?;
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

    /// The prefixes that are one byte longer than this one, with their numbers, in the order in which they were
    /// added.
    pub(super) fn children(&self, prefix: &TriePrefix) -> impl Iterator<Item = (u32, &TriePrefix)> {
        let numbered = |number: u32| (number != EMPTY).then(|| (number, &self.prefixes[to_usize(number)]));
        iter::successors(numbered(prefix.child), move |(_, child)| numbered(child.sibling))
    }

    /// Whether searching for longest tokens can examine far more bytes than a text has. This happens at the
    /// beginnings of long tokens if only short tokens occur in them: the search at each of these short tokens
    /// follows the long one almost to its end. Only constructed vocabularies are like that. One example is `ab`,
    /// `aab`, `aaab` and so on: in a run of `a`, each search follows the longest token.
    pub(super) fn is_slow(&self) -> bool {
        let long = |prefix: &&TriePrefix| prefix.is_token() && prefix.length > MAX_EXAMINED;
        self.prefixes.iter().filter(long).any(|prefix| {
            let text = self.spelled(prefix.parent);
            let (mut at, mut examined) = (0, 0);
            while at < text.len() && examined <= to_usize(MAX_EXAMINED) * text.len() {
                let (prefix, length) = self.walk(&text[at..]);
                at += to_usize(self.prefixes[to_usize(prefix)].token_length);
                examined += length;
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
            1 => self.two[byte_pair([prefix.byte, byte])],
            _ => {
                return self.children(prefix).find(|(_, child)| child.byte == byte).map(|(number, _)| number);
            }
        };
        (child != EMPTY && to_usize(child) < self.prefixes.len()).then_some(child)
    }

    /// The prefix with these bytes; adds it and its own prefixes if they are new. `None` if the trie then has
    /// more than `max_prefixes`.
    fn add(&mut self, bytes: &[u8], max_prefixes: usize) -> Option<&mut TriePrefix> {
        let mut prefix = EMPTY;
        for &byte in bytes {
            prefix = self.child(prefix, byte).unwrap_or_else(|| self.add_child(prefix, byte));
            if self.prefixes.len() > max_prefixes {
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
        let TriePrefix { length, byte: first, .. } = self.prefixes[to_usize(parent)];
        if length == 1 {
            self.two[byte_pair([first, byte])] = number;
        }
        self.prefixes.push(TriePrefix { parent, byte, length: length + 1, ..TriePrefix::default() });
        number
    }
}

/// The index for two bytes in tables of all byte pairs.
fn byte_pair(bytes: [u8; 2]) -> usize {
    usize::from(u16::from_le_bytes(bytes))
}

/// Limit of token ids and of positions in the double array. Below it, a byte fits next to them in 32 bits.
pub(super) const LIMIT: usize = 1 << 24;

/// Finds the longest token that a text begins with.
///
/// A trie. The first two bytes are looked up at once. Below them, the trie is a double array: the child of a node
/// by a byte is at the node's base, exclusive-or the byte. Nodes are placed in the order in which their first
/// tokens were learned, so that frequent ones are close to each other.
///
/// **Memory:** 0.5 MB, and 8 bytes per prefix of a token.
#[derive(Debug)]
pub(super) struct LongestPrefixTrie {
    /// The node of each single byte.
    one: [TrieNode; 256],
    /// The node of the first two bytes, indexed by them, the first one lowest.
    two: Box<[TrieNode; 1 << 16]>,
    /// All nodes in a double array: a child is at its parent's base, exclusive-or its byte.
    nodes: Box<[TrieNode]>,
    /// Length of the longest token in bytes.
    max_token_bytes: usize,
}

/// A node, packed into eight bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TrieNode {
    /// The base, which is the position of the children, and in the low 8 bits the byte that leads to this node.
    base: u32,
    /// The longest token that is a prefix of this node's bytes, and in the low 8 bits its length; 0 means 256
    /// or more.
    token: u32,
}

impl LongestPrefixTrie {
    /// Builds the trie. Also returns, for each token by id, the longest token that is a proper prefix of it.
    /// `None` if ids or positions reach [`LIMIT`], or if [searches would take too long](TrieBuilder::is_slow).
    pub(super) fn new(vocabulary: &Vocabulary) -> Option<(LongestPrefixTrie, Vec<u32>)> {
        if vocabulary.id_limit() > LIMIT {
            return None;
        }
        let trie = TrieBuilder::new(vocabulary, LIMIT)?;
        if trie.is_slow() {
            return None;
        }
        Some((LongestPrefixTrie::of(&trie)?, trie.shorter(vocabulary.id_limit())))
    }

    /// Converts a trie to a double array; `None` if that would have more positions than [`LIMIT`].
    fn of(trie: &TrieBuilder) -> Option<LongestPrefixTrie> {
        let prefixes = &trie.prefixes;
        let mut array = DoubleArray::new();
        let mut nodes: Vec<TrieNode> = prefixes.iter().map(TrieNode::new).collect();
        let mut places = vec![0; nodes.len()];
        let mut children = Vec::new();
        // Parents come before their children, and determine where these are placed.
        for (number, prefix) in prefixes.iter().enumerate() {
            children.clear();
            children.extend(trie.children(prefix).map(|(number, child)| (child.byte, number)));
            if prefix.length >= 2 && !children.is_empty() {
                let base = array.take(&children);
                nodes[number].base |= truncate_to_u32(base) << 8;
                for &(byte, child) in &children {
                    places[to_usize(child)] = base ^ usize::from(byte);
                }
            }
            if array.nodes.len() > LIMIT {
                return None;
            }
            if prefix.length > 2 {
                array.nodes[places[number]] = nodes[number];
            }
        }
        array.close();
        let (one, two) = roots(trie, &nodes);
        let max_token_bytes = prefixes.iter().map(|prefix| to_usize(prefix.length)).max().unwrap_or_default();
        Some(LongestPrefixTrie { one, two, nodes: array.nodes.into(), max_token_bytes })
    }

    /// The longest token that this text begins with, and its length; 0 means 256 or more. The text must not
    /// be empty.
    #[inline]
    pub(super) fn find(&self, text: &[u8]) -> (u32, u32) {
        let mut node = self.one[usize::from(text[0])];
        if let Some((two, rest)) = text.split_first_chunk() {
            node = self.two[byte_pair(*two)];
            for &byte in rest {
                let child = self.nodes[node.child(byte)];
                if !child.is_by(byte) {
                    break;
                }
                node = child;
            }
        }
        node.found()
    }

    /// Length of the longest token in bytes.
    pub(super) fn max_token_bytes(&self) -> usize {
        self.max_token_bytes
    }

    /// The node of two bytes.
    #[inline(always)]
    pub(super) fn second(&self, first: u8, second: u8) -> TrieNode {
        self.two[byte_pair([first, second])]
    }

    /// The node at the position of a node's child by this byte. It is that child only if [`TrieNode::is_by`] holds.
    #[inline(always)]
    pub(super) fn child(&self, node: TrieNode, byte: u8) -> TrieNode {
        self.nodes[node.child(byte)]
    }

    /// Prefetches what [`walk`](LongestPrefixTrie::walk) reads.
    pub(super) fn fetch(&self, text: &[u8], at: usize) {
        huge_pages::fetch(&*self.two, byte_pair([text[at], text[at + 1]]));
    }

    /// Begins a walk at `at` that goes no further than `end`. `end` must be greater than `at`, and the text must
    /// have one more byte at `end`.
    #[inline]
    pub(super) fn walk(&self, text: &[u8], at: usize, end: usize) -> TrieWalk {
        let two = [text[at], text[at + 1]];
        let walk = match end - at {
            1 => TrieWalk { node: self.one[usize::from(two[0])], at: end, end },
            _ => TrieWalk { node: self.two[byte_pair(two)], at: at + 2, end },
        };
        huge_pages::fetch(&self.nodes, walk.node.child(text[walk.at]));
        walk
    }

    /// Follows one more byte if a token continues with it, prefetches what the next step reads, and returns
    /// whether it moved. There is no branch here, since the length of a walk cannot be predicted.
    #[inline]
    pub(super) fn step(&self, walk: &mut TrieWalk, text: &[u8]) -> bool {
        let byte = text[walk.at];
        let child = self.nodes[walk.node.child(byte)];
        let on = child.is_by(byte) & (walk.at < walk.end);
        walk.node = if on { child } else { walk.node };
        walk.at += usize::from(on);
        huge_pages::fetch(&self.nodes, walk.node.child(text[walk.at]));
        on
    }
}

impl TrieNode {
    /// A node without base, which means without children: in the first block no node is a child.
    fn new(prefix: &TriePrefix) -> TrieNode {
        let length = u8::try_from(prefix.token_length).unwrap_or(0);
        TrieNode { base: u32::from(prefix.byte), token: prefix.token << 8 | u32::from(length) }
    }

    /// Position of the child by this byte, if this node has one.
    #[inline]
    fn child(self, byte: u8) -> usize {
        to_usize(self.base >> 8 ^ u32::from(byte))
    }

    /// Whether this byte leads to this node.
    #[inline(always)]
    pub(super) fn is_by(self, byte: u8) -> bool {
        self.base & 0xff == u32::from(byte)
    }

    /// The child if `is_child`, else this node without children: the new state of a walk that may have ended.
    #[inline(always)]
    pub(super) fn or(self, child: TrieNode, is_child: bool) -> TrieNode {
        let base = select_unpredictable(is_child, child.base, 0);
        TrieNode { base, token: select_unpredictable(is_child, child.token, self.token) }
    }

    /// Nonzero if the node has children.
    #[inline(always)]
    pub(super) fn children(self) -> u32 {
        self.base >> 8
    }

    /// The longest token on the path to this node, and its length; 0 means 256 or more.
    #[inline]
    pub(super) fn found(self) -> (u32, u32) {
        (self.token >> 8, self.token & 0xff)
    }
}

/// A walk along a text, byte by byte.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TrieWalk {
    /// The node that the walk has reached.
    node: TrieNode,
    /// The next byte to read, as a position in the text.
    at: usize,
    /// Where the walk must stop: the end of the pre-token.
    end: usize,
}

impl TrieWalk {
    /// The longest token on the path so far, and its length; 0 means 256 or more.
    #[inline]
    pub(super) fn found(&self) -> (u32, u32) {
        self.node.found()
    }
}

/// The nodes of one byte, and those of two bytes.
fn roots(trie: &TrieBuilder, nodes: &[TrieNode]) -> ([TrieNode; 256], Box<[TrieNode; 1 << 16]>) {
    let mut one = [TrieNode::default(); 256];
    let mut two = vec![TrieNode::default(); 1 << 16];
    for (number, first) in trie.children(&trie.prefixes[0]) {
        let node = nodes[to_usize(number)];
        one[usize::from(first.byte)] = node;
        two.iter_mut().skip(usize::from(first.byte)).step_by(256).for_each(|two| *two = node);
        for (number, second) in trie.children(first) {
            two[byte_pair([first.byte, second.byte])] = nodes[to_usize(number)];
        }
    }
    (one, two.try_into().expect("so many were made"))
}

/// The double array while it is filled, in blocks of 256 positions. All children of a node are in the block of
/// its base.
#[derive(Debug, Default)]
struct DoubleArray {
    /// The nodes placed so far; free positions have default nodes.
    nodes: Vec<TrieNode>,
    /// One bit per position, set if it is free.
    free: Vec<u64>,
    /// Which bases are in use. No two nodes share a base, so the byte of a child identifies its parent.
    bases: Vec<bool>,
    /// The first block that is searched for free positions.
    open: usize,
}

/// Blocks that are searched for free positions.
const OPEN: usize = 4;

impl DoubleArray {
    /// An array with the first block. Nodes without children have their base there, where no byte leads to a
    /// child.
    fn new() -> DoubleArray {
        let mut array = DoubleArray::default();
        array.add();
        (array.bases[0], array.open) = (true, 1);
        array
    }

    /// Adds a block.
    fn add(&mut self) {
        let length = self.nodes.len() + 256;
        self.nodes.resize(length, TrieNode::default());
        self.free.resize(length / 64, u64::MAX);
        self.bases.resize(length, false);
    }

    /// Whether no node is at this position yet.
    fn is_free(&self, place: usize) -> bool {
        self.free[place / 64] >> (place % 64) & 1 == 1
    }

    /// The free positions from a block on.
    fn free_from(&self, block: usize) -> impl Iterator<Item = usize> {
        (block * 4..self.free.len()).flat_map(|word| {
            let rest = |bits: u64| Some(bits).filter(|&bits| bits != 0);
            let bits = std::iter::successors(rest(self.free[word]), move |&bits| rest(bits & (bits - 1)));
            bits.map(move |bits| word * 64 + to_usize(bits.trailing_zeros()))
        })
    }

    /// Reserves a base, and the positions of these children; at least one child is required.
    fn take(&mut self, children: &[(u8, u32)]) -> usize {
        let child = |base: usize, number: usize| base ^ usize::from(children[number].0);
        let suits = |base: &usize| {
            !self.bases[*base] && (1..children.len()).all(|number| self.is_free(child(*base, number)))
        };
        let Some(base) = self.free_from(self.open).map(|place| child(place, 0)).find(suits) else {
            self.add();
            self.open = self.open.max((self.nodes.len() / 256).saturating_sub(OPEN));
            return self.take(children);
        };
        self.bases[base] = true;
        for place in (0..children.len()).map(|number| child(base, number)) {
            self.free[place / 64] &= !(1 << (place % 64));
        }
        base
    }

    /// Gives each free position a byte by which no base leads to it, so that no search takes it for a child.
    fn close(&mut self) {
        for block in 0..self.nodes.len() / 256 {
            let places = block * 256..block * 256 + 256;
            // A block with a free position also has a free base, since each base in use has a child of its own.
            let base = places.clone().rev().find(|&base| !self.bases[base]);
            for place in places {
                if self.is_free(place) {
                    let byte = place ^ base.expect("fewer bases are taken than places");
                    self.nodes[place].base = truncate_to_u32(byte);
                }
            }
        }
    }
}
