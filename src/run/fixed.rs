//! Settings of a training that a file determines, such as a counts file or a tokenizer to extend.

use super::facts::word;
use super::recipe::{Field, Given, Mistake, Recipe, TrainKeys};
use crate::count::Boundary;
use crate::split::SplitPattern;
use crate::vocab::SpecialTokensAt;

/// The settings that a file determines. A recipe may repeat them but not contradict them.
pub(super) struct Fixed<'a> {
    /// The name of the file, for messages.
    pub(super) by: &'a str,
    pub(super) split: &'a SplitPattern,
    /// The boundary, if the file contains it.
    pub(super) boundary: Option<Boundary>,
    pub(super) specials: &'a [String],
    /// The position of the special tokens, if the file contains it.
    pub(super) specials_at: Option<SpecialTokensAt>,
}

impl Fixed<'_> {
    /// Completes the recipe, and adds a mistake to it for each setting that contradicts the file.
    pub(super) fn heed(&self, recipe: &mut Recipe) {
        let keys = recipe.train.get_or_insert_default();
        let mut wrong: Vec<(&'static str, String)> = Vec::new();
        if differs(&mut keys.split, self.split) {
            wrong.push(("split", format!("the split {}", self.split)));
        }
        if let Some(boundary) = &self.boundary
            && differs(&mut keys.boundary, boundary)
        {
            wrong.push(("boundary", format!("the boundary {}", word(boundary))));
        }
        if !self.heed_specials(keys) {
            wrong.push(("special_tokens", format!("the special tokens {:?}", self.specials)));
        }
        if let Some(at) = &self.specials_at
            && differs(&mut keys.special_tokens_at, at)
        {
            wrong.push(("special_tokens_at", format!("its special tokens at the {}", word(at))));
        }
        for (key, fixed) in wrong {
            let message = format!("{}: {} has {fixed}", recipe.origin.name(key), self.by);
            let help = Some("leave it out: it follows from the file".to_owned());
            recipe.mistakes.push(Mistake { help, ..Mistake::new(Some(key), None, message) });
        }
    }

    /// Takes the file's special tokens if the recipe names none. Returns whether the recipe agrees: it must name the
    /// same ones, in any order.
    fn heed_specials(&self, keys: &mut TrainKeys) -> bool {
        if keys.special_tokens.is_empty() {
            keys.special_tokens = self.specials.iter().cloned().map(Given::flag).collect();
            return true;
        }
        let mut given: Vec<&String> = keys.special_tokens.iter().map(|token| &token.value).collect();
        let mut fixed: Vec<&String> = self.specials.iter().collect();
        given.sort();
        fixed.sort();
        given == fixed
    }
}

/// Sets a key to the value of the file. Returns whether it had another value.
fn differs<T: Clone + PartialEq>(field: &mut Field<T>, fixed: &T) -> bool {
    field.replace(Given::flag(fixed.clone())).is_some_and(|given| given.value != *fixed)
}
