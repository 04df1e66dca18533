//! Converts Arrow arrays to other types with the same values: text to views, and columns to the types that files
//! have.
//!
//! This is the small part of the crate `arrow-cast` that is needed here; building that crate takes a ninth of the
//! time of the whole build. Values never change, except that dates in milliseconds lose their time of day.

use std::sync::Arc;

use arrow_array::builder::GenericByteBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    BinaryType, ByteArrayType, ByteViewType, Date64Type, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, LargeBinaryType, LargeUtf8Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type, Utf8Type,
};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryViewArray, BooleanArray, Date32Array, FixedSizeListArray,
    GenericByteArray, GenericByteViewArray, GenericListArray, Int32Array, Int64Array, LargeListArray,
    ListArray, MapArray, OffsetSizeTrait, StringViewArray, StructArray, UInt64Array, make_array,
    new_null_array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, FieldRef, Fields, TimeUnit};
use arrow_select::nullif::nullif;
use arrow_select::take::take;

use crate::base::int::to_u64;

/// Milliseconds in a day.
const DAY_MILLISECONDS: i64 = 24 * 60 * 60 * 1_000;

/// Whether an array of this type holds text. The null type counts, because all its values are null.
pub(crate) fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::Null => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

/// The text of an array as views. The views share the array's bytes, also those of a dictionary's values; only arrays
/// of more than 4 GiB are copied.
///
/// # Errors
/// The array holds no text.
pub(crate) fn views(array: &dyn Array) -> Result<BinaryViewArray, ArrowError> {
    Ok(match array.data_type() {
        DataType::Null => BinaryViewArray::new_null(array.len()),
        DataType::Utf8 => StringViewArray::from(array.as_string::<i32>()).to_binary_view(),
        DataType::LargeUtf8 => StringViewArray::from(array.as_string::<i64>()).to_binary_view(),
        DataType::Utf8View => array.as_string_view().clone().to_binary_view(),
        DataType::Binary => BinaryViewArray::from(array.as_binary::<i32>()),
        DataType::LargeBinary => BinaryViewArray::from(array.as_binary::<i64>()),
        DataType::BinaryView => array.as_binary_view().clone(),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            // An untyped array may declare any number of nulls without taking memory.
            if dictionary.values().data_type().is_null() {
                return Ok(BinaryViewArray::new_null(array.len()));
            }
            let values = views(dictionary.values())?;
            take(&values, dictionary.keys(), None)?.as_binary_view().clone()
        }
        other => return Err(ArrowError::CastError(format!("{other} is not text"))),
    })
}

/// Converts an array: dictionaries and views to plain values, times and dates to the units that Parquet has, numbers
/// to wider ones; and likewise the items of lists and fields of structs.
///
/// Returns the same array if it already has the type. Otherwise, values that need no conversion still share their
/// memory with it.
///
/// # Errors
/// No such conversion exists, or a value that is not null does not fit the type.
pub(crate) fn cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    use DataType::{
        Binary, BinaryView, Date32, Date64, Decimal128, Decimal256, Dictionary, Duration, FixedSizeList,
        LargeBinary, LargeList, LargeUtf8, List, Map, Null, Struct, Time32, Time64, Timestamp, Utf8,
        Utf8View,
    };

    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    Ok(match (array.data_type(), to) {
        (Dictionary(..), _) => {
            let dictionary = array.as_any_dictionary();
            cast(&take(dictionary.values(), dictionary.keys(), None)?, to)?
        }
        (Utf8View, Utf8) => Arc::new(plain::<Utf8Type, _>(array.as_string_view())?),
        (Utf8View, LargeUtf8) => Arc::new(plain::<LargeUtf8Type, _>(array.as_string_view())?),
        (BinaryView, Binary) => Arc::new(plain::<BinaryType, _>(array.as_binary_view())?),
        (BinaryView, LargeBinary) => Arc::new(plain::<LargeBinaryType, _>(array.as_binary_view())?),
        (Null, _) => new_null_array(to, array.len()),
        (Utf8, LargeUtf8) => Arc::new(large::<Utf8Type, LargeUtf8Type>(array.as_string())),
        (Binary, LargeBinary) => Arc::new(large::<BinaryType, LargeBinaryType>(array.as_binary())),
        (Timestamp(from, _), Timestamp(unit, _))
        | (Duration(from), Duration(unit))
        | (Time32(from) | Time64(from), Time32(unit) | Time64(unit)) => in_unit(array, *from, *unit, to)?,
        (Decimal128(..), Decimal128(..)) | (Decimal256(..), Decimal256(..)) => retyped(array, to)?,
        (Date64, Date32) => {
            let day = |at: i64| i32::try_from(at.div_euclid(DAY_MILLISECONDS)).map_err(|_| outside(at, to));
            let days: Date32Array = array.as_primitive::<Date64Type>().try_unary(day)?;
            Arc::new(days)
        }
        (Struct(_), Struct(fields)) => Arc::new(struct_of(array.as_struct(), fields)?),
        (List(_), List(item)) => Arc::new(list_of(array.as_list::<i32>(), item)?),
        (LargeList(_), LargeList(item)) => Arc::new(list_of(array.as_list::<i64>(), item)?),
        (List(_), LargeList(item)) => {
            let (_, offsets, items, nulls) = list_of(array.as_list::<i32>(), item)?.into_parts();
            let offsets = OffsetBuffer::new(offsets.iter().map(|&offset| i64::from(offset)).collect());
            Arc::new(LargeListArray::try_new(Arc::clone(item), offsets, items, nulls)?)
        }
        (FixedSizeList(_, length), List(item) | LargeList(item)) => {
            let list = fixed_list_of(array.as_fixed_size_list(), item, *length)?;
            let each = usize::try_from(*length).unwrap_or(0);
            let lengths = std::iter::repeat_n(each, list.len());
            let (items, nulls) = (Arc::clone(list.values()), list.nulls().cloned());
            match to {
                List(_) => {
                    let offsets = OffsetBuffer::from_lengths(lengths);
                    Arc::new(ListArray::try_new(Arc::clone(item), offsets, items, nulls)?)
                }
                _ => {
                    let offsets = OffsetBuffer::from_lengths(lengths);
                    Arc::new(LargeListArray::try_new(Arc::clone(item), offsets, items, nulls)?)
                }
            }
        }
        (FixedSizeList(_, from), FixedSizeList(item, length)) if from == length => {
            Arc::new(fixed_list_of(array.as_fixed_size_list(), item, *length)?)
        }
        (Map(..), Map(entries, sorted)) => Arc::new(map_of(array.as_map(), entries, *sorted)?),
        (from, _) => {
            let not = || ArrowError::CastError(format!("{from} cannot be converted to {to}"));
            return wider(array, to).ok_or_else(not);
        }
    })
}

/// Converts numbers to a type that holds them all exactly; `None` for other pairs of types.
fn wider(array: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
    macro_rules! widened {
        ($($from:ident => $($into:ident),+;)+) => {
            $($(if *array.data_type() == $from::DATA_TYPE && *to == $into::DATA_TYPE {
                let numbers = array.as_primitive::<$from>();
                return Some(Arc::new(numbers.unary::<_, $into>(|number| number.into())));
            })+)+
        };
    }
    widened! {
        Int8Type => Int16Type, Int32Type, Int64Type, Float16Type, Float32Type, Float64Type;
        Int16Type => Int32Type, Int64Type, Float32Type, Float64Type;
        Int32Type => Int64Type, Float64Type;
        UInt8Type => UInt16Type, UInt32Type, UInt64Type, Int16Type, Int32Type, Int64Type, Float16Type, Float32Type, Float64Type;
        UInt16Type => UInt32Type, UInt64Type, Int32Type, Int64Type, Float32Type, Float64Type;
        UInt32Type => UInt64Type, Int64Type, Float64Type;
        Float16Type => Float32Type, Float64Type;
        Float32Type => Float64Type;
    }
    None
}

/// The same bytes as an array of another type with the same layout.
///
/// # Errors
/// The type has another layout.
fn retyped(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    Ok(make_array(array.to_data().into_builder().data_type(to.clone()).build()?))
}

/// Converts times to a unit that is equally fine or finer.
///
/// # Errors
/// `unit` is coarser than `from`, or a value does not fit.
fn in_unit(array: &ArrayRef, from: TimeUnit, unit: TimeUnit, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let per_second = |unit| match unit {
        TimeUnit::Second => 1_i64,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    let factor = per_second(unit) / per_second(from);
    if factor == 0 {
        return Err(ArrowError::CastError(format!("{} cannot be converted to {to}", array.data_type())));
    }
    if factor == 1 && array.data_type().primitive_width() == to.primitive_width() {
        return retyped(array, to);
    }
    let wide = match array.data_type() {
        DataType::Time32(_) => {
            let narrow = retyped(array, &DataType::Int32)?;
            narrow.as_primitive::<Int32Type>().unary::<_, Int64Type>(i64::from)
        }
        _ => retyped(array, &DataType::Int64)?.as_primitive::<Int64Type>().clone(),
    };
    let times = |at: i64| at.checked_mul(factor).ok_or_else(|| outside(at, to));
    let times: Int64Array = wide.try_unary(times)?;
    match to {
        DataType::Time32(_) => {
            let narrow = |at: i64| i32::try_from(at).map_err(|_| outside(at, to));
            let narrow: Int32Array = times.try_unary(narrow)?;
            let narrow: ArrayRef = Arc::new(narrow);
            retyped(&narrow, to)
        }
        _ => {
            let times: ArrayRef = Arc::new(times);
            retyped(&times, to)
        }
    }
}

/// The same values with 64-bit offsets.
fn large<F, T>(array: &GenericByteArray<F>) -> GenericByteArray<T>
where
    F: ByteArrayType<Offset = i32>,
    T: ByteArrayType<Offset = i64, Native = F::Native>,
{
    let bytes = array.value_offsets();
    let bytes = usize::try_from(bytes[bytes.len() - 1] - bytes[0]).unwrap_or(0);
    let mut values = GenericByteBuilder::with_capacity(array.len(), bytes);
    array.iter().for_each(|value| values.append_option(value));
    values.finish()
}

/// The error that a value does not fit a type.
fn outside(value: impl std::fmt::Display, to: &DataType) -> ArrowError {
    ArrowError::CastError(format!("{value} does not fit into {to}"))
}

/// Copies views to plain values with offsets.
///
/// # Errors
/// The values have more bytes in total than the offsets can count.
fn plain<T, V>(views: &GenericByteViewArray<V>) -> Result<GenericByteArray<T>, ArrowError>
where
    T: ByteArrayType,
    V: ByteViewType<Native = T::Native>,
{
    let bytes = views.iter().flatten().map(|value| AsRef::<[u8]>::as_ref(value).len()).sum();
    if bytes > T::Offset::MAX_OFFSET {
        return Err(ArrowError::OffsetOverflowError(bytes));
    }
    let mut values = GenericByteBuilder::with_capacity(views.len(), bytes);
    views.iter().for_each(|value| values.append_option(value));
    Ok(values.finish())
}

/// Converts a struct. Fields are matched by name, and missing ones are null. If the numbers of fields are equal and
/// some name has no match, all fields are matched by position.
///
/// # Errors
/// A field cannot be converted.
fn struct_of(array: &StructArray, fields: &Fields) -> Result<StructArray, ArrowError> {
    let by_name = |field: &FieldRef| array.column_by_name(field.name());
    let by_place = array.num_columns() == fields.len() && fields.iter().any(|field| by_name(field).is_none());
    let column = |(at, field): (usize, &FieldRef)| {
        let found = if by_place { Some(array.column(at)) } else { by_name(field) };
        match found {
            Some(column) => cast_shown(column, array.nulls(), field.data_type()),
            None => Ok(new_null_array(field.data_type(), array.len())),
        }
    };
    let columns = fields.iter().enumerate().map(column).collect::<Result<_, _>>()?;
    StructArray::try_new_with_length(fields.clone(), columns, array.nulls().cloned(), array.len())
}

/// Converts the items of a list of fixed-size lists.
///
/// # Errors
/// An item cannot be converted.
fn fixed_list_of(
    list: &FixedSizeListArray,
    item: &FieldRef,
    length: i32,
) -> Result<FixedSizeListArray, ArrowError> {
    let nulls = list.nulls().map(|nulls| nulls.expand(usize::try_from(length).unwrap_or(0)));
    let items = cast_shown(list.values(), nulls.as_ref(), item.data_type())?;
    let nulls = list.nulls().cloned();
    FixedSizeListArray::try_new_with_length(Arc::clone(item), length, items, nulls, list.len())
}

/// Converts the values that no null of a parent hides. Hidden values may be anything and need not fit the type.
///
/// # Errors
/// A value that is not hidden cannot be converted.
fn cast_shown(array: &ArrayRef, shown: Option<&NullBuffer>, to: &DataType) -> Result<ArrayRef, ArrowError> {
    match shown.filter(|shown| shown.null_count() > 0 && array.data_type() != to) {
        None => cast(array, to),
        Some(shown) => cast(&nullif(array, &BooleanArray::new(!shown.inner(), None))?, to),
    }
}

/// Converts the items of lists.
///
/// # Errors
/// An item cannot be converted.
fn list_of<O: OffsetSizeTrait>(
    list: &GenericListArray<O>,
    item: &FieldRef,
) -> Result<GenericListArray<O>, ArrowError> {
    let (offsets, items) = used(list.offsets(), list.values(), list.nulls())?;
    let items = cast(&items, item.data_type())?;
    GenericListArray::try_new(Arc::clone(item), offsets, items, list.nulls().cloned())
}

/// Converts the keys and values of maps.
///
/// # Errors
/// A key or value cannot be converted.
fn map_of(map: &MapArray, entries: &FieldRef, sorted: bool) -> Result<MapArray, ArrowError> {
    let given: ArrayRef = Arc::new(map.entries().clone());
    let (offsets, given) = used(map.offsets(), &given, map.nulls())?;
    let cast = cast(&given, entries.data_type())?.as_struct().clone();
    MapArray::try_new(Arc::clone(entries), offsets, cast, map.nulls().cloned(), sorted)
}

/// The items that a slice of lists uses, without those of null lists, and the offsets into them.
///
/// # Errors
/// Arrow cannot copy items of this type.
fn used<O: OffsetSizeTrait>(
    offsets: &OffsetBuffer<O>,
    items: &ArrayRef,
    nulls: Option<&NullBuffer>,
) -> Result<(OffsetBuffer<O>, ArrayRef), ArrowError> {
    let is_shown = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
    let ranges = || offsets.windows(2).map(|ends| ends[0].as_usize()..ends[1].as_usize());
    if ranges().enumerate().all(|(row, range)| is_shown(row) || range.is_empty()) {
        let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
        let items = items.slice(first.as_usize(), (last - first).as_usize());
        return Ok((OffsetBuffer::new(offsets.iter().map(|&offset| offset - first).collect()), items));
    }
    let shown = || ranges().enumerate().map(|(row, range)| if is_shown(row) { range } else { 0..0 });
    let places = UInt64Array::from_iter_values(shown().flatten().map(to_u64));
    Ok((OffsetBuffer::from_lengths(shown().map(|range| range.len())), take(items, &places, None)?))
}

#[cfg(test)]
mod tests {
    use arrow_array::types::{Int8Type, UInt16Type};
    use arrow_array::{
        BinaryArray, BinaryViewArray, Date32Array, Date64Array, DictionaryArray, Int8Array, Int32Array,
        LargeBinaryArray, LargeListArray, LargeStringArray, ListArray, NullArray, StringArray,
        Time32MillisecondArray, Time32SecondArray, TimestampMillisecondArray, TimestampSecondArray,
    };
    use arrow_schema::Field;

    use super::*;

    const WORDS: [Option<&str>; 6] =
        [Some("one"), None, Some("a word that no view has inline"), Some(""), None, Some("one")];

    fn nulls() -> NullBuffer {
        [true, true, false, true, true, true].into_iter().collect()
    }

    fn array(array: impl Array + 'static) -> ArrayRef {
        Arc::new(array)
    }

    /// A dictionary of the words with a key for each row. Some keys and some values are null.
    fn dictionary(values: &ArrayRef) -> ArrayRef {
        let keys = Int8Array::from(vec![Some(0), None, Some(2), Some(3), Some(4), Some(0)]);
        array(DictionaryArray::<Int8Type>::new(keys, Arc::clone(values)))
    }

    /// Pairs of an array in a type that is not written, and the array that it is written as.
    fn flat() -> Vec<(ArrayRef, ArrayRef)> {
        let strings = || array(StringArray::from_iter(WORDS));
        let large = || array(LargeStringArray::from_iter(WORDS));
        let bytes = || WORDS.map(|word| word.map(str::as_bytes));
        let texts = [
            (array(StringViewArray::from_iter(WORDS)), strings()),
            (array(StringViewArray::from_iter(WORDS)), large()),
            (array(BinaryViewArray::from_iter(bytes())), array(BinaryArray::from_iter(bytes()))),
            (array(BinaryViewArray::from_iter(bytes())), array(LargeBinaryArray::from_iter(bytes()))),
            (array(WORDS.into_iter().collect::<DictionaryArray<UInt16Type>>()), strings()),
            (dictionary(&strings()), strings()),
            (dictionary(&array(StringViewArray::from_iter(WORDS))), large()),
        ];
        let seconds =
            TimestampSecondArray::from(vec![Some(1 << 31), None, Some(-1), Some(0), None, Some(1 << 31)]);
        let milliseconds = [Some(1_000 << 31), None, Some(-1_000), Some(0), None, Some(1_000 << 31)].to_vec();
        let milliseconds = array(TimestampMillisecondArray::from(milliseconds).with_timezone("UTC"));
        let seconds = array(seconds.with_timezone("UTC"));
        let clock = |factor| {
            [Some(61), None, Some(0), Some(86_399), None, Some(61)]
                .map(|at: Option<i32>| at.map(|at| at * factor))
        };
        // The last millisecond before a day belongs to the previous day.
        let dates = [Some(86_400_000), None, Some(-1), Some(-86_400_000), None, Some(86_400_000)].to_vec();
        let days = [Some(1), None, Some(-1), Some(-1), None, Some(1)].to_vec();
        let times = [
            (dictionary(&seconds), Arc::clone(&milliseconds)),
            (seconds, milliseconds),
            (
                array(Time32SecondArray::from(clock(1).to_vec())),
                array(Time32MillisecondArray::from(clock(1_000).to_vec())),
            ),
            (array(Date64Array::from(dates)), array(Date32Array::from(days))),
        ];
        texts.into_iter().chain(times).collect()
    }

    fn field(name: &str, of: &ArrayRef) -> FieldRef {
        Arc::new(Field::new(name, of.data_type().clone(), true))
    }

    fn struct_with(items: &ArrayRef) -> StructArray {
        let numbers = array(Int32Array::from_iter_values(0..6));
        let fields = Fields::from(vec![field("of", items), field("number", &numbers)]);
        StructArray::new(fields, vec![Arc::clone(items), numbers], Some(nulls()))
    }

    fn map_to(items: &ArrayRef) -> ArrayRef {
        let keys = array(StringArray::from_iter_values(["a", "b", "c", "d", "e", "f"]));
        let key = Arc::new(Field::new("keys", DataType::Utf8, false));
        let entries = StructArray::new(
            Fields::from(vec![key, field("values", items)]),
            vec![keys, Arc::clone(items)],
            None,
        );
        let entry = Arc::new(Field::new("entries", entries.data_type().clone(), false));
        array(MapArray::new(
            entry,
            OffsetBuffer::from_lengths([1, 0, 2, 0, 2, 1]),
            entries,
            Some(nulls()),
            false,
        ))
    }

    /// Arrays of every nested type with these items, as columns of three or six rows. The third item is hidden by a
    /// null.
    fn holders(items: &ArrayRef) -> Vec<ArrayRef> {
        let item = || field("item", items);
        let lengths = [1, 0, 2, 0, 2, 1];
        let fixed = |length, rows| {
            FixedSizeListArray::try_new_with_length(
                item(),
                length,
                items.slice(0, 6 * usize::from(length > 0)),
                Some(
                    (0..rows)
                        .map(|row| length == 0 || row != 2 / usize::try_from(length).expect("few"))
                        .collect(),
                ),
                rows,
            )
        };
        let (small, large) = (OffsetBuffer::from_lengths(lengths), OffsetBuffer::from_lengths(lengths));
        vec![
            array(ListArray::new(item(), small, Arc::clone(items), Some(nulls()))),
            array(LargeListArray::new(item(), large, Arc::clone(items), Some(nulls()))),
            array(fixed(1, 6).expect("one each")),
            array(fixed(2, 3).expect("two each")),
            array(fixed(0, 6).expect("none")),
            array(struct_with(items)),
            map_to(items),
        ]
    }

    /// Every type of text gives views of the same words, also for slices.
    #[test]
    fn texts_of_all_types_become_views_of_the_same_bytes() {
        let plain = flat().into_iter().flat_map(|(given, written)| [given, written]);
        let texts: Vec<ArrayRef> = plain.filter(|array| is_text(array.data_type())).collect();
        assert_eq!(texts.len(), 14);
        for text in &texts {
            for start in 0..6 {
                let views = views(&text.slice(start, 6 - start)).expect("text");
                let expected = WORDS[start..].iter().map(|word| word.map(str::as_bytes));
                assert!(views.iter().eq(expected), "{}", text.data_type());
            }
        }
        let nothing = NullArray::new(3);
        assert!(is_text(nothing.data_type()) && views(&nothing).expect("nothing").iter().eq([None; 3]));
        let numbers = Int32Array::from_iter_values(0..3);
        assert!(!is_text(numbers.data_type()) && views(&numbers).is_err());
    }

    #[test]
    /// Conversion gives equal values at three levels of nesting, and for slices.
    fn columns_are_the_same_in_the_types_that_are_written() {
        let mut pairs = flat();
        for level in 0..3 {
            for (given, written) in &pairs {
                for (start, rows) in [(0, given.len()), (1, given.len() - 1), (2, 1), (1, 0)] {
                    let found =
                        cast(&given.slice(start, rows), written.data_type()).expect("the same values");
                    let place = format!("{} from {start}, {rows} rows, at level {level}", given.data_type());
                    assert_eq!(&found, &written.slice(start, rows), "{place}");
                }
            }
            let held = pairs.iter().filter(|(given, _)| given.len() == 6);
            pairs =
                held.flat_map(|(given, written)| holders(given).into_iter().zip(holders(written))).collect();
        }
    }

    #[test]
    /// Values that overflow are errors unless they are null, or hidden by a null of a parent.
    fn what_does_not_fit_is_an_error_unless_it_is_null() {
        let milliseconds = DataType::Timestamp(TimeUnit::Millisecond, None);
        let clock = DataType::Time32(TimeUnit::Millisecond);
        let cases: [(ArrayRef, DataType); 3] = [
            (array(TimestampSecondArray::from(vec![0, i64::MAX / 2])), milliseconds),
            (array(Time32SecondArray::from(vec![0, i32::MAX / 2])), clock),
            (array(Date64Array::from(vec![0, i64::MAX / 2])), DataType::Date32),
        ];
        for (given, to) in cases {
            let problem = cast(&given, &to).expect_err("too large").to_string();
            assert!(problem.contains(&format!("does not fit into {to}")), "{problem}");
            let nulls = Some([true, false].into_iter().collect());
            let hidden = given.to_data().into_builder().nulls(nulls).build().expect("one that is null");
            assert_eq!(cast(&arrow_array::make_array(hidden), &to).expect("a null").null_count(), 1);
        }
        let seconds = array(TimestampSecondArray::from(vec![0, 0, 1 << 62, 0, 0, 0]));
        let milliseconds = array(TimestampMillisecondArray::from(vec![0; 6]));
        let inner = |items: &ArrayRef| -> ArrayRef {
            array(StructArray::new(vec![field("inner", items)].into(), vec![Arc::clone(items)], None))
        };
        let cases = [(inner(&seconds), inner(&milliseconds)), (seconds, milliseconds)];
        for (given, written) in cases.iter().flat_map(|(one, two)| holders(one).into_iter().zip(holders(two)))
        {
            assert_eq!(&cast(&given, written.data_type()).expect("it lies under a null"), &written);
        }
        let problem =
            cast(&array(Int64Array::from(vec![1])), &DataType::Int32).expect_err("no such way").to_string();
        assert!(problem.contains("Int64 cannot be converted to Int32"), "{problem}");
    }
}
