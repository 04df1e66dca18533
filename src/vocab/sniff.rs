//! Recognizes files that hold something else than a tokenizer, to say in an error what they are.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::keyed::Entries;
use crate::base::hash::Map;

/// A file of another kind, and the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OtherKind {
    /// The kind as a noun phrase that completes "it is …".
    pub(super) what: &'static str,
    /// What the user should do instead.
    pub(super) remedy: &'static str,
}

const DOWNLOAD: &str = "download the file itself: on GitHub the raw file, on the Hugging Face hub the address with \
                        `resolve` instead of `blob`, with an access token if one is required";
const UNPACK: &str = "unpack it first";
const AS_UTF_8: &str = "convert it to UTF-8 first, for instance with `iconv -t UTF-8`";
const BESIDE_WEIGHTS: &str = "give the tokenizer's own file, which is usually in the same folder: tokenizer.json, or \
                              vocab.json with merges.txt";

const LFS_POINTER: OtherKind = OtherKind {
    what: "a Git LFS pointer, which only names a file",
    remedy: "fetch the file itself: run `git lfs pull` in its repository, or download it",
};

const PAGE: OtherKind = OtherKind { what: "a web page", remedy: DOWNLOAD };

const ANSWER: OtherKind = OtherKind { what: "an error message from a server", remedy: DOWNLOAD };

const SENTENCE_PIECE: OtherKind = OtherKind {
    what: "a SentencePiece model",
    remedy: "only byte-level BPE tokenizers can be used, and SentencePiece models are not; a tokenizer.json beside it \
             may be one",
};

const WORD_PIECE: OtherKind = OtherKind {
    what: "the token list of a WordPiece model, like that of BERT",
    remedy: "only byte-level BPE tokenizers can be used",
};

const PICKLE: OtherKind = OtherKind {
    what: "a pickled Python object",
    remedy: "open it in Python and write its tokens to a .tiktoken file, one per line: its bytes in base64, a space, \
             and its rank",
};

/// The first bytes of files that hold no tokenizer.
const BEGINNINGS: [(&[u8], OtherKind); 9] = [
    (b"version https://git-lfs.github.com/spec/", LFS_POINTER),
    (b"\x1f\x8b\x08", OtherKind { what: "compressed with gzip", remedy: UNPACK }),
    (b"\x28\xb5\x2f\xfd", OtherKind { what: "compressed with zstd", remedy: UNPACK }),
    (b"\xfd7zXZ\0", OtherKind { what: "compressed with xz", remedy: UNPACK }),
    (b"PK\x03\x04", OtherKind { what: "a zip archive", remedy: UNPACK }),
    (b"GGUF\x03\0\0\0", OtherKind { what: "a GGUF model", remedy: BESIDE_WEIGHTS }),
    (b"PAR1\x15", OtherKind { what: "a Parquet file", remedy: "give a tokenizer: this is data" }),
    (b"\xff\xfe", OtherKind { what: "UTF-16, not UTF-8", remedy: AS_UTF_8 }),
    (b"\xfe\xff", OtherKind { what: "UTF-16, not UTF-8", remedy: AS_UTF_8 }),
];

/// The first bytes of texts that servers answer instead of a file.
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
pub(super) fn by_first_bytes(bytes: &[u8]) -> Option<OtherKind> {
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
            Some(OtherKind { what: "the weights of a model (safetensors)", remedy: BESIDE_WEIGHTS })
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
pub(super) fn by_lines(text: &[u8]) -> Option<OtherKind> {
    text.split(|&byte| byte == b'\n').any(|line| line.trim_ascii() == b"[UNK]").then_some(WORD_PIECE)
}

/// Returns the kind of a JSON file that is no `tokenizer.json`, by its top-level keys.
pub(super) fn by_keys(json: &[u8]) -> Option<OtherKind> {
    let keys: Map<String, IgnoredAny> = serde_json::from_slice(json).ok()?;
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
    } else if !keys.is_empty() && serde_json::from_slice::<Entries>(json).is_ok() {
        (
            "a list of tokens with their ids, without merges",
            "if it is byte-level BPE, name it vocab.json and put its merges.txt beside it",
        )
    } else {
        return None;
    };
    Some(OtherKind { what, remedy })
}

/// Returns the model type of a `tokenizer.json` that does not name it, as files of old versions do not.
pub(super) fn unnamed_model(json: &[u8]) -> Option<&'static str> {
    #[derive(Deserialize)]
    struct File<T> {
        model: T,
    }
    #[derive(Deserialize)]
    struct Fields {
        max_input_chars_per_word: Option<IgnoredAny>,
        merges: Option<IgnoredAny>,
        vocab: Option<IgnoredAny>,
    }
    #[derive(Deserialize)]
    struct Scored {
        #[serde(rename = "vocab")]
        _vocab: Vec<IgnoredAny>,
    }
    let File { model } = serde_json::from_slice::<File<Fields>>(json).ok()?;
    match model {
        Fields { merges: Some(_), .. } => None,
        Fields { max_input_chars_per_word: Some(_), .. } => Some("WordPiece"),
        _ if serde_json::from_slice::<File<Scored>>(json).is_ok() => Some("Unigram"),
        Fields { vocab: Some(_), .. } => Some("WordLevel"),
        _ => None,
    }
}
