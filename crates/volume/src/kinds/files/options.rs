//! Options of a filesystem. Its clients decide by `fsync` when data becomes durable, and it has no length beside which
//! space is kept free. So it lacks these options of a log-structured volume.

use forebay_units::ByteLen;

use crate::kinds::space::options::{
    DISCARD_ROW, MAP_MEMORY_ROW, MAX_DELAY_ROW, PAGE_ROW, PLACEMENT_ROW, SEGMENT_ROW,
};
use crate::options::{OptionKey, OptionRow};

/// Largest size of files that share a part of the space.
pub(super) static SMALL_FILE: OptionKey<ByteLen> = OptionKey::new(
    "small-file",
    "SIZE",
    "Files up to this size share a region of the address space. A file that grows larger is copied to a region of its \
     own. A power of two from 4KiB to 1MiB.",
);

/// Maximum size of a file.
pub(super) static LARGEST_FILE: OptionKey<ByteLen> = OptionKey::new(
    "largest-file",
    "SIZE",
    "The maximum size of a file, a power of two from 512MiB to 512TiB. A larger maximum allows fewer files.",
);

pub(super) static ROWS: [OptionRow; 3] = [MAX_DELAY_ROW, MAP_MEMORY_ROW, DISCARD_ROW];

pub(super) static CREATE_ROWS: [OptionRow; 5] = [
    SMALL_FILE.row("32KiB", "32KiB"),
    LARGEST_FILE.row("16TiB, and 134 million files", "16TiB"),
    PLACEMENT_ROW,
    PAGE_ROW,
    SEGMENT_ROW,
];
