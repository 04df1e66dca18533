//! Converts Arrow arrays to other types with the same values: text to views, and columns to the types that files
//! have.
//!
//! The conversions are those of the crate `arrow`, with these differences:
//!
//! - A pair of types is converted only if the new type holds all values of the old one exactly. Arrow also rounds
//!   times, cuts fractions off, parses text, and moves timestamps that get a time zone.
//! - Dates in milliseconds become the day that they are in. Arrow rounds towards 1970.
//! - Only values that can be seen are converted: not those under a null of a struct or list, and not those that a
//!   dictionary has but no row uses. They may be anything, and Arrow refuses those that do not fit.
//! - Structs may lack fields, and maps may differ in whether they are sorted.
//! - Too many bytes for 32-bit offsets are an error, where Arrow panics.
//! - No text is copied to make views of it, where Arrow copies that with 64-bit offsets.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Date32Array, FixedSizeListArray,
    GenericByteArray, GenericByteBuilder, GenericByteViewArray, GenericListArray, ListArray, MapArray,
    OffsetSizeTrait, StringViewArray, StructArray, UInt64Array, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{CastOptions, cast_with_options, nullif, take};
use arrow::datatypes::{
    BinaryType, ByteArrayType, ByteViewType, DataType, Date64Type, FieldRef, Fields, LargeBinaryType,
    LargeUtf8Type, Utf8Type,
};
use arrow::error::ArrowError;

use super::common_type::common_flat_type;
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
        DataType::BinaryView => array.as_binary_view().clone(),
        DataType::LargeUtf8 => StringViewArray::from(array.as_string::<i64>()).to_binary_view(),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            // An untyped array may declare any number of nulls without taking memory.
            if dictionary.values().data_type().is_null() {
                return Ok(BinaryViewArray::new_null(array.len()));
            }
            let values = views(dictionary.values())?;
            take(&values, dictionary.keys(), None)?.as_binary_view().clone()
        }
        flat if is_text(flat) => checked(array, &DataType::BinaryView)?.as_binary_view().clone(),
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
/// The type does not hold all values of the array's type, or a value that is not null does not fit it.
pub(crate) fn cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    use DataType::{
        Binary, BinaryView, Date32, Date64, Dictionary, FixedSizeList, LargeBinary, LargeList, LargeUtf8,
        List, Map, Struct, Utf8, Utf8View,
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
        (Date64, Date32) => Arc::new(days(array)?),
        (Struct(_), Struct(fields)) => Arc::new(struct_of(array.as_struct(), fields)?),
        (List(_), List(item) | LargeList(item)) => {
            checked(&list_of(array.as_list::<i32>().clone(), item)?, to)?
        }
        (LargeList(_), LargeList(item)) => Arc::new(list_of(array.as_list::<i64>().clone(), item)?),
        (FixedSizeList(_, length), List(item) | LargeList(item)) => {
            checked(&fixed_list_of(array.as_fixed_size_list(), item, *length)?, to)?
        }
        (FixedSizeList(_, from), FixedSizeList(item, length)) if from == length => {
            Arc::new(fixed_list_of(array.as_fixed_size_list(), item, *length)?)
        }
        (Map(..), Map(entries, sorted)) => Arc::new(map_of(array.as_map(), entries, *sorted)?),
        (from, _) if common_flat_type(to, from).as_ref() == Some(to) => checked(array, to)?,
        (from, _) => return Err(ArrowError::CastError(format!("{from} cannot be converted to {to}"))),
    })
}

/// Arrow's conversion.
///
/// # Errors
/// Arrow has no such conversion, or a value that is not null does not fit the type.
fn checked(array: &dyn Array, to: &DataType) -> Result<ArrayRef, ArrowError> {
    // Arrow calls it safe to turn values that do not fit into nulls.
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, to, &options).map_err(|cause| outside(array.data_type(), to, &cause))
}

/// The error that a value does not fit a type.
fn outside(from: &DataType, to: &DataType, cause: impl std::fmt::Display) -> ArrowError {
    ArrowError::CastError(format!("a value of {from} does not fit into {to}: {cause}"))
}

/// The days that dates in milliseconds are in. The time of day is lost.
///
/// # Errors
/// A day does not fit a 32-bit number.
fn days(dates: &dyn Array) -> Result<Date32Array, ArrowError> {
    let day = |at: i64| {
        let day = i32::try_from(at.div_euclid(DAY_MILLISECONDS));
        day.map_err(|_| outside(dates.data_type(), &DataType::Date32, at))
    };
    dates.as_primitive::<Date64Type>().try_unary(day)
}

/// Copies views to plain values with offsets. Views of nulls take no memory, whatever length they have.
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

/// Converts the items of fixed-size lists, except those of null lists.
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

/// Converts the items of lists, except those of null lists.
///
/// # Errors
/// An item cannot be converted.
fn list_of<O: OffsetSizeTrait>(
    mut list: GenericListArray<O>,
    item: &FieldRef,
) -> Result<GenericListArray<O>, ArrowError> {
    if list.offsets().has_non_empty_nulls(list.nulls()) {
        let rows = UInt64Array::from_iter_values(0..to_u64(list.len()));
        list = take(&list, &rows, None)?.as_list().clone();
    }
    let (_, offsets, items, nulls) = list.into_parts();
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    let items = cast(&items.slice(first.as_usize(), (last - first).as_usize()), item.data_type())?;
    GenericListArray::try_new(Arc::clone(item), offsets.subtract(first), items, nulls)
}

/// Converts the keys and values of maps, except those of null maps.
///
/// # Errors
/// A key or value cannot be converted.
fn map_of(map: &MapArray, entries: &FieldRef, sorted: bool) -> Result<MapArray, ArrowError> {
    let (_, offsets, items, nulls) = list_of(ListArray::from(map.clone()), entries)?.into_parts();
    MapArray::try_new(Arc::clone(entries), offsets, items.as_struct().clone(), nulls, sorted)
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use arrow::array::{
        ArrayData, BinaryArray, Date64Array, Decimal128Array, DictionaryArray, Int8Array, Int32Array,
        Int64Array, LargeBinaryArray, LargeListArray, LargeStringArray, NullArray, PrimitiveArray,
        StringArray, Time32MillisecondArray, Time32SecondArray, TimestampMillisecondArray,
        TimestampSecondArray, make_array, make_view,
    };
    use arrow::buffer::{Buffer, OffsetBuffer};
    use arrow::datatypes::{
        ArrowPrimitiveType, Date32Type, Field, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type,
        Int32Type, Int64Type, IntervalUnit, TimeUnit, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    };
    use proptest::collection::vec;
    use proptest::option::of;
    use proptest::prelude::*;

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

    /// Conversion gives equal values at three levels of nesting, and for slices.
    #[test]
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

    /// Values that overflow are errors unless they are null, or hidden by a null of a parent.
    #[test]
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
            assert_eq!(cast(&make_array(hidden), &to).expect("a null").null_count(), 1);
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

    /// For each type of numbers: the numbers in a sample, and the other types that hold all of its numbers.
    const NUMBERS: [(DataType, [&str; 4], &[DataType]); 11] = {
        use DataType::{Float16, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
        [
            (Int8, ["-128", "127", "1", "0"], &[Int16, Int32, Int64, Float16, Float32, Float64]),
            (Int16, ["-32768", "32767", "1", "0"], &[Int32, Int64, Float32, Float64]),
            (Int32, ["-2147483648", "2147483647", "1", "0"], &[Int64, Float64]),
            (Int64, ["-9223372036854775808", "9223372036854775807", "1", "0"], &[]),
            (
                UInt8,
                ["255", "128", "1", "0"],
                &[UInt16, UInt32, UInt64, Int16, Int32, Int64, Float16, Float32, Float64],
            ),
            (UInt16, ["65535", "32768", "1", "0"], &[UInt32, UInt64, Int32, Int64, Float32, Float64]),
            (UInt32, ["4294967295", "2147483648", "1", "0"], &[UInt64, Int64, Float64]),
            (UInt64, ["18446744073709551615", "9223372036854775808", "1", "0"], &[]),
            (Float16, ["65504", "-0.5", "inf", "-0"], &[Float32, Float64]),
            (Float32, ["16777215", "-0.5", "inf", "-0"], &[Float64]),
            (Float64, ["9007199254740991", "-0.5", "inf", "-0"], &[]),
        ]
    };

    /// Numbers that are written like this, with a null among them.
    fn numbers(data_type: &DataType, texts: [&str; 4]) -> ArrayRef {
        fn parsed<T: ArrowPrimitiveType<Native: FromStr>>(texts: [&str; 4]) -> ArrayRef {
            let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{text} as {}", T::DATA_TYPE));
            let [one, two, three, four] = texts.map(|text| Some(number(text)));
            array(PrimitiveArray::<T>::from_iter([one, two, None, three, four]))
        }
        match data_type {
            DataType::Int8 => parsed::<Int8Type>(texts),
            DataType::Int16 => parsed::<Int16Type>(texts),
            DataType::Int32 => parsed::<Int32Type>(texts),
            DataType::Int64 => parsed::<Int64Type>(texts),
            DataType::UInt8 => parsed::<UInt8Type>(texts),
            DataType::UInt16 => parsed::<UInt16Type>(texts),
            DataType::UInt32 => parsed::<UInt32Type>(texts),
            DataType::UInt64 => parsed::<UInt64Type>(texts),
            DataType::Float16 => parsed::<Float16Type>(texts),
            DataType::Float32 => parsed::<Float32Type>(texts),
            DataType::Float64 => parsed::<Float64Type>(texts),
            other => panic!("{other} holds no numbers"),
        }
    }

    /// Numbers are converted to types that hold all numbers of their type, and to no others, even if they would fit.
    #[test]
    fn numbers_become_wider_ones_only() {
        for (from, texts, wider) in &NUMBERS {
            for (to, ..) in NUMBERS.iter().filter(|(to, ..)| to != from) {
                if !wider.contains(to) {
                    let problem = cast(&numbers(from, ["0", "1", "0", "1"]), to).expect_err("refused");
                    let expected = format!("{from} cannot be converted to {to}");
                    assert!(problem.to_string().contains(&expected), "{problem}");
                    continue;
                }
                let (given, expected) = (numbers(from, *texts), numbers(to, *texts));
                assert_eq!(&cast(&given, to).expect("wider"), &expected, "{from} to {to}");
            }
        }
    }

    /// The zones of timestamps in the samples: none, two names of one zone, and another one.
    const ZONES: [Option<&str>; 4] = [None, Some("UTC"), Some("+00:00"), Some("+01:00")];

    /// The units of times, coarse to fine.
    const UNITS: [TimeUnit; 4] =
        [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];

    /// Types that are no numbers, and the others of these types that hold all values of each.
    fn conversions() -> Vec<(DataType, Vec<DataType>)> {
        use DataType::{
            Binary, BinaryView, Boolean, Date32, Date64, Decimal32, Decimal128, Decimal256, FixedSizeBinary,
            FixedSizeList, Int32, Int64, Interval, LargeBinary, LargeList, LargeUtf8, List, ListView, Utf8,
            Utf8View,
        };
        let item = |of| Arc::new(Field::new("item", of, true));
        let (small, large) = (|| item(Int32), || item(Int64));
        let pair = |of: DataType| DataType::Struct(vec![Field::new("a", of, true)].into());
        let both = |of: DataType| {
            DataType::Struct(vec![Field::new("a", of, true), Field::new("b", Utf8, true)].into())
        };
        let flat = [
            (Boolean, vec![]),
            (Utf8, vec![LargeUtf8]),
            (LargeUtf8, vec![]),
            (Utf8View, vec![Utf8, LargeUtf8]),
            (Binary, vec![LargeBinary]),
            (LargeBinary, vec![]),
            (BinaryView, vec![Binary, LargeBinary]),
            (FixedSizeBinary(4), vec![]),
            (Date32, vec![]),
            (Date64, vec![Date32]),
            (Interval(IntervalUnit::DayTime), vec![]),
            (Decimal32(5, 2), vec![]),
            (Decimal32(9, 2), vec![]),
            (Decimal128(5, 2), vec![Decimal128(9, 2)]),
            (Decimal128(9, 2), vec![]),
            (Decimal128(9, 3), vec![]),
            (Decimal256(5, 2), vec![Decimal256(9, 2)]),
            (Decimal256(9, 2), vec![]),
            (Int32, vec![Int64]),
            (Int64, vec![]),
        ];
        let nested = [
            (List(small()), vec![List(large()), LargeList(small()), LargeList(large())]),
            (List(large()), vec![LargeList(large())]),
            (LargeList(small()), vec![LargeList(large())]),
            (LargeList(large()), vec![]),
            (
                FixedSizeList(small(), 2),
                vec![
                    List(small()),
                    List(large()),
                    LargeList(small()),
                    LargeList(large()),
                    FixedSizeList(large(), 2),
                ],
            ),
            (FixedSizeList(large(), 2), vec![List(large()), LargeList(large())]),
            (
                FixedSizeList(small(), 3),
                vec![List(small()), List(large()), LargeList(small()), LargeList(large())],
            ),
            (ListView(small()), vec![]),
            (ListView(large()), vec![]),
            (pair(Int32), vec![pair(Int64), both(Int32), both(Int64)]),
            (pair(Int64), vec![both(Int64)]),
            (both(Int32), vec![pair(Int32), pair(Int64), both(Int64)]),
            (both(Int64), vec![pair(Int64)]),
        ];
        let finer = |unit: usize, of: &dyn Fn(TimeUnit) -> DataType| -> Vec<DataType> {
            UNITS[unit + 1..].iter().map(|&to| of(to)).collect()
        };
        let clock = |unit| match unit {
            TimeUnit::Second | TimeUnit::Millisecond => DataType::Time32(unit),
            TimeUnit::Microsecond | TimeUnit::Nanosecond => DataType::Time64(unit),
        };
        let moment = |zone: Option<&str>| {
            let zone = zone.map(Arc::<str>::from);
            move |unit| DataType::Timestamp(unit, zone.clone())
        };
        let times = (0..4).flat_map(|unit| {
            let mut times = vec![
                (clock(UNITS[unit]), finer(unit, &clock)),
                (DataType::Duration(UNITS[unit]), finer(unit, &DataType::Duration)),
            ];
            for (at, zone) in ZONES.into_iter().enumerate() {
                let mut to = finer(unit, &moment(zone));
                if let Some(same) = [None, Some(ZONES[2]), Some(ZONES[1]), None][at] {
                    to.extend(UNITS[unit..].iter().map(|&to| moment(same)(to)));
                }
                times.push((moment(zone)(UNITS[unit]), to));
            }
            times
        });
        flat.into_iter().chain(nested).chain(times.collect::<Vec<_>>()).collect()
    }

    /// Only types that hold all values of another type are converted to, whatever the values are. The values of a
    /// dictionary are converted like any others, and nulls without a type become nulls of any type.
    #[test]
    fn types_are_converted_to_those_that_hold_all_their_values() {
        let conversions = conversions();
        let mut wrong = Vec::new();
        for (from, allowed) in &conversions {
            let in_dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(from.clone()));
            for (to, _) in &conversions {
                let expected = (from == to || allowed.contains(to)).then(|| new_null_array(to, 2));
                for given in [from, &in_dictionary] {
                    let found = cast(&new_null_array(given, 2), to).ok();
                    if found.as_ref().map(|found| found.to_data())
                        != expected.as_ref().map(|nulls| nulls.to_data())
                    {
                        wrong.push(format!("{given} to {to}"));
                    }
                }
            }
            let nulls = new_null_array(&DataType::Null, 3);
            assert_eq!(&cast(&nulls, from).expect("nulls"), &new_null_array(from, 3));
        }
        assert!(wrong.is_empty(), "{wrong:?}");
    }

    /// Times, dates or decimals that are stored as these numbers. Arrow only changes the type.
    fn stored(numbers: &[Option<i64>], as_type: &DataType) -> ArrayRef {
        let mut found = array(Int64Array::from(numbers.to_vec()));
        if matches!(as_type, DataType::Time32(_)) {
            found = arrow::compute::cast(&found, &DataType::Int32).expect("numbers");
        }
        arrow::compute::cast(&found, as_type).expect("the same numbers")
    }

    proptest! {
        /// Times are multiplied by the ratio of the units, or are an error if one that is no null gets too large.
        #[test]
        fn times_in_finer_units_are_the_same_times(
            numbers in vec(of(prop_oneof![any::<i64>(), -100_000_i64..100_000]), 0..4),
            (from, to) in (0_usize..4, 0_usize..4),
            kind in 0_usize..3,
        ) {
            let (from, to) = (from.min(to), from.max(to));
            let data_type = |unit: usize| match (kind, unit) {
                (0, _) => DataType::Timestamp(UNITS[unit], Some("+01:00".into())),
                (1, _) => DataType::Duration(UNITS[unit]),
                (_, 0 | 1) => DataType::Time32(UNITS[unit]),
                (_, _) => DataType::Time64(UNITS[unit]),
            };
            let is_narrow = |unit: usize| kind == 2 && unit < 2;
            let fits = |number: &i64, unit| !is_narrow(unit) || i32::try_from(*number).is_ok();
            let numbers: Vec<_> = numbers.into_iter().map(|number| number.filter(|at| fits(at, from))).collect();
            let factor = (from..to).fold(1, |factor, _| 1_000 * factor);
            let product = |number: i64| number.checked_mul(factor).filter(|at| fits(at, to));
            let products: Vec<_> = numbers.iter().map(|number| number.and_then(product)).collect();
            let is_exact = numbers.iter().zip(&products).all(|(one, other)| one.is_some() == other.is_some());
            match cast(&stored(&numbers, &data_type(from)), &data_type(to)) {
                Ok(found) => {
                    prop_assert!(is_exact);
                    prop_assert_eq!(&found, &stored(&products, &data_type(to)));
                }
                Err(problem) => {
                    prop_assert!(!is_exact);
                    prop_assert!(problem.to_string().contains("does not fit into"));
                }
            }
        }

        /// The day of a date in milliseconds begins at that time or less than a day before, also before 1970.
        #[test]
        fn dates_in_milliseconds_become_the_day_that_they_are_in(
            at in prop_oneof![any::<i64>(), -1_000_000_000_000_i64..1_000_000_000_000],
        ) {
            match cast(&array(Date64Array::from(vec![at])), &DataType::Date32) {
                Ok(days) => {
                    let day = days.as_primitive::<Date32Type>().value(0);
                    let begins = i128::from(day) * i128::from(DAY_MILLISECONDS);
                    prop_assert!((begins..begins + i128::from(DAY_MILLISECONDS)).contains(&i128::from(at)));
                }
                Err(_) => {
                    let days = at.unsigned_abs() / DAY_MILLISECONDS.unsigned_abs();
                    prop_assert!(days >= u64::from(i32::MIN.unsigned_abs()));
                }
            }
        }

        /// Decimals with more digits are the same numbers.
        #[test]
        fn decimals_with_more_digits_are_the_same(numbers in vec(of(any::<i64>()), 0..4)) {
            let decimals = |digits| {
                let numbers = numbers.iter().map(|number| number.map(i128::from));
                let decimals = Decimal128Array::from_iter(numbers);
                array(decimals.with_precision_and_scale(digits, 3).expect("enough digits"))
            };
            prop_assert_eq!(&cast(&decimals(19), decimals(38).data_type()).expect("as many"), &decimals(38));
        }

        /// Texts are the same in every type that holds them, also in slices.
        #[test]
        fn texts_are_the_same_in_other_types(
            texts in vec(of("[a-zé]{0,15}"), 0..6),
            skipped in 0_usize..6,
        ) {
            let texts: Vec<_> = texts.iter().map(Option::as_deref).collect();
            let bytes = || texts.iter().map(|text| text.map(str::as_bytes));
            let strings = [
                array(StringViewArray::from(texts.clone())),
                array(StringArray::from(texts.clone())),
                array(LargeStringArray::from(texts.clone())),
            ];
            let binaries = [
                array(BinaryViewArray::from_iter(bytes())),
                array(BinaryArray::from_iter(bytes())),
                array(LargeBinaryArray::from_iter(bytes())),
            ];
            let skipped = skipped.min(texts.len());
            for kinds in [strings, binaries] {
                let kinds = kinds.map(|kind| kind.slice(skipped, texts.len() - skipped));
                for (from, to) in [(0, 1), (0, 2), (1, 2)] {
                    prop_assert_eq!(&cast(&kinds[from], kinds[to].data_type()).expect("texts"), &kinds[to]);
                }
            }
        }
    }

    /// Views that are 4 GiB in total, of one MiB.
    fn vast(nulls: Option<NullBuffer>) -> ArrayRef {
        let buffer = Buffer::from_vec(vec![b'a'; 1 << 20]);
        let view = make_view(&buffer, 0, 0);
        array(BinaryViewArray::try_new(vec![view; 1 << 12].into(), vec![buffer], nulls).expect("views"))
    }

    /// Values that have more bytes than the offsets can count are an error. Those of nulls do not count.
    #[test]
    fn values_that_are_too_long_together_are_an_error() {
        let problem = cast(&vast(None), &DataType::Binary).expect_err("4 GiB").to_string();
        assert!(problem.contains("4294967296"), "{problem}");
        for to in [DataType::Binary, DataType::LargeBinary] {
            let nulls = cast(&vast(Some(NullBuffer::new_null(1 << 12))), &to).expect("nulls");
            assert_eq!(nulls.null_count(), 1 << 12);
            assert!(nulls.get_buffer_memory_size() < 1 << 17, "{}", nulls.get_buffer_memory_size());
        }
    }

    /// Values that no row of a dictionary uses need not fit.
    #[test]
    fn values_of_a_dictionary_that_no_row_uses_are_not_converted() {
        let seconds = array(TimestampSecondArray::from(vec![7, i64::MAX]));
        let given = array(DictionaryArray::<Int8Type>::new(Int8Array::from(vec![0, 0]), seconds));
        let expected = array(TimestampMillisecondArray::from(vec![7_000, 7_000]));
        assert_eq!(&cast(&given, expected.data_type()).expect("both fit"), &expected);
    }

    /// Views use the memory of the array, or of its dictionary.
    #[test]
    fn views_share_the_memory_of_the_text() {
        fn holds(data: &ArrayData, byte: *const u8) -> bool {
            data.buffers().iter().any(|buffer| buffer.as_ptr_range().contains(&byte))
                || data.child_data().iter().any(|child| holds(child, byte))
        }
        let plain = flat().into_iter().flat_map(|(given, written)| [given, written]);
        for text in plain.filter(|array| is_text(array.data_type())) {
            let long = views(&text).expect("text").value(2).as_ptr();
            // Views are made of a short text, but not of one that has more than 12 bytes.
            assert!(holds(&text.to_data(), long), "{}", text.data_type());
        }
    }
}
