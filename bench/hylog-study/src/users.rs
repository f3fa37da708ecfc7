//! Users without think time: each user has one request in flight, and issues the next after its completion.
//!
//! The content of a written page is a stamp: eight bytes, repeated, and different for each write. Read pages are
//! compared with their newest stamp, unless a write of the page was concurrent.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, ensure};
use forebay_device::{Buf, BufMut, Device, Durability};
use forebay_rng::mix;
use forebay_rt::{Rt, Task};
use serde::{Deserialize, Serialize};

use crate::workload::{PAGE_BYTES, PageAccess, Workload};

/// State of a page.
#[derive(Clone, Copy, Default)]
struct PageStamp {
    stamp: u64,
    /// Number of writes in flight.
    writing: u16,
    /// True if two writes were concurrent, so that either may have been the last.
    unsure: bool,
    /// Version, which grows with each write.
    version: u32,
}

/// Counters of requests.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct RequestCounts {
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Written bytes.
    pub written: u64,
    /// Read and compared pages.
    pub compared: u64,
    /// Total duration of all reads, in nanoseconds.
    pub read_nanos: u64,
    /// Total duration of all writes, in nanoseconds.
    pub write_nanos: u64,
}

impl RequestCounts {
    /// Returns the number of all requests.
    pub fn requests(&self) -> u64 {
        self.reads + self.writes
    }

    /// Returns the counters since `before`.
    #[must_use]
    pub fn since(&self, before: &RequestCounts) -> RequestCounts {
        RequestCounts {
            reads: self.reads - before.reads,
            writes: self.writes - before.writes,
            written: self.written - before.written,
            compared: self.compared - before.compared,
            read_nanos: self.read_nanos - before.read_nanos,
            write_nanos: self.write_nanos - before.write_nanos,
        }
    }
}

struct StudyLoad {
    rt: Rt,
    device: Rc<dyn Device>,
    workload: RefCell<Box<dyn Workload>>,
    pages: RefCell<Vec<PageStamp>>,
    stamps: Cell<u64>,
    seed: u64,
    done: Cell<RequestCounts>,
    longest: Cell<Duration>,
    failed: RefCell<Option<anyhow::Error>>,
}

/// Users at work.
pub(crate) struct StudyUsers {
    shared: Rc<StudyLoad>,
    _tasks: Vec<Task<()>>,
}

/// Pages in each of the first writes, which fill the device. The length equals the later writes of users. Longer writes
/// would mislead placements that remember the length of writes.
const FILL_PAGES: u32 = 1;

impl StudyUsers {
    /// Fills the device page by page, and starts the users.
    ///
    /// # Errors
    /// If the device fails or is full.
    pub(crate) async fn begin(
        rt: &Rt,
        device: Rc<dyn Device>,
        workload: Box<dyn Workload>,
        users: usize,
        seed: u64,
    ) -> Result<StudyUsers> {
        let pages = workload.pages();
        let shared = Rc::new(StudyLoad {
            rt: rt.clone(),
            device,
            workload: RefCell::new(workload),
            pages: RefCell::new(vec![PageStamp::default(); pages as usize]),
            stamps: Cell::new(0),
            seed,
            done: Cell::default(),
            longest: Cell::default(),
            failed: RefCell::default(),
        });
        let mut page = 0;
        while page < pages {
            let count = FILL_PAGES.min(pages - page);
            shared.write(page, count).await?;
            page += count;
        }
        shared.device.flush().await?;
        let user = |number| {
            let shared = Rc::clone(&shared);
            rt.spawn(async move { shared.work(number).await })
        };
        Ok(StudyUsers {
            _tasks: (0..users).map(user).collect(),
            shared,
        })
    }

    /// Returns the current counters.
    pub(crate) fn done(&self) -> RequestCounts {
        self.shared.done.get()
    }

    /// Returns the duration of the longest request since the last call.
    pub(crate) fn take_longest(&self) -> Duration {
        self.shared.longest.take()
    }

    /// Returns the error that stopped a user, if any.
    pub(crate) fn failed(&self) -> Option<anyhow::Error> {
        self.shared.failed.borrow_mut().take()
    }
}

impl StudyLoad {
    async fn work(&self, number: usize) {
        loop {
            let access = self.workload.borrow_mut().next(number);
            if let Err(error) = self.request(access).await {
                self.failed.borrow_mut().get_or_insert(error);
                return;
            }
            // A write that completes at once takes no virtual time, so other users need a chance to run.
            self.rt.yield_now().await;
        }
    }

    async fn request(&self, access: PageAccess) -> Result<()> {
        let began = self.rt.now();
        let compared = if access.write {
            self.write(access.page, access.pages).await.map(|()| 0)?
        } else {
            self.read(access.page, access.pages).await?
        };
        let took = self.rt.now().since(began);
        self.longest.set(self.longest.get().max(took));
        let nanos = took.as_nanos() as u64;
        let mut done = self.done.get();
        if access.write {
            done.writes += 1;
            done.written += u64::from(access.pages) * PAGE_BYTES;
            done.write_nanos += nanos;
        } else {
            done.reads += 1;
            done.read_nanos += nanos;
        }
        done.compared += compared;
        self.done.set(done);
        Ok(())
    }

    async fn write(&self, first: u32, count: u32) -> Result<()> {
        let buf = self.stamped(first, count);
        let at = u64::from(first) * PAGE_BYTES;
        self.device.write(at, buf, Durability::Flush).await?;
        let mut pages = self.pages.borrow_mut();
        for page in &mut pages[first as usize..(first + count) as usize] {
            page.writing -= 1;
        }
        Ok(())
    }

    /// Returns new content for pages, and marks these pages as being written.
    fn stamped(&self, first: u32, count: u32) -> Buf {
        let mut buf = BufMut::zeroed(count as usize * PAGE_BYTES as usize);
        let mut pages = self.pages.borrow_mut();
        let pages = &mut pages[first as usize..(first + count) as usize];
        for (page, content) in pages.iter_mut().zip(buf.chunks_mut(PAGE_BYTES as usize)) {
            self.stamps.set(self.stamps.get() + 1);
            page.stamp = mix(self.seed, self.stamps.get());
            page.unsure = page.writing > 0;
            page.writing += 1;
            page.version = page.version.wrapping_add(1);
            for word in content.chunks_exact_mut(8) {
                word.copy_from_slice(&page.stamp.to_ne_bytes());
            }
        }
        buf.freeze()
    }

    /// Reads pages, and compares the pages without concurrent writes. Returns the number of compared pages.
    async fn read(&self, first: u32, count: u32) -> Result<u64> {
        let range = first as usize..(first + count) as usize;
        let before: Vec<PageStamp> = self.pages.borrow()[range.clone()].to_vec();
        let buf = BufMut::zeroed(count as usize * PAGE_BYTES as usize);
        let at = u64::from(first) * PAGE_BYTES;
        let buf = self.device.read(at, buf).await?;
        let mut compared = 0;
        let pages = self.pages.borrow();
        let contents = buf.chunks(PAGE_BYTES as usize);
        for ((page, before), content) in pages[range].iter().zip(&before).zip(contents) {
            let still = before.writing == 0 && page.version == before.version && !page.unsure;
            if still {
                let stamp = page.stamp.to_ne_bytes();
                let same = content.chunks_exact(8).all(|word| word == stamp);
                ensure!(same, "a page at or behind {first} is not what was written");
                compared += 1;
            }
        }
        Ok(compared)
    }
}
