//! Sizes in bytes of the rows of Arrow arrays.

use arrow_array::cast::AsArray;
use arrow_array::{AnyDictionaryArray, Array, OffsetSizeTrait, RecordBatch};
use arrow_schema::DataType;

use crate::base::int::to_u64;

/// The size in bytes of each row of a batch, as if all columns were plain arrays. It depends on the values
/// alone, so that files that are divided by it do not depend on how the rows were batched. Values of views and
/// dictionaries may share bytes; each counts as if it had its own.
pub(crate) fn row_bytes(batch: &RecordBatch) -> Vec<u64> {
    let mut sums = vec![0; batch.num_rows()];
    for column in batch.columns() {
        add(&mut sums, &value_bytes(column));
    }
    sums
}

/// Adds the sizes of another column.
fn add(sums: &mut [u64], bytes: &[u64]) {
    for (sum, bytes) in sums.iter_mut().zip(bytes) {
        *sum += bytes;
    }
}

/// The size in bytes of each value of an array.
fn value_bytes(array: &dyn Array) -> Vec<u64> {
    let mut bytes = match array.data_type() {
        DataType::Utf8 => spans(array.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => spans(array.as_string::<i64>().value_offsets()),
        DataType::Binary => spans(array.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => spans(array.as_binary::<i64>().value_offsets()),
        DataType::Utf8View => array.as_string_view().lengths().map(u64::from).collect(),
        DataType::BinaryView => array.as_binary_view().lengths().map(u64::from).collect(),
        DataType::Dictionary(..) => of_dictionary(array.as_any_dictionary()),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            within(list.value_offsets(), list.values())
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            within(list.value_offsets(), list.values())
        }
        DataType::Map(..) => {
            let map = array.as_map();
            within(map.value_offsets(), map.entries())
        }
        DataType::FixedSizeList(_, length) => {
            let length = usize::try_from(*length).unwrap_or(0);
            let items = value_bytes(array.as_fixed_size_list().values());
            (0..array.len()).map(|row| items[row * length..][..length].iter().sum()).collect()
        }
        DataType::Struct(_) => {
            let mut sums = vec![0; array.len()];
            for column in array.as_struct().columns() {
                add(&mut sums, &value_bytes(column));
            }
            sums
        }
        DataType::FixedSizeBinary(width) => vec![u64::from(width.unsigned_abs()); array.len()],
        flat => vec![to_u64(flat.primitive_width().unwrap_or(1)); array.len()],
    };
    // A null counts 0. The bytes under it are not written, and may be anything.
    if let Some(nulls) = array.nulls() {
        for (row, bytes) in bytes.iter_mut().enumerate() {
            *bytes *= u64::from(nulls.is_valid(row));
        }
    }
    bytes
}

/// The sizes of the values to which the keys refer.
fn of_dictionary(dictionary: &dyn AnyDictionaryArray) -> Vec<u64> {
    let values = dictionary.values();
    if values.is_empty() {
        return vec![0; dictionary.len()];
    }
    let keys = dictionary.normalized_keys().into_iter();
    // A few rows may have a dictionary of millions, so then only the values that occur are measured.
    if values.len() > dictionary.len() {
        return keys.map(|key| value_bytes(&values.slice(key, 1)).iter().sum()).collect();
    }
    let bytes = value_bytes(values);
    keys.map(|key| bytes[key]).collect()
}

/// The distances between offsets.
fn spans<O: OffsetSizeTrait>(offsets: &[O]) -> Vec<u64> {
    offsets.windows(2).map(|ends| to_u64((ends[1] - ends[0]).as_usize())).collect()
}

/// The size of each list: the sum over its items, and 4 bytes for the list itself. Otherwise a column of empty
/// lists would never fill a row group.
///
/// A slice of a list array still has the items of all lists, so only those between its offsets are measured.
fn within<O: OffsetSizeTrait>(offsets: &[O], items: &dyn Array) -> Vec<u64> {
    let [first, .., last] = offsets else { return Vec::new() };
    let (first, last) = (first.as_usize(), last.as_usize());
    let items = value_bytes(&items.slice(first, last - first));
    let list = |ends: &[O]| items[ends[0].as_usize() - first..ends[1].as_usize() - first].iter().sum::<u64>();
    offsets.windows(2).map(|ends| list(ends) + 4).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int32Type;
    use arrow_array::{ArrayRef, DictionaryArray, ListArray, StringArray, StringViewArray};
    use arrow_buffer::OffsetBuffer;
    use arrow_schema::Field;

    use super::*;

    #[test]
    fn what_shares_its_bytes_counts_as_if_it_had_its_own() {
        let words = [Some("one"), None, Some("a word that no view has inline"), Some(""), Some("one"), None];
        let plain: ArrayRef = Arc::new(StringArray::from_iter(words));
        let views: ArrayRef = Arc::new(StringViewArray::from_iter(words));
        let dictionary: ArrayRef = Arc::new(words.into_iter().collect::<DictionaryArray<Int32Type>>());
        let nothing: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::from_iter([None::<&str>; 6]));
        let list = |items: &ArrayRef| -> ArrayRef {
            let item = Arc::new(Field::new("item", items.data_type().clone(), true));
            let offsets = OffsetBuffer::from_lengths([2, 0, 1, 3]);
            Arc::new(ListArray::new(item, offsets, Arc::clone(items), None))
        };
        for (from, rows) in [(0, 6), (1, 5), (2, 1)] {
            let expected = value_bytes(&plain.slice(from, rows));
            assert_eq!(value_bytes(&views.slice(from, rows)), expected);
            assert_eq!(value_bytes(&dictionary.slice(from, rows)), expected, "{rows} rows");
        }
        assert_eq!(value_bytes(&list(&plain)), [7, 4, 34, 7]);
        assert_eq!(value_bytes(&list(&views)), value_bytes(&list(&plain)));
        assert_eq!(value_bytes(&list(&dictionary)), value_bytes(&list(&plain)));
        assert_eq!(value_bytes(&nothing), [0; 6]);
    }
}
