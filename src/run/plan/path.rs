use std::path::Path;

/// What is wrong with the variables of a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unexpanded {
    /// A variable has no value.
    Unset(String),
    /// A `${` has no end, or nothing stands between the braces.
    Malformed,
}

/// Puts the values of variables in the place of each `${NAME}`.
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

/// Whether a source is not a path: standard input, generated, or somewhere on the network.
pub(super) fn is_elsewhere(uri: &str) -> bool {
    uri == "-" || uri.starts_with("demo:") || uri.contains("://")
}

/// A path as the working directory sees it: a relative one is relative to the recipe, unless it was
/// written to begin with a variable. Wildcards in the folder's own name stand for themselves where the
/// path has wildcards of its own.
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
