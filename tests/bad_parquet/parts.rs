//! A Parquet file taken apart into pages and footer, to be put together again with something wrong in it.

use super::thrift::Value;

// Thrift field numbers in the footer (`FileMetaData`), and of a column chunk's metadata.
pub(crate) const SCHEMA: i16 = 2;
pub(crate) const NUM_ROWS: i16 = 3;
pub(crate) const ROW_GROUPS: i16 = 4;
const META_DATA: i16 = 3;

/// The number of rows, among the fields of a row group.
pub(crate) const GROUP_ROWS: i16 = 3;

// Field numbers in the metadata of a column chunk.
pub(crate) const TYPE: i16 = 1;
pub(crate) const CODEC: i16 = 4;
pub(crate) const NUM_VALUES: i16 = 5;
pub(crate) const UNCOMPRESSED: i16 = 6;
pub(crate) const COMPRESSED: i16 = 7;
pub(crate) const DATA_OFFSET: i16 = 9;
pub(crate) const DICTIONARY_OFFSET: i16 = 11;

// Field numbers in a page header.
pub(crate) const PAGE_UNCOMPRESSED: i16 = 2;
pub(crate) const PAGE_COMPRESSED: i16 = 3;
pub(crate) const CRC: i16 = 4;
pub(crate) const DATA_PAGE: i16 = 5;
pub(crate) const DICTIONARY_PAGE: i16 = 7;

/// A page: its header, and its bytes.
pub(crate) type Page = (Value, Vec<u8>);

/// The pages of each column and the footer (`index`) of a file with one row group.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) columns: Vec<Vec<Page>>,
    pub(crate) index: Value,
}

impl Parts {
    pub(crate) fn of(file: &[u8]) -> Parts {
        let end = file.len() - 8;
        let length = u32::from_le_bytes(file[end..end + 4].try_into().expect("four bytes"));
        let (mut index, rest) = Value::read(&file[end - place(i64::from(length))..end]);
        assert!(rest.is_empty(), "an index and nothing more");
        let columns =
            index.at(&[ROW_GROUPS, 0, 1]).items().iter_mut().map(|chunk| pages(file, chunk)).collect();
        Parts { columns, index }
    }

    /// The metadata of a column chunk in the footer.
    pub(crate) fn column(&mut self, number: i16) -> &mut Value {
        self.index.at(&[ROW_GROUPS, 0, 1, number, META_DATA])
    }

    /// The first data page of a column.
    pub(crate) fn data_page(&mut self, column: usize) -> &mut Page {
        self.columns[column].iter_mut().find(|(head, _)| !head.has(DICTIONARY_PAGE)).expect("a data page")
    }

    pub(crate) fn dictionary(&mut self, column: usize) -> &mut Page {
        self.columns[column].iter_mut().find(|(head, _)| head.has(DICTIONARY_PAGE)).expect("a dictionary")
    }

    /// Writes all pages and puts their offsets and sizes into the footer. Removes the offsets of page indexes
    /// and Bloom filters, which are no longer in the file.
    pub(crate) fn place(&mut self) -> Vec<u8> {
        let mut file = b"PAR1".to_vec();
        for (number, pages) in (0..).zip(self.columns.clone()) {
            let start = file.len();
            let mut data = None;
            for (head, body) in &pages {
                if !head.has(DICTIONARY_PAGE) {
                    data.get_or_insert(file.len());
                }
                file.extend(head.to_bytes());
                file.extend(body);
            }
            let chunk = self.index.at(&[ROW_GROUPS, 0, 1, number]);
            (4..8).for_each(|id| chunk.remove(id));
            let column = self.column(number);
            (14..16).for_each(|id| column.remove(id));
            column.set(COMPRESSED, amount(file.len() - start));
            column.set(DATA_OFFSET, amount(data.expect("a data page")));
            if column.has(DICTIONARY_OFFSET) {
                column.set(DICTIONARY_OFFSET, amount(start));
            }
        }
        file
    }

    /// Writes the file. `change` is applied to the footer after the pages are laid out.
    pub(crate) fn file(mut self, change: impl FnOnce(&mut Parts)) -> Vec<u8> {
        let mut file = self.place();
        change(&mut self);
        let index = self.index.to_bytes();
        let length = u32::try_from(index.len()).expect("a short index");
        file.extend(index);
        file.extend(length.to_le_bytes());
        file.extend(b"PAR1");
        file
    }
}

fn pages(file: &[u8], chunk: &mut Value) -> Vec<Page> {
    let column = chunk.at(&[META_DATA]);
    let first = if column.has(DICTIONARY_OFFSET) { DICTIONARY_OFFSET } else { DATA_OFFSET };
    let start = place(column.at(&[first]).number());
    let mut rest = &file[start..start + place(column.at(&[COMPRESSED]).number())];
    let mut pages = Vec::new();
    while !rest.is_empty() {
        let (mut head, after) = Value::read(rest);
        let (body, next) = after.split_at(place(head.at(&[PAGE_COMPRESSED]).number()));
        pages.push((head, body.to_vec()));
        rest = next;
    }
    pages
}

pub(crate) fn place(number: i64) -> usize {
    usize::try_from(number).expect("a place in a file")
}

pub(crate) fn amount(bytes: usize) -> Value {
    Value::int(i64::try_from(bytes).expect("a short file"))
}
