//! Texts of panics, without printing them: in a simulated scenario a panic is a finding like others.

use std::cell::{Cell, RefCell};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Runs `work`. If it panics, nothing is printed, and [`last`] returns the text.
pub fn quietly<T>(work: impl FnOnce() -> T) -> T {
    struct QuietGuard;
    impl Drop for QuietGuard {
        fn drop(&mut self) {
            QUIET.set(false);
        }
    }
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if QUIET.get() {
                LAST.set(Some(info.to_string()));
            } else {
                before(info);
            }
        }));
    });
    QUIET.set(true);
    let _loud = QuietGuard;
    work()
}

/// Returns the text of the last panic on this thread.
pub fn last() -> Option<String> {
    LAST.take()
}
