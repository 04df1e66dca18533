//! Selects the columns of a Parquet file that are read, and the types they are read as.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use arrow_schema::extension::{ExtensionType, Json, Uuid};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::{LogicalType, Type as PhysicalType};
use parquet::file::metadata::{FileMetaData, ParquetMetaData};
use parquet::schema::types::{SchemaDescriptor, Type, TypePtr};

use super::super::row_text::PathStep;
use crate::source::cast::is_text;
use crate::source::passthrough::{ADJUSTED_TO_UTC, ONLY_PARQUET, fields_of, with_extension, with_metadata};
use crate::source::row_text::Projection;

/// The index of the leaf column at the end of a path of fields. (Parquet stores a nested schema as leaf columns in
/// depth-first order.)
pub(super) fn leaf_of(fields: &Fields, path: &[usize]) -> usize {
    let Some((&at, below)) = path.split_first() else { return 0 };
    let before: usize = fields.iter().take(at).map(|field| leaves(field.data_type())).sum();
    match fields.get(at).map(|field| field.data_type()) {
        Some(DataType::Struct(inner)) => before + leaf_of(inner, below),
        _ => before,
    }
}

/// The indices of the leaf columns below the end of a path of steps.
pub(super) fn leaves_of(fields: &Fields, steps: &[PathStep]) -> Range<usize> {
    let Some((PathStep::Field(at, _), mut steps)) = steps.split_first() else { return 0..0 };
    let before: usize = fields.iter().take(*at).map(|field| leaves(field.data_type())).sum();
    let Some(field) = fields.get(*at) else { return before..before };
    let mut data_type = field.data_type();
    while let (
        Some(PathStep::Items),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _),
    ) = (steps.first(), data_type)
    {
        (steps, data_type) = (&steps[1..], item.data_type());
    }
    match data_type {
        DataType::Struct(inner) if !steps.is_empty() => {
            let below = leaves_of(inner, steps);
            before + below.start..before + below.end
        }
        whole => before..before + leaves(whole),
    }
}

/// Number of leaf columns of a field with this type.
fn leaves(data_type: &DataType) -> usize {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| leaves(field.data_type())).sum(),
        other => fields_of(other).first().map_or(1, |item| leaves(item.data_type())),
    }
}

/// The schema with plain decimals in place of dictionaries of decimals, which the reader does not support.
pub(super) fn readable(schema: &Schema) -> Schema {
    let plain = |data_type: &DataType| match data_type {
        DataType::Dictionary(_, values) if values.is_decimal() => DataType::clone(values),
        other => other.clone(),
    };
    Schema::new(schema.fields().iter().map(|field| with_types(field, plain)).collect::<Fields>())
}

/// The schema, with annotations of the file that Arrow types do not express (UUID, JSON, UTC, others) as field
/// metadata.
pub(super) fn annotated(schema: &Schema, parquet: &SchemaDescriptor) -> Schema {
    let mut leaf = 0;
    let roots = parquet.root_schema().get_fields();
    let field = |(at, field): (usize, &FieldRef)| {
        let annotated = annotated_field(field, parquet, &mut leaf);
        match roots.get(at).and_then(|root| only_parquet(root.get_basic_info().logical_type_ref())) {
            Some(name) => Arc::new(with_metadata(
                Field::clone(&annotated),
                [(ONLY_PARQUET.to_owned(), name.to_owned())],
            )),
            None => annotated,
        }
    };
    Schema::new(schema.fields().iter().enumerate().map(field).collect::<Fields>())
}

/// The field with the annotations of its leaf columns. `leaf` is the index of the next leaf column.
fn annotated_field(field: &FieldRef, parquet: &SchemaDescriptor, leaf: &mut usize) -> FieldRef {
    if let Some(nested) = with_inner(field, &mut |inner| annotated_field(inner, parquet, leaf)) {
        return nested;
    }
    let declared = parquet.columns().get(*leaf).and_then(|column| column.logical_type_ref());
    *leaf += 1;
    let (field, is_extension) = (Field::clone(field), field.extension_type_name().is_some());
    Arc::new(match (declared, field.data_type()) {
        (Some(LogicalType::Uuid), DataType::FixedSizeBinary(16)) if !is_extension => {
            with_extension(field, Uuid::NAME)
        }
        (Some(LogicalType::Json), flat) if !is_extension && is_text(flat) => {
            with_extension(field, Json::NAME)
        }
        (Some(LogicalType::Time(time)), DataType::Time32(_) | DataType::Time64(_))
            if time.is_adjusted_to_u_t_c =>
        {
            with_metadata(field, [(ADJUSTED_TO_UTC.to_owned(), String::new())])
        }
        (declared, _) => match only_parquet(declared).filter(|_| !is_extension) {
            Some(name) => with_metadata(field, [(ONLY_PARQUET.to_owned(), name.to_owned())]),
            None => field,
        },
    })
}

/// The field with the fields in its type converted by `inner`; `None` if its type has none.
fn with_inner(field: &FieldRef, inner: &mut dyn FnMut(&FieldRef) -> FieldRef) -> Option<FieldRef> {
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        DataType::List(item) => DataType::List(inner(item)),
        DataType::LargeList(item) => DataType::LargeList(inner(item)),
        DataType::ListView(item) => DataType::ListView(inner(item)),
        DataType::LargeListView(item) => DataType::LargeListView(inner(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(inner(item), *length),
        DataType::Map(entries, sorted) => DataType::Map(inner(entries), *sorted),
        _ => return None,
    };
    Some(Arc::new(Field::clone(field).with_data_type(data_type)))
}

/// The name of an annotation that no output format has, although its values can be read.
fn only_parquet(declared: Option<&LogicalType>) -> Option<&'static str> {
    match declared? {
        LogicalType::Enum => Some("ENUM"),
        LogicalType::Bson => Some("BSON"),
        LogicalType::Variant(_) => Some("VARIANT"),
        LogicalType::Geometry(_) => Some("GEOMETRY"),
        LogicalType::Geography(_) => Some("GEOGRAPHY"),
        _ => None,
    }
}

/// The type with views instead of plain strings. Dictionaries are kept, because they share values anyway.
fn shared(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(..) => data_type.clone(),
        other => view_type(other),
    }
}

/// The type of views of the same values, also for the values of a dictionary.
fn view_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Dictionary(_, values) => view_type(values),
        other => other.clone(),
    }
}

/// The field with all leaf types converted by `of`.
fn with_types(field: &FieldRef, of: fn(&DataType) -> DataType) -> FieldRef {
    let flat = || Arc::new(Field::clone(field).with_data_type(of(field.data_type())));
    with_inner(field, &mut |inner| with_types(inner, of)).unwrap_or_else(flat)
}

/// Requests views for the text and the pass-through columns. Views copy nothing, so one long value of a dictionary
/// that a million rows share takes memory once; and they do not overflow at 2 GiB like plain strings. Text is read as
/// bytes, which need not be UTF-8, even if the file declares strings.
///
/// If the file's schema does not allow this request, strings must be UTF-8; and if views are not possible either, the
/// columns are converted to views afterwards.
pub(super) fn as_views(
    metadata: ArrowReaderMetadata,
    schema: &Schema,
    chosen: &Projection,
    leaf: usize,
) -> ArrowReaderMetadata {
    let asked = |of: fn(&DataType) -> DataType| {
        let mut fields = chosen.with_text(schema.fields(), of);
        let composed = chosen.composed.as_ref().map(|_| chosen.roots()).unwrap_or_default();
        for &at in chosen.passed_through.iter().chain(&composed) {
            if let Some(field) = fields.get_mut(at) {
                *field = with_types(field, shared);
            }
        }
        let asked = Schema::new_with_metadata(fields, metadata.schema().metadata().clone());
        ArrowReaderOptions::new().with_schema(Arc::new(asked))
    };
    let (as_bytes, as_it_is) = (asked(|_| DataType::BinaryView), asked(view_type));
    let file = metadata.metadata().file_metadata();
    // A column of untyped nulls has no values to read.
    let keeps_type = chosen.text_is_passed() || chosen.is_untyped(schema.fields());
    let described = if keeps_type { None } else { with_bytes_at(file, leaf) };
    let fits = |file: &FileMetaData| {
        let empty = Arc::new(ParquetMetaData::new(file.clone(), Vec::new()));
        ArrowReaderMetadata::try_new(empty, as_bytes.clone()).is_ok()
    };
    let Some(described) = described.filter(fits) else {
        return ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), as_it_is).unwrap_or(metadata);
    };
    let file = Arc::clone(metadata.metadata());
    // A footer may be large, so it must not exist twice in memory.
    drop(metadata);
    let groups = Arc::unwrap_or_clone(file).into_builder().take_row_groups();
    let file = Arc::new(ParquetMetaData::new(described, groups));
    ArrowReaderMetadata::try_new(file, as_bytes).expect("its schema fits")
}

/// The file's metadata with a string column declared as bytes, so that its values are not checked for UTF-8.
fn with_bytes_at(file: &FileMetaData, leaf: usize) -> Option<FileMetaData> {
    let root = untyped(&file.schema_descr().root_schema_ptr(), leaf)?;
    Some(FileMetaData::new(
        file.version(),
        file.num_rows(),
        file.created_by().map(str::to_owned),
        file.key_value_metadata().cloned(),
        Arc::new(SchemaDescriptor::new(root)),
        file.column_orders().cloned(),
    ))
}

/// The type with one leaf column declared as plain bytes; `None` if the column is no byte array, or if a type that
/// contains it, for example a map, does not allow the change.
fn untyped(from: &TypePtr, leaf: usize) -> Option<TypePtr> {
    let info = from.get_basic_info();
    let id = info.has_id().then(|| info.id());
    let built = match &**from {
        Type::GroupType { fields, .. } => {
            let mut before = 0;
            let field = |field: &TypePtr| {
                let (start, end) = (before, before + primitives(field));
                before = end;
                if (start..end).contains(&leaf) {
                    untyped(field, leaf - start)
                } else {
                    Some(Arc::clone(field))
                }
            };
            let group = Type::group_type_builder(info.name())
                .with_fields(fields.iter().map(field).collect::<Option<_>>()?)
                .with_converted_type(info.converted_type())
                .with_logical_type(info.logical_type_ref().cloned())
                .with_id(id);
            match info.has_repetition() {
                true => group.with_repetition(info.repetition()).build(),
                // The root type has no repetition.
                false => group.build(),
            }
        }
        Type::PrimitiveType { physical_type: PhysicalType::BYTE_ARRAY, .. } => {
            Type::primitive_type_builder(info.name(), PhysicalType::BYTE_ARRAY)
                .with_repetition(info.repetition())
                .with_id(id)
                .build()
        }
        Type::PrimitiveType { .. } => return None,
    };
    built.ok().map(Arc::new)
}

/// Number of leaf columns of a type.
fn primitives(of: &TypePtr) -> usize {
    match &**of {
        Type::GroupType { fields, .. } => fields.iter().map(primitives).sum(),
        Type::PrimitiveType { .. } => 1,
    }
}

#[cfg(test)]
mod tests {
    use parquet::schema::parser::parse_message_type;

    use super::*;

    /// The types that a file with this schema is read as, if its text is at the path `text`.
    fn read_as(message: &str, text: Vec<usize>, passed_through: Vec<usize>) -> Vec<DataType> {
        let root = Arc::new(parse_message_type(message).expect("a schema"));
        let file = FileMetaData::new(1, 0, None, None, Arc::new(SchemaDescriptor::new(root)), None);
        let file = Arc::new(ParquetMetaData::new(file, Vec::new()));
        let metadata = ArrowReaderMetadata::try_new(file, ArrowReaderOptions::new()).expect("a known schema");
        let schema = Schema::clone(metadata.schema());
        let leaf = leaf_of(schema.fields(), &text);
        let read = as_views(metadata, &schema, &Projection { text, passed_through, composed: None }, leaf);
        read.schema().fields().iter().map(|field| field.data_type().clone()).collect()
    }

    /// Only the text becomes bytes, and only if it is a string that is not passed through.
    #[test]
    fn strings_are_read_as_bytes_and_nothing_else_is() {
        use DataType::{BinaryView, Decimal128, Null, Utf8, Utf8View};
        let read = |columns: &str, text: usize, passed_through: &[usize]| {
            read_as(&format!("message m {{ {columns} }}"), vec![text], passed_through.to_vec())
        };
        let two = "optional binary text (STRING); optional binary text (STRING);";
        assert_eq!(read(two, 1, &[]), [Utf8, BinaryView]);
        assert_eq!(read(two, 0, &[0]), [Utf8View, Utf8], "what passes through keeps its type");
        let decimal = "required binary text (STRING); required binary text (DECIMAL(9, 2));";
        assert_eq!(read(decimal, 0, &[]), [BinaryView, Decimal128(9, 2)]);
        assert_eq!(read("optional binary text (UNKNOWN);", 0, &[]), [Null]);
        assert_eq!(read("required binary text (ENUM); required binary json (JSON);", 1, &[])[1], BinaryView);
    }

    /// The text may be nested, beside other fields and lists.
    #[test]
    fn strings_in_groups_are_read_as_bytes() {
        let lists = "required group l (LIST) { repeated group list { optional binary element (STRING); } }";
        let message = format!(
            "message m {{ {lists} optional group a {{ {lists} required group b {{ required binary c (STRING); \
             required int32 d; }} required binary e (STRING); }} }}"
        );
        let types = read_as(&message, vec![1, 1, 0], Vec::new());
        let DataType::Struct(a) = &types[1] else { panic!("{types:?}") };
        let DataType::Struct(b) = a[1].data_type() else { panic!("{types:?}") };
        assert_eq!((b[0].data_type(), b[1].data_type()), (&DataType::BinaryView, &DataType::Int32));
        assert_eq!(a[2].data_type(), &DataType::Utf8);
        assert!(matches!(&types[0], DataType::List(item) if *item.data_type() == DataType::Utf8));
    }
}
