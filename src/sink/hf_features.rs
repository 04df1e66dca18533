//! Describes the columns of an output in the terms of the Python library `datasets`.
//!
//! `load_dataset` takes the types of columns from the metadata of a Parquet file, or from the head of the dataset
//! card. Without a description, it infers them, and then loses UUID and other types.

use arrow::datatypes::{DataType, FieldRef, Schema, TimeUnit};
use arrow_schema::extension::{ExtensionType, Json, Uuid};
use serde_json::{Map, Value, json};

/// The types of an output's columns as `datasets` names them.
///
/// They are written in a form that versions 2 to 5 read alike: `Sequence` for lists of values, and a JSON list for
/// lists of structs. Older versions turn a `Sequence` of structs into a struct of lists.
pub(super) struct HfFeatures(Vec<(String, HfFeature)>);

/// A type in the terms of `datasets`.
enum HfFeature {
    /// A type without children, by its name.
    Value(String),
    /// A list with 32-bit offsets.
    List(Box<HfFeature>),
    /// A list with 64-bit offsets.
    LargeList(Box<HfFeature>),
    /// A list of fixed length.
    FixedList(Box<HfFeature>, i32),
    /// Named fields in order.
    Struct(Vec<(String, HfFeature)>),
}

impl HfFeatures {
    /// The features of a schema; `None` if `datasets` has no name for one of the types. It then infers the types
    /// itself.
    pub(super) fn of(schema: &Schema) -> Option<HfFeatures> {
        named_features(schema.fields()).map(HfFeatures)
    }

    /// The features in the form of the file metadata. It is the value under [`FEATURES_KEY`](super::FEATURES_KEY).
    pub(super) fn json(&self) -> Value {
        json!({ "info": { "features": object(&self.0, HfFeature::json) } })
    }

    /// The features in the form of the head of a dataset card, one line per column. Each line is JSON, which is also
    /// YAML and safe for any column name if characters that YAML does not accept are escaped.
    pub(super) fn yaml_lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|named| format!("- {}", printable(&named_yaml(named).to_string())))
    }
}

/// The names of fields with their features; `None` if `datasets` has no name for one of the types.
fn named_features(fields: &[FieldRef]) -> Option<Vec<(String, HfFeature)>> {
    fields.iter().map(|field| Some((field.name().clone(), HfFeature::of(field)?))).collect()
}

/// A column that `datasets` cannot read without help. The column is written nevertheless, with a note for the user.
pub(crate) struct UnsupportedColumn {
    /// The name of the column.
    pub(crate) column: String,
    /// What in the column it does not read.
    pub(crate) what: String,
    /// Whether it reads the column if it finds the dataset card, which describes the type.
    pub(crate) by_card: bool,
}

/// The columns of an output's schema that `datasets` cannot read, or only with the dataset card.
pub(crate) fn columns_datasets_cannot_read(schema: &Schema) -> Vec<UnsupportedColumn> {
    let by_card = HfFeatures::of(schema).is_some();
    let unread = |field: &FieldRef| {
        Some(UnsupportedColumn { column: field.name().clone(), what: unread(field)?, by_card })
    };
    schema.fields().iter().filter_map(unread).collect()
}

/// What in a field `datasets` version 5 cannot read; `None` if it can read everything. Nested types are searched, and
/// the first obstacle is returned.
fn unread(field: &FieldRef) -> Option<String> {
    if let Some(name) = extension(field) {
        return Some(format!("values of {name}"));
    }
    match field.data_type() {
        DataType::Map(..) => Some("maps".to_owned()),
        DataType::Decimal32(..) | DataType::Decimal64(..) => Some("decimals of 32 or 64 bits".to_owned()),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => unread(item),
        DataType::Struct(fields) => fields.iter().find_map(unread),
        _ => None,
    }
}

/// The extension type of a field, if pyarrow knows it but `datasets` has no name for it. `datasets` reads JSON, and
/// reads extension types that pyarrow does not know as their storage type.
fn extension(field: &FieldRef) -> Option<&str> {
    field.extension_type_name().filter(|name| name.starts_with("arrow.") && *name != Json::NAME)
}

/// Escapes the characters that YAML treats as line breaks or as not printable. JSON has already escaped the others.
fn printable(json: &str) -> String {
    let mut printed = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                printed.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            plain => printed.push(plain),
        }
    }
    printed
}

/// A JSON object with a value for each field, in the order of the fields.
fn object(fields: &[(String, HfFeature)], value: impl Fn(&HfFeature) -> Value) -> Value {
    fields.iter().map(|(name, feature)| (name.clone(), value(feature))).collect::<Map<_, _>>().into()
}

/// A field in the form of the dataset card: its name, then its type.
fn named_yaml((name, feature): &(String, HfFeature)) -> Value {
    let mut object = Map::from_iter([("name".to_owned(), json!(name))]);
    object.extend(feature.yaml());
    object.into()
}

impl HfFeature {
    /// The feature of a field; `None` if `datasets` has no name for its type.
    fn of(field: &FieldRef) -> Option<HfFeature> {
        let boxed = |item: &FieldRef| HfFeature::of(item).map(Box::new);
        Some(match field.data_type() {
            DataType::List(item) => HfFeature::List(boxed(item)?),
            DataType::LargeList(item) => HfFeature::LargeList(boxed(item)?),
            DataType::FixedSizeList(item, length) => HfFeature::FixedList(boxed(item)?, *length),
            DataType::Struct(fields) => HfFeature::Struct(named_features(fields)?),
            DataType::FixedSizeBinary(16) if field.extension_type_name() == Some(Uuid::NAME) => {
                HfFeature::Value("fixed_size_binary[16]".to_owned())
            }
            value => HfFeature::Value(value_name(value)?),
        })
    }

    /// The feature in the form of the file metadata.
    fn json(&self) -> Value {
        match self {
            HfFeature::Value(dtype) => json!({ "dtype": dtype, "_type": "Value" }),
            HfFeature::List(item) if matches!(**item, HfFeature::Struct(_)) => json!([item.json()]),
            HfFeature::List(item) => json!({ "feature": item.json(), "_type": "Sequence" }),
            HfFeature::LargeList(item) => json!({ "feature": item.json(), "_type": "LargeList" }),
            HfFeature::FixedList(item, length) => {
                json!({ "feature": item.json(), "length": length, "_type": "Sequence" })
            }
            HfFeature::Struct(fields) => object(fields, HfFeature::json),
        }
    }

    /// The feature in the form of the dataset card, without a name.
    fn yaml(&self) -> Map<String, Value> {
        let (key, value) = match self {
            HfFeature::Value(dtype) => ("dtype", json!(dtype)),
            HfFeature::List(item) if matches!(**item, HfFeature::Struct(_)) => ("list", item.yaml_item()),
            HfFeature::List(item) | HfFeature::FixedList(item, _) => ("sequence", item.yaml_item()),
            HfFeature::LargeList(item) => ("large_list", item.yaml_item()),
            HfFeature::Struct(fields) => ("struct", fields.iter().map(named_yaml).collect()),
        };
        let mut object = Map::from_iter([(key.to_owned(), value)]);
        if let HfFeature::FixedList(_, length) = self {
            object.insert("length".to_owned(), json!(length));
        }
        object
    }

    /// The short form within a list.
    fn yaml_item(&self) -> Value {
        match self {
            HfFeature::Value(dtype) => json!(dtype),
            HfFeature::Struct(fields) => fields.iter().map(named_yaml).collect(),
            list => list.yaml().into(),
        }
    }
}

/// The name of a type without children; `None` if `datasets` has none.
fn value_name(data_type: &DataType) -> Option<String> {
    let name = match data_type {
        DataType::Boolean => "bool",
        DataType::Utf8 => "string",
        DataType::LargeUtf8 => "large_string",
        DataType::LargeBinary => "large_binary",
        DataType::Null | DataType::Binary | DataType::Date32 | DataType::Date64 => {
            return Some(data_type.to_string().to_lowercase());
        }
        number if number.is_integer() || number.is_floating() => {
            return Some(number.to_string().to_lowercase());
        }
        DataType::Time32(unit) => return Some(format!("time32[{}]", unit_name(*unit))),
        DataType::Time64(unit) => return Some(format!("time64[{}]", unit_name(*unit))),
        DataType::Duration(unit) => return Some(format!("duration[{}]", unit_name(*unit))),
        DataType::Timestamp(unit, None) => return Some(format!("timestamp[{}]", unit_name(*unit))),
        DataType::Timestamp(unit, Some(zone)) => {
            return Some(format!("timestamp[{}, tz={zone}]", unit_name(*unit)));
        }
        DataType::Decimal128(precision, scale) => return Some(format!("decimal128({precision}, {scale})")),
        DataType::Decimal256(precision, scale) => return Some(format!("decimal256({precision}, {scale})")),
        _ => return None,
    };
    Some(name.to_owned())
}

/// The unit in the names of time types.
fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::Field;

    use super::*;

    /// The columns that version 5.2 refused, from files that pyarrow wrote.
    #[test]
    fn columns_that_datasets_does_not_read_are_known() {
        let field =
            |name: &str, data_type: DataType| -> FieldRef { Arc::new(Field::new(name, data_type, true)) };
        let key_and_value = [field("key", DataType::Utf8), field("value", DataType::Utf8)];
        let entries = field("entries", DataType::Struct(key_and_value.into_iter().collect()));
        let map = || DataType::Map(Arc::clone(&entries), false);
        let columns = [
            field("map", map()),
            field("in a list", DataType::List(field("item", map()))),
            field("in a struct", DataType::Struct([field("m", map())].into_iter().collect())),
            field("decimal", DataType::Decimal64(12, 1)),
            field("text", DataType::Utf8),
            field("bytes", DataType::FixedSizeBinary(16)),
            field("wide", DataType::Decimal128(12, 1)),
            field("struct", entries.data_type().clone()),
        ];
        let unread = |columns: &[FieldRef]| -> Vec<(String, bool)> {
            let unread = columns_datasets_cannot_read(&Schema::new(columns.to_vec())).into_iter();
            unread.map(|unread| (unread.column, unread.by_card)).collect()
        };
        let no = ["map", "in a list", "in a struct", "decimal"].map(|name| (name.to_owned(), false));
        assert_eq!(unread(&columns), no);
        // Version 5.2 read these from a folder with a card, but not from bare files.
        let extended = |name: &str, data_type: DataType, extension: &str| -> FieldRef {
            Arc::new(crate::source::with_extension(Field::new(name, data_type, true), extension))
        };
        let uuid = extended("uuid", DataType::FixedSizeBinary(16), "arrow.uuid");
        let columns = [
            field("in a list", DataType::List(Arc::clone(&uuid))),
            field("in a struct", DataType::Struct([Arc::clone(&uuid)].into_iter().collect())),
            extended("bool8", DataType::Int8, "arrow.bool8"),
            extended("json", DataType::Utf8, "arrow.json"),
            extended("other", DataType::Int8, "acme.small"),
            field("text", DataType::Utf8),
        ];
        let by_card = ["in a list", "in a struct", "bool8"].map(|name| (name.to_owned(), true));
        assert_eq!(unread(&columns), by_card);
        // The card omits the features if one of the columns has no name in `datasets`.
        assert_eq!(
            unread(&[uuid, field("bytes", DataType::FixedSizeBinary(16))]),
            [("uuid".to_owned(), false)]
        );
    }
}
