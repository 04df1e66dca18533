//! Token ids, their bytes, and the files that hold them.
//!
//! A [`Vocabulary`] is made from merges just learned or read from a file of any supported format, and
//! checked either way. Token id and merge rank are separate things: byte b need not have id b.
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
//! # What is read of `tokenizer.json`
//!
//! Every byte-level BPE file whose parts are below gives the ids that Hugging Face's tokenizers gives, which
//! `tests/peers/` checks for the structures of GPT-2, RoBERTa, Phi, OLMo, Llama 3, Qwen, DeepSeek and others.
//! Every other part is refused by name: nothing that changes ids is left out.
//!
//! | part | read | refused |
//! | --- | --- | --- |
//! | `model` | BPE, `ignore_merges`; `unk_token`, `fuse_unk` where bytes lack a token | other models, `dropout`, `byte_fallback` where bytes lack a token, `continuing_subword_prefix`, `end_of_word_suffix` |
//! | `normalizer` | none, `NFC`, `NFD`, `NFKC`, `NFKD`, `Lowercase`, `StripAccents`, `Strip`, `Prepend`, `Replace`, in any number | all others |
//! | `pre_tokenizer` | `ByteLevel`, before and after it `Split`, `Digits` and `Punctuation` in any number, with every behavior | all others; a space put before text that is split already |
//! | `added_tokens` | all, with every flag | ids that tokenizers would not give; special ones with the bytes of another token |
//! | `post_processor` | told and kept, but left out | what is no template of tokens around a text |
//! | `decoder` | none, `ByteLevel`, `Fuse` | all others |
//! | `truncation`, `padding` | told, but left out: texts are encoded whole | |
//!
//! **Splits.** Expressions that are a known pattern's letter for letter are that pattern; others run on the engine
//! for regular expressions, and what Oniguruma understands otherwise is translated or refused. `Removed` with
//! `invert` drops what the expression does not match; here that is an error that names the place, and does not
//! occur with the patterns that have a name. So does `Removed` alone, which drops what is matched.
//!
//! A file without `pre_tokenizer` whose decoder is `ByteLevel` is read as a tokenizer that does not split. Tokenizers itself does not
//! turn text into the alphabet of bytes for such a file, and drops what its keys lack.
//!
//! **Bytes** that no token stands for are an error where a text has one, or what tokenizers makes of them:
//! [`MissingBytes`](crate::encode::MissingBytes). A token without bytes keeps its id, and no text gives it.
//!
//! **Added tokens** are found before the text is split: first those that are not `normalized`, in the text as
//! it is, then the others between these, in normalized text. Whether *special* ones are found is for
//! [`SpecialPolicy`](crate::encode::SpecialPolicy) to say. Those that are not special are ordinary vocabulary and
//! found under every policy, as tokenizers finds them with `encode_special_tokens`. One thing is stricter than
//! there: with `ignore_merges` a piece that is spelled like a special token never becomes that token, because no
//! text may name a control token unless it is allowed to.
//!
//! **Normalizers** change what is UTF-8 between added tokens; bytes that are not stay as they are, and nothing is
//! composed across them. The tables of normalization forms are those of tokenizers, Unicode 9. Decoding gives the normalized text, as it
//! gives the space that `add_prefix_space` adds and lacks the space that `lstrip` and `rstrip` take:
//! [`Vocabulary::keeps_text`] says whether texts come back as they were.
//!
//! **Post-processors** that put tokens around a text are not followed, since what stands around a document is
//! said where it is encoded; [`load`] tells what is left out, and [`Vocabulary::around`] has it.

mod added;
mod affixes;
mod beside;
mod checks;
mod crossing;
mod fault;
mod fingerprint;
mod format;
mod given;
mod gpt2;
mod hf;
mod keyed;
mod list;
mod merging;
mod minbpe;
mod normalizer;
mod parts;
mod record;
mod sniff;
mod tekken;
mod tiktoken;
mod vocabulary;

use crate::split::alphabet;

pub use added::{AddedToken, Around, SpecialToken, TextRules};
pub use checks::{Checks, check};
pub(crate) use format::MAX_FILE_BYTES;
pub use format::{
    Format, LoadOptions, NotFormat, TransformersConfig, WriteOptions, cautions, formats_in, from_json, load,
    render, write,
};
pub(crate) use format::{paths, remove, stage};
pub use given::{GivenEncoder, GivenMerges};
pub use hf::{named_beside, other_chat_template, read_chat_template, tell_left_out};
pub use normalizer::{Normalizer, ReplacePattern};
pub use parts::{SpecialTokensAt, VocabularyParts};
pub use record::TrainingRecord;
pub use vocabulary::{RankedMerge, UnknownToken, Vocabulary, byte_ranges};
