use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// Whether this thread is inside [`catching`].
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Calls a decoder that panics on some malformed input, and returns the message of a panic as the error.
///
/// After an error, anything that `decode` has worked on must not be used again.
pub(crate) fn catching<T>(decode: impl FnOnce() -> T) -> Result<T, String> {
    let outer = CATCHING.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(decode));
    CATCHING.set(outer);
    outcome.map_err(|panic| said(&*panic))
}

/// Whether a panic of the current thread becomes an error, as panics of Parquet decoders on damaged files do.
///
/// A panic hook is called for these panics too, and can call this function to recognise and ignore them. In a
/// program built with `panic = "abort"`, such a panic ends the program.
pub fn is_catching() -> bool {
    CATCHING.get()
}

/// The message of a panic.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_panic_said_is_the_error() {
        assert!(!is_catching());
        let inner = |fails: bool| catching(move || if fails { panic!("bad {}", 7) } else { is_catching() });
        assert_eq!(inner(false), Ok(true));
        assert_eq!(inner(true), Err("bad 7".to_owned()));
        assert_eq!(catching(|| (inner(true).is_err(), is_catching())), Ok((true, true)));
        assert!(!is_catching());
    }
}
