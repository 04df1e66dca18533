//! Checks rules of the code base that the compiler does not: the import graph of ARCHITECTURE.md, the files in
//! which casts, `unsafe`, printing and environment variables are allowed.
//!
//! The rules read Rust tokens, not text, so comments and strings cannot violate them. Rules on imports, casts
//! and printing skip unit tests in `src`, because a test may use any stage to build its input.

#[path = "tidy/lexer.rs"]
mod lexer;
#[path = "tidy/dependencies.rs"]
mod dependencies;
#[path = "tidy/rules.rs"]
mod rules;

use std::fs;
use std::path::{Path, PathBuf};

use rules::{File, Offence};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Appends the Rust files below a folder to `found`, sorted by path.
fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
}

/// Reads all Rust files under these folders. Their paths are relative to the repository root, with forward
/// slashes.
fn read(folders: &[&str]) -> Vec<File> {
    let mut paths = Vec::new();
    for folder in folders {
        rust_files(&root().join(folder), &mut paths);
    }
    let relative = |path: &Path| {
        let below = path.strip_prefix(root()).expect("found below the root");
        below.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
    };
    let files: Vec<File> = paths
        .iter()
        .map(|path| File::new(&relative(path), &fs::read_to_string(path).expect("UTF-8 source")))
        .collect();
    assert!(!files.is_empty(), "no sources under {folders:?}");
    files
}

/// Applies a rule to every Rust file under the folders and reports all violations in one failure.
fn keep(folders: &[&str], rule: impl Fn(&File) -> Vec<Offence>) {
    let offences: Vec<String> = read(folders)
        .iter()
        .flat_map(|file| {
            rule(file).into_iter().map(|offence| format!("{}:{}: {}", file.path, offence.line, offence.what))
        })
        .collect();
    assert!(offences.is_empty(), "\n{}\n", offences.join("\n"));
}

#[test]
fn imports_follow_the_graph() {
    keep(&["src"], rules::imports);
}

#[test]
fn no_import_circle_is_within_a_stage() {
    let files = read(&["src"]);
    assert_eq!(rules::circles(&files), [""; 0]);
}

#[test]
fn a_type_name_is_defined_at_most_three_times() {
    assert_eq!(rules::repeated_types(&read(&["src"]), 3), [""; 0]);
}

#[test]
fn integer_casts_stand_in_base_int() {
    keep(&["src", "python/src"], rules::casts);
}

#[test]
fn unsafe_stands_in_named_modules() {
    keep(&["src", "python/src", "tests", "benches"], rules::unsafe_outside);
}

/// A process that is forked while a thread of its parent makes a `LazyLock` would wait for it for ever.
#[test]
fn no_static_makes_forked_processes_wait() {
    keep(&["src", "python/src"], rules::blocking_statics);
}

#[test]
fn only_cli_prints_reads_the_environment_or_exits() {
    keep(&["src"], rules::surroundings);
}

#[test]
fn every_stage_opens_with_what_it_takes_and_gives() {
    keep(&["src"], rules::stage_docs);
}

#[test]
fn the_library_lists_its_stages_in_the_order_of_the_flow() {
    let library = fs::read_to_string(root().join("src/lib.rs")).expect("the library's root");
    assert_eq!(rules::stage_order(&library), rules::flow());
}

#[test]
fn the_invariants_name_tests_that_exist() {
    let document = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the architecture");
    let (_, invariants) = document.split_once("## Invariants").expect("a section on invariants");
    let files = read(&["src", "tests"]);
    let named = rules::test_names(invariants);
    let missing: Vec<&str> =
        named.iter().copied().filter(|name| !files.iter().any(|file| file.defines(name))).collect();
    assert!(named.len() > 20 && missing.is_empty(), "{} named, missing {missing:?}", named.len());
}
