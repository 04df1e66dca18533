//! Parquet's footer and page headers (Thrift's compact protocol) as a tree that can be changed and written
//! again.

/// A value of the compact protocol. Maps do not occur in Parquet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Bool(bool),
    /// An integer with its type: 3 to 6 for 8 to 64 bits.
    Int(u8, i64),
    Double([u8; 8]),
    Bytes(Vec<u8>),
    /// The type of the items, and the items.
    List(u8, Vec<Value>),
    /// A list that declares this many items of a type and has none.
    Claim(u8, u64),
    /// Fields by number.
    Struct(Vec<(i16, Value)>),
}

impl Value {
    pub(crate) fn int(number: i64) -> Value {
        Value::Int(6, number)
    }

    /// The value at a path of field numbers and list indexes.
    pub(crate) fn at(&mut self, path: &[i16]) -> &mut Value {
        let Some((&first, rest)) = path.split_first() else { return self };
        let below = match self {
            Value::Struct(fields) => fields.iter_mut().find(|(id, _)| *id == first).map(|(_, value)| value),
            Value::List(_, items) => items.get_mut(usize::try_from(first).expect("a place")),
            other => panic!("{other:?} has nothing below it"),
        };
        below.unwrap_or_else(|| panic!("nothing at {path:?}")).at(rest)
    }

    pub(crate) fn has(&self, id: i16) -> bool {
        matches!(self, Value::Struct(fields) if fields.iter().any(|(other, _)| *other == id))
    }

    /// Sets a field of a struct. An integer keeps the type that it had.
    pub(crate) fn set(&mut self, id: i16, value: Value) {
        let Value::Struct(fields) = self else { panic!("{self:?} has no fields") };
        match fields.iter_mut().find(|(other, _)| *other == id) {
            Some((_, Value::Int(_, old))) if matches!(value, Value::Int(..)) => *old = value.number(),
            Some((_, old)) => *old = value,
            None => fields.push((id, value)),
        }
        fields.sort_by_key(|(id, _)| *id);
    }

    pub(crate) fn remove(&mut self, id: i16) {
        let Value::Struct(fields) = self else { panic!("{self:?} has no fields") };
        fields.retain(|(other, _)| *other != id);
    }

    pub(crate) fn number(&self) -> i64 {
        match self {
            Value::Int(_, number) => *number,
            other => panic!("{other:?} is no number"),
        }
    }

    pub(crate) fn items(&mut self) -> &mut Vec<Value> {
        match self {
            Value::List(_, items) => items,
            other => panic!("{other:?} is no list"),
        }
    }

    /// Reads a struct from the start of `bytes`. Returns it with the remaining bytes.
    pub(crate) fn read(bytes: &[u8]) -> (Value, &[u8]) {
        let mut rest = bytes;
        (read_struct(&mut rest), rest)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut into = Vec::new();
        self.write(&mut into);
        into
    }

    fn write(&self, into: &mut Vec<u8>) {
        match self {
            Value::Bool(yes) => into.push(if *yes { 1 } else { 2 }),
            Value::Int(3, number) => into.push(number.to_le_bytes()[0]),
            Value::Int(_, number) => write_varint(((number << 1) ^ (number >> 63)).cast_unsigned(), into),
            Value::Double(bytes) => into.extend(bytes),
            Value::Bytes(bytes) => {
                write_varint(length(bytes.len()), into);
                into.extend(bytes);
            }
            Value::List(kind, items) => {
                match u8::try_from(items.len()).ok().filter(|count| *count < 15) {
                    Some(count) => into.push(count << 4 | kind),
                    None => {
                        into.push(0xF0 | kind);
                        write_varint(length(items.len()), into);
                    }
                }
                items.iter().for_each(|item| item.write(into));
            }
            Value::Claim(kind, count) => {
                into.push(0xF0 | kind);
                write_varint(*count, into);
            }
            Value::Struct(fields) => write_struct(fields, into),
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Value::Bool(true) => 1,
            Value::Bool(false) => 2,
            Value::Int(kind, _) => *kind,
            Value::Double(_) => 7,
            Value::Bytes(_) => 8,
            Value::List(..) | Value::Claim(..) => 9,
            Value::Struct(_) => 12,
        }
    }
}

fn length(items: usize) -> u64 {
    u64::try_from(items).expect("64 bits")
}

fn write_struct(fields: &[(i16, Value)], into: &mut Vec<u8>) {
    let mut last = 0;
    for (id, value) in fields {
        match u8::try_from(id - last) {
            Ok(step @ 1..=15) => into.push(step << 4 | value.kind()),
            _ => {
                into.push(value.kind());
                Value::Int(4, i64::from(*id)).write(into);
            }
        }
        // A Boolean field encodes its value in its type.
        if !matches!(value, Value::Bool(_)) {
            value.write(into);
        }
        last = *id;
    }
    into.push(0);
}

fn write_varint(mut number: u64, into: &mut Vec<u8>) {
    while number > 0x7F {
        into.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    into.push(number.to_le_bytes()[0]);
}

fn byte(from: &mut &[u8]) -> u8 {
    let (first, rest) = from.split_first().expect("one more byte");
    *from = rest;
    *first
}

fn bytes<'a>(from: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (head, rest) = from.split_at(count);
    *from = rest;
    head
}

fn read_varint(from: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    loop {
        let next = byte(from);
        number |= u64::from(next & 0x7F) << shift;
        shift += 7;
        if next < 0x80 {
            return number;
        }
    }
}

fn read_int(from: &mut &[u8]) -> i64 {
    let number = read_varint(from);
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

fn read_count(from: &mut &[u8]) -> usize {
    usize::try_from(read_varint(from)).expect("a length")
}

fn read_struct(from: &mut &[u8]) -> Value {
    let (mut fields, mut id) = (Vec::new(), 0);
    loop {
        let head = byte(from);
        if head == 0 {
            return Value::Struct(fields);
        }
        id = match i16::from(head >> 4) {
            0 => i16::try_from(read_int(from)).expect("the number of a field"),
            step => id + step,
        };
        let value = match head & 15 {
            kind @ 1..=2 => Value::Bool(kind == 1),
            kind => read_value(kind, from),
        };
        fields.push((id, value));
    }
}

fn read_value(kind: u8, from: &mut &[u8]) -> Value {
    match kind {
        1 | 2 => Value::Bool(byte(from) == 1),
        3 => Value::Int(3, i64::from(byte(from).cast_signed())),
        4..=6 => Value::Int(kind, read_int(from)),
        7 => Value::Double(bytes(from, 8).try_into().expect("eight bytes")),
        8 => {
            let count = read_count(from);
            Value::Bytes(bytes(from, count).to_vec())
        }
        9 => {
            let head = byte(from);
            let count = if head >> 4 == 15 { read_count(from) } else { usize::from(head >> 4) };
            Value::List(head & 15, (0..count).map(|_| read_value(head & 15, from)).collect())
        }
        12 => read_struct(from),
        other => panic!("{other} is no type that Parquet has"),
    }
}
