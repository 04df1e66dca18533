//! Readers of files.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray, StringViewArray, StructArray,
};
use arrow::datatypes::{DataType, Field};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};
use tokenmill::base::int::{ByteCount, Count};
use tokenmill::count::{CountsInfo, PretokenCounts, read_counts, read_counts_info, write_counts};
use tokenmill::observer::Silent;
use tokenmill::run::{Environment, JobOptions, job, plan, recipe};
use tokenmill::sink::{Manifest, TokenReader};
use tokenmill::source::{DocumentRule, OpenContext, SourceSpec, in_order, open};
use tokenmill::split::{NamedPattern, SplitPattern};
use tokenmill::vocab::{LoadOptions, TrainingRecord, load};

use super::{Result, Target};

/// The environment of a job: one thread, and a gigabyte of memory.
pub(crate) const ENVIRONMENT: Environment<'static> =
    Environment { variable: &|_| None, threads: 1, memory: ByteCount(1 << 30) };

/// Runs small jobs in a folder, and uses their outputs as seed files.
pub(crate) fn targets(out: &Path) -> Result<Vec<Target>> {
    let recipe = run(
        out,
        "formats = [\"hf\", \"tiktoken\", \"minbpe\", \"gpt2\"]",
        "columns = [\"gutenberg_id\"]",
        "",
    )?;
    let made = |name: &str| fs::read(out.join(name));
    let ids = data(out, "parquet")?;
    let counts = counts()?;
    let jsonl =
        b"{\"line\": \"one\", \"other\": [1, {\"a\": null}]}\n{\"line\": \"two \\u00e9\\ud83d\\ude42\"}\n"
            .to_vec();
    let text = "one line\r\nanother\n\n\na paragraph, \u{e9}\u{1f642}\n".repeat(9).into_bytes();
    let mut parquet = vec![ids.clone(), counts.clone()];
    parquet.extend(parquet_files()?);
    let table = |name: &str, file: &'static str, seeds| Target::new(name, file, seeds, read_source);
    // A target for one of two files of a tokenizer. The other file is intact.
    let beside = |name: &str, file: &'static str, other: &str, as_name: &'static str| -> Result<Target> {
        let seed = made(&format!("tokenizer/{}", file.replace("a.", "tokenizer.")))?;
        let other = made(&format!("tokenizer/{other}"))?;
        Ok(Target::new(name, file, vec![seed], move |path| {
            let other_path = path.with_file_name(as_name);
            fs::write(&other_path, &other).is_ok() && read_tokenizer(&other_path)
        }))
    };
    let mut targets = vec![
        Target::new(
            "tokenizer.json",
            "tokenizer.json",
            vec![made("tokenizer/tokenizer.json")?],
            read_tokenizer,
        ),
        Target::new("tiktoken", "a.tiktoken", vec![made("tokenizer/tokenizer.tiktoken")?], read_tokenizer),
        beside("tiktoken sidecar", "a.tiktoken.json", "tokenizer.tiktoken", "a.tiktoken")?,
        Target::new("minbpe", "a.model", vec![made("tokenizer/tokenizer.model")?], read_tokenizer),
        beside("gpt2 vocab", "vocab.json", "merges.txt", "merges.txt")?,
        beside("gpt2 merges", "merges.txt", "vocab.json", "vocab.json")?,
        Target::new("training record", "training.json", vec![made("tokenizer/training.json")?], |path| {
            path.parent().is_some_and(|folder| TrainingRecord::read(folder).is_ok())
        }),
        Target::new("recipe", "r.toml", recipes(recipe)?, read_recipe),
        table("parquet", "a.parquet", parquet),
        table("arrow file", "a.arrow", arrow_files()?),
        table("arrow stream", "a.arrow", arrow_streams()?),
        table("jsonl", "a.jsonl", vec![jsonl.clone()]),
        table("jsonl.gz", "a.jsonl.gz", vec![gzip(&jsonl)?]),
        table("jsonl.zst", "a.jsonl.zst", vec![zstd::encode_all(&jsonl[..], 3)?]),
        table("jsonl.bz2", "a.jsonl.bz2", vec![bzip2(&jsonl)?]),
        table("jsonl.xz", "a.jsonl.xz", vec![xz(&jsonl)?]),
        table("jsonl.lz4", "a.jsonl.lz4", vec![lz4(&jsonl)?, [lz4(&jsonl)?, lz4(&jsonl)?].concat()]),
        table("json", "a.json", json_files()),
        table("csv", "a.csv", vec![CSV.to_vec(), CSV.repeat(50)]),
        table(
            "tsv",
            "a.tsv",
            vec![CSV.iter().map(|&byte| if byte == b',' { b'\t' } else { byte }).collect()],
        ),
        Target::new("text", "a.txt", vec![text.clone()], read_text),
        Target::new("text.gz", "a.txt.gz", vec![gzip(&text)?], read_text),
        Target::new("text.zst", "a.txt.zst", vec![zstd::encode_all(&text[..], 3)?], read_text),
        Target::new("ids", "ids.parquet", vec![ids], read_ids),
        Target::new("counts", "counts.parquet", vec![counts], |path| {
            read_counts_info(path).is_ok() & read_counts(path).is_ok()
        }),
        Target::new("manifest", "manifest.json", vec![made("manifest.json")?], read_manifest),
    ];
    for format in ["bin", "megatron"] {
        let out = out.join(format);
        run(&out, "", "", &format!("format = \"{format}\""))?;
        let (ids, index) = (data(&out, "bin")?, data(&out, "idx")?);
        targets.push(Target::new(format!("{format} index"), "ids.idx", vec![index.clone()], {
            let ids = ids.clone();
            move |path| read_beside(path, &path.with_extension("bin"), &ids)
        }));
        targets.push(Target::new(format!("{format} ids"), "ids.bin", vec![ids], move |path| {
            read_beside(path, &path.with_extension("idx"), &index)
        }));
    }
    Ok(targets)
}

/// Runs a small job with further keys in the sections of its recipe, and returns the recipe.
fn run(out: &Path, train: &str, encode: &str, output: &str) -> Result<String> {
    let text = format!(
        "[source]\nuri = \"demo:verse?lines=300&seed=1\"\ncolumn = \"line\"\n[sample]\ntake = 250\n[train]\nsplit = \"gpt2\"\n\
         vocab_size = 300\nspecial_tokens = [\"<|x|>\"]\ntie_break = \"ids\"\n{train}\n[encode]\neos = \"<|x|>\"\n{encode}\n\
         [output]\ndir = {out:?}\n{output}\n"
    );
    let planned = plan(&recipe::read("seed.toml", &text)?, &ENVIRONMENT)?;
    job(&planned, &JobOptions::default(), &OpenContext::new(&Silent))?;
    Ok(text)
}

/// The data file of an output that has this extension.
fn data(out: &Path, extension: &str) -> Result<Vec<u8>> {
    let entries = fs::read_dir(out.join("data"))?.collect::<std::io::Result<Vec<_>>>()?;
    let found = entries.into_iter().map(|entry| entry.path());
    let mut found = found.filter(|path| path.extension().is_some_and(|other| other == extension));
    Ok(fs::read(found.next().ok_or("no data file")?)?)
}

/// All recipes in this repository, and the first one.
fn recipes(first: String) -> Result<Vec<Vec<u8>>> {
    let mut recipes = vec![first.into_bytes()];
    for folder in ["pipelines", "tests/data/recipes"] {
        for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                recipes.push(fs::read(path)?);
            }
        }
    }
    recipes.sort();
    Ok(recipes)
}

fn counts() -> Result<Vec<u8>> {
    let pretokens: Vec<Vec<u8>> = (0_u8..200).map(|byte| vec![byte; 1 + usize::from(byte % 20)]).collect();
    let pretokens: PretokenCounts = pretokens.iter().map(|pretoken| (&pretoken[..], Count::ONE)).collect();
    let info = CountsInfo { pattern: SplitPattern::Named(NamedPattern::Gpt2), ..CountsInfo::default() };
    let mut counts = Vec::new();
    write_counts(&mut counts, Path::new("counts"), &pretokens, &info, &Silent)?;
    Ok(counts)
}

/// Text in columns of several types, with nulls, and a text column within a struct.
fn columns() -> Result<RecordBatch> {
    let lines: Vec<Option<String>> =
        (0..60).map(|row| (row % 7 > 0).then(|| format!("{row} {}", "goes on ".repeat(row % 5)))).collect();
    let views: ArrayRef = Arc::new(StringViewArray::from_iter(lines.iter().map(Option::as_deref)));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..60));
    let words: DictionaryArray<arrow::datatypes::Int32Type> =
        lines.iter().map(|line| line.as_ref().map(|line| &line[..1])).collect();
    let line: ArrayRef = Arc::new(StringArray::from(lines));
    let below =
        StructArray::from(vec![(Arc::new(Field::new("text", DataType::Utf8, true)), Arc::clone(&line))]);
    let columns: [(&str, ArrayRef); 5] = [
        ("line", line),
        ("input_ids", views),
        ("length", numbers),
        ("pretoken", Arc::new(words)),
        ("below", Arc::new(below)),
    ];
    Ok(RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))?)
}

fn parquet_files() -> Result<Vec<Vec<u8>>> {
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::default()),
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::default()),
    ];
    let file = |(number, codec)| -> Result<Vec<u8>> {
        let even = number % 2 == 0;
        let properties = WriterProperties::builder()
            .set_compression(codec)
            .set_dictionary_enabled(even)
            .set_writer_version(if even { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 })
            .set_max_row_group_row_count(Some(25))
            .set_bloom_filter_enabled(true);
        let table = columns()?;
        let mut writer = ArrowWriter::try_new(Vec::new(), table.schema(), Some(properties.build()))?;
        writer.write(&table)?;
        Ok(writer.into_inner()?)
    };
    codecs.into_iter().enumerate().map(file).collect()
}

fn compressed() -> Result<[IpcWriteOptions; 3]> {
    let with = |codec| IpcWriteOptions::default().try_with_compression(codec);
    Ok([with(None)?, with(Some(CompressionType::LZ4_FRAME))?, with(Some(CompressionType::ZSTD))?])
}

fn arrow_files() -> Result<Vec<Vec<u8>>> {
    let table = columns()?;
    let write = |options| {
        let mut writer = FileWriter::try_new_with_options(Vec::new(), &table.schema(), options)?;
        writer.write(&table)?;
        Ok(writer.into_inner()?)
    };
    compressed()?.into_iter().map(write).collect()
}

fn arrow_streams() -> Result<Vec<Vec<u8>>> {
    let table = columns()?;
    let write = |options| {
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &table.schema(), options)?;
        writer.write(&table)?;
        Ok(writer.into_inner()?)
    };
    let streams: Result<Vec<Vec<u8>>> = compressed()?.into_iter().map(write).collect();
    let mut streams = streams?;
    streams.push([streams[0].clone(), streams[1].clone()].concat());
    Ok(streams)
}

/// A table with a header and quoted fields.
const CSV: &[u8] =
    b"line,input_ids,length,pretoken,below\n1,\"a \"\"b\"\",\r\nc\",\xc3\xa9,,\n2,b,\"\",\"\\\",5\n";

/// JSON in several layouts.
fn json_files() -> Vec<Vec<u8>> {
    let texts = [
        "[{\"line\": \"one, ]}\\\"\", \"other\": [1, {\"a\": null}]}, {\"line\": \"two \\u00e9\"}]",
        "{\n  \"line\": \"one\",\n  \"length\": {}\n}\n{\n  \"line\": null\n}\n",
        "{\"line\": \"one\"}\n{\"line\": \"two\"}\n",
        "[]\n[{\"line\": \"one\"}]{\"line\": \"two\"}",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

fn bzip2(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = ::bzip2::write::BzEncoder::new(Vec::new(), ::bzip2::Compression::fast());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

fn xz(bytes: &[u8]) -> Result<Vec<u8>> {
    let options = lzma_rust2::XzOptions::with_preset(1);
    let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options)?;
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

fn lz4(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

fn read_tokenizer(path: &Path) -> bool {
    // Some formats do not record a split pattern and need one as an option; others refuse one.
    let loaded = load(path, &LoadOptions::default(), &Silent).or_else(|_| {
        let split = Some(SplitPattern::None);
        load(path, &LoadOptions { split, ..LoadOptions::default() }, &Silent)
    });
    let Ok(vocabulary) = loaded else { return false };
    // A tokenizer that is accepted must also work.
    if let Ok(encoder) = tokenmill::encode::Encoder::new(vocabulary, Default::default()) {
        let text = "some text, é 🙂 <|x|>".as_bytes();
        let merged = encoder.worker().encode(text).map(<[_]>::to_vec);
        let encoder = encoder.prepared();
        let matched = encoder.worker().encode(text).map(<[_]>::to_vec);
        assert!(merged.ok() == matched.ok(), "longest matches are not what merges make");
    }
    true
}

fn read_recipe(path: &Path) -> bool {
    let text = String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let mistakes = match recipe::read("r.toml", &text) {
        Ok(read) => plan(&read, &ENVIRONMENT).err(),
        Err(mistakes) => Some(mistakes),
    };
    mistakes.map(|mistakes| mistakes.to_string()).is_none()
}

/// Reads all documents of a source. Returns whether all could be read.
pub(crate) fn read_all(spec: &SourceSpec, context: &OpenContext<'_>) -> bool {
    let Ok(source) = open(spec, 0, context) else { return false };
    in_order(vec![source], 1).all(|batch| batch.is_ok())
}

fn read_source(path: &Path) -> bool {
    let mut accepted = false;
    for column in ["line", "input_ids", "pretoken", "below.text"] {
        let spec = SourceSpec {
            uri: path.to_string_lossy().into_owned(),
            column: Some(column.to_owned()),
            ..SourceSpec::default()
        };
        let with_more = SourceSpec { columns: vec!["length".to_owned()], ..spec.clone() };
        accepted |= read_all(&spec, &OpenContext::new(&Silent));
        accepted |= read_all(&with_more, &OpenContext::new(&Silent));
    }
    accepted
}

fn read_text(path: &Path) -> bool {
    let separator = DocumentRule::Separator("a".to_owned());
    let rules = [DocumentRule::File, DocumentRule::Line, DocumentRule::Paragraph, separator];
    let spec = |documents| SourceSpec {
        uri: path.to_string_lossy().into_owned(),
        documents,
        ..SourceSpec::default()
    };
    rules.into_iter().all(|rule| read_all(&spec(rule), &OpenContext::new(&Silent)))
}

fn read_ids(path: &Path) -> bool {
    TokenReader::open(path).is_ok_and(|mut reader| reader.all(|batch| batch.is_ok()))
}

/// Reads token ids and their index, one of which is damaged.
fn read_beside(damaged: &Path, other: &Path, bytes: &[u8]) -> bool {
    fs::write(other, bytes).is_ok() && read_ids(&damaged.with_extension("bin"))
}

fn read_manifest(path: &Path) -> bool {
    let Some(folder) = path.parent() else { return false };
    match Manifest::read(folder) {
        Ok(Some(manifest)) => {
            drop(manifest.verify(folder, &Silent));
            true
        }
        _ => false,
    }
}
