use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::error::{ErrorKind, Result};
use crate::observer::Silent;

#[cfg(unix)]
mod changed;
mod columnar;
mod compressed;
mod damaged;
mod demo;
mod fields;
mod order;
mod records;
mod system;
mod passed;
mod row_text;
mod text;

/// Batches and units of 16 bytes, so that texts span several of them.
const SMALL: ReadConfig = portions(16, 16);

const fn portions(batch_bytes: u64, range_bytes: u64) -> ReadConfig {
    ReadConfig { batch_bytes, range_bytes, window_bytes: DEFAULT_WINDOW_BYTES, readers: 1 }
}

fn spec(uri: &Path) -> SourceSpec {
    SourceSpec { uri: uri.display().to_string(), ..SourceSpec::default() }
}

/// Opens a source with these sizes.
fn opened(spec: &SourceSpec, config: ReadConfig) -> Result<Arc<dyn Source>> {
    open(spec, 0, &OpenContext { config, ..OpenContext::new(&Silent) })
}

/// Reads all units and checks that each batch describes itself correctly.
fn batches(source: &dyn Source) -> Result<Vec<Batch>> {
    let mut all = Vec::new();
    for unit in 0..source.units().len() {
        let (mut row, mut open) = (0, false);
        for batch in source.read(unit)? {
            let batch = batch?;
            assert!(!batch.is_empty());
            assert_eq!((batch.unit, batch.first_row, batch.continued), (unit, row, open));
            row += crate::base::int::to_u64(batch.len()) - u64::from(batch.open);
            open = batch.open;
            all.push(batch);
        }
        assert!(!open, "the last document of a unit ends");
        if let Some(rows) = source.units()[unit].rows {
            assert_eq!(row, rows, "{:?}", source.units()[unit]);
        }
    }
    Ok(all)
}

type Texts = Vec<Option<Vec<u8>>>;

/// All documents of some batches, with the parts of split documents joined.
fn documents(batches: impl IntoIterator<Item = Result<Batch>>) -> Result<Texts> {
    let mut texts: Texts = Vec::new();
    for batch in batches {
        let batch = batch?;
        for (at, text) in batch.iter().enumerate() {
            match (at == 0 && batch.continued, text) {
                (true, Some(part)) => {
                    texts.last_mut().expect("a first part").as_mut().expect("not null").extend(part);
                }
                (_, text) => texts.push(text.map(<[u8]>::to_vec)),
            }
        }
    }
    Ok(texts)
}

/// All documents of a source.
fn read(spec: &SourceSpec, config: ReadConfig) -> Result<Texts> {
    documents(batches(&*opened(spec, config)?)?.into_iter().map(Ok))
}

fn texts<T: AsRef<[u8]>>(texts: impl IntoIterator<Item = T>) -> Texts {
    texts.into_iter().map(|text| Some(text.as_ref().to_vec())).collect()
}

/// Writes a file, creating its folder, and returns its path.
fn written(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> std::path::PathBuf {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder to write to");
    fs::write(&path, bytes).expect("a file to write to");
    path
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory to write to");
    encoder.finish().expect("memory to write to")
}

/// The kind of an error, and its message with the advice.
fn failure<T>(outcome: Result<T>) -> (ErrorKind, String) {
    let error = outcome.err().expect("an error");
    (error.kind(), format!("{error} ({})", error.help().unwrap_or_default()))
}
