//! Encodes the lines of a file into rows of at most 1 024 token ids in a Parquet file, and reads the rows back:
//!
//! ```sh
//! cargo run --release --example dataset -- corpus.txt my-tokenizer tokens.parquet
//! ```

#![expect(clippy::print_stdout, reason = "it is a program")]

use std::env;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use tokenmill::base::atomic_file::publish;
use tokenmill::encode::{EncodeConfig, Encoder, encode_batches};
use tokenmill::observer::Silent;
use tokenmill::sink::{
    Compression, Declaration, FileSpec, PackRule, Packing, RowGroupEncoders, ShardWriter, TokenReader,
    output_schema,
};
use tokenmill::source::{self, DocumentRule, OpenContext, SourceSpec};
use tokenmill::vocab::{self, LoadOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [text, tokenizer, file] = &arguments[..] else {
        return Err("usage: dataset TEXT TOKENIZER FILE".into());
    };
    let file = Path::new(file);

    let vocabulary = Arc::new(vocab::load(Path::new(tokenizer), &LoadOptions::default(), &Silent)?);
    // A row holds several documents, so each document must end with a special token. A real program would name
    // that token instead of taking the first one.
    let eos = vocabulary.specials().next().map(|special| special.id);
    let encoder = Encoder::new(vocabulary, EncodeConfig { eos, ..EncodeConfig::default() })?;

    let pack = Some(Packing::new(PackRule::BestFit, 1024));
    let declaration = Declaration { pack, ..Declaration::of(&encoder) };
    let file_spec = FileSpec::new(output_schema(&[])?, Compression::Default, &declaration)?;
    let encoders = RowGroupEncoders::start(2)?;

    let spec = SourceSpec { uri: text.clone(), documents: DocumentRule::Line, ..SourceSpec::default() };
    let source = source::open(&spec, 0, &OpenContext::new(&Silent))?;
    let name = |_, unit: usize| source.units()[unit].name.clone();
    let documents = source::collected_documents(source::in_order(vec![Arc::clone(&source)], 2));
    let facts = publish(file, |out| {
        let mut writer = ShardWriter::new(out, file, &file_spec, &encoders)?;
        encode_batches(documents, &encoder, name, &Silent, |batch| writer.write(batch))?;
        writer.finish().map(|(_, facts)| facts)
    })?;
    println!("{} rows with {} ids", facts.rows, facts.tokens);

    let mut longest = 0;
    for batch in TokenReader::open(file)? {
        longest = batch?.iter().flatten().map(|row| row.len()).max().unwrap_or(0).max(longest);
    }
    println!("the longest has {longest}");
    Ok(())
}
