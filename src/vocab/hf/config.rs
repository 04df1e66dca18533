use std::path::Path;

use serde_json::{Value, json};

use crate::error::Result;
use crate::vocab::Vocabulary;
use crate::vocab::beside::SPECIALS;
use crate::vocab::format::{WriteOptions, read_json};

/// The file beside a `tokenizer.json` that `transformers` wants.
pub(crate) const CONFIG: &str = "tokenizer_config.json";

const BOS: &str = "bos_token";
const EOS: &str = "eos_token";

pub(super) fn config(options: &WriteOptions) -> Value {
    let mut config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": false,
    });
    for (key, token) in [(BOS, &options.bos), (EOS, &options.eos)] {
        if let Some(token) = token {
            config[key] = json!(token);
        }
    }
    config
}

/// What the `tokenizer_config.json` beside a tokenizer, or else a `special_tokens_map.json`, names as the tokens that begin and end documents:
/// special tokens of the vocabulary, for which another format or a larger vocabulary has a place too.
///
/// # Errors
/// The file cannot be read.
pub fn named_beside(tokenizer: &Path, vocabulary: &Vocabulary) -> Result<WriteOptions> {
    let folder = if tokenizer.is_dir() { Some(tokenizer) } else { tokenizer.parent() };
    let folder = folder.unwrap_or(Path::new(""));
    let config: Value = read_json(&folder.join(CONFIG))?.unwrap_or_default();
    let specials: Value = read_json(&folder.join(SPECIALS))?.unwrap_or_default();
    let named = |key| {
        // Of older files it is an object with the flags of the token.
        let text =
            |file: &Value| file[key].as_str().or_else(|| file[key]["content"].as_str()).map(str::to_owned);
        let text = text(&config).or_else(|| text(&specials))?;
        vocabulary.specials().any(|special| special.text == text).then_some(text)
    };
    Ok(WriteOptions { bos: named(BOS), eos: named(EOS), ..WriteOptions::default() })
}
