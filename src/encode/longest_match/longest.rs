use std::hint::select_unpredictable;

use super::trie::{self, Prefix, Trie};
use crate::pages;
use crate::units::{low32, place};
use crate::vocab::Vocabulary;

/// Token ids and places in the double array stay below this, so that a byte has room beside them.
pub(super) const LIMIT: usize = 1 << 24;

/// Finds the longest token that a text begins with.
///
/// A trie. The first two bytes are looked up at once; below stands a double array, in which the child of a
/// node by a byte is at the node's base, exclusive-or the byte. Nodes are placed in the order in which their
/// first tokens were learned, so that what is common lies close together.
///
/// **Memory:** 0.5 MB, and 8 bytes for each prefix of a token.
#[derive(Debug)]
pub(super) struct Longest {
    one: [Node; 256],
    /// By the first two bytes, the first one lowest.
    two: Box<[Node; 1 << 16]>,
    nodes: Box<[Node]>,
    /// How many bytes the longest token has.
    most_bytes: usize,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Node {
    /// Where the children are, and in the low 8 bits the byte that leads here.
    base: u32,
    /// The longest token that is a prefix of what leads here, and in the low 8 bits how many bytes it has,
    /// 0 for 256 and more.
    token: u32,
}

impl Longest {
    /// Also gives the longest token that is a proper prefix of each token, by id. `None` where ids or
    /// places reach [`LIMIT`], or [looking takes too long](Trie::is_slow).
    pub(super) fn new(vocabulary: &Vocabulary) -> Option<(Longest, Vec<u32>)> {
        if vocabulary.id_limit() > LIMIT {
            return None;
        }
        let trie = Trie::new(vocabulary, LIMIT)?;
        if trie.is_slow() {
            return None;
        }
        Some((Longest::of(&trie)?, trie.shorter(vocabulary.id_limit())))
    }

    /// A trie as a double array; `None` if it would have more places than [`LIMIT`].
    fn of(trie: &Trie) -> Option<Longest> {
        let prefixes = trie.prefixes();
        let mut array = DoubleArray::new();
        let mut nodes: Vec<Node> = prefixes.iter().map(Node::new).collect();
        let mut places = vec![0; nodes.len()];
        let mut children = Vec::new();
        // Parents come before their children, whose places they decide.
        for (number, prefix) in prefixes.iter().enumerate() {
            children.clear();
            children.extend(trie.children(prefix).map(|(number, child)| (child.byte, number)));
            if prefix.length >= 2 && !children.is_empty() {
                let base = array.take(&children);
                nodes[number].base |= low32(base) << 8;
                for &(byte, child) in &children {
                    places[place(child)] = base ^ usize::from(byte);
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
        let most_bytes = prefixes.iter().map(|prefix| place(prefix.length)).max().unwrap_or_default();
        Some(Longest { one, two, nodes: array.nodes.into(), most_bytes })
    }

    /// The longest token that this text, which is not empty, begins with, and how many bytes it has, 0 for
    /// 256 and more.
    #[inline]
    pub(super) fn find(&self, text: &[u8]) -> (u32, u32) {
        let mut node = self.one[usize::from(text[0])];
        if let Some((two, rest)) = text.split_first_chunk() {
            node = self.two[trie::two(*two)];
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

    /// How many bytes the longest token has.
    pub(super) fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    /// The node of two bytes.
    #[inline(always)]
    pub(super) fn second(&self, first: u8, second: u8) -> Node {
        self.two[trie::two([first, second])]
    }

    /// What may be the child of a node by this byte.
    #[inline(always)]
    pub(super) fn child(&self, node: Node, byte: u8) -> Node {
        self.nodes[node.child(byte)]
    }

    /// Asks for what [`walk`](Longest::walk) reads.
    pub(super) fn fetch(&self, text: &[u8], at: usize) {
        pages::fetch(&*self.two, trie::two([text[at], text[at + 1]]));
    }

    /// A walk from here to `end` at most, which is further on; behind it the text has another byte.
    #[inline]
    pub(super) fn walk(&self, text: &[u8], at: usize, end: usize) -> Walk {
        let two = [text[at], text[at + 1]];
        let walk = match end - at {
            1 => Walk { node: self.one[usize::from(two[0])], at: end, end },
            _ => Walk { node: self.two[trie::two(two)], at: at + 2, end },
        };
        pages::fetch(&self.nodes, walk.node.child(text[walk.at]));
        walk
    }

    /// Goes a byte further, if a token goes on so, and asks for what the next step reads. No branch here: how
    /// far it goes cannot be foreseen.
    #[inline]
    pub(super) fn step(&self, walk: &mut Walk, text: &[u8]) -> bool {
        let byte = text[walk.at];
        let child = self.nodes[walk.node.child(byte)];
        let on = child.is_by(byte) & (walk.at < walk.end);
        walk.node = if on { child } else { walk.node };
        walk.at += usize::from(on);
        pages::fetch(&self.nodes, walk.node.child(text[walk.at]));
        on
    }
}

impl Node {
    /// Without a base: in the first block there are no children.
    fn new(prefix: &Prefix) -> Node {
        let length = u8::try_from(prefix.token_length).unwrap_or(0);
        Node { base: u32::from(prefix.byte), token: prefix.token << 8 | u32::from(length) }
    }

    /// Where the child by this byte is, if there is one.
    #[inline]
    fn child(self, byte: u8) -> usize {
        place(self.base >> 8 ^ u32::from(byte))
    }

    /// Whether this byte leads here.
    #[inline(always)]
    pub(super) fn is_by(self, byte: u8) -> bool {
        self.base & 0xff == u32::from(byte)
    }

    /// The child, if it is one, else this node without children: where a walk is or ends.
    #[inline(always)]
    pub(super) fn or(self, child: Node, is_child: bool) -> Node {
        let base = select_unpredictable(is_child, child.base, 0);
        Node { base, token: select_unpredictable(is_child, child.token, self.token) }
    }

    /// Zero if it has none.
    #[inline(always)]
    pub(super) fn children(self) -> u32 {
        self.base >> 8
    }

    /// The longest token on the way here, and how many bytes it has, 0 for 256 and more.
    #[inline]
    pub(super) fn found(self) -> (u32, u32) {
        (self.token >> 8, self.token & 0xff)
    }
}

/// A walk along a text, step by step.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Walk {
    node: Node,
    at: usize,
    end: usize,
}

impl Walk {
    /// The longest token come by, and how many bytes it has, 0 for 256 and more.
    #[inline]
    pub(super) fn found(&self) -> (u32, u32) {
        self.node.found()
    }
}

/// The nodes by the first byte and by the first two.
fn roots(trie: &Trie, nodes: &[Node]) -> ([Node; 256], Box<[Node; 1 << 16]>) {
    let mut one = [Node::default(); 256];
    let mut two = vec![Node::default(); 1 << 16];
    for (number, first) in trie.children(&trie.prefixes()[0]) {
        let node = nodes[place(number)];
        one[usize::from(first.byte)] = node;
        two.iter_mut().skip(usize::from(first.byte)).step_by(256).for_each(|two| *two = node);
        for (number, second) in trie.children(first) {
            two[trie::two([first.byte, second.byte])] = nodes[place(number)];
        }
    }
    (one, two.try_into().expect("so many were made"))
}

/// The array while it is filled, in blocks of 256 places. Children are within the block of their base.
#[derive(Debug, Default)]
struct DoubleArray {
    nodes: Vec<Node>,
    /// One bit a place, set if it is free.
    free: Vec<u64>,
    /// Which bases are given away. No two nodes share one, so that the byte of a child tells its parent.
    bases: Vec<bool>,
    /// The first of the blocks that are searched for room.
    open: usize,
}

/// Blocks that are searched for room.
const OPEN: usize = 4;

impl DoubleArray {
    /// With the first block, where nodes without children have their base: no byte leads to a place there.
    fn new() -> DoubleArray {
        let mut array = DoubleArray::default();
        array.add();
        (array.bases[0], array.open) = (true, 1);
        array
    }

    fn add(&mut self) {
        let length = self.nodes.len() + 256;
        self.nodes.resize(length, Node::default());
        self.free.resize(length / 64, u64::MAX);
        self.bases.resize(length, false);
    }

    fn is_free(&self, place: usize) -> bool {
        self.free[place / 64] >> (place % 64) & 1 == 1
    }

    /// The free places from a block on.
    fn free_from(&self, block: usize) -> impl Iterator<Item = usize> {
        (block * 4..self.free.len()).flat_map(|word| {
            let rest = |bits: u64| Some(bits).filter(|&bits| bits != 0);
            let bits = std::iter::successors(rest(self.free[word]), move |&bits| rest(bits & (bits - 1)));
            bits.map(move |bits| word * 64 + place(bits.trailing_zeros()))
        })
    }

    /// Takes a base, and the places of these children, one at least.
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

    /// Gives each free place a byte by which no base leads there.
    fn close(&mut self) {
        for block in 0..self.nodes.len() / 256 {
            let places = block * 256..block * 256 + 256;
            // A block with a free place has a free base: each base that is taken has a child of its own.
            let base = places.clone().rev().find(|&base| !self.bases[base]);
            for place in places {
                if self.is_free(place) {
                    let byte = place ^ base.expect("fewer bases are taken than places");
                    self.nodes[place].base = low32(byte);
                }
            }
        }
    }
}
