//! A database's buffer pool: pages in memory. The least recently used page is evicted when another page needs a frame.
//!
//! The disk receives the reads of missing pages and the writes of dirty pages. A dirty page is written when it is
//! evicted. A page cleaner also writes pages that have been dirty for long. Databases use this to bound the work of
//! recovery. Without the cleaner, a page in constant use would never reach the disk.

use std::collections::VecDeque;

use super::PageAccess;

/// Marks a missing page.
const NONE: u32 = u32::MAX;

/// Settings of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolOptions {
    /// Number of frames, at least two.
    pub frames: u32,
    /// Number of changes to pages after which a dirty page is written.
    pub dirty_for: u64,
}

/// State of a page.
#[derive(Clone, Copy)]
struct PoolFrame {
    newer: u32,
    older: u32,
    held: bool,
    /// The number of changes at which the page became dirty. `None` if the page is clean.
    dirty: Option<u64>,
}

/// A buffer pool over the pages of a database.
pub struct DatabasePool {
    options: PoolOptions,
    pages: Vec<PoolFrame>,
    newest: u32,
    oldest: u32,
    held: u32,
    /// Number of changes.
    changes: u64,
    /// Pages in the order in which they became dirty, with the number of changes. Some pages have been written since.
    dirty: VecDeque<(u64, u32)>,
}

/// The use of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageUse {
    /// The page is read.
    Read,
    /// The page is read and changed.
    Update,
    /// The page gets new content, regardless of its old content.
    Fill,
}

impl DatabasePool {
    /// Creates an empty pool over `pages` pages.
    pub fn new(pages: u32, options: PoolOptions) -> DatabasePool {
        let frame = PoolFrame {
            newer: NONE,
            older: NONE,
            held: false,
            dirty: None,
        };
        DatabasePool {
            options: PoolOptions {
                frames: options.frames.max(2),
                ..options
            },
            pages: vec![frame; pages as usize],
            newest: NONE,
            oldest: NONE,
            held: 0,
            changes: 0,
            dirty: VecDeque::new(),
        }
    }

    /// Uses a page, and adds the required disk requests to `disk`.
    pub fn touch(&mut self, page: u32, how: PageUse, disk: &mut VecDeque<PageAccess>) {
        if self.pages[page as usize].held {
            self.unlink(page);
        } else {
            self.make_room(disk);
            self.held += 1;
            self.pages[page as usize].held = true;
            if how != PageUse::Fill {
                disk.push_back(PageAccess::read(page));
            }
        }
        self.link(page);
        if how != PageUse::Read {
            self.change(page, disk);
        }
    }

    fn change(&mut self, page: u32, disk: &mut VecDeque<PageAccess>) {
        self.changes += 1;
        let frame = &mut self.pages[page as usize];
        if frame.dirty.is_none() {
            frame.dirty = Some(self.changes);
            self.dirty.push_back((self.changes, page));
        }
        while let Some(&(since, first)) = self.dirty.front() {
            let old = self.changes - since >= self.options.dirty_for;
            let current = self.pages[first as usize].dirty == Some(since);
            if current && !old {
                break;
            }
            self.dirty.pop_front();
            if current {
                self.pages[first as usize].dirty = None;
                disk.push_back(PageAccess::write(first));
            }
        }
    }

    fn make_room(&mut self, disk: &mut VecDeque<PageAccess>) {
        if self.held < self.options.frames {
            return;
        }
        let page = self.oldest;
        self.unlink(page);
        self.held -= 1;
        let frame = &mut self.pages[page as usize];
        frame.held = false;
        if frame.dirty.take().is_some() {
            disk.push_back(PageAccess::write(page));
        }
    }

    fn unlink(&mut self, page: u32) {
        let PoolFrame { newer, older, .. } = self.pages[page as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.pages[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.pages[older as usize].newer = newer,
        }
    }

    fn link(&mut self, page: u32) {
        let older = self.newest;
        self.pages[page as usize].older = older;
        self.pages[page as usize].newer = NONE;
        match older {
            NONE => self.oldest = page,
            older => self.pages[older as usize].newer = page,
        }
        self.newest = page;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(frames: u32, dirty_for: u64) -> DatabasePool {
        DatabasePool::new(10, PoolOptions { frames, dirty_for })
    }

    fn touch(pool: &mut DatabasePool, page: u32, how: PageUse) -> Vec<PageAccess> {
        let mut disk = VecDeque::new();
        pool.touch(page, how, &mut disk);
        disk.into()
    }

    #[test]
    fn a_cached_page_needs_no_access_and_the_least_recently_used_page_is_evicted() {
        let mut pool = pool(2, u64::MAX);
        assert_eq!(touch(&mut pool, 1, PageUse::Read), [PageAccess::read(1)]);
        assert_eq!(touch(&mut pool, 2, PageUse::Read), [PageAccess::read(2)]);
        assert_eq!(touch(&mut pool, 1, PageUse::Read), []);
        assert_eq!(touch(&mut pool, 3, PageUse::Read), [PageAccess::read(3)]);
        assert_eq!(touch(&mut pool, 1, PageUse::Read), []);
        assert_eq!(touch(&mut pool, 2, PageUse::Read), [PageAccess::read(2)]);
    }

    #[test]
    fn a_dirty_page_is_written_before_eviction_and_a_filled_page_is_not_read() {
        let mut pool = pool(2, u64::MAX);
        assert_eq!(touch(&mut pool, 1, PageUse::Fill), []);
        assert_eq!(touch(&mut pool, 2, PageUse::Update), [PageAccess::read(2)]);
        let found = touch(&mut pool, 3, PageUse::Read);
        assert_eq!(found, [PageAccess::write(1), PageAccess::read(3)]);
    }

    #[test]
    fn a_page_in_constant_use_is_written_after_its_maximum_dirty_time() {
        let mut pool = pool(8, 3);
        let mut written = 0;
        for round in 0..30 {
            let found = touch(&mut pool, 1, PageUse::Update);
            written += found.iter().filter(|access| access.write).count();
            assert!(round > 2 || written == 0);
        }
        // The page becomes dirty at the first change, is written at the fourth, and becomes dirty again at the fifth.
        assert_eq!(written, 7);
    }

    #[test]
    fn an_evicted_page_that_returns_is_dirty_from_its_new_change_on() {
        let mut pool = pool(2, 4);
        touch(&mut pool, 1, PageUse::Update);
        touch(&mut pool, 2, PageUse::Read);
        assert_eq!(touch(&mut pool, 3, PageUse::Read)[0], PageAccess::write(1));
        touch(&mut pool, 1, PageUse::Update);
        for _ in 0..3 {
            assert_eq!(touch(&mut pool, 1, PageUse::Update), []);
        }
        assert_eq!(touch(&mut pool, 1, PageUse::Update), [PageAccess::write(1)]);
    }
}
