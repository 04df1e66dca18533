//! Test support for expensive random tests: fewer cases, and thread pools that are reused.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestError, TestRunner};
use rayon::{ThreadPool, ThreadPoolBuilder};

thread_local! {
    // One map per test, because each test runs in a thread of its own.
    static POOLS: RefCell<HashMap<usize, Rc<ThreadPool>>> = RefCell::default();
}

/// Runs work in a pool of `threads` threads, which is kept for the next case.
pub(crate) fn with_threads<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> R {
    let begin = || Rc::new(ThreadPoolBuilder::new().num_threads(threads).build().expect("a small pool"));
    let pool = POOLS.with_borrow_mut(|pools| Rc::clone(pools.entry(threads).or_insert_with(begin)));
    pool.install(work)
}

/// Runs a test on one `part`th of the random inputs that other tests get.
///
/// The environment variable `PROPTEST_CASES` sets the number for `proptest!`, even where a configuration is
/// given; here it sets the number that is divided.
///
/// # Panics
/// If the test fails, with the smallest failing input that was found.
#[track_caller]
pub(crate) fn one_case_in<S: Strategy>(part: u32, inputs: &S, test: impl Fn(S::Value) -> TestCaseResult) {
    let default = ProptestConfig::default();
    let config = ProptestConfig { cases: default.cases.div_ceil(part), failure_persistence: None, ..default };
    match TestRunner::new(config).run(inputs, test) {
        Ok(()) => {}
        Err(TestError::Abort(reason)) => panic!("{reason}"),
        Err(TestError::Fail(reason, input)) => panic!("{reason}\nsmallest failing input: {input:#?}"),
    }
}
