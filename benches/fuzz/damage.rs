use serde_json::{Value, json};

/// Bytes with which parts of a file are overwritten.
const FILLS: [u8; 5] = [0, 0xFF, b' ', b'9', 0x80];

/// Replacements for short texts and numbers.
const TEXTS: [&[u8]; 10] = [
    b"18446744073709551615",
    b"9223372036854775807",
    b"4294967296",
    b"-1",
    b"0",
    b"1e309",
    b"null",
    b"\"\"",
    b"[]",
    b"{",
];

/// Pseudo-random numbers, the same in each run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.next() % limit).unwrap_or(0)
    }

    fn one_of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }

    /// A damaged copy of a seed file, with one to eight changes to its bytes. A seed file of JSON may get
    /// another tree instead, or in addition.
    pub(crate) fn damaged(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seeds[self.below(seeds.len())].clone();
        let tree = if self.below(2) == 0 { self.other_tree(&bytes) } else { None };
        let whole = tree.is_some() && self.below(3) > 0;
        bytes = tree.unwrap_or(bytes);
        for _ in 0..if whole { 0 } else { 1 + self.below(8) } {
            self.damage(&mut bytes);
        }
        bytes
    }

    /// The same text with changed JSON, if all of it is JSON, or everything after the head of an HTTP answer.
    fn other_tree(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let is_answer = bytes.starts_with(b"HTTP/");
        let end = bytes.windows(4).position(|end| end == b"\r\n\r\n").map_or(0, |at| at + 4);
        let (head, body) = bytes.split_at(if is_answer { end } else { 0 });
        let mut tree: Value = serde_json::from_slice(body).ok()?;
        for _ in 0..=self.below(3) {
            self.change(&mut tree);
        }
        Some([head, tree.to_string().as_bytes()].concat())
    }

    /// Changes a random node of a tree: removes or adds a child, or replaces the node.
    fn change(&mut self, tree: &mut Value) {
        let mut number = self.below(nodes(tree));
        let other = self.below(nodes(tree));
        let copy = node(tree, &mut other.clone()).cloned().unwrap_or_default();
        let Some(node) = node(tree, &mut number) else { return };
        match (self.below(4), &mut *node) {
            (0, Value::Array(items)) if !items.is_empty() => drop(items.remove(self.below(items.len()))),
            (0, Value::Object(fields)) if !fields.is_empty() => {
                let key = fields.keys().nth(self.below(fields.len())).cloned().unwrap_or_default();
                fields.shift_remove(&key);
            }
            (1, Value::Array(items)) => items.insert(self.below(items.len() + 1), copy),
            (1, Value::Object(fields)) => drop(fields.insert("added".to_owned(), copy)),
            (2, _) => *node = copy,
            _ => *node = self.leaf(),
        }
    }

    fn leaf(&mut self) -> Value {
        match self.below(12) {
            0 => json!(null),
            1 => json!(true),
            2 => json!(-1),
            3 => json!(u64::MAX),
            4 => json!(1e308),
            5 => json!(""),
            6 => json!("../../up"),
            7 => json!("a".repeat(5_000)),
            8 => json!([]),
            9 => json!({}),
            10 => (0..200).fold(json!([]), |inner, _| json!([inner])),
            _ => json!(i64::MAX),
        }
    }

    fn damage(&mut self, bytes: &mut Vec<u8>) {
        // Often near the end, where Parquet has its footer.
        let near_end = self.below(3) == 0;
        let span = if near_end { bytes.len().min(400) } else { bytes.len() };
        let at = (bytes.len() - span) + self.below(span);
        let length = self.below(32).min(bytes.len() - at);
        match self.below(10) {
            0 => bytes.truncate(at),
            1 => bytes.extend_from_within(at..at + length),
            2 => drop(bytes.drain(at..at + length)),
            3 => bytes[at..at + length].fill(self.one_of(&FILLS.each_ref()).to_owned()),
            4 => {
                let text = self.one_of(&TEXTS);
                drop(bytes.splice(at..at + length.min(3), text.iter().copied()));
            }
            5 => {
                let from = self.below(bytes.len());
                let block: Vec<u8> = bytes.iter().skip(from).take(64).copied().collect();
                drop(bytes.splice(at..at, block));
            }
            6 => self.renumber(bytes, at),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << (self.0 % 8);
                }
            }
        }
    }

    /// Replaces the first decimal number at or after a position.
    fn renumber(&mut self, bytes: &mut Vec<u8>, from: usize) {
        let Some(start) = bytes[from..].iter().position(u8::is_ascii_digit).map(|at| from + at) else {
            return;
        };
        let digits = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = self.one_of(&TEXTS);
        drop(bytes.splice(start..start + digits, text.iter().copied()));
    }
}

/// Number of nodes in a tree.
fn nodes(tree: &Value) -> usize {
    1 + match tree {
        Value::Array(items) => items.iter().map(nodes).sum(),
        Value::Object(fields) => fields.values().map(nodes).sum(),
        _ => 0,
    }
}

/// The node with this number, in the order of the text.
fn node<'a>(tree: &'a mut Value, number: &mut usize) -> Option<&'a mut Value> {
    if *number == 0 {
        return Some(tree);
    }
    *number -= 1;
    match tree {
        Value::Array(items) => items.iter_mut().find_map(|item| node(item, number)),
        Value::Object(fields) => fields.values_mut().find_map(|field| node(field, number)),
        _ => None,
    }
}
