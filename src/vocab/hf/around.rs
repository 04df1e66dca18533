//! The post-processor, which puts tokens around a text. It is reported and kept, but not applied, because BOS and EOS
//! tokens are chosen where documents are encoded.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{flat, kind};
use crate::base::int::TokenId;
use crate::vocab::fault::Fault;
use crate::vocab::{Around, Vocabulary};

/// The content of a `TemplateProcessing`: the template for one text, and the ids of the special tokens that it names.
#[derive(Deserialize)]
struct Template {
    single: Vec<TemplatePart>,
    special_tokens: std::collections::HashMap<String, Ids>,
}

/// An element of a template: a special token, or the text `A`.
#[derive(Deserialize)]
enum TemplatePart {
    SpecialToken { id: String },
    Sequence { id: String },
}

/// The ids that a special token of a template stands for.
#[derive(Deserialize)]
struct Ids {
    ids: Vec<TokenId>,
}

/// The content of `RobertaProcessing` and `BertProcessing`.
#[derive(Deserialize)]
struct Pair {
    sep: (String, TokenId),
    cls: (String, TokenId),
}

/// Returns the post-processor that puts tokens around a text, if any.
///
/// # Errors
/// A post-processor is of an unknown kind, or two put tokens around a text.
pub(super) fn found(post_processor: Option<&Value>) -> Result<Option<&Value>, Fault> {
    let mut found = None;
    for step in flat(post_processor, "processors", "post_processor")? {
        match kind(step) {
            "ByteLevel" => {}
            "TemplateProcessing" | "RobertaProcessing" | "BertProcessing" => {
                if found.replace(step).is_some() {
                    return Err(Fault::unsupported("a second post_processor that adds tokens around texts"));
                }
            }
            other => return Err(Fault::unsupported(format!("post_processor {other}"))),
        }
    }
    Ok(found)
}

/// Returns the tokens that the post-processor puts around a text.
///
/// # Errors
/// Those of [`found`]; or a template does not contain the text exactly once, or uses a token that it does not define.
pub(super) fn read(post_processor: Option<&Value>) -> Result<Around, Fault> {
    match found(post_processor)? {
        None => Ok(Around::default()),
        Some(step) if kind(step) == "TemplateProcessing" => {
            template(Template::deserialize(step).map_err(Fault::Json)?)
        }
        Some(step) => {
            let Pair { sep, cls } = Pair::deserialize(step).map_err(Fault::Json)?;
            Ok(Around { before: vec![cls.1], after: vec![sep.1] })
        }
    }
}

fn template(template: Template) -> Result<Around, Fault> {
    let mut around = Around::default();
    let mut texts = 0;
    for part in &template.single {
        match part {
            TemplatePart::Sequence { id } if id == "A" && texts == 0 => texts = 1,
            TemplatePart::Sequence { .. } => {
                return Err(Fault::unsupported(
                    "a post_processor that does not contain the text exactly once",
                ));
            }
            TemplatePart::SpecialToken { id } => {
                let Some(Ids { ids }) = template.special_tokens.get(id) else {
                    return Err(Fault::unsupported(format!(
                        "a post_processor that uses {id:?} without defining it"
                    )));
                };
                if texts == 0 { &mut around.before } else { &mut around.after }.extend(ids);
            }
        }
    }
    match texts {
        1 => Ok(around),
        _ => Err(Fault::unsupported("a post_processor that does not contain the text exactly once")),
    }
}

/// Describes the post-processor of a vocabulary for a message.
pub(super) fn described(vocabulary: &Vocabulary) -> String {
    let texts = |ids: &[TokenId]| -> Vec<String> {
        let text = |id: &TokenId| String::from_utf8_lossy(vocabulary.bytes(*id).unwrap_or_default());
        ids.iter().map(|id| format!("{:?}", text(id))).collect()
    };
    let Around { before, after } = &vocabulary.around;
    let sides = [("before", texts(before)), ("after", texts(after))];
    let sides: Vec<String> = sides
        .iter()
        .filter(|(_, texts)| !texts.is_empty())
        .map(|(side, texts)| format!("{} {side}", texts.join(" ")))
        .collect();
    if sides.is_empty() { "nothing".to_owned() } else { format!("{} a text", sides.join(" and ")) }
}

/// Returns the post-processor for the vocabulary's tokens around a text, or `None` if it has none.
pub(super) fn write(vocabulary: &Vocabulary) -> Option<Value> {
    let Around { before, after } = &vocabulary.around;
    if vocabulary.around == Around::default() {
        return None;
    }
    let text = |id: &TokenId| String::from_utf8_lossy(vocabulary.bytes(*id).unwrap_or_default()).into_owned();
    // Tokens that are not UTF-8 can have equal names, which their ids then tell apart.
    let alike = |id: &TokenId| before.iter().chain(after).any(|other| other != id && text(other) == text(id));
    let name = |id: &TokenId| if alike(id) { format!("{} {id}", text(id)) } else { text(id) };
    let special = |id| json!({ "SpecialToken": { "id": name(id), "type_id": 0 } });
    let sequence = |name: &str, type_id| json!({ "Sequence": { "id": name, "type_id": type_id } });
    let framed = |name: &str, type_id: u32| -> Vec<Value> {
        let (before, after) = (before.iter().map(special), after.iter().map(special));
        before.chain([sequence(name, type_id)]).chain(after).collect()
    };
    let tokens = before.iter().chain(after);
    let tokens: serde_json::Map<String, Value> =
        tokens.map(|id| (name(id), json!({ "id": name(id), "ids": [id], "tokens": [text(id)] }))).collect();
    let pair = [framed("A", 0), framed("B", 1)].concat();
    Some(
        json!({ "type": "TemplateProcessing", "single": framed("A", 0), "pair": pair, "special_tokens": tokens }),
    )
}
