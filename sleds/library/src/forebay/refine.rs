//! From where a file lies on a block device to what below that has it.

use crate::extents::{Extent, Under};

use super::volume::{Asking, In, Part};

/// At least so much is asked about at a time: what is next in a file often lies near on the device.
const ASK_BYTES: u64 = 1 << 20;
/// Questions about one file, at most. Of the rest nothing is known.
const QUESTIONS_MAX: usize = 1024;

/// Who says where bytes of the block device lie.
pub(super) trait Tell {
    /// Parts, and up to where that is told; `None` if there is no answer.
    fn tell(&mut self, start: u64, end: u64) -> Option<(Vec<Part>, u64)>;
}

impl Tell for Asking<'_> {
    fn tell(&mut self, start: u64, end: u64) -> Option<(Vec<Part>, u64)> {
        self.places(start, end)
    }
}

/// Says of extents whose data lies on a block device, the filesystem's own beginning at byte `partition` of it, what has which
/// part; in order and without gaps, as they are.
pub(super) fn refine(extents: &[Extent], partition: Option<u64>, teller: impl Tell) -> Vec<Extent> {
    let mut told = Told {
        teller,
        window: Vec::new(),
        covers: (0, 0),
        questions: 0,
    };
    let mut refined = Vec::with_capacity(extents.len());
    for extent in extents {
        match (extent.under, partition) {
            (Under::Data(Some(at)), Some(partition)) => {
                told.refine(extent, at, partition, &mut refined);
            }
            // Where it lies on the device, nobody knows.
            (Under::Data(_), _) => push(&mut refined, extent.end, extent.offset, Under::Unknown),
            (under, _) => push(&mut refined, extent.end, extent.offset, under),
        }
    }
    refined
}

/// What was told last.
struct Told<T> {
    teller: T,
    window: Vec<Part>,
    /// The bytes of the device that it is of.
    covers: (u64, u64),
    questions: usize,
}

impl<T: Tell> Told<T> {
    /// Adds what is under an extent that lies at byte `at` of the filesystem's device.
    fn refine(&mut self, extent: &Extent, at: u64, partition: u64, refined: &mut Vec<Extent>) {
        let mut offset = extent.offset;
        while offset < extent.end {
            let here = at + (offset - extent.offset);
            let Some(on_device) = here.checked_add(partition) else {
                break;
            };
            let left = extent.end - offset;
            let Some((length, place)) = self.what_is_at(on_device, left) else {
                break;
            };
            let under = match place {
                In::Home => Under::Data(Some(here)),
                In::Log => Under::Log,
                In::Memory => Under::Memory,
                In::Nowhere => Under::Nothing,
                In::Unknown => Under::Unknown,
            };
            push(refined, offset + length, offset, under);
            offset += length;
        }
        push(refined, extent.end, offset, Under::Unknown);
    }

    /// What byte `at` of the device, of which `left` bytes from there on matter, is said to lie in, and how many bytes from
    /// there on do; `None` if there is no answer.
    fn what_is_at(&mut self, at: u64, left: u64) -> Option<(u64, In)> {
        if !(self.covers.0..self.covers.1).contains(&at) {
            if self.questions == QUESTIONS_MAX {
                return None;
            }
            self.questions += 1;
            let (parts, end) = self
                .teller
                .tell(at, at.saturating_add(left.max(ASK_BYTES)))?;
            let in_order = parts.is_sorted_by(|a, b| a.end <= b.start);
            if end <= at || !in_order || parts.iter().any(|part| part.start >= part.end) {
                return None;
            }
            (self.window, self.covers) = (parts, (at, end));
        }
        let after = self.window.partition_point(|part| part.end <= at);
        let (end, place) = match self.window.get(after) {
            Some(part) if part.start <= at => (part.end, part.place),
            // What no part has.
            Some(part) => (part.start, In::Unknown),
            None => (self.covers.1, In::Unknown),
        };
        Some(((end.min(self.covers.1) - at).min(left), place))
    }
}

fn push(refined: &mut Vec<Extent>, end: u64, offset: u64, under: Under) {
    if offset < end {
        match refined.last_mut() {
            Some(last) if last.under == under && !matches!(under, Under::Data(_)) => last.end = end,
            _ => refined.push(Extent { offset, end, under }),
        }
    }
}

#[cfg(test)]
#[path = "refine_tests.rs"]
mod tests;
