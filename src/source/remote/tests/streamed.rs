//! Tests of files that are read by ranges.

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use super::*;
use crate::source::content::RangeRead;
use crate::source::files::FileSource;
use crate::source::skipped_rows::BadInput;
use crate::source::{DocumentRule, ReadConfig, SkippedRows, Source, listing};

/// A Parquet file with three row groups, a column of long texts, and an equally long second column.
fn two_columns() -> (Vec<u8>, Vec<String>, usize) {
    let texts: Vec<String> =
        (0..300).map(|row| format!("{row} {}", "0123456789abcdef".repeat(300))).collect();
    let column: ArrayRef = Arc::new(StringArray::from_iter_values(&texts));
    let rows = RecordBatch::try_from_iter([("other", Arc::clone(&column)), ("text", column)]).unwrap();
    let properties =
        WriterProperties::builder().set_max_row_group_row_count(Some(100)).set_dictionary_enabled(false);
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, rows.schema(), Some(properties.build())).unwrap();
    writer.write(&rows).unwrap();
    let metadata = writer.close().unwrap();
    let groups = metadata.row_groups().iter();
    let needed = groups.map(|group| usize::try_from(group.column(1).compressed_size()).unwrap()).sum();
    (bytes, texts, needed)
}

/// Opens and reads a source with `stream` set.
fn read(
    uri: &str,
    documents: DocumentRule,
    settings: &HubSettings,
) -> crate::Result<(Vec<String>, Identity)> {
    let spec = SourceSpec { uri: uri.to_owned(), documents, stream: true, ..SourceSpec::default() };
    let source = open(&spec, 0, &OpenContext { hub: settings.clone(), ..OpenContext::new(&Silent) })?;
    let mut texts = Vec::new();
    for unit in 0..source.units().len() {
        for batch in source.read(unit)? {
            texts.extend(batch?.iter().map(|text| String::from_utf8(text.unwrap().to_vec()).unwrap()));
        }
    }
    Ok((texts, source.identity(0)?))
}

fn streamed(settings: &HubSettings) -> crate::Result<Vec<String>> {
    let (texts, identity) = read(URI, DocumentRule::File, settings)?;
    assert!(matches!(identity, Identity::Hub { commit, .. } if commit == COMMIT));
    Ok(texts)
}

/// Only the needed ranges are transferred, nothing is stored, and the token is sent only to the hub.
#[test]
fn a_stream_reads_the_ranges_it_needs_and_keeps_nothing() {
    let (bytes, texts, needed) = two_columns();
    let faults: &[&[(Part, Fault)]] = &[
        &[],
        &[(Part::Files, Fault::CutAfter(1_000)), (Part::Files, Fault::Status(403, ""))],
        &[(Part::Files, Fault::Status(500, "")), (Part::Files, Fault::Stall(SILENCE * 3))],
    ];
    for faults in faults {
        let folder = tempfile::tempdir().unwrap();
        let (hub, settings) = hub(&[], folder.path());
        hub.put(COMMIT, "a.parquet", bytes.clone(), true);
        faults.iter().cloned().for_each(|(part, fault)| hub.fail(part, fault));
        assert!(streamed(&settings).unwrap() == texts);
        let asked = hub.asked();
        let files = of(&asked, Part::Files);
        let sent: usize = files.iter().map(|asked| asked.sent).sum();
        assert!(sent <= needed + (64 << 10) + 1_000, "{sent} bytes sent, {needed} needed");
        assert!(files.iter().all(|asked| !asked.token), "the token is for the hub alone");
        assert!(fs::read_dir(folder.path()).unwrap().next().is_none(), "nothing is kept");
        let offline = HubSettings { offline: true, ..settings.clone() };
        assert_eq!(streamed(&offline).unwrap_err().kind(), ErrorKind::Network);
        fetch(URI, false, &settings, &Silent).unwrap();
        hub.asked();
        assert!(streamed(&offline).unwrap() == texts && streamed(&settings).unwrap() == texts);
        assert!(of(&hub.asked(), Part::Files).is_empty(), "what the cache has is read there");
    }
}

/// Streamed files are single units, whether the cache has them or not.
#[test]
fn units_of_a_stream_do_not_depend_on_what_the_cache_has() {
    let folder = tempfile::tempdir().unwrap();
    let (_hub, settings) = hub(&[("data/a.txt", "one\ntwo\nthree\n", true)], folder.path());
    let uri = format!("{URI}/data");
    let (documents, config) = (DocumentRule::Line, ReadConfig { range_bytes: 4, ..ReadConfig::default() });
    let spec = |stream| {
        let (uri, documents) = (uri.clone(), documents.clone());
        SourceSpec { uri, documents, stream, ..SourceSpec::default() }
    };
    let context = || OpenContext { hub: settings.clone(), config, ..OpenContext::new(&Silent) };
    let units = |stream| open(&spec(stream), 0, &context()).unwrap().units().to_vec();
    let looked_at = || look(&spec(false), 0, &context()).unwrap().units().to_vec();
    let expected = units(true);
    assert_eq!(looked_at(), expected, "what is not there cannot be cut");
    assert!(!settings.cache.exists() || fs::read_dir(&settings.cache).unwrap().next().is_none());
    let cut = units(false);
    assert_eq!(cut.len(), 3, "what is downloaded is cut");
    assert_eq!(units(true), expected);
    assert_eq!(looked_at(), cut, "a look at what the cache has");
}

/// Changed files, missing support of ranges, and error pages are detected.
#[test]
fn a_stream_notices_what_is_not_the_listed_file() {
    let (bytes, _, _) = two_columns();
    let cases = [
        (Part::Resolve, Fault::Etag("other"), "changed"),
        (Part::Files, Fault::Whole, "range requests"),
        (Part::Files, Fault::Body(b"an error page"), "range requests"),
    ];
    for (part, fault, says) in cases {
        let folder = tempfile::tempdir().unwrap();
        let (hub, settings) =
            hub(&[("b.jsonl", r#"{"text": "x"}"#, false), ("c.arrow", "", true)], folder.path());
        hub.put(COMMIT, "a.parquet", bytes.clone(), true);
        hub.fail(part, fault);
        let error = streamed(&settings).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Network);
        assert!(error.to_string().contains(says) && error.to_string().contains("a.parquet"), "{error}");
        assert_eq!(read(&format!("{URI}/b.jsonl"), DocumentRule::File, &settings).unwrap().0, ["x"]);
        let refused = read(&format!("{URI}/c.arrow"), DocumentRule::File, &settings).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Usage, "{refused}");
    }
}

/// Files of a web server without the hub's API are read in every format.
#[test]
fn files_of_a_web_server_are_read_where_they_lie() {
    let folder = tempfile::tempdir().unwrap();
    let (hub, settings) =
        hub(&[("b.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}", false)], folder.path());
    let (parquet, texts, _) = two_columns();
    let lines: Vec<String> = (0..1_500_000).map(|line| format!("line {line}")).collect();
    let text = lines.join("\n");
    hub.put(COMMIT, "a.parquet", parquet, false);
    hub.put(COMMIT, "c.txt", text.as_bytes(), false);
    hub.put(COMMIT, "d.txt.zst", zstd::encode_all(text.as_bytes(), 1).unwrap(), false);
    // Only the files are requested here, not the API, so this hub acts as an ordinary web server.
    let uri = |name: &str| format!("{}/resolve-cache/{COMMIT}/{name}", hub.endpoint);
    hub.fail(Part::Resolve, Fault::Status(503, ""));
    let (found, identity) = read(&uri("a.parquet?x=1"), DocumentRule::File, &settings).unwrap();
    assert!(found == texts);
    assert!(matches!(identity, Identity::Web { bytes, etag } if bytes > 0 && etag.len() == 40));
    assert_eq!(read(&uri("b.jsonl"), DocumentRule::Line, &settings).unwrap().0, ["one", "two"]);
    for name in ["c.txt", "d.txt.zst"] {
        assert!(read(&uri(name), DocumentRule::Line, &settings).unwrap().0 == lines, "{name}");
    }
    hub.put(COMMIT, "e.txt", "", false);
    assert!(read(&uri("e.txt"), DocumentRule::Line, &settings).unwrap().0.is_empty());
    let columns = SourceSpec { uri: uri("c.txt"), columns: vec!["id".to_owned()], ..SourceSpec::default() };
    let context = OpenContext { hub: settings.clone(), ..OpenContext::new(&Silent) };
    let refused = open(&columns, 0, &context).map(|_| ()).unwrap_err();
    assert!(refused.kind() == ErrorKind::Usage && refused.to_string().contains("no columns"), "{refused}");
    assert!(hub.asked().iter().all(|asked| !asked.token), "the token is for the hub alone");
    for (fault, kind) in
        [(Fault::Status(403, ""), ErrorKind::Authorisation), (Fault::Status(404, ""), ErrorKind::Failed)]
    {
        hub.fail(Part::Resolve, fault);
        let error = read(&uri("c.txt"), DocumentRule::Line, &settings).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains("the server answers"), "{error}");
    }
}

/// A remote file in memory.
#[derive(Debug)]
struct Elsewhere(Vec<u8>);

impl RangeRead for Elsewhere {
    fn bytes(&self) -> u64 {
        crate::base::int::to_u64(self.0.len())
    }

    fn range(&self, start: u64, length: usize) -> crate::Result<bytes::Bytes> {
        let start = crate::base::int::u64_to_usize(start);
        Ok(self.0[start..start + length].to_vec().into())
    }
}

/// Without an entity tag or a time, a file is identified by its content.
#[test]
fn a_file_of_which_the_server_tells_nothing_is_known_by_its_content() {
    let parquet = |text: &str| {
        let column: ArrayRef = Arc::new(StringArray::from(vec![text]));
        let rows = RecordBatch::try_from_iter([("text", column)]).unwrap();
        let mut writer = ArrowWriter::try_new(Vec::new(), rows.schema(), None).unwrap();
        writer.write(&rows).unwrap();
        writer.into_inner().unwrap()
    };
    let identity = |name: &str, bytes: Vec<u8>, etag: &str| {
        let known = Identity::Web { bytes: crate::base::int::to_u64(bytes.len()), etag: etag.to_owned() };
        let remote: Arc<dyn RangeRead> = Arc::new(Elsewhere(bytes));
        let place = (std::path::PathBuf::from(name), name.to_owned());
        let files = listing::named(name, vec![place], vec![Some(remote)], None, &mut Vec::new()).unwrap();
        let spec = SourceSpec { uri: name.to_owned(), ..SourceSpec::default() };
        let bad =
            BadInput { policy: spec.on_bad_input, source: 0, skipped_rows: Arc::new(SkippedRows::default()) };
        let files = FileSource::open(&spec, files, vec![known], ReadConfig::default(), bad).unwrap();
        files.identity(0).unwrap()
    };
    for (name, one, two) in
        [("a.txt", b"one".to_vec(), b"two".to_vec()), ("a.parquet", parquet("one"), parquet("two"))]
    {
        assert_eq!(one.len(), two.len());
        assert_eq!(identity(name, one.clone(), ""), identity(name, one.clone(), ""), "{name}");
        assert_ne!(identity(name, one.clone(), ""), identity(name, two.clone(), ""), "{name}");
        assert_eq!(identity(name, one, "tag"), identity(name, two, "tag"), "{name}");
    }
}
