//! Translates places on a block device into the tiers of the volume below the device.

use crate::extents::{BackingExtent, BackingTier};

use super::volume::{PlaceQuery, ReportedTier, TierExtent};

/// Minimum number of bytes per question: adjacent bytes of a file often lie close together on the device.
const ASK_BYTES: u64 = 1 << 20;
/// Maximum number of questions about one file. The rest of the file stays unknown.
const QUESTIONS_MAX: usize = 1024;

/// Reports the tiers of bytes of the block device.
pub(super) trait TierReporter {
    /// Returns parts, and the end of the reported range; `None` without an answer.
    fn tell(&mut self, start: u64, end: u64) -> Option<(Vec<TierExtent>, u64)>;
}

impl TierReporter for PlaceQuery<'_> {
    fn tell(&mut self, start: u64, end: u64) -> Option<(Vec<TierExtent>, u64)> {
        self.places(start, end)
    }
}

/// Refines extents whose data lies on a block device by the tier of each byte. The filesystem begins at byte
/// `partition` of the device. The result is in order and without gaps, like `extents`.
pub(super) fn refine(
    extents: &[BackingExtent],
    partition: Option<u64>,
    teller: impl TierReporter,
) -> Vec<BackingExtent> {
    let mut told = TierLookup {
        teller,
        window: Vec::new(),
        covers: (0, 0),
        questions: 0,
    };
    let mut refined = Vec::with_capacity(extents.len());
    for extent in extents {
        match (extent.under, partition) {
            (BackingTier::Data(Some(at)), Some(partition)) => {
                told.refine(extent, at, partition, &mut refined);
            }
            // The place on the device is not known.
            (BackingTier::Data(_), _) => push(
                &mut refined,
                extent.end,
                extent.offset,
                BackingTier::Unknown,
            ),
            (under, _) => push(&mut refined, extent.end, extent.offset, under),
        }
    }
    refined
}

/// The most recent answer.
struct TierLookup<T> {
    teller: T,
    window: Vec<TierExtent>,
    /// The range of the device that the answer covers.
    covers: (u64, u64),
    questions: usize,
}

impl<T: TierReporter> TierLookup<T> {
    /// Adds the tiers of an extent that lies at byte `at` of the filesystem's device.
    fn refine(
        &mut self,
        extent: &BackingExtent,
        at: u64,
        partition: u64,
        refined: &mut Vec<BackingExtent>,
    ) {
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
                ReportedTier::Home => BackingTier::Data(Some(here)),
                ReportedTier::Log => BackingTier::Log,
                ReportedTier::Memory => BackingTier::Memory,
                ReportedTier::Nowhere => BackingTier::Nothing,
                ReportedTier::Unknown => BackingTier::Unknown,
            };
            push(refined, offset + length, offset, under);
            offset += length;
        }
        push(refined, extent.end, offset, BackingTier::Unknown);
    }

    /// Returns the tier of byte `at` of the device, and the number of bytes from there on in the same tier, at most
    /// `left`. `None` without an answer.
    fn what_is_at(&mut self, at: u64, left: u64) -> Option<(u64, ReportedTier)> {
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
            // No reported part contains the byte.
            Some(part) => (part.start, ReportedTier::Unknown),
            None => (self.covers.1, ReportedTier::Unknown),
        };
        Some(((end.min(self.covers.1) - at).min(left), place))
    }
}

fn push(refined: &mut Vec<BackingExtent>, end: u64, offset: u64, under: BackingTier) {
    if offset < end {
        match refined.last_mut() {
            Some(last) if last.under == under && !matches!(under, BackingTier::Data(_)) => {
                last.end = end;
            }
            _ => refined.push(BackingExtent { offset, end, under }),
        }
    }
}

#[cfg(test)]
#[path = "refine_tests.rs"]
mod tests;
