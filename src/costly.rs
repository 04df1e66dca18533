//! Random tests whose cases are so long that a run for many cases a property would be theirs alone.

use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestError, TestRunner};

/// Runs a test on one `part` of as many random inputs as other tests get.
///
/// The variable `PROPTEST_CASES` sets that number for `proptest!` even where a configuration is given.
///
/// # Panics
/// Where the test fails, with the smallest input that was found to fail.
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
