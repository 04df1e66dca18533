//! Token ids, their bytes, and the files that hold them.
//!
//! A [`Vocabulary`] is built from merges that were just learned, or read from a file in any supported format. It is
//! checked in both cases. A token id and a merge rank are separate numbers: byte b need not have id b.
//!
//! ```
//! use tokenmill::observer::Silent;
//! use tokenmill::run::{LearnConfig, learn};
//! use tokenmill::source;
//! use tokenmill::vocab::{self, Format, LoadOptions, WriteOptions};
//!
//! # let folder = tempfile::tempdir().expect("a folder");
//! # let folder = folder.path();
//! let texts = source::texts(["how much wood would a woodchuck chuck"]);
//! let (vocabulary, _) = learn(texts, &LearnConfig::new(300, &["<|endoftext|>"]), &Silent)?;
//! vocab::write(&vocabulary, Format::Tiktoken, folder, &WriteOptions::default())?;
//!
//! let again = vocab::load(folder, &LoadOptions::default(), &Silent)?;
//! assert_eq!(again.fingerprint(), vocabulary.fingerprint());
//! let chuck = again.id_of(b"chuck").expect("twice in the text");
//! assert_eq!(again.bytes(chuck), Some(&b"chuck"[..]));
//! # Ok::<(), tokenmill::Error>(())
//! ```
//!
//! # The parts of a `tokenizer.json` that are read
//!
//! Every byte-level BPE file that consists of the parts below gives the ids that Hugging Face's tokenizers gives.
//! `tests/peers/` checks this for the structures of GPT-2, RoBERTa, Phi, OLMo, Llama 3, Qwen, DeepSeek and others.
//! Every other part is refused with an error that names it: nothing that changes ids is ignored.
//!
//! | part | read | refused |
//! | --- | --- | --- |
//! | `model` | BPE, `ignore_merges`; `unk_token`, `fuse_unk` where bytes lack a token | other models, `dropout`, `byte_fallback` where bytes lack a token, `continuing_subword_prefix`, `end_of_word_suffix` |
//! | `normalizer` | none, `NFC`, `NFD`, `NFKC`, `NFKD`, `Lowercase`, `StripAccents`, `Strip`, `Prepend`, `Replace`, in any number | all others |
//! | `pre_tokenizer` | `ByteLevel`, before and after it any number of `Split`, `Digits` and `Punctuation`, with every behavior | all others; `add_prefix_space` after another split |
//! | `added_tokens` | all, with every flag | ids that tokenizers would not assign; special tokens with the bytes of another token |
//! | `post_processor` | kept and reported to the observer, but not applied | anything but a template of tokens around one text |
//! | `decoder` | none, `ByteLevel`, `Fuse` | all others |
//! | `truncation`, `padding` | reported to the observer, but not applied: texts are encoded whole | |
//!
//! **Splits.** A regular expression that equals a named pattern letter for letter is read as that pattern. Others run
//! on the regular expression engine; syntax that Oniguruma understands differently is translated or refused.
//! `Removed` with `invert` drops the text that the expression does not match. Here such text is an error that names
//! the position; it does not occur with the named patterns. `Removed` without `invert` drops the matches, which is
//! also an error here.
//!
//! A file without `pre_tokenizer` and with decoder `ByteLevel` is read as a tokenizer that does not split. For such a
//! file, tokenizers itself does not convert text into the byte alphabet and drops characters that no key spells.
//!
//! **Bytes** without a token: [`MissingBytes`](crate::encode::MissingBytes) decides whether a text with such a byte
//! is an error or is encoded as tokenizers does it. A token without bytes keeps its id, and no text is encoded into
//! it.
//!
//! **Added tokens** are found before the text is split. Those that are not `normalized` come first and are found in
//! the original text; the others are then found in the normalized text between them.
//! [`SpecialPolicy`](crate::encode::SpecialPolicy) decides whether *special* tokens are found. Tokens that are not
//! special are ordinary vocabulary and are found under every policy, as tokenizers finds them with
//! `encode_special_tokens`. One rule is stricter here: with `ignore_merges`, a pre-token that is spelled like a
//! special token never becomes that token, because no text may name a control token unless that is allowed.
//!
//! **Normalizers** change the valid UTF-8 between added tokens. Invalid bytes stay unchanged, and nothing is composed
//! across them. The tables of normalization forms are those of tokenizers, Unicode 9. Decoding gives the normalized
//! text. That text includes the space that `add_prefix_space` adds and lacks the white space that `lstrip` and
//! `rstrip` take. [`Vocabulary::keeps_text`] says whether decoding restores every text.
//!
//! **Post-processors** that put tokens around a text are not applied, because BOS and EOS tokens are chosen where
//! documents are encoded. [`load`] reports them to the observer, and [`Vocabulary::bos_eos_template`] returns their
//! tokens.

mod derivation;
mod edit;
#[cfg(feature = "data")]
mod fingerprint;
mod folder;
mod format;
mod formats;
mod io;
mod merge_list;
mod other_files;
#[cfg(feature = "data")]
mod record;
mod text_rules;
mod token_bytes;
mod token_use;
mod unreachable;
mod vocabulary;

pub use derivation::{Checks, check};
pub use edit::read_token_list;
pub use folder::formats_in;
#[cfg(feature = "data")]
pub(crate) use folder::paths;
pub use format::Format;
#[cfg(feature = "data")]
pub(crate) use formats::stage;
pub use formats::transformers::{
    TransformersConfig, WriteOptions, conflicting_chat_template, note_left_out_settings, read_chat_template,
    read_transformers_settings,
};
pub use formats::{compatibility_notes, from_json, load, render};
#[cfg(feature = "data")]
pub use formats::{save, write};
pub use io::LoadOptions;
pub(crate) use io::MAX_FILE_BYTES;
pub use merge_list::{GivenEncoder, GivenMerges};
#[cfg(feature = "data")]
pub use record::TrainingRecord;
#[cfg(feature = "data")]
pub(crate) use record::remove;
pub use text_rules::{AddedToken, BosEosTemplate, Normalizer, ReplacePattern, SpecialToken, TextRules};
pub use token_use::{Residue, TokenUse, token_uses, token_uses_in};
pub use unreachable::{UnreachableReason, UnreachableToken, unreachable_tokens};
pub use vocabulary::{RankedMerge, SpecialTokensAt, UnknownToken, Vocabulary, VocabularyParts, byte_ranges};
