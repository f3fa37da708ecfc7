//! Options of a write cache.

use forebay_units::TimeSpan;

use crate::options::shared::{ACK, ACK_DEFAULT, MAP_MEMORY, MAX_DELAY, SEGMENT};
use crate::options::values::BypassSize;
use crate::options::{OptionKey, OptionRow};

/// Longest time that requests wait for a failing device before they fail too.
pub(crate) static PATIENCE: OptionKey<TimeSpan> = OptionKey::new(
    "patience",
    "TIME",
    "Time that requests wait for a failing device before they fail too. The device is retried without a time limit in \
     any case.",
);

/// Writes that bypass the log and go to the data device directly.
pub(crate) static BYPASS: OptionKey<BypassSize> = OptionKey::new(
    "bypass",
    "SIZE",
    "Writes of this size and more go directly to the data device: a size such as 64KiB, or off.",
)
.choices(&["off"]);

pub(super) static ROWS: [OptionRow; 5] = [
    ACK.row(ACK_DEFAULT, "memory"),
    MAX_DELAY.row("500ms if log and data are on one disk, else 50ms", "50ms"),
    PATIENCE.row("60s", "60s"),
    BYPASS.row(
        "64KiB if log and data are parts of one device, else off",
        "off",
    ),
    MAP_MEMORY.noted_row(
        "1GiB, enough for 200 GiB in extents of 4 KiB or 25 GiB in extents of 512 bytes",
        "1GiB",
        "When the map of the log is full, writes wait, as for free space in the log.",
    ),
];

pub(super) static CREATE_ROWS: [OptionRow; 1] = [SEGMENT.row("1MiB", "1MiB")];
