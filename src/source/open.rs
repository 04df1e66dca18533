use std::borrow::Cow;
use std::fmt;
use std::io::Read;
use std::sync::{Arc, Mutex};

use percent_encoding::percent_decode_str;

use super::demo::Demo;
use super::fault::Fault;
use super::files::{Files, Stream};
use super::identified::Identified;
use super::incidents::{BadInput, Incidents};
use super::pipe::Pipe;
use super::row_text::RowText;
use super::secrets::shown_uri;
use super::{DocumentRule, HubSettings, Source, SourceSpec, StoreSettings, listing, remote};
use crate::error::Result;
use crate::observer::Observer;
use crate::parallel::lock;
use crate::units::amount;

/// Default of [`ReadConfig::batch_bytes`].
pub const DEFAULT_BATCH_BYTES: u64 = 4 << 20;

/// Default of [`ReadConfig::range_bytes`].
pub const DEFAULT_RANGE_BYTES: u64 = 64 << 20;

/// Default of [`ReadConfig::window_bytes`].
pub const DEFAULT_WINDOW_BYTES: u64 = super::decompress::USUAL_WINDOW;

/// In what portions sources are read. The documents do not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadConfig {
    /// Bytes of text in a batch, about. A larger row is a batch of its own.
    pub batch_bytes: u64,
    /// Bytes of a unit of uncompressed text or JSONL, about.
    pub range_bytes: u64,
    /// Memory for the windows of all compressed texts that are read at once. One of [`DEFAULT_WINDOW_BYTES`] is always
    /// allowed.
    pub window_bytes: u64,
    /// How many files are read at once at most.
    pub readers: usize,
}

impl Default for ReadConfig {
    fn default() -> ReadConfig {
        ReadConfig {
            batch_bytes: DEFAULT_BATCH_BYTES,
            range_bytes: DEFAULT_RANGE_BYTES,
            window_bytes: DEFAULT_WINDOW_BYTES,
            readers: 1,
        }
    }
}

impl ReadConfig {
    /// How large the window of one of so many compressed files may be.
    pub(super) fn window(&self, files: usize) -> u64 {
        self.window_bytes / amount(files.min(self.readers).max(1))
    }
}

/// Says whether to stop, to those that wait for a network while documents are read.
pub type Stop = Arc<dyn Fn() -> bool + Send + Sync>;

/// Hears, from any thread, what whoever waits should know.
pub type Note = Arc<dyn Fn(&str) + Send + Sync>;

/// What opening sources takes beside what they are: everything that comes from outside the library.
pub struct OpenContext<'a> {
    /// In what portions to read.
    pub config: ReadConfig,
    /// Where bad input is noted; one for all sources of a run.
    pub incidents: Arc<Incidents>,
    /// Standard input; the first source `-` that is opened takes it.
    pub stdin: Mutex<Option<Box<dyn Read + Send>>>,
    /// How to reach the hub, and where its files are kept.
    pub hub: HubSettings,
    /// How to reach object stores.
    pub stores: StoreSettings,
    /// Hears of downloads, and can stop them.
    pub observer: &'a dyn Observer,
    /// Can stop reading what is not downloaded but streamed, and waiting for a pipe. These go on after `observer` is gone,
    /// and hear this alone: a program that can be interrupted lets both ask the same flag.
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
    /// A context with the defaults, without standard input.
    pub fn new(observer: &'a dyn Observer) -> OpenContext<'a> {
        OpenContext {
            config: ReadConfig::default(),
            incidents: Arc::default(),
            stdin: Mutex::new(None),
            hub: HubSettings::default(),
            stores: StoreSettings::default(),
            observer,
            stop: Arc::new(|| false),
        }
    }
}

/// Lists a source and looks at what can be known of it before reading: names, footers, schemas. Files of
/// the hub that are not in its cache are downloaded.
///
/// `source` is the source's number, which its batches carry: the place that it has among the sources given to
/// [`in_order`](super::in_order), and its weight among [weights](crate::count::CountConfig::weights). Relative paths are
/// relative to the working directory.
///
/// # Errors
/// The source does not exist or has no files; a file is damaged or cannot be read, unless bad input is
/// to be left out; a column is missing or holds no text, or the request is wrong in another way.
pub fn open(spec: &SourceSpec, source: usize, context: &OpenContext<'_>) -> Result<Arc<dyn Source>> {
    open_by(spec, source, context, !spec.stream)
}

/// The same without downloading anything: files of the hub that are not in its cache are taken for ones to be read by
/// ranges. All others are what [`open`] makes of them.
///
/// # Errors
/// As of [`open`].
pub fn look(spec: &SourceSpec, source: usize, context: &OpenContext<'_>) -> Result<Arc<dyn Source>> {
    open_by(spec, source, context, false)
}

fn open_by(
    spec: &SourceSpec,
    source: usize,
    context: &OpenContext<'_>,
    download: bool,
) -> Result<Arc<dyn Source>> {
    if matches!(&spec.documents, DocumentRule::Separator(separator) if separator.is_empty()) {
        return Err(Fault::EmptySeparator.usage());
    }
    RowText::of(spec)?;
    let config = context.config;
    let bad = BadInput { policy: spec.on_bad_input, source, incidents: Arc::clone(&context.incidents) };
    let uri = spec.uri.as_str();
    if let Some(path) = uri.strip_prefix("file://") {
        return open_by(
            &SourceSpec { uri: local_path(uri, path)?, ..spec.clone() },
            source,
            context,
            download,
        );
    }
    // A folder on disk has files of any name too where the format is given.
    let any_name = spec.format.is_some();
    if uri == "-" {
        let reader = lock(&context.stdin).take();
        let name = "standard input".to_owned();
        let spent = || Fault::Spent { name: name.clone() }.usage().with_help("name \"-\" only once");
        let reader = reader.ok_or_else(spent)?;
        return Ok(Arc::new(Stream::open(spec, name, reader, config, bad)?));
    }
    if uri.starts_with("demo:") {
        return Ok(Arc::new(Demo::open(spec, source, config)?));
    }
    if uri.starts_with("hf://") {
        let found = match download {
            false => remote::stream(uri, any_name, &context.hub, &context.stop)?,
            true => {
                let fetched = remote::fetch(uri, any_name, &context.hub, context.observer)?;
                fetched.into_iter().map(|fetched| (fetched, None)).collect()
            }
        };
        return open_identified(spec, found, config, bad);
    }
    if uri.starts_with("https://") || uri.starts_with("http://") {
        return open_identified(spec, vec![remote::look(uri, &context.hub, &context.stop)?], config, bad);
    }
    if ["s3://", "gs://", "az://"].iter().any(|scheme| uri.starts_with(scheme)) {
        let found = remote::list(uri, any_name, &context.stores, &context.hub.patience, &context.stop)?;
        return open_identified(spec, found, config, bad);
    }
    if uri.contains("://") {
        let error = Fault::Scheme { uri: shown_uri(uri) }.usage();
        return Err(error.with_help(
            "sources are paths, folders, patterns, file:///…, hf://datasets/…, https://…, s3://…, gs://…, az://…, demo:… and -",
        ));
    }
    if std::fs::metadata(uri).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        // Its name says the format as a file's does; what it is compressed with is seen when it is read.
        let format = listing::list(uri, spec.format, &mut Vec::new())?.first().map(|pipe| pipe.format);
        let spec = SourceSpec { format, ..spec.clone() };
        let pipe = Box::new(Pipe::new(uri.into(), Arc::clone(&context.stop)));
        return Ok(Arc::new(Stream::open(&spec, uri.to_owned(), pipe, config, bad)?));
    }
    let mut notes = Vec::new();
    let listed = listing::list(uri, spec.format, &mut notes)?;
    notes.into_iter().for_each(|note| bad.of_files(note));
    Ok(Arc::new(Files::open(spec, listed, config, bad)?))
}

/// The path of an address of a file on this machine: `file:///a%20b` and `file://localhost/a%20b` are `/a b`.
fn local_path(uri: &str, path: &str) -> Result<String> {
    let path = path.strip_prefix("localhost").unwrap_or(path);
    let decoded = percent_decode_str(path).decode_utf8().ok().filter(|path| path.starts_with('/'));
    decoded.map(Cow::into_owned).ok_or_else(|| {
        let fault = Fault::Scheme { uri: shown_uri(uri) }.usage();
        fault.with_help("an address of a file on this machine is file:///PATH; a path alone will do")
    })
}

/// Opens files whose identities are known without reading them.
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
    notes.into_iter().for_each(|note| bad.of_files(note));
    // What is streamed is one unit a file, and stays one where the cache has the file.
    let range_bytes = if spec.stream { u64::MAX } else { config.range_bytes };
    let config = ReadConfig { range_bytes, ..config };
    Ok(Arc::new(Identified { files: Files::open(spec, listed, config, bad)?, identities }))
}
