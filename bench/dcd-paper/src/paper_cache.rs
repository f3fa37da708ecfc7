//! The paper's own cache, as far as its speed goes, to ask what ours cannot be asked: other orders of
//! destaging, other thresholds, a lock around everything.
//!
//! Segments of 128 KiB with a header of 1 KiB, two of them in memory; fragments of 1 KiB; a table from
//! fragment to segment. A segment goes to the log when it is full, or when it has waited for long enough and the
//! one before is there; it takes its whole length, full or not (the paper's section on reliability). A segment may
//! be destaged in any order, since only memory says which copy of a fragment counts: after a crash older copies
//! would come back (docs/design/dcd.md), which is why the shipping cache does not do so. It does nothing about
//! crashes, checksums or damage, and what it reads is not put together, nor destaged first where it is
//! scattered: this is a model of when devices are asked for what, and never a cache for data.
//!
//! Invariant: a segment's `valid` is the number of fragments for which the table names it.

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

/// A segment with its header, as it is written.
const SEGMENT: u64 = SLOTS as u64 * FRAGMENT + 1024;
/// From here on a write goes past the log.
const BYPASS: u64 = 64 << 10;
/// Neighbours go home in one write as far as they lie in one stretch of so many fragments.
const RUN_FRAGMENTS: u64 = 64;

/// When an idle moment is long enough.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum IdleRule {
    /// After a second while the log is empty, after a millisecond when it is full.
    Paper,
    /// After so long, however full it is.
    Always(Duration),
}

/// What is tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PaperCacheRules {
    pub(crate) order: PaperDestageOrder,
    pub(crate) idle: IdleRule,
    /// Segments taken at a time.
    pub(crate) window: usize,
    /// Whether what was taken goes home in the order of addresses, neighbours together.
    pub(crate) sorted: bool,
    /// Whether a request has the whole cache to itself.
    pub(crate) lock: bool,
    /// How long a segment that is not full waits for more.
    pub(crate) wait: Duration,
}

/// What the paper says of how long a write may stay in memory: several hundreds of milliseconds.
const WAIT: Duration = Duration::from_millis(300);

impl PaperCacheRules {
    /// As the paper's driver did it.
    pub(crate) const PAPER: PaperCacheRules = PaperCacheRules {
        order: PaperDestageOrder::LastWritten,
        idle: IdleRule::Paper,
        window: 1,
        sorted: false,
        lock: true,
        wait: WAIT,
    };
    /// The shipping cache's way.
    pub(crate) const OURS: PaperCacheRules = PaperCacheRules {
        order: PaperDestageOrder::Ring,
        idle: IdleRule::Paper,
        window: 16,
        sorted: true,
        lock: false,
        wait: WAIT,
    };
}

/// The cache. Its workers end with it.
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
    /// Something changed that somebody may wait for.
    changed: Event,
    turn: Rc<Lock>,
}

/// A request under way.
struct PaperRequestGuard<'a>(&'a PaperCacheCore);

impl Drop for PaperRequestGuard<'_> {
    fn drop(&mut self) {
        self.0.state.borrow_mut().end(self.0.rt.now());
        self.0.changed.notify_all();
    }
}

/// What the destager does next.
enum DestagerStep {
    Rest,
    Wait(Duration),
    Destage { urgent: bool },
}

impl PaperCache {
    /// A cache with an empty log, on the disks of a setup.
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

    /// Waits until a segment takes one more fragment.
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

    /// Writes the segment that is open when it has waited for long enough, if none is being written then.
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

    /// Writes the segment that is open, all of it whatever is in it, and goes on.
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

    /// Asks for all that is read where it lies: what is in memory costs nothing.
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
            // The ends are the paper's; in between it falls evenly on a logarithmic scale.
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

    /// Brings a window home; gives way to users unless somebody waits for it.
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

    /// Writes `n` blocks of 8 KiB, every 64 KiB.
    async fn burst(cache: &SetupDevice, n: u64) {
        for block in 0..n {
            let content = BufMut::zeroed(8192).freeze();
            let written = cache.device.write(block << 16, content, Durability::Flush);
            written.await.unwrap();
        }
    }

    #[test]
    fn writes_take_no_time_until_both_buffers_are_taken() {
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
    fn a_segment_that_is_not_full_goes_to_the_log_whole_when_it_has_waited() {
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
    fn what_was_written_goes_home_once_when_nothing_is_asked_for() {
        virtually(|rt| async move {
            let cache = cache(&rt, PaperCacheRules::OURS);
            burst(&cache, 32).await;
            burst(&cache, 32).await;
            assert_eq!(cache.spent.get().writes.requests, 0);
            cache.device.flush().await.unwrap();
            rt.sleep(Duration::from_secs(60)).await;
            // The second burst was over the first.
            let home = cache.spent.get().writes;
            assert_eq!((home.requests, home.bytes), (32, 32 * 8192));
        });
    }

    #[test]
    fn a_log_that_is_full_is_emptied_however_busy_users_are() {
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
