//! Opens sources by their URIs, and defines the settings for reading. Files are opened by their format in `files`.

use std::borrow::Cow;
use std::fmt;
use std::io::Read;
use std::sync::{Arc, Mutex};

use percent_encoding::percent_decode_str;

use super::content::Pipe;
use super::files::{FileSource, PipeSource};
use super::row_text::RowText;
use super::skipped_rows::{BadInput, SkippedRows};
use super::verse::Demo;
use super::{
    DocumentRule, HubSettings, ReadConfig, Source, SourceSpec, Stop, StoreSettings, listing, remote,
};
use crate::base::pools::lock;
use crate::base::secrets::shown_uri;
use crate::error::{Error, Result};
use crate::observer::Observer;

/// The environment of [`open`]: everything besides the description of the source that comes from outside the library.
pub struct OpenContext<'a> {
    /// The sizes of the portions in which to read.
    pub config: ReadConfig,
    /// Collects the rows and files that are skipped; one object for all sources of a run.
    pub skipped_rows: Arc<SkippedRows>,
    /// Standard input. The first source `-` that is opened takes it.
    pub stdin: Mutex<Option<Box<dyn Read + Send>>>,
    /// How to reach the hub, and the location of its cache.
    pub hub: HubSettings,
    /// How to reach object stores.
    pub stores: StoreSettings,
    /// Receives the progress of downloads, and can stop them.
    pub observer: &'a dyn Observer,
    /// Can stop streamed reads and waiting for a pipe. These may outlive `observer` and therefore ask only this
    /// callback. A program that can be interrupted lets both check the same flag.
    pub stop: Stop,
}

impl fmt::Debug for OpenContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenContext")
            .field("config", &self.config)
            .field("hub", &self.hub)
            .field("stores", &self.stores)
            .finish_non_exhaustive()
    }
}

impl<'a> OpenContext<'a> {
    /// A context with default settings and without standard input.
    pub fn new(observer: &'a dyn Observer) -> OpenContext<'a> {
        OpenContext {
            config: ReadConfig::default(),
            skipped_rows: Arc::default(),
            stdin: Mutex::new(None),
            hub: HubSettings::default(),
            stores: StoreSettings::default(),
            observer,
            stop: Arc::new(|| false),
        }
    }
}

/// Lists a source and reads what can be known before reading its documents: names, footers, schemas. Files of the hub
/// that its cache lacks are downloaded, unless [`SourceSpec::stream`] is set.
///
/// `source` is the source's number, which its batches carry. It must be the index of the source among those given to
/// [`in_order`](super::in_order), and it is the index of its weight in
/// [`weights`](crate::count::CountConfig::weights). Relative paths are relative to the working directory.
///
/// # Errors
/// The source does not exist or has no files; a file is damaged or cannot be read, unless bad input is to be skipped;
/// a column is missing or holds no text; or the request is invalid in another way.
///
/// # Examples
/// ```
/// use tokenmill::observer::Silent;
/// use tokenmill::source::{self, Identity, OpenContext, Source, SourceSpec};
///
/// let spec = SourceSpec { uri: "demo:verse?lines=5".to_owned(), ..SourceSpec::default() };
/// let source = source::open(&spec, 0, &OpenContext::new(&Silent))?;
/// assert_eq!(source.units()[0].rows, Some(5));
/// assert_eq!(source.identity(0)?, Identity::Generated);
/// # Ok::<(), tokenmill::Error>(())
/// ```
pub fn open(spec: &SourceSpec, source: usize, context: &OpenContext<'_>) -> Result<Arc<dyn Source>> {
    open_by(spec, source, context, !spec.stream)
}

/// Like [`open`], but downloads nothing: hub files that the cache lacks are opened for reading by ranges. Other files
/// are opened like in [`open`].
///
/// # Errors
/// Those of [`open`].
pub fn open_without_download(
    spec: &SourceSpec,
    source: usize,
    context: &OpenContext<'_>,
) -> Result<Arc<dyn Source>> {
    open_by(spec, source, context, false)
}

/// Dispatches on the URI's scheme. `download` says whether files of the hub are downloaded.
///
/// # Errors
/// Those of [`open`].
fn open_by(
    spec: &SourceSpec,
    source: usize,
    context: &OpenContext<'_>,
    download: bool,
) -> Result<Arc<dyn Source>> {
    if matches!(&spec.documents, DocumentRule::Separator(separator) if separator.is_empty()) {
        return Err(Error::usage("the separator between documents is empty"));
    }
    RowText::of(spec)?;
    let config = context.config;
    let bad = BadInput { policy: spec.on_bad_input, source, skipped_rows: Arc::clone(&context.skipped_rows) };
    let uri = spec.uri.as_str();
    if let Some(path) = uri.strip_prefix("file://") {
        return open_by(
            &SourceSpec { uri: local_path(uri, path)?, ..spec.clone() },
            source,
            context,
            download,
        );
    }
    // If the format is given, files of any name count, as in a local folder.
    let any_name = spec.format.is_some();
    if uri == "-" {
        let reader = lock(&context.stdin).take();
        let spent = || Error::usage("standard input can be read only once").with_help("name \"-\" only once");
        let (name, reader) = ("standard input".to_owned(), reader.ok_or_else(spent)?);
        return Ok(Arc::new(PipeSource::open(spec, name, reader, config, bad)?));
    }
    if uri.starts_with("demo:") {
        return Ok(Arc::new(Demo::open(spec, source, config)?));
    }
    if remote::is_remote(uri) {
        let OpenContext { hub, stores, observer, stop, .. } = context;
        let found = remote::open(uri, any_name, download, hub, stores, *observer, stop)?;
        return open_identified(spec, found, config, bad);
    }
    if uri.contains("://") {
        return Err(no_source(uri).with_help(
            "sources are paths, folders, patterns, file:///…, hf://datasets/…, https://…, s3://…, gs://…, az://…, demo:… and -",
        ));
    }
    if std::fs::metadata(uri).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        // The name of a pipe shows its format, like a file's name. Its compression is detected when it is read.
        let format = listing::list(uri, spec.format, &mut Vec::new())?.first().map(|pipe| pipe.format);
        let spec = SourceSpec { format, ..spec.clone() };
        let pipe = Box::new(Pipe::new(uri.into(), Arc::clone(&context.stop)));
        return Ok(Arc::new(PipeSource::open(&spec, uri.to_owned(), pipe, config, bad)?));
    }
    let mut notes = Vec::new();
    let listed = listing::list(uri, spec.format, &mut notes)?;
    notes.into_iter().for_each(|note| bad.file_notes(note));
    Ok(Arc::new(FileSource::open(spec, listed, Vec::new(), config, bad)?))
}

/// The error for a URI with an unknown scheme, or a `file:` URI without an absolute path.
fn no_source(uri: &str) -> Error {
    Error::usage(format!("{} is not a source that this program can read", shown_uri(uri)))
}

/// The local path of a `file:` URI: `file:///a%20b` and `file://localhost/a%20b` give `/a b`.
///
/// # Errors
/// The path is not absolute or not UTF-8 after decoding.
fn local_path(uri: &str, path: &str) -> Result<String> {
    let path = path.strip_prefix("localhost").unwrap_or(path);
    let decoded = percent_decode_str(path).decode_utf8().ok().filter(|path| path.starts_with('/'));
    decoded.map(Cow::into_owned).ok_or_else(|| {
        no_source(uri).with_help("an address of a file on this machine is file:///PATH; a path alone will do")
    })
}

/// Opens files that have known identities.
///
/// # Errors
/// A file cannot be opened, or the files have different formats.
fn open_identified(
    spec: &SourceSpec,
    found: Vec<remote::Streamed>,
    config: ReadConfig,
    bad: BadInput,
) -> Result<Arc<dyn Source>> {
    let (files, remotes): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    let (places, identities): (Vec<_>, Vec<_>) = files.into_iter().unzip();
    let mut notes = Vec::new();
    let listed = listing::named(&shown_uri(&spec.uri), places, remotes, spec.format, &mut notes)?;
    notes.into_iter().for_each(|note| bad.file_notes(note));
    // A streamed file is a single unit, and remains one if the cache has the file, so that the units are the same.
    let range_bytes = if spec.stream { u64::MAX } else { config.range_bytes };
    let config = ReadConfig { range_bytes, ..config };
    Ok(Arc::new(FileSource::open(spec, listed, identities, config, bad)?))
}
