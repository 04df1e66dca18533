//! The kinds of files that are no tokenizer but are often given for one. [`OtherFileKind`] names the kind in an error.

use serde_json::Value;

/// A kind of file that is no tokenizer but is often given for one. Naming the kind helps more than the parser's
/// error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OtherFileKind {
    /// The kind as a noun phrase that completes "it is …".
    pub(super) what: &'static str,
    /// What the user should do instead.
    pub(super) remedy: &'static str,
}

/// The remedy for what servers send in place of a file.
const DOWNLOAD: &str = "download the file itself: on GitHub the raw file, on the Hugging Face hub the address with \
                        `resolve` instead of `blob`, with an access token if one is required";
/// The remedy for archives and compressed files. Tokenizers are small, so compressed ones are not read.
const UNPACK: &str = "unpack it first";
/// The remedy for text in another encoding.
const AS_UTF_8: &str = "convert it to UTF-8 first, for instance with `iconv -t UTF-8`";
/// The remedy for files of a model other than its tokenizer.
const BESIDE_WEIGHTS: &str = "give the tokenizer's own file, which is usually in the same folder: tokenizer.json, or \
                              vocab.json with merges.txt";

/// A clone without Git LFS has a pointer in place of each large file.
const LFS_POINTER: OtherFileKind = OtherFileKind {
    what: "a Git LFS pointer, which only names a file",
    remedy: "fetch the file itself: run `git lfs pull` in its repository, or download it",
};

/// A browser page about a file, saved under the file's name.
const PAGE: OtherFileKind = OtherFileKind { what: "a web page", remedy: DOWNLOAD };

/// Hubs answer with a short text or with JSON that has the key `error`.
const ANSWER: OtherFileKind = OtherFileKind { what: "an error message from a server", remedy: DOWNLOAD };

/// Its models are unigram or BPE over characters. Both give other tokens than byte-level BPE.
const SENTENCE_PIECE: OtherFileKind = OtherFileKind {
    what: "a SentencePiece model",
    remedy: "only byte-level BPE tokenizers can be used, and SentencePiece models are not; a tokenizer.json beside it \
             may be one",
};

/// WordPiece takes the longest token that matches, and has no merges.
const WORD_PIECE: OtherFileKind = OtherFileKind {
    what: "the token list of a WordPiece model, like that of BERT",
    remedy: "only byte-level BPE tokenizers can be used",
};

/// Some programs pickle an encoding of tiktoken. Unpickling runs code, so such files are not read.
const PICKLE: OtherFileKind = OtherFileKind {
    what: "a pickled Python object",
    remedy: "open it in Python and write its tokens to a .tiktoken file, one per line: its bytes in base64, a space, \
             and its rank",
};

/// The first bytes of files that hold no tokenizer. The byte order marks of UTF-16 are among them: the error then
/// names the encoding, which "not UTF-8" would not.
const BEGINNINGS: [(&[u8], OtherFileKind); 9] = [
    (b"version https://git-lfs.github.com/spec/", LFS_POINTER),
    (b"\x1f\x8b\x08", OtherFileKind { what: "compressed with gzip", remedy: UNPACK }),
    (b"\x28\xb5\x2f\xfd", OtherFileKind { what: "compressed with zstd", remedy: UNPACK }),
    (b"\xfd7zXZ\0", OtherFileKind { what: "compressed with xz", remedy: UNPACK }),
    (b"PK\x03\x04", OtherFileKind { what: "a zip archive", remedy: UNPACK }),
    (b"GGUF\x03\0\0\0", OtherFileKind { what: "a GGUF model", remedy: BESIDE_WEIGHTS }),
    (b"PAR1\x15", OtherFileKind { what: "a Parquet file", remedy: "give a tokenizer: this is data" }),
    (b"\xff\xfe", OtherFileKind { what: "UTF-16, not UTF-8", remedy: AS_UTF_8 }),
    (b"\xfe\xff", OtherFileKind { what: "UTF-16, not UTF-8", remedy: AS_UTF_8 }),
];

/// The first bytes of texts that servers answer instead of a file. Case does not matter.
const ANSWERS: [&[u8]; 5] = [
    b"Entry not found",
    b"Repository not found",
    b"Invalid username or password",
    b"Access to model",
    b"404: Not Found",
];

/// The first bytes of HTML and XML pages, in lower case.
const PAGES: [&[u8]; 4] = [b"<!doctype html", b"<html", b"<head", b"<?xml"];

/// Returns the kind of a file by its first bytes, whatever its name. `bytes` is the whole file or its beginning.
/// `None` if no known kind begins like this, which does not make it a tokenizer. White space before a page or answer
/// is skipped.
pub(super) fn by_first_bytes(bytes: &[u8]) -> Option<OtherFileKind> {
    if let Some((_, other)) = BEGINNINGS.iter().find(|(start, _)| bytes.starts_with(start)) {
        return Some(*other);
    }
    let text = bytes.trim_ascii_start();
    let begins = |start: &&[u8]| text.get(..start.len()).is_some_and(|text| text.eq_ignore_ascii_case(start));
    if PAGES.iter().any(&begins) {
        return Some(PAGE);
    }
    if ANSWERS.iter().any(begins) {
        return Some(ANSWER);
    }
    if is_sentence_piece(bytes) {
        return Some(SENTENCE_PIECE);
    }
    match bytes {
        [0x80, 2..=5, .., b'.'] => Some(PICKLE),
        // The length of the safetensors header, which is JSON.
        [_, _, _, _, _, 0, 0, 0, b'{', ..] => {
            Some(OtherFileKind { what: "the weights of a model (safetensors)", remedy: BESIDE_WEIGHTS })
        }
        _ => None,
    }
}

/// Returns whether the first field of a protocol buffer is a SentencePiece piece: a text, then its score or type.
fn is_sentence_piece(bytes: &[u8]) -> bool {
    // Field 1 is a list of pieces. Real files never begin with a piece of 128 bytes or more, which needs a longer
    // length.
    let Some([b'\n', length @ 0..0x80, entry @ ..]) = bytes.get(..) else { return false };
    let Some([b'\n', text_length @ 0..0x80, text @ ..]) = entry.get(..usize::from(*length)) else {
        return false;
    };
    let Some((text, rest)) = text.split_at_checked(usize::from(*text_length)) else { return false };
    std::str::from_utf8(text).is_ok() && matches!(rest, [0x15 | 0x18, _, ..])
}

/// Returns the kind of a text file by its lines: the tokens of BERT and similar models.
pub(super) fn by_lines(text: &[u8]) -> Option<OtherFileKind> {
    text.split(|&byte| byte == b'\n').any(|line| line.trim_ascii() == b"[UNK]").then_some(WORD_PIECE)
}

/// Returns the kind of a JSON file that is no `tokenizer.json`, by its top-level keys.
pub(super) fn by_keys(file: &Value) -> Option<OtherFileKind> {
    let keys = file.as_object()?;
    let is_id = |value: &Value| value.as_u64().is_some_and(|id| u32::try_from(id).is_ok());
    let has = |wanted: &[&str]| wanted.iter().all(|key| keys.contains_key(*key));
    let is_of = |some: &[&str]| some.iter().any(|key| keys.contains_key(*key));
    let (what, remedy) = if has(&["bpe_ranks", "pat_str"]) {
        (
            "a rank file of tiktoken for JavaScript, like claude.json",
            "write its tokens to a .tiktoken file, one per line: its bytes in base64, a space, and its rank; give its \
             pattern with `--split-regex`, and its special tokens with `--special-token`",
        )
    } else if has(&["error"]) {
        (ANSWER.what, ANSWER.remedy)
    } else if is_of(&["tokenizer_class", "added_tokens_decoder"]) {
        (
            "settings of transformers, like tokenizer_config.json",
            "give the folder, or the tokenizer.json or vocab.json in it",
        )
    } else if is_of(&["model_type", "architectures"]) {
        ("the configuration of a model", BESIDE_WEIGHTS)
    } else if !keys.is_empty() && keys.values().all(is_id) {
        (
            "a list of tokens with their ids, without merges",
            "if it is byte-level BPE, name it vocab.json and put its merges.txt beside it",
        )
    } else {
        return None;
    };
    Some(OtherFileKind { what, remedy })
}

/// Returns the model type of a `tokenizer.json`, unless it may be BPE. Files of old versions do not name it.
///
/// Without a name, the fields of the model decide: only BPE has merges, only WordPiece limits the length of words, and
/// only Unigram lists its tokens instead of mapping them to ids. `None` also if no type fits.
pub(super) fn other_model(file: &Value) -> Option<&str> {
    let model = &file["model"];
    let has = |key: &str| !model[key].is_null();
    match model["type"].as_str() {
        Some(named) if named != "BPE" => Some(named),
        _ if has("merges") => None,
        _ if has("max_input_chars_per_word") => Some("WordPiece"),
        _ if model["vocab"].is_array() => Some("Unigram"),
        _ => has("vocab").then_some("WordLevel"),
    }
}
