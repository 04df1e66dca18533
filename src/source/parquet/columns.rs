//! Which of a Parquet file's columns are read, and as what.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Type as PhysicalType;
use parquet::errors::ParquetError;
use parquet::file::metadata::{FileMetaData, ParquetMetaData, ParquetMetaDataBuilder};
use parquet::schema::types::{SchemaDescriptor, Type, TypePtr};

use super::super::views::Chosen;

/// The number of the leaf at the end of a path of fields.
pub(super) fn leaf_of(fields: &Fields, path: &[usize]) -> usize {
    let Some((&at, below)) = path.split_first() else { return 0 };
    let before: usize = fields.iter().take(at).map(|field| leaves(field.data_type())).sum();
    match fields.get(at).map(|field| field.data_type()) {
        Some(DataType::Struct(inner)) => before + leaf_of(inner, below),
        _ => before,
    }
}

/// How many Parquet columns a field of this type takes.
fn leaves(data_type: &DataType) -> usize {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| leaves(field.data_type())).sum(),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            leaves(item.data_type())
        }
        DataType::ListView(item) | DataType::LargeListView(item) | DataType::Map(item, _) => {
            leaves(item.data_type())
        }
        _ => 1,
    }
}

/// The schema without dictionaries of decimals, which the reader does not know.
pub(super) fn readable(schema: &Schema) -> Schema {
    let plain = |data_type: &DataType| match data_type {
        DataType::Dictionary(_, values) if values.is_decimal() => DataType::clone(values),
        other => other.clone(),
    };
    Schema::new(schema.fields().iter().map(|field| with_types(field, plain)).collect::<Fields>())
}

/// The type with views instead of plain texts. A dictionary shares its values as it is.
fn shared(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        other => other.clone(),
    }
}

/// The field with other types, also in what it holds.
fn with_types(field: &FieldRef, of: fn(&DataType) -> DataType) -> FieldRef {
    let inner = |field| with_types(field, of);
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        DataType::List(item) => DataType::List(inner(item)),
        DataType::LargeList(item) => DataType::LargeList(inner(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(inner(item), *length),
        DataType::Map(entries, sorted) => DataType::Map(inner(entries), *sorted),
        flat => of(flat),
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}

/// Asks for the text, and for what passes through, as views: they copy nothing, so that a dictionary's one long value in a
/// million rows takes no memory, and do not overflow at 2 GiB as plain strings do. Text is bytes, which need not be UTF-8,
/// whatever the file says of it.
///
/// Where the file's schema cannot be asked for in this way the text is read as it is, and made views of
/// afterwards.
pub(super) fn as_views(
    metadata: ArrowReaderMetadata,
    schema: &Schema,
    chosen: &Chosen,
    leaf: usize,
) -> Result<ArrowReaderMetadata, ParquetError> {
    let bytes = |data_type: &DataType| match data_type {
        DataType::Null => DataType::Null,
        _ => DataType::BinaryView,
    };
    let mut fields = chosen.with_text(schema.fields(), bytes);
    for &at in &chosen.pass {
        if let Some(field) = fields.get_mut(at) {
            *field = with_types(field, shared);
        }
    }
    let asked = Schema::new_with_metadata(fields, metadata.schema().metadata().clone());
    let options = ArrowReaderOptions::new().with_schema(Arc::new(asked));
    let mut file = Arc::clone(metadata.metadata());
    // Not there twice: an index may be large.
    drop(metadata);
    if !chosen.passes_text() {
        file = Arc::new(as_bytes(Arc::unwrap_or_clone(file), leaf)?);
    }
    ArrowReaderMetadata::try_new(Arc::clone(&file), options)
        .or_else(|_| ArrowReaderMetadata::try_new(file, ArrowReaderOptions::new()))
}

/// The index with a leaf that holds bytes, if it does, which are not said to be text: so they are not checked for it.
fn as_bytes(metadata: ParquetMetaData, leaf: usize) -> Result<ParquetMetaData, ParquetError> {
    let file = metadata.file_metadata();
    let column = file.schema_descr().column(leaf);
    if column.physical_type() != PhysicalType::BYTE_ARRAY {
        return Ok(metadata);
    }
    let root = untyped(&file.schema_descr().root_schema_ptr(), column.path().parts())?;
    let described = FileMetaData::new(
        file.version(),
        file.num_rows(),
        file.created_by().map(str::to_owned),
        file.key_value_metadata().cloned(),
        Arc::new(SchemaDescriptor::new(root)),
        file.column_orders().cloned(),
    );
    let groups = metadata.into_builder().take_row_groups();
    Ok(ParquetMetaDataBuilder::new(described).set_row_groups(groups).build())
}

/// A type in which the fields at the end of a path are bytes of which nothing is said.
fn untyped(from: &TypePtr, path: &[String]) -> Result<TypePtr, ParquetError> {
    let info = from.get_basic_info();
    let id = info.has_id().then(|| info.id());
    let built = match (&**from, path.split_first()) {
        (Type::GroupType { fields, .. }, Some((name, below))) => {
            let field = |field: &TypePtr| match field.name() == name {
                true => untyped(field, below),
                false => Ok(Arc::clone(field)),
            };
            let fields = fields.iter().map(field).collect::<Result<_, _>>()?;
            let group = Type::group_type_builder(info.name()).with_fields(fields).with_id(id);
            let group = group.with_converted_type(info.converted_type());
            let group = group.with_logical_type(info.logical_type_ref().cloned());
            match info.has_repetition() {
                true => group.with_repetition(info.repetition()).build(),
                // The root has none.
                false => group.build(),
            }
        }
        (Type::PrimitiveType { physical_type: PhysicalType::BYTE_ARRAY, .. }, None) => {
            Type::primitive_type_builder(info.name(), PhysicalType::BYTE_ARRAY)
                .with_repetition(info.repetition())
                .with_id(id)
                .build()
        }
        // Another field of the same name.
        _ => return Ok(Arc::clone(from)),
    };
    built.map(Arc::new)
}
