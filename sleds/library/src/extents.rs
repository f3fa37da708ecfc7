//! Finds the places of a file's bytes on its device.

use std::fs::File;
use std::os::fd::AsFd;

use crate::sys;

const LAST: u32 = 0x1;
/// Flags of an unknown place: unknown, delayed, encoded, not aligned, inline or in a tail.
const NO_PLACE: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400;
const UNWRITTEN: u32 = 0x800;

/// Maximum number of extents to examine. The rest of a file with more extents is taken for contiguous.
const EXTENTS_MAX: usize = 1 << 20;

/// Content below a part of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BackingTier {
    /// A hole, or space that was never written. Reads return zeroes without the device.
    Nothing,
    /// Data, with its position in bytes on the device if known.
    Data(Option<u64>),
    /// The memory of the process that serves the file.
    Memory,
    /// The log in front of the device.
    Log,
    /// Not reported.
    Unknown,
}

/// A part of a file with the same content below it throughout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BackingExtent {
    pub(crate) offset: u64,
    pub(crate) end: u64,
    pub(crate) under: BackingTier,
}

/// Returns the extents of bytes `from` to `to`, in order and without gaps. If the filesystem does not report extents,
/// returns a single extent of data at an unknown place.
pub(crate) fn extents(file: &File, from: u64, to: u64) -> Vec<BackingExtent> {
    let mut found: Vec<BackingExtent> = Vec::new();
    let mut at = from;
    'calls: while at < to && found.len() < EXTENTS_MAX {
        let Ok(raw) = sys::fiemap(file.as_fd(), at, to - at) else {
            break;
        };
        if raw.is_empty() {
            found.push(extent(at, to, BackingTier::Nothing));
            at = to;
        }
        let before = at;
        for one in raw {
            let (start, end) = (one.logical, one.logical.saturating_add(one.length));
            if start > at {
                found.push(extent(at, start.min(to), BackingTier::Nothing));
                at = start.min(to);
            }
            if end > at && at < to {
                let under = match one.flags {
                    flags if flags & UNWRITTEN != 0 => BackingTier::Nothing,
                    flags if flags & NO_PLACE != 0 => BackingTier::Data(None),
                    _ => BackingTier::Data(one.physical.checked_add(at - start)),
                };
                found.push(extent(at, end.min(to), under));
                at = end.min(to);
            }
            if one.flags & LAST != 0 && at < to {
                found.push(extent(at, to, BackingTier::Nothing));
                at = to;
                break 'calls;
            }
        }
        if at == before {
            break;
        }
    }
    if at < to {
        found.push(extent(at, to, BackingTier::Data(None)));
    }
    found
}

fn extent(offset: u64, end: u64, under: BackingTier) -> BackingExtent {
    BackingExtent { offset, end, under }
}
