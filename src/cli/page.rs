//! HTML pages that commands write for `--html`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use tokenmill::Result;
use tokenmill::base::atomic_file;

/// The first bytes of a page, in any case.
const BEGINNING: &[u8] = b"<!doctype html";

/// Checks, before any work is done, that writing a page would replace nothing but a page.
pub(super) fn check(path: Option<&str>) -> Result<()> {
    path.map_or(Ok(()), |path| atomic_file::check_replaced(Path::new(path), "page", is_page))
}

/// Returns whether a file begins like a page.
fn is_page(path: &Path) -> bool {
    let mut beginning = [0; BEGINNING.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut beginning));
    read.is_ok() && beginning.eq_ignore_ascii_case(BEGINNING)
}

/// Writes a page completely or not at all.
pub(super) fn write(path: &str, page: &str) -> Result<()> {
    atomic_file::publish_bytes(Path::new(path), page.as_bytes())
}
