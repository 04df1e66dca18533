use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use parquet::basic::{Compression as Codec, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::{ColumnPath, SchemaDescriptor};
use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::features::Features;
use super::flat_file::IdWidth;
use super::packing::{MAX_PACKED_LENGTH, Packing};
use crate::cast::{kept_annotations, lost_annotations};
use crate::encode::{Encoder, MissingBytes};
use crate::error::{Error, ErrorKind, Result};
use crate::units::TokenId;
use crate::{FORMAT_VERSION, VERSION};

/// The column of token ids: `list<element: int32>`, null where the document is null.
///
/// Signed, because consumers want that and an unsigned 16-bit column takes the same room on disk. The
/// elements are declared nullable, though none is null: that is what pyarrow and `datasets` write and
/// compare with.
pub const INPUT_IDS: &str = "input_ids";

/// The column with the number of token ids of each row: `int32`, null where `input_ids` is.
pub const LENGTH: &str = "length";

/// The column with the lengths of the documents in a packed row, or of the parts of documents: `list<element: int32>`.
pub const SEQ_LENGTHS: &str = "seq_lengths";

/// The file metadata key under which a [`Declaration`] stands as JSON.
pub const DECLARATION_KEY: &str = "tokenmill";

/// The file metadata key that `datasets` and the hub read the types of the columns from.
pub const FEATURES_KEY: &str = "huggingface";

/// How the token ids are encoded and compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Compression {
    /// PLAIN and zstd 3: every reader can read it.
    #[default]
    Default,
    /// BYTE_STREAM_SPLIT and zstd 1: faster to write and smaller for prose, larger for code and many languages. Readers
    /// need support for it on integers, which DuckDB has only after 1.5 and parquet-java from 1.15.
    Fast,
}

/// What kind of files token ids are written to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum OutputFormat {
    /// Parquet with a row a document.
    #[default]
    Parquet,
    /// The ids alone in `.bin`, of 16 bits if all ids of the vocabulary fit, else of 32, little-endian. Beside
    /// it `.idx`, the place of each document's first id and of the end, as 64-bit numbers.
    Bin,
    /// The same `.bin` with Megatron-LM's `.idx` (`MMIDIDX`, version 1): a document without ids has no
    /// sequence, every other has one.
    Megatron,
}

impl OutputFormat {
    /// The extension of data files.
    pub fn extension(self) -> &'static str {
        match self {
            OutputFormat::Parquet => "parquet",
            OutputFormat::Bin | OutputFormat::Megatron => "bin",
        }
    }

    /// Bytes of each id where all are below `ids` and stand as they are; `None` where they are compressed.
    pub(crate) fn id_bytes(self, ids: u64) -> Option<u64> {
        (self != OutputFormat::Parquet).then(|| IdWidth::of(ids, self).bytes())
    }

    /// Bytes of what goes beside a file of so many documents, none of them empty.
    pub(crate) fn index_bytes(self, documents: u64) -> u64 {
        match self {
            OutputFormat::Parquet => 0,
            OutputFormat::Bin => 8 * (documents + 1),
            OutputFormat::Megatron => 20 * documents + 42,
        }
    }
}

/// What a file says about how its token ids came about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declaration {
    /// [`FORMAT_VERSION`] of the program that wrote the file.
    pub format_version: u32,
    /// Version of the program that wrote the file.
    pub tool_version: String,
    /// Fingerprint of the tokenizer.
    pub tokenizer: String,
    /// Hash of the recipe.
    pub recipe: String,
    /// What became of text that looks like a special token: `text`, `allow` or `forbid`.
    pub special: String,
    /// What became of bytes without a token; left out where text with one was an error.
    #[serde(skip_serializing_if = "MissingBytes::is_default", default)]
    pub missing_bytes: MissingBytes,
    /// The token that stands before the text of every document that is not null.
    pub bos: Option<DeclaredToken>,
    /// The token that stands after the text of every document that is not null.
    pub eos: Option<DeclaredToken>,
    /// How documents are packed into rows; without it each is a row. The file is written as it says here.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pack: Option<Packing>,
}

impl Declaration {
    /// What an encoder gives: its vocabulary's fingerprint, and the tokens that it adds.
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
            special: config.special.name().to_owned(),
            missing_bytes: config.missing_bytes,
            bos: config.bos.map(declared),
            eos: config.eos.map(declared),
            ..Declaration::default()
        }
    }

    /// Whether documents have a token before or after their text, which is of none of its bytes.
    pub fn adds_tokens(&self) -> bool {
        self.bos.is_some() || self.eos.is_some()
    }
}

impl Default for Declaration {
    /// This program's versions, no added tokens, special tokens as text.
    fn default() -> Declaration {
        Declaration {
            format_version: FORMAT_VERSION,
            tool_version: VERSION.to_owned(),
            tokenizer: String::new(),
            recipe: String::new(),
            special: "text".to_owned(),
            missing_bytes: MissingBytes::default(),
            bos: None,
            eos: None,
            pack: None,
        }
    }
}

/// A token that encoding added to the text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredToken {
    /// Its id.
    pub id: TokenId,
    /// The text that stands for it.
    pub text: String,
}

/// The columns of an output with these pass-through columns, each as it is written.
///
/// Dictionaries and views become plain columns of the same values, since not every reader knows them; of field metadata
/// extension types are kept, such as UUID and JSON, and that a time of day is in UTC; every column may hold nulls.
///
/// # Errors
/// Two columns have the same name, or one has a type that Parquet or its readers do not know
/// ([`ErrorKind::Usage`]).
pub fn output_schema(columns: &[FieldRef]) -> Result<SchemaRef> {
    let mut fields = vec![
        Arc::new(Field::new(INPUT_IDS, DataType::List(element()), true)),
        Arc::new(Field::new(LENGTH, DataType::Int32, true)),
    ];
    for column in columns {
        if fields.iter().any(|field| field.name() == column.name()) {
            let fault = Fault::ColumnTwice { name: column.name().clone() };
            return Err(Error::new(ErrorKind::Usage, fault)
                .with_help("leave that column out, or rename it in the data"));
        }
        let Some(field) = plain_field(column) else {
            let data_type = column.data_type().clone();
            let fault = Fault::ColumnType { name: column.name().clone(), data_type };
            return Err(Error::new(ErrorKind::Usage, fault).with_help("leave that column out"));
        };
        fields.push(Arc::new(field.as_ref().clone().with_nullable(true)));
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// The columns of packed rows, in the place of those of documents.
fn packed_schema(documents: &Schema, packing: &Packing) -> Result<SchemaRef> {
    let refused = |what: String, help: &'static str| {
        Err(Error::new(ErrorKind::Usage, Fault::CannotPack { what }).with_help(help))
    };
    if documents.fields().len() > 2 {
        return refused("cannot keep the columns of documents".to_owned(), "leave the columns out");
    }
    if packing.length == 0 || packing.length > MAX_PACKED_LENGTH {
        let what = format!("have from 1 to {MAX_PACKED_LENGTH} token ids, not {}", packing.length);
        return refused(what, "choose another length");
    }
    let lengths = Field::new(SEQ_LENGTHS, DataType::List(element()), true);
    output_schema(&[Arc::new(lengths)])
}

/// What the lists of an output have in them.
pub(super) fn element() -> FieldRef {
    Arc::new(Field::new("element", DataType::Int32, true))
}

fn plain_field(field: &FieldRef) -> Option<FieldRef> {
    let plain = plain_type(field.data_type())?;
    let kept = kept_annotations(field, &plain);
    Some(Arc::new(Field::new(field.name(), plain, field.is_nullable()).with_metadata(kept)))
}

/// What the input says of a column's values and the output does not, such as `ENUM`; the columns with the words for it.
pub(crate) fn unkept(columns: &[FieldRef]) -> Vec<(String, Vec<String>)> {
    let lost = |column: &FieldRef| {
        let lost = lost_annotations(column, plain_field(column)?.as_ref());
        (!lost.is_empty()).then(|| (column.name().clone(), lost))
    };
    columns.iter().filter_map(lost).collect()
}

/// The type that values of a type are written as; `None` where they cannot be.
fn plain_type(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, values) => plain_type(values)?,
        // Parquet has no seconds, nor dates in milliseconds: they would be bare numbers.
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

/// What all files of an output have in common, as the Parquet writer wants it.
#[derive(Debug)]
pub struct FileShape {
    pub(super) schema: SchemaRef,
    pub(super) columns: Arc<SchemaDescriptor>,
    pub(super) properties: Arc<WriterProperties>,
    /// For files of nothing but ids: which, and how wide ids are.
    pub(super) flat: Option<(OutputFormat, IdWidth)>,
    /// How documents become rows, if they are not rows themselves.
    pub(super) packing: Option<Packing>,
}

impl FileShape {
    /// Lays out files with the columns of an [`output_schema`], or of packed rows if the declaration says that.
    ///
    /// # Errors
    /// A column has a type that Parquet does not know, or there are columns that packed rows cannot keep, or these
    /// have no length that they can have ([`ErrorKind::Usage`]).
    pub fn new(
        schema: SchemaRef,
        compression: Compression,
        declaration: &Declaration,
    ) -> Result<Arc<FileShape>> {
        FileShape::parquet(schema, compression, declaration).map(Arc::new)
    }

    /// Lays out files of a format for ids below `ids`.
    pub(super) fn of_format(
        format: OutputFormat,
        ids: u64,
        schema: SchemaRef,
        compression: Compression,
        declaration: &Declaration,
    ) -> Result<Arc<FileShape>> {
        let mut shape = FileShape::parquet(schema, compression, declaration)?;
        if shape.packing.is_some() && format != OutputFormat::Parquet {
            let what = "are written to Parquet files only".to_owned();
            return Err(Error::new(ErrorKind::Usage, Fault::CannotPack { what })
                .with_help("leave packing out: files of nothing but ids are one run of tokens"));
        }
        shape.flat = (format != OutputFormat::Parquet).then(|| (format, IdWidth::of(ids, format)));
        Ok(Arc::new(shape))
    }

    fn parquet(schema: SchemaRef, compression: Compression, declaration: &Declaration) -> Result<FileShape> {
        let schema = match &declaration.pack {
            Some(packing) => packed_schema(&schema, packing)?,
            None => schema,
        };
        let unknown = |cause: ParquetError| {
            Error::new(ErrorKind::Usage, Fault::Write { path: "the output's columns".into(), cause })
        };
        let columns = ArrowSchemaConverter::new().convert(&schema).map_err(unknown)?;
        let features = Features::of(&schema).map(|features| features.json().to_string());
        let pairs = key_values(features.as_ref(), declaration);
        let mut properties = properties(&columns, compression, pairs);
        // Where there is an Arrow schema pyarrow takes the metadata from it, so they stand there as well.
        let hint = features.map(|features| (FEATURES_KEY.to_owned(), features));
        let hint = Schema::new_with_metadata(schema.fields().clone(), HashMap::from_iter(hint));
        add_encoded_arrow_schema_to_metadata(&hint, &mut properties);
        let (columns, properties) = (Arc::new(columns), Arc::new(properties));
        Ok(FileShape { schema, columns, properties, flat: None, packing: declaration.pack })
    }
}

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
        // The least and the greatest id of a page tell nothing, and finding them costs a pass.
        .set_column_statistics_enabled(ids, EnabledStatistics::None)
        .set_column_statistics_enabled(ColumnPath::from(LENGTH), EnabledStatistics::Page)
        .set_key_value_metadata(Some(pairs))
        .build()
}

fn key_values(features: Option<&String>, declaration: &Declaration) -> Vec<KeyValue> {
    let declared = serde_json::to_string(declaration).expect("plain fields with text keys");
    let mut pairs = vec![KeyValue::new(DECLARATION_KEY.to_owned(), declared)];
    pairs.extend(features.map(|features| KeyValue::new(FEATURES_KEY.to_owned(), features.clone())));
    pairs
}
