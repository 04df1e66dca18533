use super::*;

fn lines(rule: impl Fn(&File) -> Vec<Offence>, path: &str, source: &str) -> Vec<usize> {
    rule(&File::new(path, source)).into_iter().map(|offence| offence.line).collect()
}

/// Imports, with their nested groups and `super` paths, are judged by the graph.
#[test]
fn imports_against_the_graph_are_found() {
    for (path, source, offends) in [
        ("src/train/queue.rs", "use crate::count::PretokenCounts;", false),
        ("src/train/queue.rs", "use crate::source::Batch;", true),
        ("src/train/queue.rs", "use crate::{error::Result, split::SplitPattern};", true),
        ("src/train/queue.rs", "use crate::{error::Result, base::int::{Count, TokenId}};", false),
        ("src/train/mod.rs", "fn f(x: crate::vocab::Vocabulary) {}", true),
        ("src/train/mod.rs", "use super::vocab;", true),
        ("src/train/queue.rs", "use super::vocab;", false),
        ("src/train/queue.rs", "use super::super::{base::int::Count, vocab};", true),
        ("src/train/queue.rs", "// use crate::vocab;\n#[cfg(test)] mod t { use crate::vocab::X; }", false),
        ("src/train/tests.rs", "use crate::vocab::X;", false),
        ("src/vocab/mod.rs", "use crate::train::{Merges, HistoryPoint};", false),
        ("src/vocab/mod.rs", "use crate::train::{Merges, learn_merges};", true),
        ("src/vocab/mod.rs", "use crate::train;", true),
        ("src/encode/mod.rs", "use crate::train::Merges;", true),
        ("src/encode/mod.rs", "use crate::source::Unit;", true),
        ("src/sink/mod.rs", "use crate::vocab::Vocabulary;", true),
        ("src/sink/mod.rs", "use crate::encode::TokenBatch; use crate::source::Batch;", false),
        ("src/report/mod.rs", "use crate::encode::TokenBatch;", true),
        ("src/count/mod.rs", "use crate::source::jsonl::Lines;", true),
        ("src/count/mod.rs", "use crate::split::splitter; let x = crate::source::Unit::new();", false),
        ("src/count/mod.rs", "use crate::sample::{self};", true),
        ("src/run/plan.rs", "use crate::{sink, report::RunReport};", false),
        ("src/run/plan.rs", "use crate::cli::Args;", true),
        ("src/base/pools.rs", "use crate::error::Result;", false),
        ("src/error.rs", "use crate::base::int::Count;", true),
        ("src/base/folder_lock.rs", "use crate::run::Plan;", true),
        ("src/stray.rs", "", true),
        ("src/lib.rs", "pub use error::Error;", false),
        ("src/cli/mod.rs", "use tokenmill::train::learn_merges;", false),
    ] {
        assert_eq!(!lines(imports, path, source).is_empty(), offends, "{path}: {source}");
    }
}

#[test]
fn an_import_is_reported_on_its_line() {
    let source =
        "use crate::error::Error;\n\nuse crate::{\n    base::int::Count,\n    vocab::Vocabulary,\n};";
    assert_eq!(lines(imports, "src/train/mod.rs", source), [3]);
}

#[test]
fn casts_are_found_outside_base_int() {
    for (path, source, found) in [
        ("src/train/mod.rs", "let a = b as u32;", 1),
        ("src/train/mod.rs", "#![expect(clippy::as_conversions)]", 1),
        ("src/train/mod.rs", "use a as b; let x = \"as u32\"; // as u32", 0),
        ("src/train/mod.rs", "let a = b as usize as f64;", 2),
        ("src/base/int.rs", "let a = b as u32;", 0),
    ] {
        assert_eq!(lines(casts, path, source).len(), found, "{source}");
    }
}

#[test]
fn unsafe_is_found_in_tests_too() {
    assert_eq!(lines(unsafe_outside, "src/a/mod.rs", "unsafe { x() }"), [1]);
    assert_eq!(lines(unsafe_outside, "src/a/tests.rs", "\nunsafe fn x() {}"), [2]);
    assert_eq!(lines(unsafe_outside, "src/a/mod.rs", "#![allow(unsafe_code)]"), [1]);
    assert!(lines(unsafe_outside, "src/a/mod.rs", "// unsafe\nlet a = \"unsafe\";").is_empty());
}

#[test]
fn statics_that_block_are_found() {
    let source = "static A: LazyLock<u8> = LazyLock::new(f);";
    assert_eq!(lines(blocking_statics, "src/a/mod.rs", source), [1]);
    let allowed = "static A: Lazy<u8> = Lazy::new(f);\nlet b = LazyLock::new(f);";
    assert!(lines(blocking_statics, "src/a/mod.rs", allowed).is_empty());
}

#[test]
fn printing_the_environment_and_exits_are_found_outside_cli() {
    for source in [
        "println!(\"\");",
        "std::eprint!(\"\");",
        "dbg!(x);",
        "use std::env;",
        "std::env::var(\"HOME\");",
        "std::process::exit(1);",
        "io::stdout().write();",
        "write(std::io::stderr());",
    ] {
        assert!(!lines(surroundings, "src/run/mod.rs", source).is_empty(), "{source}");
        assert!(lines(surroundings, "src/cli/mod.rs", source).is_empty(), "{source}");
    }
    let harmless = "write!(f, \"println!\"); env!(\"CARGO_PKG_VERSION\"); std::io::stdin();";
    assert!(lines(surroundings, "src/run/mod.rs", harmless).is_empty());
}

#[test]
fn a_stage_without_an_opening_is_found() {
    assert_eq!(lines(stage_docs, "src/train/mod.rs", "mod queue;"), [1]);
    assert!(lines(stage_docs, "src/train/mod.rs", "//! Learns.\nmod queue;").is_empty());
    assert!(lines(stage_docs, "src/train/queue/mod.rs", "mod inner;").is_empty());
}

#[test]
fn the_order_of_stages_is_read_from_the_declarations() {
    let library = "/// First.\npub mod b;\nmod base;\nmod a;\npub use a::mod_like;";
    assert_eq!(stage_order(library), ["b", "a"]);
}

#[test]
fn names_of_tests_are_found_and_looked_up() {
    assert_eq!(test_names("`a_b`, `lib.rs`, `word`, c_d and `e_1`."), ["a_b", "e_1"]);
    let file = File::new("src/a/tests.rs", "#[test]\nfn a_b() {}\n// fn c_d()");
    assert!(file.defines("a_b") && !file.defines("c_d"));
}

#[test]
fn circles_are_found_through_what_a_parent_reexports() {
    let files = [
        File::new("src/a/mod.rs", "mod b; mod c; mod d; pub use b::B; pub use d::D;"),
        File::new("src/a/b.rs", "use super::c::C; struct B;"),
        File::new("src/a/c.rs", "use crate::a::{B, d}; struct C;"),
        File::new("src/a/d.rs", "use super::E; struct D;"),
        File::new("src/e/mod.rs", "use crate::a::D;"),
    ];
    assert_eq!(circles(&files), ["src/a/b.rs", "src/a/c.rs"]);
}

#[test]
fn types_that_are_defined_too_often_are_found() {
    let file =
        File::new("src/a.rs", "struct A; mod b { enum A {} } trait B {} #[cfg(test)] mod t { struct A; }");
    assert_eq!(repeated_types(&[file], 1), ["A (2)"]);
}
