//! A performance model of the paper's own cache, for variants that ours does not have: other destage orders, other
//! thresholds, a lock around everything.
//!
//! Segments have 128 KiB and a header of 1 KiB; two segments are in memory. Fragments have 1 KiB; a table maps
//! fragments to segments. A segment goes to the log when it is full, or when it has waited long enough and the previous
//! segment is written. Each write takes the whole length of the segment, full or not (the paper's section on
//! reliability). Segments may be destaged in any order, since only memory records the valid copy of a fragment. After a
//! crash older copies would come back (docs/design/dcd.md); the shipping cache does not do so for this reason. The
//! model has no recovery, checksums or damage. It neither assembles the data that it reads, nor destages scattered data
//! first. It models the times of device requests, and is never a cache for data.
//!
//! Invariant: a segment's `valid` is the number of fragments that the table maps to the segment.

mod state;

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{
    Buf, BufMut, Device, DeviceError, DeviceGeometry, Durability, IoFuture, Result, ZeroedSpace,
};
use forebay_rt::{Event, Lock, LockGuard, Rt, Task};

use crate::disks::{CacheSetup, SetupDevice, SetupDisks};

pub(crate) use state::PaperDestageOrder;
use state::{FRAGMENT, PaperCacheState, SLOTS};

/// Length of a segment with its header, as written to the log.
const SEGMENT: u64 = SLOTS as u64 * FRAGMENT + 1024;
/// Writes of this length or more bypass the log.
const BYPASS: u64 = 64 << 10;
/// Adjacent fragments within an aligned extent of this many fragments are destaged in one write.
const RUN_FRAGMENTS: u64 = 64;

/// Rule for the length of an idle time before destaging begins.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum IdleRule {
    /// One second while the log is empty, one millisecond when the log is full.
    Paper,
    /// This time, independent of the fill level.
    Always(Duration),
}

/// A variant to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PaperCacheRules {
    pub(crate) order: PaperDestageOrder,
    pub(crate) idle: IdleRule,
    /// Segments that are destaged together.
    pub(crate) window: usize,
    /// True to destage a window in the order of addresses, adjacent fragments together.
    pub(crate) sorted: bool,
    /// True to lock the whole cache for each request.
    pub(crate) lock: bool,
    /// Time that a partly filled segment waits for more data.
    pub(crate) wait: Duration,
}

/// Time that a write may stay in memory. The paper states several hundreds of milliseconds.
const WAIT: Duration = Duration::from_millis(300);

impl PaperCacheRules {
    /// Rules of the paper's driver.
    pub(crate) const PAPER: PaperCacheRules = PaperCacheRules {
        order: PaperDestageOrder::LastWritten,
        idle: IdleRule::Paper,
        window: 1,
        sorted: false,
        lock: true,
        wait: WAIT,
    };
    /// Rules of the shipping cache.
    pub(crate) const OURS: PaperCacheRules = PaperCacheRules {
        order: PaperDestageOrder::Ring,
        idle: IdleRule::Paper,
        window: 16,
        sorted: true,
        lock: false,
        wait: WAIT,
    };
}

/// The cache. Its workers end when the cache is dropped.
pub(crate) struct PaperCache {
    shared: Rc<PaperCacheCore>,
    _workers: [Task<()>; 2],
}

struct PaperCacheCore {
    rt: Rt,
    log: Rc<dyn Device>,
    data: Rc<dyn Device>,
    rules: PaperCacheRules,
    state: RefCell<PaperCacheState>,
    failed: RefCell<Option<DeviceError>>,
    /// Signalled after each change that a task may wait for.
    changed: Event,
    turn: Rc<Lock>,
}

/// A request in progress.
struct PaperRequestGuard<'a>(&'a PaperCacheCore);

impl Drop for PaperRequestGuard<'_> {
    fn drop(&mut self) {
        self.0.state.borrow_mut().end(self.0.rt.now());
        self.0.changed.notify_all();
    }
}

/// Next step of the destager.
enum DestagerStep {
    Rest,
    Wait(Duration),
    Destage { urgent: bool },
}

impl PaperCache {
    /// Opens a cache with an empty log, on the disks of a setup.
    pub(crate) fn open(
        rt: &Rt,
        setup: CacheSetup,
        rules: PaperCacheRules,
    ) -> anyhow::Result<SetupDevice> {
        let SetupDisks { log, data, spent } = setup.disks(rt)?;
        Ok(SetupDevice {
            device: Rc::new(PaperCache::new(rt, log, data, rules)),
            volume: None,
            spent,
        })
    }

    fn new(
        rt: &Rt,
        log: Rc<dyn Device>,
        data: Rc<dyn Device>,
        rules: PaperCacheRules,
    ) -> PaperCache {
        let segments = (log.geometry().len / SEGMENT) as usize;
        let shared = Rc::new(PaperCacheCore {
            rt: rt.clone(),
            log,
            data,
            rules,
            state: RefCell::new(PaperCacheState::new(segments)),
            failed: RefCell::default(),
            changed: Event::new(),
            turn: Rc::default(),
        });
        let [destager, ticker] = [Rc::clone(&shared), Rc::clone(&shared)];
        PaperCache {
            _workers: [
                rt.spawn(async move { destager.destager().await }),
                rt.spawn(async move { ticker.ticker().await }),
            ],
            shared,
        }
    }
}

impl PaperCacheCore {
    fn begin(&self) -> Result<PaperRequestGuard<'_>> {
        if let Some(error) = self.failed.borrow().clone() {
            return Err(error);
        }
        self.state.borrow_mut().begin();
        Ok(PaperRequestGuard(self))
    }

    async fn write(self: &Rc<PaperCacheCore>, at: u64, buf: Buf) -> Result<()> {
        let _under = self.begin()?;
        let _turn = self.take_turn().await;
        let fragments = at / FRAGMENT..(at + buf.len() as u64).div_ceil(FRAGMENT);
        if buf.len() as u64 >= BYPASS {
            fragments.for_each(|fragment| self.state.borrow_mut().forget(fragment));
            return self.data.write(at, buf, Durability::Flush).await;
        }
        for fragment in fragments {
            self.room().await;
            let full = self.state.borrow_mut().put(fragment, self.rt.now());
            if full {
                self.write_segment();
            }
        }
        Ok(())
    }

    /// Waits until a segment has space for one more fragment.
    async fn room(&self) {
        let open = || self.state.borrow_mut().open().then_some(());
        if open().is_some() {
            return;
        }
        self.state.borrow_mut().starving += 1;
        self.changed.notify_all();
        self.changed.until(open).await;
        self.state.borrow_mut().starving -= 1;
    }

    /// Writes the open segment when it has waited long enough and no other segment is being written.
    async fn ticker(self: Rc<PaperCacheCore>) {
        loop {
            let changed = self.changed.listen();
            let since = self.state.borrow().waiting_since();
            match since.map(|since| self.rt.now().since(since)) {
                None => changed.await,
                Some(waited) if waited >= self.rules.wait => self.write_segment(),
                Some(waited) => {
                    let _ = self.rt.timeout(self.rules.wait - waited, changed).await;
                }
            }
        }
    }

    /// Closes the open segment and starts to write its whole length, full or not.
    fn write_segment(self: &Rc<PaperCacheCore>) {
        let Some(segment) = self.state.borrow_mut().close() else {
            return;
        };
        let shared = Rc::clone(self);
        let writing = async move {
            let whole = BufMut::zeroed(SEGMENT as usize).freeze();
            let at = segment as u64 * SEGMENT;
            if let Err(error) = shared.log.write(at, whole, Durability::Flush).await {
                *shared.failed.borrow_mut() = Some(error);
            }
            shared.state.borrow_mut().written(segment);
            shared.changed.notify_all();
        };
        self.rt.spawn(writing).detach();
    }

    /// Reads all data from its current places. Data in memory costs no time.
    async fn read(&self, at: u64, buf: BufMut) -> Result<BufMut> {
        let _under = self.begin()?;
        let _turn = self.take_turn().await;
        let fragments = at / FRAGMENT..(at + buf.len() as u64).div_ceil(FRAGMENT);
        let found = self.state.borrow().lookup(fragments);
        for (segment, fragments) in found.in_log {
            let part = BufMut::zeroed((fragments * FRAGMENT) as usize);
            self.log.read(segment as u64 * SEGMENT + 1024, part).await?;
        }
        if found.home {
            self.data.read(at, buf).await
        } else {
            Ok(buf)
        }
    }

    async fn flush(self: &Rc<PaperCacheCore>) -> Result<()> {
        self.write_segment();
        let written = || (self.state.borrow().writing == 0).then_some(());
        self.changed.until(written).await;
        self.log.flush().await?;
        self.data.flush().await
    }

    async fn take_turn(&self) -> Option<LockGuard> {
        if self.rules.lock {
            Some(self.turn.lock().await)
        } else {
            None
        }
    }

    fn next(&self) -> DestagerStep {
        let state = self.state.borrow();
        if !state.is_dirty() {
            return DestagerStep::Rest;
        }
        if state.starving > 0 && state.is_full() {
            return DestagerStep::Destage { urgent: true };
        }
        let threshold = match self.rules.idle {
            IdleRule::Always(span) => span,
            // The values at both ends are the paper's. Between them, the time is interpolated on a logarithmic scale.
            IdleRule::Paper => Duration::from_secs_f64(0.001f64.powf(state.used())),
        };
        match state.idle(self.rt.now()) {
            None => DestagerStep::Rest,
            Some(idle) if idle >= threshold => DestagerStep::Destage { urgent: false },
            Some(idle) => DestagerStep::Wait(threshold - idle),
        }
    }

    async fn destager(&self) {
        loop {
            let changed = self.changed.listen();
            match self.next() {
                DestagerStep::Rest => changed.await,
                DestagerStep::Wait(span) => {
                    let _ = self.rt.timeout(span, changed).await;
                }
                DestagerStep::Destage { urgent } => {
                    drop(changed);
                    if let Err(error) = self.destage(urgent).await {
                        *self.failed.borrow_mut() = Some(error);
                        return;
                    }
                }
            }
        }
    }

    /// Destages a window. Gives way to requests of users unless `urgent` is set.
    async fn destage(&self, urgent: bool) -> Result<()> {
        let gives_way = || !urgent && self.state.borrow().is_busy();
        let window = self
            .state
            .borrow()
            .choose(self.rules.order, self.rules.window);
        let mut fragments = Vec::new();
        for segment in window {
            let memory = BufMut::zeroed(SEGMENT as usize);
            self.log.read(segment as u64 * SEGMENT, memory).await?;
            let live = self.state.borrow().live(segment);
            fragments.extend(live.into_iter().map(|fragment| (fragment, segment)));
            if gives_way() {
                return Ok(());
            }
        }
        if self.rules.sorted {
            fragments.sort_unstable();
        }
        let neighbours = |a: &(u64, usize), b: &(u64, usize)| {
            a.0 + 1 == b.0 && !b.0.is_multiple_of(RUN_FRAGMENTS)
        };
        for run in fragments.chunk_by(neighbours) {
            if gives_way() {
                return Ok(());
            }
            self.write_home(run).await?;
        }
        Ok(())
    }

    async fn write_home(&self, run: &[(u64, usize)]) -> Result<()> {
        let is_live = |(fragment, segment): &(u64, usize)| {
            self.state.borrow().place(*fragment) == Some(*segment)
        };
        if !run.iter().any(is_live) {
            return Ok(());
        }
        let bytes = run.len() as u64 * FRAGMENT;
        let content = BufMut::zeroed(bytes as usize).freeze();
        let at = run[0].0 * FRAGMENT;
        self.data.write(at, content, Durability::Flush).await?;
        for (fragment, segment) in run {
            let mut state = self.state.borrow_mut();
            if state.place(*fragment) == Some(*segment) {
                state.forget(*fragment);
            }
        }
        self.changed.notify_all();
        Ok(())
    }
}

impl Device for PaperCache {
    fn geometry(&self) -> DeviceGeometry {
        self.shared.data.geometry()
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        Box::pin(self.shared.read(at, buf))
    }

    fn write(&self, at: u64, buf: Buf, _durability: Durability) -> IoFuture<'_, ()> {
        Box::pin(self.shared.write(at, buf))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(self.shared.flush())
    }

    fn discard(&self, _range: Range<u64>) -> IoFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        self.shared.data.write_zeroes(range, room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disks::{CacheShape, virtually};

    fn cache(rt: &Rt, rules: PaperCacheRules) -> SetupDevice {
        PaperCache::open(rt, CacheSetup::of(CacheShape::Physical), rules).unwrap()
    }

    /// Writes `n` blocks of 8 KiB, one every 64 KiB.
    async fn burst(cache: &SetupDevice, n: u64) {
        for block in 0..n {
            let content = BufMut::zeroed(8192).freeze();
            let written = cache.device.write(block << 16, content, Durability::Flush);
            written.await.unwrap();
        }
    }

    #[test]
    fn writes_take_no_time_until_both_buffers_are_full() {
        virtually(|rt| async move {
            let cache = cache(&rt, PaperCacheRules::OURS);
            let began = rt.now();
            burst(&cache, 32).await;
            assert_eq!(rt.now(), began);
            burst(&cache, 1).await;
            assert!(rt.now() > began);
        });
    }

    #[test]
    fn a_partly_filled_segment_is_written_to_the_log_completely_after_the_delay() {
        virtually(|rt| async move {
            let cache = PaperCache::open(
                &rt,
                CacheSetup::of(CacheShape::Logical),
                PaperCacheRules::OURS,
            )
            .unwrap();
            let log_writes = || cache.spent.get().log_writes;
            burst(&cache, 1).await;
            rt.sleep(WAIT - Duration::from_millis(1)).await;
            burst(&cache, 2).await;
            assert_eq!(log_writes().requests, 0);
            rt.sleep(Duration::from_millis(200)).await;
            assert_eq!((log_writes().requests, log_writes().bytes), (1, SEGMENT));
        });
    }

    #[test]
    fn written_data_is_destaged_once_when_idle() {
        virtually(|rt| async move {
            let cache = cache(&rt, PaperCacheRules::OURS);
            burst(&cache, 32).await;
            burst(&cache, 32).await;
            assert_eq!(cache.spent.get().writes.requests, 0);
            cache.device.flush().await.unwrap();
            rt.sleep(Duration::from_secs(60)).await;
            // The second burst overwrote the first.
            let home = cache.spent.get().writes;
            assert_eq!((home.requests, home.bytes), (32, 32 * 8192));
        });
    }

    #[test]
    fn a_full_log_is_destaged_even_if_clients_are_busy() {
        virtually(|rt| async move {
            let never = PaperCacheRules {
                idle: IdleRule::Always(Duration::from_secs(1 << 30)),
                ..PaperCacheRules::OURS
            };
            let cache = cache(&rt, never);
            burst(&cache, 10_000).await;
            assert!(cache.spent.get().writes.requests > 0);
        });
    }
}
