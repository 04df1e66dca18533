//! Annotations of fields: what their metadata says about the values in addition to the type. These are Arrow's
//! extension types, and Parquet annotations that have no Arrow type.

use std::collections::HashMap;

use arrow_schema::extension::{
    Bool8, EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY, ExtensionType, Json, Opaque, Uuid,
};
use arrow_schema::{DataType, Field, FieldRef};

/// The metadata key of a time of day that is in UTC. The Parquet writer looks for it.
pub(crate) const ADJUSTED_TO_UTC: &str = "adjusted_to_utc";

/// The metadata key for the name of a Parquet annotation that no output format keeps.
pub(crate) const ONLY_PARQUET: &str = "parquet_annotation";

/// The metadata keys that are annotations. Other metadata is not compared.
const KEYS: [&str; 4] = [EXTENSION_TYPE_NAME_KEY, EXTENSION_TYPE_METADATA_KEY, ADJUSTED_TO_UTC, ONLY_PARQUET];

/// The field with an extension type that has no parameters.
pub(crate) fn with_extension(field: Field, name: &str) -> Field {
    let said = [(EXTENSION_TYPE_NAME_KEY, name), (EXTENSION_TYPE_METADATA_KEY, "")];
    with_metadata(field, said.map(|(key, value)| (key.to_owned(), value.to_owned())))
}

/// The field with additional metadata.
pub(crate) fn with_metadata(field: Field, added: impl IntoIterator<Item = (String, String)>) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.extend(added);
    field.with_metadata(metadata)
}

/// The annotations of a field.
fn annotations(field: &Field) -> impl Iterator<Item = (&'static str, &str)> {
    KEYS.into_iter().filter_map(|key| Some((key, field.metadata().get(key)?.as_str())))
}

/// The annotations that two fields agree on. A field of the null type agrees with any other.
pub(super) fn common_annotations(one: &Field, other: &Field) -> HashMap<String, String> {
    if one.data_type().is_null() != other.data_type().is_null() {
        let typed = if one.data_type().is_null() { other } else { one };
        return annotations(typed).map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    }
    // The name of an extension type and its parameters are kept or dropped together.
    let same_extension = one.extension_type_name() == other.extension_type_name()
        && (parameters(one) == parameters(other) || one.extension_type_name() == Some(Json::NAME));
    let is_kept = |key: &str, value: &str| match key {
        EXTENSION_TYPE_NAME_KEY | EXTENSION_TYPE_METADATA_KEY => same_extension,
        key => other.metadata().get(key).is_some_and(|other| other == value),
    };
    annotations(one)
        .filter(|(key, value)| is_kept(key, value))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// The parameters of a field's extension type.
fn parameters(field: &Field) -> &str {
    field.extension_type_metadata().unwrap_or("")
}

/// The annotations of a field that still hold if its values are written as another type.
pub(crate) fn kept_annotations(field: &Field, written: &DataType) -> HashMap<String, String> {
    let mut kept = HashMap::new();
    if matches!(written, DataType::Time32(_) | DataType::Time64(_)) {
        let utc = field.metadata().get(ADJUSTED_TO_UTC);
        kept.extend(utc.map(|value| (ADJUSTED_TO_UTC.to_owned(), value.clone())));
    }
    let Some(name) = field.extension_type_name() else { return kept };
    let extension = HashMap::from([
        (EXTENSION_TYPE_NAME_KEY.to_owned(), name.to_owned()),
        (EXTENSION_TYPE_METADATA_KEY.to_owned(), parameters(field).to_owned()),
    ]);
    let plain = Field::new(field.name(), written.clone(), true).with_metadata(extension.clone());
    let is_valid = match name {
        Uuid::NAME => plain.has_valid_extension_type::<Uuid>(),
        Json::NAME => plain.has_valid_extension_type::<Json>(),
        Bool8::NAME => plain.has_valid_extension_type::<Bool8>(),
        Opaque::NAME => true,
        // The requirements of other extension types are unknown, so their names are kept only if the type is
        // unchanged.
        _ => written.equals_datatype(field.data_type()),
    };
    if is_valid {
        kept.extend(extension);
    }
    kept
}

/// The names of annotations that `from`, or a field in it, has and `to` lacks.
pub(crate) fn lost_annotations(from: &Field, to: &Field) -> Vec<String> {
    let mut lost = Vec::new();
    let name = from.extension_type_name().filter(|name| to.extension_type_name() != Some(*name));
    lost.extend(name.map(str::to_owned));
    let has = |key| from.metadata().contains_key(key) && !to.metadata().contains_key(key);
    if has(ADJUSTED_TO_UTC) {
        lost.push("isAdjustedToUTC".to_owned());
    }
    if has(ONLY_PARQUET) {
        lost.extend(from.metadata().get(ONLY_PARQUET).cloned());
    }
    let inner = fields_of(from.data_type());
    let others = fields_of(to.data_type());
    for (at, field) in inner.iter().enumerate() {
        let same = others.iter().find(|other| other.name() == field.name()).or_else(|| others.get(at));
        if let Some(same) = same {
            lost.extend(lost_annotations(field, same));
        }
    }
    lost
}

/// The fields directly inside a type.
fn fields_of(data_type: &DataType) -> Vec<&FieldRef> {
    match data_type {
        DataType::Struct(fields) => fields.iter().collect(),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => vec![item],
        _ => Vec::new(),
    }
}
