//! The paper's pick library (section 4.2): where to read next, for programs that do their own
//! reading. [`Reader`](crate::Reader) does that too, and better.
//!
//! | the paper | here | in C |
//! |---|---|---|
//! | `sleds_pick_init` | [`Picker::new`] | `sleds_pick_init` |
//! | `sleds_pick_next_read` | [`Picker::next_read`] | `sleds_pick_next_read` |
//! | `sleds_pick_finish` | dropping the picker | `sleds_pick_finish` |
//! | `sleds_total_delivery_time` | [`delivery_time`](crate::delivery_time) | `sleds_total_delivery_time` |
//! | `ff_…`: in units of data elements | [`Unit::Elements`] | `ff_sleds_…` |
//! | the ioctl `FSLEDS_GET` | [`describe`](crate::describe()) | `sleds_get` |
//! | the ioctl `FSLEDS_FILL` | `sleds calibrate`, [`format`](crate::format) | |

use std::fs::File;

use crate::describe::{DescribeError, Sled, length, shared};
use crate::level::Level;
use crate::read::{Plan, Unit};
use crate::records::{Peek, Records, with_boundaries};
use crate::schedule::{Boundaries as _, Cost, Schedule, Stretch, settle};

/// How to pick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PickOptions {
    /// The order; [`Plan::Auto`] is [`Plan::Best`] here, since picks cost the caller nothing.
    pub plan: Plan,
    /// What should not be cut.
    pub unit: Unit,
    /// The longest pick, in bytes. With elements, at least one is picked.
    pub preferred: usize,
    /// Where every part is is looked up again after so many bytes; 0: never.
    pub refresh: u64,
}

impl Default for PickOptions {
    fn default() -> PickOptions {
        PickOptions {
            plan: Plan::Best,
            unit: Unit::Bytes,
            preferred: 256 << 10,
            refresh: 64 << 20,
        }
    }
}

/// A part of the file to be read next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pick {
    /// Its first byte.
    pub offset: u64,
    /// Bytes in it; never 0.
    pub length: usize,
    /// Whether it lay in the page cache when that was last looked up.
    pub cached: bool,
    /// Whether it ends inside a record that is longer than the preferred size. The next pick goes
    /// on with the record.
    pub cut: bool,
}

/// Says where to read next: lowest latency first, lowest offset among equals, every byte of the
/// file as it was in the beginning exactly once.
///
/// With records, edges between levels are pulled in to record boundaries, so that no record makes
/// the reader run over into a dearer level; it reads a little of the cheaper side to find them.
pub struct Picker {
    file: File,
    options: PickOptions,
    schedule: Schedule,
    /// The stretch at hand.
    current: Option<Stretch>,
    left: u64,
    since_refresh: u64,
    cancelled: bool,
}

impl Picker {
    /// Of all of `file`, whatever its position (the paper's `sleds_pick_init`).
    ///
    /// # Errors
    /// If it is not a file with a length, or cannot be examined.
    pub fn new(file: &File, options: PickOptions) -> Result<Picker, DescribeError> {
        let to = length(file)?;
        let from = match options.unit {
            Unit::Elements { start, .. } => start.min(to),
            _ => 0,
        };
        let mut picker = Picker {
            file: file.try_clone()?,
            options,
            schedule: Schedule::default(),
            current: None,
            left: to - from,
            since_refresh: 0,
            cancelled: false,
        };
        picker.consider(from, to)?;
        Ok(picker)
    }

    /// Bytes that were not picked yet.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Nothing is picked any more.
    pub fn cancel(&mut self) {
        self.cancelled = true;
    }

    fn consider(&mut self, from: u64, to: u64) -> Result<(), DescribeError> {
        if from >= to {
            return Ok(());
        }
        let sleds = match self.options.plan {
            Plan::Linear => vec![crate::describe::unknown(from, to - from)],
            Plan::Best | Plan::Auto => shared().describe_part(&self.file, from, to)?,
        };
        let stretches = sleds.iter().map(stretch);
        let mut peek = Peek::new(&self.file, from, to);
        let settled = with_boundaries(self.options.unit, &mut peek, |boundaries| {
            settle(stretches, boundaries)
        })?;
        self.schedule.add(settled);
        Ok(())
    }

    /// Looks up anew where everything is that was not picked yet. Happens by itself now and then:
    /// [`PickOptions::refresh`].
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

    /// What to read next (the paper's `sleds_pick_next_read`); `None` after the last.
    ///
    /// # Errors
    /// If the file cannot be examined, or read to find the ends of records.
    pub fn next_read(&mut self) -> Result<Option<Pick>, DescribeError> {
        if self.cancelled {
            return Ok(None);
        }
        let due = self.options.refresh > 0 && self.since_refresh >= self.options.refresh;
        // Not inside of a record: what follows is no boundary, then.
        if due && self.current.is_none() {
            self.refresh()?;
        }
        let Some(stretch) = self.current.take().or_else(|| self.begin()) else {
            return Ok(None);
        };
        let (end, cut) = self.end_of_pick(stretch)?;
        let rest = (end < stretch.end).then_some(Stretch {
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
            cached: stretch.cost == Cost::CACHED,
            cut,
        }))
    }

    fn begin(&mut self) -> Option<Stretch> {
        let stretch = self.schedule.first(Cost::CACHED)?;
        self.schedule.take(stretch, stretch.end);
        Some(stretch)
    }

    /// Where the pick at the beginning of `stretch` ends, and whether it cuts a record.
    fn end_of_pick(&self, stretch: Stretch) -> Result<(u64, bool), DescribeError> {
        let preferred = self.options.preferred.max(1) as u64;
        let limit = stretch.offset.saturating_add(preferred);
        if limit >= stretch.end {
            return Ok((stretch.end, false));
        }
        match self.options.unit {
            Unit::Bytes => Ok((limit, false)),
            Unit::Elements { size, .. } => {
                let size = u64::from(size.max(1));
                let whole = (preferred / size).max(1) * size;
                Ok((stretch.end.min(stretch.offset + whole), false))
            }
            Unit::Records(end) => {
                let mut peek = Peek::new(&self.file, stretch.offset, limit);
                let peek = &mut peek;
                let found = Records { peek, end }.end_before(limit, stretch.offset)?;
                Ok((found.unwrap_or(limit), found.is_none()))
            }
        }
    }
}

fn stretch(sled: &Sled) -> Stretch {
    Stretch {
        offset: sled.offset,
        end: sled.end(),
        cost: match sled.level {
            Level::Memory => Cost::CACHED,
            _ => Cost::device(sled.latency_s.map(|latency| latency.median)),
        },
    }
}
