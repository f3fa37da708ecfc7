//! Execution of a disk's faults.

use std::time::Duration;

use forebay_device::{DeviceError, DeviceOp};
use forebay_rng::{Rng, mix};

use super::{DiskRequest, SimDisk, TimedFault};

/// Maximum number of volatile writes on a disk that lies. Older writes become durable by themselves.
const LIES_MAX: usize = 96;

impl SimDisk {
    /// Returns true once in `one_in` times, decided by the disk's plan for a request.
    pub(super) fn chance(&self, id: u64, salt: u64, one_in: u64) -> bool {
        let seed = self.faults.borrow().seed;
        one_in > 0 && mix(seed ^ salt << 56, id).is_multiple_of(one_in)
    }

    /// Returns the error with which a request fails, if it fails.
    pub(super) fn verdict(&self, request: &DiskRequest) -> Result<(), DeviceError> {
        const EIO: i32 = 5;
        const ENOSPC: i32 = 28;
        let DiskRequest { id, op, range, .. } = request;
        let asked = self
            .fault
            .borrow()
            .as_ref()
            .is_some_and(|fault| fault(*op, range));
        let faults = self.faults.borrow();
        let rate = match op {
            DeviceOp::Read => faults.reads_fail,
            DeviceOp::Write | DeviceOp::WriteZeroes => faults.writes_fail,
            DeviceOp::Flush => faults.flushes_fail,
            DeviceOp::Discard => faults.discards_fail,
        };
        let out = faults.outage.is_some_and(|outage| {
            let n = if outage.op.is_some() {
                request.nth
            } else {
                *id
            };
            let over = outage
                .requests
                .is_some_and(|requests| n >= outage.from + requests);
            let meant = outage.op.is_none_or(|meant| meant == *op);
            n >= outage.from && !over && meant && (outage.reads || *op != DeviceOp::Read)
        });
        let now = self.age();
        let again = faults.room_again.is_some_and(|again| again <= now);
        let full = faults.room.filter(|_| *op == DeviceOp::Write && !again);
        let out = out || self.troubles(request).any(|trouble| trouble.fails);
        drop(faults);
        let full = full.is_some_and(|room| {
            let mut fresh = self.fresh.borrow_mut();
            let pages = range.start / 4096..range.end.div_ceil(4096);
            let more = pages.clone().filter(|page| !fresh.contains(page)).count();
            let full = (fresh.len() + more) as u64 > room;
            if !full {
                fresh.extend(pages);
            }
            full
        });
        if !(asked || out || full || self.chance(*id, 2, rate)) {
            if *op == DeviceOp::Discard {
                // As on a thin disk: the space of wholly discarded pages can be written elsewhere.
                let whole = range.start.div_ceil(4096)..range.end / 4096;
                self.fresh.borrow_mut().retain(|page| !whole.contains(page));
            }
            return Ok(());
        }
        self.injected.set(self.injected.get() + 1);
        let code = if full { ENOSPC } else { EIO };
        let source = std::io::Error::from_raw_os_error(code);
        Err(DeviceError::io(*op, range.clone(), source))
    }

    /// Returns the time since the start of this incarnation.
    fn age(&self) -> Duration {
        Duration::from_nanos(self.rt.now().as_nanos())
    }

    /// Returns the timed faults that affect a request now.
    fn troubles(&self, request: &DiskRequest) -> impl Iterator<Item = TimedFault> {
        let (troubles, now) = (self.faults.borrow().troubles.clone(), self.age());
        troubles
            .into_iter()
            .zip(3..)
            .filter_map(move |(trouble, salt)| {
                let met = trouble.concerns(request.op, &request.range, now)
                    && self.chance(request.id, salt, trouble.one_in);
                met.then_some(trouble)
            })
    }

    /// Returns the additional duration of a request from timed faults.
    pub(super) fn delay(&self, request: &DiskRequest) -> Duration {
        self.troubles(request).map(|trouble| trouble.takes).sum()
    }

    /// Returns the place to which a write really goes.
    pub(super) fn place(&self, request: &DiskRequest) -> u64 {
        let n = self.writes_seen.replace(self.writes_seen.get() + 1);
        let at = request.range.start;
        let faults = self.faults.borrow();
        if faults.misdirect != Some(n) || request.op != DeviceOp::Write {
            return at;
        }
        self.injected.set(self.injected.get() + 1);
        let len = request.range.end - at;
        let block = u64::from(self.geometry.get().block_size);
        // A near place, as when a head settles on a wrong track.
        let by = (1 + mix(faults.seed, n) % 64) * block;
        let up = at + len + by <= self.geometry.get().len;
        if up { at + by } else { at.saturating_sub(by) }
    }

    /// Reports all writes as durable, and makes only the oldest durable.
    pub(super) fn lie(&self) {
        self.lied.set(true);
        self.injected.set(self.injected.get() + 1);
        let mut pending = self.pending.borrow_mut();
        pending.sort_by_key(|write| write.done.unwrap_or(u64::MAX));
        while pending.len() > LIES_MAX && pending[0].done.is_some() {
            pending.remove(0).apply(&mut self.stable.borrow_mut());
        }
    }

    pub(super) fn rot_if_due(&self, id: u64) {
        let faults = self.faults.borrow();
        let Some(rot) = faults.rot.filter(|rot| rot.at == id) else {
            return;
        };
        let rng = Rng::new(mix(faults.seed, 3));
        drop(faults);
        let pages: Vec<u64> = self.stable.borrow().written().collect();
        for _ in 0..rot.places {
            let at = match rng.below(4) {
                // Favours the superblocks and the newest records, since they are few among many pages.
                0 if !pages.is_empty() => pages[0],
                _ if !pages.is_empty() => rng.pick(&pages),
                _ => return,
            };
            let at = (at + rng.below(4096)).min(self.geometry.get().len - 1);
            let bit = 1 << rng.below(8);
            self.rot(at, |byte| byte ^ bit);
        }
    }

    /// Changes stored data, like rot.
    pub fn rot(&self, at: u64, change: impl Fn(u8) -> u8) {
        self.injected.set(self.injected.get() + 1);
        for image in [&self.current, &self.stable] {
            let mut byte = [0];
            image.borrow().read(at, &mut byte);
            image.borrow_mut().write(at, &[change(byte[0])]);
        }
    }
}
