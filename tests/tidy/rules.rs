use crate::lexer::{Token, tokens, without_tests};

/// Modules that every stage may import. They import no stage.
const BELOW: [&str; 4] = ["error", "observer", "base", "network"];

/// The program, above all stages: it may import everything, and no stage imports it.
const PROGRAM: &str = "cli";

/// The stages in the order of the data flow, each with the paths that it may import in addition to [`BELOW`].
const GRAPH: [(&str, &[&str]); 11] = [
    ("source", &[]),
    ("sample", &["source"]),
    ("split", &[]),
    ("count", &["source", "split"]),
    ("train", &["count"]),
    ("vocab", &["split", "train::HistoryPoint", "train::Learned", "train::Merge", "train::Merges"]),
    ("encode", &["source::Batch", "source::Documents", "split", "vocab"]),
    // The manifest lists the units of the source that each file holds. Columns that are passed through are converted
    // and measured, and Parquet files are checked, as in the source.
    (
        "sink",
        &[
            "source::Batch",
            "source::Identity",
            "source::RowRange",
            "source::Unit",
            "source::cast",
            "source::check_index",
            "source::check_pages",
            "source::kept_annotations",
            "source::lost_annotations",
            "source::missing_or_doubled",
            "source::row_bytes",
            "encode",
        ],
    ),
    ("report", &["count::Bin", "count::Histogram", "train::HistoryPoint", "train::ParityPoint"]),
    (
        "publish",
        &[
            "source::OpenContext",
            "source::Stop",
            "source::WritableStore",
            "source::belongs_to_tokenizer",
            "source::object_version",
            "source::refused_by_store",
            "source::store",
            "vocab",
            "sink",
            "report",
        ],
    ),
    ("run", &["source", "sample", "split", "count", "train", "vocab", "encode", "sink", "report", "publish"]),
];

/// The modules below the stages, each with the others of them that it may import.
const BASE: [(&str, &[&str]); 4] = [
    ("error", &[]),
    ("observer", &["error", "base::int"]),
    ("base", &["error", "observer"]),
    ("network", &["error", "base"]),
];

/// Names that `lib.rs` re-exports at the crate root. Any module may import them from there.
const ROOT_NAMES: [&str; 9] =
    ["Error", "ErrorKind", "Result", "Observer", "Stage", "Count", "TokenId", "VERSION", "FORMAT_VERSION"];

/// Files that may contain `as` casts between numbers.
const CASTS: [&str; 3] = ["src/base/int.rs", "src/split/scanner/avx512.rs", "src/split/scanner/avx2.rs"];

/// Files that may contain `unsafe`.
const UNSAFE: [&str; 7] = [
    "python/src/process.rs",
    "src/cli/environment.rs",
    "src/base/huge_pages.rs",
    "src/encode/backtrack/lockstep.rs",
    "src/split/scanner/avx512.rs",
    "src/split/scanner/avx2.rs",
    "src/train/scan/simd.rs",
];

/// A Rust source file and its tokens.
pub(crate) struct File {
    pub(crate) path: String,
    source: String,
    /// All tokens.
    all: Vec<Token>,
    /// Tokens outside unit tests.
    code: Vec<Token>,
}

/// The line where a rule is broken, and a description of how.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Offence {
    pub(crate) line: usize,
    pub(crate) what: String,
}

impl File {
    pub(crate) fn new(path: &str, source: &str) -> File {
        let all = tokens(source);
        let is_test = path.ends_with("/tests.rs") || (path.starts_with("src/") && path.contains("/tests/"));
        let code = if is_test { Vec::new() } else { without_tests(&all) };
        File { path: path.to_owned(), source: source.to_owned(), all, code }
    }

    /// Whether the file defines a function with this name.
    pub(crate) fn defines(&self, name: &str) -> bool {
        self.all.windows(2).any(|pair| pair[0].text == "fn" && pair[1].text == name)
    }

    /// The module path of the file from the crate root: `src/train/queue.rs` gives `[train, queue]`.
    fn module(&self) -> Vec<&str> {
        let path = self.path.strip_prefix("src/").unwrap_or(&self.path);
        let mut parts: Vec<&str> = path.strip_suffix(".rs").unwrap_or(path).split('/').collect();
        if matches!(parts.last(), Some(&("mod" | "lib" | "main"))) {
            parts.pop();
        }
        parts
    }
}

/// The stages in the order in which `lib.rs` must declare them.
pub(crate) fn flow() -> Vec<String> {
    GRAPH.iter().map(|(name, _)| (*name).to_owned()).collect()
}

/// The stages that `lib.rs` declares, in its order, without what is below and above them.
pub(crate) fn stage_order(library: &str) -> Vec<String> {
    let found = tokens(library);
    let modules = found.windows(2).filter(|pair| pair[0].text == "mod").map(|pair| pair[1].text.clone());
    modules.filter(|name| !BELOW.contains(&name.as_str()) && name != PROGRAM).collect()
}

/// Finds imports that [`GRAPH`] or [`BASE`] do not allow. The [`PROGRAM`] may import everything.
pub(crate) fn imports(file: &File) -> Vec<Offence> {
    let module = file.module();
    let Some(&stage) = module.first() else { return Vec::new() };
    if stage == PROGRAM {
        return Vec::new();
    }
    let Some((_, allowed)) = BASE.iter().chain(&GRAPH).find(|(name, _)| *name == stage) else {
        return vec![Offence { line: 1, what: format!("{stage} has no place in the graph") }];
    };
    let base: &[&str] = if BELOW.contains(&stage) { &[] } else { &BELOW };
    let mut offences = Vec::new();
    for (line, path) in crate_paths(&file.code, &module) {
        if let Err(what) = may_import(stage, &path, allowed, base) {
            offences.push(Offence { line, what });
        }
    }
    offences
}

/// Checks one import path. A stage may import itself, the root names, and the allowed paths of other modules. A
/// path into a submodule of another stage is an error, because it bypasses the public items of that stage.
fn may_import(stage: &str, path: &[String], allowed: &[&str], base: &[&str]) -> Result<(), String> {
    let Some(head) = path.first() else { return Ok(()) };
    if head == stage || ROOT_NAMES.contains(&head.as_str()) {
        return Ok(());
    }
    let shown = path.join("::");
    let below = |entry: &&str| {
        let entry: Vec<&str> = entry.split("::").collect();
        path.len() >= entry.len() && path.iter().zip(&entry).all(|(part, wanted)| part == wanted)
    };
    if !allowed.iter().chain(base).any(below) {
        return Err(format!("{stage} may not import {shown}"));
    }
    let is_module = |part: &String| part.starts_with(|c: char| c.is_lowercase());
    if head != "base"
        && path.len() > 2
        && is_module(&path[1])
        && path.last().is_some_and(|last| last != "self")
    {
        return Err(format!("{stage} reaches past {head}'s boundary: {shown}"));
    }
    Ok(())
}

/// Returns the paths to items of the crate, from the crate root but without `crate`, each with its line. A path that
/// begins with a name after `use` is taken for one to a child module.
fn crate_paths(code: &[Token], module: &[&str]) -> Vec<(usize, Vec<String>)> {
    let mut paths = Vec::new();
    let mut at = 0;
    while at < code.len() {
        let (line, supers) = (code[at].line, super_chain(&code[at..]));
        let (base, length) = match code[at].text.as_str() {
            "crate" | "tokenmill" => (Some(0), 1),
            "self" => (Some(module.len()), 1),
            "super" => (module.len().checked_sub(supers), supers * 2 - 1),
            "use" => (Some(module.len()), 0),
            _ => (None, 1),
        };
        at += length;
        let separated = code.get(at).is_some_and(|token| token.text == "::");
        let Some(base) = base.filter(|_| separated || length == 0) else {
            at += usize::from(length == 0);
            continue;
        };
        let base: Vec<String> = module[..base].iter().map(|part| (*part).to_owned()).collect();
        let rooted =
            |token: &Token| matches!(token.text.as_str(), "crate" | "tokenmill" | "self" | "super" | "::");
        if length == 0 && code.get(at + 1).is_some_and(rooted) {
            at += 1;
            continue;
        }
        let mut found = Vec::new();
        at = use_tree(code, at + 1, &base, &mut found);
        paths.extend(found.into_iter().map(|path| (line, path)));
    }
    paths
}

/// Counts the consecutive `super` segments at the start of `code`.
fn super_chain(code: &[Token]) -> usize {
    let mut count = 0;
    while code.get(count * 2).is_some_and(|token| token.text == "super")
        && (count == 0 || code[count * 2 - 1].text == "::")
    {
        count += 1;
    }
    count
}

/// Parses a use tree after a `::`: a name with its continuation, or a group in braces. Appends every path to
/// `found` and returns the index after the tree.
fn use_tree(code: &[Token], at: usize, prefix: &[String], found: &mut Vec<Vec<String>>) -> usize {
    let Some(token) = code.get(at) else { return at };
    if token.text == "{" {
        let mut at = at + 1;
        while code.get(at).is_some_and(|token| token.text != "}") {
            let next = use_tree(code, at, prefix, found);
            at = next.max(at + 1);
            while code.get(at).is_some_and(|token| !matches!(token.text.as_str(), "," | "}")) {
                at += 1;
            }
            at += usize::from(code.get(at).is_some_and(|token| token.text == ","));
        }
        return at + 1;
    }
    let named = token.text == "*" || token.text.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    if !named {
        found.push(prefix.to_vec());
        return at;
    }
    let path = [prefix, std::slice::from_ref(&token.text)].concat();
    if code.get(at + 1).is_some_and(|next| next.text == "::") {
        use_tree(code, at + 2, &path, found)
    } else {
        found.push(path);
        at + 1
    }
}

/// Returns the files of each import circle within a stage, by path. An import of what a `mod.rs` re-exports counts as
/// one of the file that defines it. Imports between a module and those above it do not count: a `mod.rs` declares its
/// children.
pub(crate) fn circles(files: &[File]) -> Vec<&str> {
    let modules: Vec<Vec<&str>> = files.iter().map(File::module).collect();
    let paths: Vec<Vec<Vec<String>>> = files
        .iter()
        .zip(&modules)
        .map(|(file, module)| crate_paths(&file.code, module).into_iter().map(|(_, path)| path).collect())
        .collect();
    let module_of = |path: &[String]| {
        let prefixes = (1..=path.len()).rev().map(|length| &path[..length]);
        prefixes.filter_map(|prefix| modules.iter().position(|module| prefix.iter().eq(module))).next()
    };
    let defines = |path: &[String]| {
        let module = module_of(path)?;
        let item = path.get(modules[module].len());
        let reexported = paths[module].iter().find(|inner| inner.last() == item && inner.len() > path.len());
        reexported.and_then(|inner| module_of(inner)).or(Some(module))
    };
    let imports = |file: usize| -> Vec<usize> {
        let others = paths[file].iter().filter_map(|path| defines(path));
        let is_relative = |other: usize| {
            modules[file].starts_with(&modules[other]) || modules[other].starts_with(&modules[file])
        };
        others
            .filter(|&other| modules[other].first() == modules[file].first() && !is_relative(other))
            .collect()
    };
    let imports: Vec<Vec<usize>> = (0..files.len()).map(imports).collect();
    let in_circle = |&file: &usize| {
        let (mut reached, mut open) = (vec![false; files.len()], imports[file].clone());
        while let Some(next) = open.pop() {
            if !std::mem::replace(&mut reached[next], true) {
                open.extend(&imports[next]);
            }
        }
        reached[file]
    };
    (0..files.len()).filter(in_circle).map(|file| files[file].path.as_str()).collect()
}

/// Returns the names of types that are defined more than `most` times outside of unit tests.
pub(crate) fn repeated_types(files: &[File], most: usize) -> Vec<String> {
    let mut times: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
    for pair in files.iter().flat_map(|file| file.code.windows(2)) {
        if matches!(pair[0].text.as_str(), "struct" | "enum" | "trait") {
            *times.entry(&pair[1].text).or_default() += 1;
        }
    }
    times
        .into_iter()
        .filter(|(_, times)| *times > most)
        .map(|(name, times)| format!("{name} ({times})"))
        .collect()
}

/// Finds `as` casts to number types, and lint attributes that would allow them.
pub(crate) fn casts(file: &File) -> Vec<Offence> {
    const NUMBERS: [&str; 15] = [
        "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32", "f64",
        "char",
    ];
    if CASTS.contains(&file.path.as_str()) {
        return Vec::new();
    }
    let cast = |pair: &[Token]| pair[0].text == "as" && NUMBERS.contains(&pair[1].text.as_str());
    let mut offences: Vec<Offence> = file
        .code
        .windows(2)
        .filter(|pair| cast(pair))
        .map(|pair| Offence { line: pair[0].line, what: format!("a cast to {}", pair[1].text) })
        .collect();
    offences.extend(
        file.code
            .iter()
            .filter(|token| token.text == "as_conversions")
            .map(|token| Offence { line: token.line, what: "lets casts in".to_owned() }),
    );
    offences
}

/// Finds `unsafe`, and lint attributes that would allow it, unit tests included.
pub(crate) fn unsafe_outside(file: &File) -> Vec<Offence> {
    if UNSAFE.contains(&file.path.as_str()) {
        return Vec::new();
    }
    let mut offences = Vec::new();
    for (at, token) in file.all.iter().enumerate() {
        let let_in = token.text == "unsafe_code"
            && at >= 2
            && matches!(file.all[at - 2].text.as_str(), "allow" | "expect");
        if token.text == "unsafe" || let_in {
            offences.push(Offence { line: token.line, what: format!("`{}` here", token.text) });
        }
    }
    offences
}

/// Finds statics that other threads wait for while one thread makes them.
pub(crate) fn blocking_statics(file: &File) -> Vec<Offence> {
    let code = &file.code;
    let blocks = |&at: &usize| code[at].text == "LazyLock" && at >= 3 && code[at - 3].text == "static";
    let offence =
        |at: usize| Offence { line: code[at].line, what: "a `base::lazy::Lazy`, please".to_owned() };
    (0..code.len()).filter(blocks).map(offence).collect()
}

/// Finds printing, environment variables and process exits outside of `cli` and `main.rs`.
pub(crate) fn surroundings(file: &File) -> Vec<Offence> {
    const MACROS: [&str; 5] = ["print", "println", "eprint", "eprintln", "dbg"];
    const PATHS: [[&str; 2]; 6] = [
        ["std", "env"],
        ["env", "var"],
        ["env", "var_os"],
        ["process", "exit"],
        ["io", "stdout"],
        ["io", "stderr"],
    ];
    if file.path.starts_with("src/cli/") || file.path == "src/main.rs" {
        return Vec::new();
    }
    let mut offences = Vec::new();
    for window in file.code.windows(3) {
        let [first, mark, last] = [&window[0], &window[1], &window[2]];
        let printing = mark.text == "!" && MACROS.contains(&first.text.as_str());
        let touching = mark.text == "::" && PATHS.contains(&[&first.text, &last.text]);
        if printing || touching {
            let what = format!("{}{} belongs in cli", first.text, mark.text);
            offences.push(Offence { line: first.line, what });
        }
    }
    offences
}

/// Reports a stage if its `mod.rs` does not start with module documentation.
pub(crate) fn stage_docs(file: &File) -> Vec<Offence> {
    let stage = file.path.strip_prefix("src/").and_then(|path| path.strip_suffix("/mod.rs"));
    if stage.is_none_or(|stage| stage.contains('/')) || file.source.starts_with("//! ") {
        return Vec::new();
    }
    vec![Offence { line: 1, what: "the stage does not say what it takes and gives".to_owned() }]
}

/// Returns the test names in a text: everything in backquotes that consists of lower-case words joined by
/// underscores.
pub(crate) fn test_names(text: &str) -> Vec<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    quoted.filter(|name| name.contains('_') && name.chars().all(word)).collect()
}

#[cfg(test)]
mod tests;
