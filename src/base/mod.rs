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
pub(crate) mod pools;
#[cfg(feature = "data")]
pub(crate) mod process;
#[cfg(feature = "data")]
pub(crate) mod random;
#[cfg(feature = "data")]
pub(crate) mod secrets;
#[cfg(test)]
pub(crate) mod test_support;

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
