//! Values that a process builds when it first needs them.

use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;

/// A value of the process that is built when it is first used.
///
/// Threads that need it at the same time all build it, and the first one that is built stays. With `LazyLock`, the others
/// would wait for the first thread, and a process that is forked meanwhile would wait for ever: it has a copy of the lock,
/// but not of the thread that releases it.
pub(crate) struct Lazy<T: 'static> {
    /// The value, once it is built.
    built: OnceLock<&'static T>,
    /// Builds it.
    build: fn() -> T,
}

impl<T> Lazy<T> {
    /// A value that `build` makes.
    pub(crate) const fn new(build: fn() -> T) -> Lazy<T> {
        Lazy { built: OnceLock::new(), build }
    }
}

impl<T: Sync> Deref for Lazy<T> {
    type Target = T;

    fn deref(&self) -> &T {
        if let Some(built) = self.built.get() {
            return built;
        }
        // It lives as long as the process. The lock is held only while its address is stored.
        let built = Box::leak(Box::new((self.build)()));
        self.built.get_or_init(|| built)
    }
}

impl<T> fmt::Debug for Lazy<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Lazy").field("is_built", &self.built.get().is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    /// Threads that build a value at the same time do not wait for each other, and get the same one.
    #[test]
    fn threads_that_build_a_value_do_not_wait_for_each_other() {
        // Nobody passes before both threads build the value.
        static BOTH: Barrier = Barrier::new(2);
        static VALUE: Lazy<Vec<u32>> = Lazy::new(|| {
            BOTH.wait();
            vec![7]
        });
        let built = || thread::spawn(|| VALUE.as_ptr().addr());
        let [one, other] = [built(), built()].map(|thread| thread.join().expect("a value"));
        assert_eq!(one, other);
        assert_eq!(*VALUE, [7]);
    }
}
