//! Expands and resolves the paths of recipes.

use std::path::Path;

/// Why the variables of a path cannot be expanded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unexpanded {
    /// A variable has no value.
    Unset(String),
    /// A `${` has no closing brace, or the braces are empty.
    Malformed,
}

/// Replaces each `${NAME}` by the value of the variable.
///
/// # Errors
/// A variable is not set, or a `${` is malformed.
pub(super) fn expand(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, Unexpanded> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').ok_or(Unexpanded::Malformed)?;
        if name.is_empty() {
            return Err(Unexpanded::Malformed);
        }
        expanded.push_str(before);
        expanded.push_str(&variable(name).ok_or_else(|| Unexpanded::Unset(name.to_owned()))?);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Whether a URI is not a path: standard input, generated text, or an address on a network.
pub(super) fn is_elsewhere(uri: &str) -> bool {
    uri == "-" || uri.starts_with("demo:") || uri.contains("://")
}

/// A path of a recipe, relative to the working directory. A relative path is relative to the folder of the recipe,
/// unless it begins with a variable. If the path is a pattern (`glob`), wildcard characters in the name of that
/// folder are escaped.
pub(super) fn from_recipe(recipe: &str, written: &str, expanded: &str, glob: bool) -> String {
    let folder = Path::new(recipe).parent().unwrap_or(Path::new(""));
    if written.starts_with("${") || folder.as_os_str().is_empty() {
        return expanded.to_owned();
    }
    let folder = folder.to_string_lossy();
    let has_wildcards = glob && expanded.contains(['*', '?', '[']);
    let folder = if has_wildcards { glob::Pattern::escape(&folder) } else { folder.into_owned() };
    Path::new(&folder).join(expanded).to_string_lossy().into_owned()
}
