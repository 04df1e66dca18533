//! The columns of an output and their types, and the metadata of its files.
//!
//! Every Parquet file has the columns `input_ids` and `length`, then the pass-through columns or, if documents are
//! packed, `seq_lengths`. Its metadata declare the tokenizer, and the types in the terms of `datasets`.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use parquet::basic::{Compression as Codec, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::{ColumnPath, SchemaDescriptor};
use serde::{Deserialize, Serialize};

use super::hf_features::HfFeatures;
use super::packing::{MAX_PACKED_LENGTH, Packing};
use crate::base::int::{TokenId, to_u64};
use crate::encode::{Dropout, Encoder, MissingBytes};
use crate::error::{Error, ErrorKind, Result};
use crate::source::{kept_annotations, lost_annotations};
use crate::{FORMAT_VERSION, VERSION};

/// The column of token ids: `list<element: int32>`, null if the document is null.
///
/// The ids are signed because readers expect that, and an unsigned 16-bit column takes the same space on disk. The
/// elements are declared nullable, although none is null: pyarrow and `datasets` write lists that way, and compare
/// types with it.
pub const INPUT_IDS: &str = "input_ids";

/// The column with the number of token ids of each row: `int32`, null if `input_ids` is null.
pub const LENGTH: &str = "length";

/// The column with the lengths of the documents, or parts of documents, in a packed row: `list<element: int32>`.
pub const SEQ_LENGTHS: &str = "seq_lengths";

/// Number of columns that every output has before the pass-through columns or `seq_lengths`: `input_ids` and `length`.
pub(super) const OWN_COLUMNS: usize = 2;

/// The key in the file metadata for a [`Declaration`] in JSON.
pub const DECLARATION_KEY: &str = "tokenmill";

/// The key in the file metadata from which `datasets` and the hub read the types of the columns.
pub const FEATURES_KEY: &str = "huggingface";

/// How token ids are encoded and compressed in Parquet files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Compression {
    /// PLAIN and zstd level 3, which every reader supports.
    #[default]
    Default,
    /// BYTE_STREAM_SPLIT and zstd level 1. This is faster to write, and smaller for prose, but larger for code and
    /// many languages. Readers must support the encoding for integers: DuckDB does so only after 1.5, parquet-java
    /// from 1.15.
    Fast,
}

/// The format of files of token ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum OutputFormat {
    /// Parquet with one row per document.
    #[default]
    Parquet,
    /// Bare ids in `.bin`, little-endian, with 16 bits if all ids of the vocabulary fit, otherwise 32. The `.idx`
    /// beside it has the offset of the first id of each document, and of the end, as 64-bit numbers.
    Bin,
    /// The same `.bin` with Megatron-LM's `.idx` (`MMIDIDX`, version 1). A document without ids has no sequence,
    /// every other document has one.
    Megatron,
}

impl OutputFormat {
    /// The extension of data files, without a dot.
    pub fn extension(self) -> &'static str {
        match self {
            OutputFormat::Parquet => "parquet",
            OutputFormat::Bin | OutputFormat::Megatron => "bin",
        }
    }

    /// Bytes per id in an uncompressed format if all ids are below `ids`; `None` for Parquet.
    pub(crate) fn id_bytes(self, ids: u64) -> Option<u64> {
        (self != OutputFormat::Parquet).then(|| IdWidth::of(ids, self).bytes())
    }

    /// Bytes of the index beside a file with this number of documents, none of them empty. 0 if the format has no
    /// index.
    pub(crate) fn index_bytes(self, documents: u64) -> u64 {
        match self {
            OutputFormat::Parquet => 0,
            OutputFormat::Bin => 8 * (documents + 1),
            OutputFormat::Megatron => 20 * documents + 42,
        }
    }
}

/// The origin of the token ids of a file.
///
/// Readers compare declarations to find out whether files belong together. Files of other programs have none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declaration {
    /// [`FORMAT_VERSION`] of the program that wrote the file.
    pub format_version: u32,
    /// Version of the program that wrote the file.
    pub tool_version: String,
    /// Fingerprint of the tokenizer.
    pub tokenizer: String,
    /// The highest id of the tokenizer plus one: the number of rows that a model's embedding needs. `None` if the
    /// version of the program did not declare it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub vocab_size: Option<u64>,
    /// Hash of the recipe.
    pub recipe: String,
    /// How text that looks like a special token was encoded: `text`, `allow` or `forbid`.
    pub special: String,
    /// How bytes without a token were encoded. Left out if they were an error.
    #[serde(skip_serializing_if = "MissingBytes::is_default", default)]
    pub missing_bytes: MissingBytes,
    /// How merges were left out at random. Left out if none were.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub dropout: Option<Dropout>,
    /// The token before every document that is not null.
    pub bos: Option<DeclaredToken>,
    /// The token after every document that is not null.
    pub eos: Option<DeclaredToken>,
    /// How documents are packed into rows. If `None`, each document is a row. The writer packs as this says.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pack: Option<Packing>,
}

impl Declaration {
    /// The declaration for an encoder: the fingerprint of its vocabulary, its policies, and the tokens that it adds.
    /// The caller sets `recipe` and `pack`.
    pub fn of(encoder: &Encoder) -> Declaration {
        let (vocabulary, config) = (encoder.vocabulary(), encoder.config());
        let declared = |id: TokenId| {
            let text = match vocabulary.special(id) {
                Some(special) => special.text.clone(),
                None => String::from_utf8_lossy(vocabulary.bytes(id).unwrap_or_default()).into_owned(),
            };
            DeclaredToken { id, text }
        };
        Declaration {
            tokenizer: vocabulary.fingerprint(),
            vocab_size: Some(to_u64(vocabulary.id_limit())),
            special: config.special.name().to_owned(),
            missing_bytes: config.missing_bytes,
            dropout: config.dropout,
            bos: config.bos.map(declared),
            eos: config.eos.map(declared),
            ..Declaration::default()
        }
    }

    /// How many tokens encoding puts before and after each document. They are no part of the text.
    pub fn added_per_document(&self) -> u64 {
        u64::from(self.bos.is_some()) + u64::from(self.eos.is_some())
    }
}

impl Default for Declaration {
    /// The versions of this program, no added tokens, and special tokens encoded as text.
    fn default() -> Declaration {
        Declaration {
            format_version: FORMAT_VERSION,
            tool_version: VERSION.to_owned(),
            tokenizer: String::new(),
            vocab_size: None,
            recipe: String::new(),
            special: "text".to_owned(),
            missing_bytes: MissingBytes::default(),
            dropout: None,
            bos: None,
            eos: None,
            pack: None,
        }
    }
}

/// A token that encoding added to a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredToken {
    /// Its id.
    pub id: TokenId,
    /// The text of the token in the vocabulary.
    pub text: String,
}

/// The columns of an output with these pass-through columns: token ids, lengths, and the given columns in the types
/// in which they are written.
///
/// Dictionaries and views become plain columns with the same values, since not every reader supports them. Of the
/// metadata of fields, extension types such as UUID and JSON are kept, and whether a time of day is in UTC. Every
/// column may hold nulls.
///
/// ```
/// use tokenmill::arrow::datatypes::{DataType, Field};
/// use tokenmill::sink::output_schema;
///
/// let url = Field::new("url", DataType::Utf8View, false);
/// let schema = output_schema(&[url.into()])?;
/// let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
/// assert_eq!(names, ["input_ids", "length", "url"]);
/// assert_eq!(schema.field(2).data_type(), &DataType::Utf8);
/// # Ok::<(), tokenmill::Error>(())
/// ```
///
/// # Errors
/// Two columns have the same name, or one has a type that Parquet or its readers do not support
/// ([`Usage`](crate::ErrorKind::Usage)).
pub fn output_schema(columns: &[FieldRef]) -> Result<SchemaRef> {
    let own: [FieldRef; OWN_COLUMNS] = [
        Arc::new(Field::new(INPUT_IDS, DataType::List(element()), true)),
        Arc::new(Field::new(LENGTH, DataType::Int32, true)),
    ];
    let mut fields = own.to_vec();
    for column in columns {
        if fields.iter().any(|field| field.name() == column.name()) {
            return Err(Error::usage(format!("two output columns would be named {:?}", column.name()))
                .with_help("leave that column out, or rename it in the data"));
        }
        let Some(field) = plain_field(column) else {
            let (name, data_type) = (column.name(), column.data_type());
            let problem = format!("column {name:?} has type {data_type}, which cannot be passed through");
            return Err(Error::usage(problem).with_help("leave that column out"));
        };
        fields.push(Arc::new(field.as_ref().clone().with_nullable(true)));
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// The columns of packed rows, which replace those of documents.
///
/// # Errors
/// The documents have pass-through columns, or the length of rows is out of range
/// ([`Usage`](crate::ErrorKind::Usage)).
fn packed_schema(documents: &Schema, packing: &Packing) -> Result<SchemaRef> {
    if documents.fields().len() > OWN_COLUMNS {
        return Err(cannot_pack("cannot keep the columns of documents").with_help("leave the columns out"));
    }
    if packing.length == 0 || packing.length > MAX_PACKED_LENGTH {
        let problem = format!("have from 1 to {MAX_PACKED_LENGTH} token ids, not {}", packing.length);
        return Err(cannot_pack(problem).with_help("choose another length"));
    }
    let lengths = Field::new(SEQ_LENGTHS, DataType::List(element()), true);
    output_schema(&[Arc::new(lengths)])
}

/// The field for the elements of lists. Its name and nullability are those that pyarrow writes.
pub(super) fn element() -> FieldRef {
    Arc::new(Field::new("element", DataType::Int32, true))
}

/// A field in the type in which it is written; `None` if it cannot be written. Children of nested types are
/// converted, too.
fn plain_field(field: &FieldRef) -> Option<FieldRef> {
    let plain = plain_type(field.data_type())?;
    let kept = kept_annotations(field, &plain);
    Some(Arc::new(Field::new(field.name(), plain, field.is_nullable()).with_metadata(kept)))
}

/// The annotations of columns that the output does not keep, `ENUM` for example. For each column that loses some,
/// returns its name and the names of the annotations.
pub(crate) fn dropped_annotations(columns: &[FieldRef]) -> Vec<(String, Vec<String>)> {
    let lost = |column: &FieldRef| {
        let lost = lost_annotations(column, plain_field(column)?.as_ref());
        (!lost.is_empty()).then(|| (column.name().clone(), lost))
    };
    columns.iter().filter_map(lost).collect()
}

/// The type in which values of a type are written; `None` if they cannot be.
fn plain_type(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, values) => plain_type(values)?,
        // Parquet has neither seconds nor dates in milliseconds. Readers would see them as bare numbers.
        DataType::Timestamp(TimeUnit::Second, zone) => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
        DataType::Date64 => DataType::Date32,
        DataType::List(item) => DataType::List(plain_field(item)?),
        DataType::LargeList(item) => DataType::LargeList(plain_field(item)?),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(plain_field(item)?, *length),
        DataType::Map(entries, sorted) => DataType::Map(plain_field(entries)?, *sorted),
        DataType::Struct(fields) if !fields.is_empty() => {
            DataType::Struct(fields.iter().map(plain_field).collect::<Option<_>>()?)
        }
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale)
            if *scale < 0 =>
        {
            return None;
        }
        DataType::Struct(_)
        | DataType::Interval(_)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::RunEndEncoded(..)
        | DataType::Union(..) => return None,
        flat => flat.clone(),
    })
}

/// The properties that all files of an output share: columns, encodings and metadata.
///
/// It is built once for all files and shared by the threads that encode.
#[derive(Debug)]
pub struct FileSpec {
    /// The Arrow schema of the columns.
    pub(super) schema: SchemaRef,
    /// The same columns as Parquet describes them.
    pub(super) columns: Arc<SchemaDescriptor>,
    /// Encodings, compression and metadata.
    pub(super) properties: Arc<WriterProperties>,
    /// The format and the width of ids, for files of bare ids.
    pub(super) flat: Option<(OutputFormat, IdWidth)>,
    /// How documents are packed into rows; `None` if each is a row.
    pub(super) packing: Option<Packing>,
}

impl FileSpec {
    /// The properties of Parquet files with the columns of an [`output_schema`], or with those of packed rows if
    /// `declaration` names a packing.
    ///
    /// # Errors
    /// A column has a type that Parquet does not support. With a packing: the schema has pass-through columns, or the
    /// length of rows is out of range. ([`Usage`](crate::ErrorKind::Usage))
    pub fn new(
        schema: SchemaRef,
        compression: Compression,
        declaration: &Declaration,
    ) -> Result<Arc<FileSpec>> {
        FileSpec::parquet(schema, compression, declaration).map(Arc::new)
    }

    /// The properties of files of any format, for ids below `ids`.
    ///
    /// # Errors
    /// As for [`new`](FileSpec::new), or a format other than Parquet is to be packed.
    pub(super) fn of_format(
        format: OutputFormat,
        ids: u64,
        schema: SchemaRef,
        compression: Compression,
        declaration: &Declaration,
    ) -> Result<Arc<FileSpec>> {
        let mut spec = FileSpec::parquet(schema, compression, declaration)?;
        if spec.packing.is_some() && format != OutputFormat::Parquet {
            return Err(cannot_pack("are written to Parquet files only")
                .with_help("leave packing out: files of ids alone are one sequence of tokens"));
        }
        spec.flat = (format != OutputFormat::Parquet).then(|| (format, IdWidth::of(ids, format)));
        Ok(Arc::new(spec))
    }

    /// The properties of Parquet files, from which those of the other formats are derived.
    ///
    /// # Errors
    /// Those of [`new`](FileSpec::new).
    fn parquet(schema: SchemaRef, compression: Compression, declaration: &Declaration) -> Result<FileSpec> {
        let schema = match &declaration.pack {
            Some(packing) => packed_schema(&schema, packing)?,
            None => schema,
        };
        let columns = ArrowSchemaConverter::new()
            .convert(&schema)
            .map_err(|cause| Error::caused(ErrorKind::Usage, "cannot write the output's columns", cause))?;
        let features = HfFeatures::of(&schema).map(|features| features.json().to_string());
        let pairs = key_values(features, declaration);
        // If a file has an Arrow schema, pyarrow takes the metadata from there. So all of it is written there as well.
        let hint: HashMap<String, String> =
            pairs.iter().filter_map(|pair| Some((pair.key.clone(), pair.value.clone()?))).collect();
        let hint = Schema::new_with_metadata(schema.fields().clone(), hint);
        let mut properties = properties(&columns, compression, pairs);
        add_encoded_arrow_schema_to_metadata(&hint, &mut properties);
        let (columns, properties) = (Arc::new(columns), Arc::new(properties));
        Ok(FileSpec { schema, columns, properties, flat: None, packing: declaration.pack })
    }
}

/// The writer properties: zstd compression of all columns, the encoding of ids, and the metadata.
fn properties(
    columns: &SchemaDescriptor,
    compression: Compression,
    pairs: Vec<KeyValue>,
) -> WriterProperties {
    let (encoding, level) = match compression {
        Compression::Default => (Encoding::PLAIN, 3),
        Compression::Fast => (Encoding::BYTE_STREAM_SPLIT, 1),
    };
    let ids = columns.column(0).path().clone();
    let level = ZstdLevel::try_new(level).expect("1 and 3 are levels of zstd");
    WriterProperties::builder()
        .set_created_by(format!("tokenmill version {VERSION}"))
        .set_compression(Codec::ZSTD(level))
        .set_column_encoding(ids.clone(), encoding)
        .set_column_dictionary_enabled(ids.clone(), false)
        // The minimum and maximum id of a page are of no use, and computing them would take a pass over the ids.
        .set_column_statistics_enabled(ids, EnabledStatistics::None)
        .set_column_statistics_enabled(ColumnPath::from(LENGTH), EnabledStatistics::Page)
        .set_key_value_metadata(Some(pairs))
        .build()
}

/// The file metadata: the declaration, and the features if there are any.
fn key_values(features: Option<String>, declaration: &Declaration) -> Vec<KeyValue> {
    let declared = serde_json::to_string(declaration).expect("plain fields with text keys");
    let mut pairs = vec![KeyValue::new(DECLARATION_KEY.to_owned(), declared)];
    pairs.extend(features.map(|features| KeyValue::new(FEATURES_KEY.to_owned(), features)));
    pairs
}

/// The size of an id in a file of bare ids. It follows from the largest possible id, so that all files of an output
/// agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdWidth {
    /// Unsigned, 16 bits.
    Two,
    /// 32 bits. Ids that are written are below 2^31, so the sign does not matter.
    Four,
}

impl IdWidth {
    /// The width for ids below `ids`. Megatron-LM itself uses four bytes from 65 500 ids on.
    pub(super) fn of(ids: u64, format: OutputFormat) -> IdWidth {
        let two = if format == OutputFormat::Megatron { ids < 65_500 } else { ids <= 1 << 16 };
        if two { IdWidth::Two } else { IdWidth::Four }
    }

    /// The width in bytes.
    pub(super) fn bytes(self) -> u64 {
        match self {
            IdWidth::Two => 2,
            IdWidth::Four => 4,
        }
    }

    /// Megatron-LM's code for the type: `uint16`, or `int32`, which holds all ids below 2³¹ unchanged.
    pub(super) fn megatron_code(self) -> u8 {
        match self {
            IdWidth::Two => 8,
            IdWidth::Four => 4,
        }
    }
}

/// Whether two declarations describe the same tokens, whatever the recipe and the version of the program. The size of
/// the vocabulary follows from the tokenizer. Two missing declarations are equal.
pub(super) fn same_tokens(one: Option<&Declaration>, other: Option<&Declaration>) -> bool {
    let plain = |declaration: &Declaration| Declaration {
        recipe: String::new(),
        tool_version: String::new(),
        vocab_size: None,
        ..declaration.clone()
    };
    one.map(plain) == other.map(plain)
}

/// The error that documents cannot be packed. `problem` completes "packed rows …".
fn cannot_pack(problem: impl fmt::Display) -> Error {
    Error::usage(format!("packed rows {problem}"))
}
