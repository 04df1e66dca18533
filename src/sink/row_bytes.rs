use arrow_array::cast::AsArray;
use arrow_array::{Array, OffsetSizeTrait, RecordBatch};
use arrow_schema::DataType;

use crate::units::amount;

/// How many bytes each row of a batch of plain columns takes: a function of the values alone, so that
/// what is cut by it does not depend on how the rows came together.
pub(super) fn row_bytes(batch: &RecordBatch) -> Vec<u64> {
    let mut sums = vec![0; batch.num_rows()];
    for column in batch.columns() {
        add(&mut sums, &value_bytes(column));
    }
    sums
}

fn add(sums: &mut [u64], bytes: &[u64]) {
    for (sum, bytes) in sums.iter_mut().zip(bytes) {
        *sum += bytes;
    }
}

fn value_bytes(array: &dyn Array) -> Vec<u64> {
    let mut bytes = match array.data_type() {
        DataType::Utf8 => spans(array.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => spans(array.as_string::<i64>().value_offsets()),
        DataType::Binary => spans(array.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => spans(array.as_binary::<i64>().value_offsets()),
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
        flat => vec![amount(flat.primitive_width().unwrap_or(1)); array.len()],
    };
    // What lies under a null is not written, and may be anything.
    if let Some(nulls) = array.nulls() {
        for (row, bytes) in bytes.iter_mut().enumerate() {
            *bytes *= u64::from(nulls.is_valid(row));
        }
    }
    bytes
}

fn spans<O: OffsetSizeTrait>(offsets: &[O]) -> Vec<u64> {
    offsets.windows(2).map(|ends| amount((ends[1] - ends[0]).as_usize())).collect()
}

/// Sums the bytes of the items of each list. An empty list is not free, or a column of empty ones
/// would never fill a row group.
///
/// A slice of lists still has the items of all of them: only those between its offsets are looked at.
fn within<O: OffsetSizeTrait>(offsets: &[O], items: &dyn Array) -> Vec<u64> {
    let [first, .., last] = offsets else { return Vec::new() };
    let (first, last) = (first.as_usize(), last.as_usize());
    let items = value_bytes(&items.slice(first, last - first));
    let list = |ends: &[O]| items[ends[0].as_usize() - first..ends[1].as_usize() - first].iter().sum::<u64>();
    offsets.windows(2).map(|ends| list(ends) + 4).collect()
}
