//! The system clock, for filesystems.

use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_volume::{FileTime, FsClock};

/// Returns a clock of the current time. A time before 1970 is reported as 1970.
pub(crate) fn clock() -> FsClock {
    Rc::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = since.unwrap_or_default();
        FileTime {
            seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanos: since.subsec_nanos(),
        }
    })
}
