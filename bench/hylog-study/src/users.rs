//! Users without think time: each has one request under way, and makes the next as soon as it is answered.
//!
//! A page that is written is a stamp: eight bytes, repeated, other ones for each write. What is read is compared
//! with the newest, unless the page was being written meanwhile.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, ensure};
use forebay_device::{Buf, BufMut, Device, Durability};
use forebay_rng::mix;
use forebay_rt::{Rt, Task};
use serde::{Deserialize, Serialize};

use crate::workload::{PAGE_BYTES, PageAccess, Workload};

/// What is known of a page.
#[derive(Clone, Copy, Default)]
struct PageStamp {
    stamp: u64,
    /// Writes that are under way.
    writing: u16,
    /// Two writes were under way together, and either may have been the last.
    unsure: bool,
    /// Grows with each write.
    version: u32,
}

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct RequestCounts {
    /// Requests that read.
    pub reads: u64,
    /// Requests that wrote.
    pub writes: u64,
    /// Bytes that were written.
    pub written: u64,
    /// Pages that were read and compared.
    pub compared: u64,
    /// Nanoseconds that all reads took.
    pub read_nanos: u64,
    /// The same of writes.
    pub write_nanos: u64,
}

impl RequestCounts {
    /// All requests.
    pub fn requests(&self) -> u64 {
        self.reads + self.writes
    }

    /// What was done since then.
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

/// Pages of the writes that fill a device at first: as users write later. A placement that judges by how long writes
/// are would be misled by longer ones for as long as it remembers.
const FILL_PAGES: u32 = 1;

impl StudyUsers {
    /// Fills the device, page by page, and sets users to work.
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

    /// What they have done so far.
    pub(crate) fn done(&self) -> RequestCounts {
        self.shared.done.get()
    }

    /// How long the longest request took since this was asked last.
    pub(crate) fn take_longest(&self) -> Duration {
        self.shared.longest.take()
    }

    /// Why one of them stopped.
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
            // A write that is taken at once takes no time: others are to have their turn.
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

    /// New content for some pages, which are being written from now on.
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

    /// Reads pages, and compares those that nobody wrote meanwhile; says how many those were.
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
