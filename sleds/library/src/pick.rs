//! The paper's pick library (section 4.2): selects the next part to read, for programs that read by themselves.
//! [`FileReader`](crate::Reader) also reads the parts, and is better.
//!
//! | the paper | here | in C |
//! |---|---|---|
//! | `sleds_pick_init` | [`ReadPicker::new`] | `sleds_pick_init` |
//! | `sleds_pick_next_read` | [`ReadPicker::next_read`] | `sleds_pick_next_read` |
//! | `sleds_pick_finish` | dropping the picker | `sleds_pick_finish` |
//! | `sleds_total_delivery_time` | [`delivery_time`](crate::delivery_time) | `sleds_total_delivery_time` |
//! | `ff_…`: in units of data elements | [`ReadUnit::Elements`] | `ff_sleds_…` |
//! | the ioctl `FSLEDS_GET` | [`describe`](crate::describe()) | `sleds_get` |
//! | the ioctl `FSLEDS_FILL` | `sleds calibrate`, [`format`](crate::format) | |

use std::fs::File;

use crate::describe::{DescribeError, Sled, length, shared};
use crate::level::StorageLevel;
use crate::plan::{ReadPlan, ReadUnit};
use crate::records::{PeekRange, with_boundaries};
use crate::schedule::{CostStretch, ReadCost, ReadSchedule, settle};

/// Options of a picker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PickOptions {
    /// Order of the picks. [`ReadPlan::Auto`] is [`ReadPlan::Best`] here, since picks cost the caller nothing.
    pub plan: ReadPlan,
    /// Unit that picks should not cut.
    pub unit: ReadUnit,
    /// Maximum length of a pick in bytes. With elements, a pick has at least one element.
    pub preferred: usize,
    /// Number of picked bytes after which the places of all remaining parts are looked up again. 0 disables the
    /// refresh.
    pub refresh: u64,
}

impl Default for PickOptions {
    fn default() -> PickOptions {
        PickOptions {
            plan: ReadPlan::Best,
            unit: ReadUnit::Bytes,
            preferred: 256 << 10,
            refresh: 64 << 20,
        }
    }
}

/// A part of the file that the caller must read next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pick {
    /// First byte.
    pub offset: u64,
    /// Length in bytes; never 0.
    pub length: usize,
    /// True if the part was in the page cache at the last lookup.
    pub cached: bool,
    /// True if the pick ends inside a record that is longer than the preferred size. The next pick continues the
    /// record.
    pub cut: bool,
}

/// Selects the next part to read: lowest latency first, lowest offset among equals. Each byte of the file, with its
/// length at the beginning, is selected exactly once.
///
/// With records, edges between levels are moved to record boundaries. No record then makes the caller continue into a
/// more expensive level. The picker reads a few bytes of the cheaper side to find the boundaries.
pub struct ReadPicker {
    file: File,
    options: PickOptions,
    schedule: ReadSchedule,
    /// The current stretch.
    current: Option<CostStretch>,
    left: u64,
    since_refresh: u64,
    cancelled: bool,
}

impl ReadPicker {
    /// Makes a picker for all of `file`, independent of the file's position (the paper's `sleds_pick_init`).
    ///
    /// # Errors
    /// If `file` has no length, or cannot be examined.
    pub fn new(file: &File, options: PickOptions) -> Result<ReadPicker, DescribeError> {
        let to = length(file)?;
        let from = match options.unit {
            ReadUnit::Elements { start, .. } => start.min(to),
            _ => 0,
        };
        let mut picker = ReadPicker {
            file: file.try_clone()?,
            options,
            schedule: ReadSchedule::default(),
            current: None,
            left: to - from,
            since_refresh: 0,
            cancelled: false,
        };
        picker.consider(from, to)?;
        Ok(picker)
    }

    /// Returns the number of bytes not yet picked.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Ends picking.
    pub fn cancel(&mut self) {
        self.cancelled = true;
    }

    fn consider(&mut self, from: u64, to: u64) -> Result<(), DescribeError> {
        if from >= to {
            return Ok(());
        }
        let sleds = match self.options.plan {
            ReadPlan::Linear => vec![crate::describe::unknown(from, to - from)],
            ReadPlan::Best | ReadPlan::Auto => shared().describe_part(&self.file, from, to)?,
        };
        let stretches = sleds.iter().map(stretch);
        let mut peek = PeekRange::new(&self.file, from, to);
        let settled = with_boundaries(self.options.unit, &mut peek, |boundaries| {
            settle(stretches, boundaries)
        })?;
        self.schedule.add(settled);
        Ok(())
    }

    /// Looks up again where the remaining parts are. Runs automatically after each [`PickOptions::refresh`] bytes.
    ///
    /// # Errors
    /// If the file cannot be examined.
    pub fn refresh(&mut self) -> Result<(), DescribeError> {
        self.since_refresh = 0;
        self.schedule.add(self.current.take());
        for (from, to) in self.schedule.drain() {
            self.consider(from, to)?;
        }
        Ok(())
    }

    /// Returns the next part to read (the paper's `sleds_pick_next_read`); `None` after the last.
    ///
    /// # Errors
    /// If the file cannot be examined, or its record ends cannot be read.
    pub fn next_read(&mut self) -> Result<Option<Pick>, DescribeError> {
        if self.cancelled {
            return Ok(None);
        }
        let due = self.options.refresh > 0 && self.since_refresh >= self.options.refresh;
        // Not inside a record, where the rest would not begin at a boundary.
        if due && self.current.is_none() {
            self.refresh()?;
        }
        let Some(stretch) = self.current.take().or_else(|| self.begin()) else {
            return Ok(None);
        };
        let (end, cut) = self.end_of_pick(stretch)?;
        let rest = (end < stretch.end).then_some(CostStretch {
            offset: end,
            ..stretch
        });
        match rest {
            Some(_) if cut => self.current = rest,
            rest => self.schedule.add(rest),
        }
        let length = (end - stretch.offset) as usize;
        self.left -= length as u64;
        self.since_refresh += length as u64;
        Ok(Some(Pick {
            offset: stretch.offset,
            length,
            cached: stretch.cost == ReadCost::CACHED,
            cut,
        }))
    }

    fn begin(&mut self) -> Option<CostStretch> {
        let stretch = self.schedule.first(ReadCost::CACHED)?;
        self.schedule.take(stretch, stretch.end);
        Some(stretch)
    }

    /// Returns the end of the pick at the beginning of `stretch`, and true if the pick cuts a record.
    fn end_of_pick(&self, stretch: CostStretch) -> Result<(u64, bool), DescribeError> {
        let preferred = self.options.preferred.max(1) as u64;
        let limit = stretch.offset.saturating_add(preferred);
        if limit >= stretch.end {
            return Ok((stretch.end, false));
        }
        match self.options.unit {
            ReadUnit::Bytes => Ok((limit, false)),
            ReadUnit::Elements { size, .. } => {
                let size = u64::from(size.max(1));
                let whole = (preferred / size).max(1) * size;
                Ok((stretch.end.min(stretch.offset + whole), false))
            }
            unit @ (ReadUnit::Records(_) | ReadUnit::RecordsOrZeros(_)) => {
                let mut peek = PeekRange::new(&self.file, stretch.offset, limit);
                let found = with_boundaries(unit, &mut peek, |boundaries| {
                    boundaries.end_before(limit, stretch.offset)
                })?;
                Ok((found.unwrap_or(limit), found.is_none()))
            }
        }
    }
}

fn stretch(sled: &Sled) -> CostStretch {
    CostStretch {
        offset: sled.offset,
        end: sled.end(),
        cost: match sled.level {
            StorageLevel::Memory => ReadCost::CACHED,
            _ => ReadCost::device(sled.latency_s.map(|latency| latency.median)),
        },
    }
}
