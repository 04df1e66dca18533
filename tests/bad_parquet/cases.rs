//! Ways in which a Parquet file can be wrong.

use super::parts::*;
use super::thrift::Value;

/// When and how a file is changed.
#[derive(Clone, Copy)]
pub(crate) enum Change {
    /// Before the pages are laid out. The footer gets the offsets and sizes of the changed pages.
    Pages(fn(&mut Parts)),
    /// After that, in the footer, which may then contradict the pages.
    Index(fn(&mut Parts)),
    /// At last, in the bytes of the finished file.
    Bytes(fn(&mut Vec<u8>)),
}

impl Change {
    pub(crate) fn made(self, mut parts: Parts) -> Vec<u8> {
        match self {
            Change::Pages(change) => {
                change(&mut parts);
                parts.file(|_| {})
            }
            Change::Index(change) => parts.file(change),
            Change::Bytes(change) => {
                let mut file = parts.file(|_| {});
                change(&mut file);
                file
            }
        }
    }
}

/// The required outcome of reading a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Becomes {
    /// An error that names the file.
    Error,
    /// The whole file is read, because nothing looks at the wrong part.
    Read,
    /// An error or success, depending on the column's type and codec.
    Either,
}

use Becomes::{Either, Error, Read};
use Change::{Bytes, Index, Pages};

pub(crate) type Case = (&'static str, Becomes, Change);

/// Errors of the file as a whole.
pub(crate) const FILE: &[Case] = &[
    ("nothing", Read, Pages(|_| {})),
    ("empty", Error, Bytes(Vec::clear)),
    ("magic alone", Error, Bytes(|file| file.truncate(4))),
    ("magic twice", Error, Bytes(|file| *file = b"PAR1PAR1".to_vec())),
    ("magic and length alone", Error, Bytes(|file| *file = b"PAR1\0\0\0\0PAR1".to_vec())),
    ("an index longer than the file", Error, Bytes(|file| set_length(file, 1 << 20))),
    ("an index of negative length", Error, Bytes(|file| set_length(file, u32::MAX))),
    ("an index of no length", Error, Bytes(|file| set_length(file, 0))),
    (
        "an index that is all of the file",
        Error,
        Bytes(|file| {
            let all = u32::try_from(file.len() - 8).unwrap_or(0);
            set_length(file, all);
        }),
    ),
    ("an index of zeros", Error, Bytes(|file| last(file, 108)[..100].fill(0))),
    ("an index of ones", Error, Bytes(|file| last(file, 108)[..100].fill(0xFF))),
    ("something behind it", Error, Bytes(|file| file.extend(b"and more"))),
    ("something before it", Error, Bytes(|file| drop(file.splice(0..0, *b"more")))),
    ("an encrypted index", Error, Bytes(|file| last(file, 4).copy_from_slice(b"PARE"))),
    (
        "encryption",
        Error,
        Bytes(|file| {
            last(file, 4).copy_from_slice(b"PARE");
            file[..4].copy_from_slice(b"PARE");
        }),
    ),
];

fn set_length(file: &mut [u8], length: u32) {
    last(file, 8)[..4].copy_from_slice(&length.to_le_bytes());
}

fn last(file: &mut [u8], count: usize) -> &mut [u8] {
    let from = file.len() - count;
    &mut file[from..]
}

/// Errors in the footer.
pub(crate) const INDEX: &[Case] = &[
    ("most rows", Either, Index(|file| file.index.set(NUM_ROWS, Value::int(i64::MAX)))),
    ("negative rows", Either, Index(|file| file.index.set(NUM_ROWS, Value::int(-1)))),
    ("most rows in a group", Error, Index(|file| rows(file, i64::MAX))),
    ("negative rows in a group", Error, Index(|file| rows(file, -1))),
    ("a row too many in a group", Error, Index(|file| rows(file, ROWS + 1))),
    ("a row too few in a group", Either, Index(|file| rows(file, ROWS - 1))),
    ("no rows in a group", Either, Index(|file| rows(file, 0))),
    ("most values", Either, Index(|file| file.column(0).set(NUM_VALUES, Value::int(i64::MAX)))),
    ("negative values", Either, Index(|file| file.column(0).set(NUM_VALUES, Value::int(-1)))),
    ("no values", Either, Index(|file| file.column(0).set(NUM_VALUES, Value::int(0)))),
    ("most bytes", Either, Index(|file| file.column(0).set(UNCOMPRESSED, Value::int(i64::MAX)))),
    ("negative bytes", Either, Index(|file| file.column(0).set(UNCOMPRESSED, Value::int(-1)))),
    ("most compressed bytes", Error, Index(|file| file.column(0).set(COMPRESSED, Value::int(i64::MAX)))),
    ("many compressed bytes", Either, Index(|file| file.column(0).set(COMPRESSED, Value::int(1 << 40)))),
    ("negative compressed bytes", Error, Index(|file| file.column(0).set(COMPRESSED, Value::int(-1)))),
    ("no compressed bytes", Error, Index(|file| file.column(0).set(COMPRESSED, Value::int(0)))),
    ("pages past the end", Error, Index(|file| offset(file, 1 << 40))),
    ("pages at the last place", Error, Index(|file| offset(file, i64::MAX))),
    ("pages at a negative place", Error, Index(|file| offset(file, -1))),
    ("pages at the begin", Error, Index(|file| offset(file, 0))),
    (
        "pages of another column",
        Either,
        Index(|file| {
            let other = file.column(1).at(&[DATA_OFFSET]).number();
            offset(file, other);
        }),
    ),
    (
        "a dictionary past the end",
        Error,
        Index(|file| file.column(0).set(DICTIONARY_OFFSET, Value::int(1 << 40))),
    ),
    (
        "a dictionary at a negative place",
        Error,
        Index(|file| file.column(0).set(DICTIONARY_OFFSET, Value::int(-9))),
    ),
    (
        "a dictionary in the index",
        Error,
        Index(|file| {
            let place = file.column(1).at(&[DATA_OFFSET]).number();
            file.column(0).set(DICTIONARY_OFFSET, Value::int(place + 60));
        }),
    ),
    ("a codec that is not", Error, Index(|file| file.column(0).set(CODEC, Value::int(99)))),
    ("no codec", Error, Index(|file| file.column(0).set(CODEC, Value::int(-1)))),
    ("LZO", Error, Index(|file| file.column(0).set(CODEC, Value::int(3)))),
    ("gzip for another", Error, Index(|file| file.column(0).set(CODEC, Value::int(2)))),
    ("brotli for another", Error, Index(|file| file.column(0).set(CODEC, Value::int(4)))),
    ("old LZ4 for another", Error, Index(|file| file.column(0).set(CODEC, Value::int(5)))),
    ("zstd for another", Either, Index(|file| file.column(0).set(CODEC, Value::int(6)))),
    ("LZ4 for another", Error, Index(|file| file.column(0).set(CODEC, Value::int(7)))),
    ("no group", Either, Index(|file| file.index.at(&[ROW_GROUPS]).items().clear())),
    ("a group without columns", Error, Index(|file| file.index.at(&[ROW_GROUPS, 0, 1]).items().clear())),
    (
        "a group with a column too few",
        Error,
        Index(|file| drop(file.index.at(&[ROW_GROUPS, 0, 1]).items().pop())),
    ),
    ("groups that are not there", Error, Index(|file| file.index.set(ROW_GROUPS, Value::Claim(12, 1 << 31)))),
    (
        "columns that are not there",
        Error,
        Index(|file| file.index.at(&[ROW_GROUPS, 0]).set(1, Value::Claim(12, 1 << 31))),
    ),
    ("a schema that is not there", Error, Index(|file| file.index.set(SCHEMA, Value::Claim(12, 1 << 31)))),
    (
        "no columns",
        Error,
        Index(|file| {
            file.index.at(&[SCHEMA]).items().truncate(1);
            file.index.at(&[SCHEMA, 0]).set(5, Value::int(0));
            file.index.at(&[ROW_GROUPS, 0, 1]).items().clear();
        }),
    ),
    ("no schema", Error, Index(|file| file.index.at(&[SCHEMA]).items().clear())),
    (
        "most columns",
        Error,
        Index(|file| file.index.at(&[SCHEMA, 0]).set(5, Value::int(i64::from(i32::MAX)))),
    ),
    ("negative columns", Error, Index(|file| file.index.at(&[SCHEMA, 0]).set(5, Value::int(-1)))),
    ("a schema of many levels", Error, Index(deep)),
    (
        "a bloom filter past the end",
        Read,
        Index(|file| {
            file.column(0).set(14, Value::int(1 << 40));
            file.column(0).set(15, Value::Int(5, 1 << 30));
        }),
    ),
    ("page indexes past the end", Either, Index(|file| page_indexes(file, 1 << 40, 1 << 30))),
    ("page indexes of rubbish", Either, Index(|file| page_indexes(file, 4, 40))),
    ("page indexes at a negative place", Either, Index(|file| page_indexes(file, -4, -40))),
    (
        "encodings that are not",
        Either,
        Index(|file| file.column(0).set(2, Value::List(5, vec![Value::Int(5, 77)]))),
    ),
    (
        "a key that is no text",
        Either,
        Index(|file| {
            file.index.set(5, Value::List(12, vec![Value::Struct(vec![(1, Value::Bytes(vec![0xFF; 9]))])]))
        }),
    ),
    ("rubbish for Arrow", Either, Index(|file| file.index.set(5, arrow_schema(&"/////".repeat(99))))),
    ("a length for Arrow", Either, Index(|file| file.index.set(5, arrow_schema("/////////38AAAAA")))),
];

/// Number of rows in each file.
pub(crate) const ROWS: i64 = 60;

fn rows(file: &mut Parts, rows: i64) {
    file.index.at(&[ROW_GROUPS, 0]).set(GROUP_ROWS, Value::int(rows));
}

fn offset(file: &mut Parts, offset: i64) {
    let column = file.column(0);
    column.set(DATA_OFFSET, Value::int(offset));
    column.remove(DICTIONARY_OFFSET);
}

fn page_indexes(file: &mut Parts, offset: i64, length: i64) {
    let chunk = file.index.at(&[ROW_GROUPS, 0, 1, 0]);
    for id in [4, 6] {
        chunk.set(id, Value::int(offset));
        chunk.set(id + 1, Value::Int(5, length));
    }
}

fn arrow_schema(text: &str) -> Value {
    let pair =
        [(1, "ARROW:schema"), (2, text)].map(|(id, text)| (id, Value::Bytes(text.as_bytes().to_vec())));
    Value::List(12, vec![Value::Struct(pair.to_vec())])
}

/// 100 000 nested groups, each with a single child.
fn deep(file: &mut Parts) {
    let fields = [(3, Value::Int(5, 1)), (4, Value::Bytes(b"a".to_vec())), (5, Value::Int(5, 1))];
    let group = Value::Struct(fields.to_vec());
    let schema = file.index.at(&[SCHEMA]).items();
    let leaf = schema.pop().expect("a column");
    schema.truncate(1);
    schema.extend(vec![group; 100_000]);
    schema.push(leaf);
    file.index.at(&[SCHEMA, 0]).set(5, Value::int(1));
}

/// Errors in pages. The first column has a dictionary.
pub(crate) const PAGES: &[Case] = &[
    ("fractions that are not there", Error, Pages(|file| head(file).set(20, Value::Claim(7, (1 << 31) - 1)))),
    ("pairs that are not there", Error, Pages(|file| head(file).set(20, Value::Claim(11, 1 << 30)))),
    (
        "a page of two gigabytes",
        Error,
        Pages(|file| head(file).set(PAGE_UNCOMPRESSED, Value::int(i64::from(i32::MAX)))),
    ),
    (
        "a page a byte too long",
        Either,
        Pages(|file| {
            let size = head(file).at(&[PAGE_UNCOMPRESSED]).number();
            head(file).set(PAGE_UNCOMPRESSED, Value::int(size + 1));
        }),
    ),
    ("a page of negative length", Error, Pages(|file| head(file).set(PAGE_UNCOMPRESSED, Value::int(-1)))),
    ("a page of no length", Error, Pages(|file| head(file).set(PAGE_UNCOMPRESSED, Value::int(0)))),
    (
        "two gigabytes of compressed page",
        Error,
        Pages(|file| head(file).set(PAGE_COMPRESSED, Value::int(i64::from(i32::MAX)))),
    ),
    (
        "a compressed page of negative length",
        Error,
        Pages(|file| head(file).set(PAGE_COMPRESSED, Value::int(-1))),
    ),
    ("a compressed page of no length", Error, Pages(|file| head(file).set(PAGE_COMPRESSED, Value::int(0)))),
    ("a page of most values", Error, Pages(|file| values(file, i64::from(i32::MAX)))),
    ("a page of negative values", Error, Pages(|file| values(file, -1))),
    ("a page of no values", Error, Pages(|file| values(file, 0))),
    (
        "a page of other bytes than its checksum",
        Error,
        Pages(|file| head(file).set(CRC, Value::Int(5, 12345))),
    ),
    ("a kind of page that is not", Error, Pages(|file| head(file).set(TYPE, Value::int(99)))),
    ("an index for a page", Error, Pages(|file| head(file).set(TYPE, Value::int(1)))),
    ("a page that says nothing", Error, Pages(|file| head(file).remove(DATA_PAGE))),
    ("an encoding that is not", Error, Pages(|file| encoding(file, 99))),
    ("plain for dictionary", Error, Pages(|file| encoding(file, 0))),
    ("runs for dictionary", Error, Pages(|file| encoding(file, 3))),
    ("packed numbers for dictionary", Error, Pages(|file| encoding(file, 5))),
    ("lengths for dictionary", Error, Pages(|file| encoding(file, 6))),
    ("beginnings for dictionary", Error, Pages(|file| encoding(file, 7))),
    ("streams for dictionary", Error, Pages(|file| encoding(file, 9))),
    ("levels in another encoding", Either, Pages(|file| head(file).at(&[DATA_PAGE]).set(3, Value::int(4)))),
    ("no dictionary", Error, Pages(|file| drop(file.columns[0].remove(0)))),
    (
        "two dictionaries",
        Either,
        Pages(|file| {
            let twice = file.columns[0][0].clone();
            file.columns[0].insert(0, twice);
        }),
    ),
    ("a dictionary behind its page", Error, Pages(|file| file.columns[0].reverse())),
    (
        "a dictionary of two gigabytes",
        Error,
        Pages(|file| file.dictionary(0).0.set(PAGE_UNCOMPRESSED, Value::int(i64::from(i32::MAX)))),
    ),
    ("a dictionary of most values", Error, Pages(|file| dictionary_values(file, i64::from(i32::MAX)))),
    ("a dictionary of negative values", Error, Pages(|file| dictionary_values(file, -1))),
    ("a dictionary of no values", Error, Pages(|file| dictionary_values(file, 0))),
    ("a dictionary of one value", Error, Pages(|file| dictionary_values(file, 1))),
    ("a dictionary of noise", Error, Pages(|file| file.dictionary(0).1.fill(0xEE))),
    ("a page of noise", Error, Pages(|file| file.data_page(0).1.fill(0xEE))),
    ("a page of zeros", Either, Pages(|file| file.data_page(0).1.fill(0))),
    ("a page of ones", Error, Pages(|file| file.data_page(0).1.fill(0xFF))),
];

fn head(file: &mut Parts) -> &mut Value {
    &mut file.data_page(0).0
}

fn values(file: &mut Parts, count: i64) {
    head(file).at(&[DATA_PAGE]).set(1, Value::int(count));
}

fn encoding(file: &mut Parts, encoding: i64) {
    head(file).at(&[DATA_PAGE]).set(2, Value::int(encoding));
}

fn dictionary_values(file: &mut Parts, count: i64) {
    file.dictionary(0).0.at(&[DICTIONARY_PAGE]).set(1, Value::int(count));
}

/// Errors in the type, name or nullability of the text column.
pub(crate) const TEXT: &[Case] = &[
    ("truths", Error, Index(|file| retype(file, 0))),
    ("numbers of 32 bits", Error, Index(|file| retype(file, 1))),
    ("numbers of 96 bits", Error, Index(|file| retype(file, 3))),
    ("fractions", Error, Index(|file| retype(file, 5))),
    ("bytes of a length that is not said", Error, Index(|file| retype(file, 7))),
    ("a type that is not", Error, Index(|file| retype(file, 42))),
    ("text that is always there", Error, Index(|file| leaf(file).set(3, Value::int(0)))),
    ("texts in a list", Error, Index(|file| leaf(file).set(3, Value::int(2)))),
    ("a text of another name", Error, Index(|file| leaf(file).set(4, Value::Bytes(b"other".to_vec())))),
    ("a text without a name", Error, Index(|file| leaf(file).set(4, Value::Bytes(Vec::new())))),
    ("a name that is no text", Error, Index(|file| leaf(file).set(4, Value::Bytes(vec![0xFF; 4])))),
    ("a name of a megabyte", Error, Index(|file| leaf(file).set(4, Value::Bytes(vec![b'n'; 1 << 20])))),
    (
        "two columns of one name",
        Either,
        Index(|file| file.index.at(&[SCHEMA, 2]).set(4, Value::Bytes(b"text".to_vec()))),
    ),
    ("a text of columns", Error, Index(|file| leaf(file).set(5, Value::int(1)))),
    ("a date for text", Error, Index(|file| leaf(file).set(6, Value::int(6)))),
];

fn leaf(file: &mut Parts) -> &mut Value {
    file.index.at(&[SCHEMA, 1])
}

fn retype(file: &mut Parts, kind: i64) {
    leaf(file).set(TYPE, Value::int(kind));
    leaf(file).remove(6);
    leaf(file).remove(10);
    file.column(0).set(TYPE, Value::int(kind));
}
