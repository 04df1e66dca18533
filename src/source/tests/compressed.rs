//! Tests of compressed text, and of files with content that disagrees with their name.

use super::*;

type Compressor = fn(&[u8]) -> Vec<u8>;

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ::zstd::encode_all(bytes, 1).expect("memory to write to")
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ::bzip2::write::BzEncoder::new(Vec::new(), ::bzip2::Compression::fast());
    encoder.write_all(bytes).expect("memory to write to");
    encoder.finish().expect("memory to write to")
}

fn lz4(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(bytes).expect("memory to write to");
    encoder.finish().expect("memory to write to")
}

/// The lines `eins` and `zwei`, compressed by `xz -0`.
const XZ_TWO_LINES: &[u8] = b"\xfd\x37\x7a\x58\x5a\x00\x00\x04\xe6\xd6\xb4\x46\x02\x00\x21\x01\x0c\x00\x00\x00\x8f\x98\x41\x9c\x01\x00\x09\x65\x69\x6e\x73\x0a\x7a\x77\x65\x69\x0a\x00\x00\x00\xa4\x35\x96\x3e\x7b\xf6\xc8\xbe\x00\x01\x22\x0a\x15\x1a\xe1\x67\x1f\xb6\xf3\x7d\x01\x00\x00\x00\x00\x04\x59\x5a";

fn xz(bytes: &[u8]) -> Vec<u8> {
    use lzma_rust2::{XzOptions, XzWriter};
    let mut writer = XzWriter::new(Vec::new(), XzOptions::with_preset(1)).expect("a writer");
    writer.write_all(bytes).expect("memory to write to");
    writer.finish().expect("memory to write to")
}

/// Extensions, and the functions that compress accordingly.
const KINDS: [(&str, Compressor); 5] =
    [("gz", gzip), ("zst", zstd), ("bz2", bzip2), ("xz", xz), ("lz4", lz4)];

/// A skippable frame of zstd and LZ4 with this content.
fn skippable(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("short").to_le_bytes();
    [&[0x5a, 0x2a, 0x4d, 0x18], &length[..], bytes].concat()
}

fn lines(path: &Path) -> SourceSpec {
    SourceSpec { documents: DocumentRule::Line, ..spec(path) }
}

/// Reads standard input that consists of these bytes.
fn piped(spec: &SourceSpec, bytes: &[u8]) -> Result<Texts> {
    let context = OpenContext::new(&Silent);
    *context.stdin.lock().unwrap() = Some(Box::new(std::io::Cursor::new(bytes.to_vec())));
    let source = open(&SourceSpec { uri: "-".to_owned(), ..spec.clone() }, 0, &context)?;
    documents(source.read(0)?)
}

/// Text is the same after compression in every format, also with several members or frames.
#[test]
fn every_compression_reads_as_what_it_holds() {
    let folder = folder();
    let expected = texts(["eins", "zwei", "drei"]);
    for (ending, compress) in KINDS {
        let parts = [compress(b"eins\nzwei\n"), compress(b""), compress(b"drei\n")].concat();
        for (name, bytes, rows) in [
            ("whole", compress(b"eins\nzwei\ndrei\n"), expected.clone()),
            ("parts", parts.clone(), expected.clone()),
            ("nothing", compress(b""), Texts::new()),
            ("empty", Vec::new(), Texts::new()),
        ] {
            let path = written(folder.path(), &format!("{name}.txt.{ending}"), &bytes);
            assert_eq!(read(&lines(&path), SMALL).unwrap(), rows, "{}", path.display());
            assert_eq!(piped(&lines(&path), &bytes).unwrap(), rows, "{} from a pipe", path.display());
        }
        let rows = compress(b"{\"text\":\"a\"}\n{\"other\":1}\n");
        let path = written(folder.path(), &format!("rows.jsonl.{ending}"), rows);
        assert_eq!(read(&spec(&path), SMALL).unwrap(), [Some(b"a".to_vec()), None]);
        let path = written(folder.path(), &format!("{ending}.txt"), parts);
        let (_, message) = failure(opened(&spec(&path), SMALL));
        assert!(message.contains("compressed with") && message.contains(&format!(".{ending}")), "{message}");
        let path = written(folder.path(), &format!("plain.txt.{ending}"), "some text\n");
        let (_, message) = failure(opened(&spec(&path), SMALL));
        assert!(message.contains("not compressed"), "{message}");
    }
    let path = written(folder.path(), "made.txt.xz", XZ_TWO_LINES);
    assert_eq!(read(&lines(&path), SMALL).unwrap(), texts(["eins", "zwei"]));
}

/// A truncated file is an error wherever it ends, except between two frames.
#[test]
fn cut_compressed_text_is_an_error_at_every_length() {
    let folder = folder();
    let text: String = (0..400).map(|line| format!("line {}\n", line * 7_919 % 10_007)).collect();
    for (ending, compress) in KINDS {
        // In the second case, the truncated frame follows a complete one.
        for whole in [compress(text.as_bytes()), [compress(b"eins\n"), compress(text.as_bytes())].concat()] {
            let ends = [0, compress(b"eins\n").len(), whole.len()];
            let near = whole.len() - 40..whole.len();
            for length in (1..whole.len()).step_by(23).chain(near).filter(|length| !ends.contains(length)) {
                let path = written(folder.path(), &format!("cut.txt.{ending}"), &whole[..length]);
                assert!(read(&lines(&path), SMALL).is_err(), "{ending}: {length} of {} bytes", whole.len());
            }
        }
    }
}

/// Skippable frames before, between and after frames with data have no effect.
#[test]
fn frames_without_data_are_passed_over() {
    let folder = folder();
    let long = skippable(&[b'x'; 5_000]);
    let with_frames: [(&str, Compressor); 2] = [("zst", zstd), ("lz4", lz4)];
    for (ending, compress) in with_frames {
        let frame = compress(b"eins\n");
        for bytes in [
            [skippable(b"abcd"), frame.clone()].concat(),
            [skippable(b""), skippable(b"x"), frame.clone()].concat(),
            [long.clone(), frame.clone()].concat(),
            [frame.clone(), skippable(b"a table of contents")].concat(),
            [frame.clone(), skippable(b"x"), skippable(b"")].concat(),
        ] {
            let path = written(folder.path(), &format!("a.txt.{ending}"), &bytes);
            assert_eq!(read(&lines(&path), SMALL).unwrap(), texts(["eins"]), "{ending}");
            assert_eq!(piped(&lines(&path), &bytes).unwrap(), texts(["eins"]), "{ending} from a pipe");
            let path = written(folder.path(), "data", &bytes);
            assert!(failure(opened(&spec(&path), SMALL)).1.contains("compressed with"));
        }
        let cut = &long[..600];
        let path = written(folder.path(), &format!("cut.txt.{ending}"), cut);
        assert!(read(&lines(&path), SMALL).is_err() && piped(&lines(&path), cut).is_err());
    }
}

/// The content is recognized after decompression too, from files and pipes, in every format.
#[test]
fn what_is_no_text_is_told_inside_of_compression() {
    let utf_16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let mut tar = vec![0; 1_024];
    tar[..5].copy_from_slice(b"a.txt");
    tar[257..262].copy_from_slice(b"ustar");
    let pointer = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{:064}\nsize 12345\n", 7);
    let cases = [
        (tar, "a tar archive"),
        (b"PK\x03\x04...".to_vec(), "a zip archive"),
        (b"%PDF-1.7\n".to_vec(), "a PDF file"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec(), "a PNG image"),
        (b"GIF89a\x01\0".to_vec(), "a GIF image"),
        (b"\0\0\0\x20ftypisom".to_vec(), "a video"),
        (b"PAR1\x15\x04".to_vec(), "a Parquet file"),
        (b"ARROW1\0\0\xff\xff\xff\xff".to_vec(), "an Arrow file"),
        (gzip(b"some text\n"), "compressed with gzip"),
        (zstd(b"some text\n"), "compressed with zstd"),
        ([b"\xff\xfe".to_vec(), utf_16("some text\n")].concat(), "UTF-16"),
        (utf_16("some text\n"), "UTF-16"),
        (utf_16("кот и пёс\n"), "UTF-16"),
        (b"WARC/1.0\r\nWARC-Type: warcinfo\r\n".to_vec(), "a web archive"),
        (pointer.into_bytes(), "a Git LFS pointer"),
    ];
    let folder = folder();
    for (ending, compress) in KINDS {
        for (inside, what) in &cases {
            let bytes = compress(inside);
            for name in ["a.txt", "a.jsonl"] {
                let path = written(folder.path(), &format!("{name}.{ending}"), &bytes);
                let (kind, message) = failure(opened(&spec(&path), SMALL));
                assert_eq!(kind, ErrorKind::Failed);
                assert!(message.contains(&format!("decompressed it is {what}")), "{message}");
                let skipping = SourceSpec { on_bad_input: OnBadInput::Skip, ..lines(&path) };
                assert_eq!(read(&skipping, SMALL).unwrap(), Texts::new());
                let format = Some(if name == "a.txt" { Format::Text } else { Format::Jsonl });
                let (_, message) = failure(piped(&SourceSpec { format, ..spec(&path) }, &bytes));
                assert!(message.contains(&format!("decompressed it is {what}")), "{message}");
            }
        }
    }
    // It is recognized without compression as well.
    for (bytes, what) in cases.iter().filter(|(_, what)| !what.starts_with("compressed")) {
        let path = written(folder.path(), "a.txt", bytes);
        let (_, message) = failure(opened(&spec(&path), SMALL));
        assert!(message.contains(&format!("it is {what}")), "{message}");
        assert!(failure(piped(&spec(&path), bytes)).1.contains(&format!("it is {what}")));
    }
}

/// Text is not mistaken for another format that it resembles.
#[test]
fn text_that_is_like_something_else_is_text() {
    let folder = folder();
    let about = "version https://git-lfs.github.com/spec/v1 is the first line of a pointer\n";
    let long =
        format!("version https://git-lfs.github.com/spec/v1\noid sha256:7\nsize 1\n{}", "x".repeat(2_000));
    for text in [
        about,
        &long,
        "a\0b\0",
        "GIF8",
        "RIFF and WAVE",
        "WARC/1.0 is a format\n",
        "/annex/objects/\nand more\n",
    ] {
        let path = written(folder.path(), "a.txt", text);
        assert_eq!(read(&spec(&path), ReadConfig::default()).unwrap(), texts([text]));
        for (ending, compress) in KINDS {
            let path = written(folder.path(), &format!("a.txt.{ending}"), compress(text.as_bytes()));
            assert_eq!(read(&spec(&path), ReadConfig::default()).unwrap(), texts([text]), "{ending}");
        }
    }
}

/// Pointers of Git LFS and git-annex are reported with the way to fetch the data.
#[test]
fn pointers_to_files_that_were_not_fetched_are_told() {
    let folder = folder();
    let lfs = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{:064}\nsize 12345\n", 7);
    let old = format!("version https://hawser.github.com/spec/v1\noid sha256:{:064}\nsize 1\n", 7);
    let extended = format!(
        "version https://git-lfs.github.com/spec/v1\next-0-foo sha256:{:064}\noid sha256:{:064}\nsize 1\n",
        1, 7
    );
    let annex = "/annex/objects/SHA256E-s12345--0a1b2c.parquet\n".to_owned();
    let cases =
        [(lfs, "git lfs pull"), (old, "git lfs pull"), (extended, "git lfs pull"), (annex, "git annex get")];
    for (pointer, remedy) in cases {
        for name in [
            "a.txt",
            "a",
            "a.md",
            "a.jsonl",
            "a.parquet",
            "a.arrow",
            "a.arrows",
            "a.feather",
            "a.txt.gz",
            "a.jsonl.gz",
            "a.jsonl.zst",
            "a.txt.bz2",
            "a.txt.xz",
            "a.txt.lz4",
        ] {
            let path = written(folder.path(), name, &pointer);
            let (kind, message) = failure(opened(&spec(&path), SMALL));
            assert_eq!(kind, ErrorKind::Failed);
            assert!(
                message.contains(name) && message.contains("pointer") && message.contains(remedy),
                "{message}"
            );
        }
        for format in [Format::Text, Format::Jsonl, Format::Arrow] {
            let (_, message) = failure(piped(
                &SourceSpec { format: Some(format), ..SourceSpec::default() },
                pointer.as_bytes(),
            ));
            assert!(message.contains("pointer") && message.contains(remedy), "{format}: {message}");
        }
    }
}

/// A frame declares the size of its window. If that exceeds the limit, the frame is rejected before memory is
/// allocated.
#[test]
fn long_windows_are_read_within_a_limit() {
    let folder = folder();
    let compressed = |log: u32| {
        let mut encoder = ::zstd::stream::write::Encoder::new(Vec::new(), 1).expect("an encoder");
        encoder.window_log(log).expect("a window");
        encoder.long_distance_matching(true).expect("a window");
        encoder.write_all(b"eins\nzwei\n").expect("memory to write to");
        encoder.finish().expect("memory to write to")
    };
    let gigabytes = |gigabytes: u64| ReadConfig { window_bytes: gigabytes << 30, readers: 2, ..SMALL };
    for (log, limit, fits) in
        [(27, 0, true), (28, 0, false), (28, 1, true), (30, 1, true), (31, 1, false), (31, 2, true)]
    {
        let bytes = compressed(log);
        let path = written(folder.path(), "a.txt.zst", &bytes);
        let outcome = read(&lines(&path), gigabytes(limit));
        if fits {
            assert_eq!(outcome.unwrap(), texts(["eins", "zwei"]), "window of 2^{log}, {limit} GB");
            continue;
        }
        let (kind, message) = failure(outcome);
        assert_eq!(kind, ErrorKind::Memory);
        for part in ["a.txt.zst", "a window of", "the limit is", "--memory", "zstd -dc --long=31"] {
            assert!(message.contains(part), "{message}");
        }
        // This is an error of memory, not bad input, so it is not skipped.
        let skipping = SourceSpec { on_bad_input: OnBadInput::Skip, ..lines(&path) };
        assert_eq!(failure(read(&skipping, gigabytes(limit))).0, ErrorKind::Memory);
        // The frame is recognized after one with a small window too.
        let path = written(folder.path(), "b.txt.zst", [zstd(b"null\n"), bytes].concat());
        let (kind, message) = failure(read(&lines(&path), gigabytes(limit)));
        assert!(kind == ErrorKind::Memory && message.contains("b.txt.zst"), "{message}");
    }
    // Two files that are read at once have half of the limit each.
    written(folder.path(), "a.txt.zst", compressed(31));
    written(folder.path(), "b.txt.zst", zstd(b"null\n"));
    assert_eq!(failure(read(&lines(folder.path()), gigabytes(2))).0, ErrorKind::Memory);
    assert_eq!(read(&lines(folder.path()), gigabytes(4)).unwrap(), texts(["eins", "zwei", "null"]));
}

/// Concatenated Arrow streams with equal schemas are read as one; concatenated Arrow files are rejected.
#[test]
fn streams_of_arrow_data_laid_end_to_end_are_read_whole() {
    use arrow_array::{ArrayRef, DictionaryArray, RecordBatch, StringArray};
    use arrow_ipc::writer::{FileWriter, StreamWriter};

    let table = |texts: &[&str]| {
        let column: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
        let words: DictionaryArray<arrow_array::types::Int32Type> = texts.iter().copied().collect();
        let words: ArrayRef = Arc::new(words);
        RecordBatch::try_from_iter([("text", column), ("word", words)]).unwrap()
    };
    let stream = |table: &RecordBatch| {
        let mut writer = StreamWriter::try_new(Vec::new(), &table.schema()).unwrap();
        writer.write(table).unwrap();
        writer.into_inner().unwrap()
    };
    let file = |table: &RecordBatch| {
        let mut writer = FileWriter::try_new(Vec::new(), &table.schema()).unwrap();
        writer.write(table).unwrap();
        writer.into_inner().unwrap()
    };
    let (one, two) = (table(&["a", "b", "c"]), table(&["d", "e", "a"]));
    let all = texts(["a", "b", "c", "d", "e", "a"]);
    let folder = folder();
    let arrow = |column: &str| SourceSpec {
        column: Some(column.to_owned()),
        format: Some(Format::Arrow),
        ..SourceSpec::default()
    };
    let both = [stream(&one), stream(&two)].concat();
    // The marker at the end of a stream may be missing.
    let without_mark = [&stream(&one)[..stream(&one).len() - 8], &stream(&two)].concat();
    for bytes in [both.clone(), without_mark, [both.clone(), vec![0; 64]].concat()] {
        let path = written(folder.path(), "a.arrows", &bytes);
        for column in ["text", "word"] {
            let from_file = SourceSpec { uri: path.display().to_string(), ..arrow(column) };
            assert_eq!(read(&from_file, ReadConfig::default()).unwrap(), all, "{column}");
            assert_eq!(piped(&arrow(column), &bytes).unwrap(), all, "{column} from a pipe");
        }
    }
    let other: ArrayRef = Arc::new(StringArray::from(vec!["d"]));
    let other = RecordBatch::try_from_iter([("other", other)]).unwrap();
    for (after, says) in
        [(stream(&other), "other columns"), (b"some text that follows".to_vec(), "is not a stream")]
    {
        let path = written(folder.path(), "a.arrows", [stream(&one), after].concat());
        let error = read(&spec(&path), ReadConfig::default()).unwrap_err();
        assert!(format!("{error:?}").contains(says), "{error:?}");
    }
    // The footer of the last file counts from that file's beginning, so positions in it would be taken from the first
    // file.
    for (a, b) in [(&one, &two), (&one, &one), (&two, &table(&["some", "longer", "texts", "than", "before"]))]
    {
        let path = written(folder.path(), "a.arrow", [file(a), file(b)].concat());
        let error = read(&spec(&path), ReadConfig::default()).unwrap_err();
        assert!(format!("{error:?}").contains("several files joined into one"), "{error:?}");
    }
    let (_, message) = failure(piped(&arrow("text"), &file(&one)));
    assert!(message.contains("an Arrow file") && message.contains("to a file first"), "{message}");
}
