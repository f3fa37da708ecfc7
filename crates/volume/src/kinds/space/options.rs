//! Options of a log-structured volume, and of the space of a filesystem.

use forebay_units::ByteLen;

use super::spare::SpareShare;
use crate::options::shared::{ACK, ACK_DEFAULT, MAP_MEMORY, MAX_DELAY, SEGMENT};
use crate::options::values::SegmentDiscard;
use crate::options::{OptionKey, OptionRow};
use crate::placement::RequestedPlacement;

/// Discarding of free segments.
pub(crate) static DISCARD: OptionKey<SegmentDiscard> = OptionKey::new(
    "discard",
    "on|off",
    "Discard segments before they are used again: on or off.",
)
.choices(&["on", "off"]);

/// Share of the segments that is kept free.
pub(crate) static SPARE: OptionKey<SpareShare> = OptionKey::new(
    "spare",
    "SHARE",
    "The share of the segments that is kept free of data: 1/N or a percentage. A larger share reduces the writes for \
     cleaning a full volume.",
);

/// Length of a volume to be created.
pub(crate) static SIZE: OptionKey<ByteLen> = OptionKey::new(
    "size",
    "SIZE",
    "The length of the volume, which may exceed its capacity: space is allocated by writes and freed by discards.",
);

/// Placement of data in a volume to be created.
pub(crate) static PLACEMENT: OptionKey<RequestedPlacement> = OptionKey::new(
    "placement",
    "HOW",
    "The placement of data: lfs, wolf, hylog, sepbit, hylog+sepbit or overwrite; auto: the placement with the lowest \
     expected cost on the device, which is measured.",
)
.choices(&[
    "auto", "lfs", "wolf", "hylog", "sepbit", "hylog+sepbit", "overwrite",
]);

/// Page size of a volume to be created.
pub(crate) static PAGE: OptionKey<ByteLen> = OptionKey::new(
    "page",
    "SIZE",
    "Page size that hylog and wolf use to separate hot from cold data: a power of two from 4KiB to 64KiB.",
);

/// [`MAX_DELAY`] of a space.
pub(crate) const MAX_DELAY_ROW: OptionRow = MAX_DELAY.row("50 to 250ms, by the device", "250ms");

/// [`MAP_MEMORY`] of a space.
pub(crate) const MAP_MEMORY_ROW: OptionRow = MAP_MEMORY.noted_row(
    "256MiB",
    "256MiB",
    "Parts of the map of a log-structured space that do not fit are read again when they are needed; unwritten changes \
     of the map are kept in addition.",
);

/// [`DISCARD`] of a space.
pub(crate) const DISCARD_ROW: OptionRow = DISCARD.row(
    "on for a block device that supports discards; off for files, whose space would have to be allocated again",
    "on",
);

/// [`SEGMENT`] of a space.
pub(crate) const SEGMENT_ROW: OptionRow = SEGMENT.row(
    "1MiB, more on a log-structured volume of more than 256GiB",
    "1MiB",
);

/// [`PLACEMENT`] of a space.
pub(crate) const PLACEMENT_ROW: OptionRow = PLACEMENT.row("auto", "auto");

/// [`PAGE`] of a space.
pub(crate) const PAGE_ROW: OptionRow = PAGE.row("8KiB", "8KiB");

pub(super) static ROWS: [OptionRow; 5] = [
    ACK.row(ACK_DEFAULT, "memory"),
    MAX_DELAY_ROW,
    MAP_MEMORY_ROW,
    DISCARD_ROW,
    SPARE.row(
        "1/16, and at least 1/128, or 1/32 for small volumes; 1/512 and 1/1024 if the placement writes in place (hylog, \
         hylog+sepbit, overwrite)",
        "1/16",
    ),
];

pub(super) static CREATE_ROWS: [OptionRow; 4] = [
    SIZE.row("the capacity", "1TiB"),
    PLACEMENT_ROW,
    PAGE_ROW,
    SEGMENT_ROW,
];
