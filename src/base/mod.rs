//! What every stage may use: integers, hashes, thread pools, memory, and files that are written completely or not at
//! all. Nothing here imports a stage.

#[cfg(feature = "data")]
pub mod atomic_file;
#[cfg(feature = "data")]
pub(crate) mod folder_lock;
pub(crate) mod hash;
pub(crate) mod huge_pages;
pub mod int;
#[cfg(feature = "data")]
pub(crate) mod integrity;
pub(crate) mod lazy;
pub(crate) mod pools;
#[cfg(feature = "data")]
pub(crate) mod process;
pub(crate) mod random;
#[cfg(feature = "data")]
pub(crate) mod secrets;

use std::path::Path;

/// Returns the folder that contains a path; `.` for a bare file name.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns whether this CPU has all of these features.
#[cfg(target_arch = "x86_64")]
macro_rules! cpu_has {
    ($($feature:tt),+) => { $(is_x86_feature_detected!($feature))&&+ };
}
#[cfg(target_arch = "x86_64")]
pub(crate) use cpu_has;

/// Test support for expensive random tests: fewer cases, and thread pools that are reused.
#[cfg(test)]
pub(crate) mod test_support {
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
        let config =
            ProptestConfig { cases: default.cases.div_ceil(part), failure_persistence: None, ..default };
        match TestRunner::new(config).run(inputs, test) {
            Ok(()) => {}
            Err(TestError::Abort(reason)) => panic!("{reason}"),
            Err(TestError::Fail(reason, input)) => panic!("{reason}\nsmallest failing input: {input:#?}"),
        }
    }
}
