//! The system's clock, for filesystems.

use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_stack::{Clock, Time};

/// What time it is. Before 1970 it never is.
pub(crate) fn clock() -> Clock {
    Rc::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = since.unwrap_or_default();
        Time {
            seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanos: since.subsec_nanos(),
        }
    })
}
