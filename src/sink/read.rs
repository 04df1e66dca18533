//! Reads token ids from an output folder or a single file.
//!
//! [`TokenReader`] takes the files in order, and [`FileReader`] reads each of them.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use super::file_reader::FileReader;
use super::layout::{DATA_FOLDER, data_files, is_flat, split_of};
use super::manifest::Manifest;
use super::schema::{Declaration, same_tokens};
use crate::encode::TokenBatch;
use crate::error::{Error, Result};

/// Reads rows of token ids in order, from an output folder or a single file. Files of other programs can be read too:
/// Parquet files with a column `input_ids` that is a list of integers, and `.bin` files with their `.idx`. The latter
/// do not distinguish null rows from empty ones.
///
/// In the batches, `unit` is the number of the file, counted from 0. Text and pass-through columns are missing.
/// [`ShardWriter`](super::ShardWriter) has an example.
///
/// After an error, the iterator ends.
///
/// **Memory:** a batch of about a million ids, or one longer row, and a page of the file.
pub struct TokenReader {
    /// The files in the order in which they are read.
    paths: Vec<PathBuf>,
    /// The number of the next file to open.
    next: usize,
    /// The open file; `None` at the end and after an error.
    open: Option<FileReader>,
    /// The declaration of the first file, with which the others must agree.
    declaration: Option<Declaration>,
}

impl fmt::Debug for TokenReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenReader")
            .field("paths", &self.paths)
            .field("next", &self.next)
            .field("declaration", &self.declaration)
            .finish_non_exhaustive()
    }
}

impl TokenReader {
    /// Opens an output folder, its `data` folder, or a single file. In a folder, the files that the manifest lists
    /// are read, or without a manifest all data files.
    ///
    /// # Errors
    /// The folder has no data files, or the first file is not Parquet or has no column of token ids.
    pub fn open(path: &Path) -> Result<TokenReader> {
        TokenReader::open_split(path, None)
    }

    /// Opens the files of one split of a folder, or of all splits if `split` is `None`. For a single file, `split` is
    /// ignored.
    ///
    /// # Errors
    /// Those of [`open`](TokenReader::open), or the folder has no such split ([`Usage`](crate::ErrorKind::Usage)).
    pub fn open_split(path: &Path, split: Option<&str>) -> Result<TokenReader> {
        let (mut paths, declaration) =
            if path.is_dir() { files_of(path)? } else { (vec![path.to_path_buf()], None) };
        if let Some(split) = split.filter(|_| path.is_dir()) {
            let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            paths.retain(|path| split_of(&name(path)) == split);
            if paths.is_empty() {
                return Err(Error::usage(format!("{} has no split {split:?}", path.display())));
            }
        }
        let Some(first) = paths.first() else {
            return Err(Error::failed(format!("{} holds no files of token ids", path.display()))
                .with_help("name the output folder of `run` or `encode`, or its files"));
        };
        let first = FileReader::open(0, first.clone())?;
        let declaration = first.declaration(declaration.as_ref())?;
        Ok(TokenReader { paths, next: 1, open: Some(first), declaration })
    }

    /// What the files declare about their tokens: the tokenizer, and the tokens before and after each row. `None` for
    /// files of other programs.
    pub fn declaration(&self) -> Option<&Declaration> {
        self.declaration.as_ref()
    }

    /// Whether null rows are distinguished from empty ones in all files. Bare ids have empty documents in place of
    /// null ones.
    pub fn tells_nulls(&self) -> bool {
        !self.paths.iter().any(|path| is_flat(path))
    }

    /// The next batch. Opens the next file when one ends.
    ///
    /// # Errors
    /// A file cannot be read, is damaged, or declares other tokens than the first one.
    fn advance(&mut self) -> Result<Option<TokenBatch>> {
        loop {
            if let Some(file) = &mut self.open
                && let Some(batch) = file.read()?
            {
                return Ok(Some(batch));
            }
            self.open = None;
            let Some(path) = self.paths.get(self.next) else { return Ok(None) };
            let file = FileReader::open(self.next, path.clone())?;
            if !same_tokens(file.declaration(self.declaration.as_ref())?.as_ref(), self.declaration.as_ref())
            {
                let (path, first) = (path.display(), self.paths[0].display());
                let problem = format!("{path}: its token metadata differs from that of {first}");
                return Err(
                    Error::failed(problem).with_help("read one at a time: they are from different jobs")
                );
            }
            self.open = Some(file);
            self.next += 1;
        }
    }
}

impl Iterator for TokenReader {
    type Item = Result<TokenBatch>;

    fn next(&mut self) -> Option<Result<TokenBatch>> {
        let next = self.advance();
        if next.is_err() {
            self.open = None;
            self.next = self.paths.len();
        }
        next.transpose()
    }
}

/// The data files of a folder, and the declaration in its manifest. For a `data` folder, these are the files of the
/// output folder around it. Indexes are not among the files.
///
/// # Errors
/// The manifest or the folder cannot be read.
fn files_of(folder: &Path) -> Result<(Vec<PathBuf>, Option<Declaration>)> {
    if let Some(manifest) = Manifest::read(folder)? {
        let paths = manifest.files.iter().map(|file| folder.join(&file.name)).collect();
        return Ok((paths, manifest.declaration));
    }
    let mut paths = data_files(folder)?;
    paths.retain(|path| path.extension() != Some(OsStr::new("idx")));
    match folder.parent() {
        Some(output) if paths.is_empty() && folder.ends_with(DATA_FOLDER) => files_of(output),
        _ => Ok((paths, None)),
    }
}
