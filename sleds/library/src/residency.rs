//! Determines which bytes of a file are in the page cache.
//!
//! The scan calls `cachestat` over the whole file first, then over windows, then `mincore` on the mixed windows. Each
//! call counts or looks up every present page, so a call with a foreseeable result is omitted. For example, the whole
//! file is not queried if a few samples are mixed, and windows after many mixed windows are not queried for uniformity.
//! Two alternatives are not used. Bisection with `cachestat` alone degenerates on mixed files, and reads with
//! `RWF_NOWAIT` start real read-ahead.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::panic::resume_unwind;

use rustix::fs::{Access, AtFlags, OFlags};

use crate::sys::{self, MappedRange};

/// Bytes of the window that one `cachestat` call covers.
const WINDOW_BYTES: u64 = 1 << 20;
/// Windows sampled before a query of the whole file.
const SAMPLES: u64 = 8;
/// Bytes of a mixed range that justify a thread.
const THREAD_BYTES: u64 = 256 << 20;
const THREADS_MAX: u64 = 4;
/// Maximum number of windows that are assumed to be mixed without a query.
const UNASKED_MAX: u64 = 64;
const OVERLAYFS_MAGIC: i64 = 0x794c_7630;

/// Presence of bytes in the page cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// In the page cache.
    Cached,
    /// Not in the page cache.
    Absent,
    /// Unknown: the caller neither owns the file nor may write to it, so the kernel refuses the query.
    Unknown,
}

/// A part of a file with the same presence throughout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PresenceRange {
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Presence of the bytes.
    pub presence: Presence,
}

impl PresenceRange {
    /// Returns the end of the run (exclusive).
    pub fn end(&self) -> u64 {
        self.offset + self.length
    }
}

/// Amounts of a file's data in the page cache, in bytes, in whole pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheCounts {
    /// Bytes in the page cache.
    pub cached: u64,
    /// Bytes that differ from the device, and are not yet on their way to it.
    pub dirty: u64,
    /// Bytes that the kernel writes to the device now.
    pub writeback: u64,
}

/// Counts a file's data in the page cache. Returns `None` if the kernel does not report the amounts: before Linux 6.5, on
/// overlayfs, or because the caller neither owns the file nor may write to it.
///
/// # Errors
/// If the file cannot be examined.
pub fn cache_counts(file: &File) -> io::Result<Option<CacheCounts>> {
    if means(file)? != ResidencyMethod::Cachestat {
        return Ok(None);
    }
    // A length of 0 means up to the end of the file.
    let pages = sys::cachestat(file.as_fd(), 0, 0)?;
    Ok(Some(CacheCounts {
        cached: pages.cached * sys::page_size(),
        dirty: pages.dirty * sys::page_size(),
        writeback: pages.writeback * sys::page_size(),
    }))
}

/// Reason for which the residency of a file is unknown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum HiddenResidency {
    /// The kernel reports the pages only to the owner of the file, and to users that may write to it.
    NotPermitted,
    /// The kernel or a sandbox lacks `cachestat` and `mincore`.
    NotSupported,
}

/// Returns the reason for which the kernel does not report the residency of `file`; `None` if the kernel reports it.
///
/// # Errors
/// If the file cannot be examined.
pub fn hidden_residency(file: &File) -> io::Result<Option<HiddenResidency>> {
    Ok(match means(file)? {
        ResidencyMethod::Forbidden if may_ask(file) => Some(HiddenResidency::NotSupported),
        ResidencyMethod::Forbidden => Some(HiddenResidency::NotPermitted),
        ResidencyMethod::Cachestat | ResidencyMethod::Mincore => None,
    })
}

/// System call that returns the residency of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResidencyMethod {
    Cachestat,
    /// For overlayfs, whose own inode has no pages, and for kernels before 6.5.
    Mincore,
    Forbidden,
}

/// Returns the call that works for `file`.
pub(crate) fn means(file: &File) -> io::Result<ResidencyMethod> {
    // For a caller without permission `mincore` reports "all resident". Only `cachestat` reports the missing
    // permission.
    match sys::cachestat(file.as_fd(), 0, 1) {
        Ok(_) if is_overlay(file) => Ok(ResidencyMethod::Mincore),
        Ok(_) => Ok(ResidencyMethod::Cachestat),
        Err(error) => match error.raw_os_error() {
            Some(libc::EPERM) => Ok(ResidencyMethod::Forbidden),
            Some(libc::ENOSYS | libc::EOPNOTSUPP) if may_ask(file) && has_mincore(file) => {
                Ok(ResidencyMethod::Mincore)
            }
            Some(libc::ENOSYS | libc::EOPNOTSUPP) => Ok(ResidencyMethod::Forbidden),
            _ => Err(error),
        },
    }
}

fn is_overlay(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|fs| fs.f_type == OVERLAYFS_MAGIC)
}

/// Returns false if the kernel, or a sandbox, lacks `mincore`.
fn has_mincore(file: &File) -> bool {
    let mapping = MappedRange::new(file.as_fd(), 0, sys::page_size());
    // A file that cannot be mapped reports its own error later.
    mapping.map_or(true, |mapping| mapping.residency(0, &mut [0]).is_ok())
}

/// Applies the kernel's own rule for `mincore` and `cachestat`: the caller is the owner, or may write.
fn may_ask(file: &File) -> bool {
    use std::os::fd::AsRawFd;
    let owner = rustix::fs::fstat(file).map(|stat| stat.st_uid);
    if owner.is_ok_and(|uid| uid == rustix::process::geteuid().as_raw()) {
        return true;
    }
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::accessat(rustix::fs::CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

/// Returns the cached and uncached runs of bytes `from` to `to` of a file, in order, without gaps. Adjacent runs
/// differ. Edges are at page boundaries, or at `from` and `to`.
///
/// # Errors
/// If the file has no page cache that can be queried (a pipe), or is not open for reading.
pub fn residency(file: &File, from: u64, to: u64) -> io::Result<Vec<PresenceRange>> {
    let mut runs = PresenceRanges::new(from, to);
    if from >= to {
        return Ok(runs.runs);
    }
    let mut scan = ResidencyScan::new(file, from, to);
    match means(file)? {
        ResidencyMethod::Forbidden => runs.push(to, Presence::Unknown),
        ResidencyMethod::Mincore => scan.pages(scan.start, scan.end, &mut runs)?,
        ResidencyMethod::Cachestat => match scan.whole()? {
            Some(presence) => runs.push(to, presence),
            None => mixed(file, from, to, &mut runs)?,
        },
    }
    Ok(runs.runs)
}

/// Scans a mixed range, with several threads if the range is large: `mincore` takes about 70 ns per page, and blocks no
/// other process.
fn mixed(file: &File, from: u64, to: u64, runs: &mut PresenceRanges) -> io::Result<()> {
    let part = |from, to| -> io::Result<Vec<PresenceRange>> {
        let mut runs = PresenceRanges::new(from, to);
        ResidencyScan::new(file, from, to).windows(&mut runs)?;
        Ok(runs.runs)
    };
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let begin = from / WINDOW_BYTES * WINDOW_BYTES;
    let threads = ((to - begin) / THREAD_BYTES).clamp(1, cores.min(THREADS_MAX));
    let length = (to - begin)
        .div_ceil(threads)
        .next_multiple_of(WINDOW_BYTES);
    let part = &part;
    std::thread::scope(|scope| {
        let begins = (1..threads).map(|n| begin + n * length);
        let others: Vec<_> = begins
            .map(|begin| {
                let end = (begin + length).min(to);
                let thread = std::thread::Builder::new();
                (
                    begin,
                    end,
                    thread.spawn_scoped(scope, move || part(begin, end)),
                )
            })
            .collect();
        let first = others.first().map_or(to, |(begin, ..)| *begin);
        runs.append(part(from, first)?);
        for (begin, end, thread) in others {
            let found = match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                // The system may refuse further threads.
                Err(_) => part(begin, end),
            };
            runs.append(found?);
        }
        Ok(())
    })
}

/// Returns `Cached` if all bytes of a non-empty range are cached, `Absent` if no byte is cached, and `None` for a mixed
/// range.
pub(crate) fn uniform(
    file: &File,
    means: ResidencyMethod,
    from: u64,
    to: u64,
) -> io::Result<Option<Presence>> {
    let mut scan = ResidencyScan::new(file, from, to);
    match means {
        ResidencyMethod::Forbidden => Ok(Some(Presence::Unknown)),
        ResidencyMethod::Cachestat => scan.uniform(scan.start, scan.end),
        ResidencyMethod::Mincore => {
            let mut runs = PresenceRanges::new(from, to);
            scan.pages(scan.start, scan.end, &mut runs)?;
            Ok((runs.runs.len() == 1).then(|| runs.runs[0].presence))
        }
    }
}

/// Runs found so far.
struct PresenceRanges {
    from: u64,
    to: u64,
    runs: Vec<PresenceRange>,
}

impl PresenceRanges {
    fn new(from: u64, to: u64) -> PresenceRanges {
        PresenceRanges {
            from,
            to,
            runs: Vec::new(),
        }
    }

    /// Appends runs that begin where this list ends.
    fn append(&mut self, found: Vec<PresenceRange>) {
        let mut found = found.into_iter();
        if let Some(first) = found.next() {
            self.push(first.end(), first.presence);
            self.runs.extend(found);
        }
    }

    /// Appends a run up to `end`.
    fn push(&mut self, end: u64, presence: Presence) {
        let offset = self.runs.last().map_or(self.from, PresenceRange::end);
        let end = end.min(self.to);
        if end <= offset {
            return;
        }
        match self.runs.last_mut() {
            Some(last) if last.presence == presence => last.length = end - last.offset,
            _ => self.runs.push(PresenceRange {
                offset,
                length: end - offset,
                presence,
            }),
        }
    }
}

/// The queried pages. `start` and `end` are page boundaries.
struct ResidencyScan<'f> {
    file: &'f File,
    start: u64,
    end: u64,
    mapping: Option<MappedRange>,
}

impl<'f> ResidencyScan<'f> {
    fn new(file: &'f File, from: u64, to: u64) -> ResidencyScan<'f> {
        let page = sys::page_size();
        ResidencyScan {
            file,
            start: from / page * page,
            end: to.next_multiple_of(page),
            mapping: None,
        }
    }

    fn uniform(&self, from: u64, to: u64) -> io::Result<Option<Presence>> {
        let cached = sys::cachestat(self.file.as_fd(), from, to - from)?.cached;
        Ok(match cached {
            0 => Some(Presence::Absent),
            n if n >= (to - from) / sys::page_size() => Some(Presence::Cached),
            _ => None,
        })
    }

    /// Returns the presence of the whole range; `None` if the range is mixed, or samples suggest so.
    fn whole(&self) -> io::Result<Option<Presence>> {
        let windows = (self.end - self.start) / WINDOW_BYTES;
        if windows > SAMPLES * SAMPLES {
            for n in 0..SAMPLES {
                let at = self.start + n * (windows / SAMPLES) * WINDOW_BYTES;
                if self.uniform(at, at + WINDOW_BYTES)?.is_none() {
                    return Ok(None);
                }
            }
        }
        self.uniform(self.start, self.end)
    }

    fn windows(&mut self, runs: &mut PresenceRanges) -> io::Result<()> {
        let end_of = |at: u64, windows: u64| (at / WINDOW_BYTES + windows) * WINDOW_BYTES;
        let (mut at, mut unasked) = (self.start, 0);
        while at < self.end {
            let end = end_of(at, 1).min(self.end);
            if let Some(presence) = self.uniform(at, end)? {
                runs.push(end, presence);
                at = end;
                unasked = 0;
            } else {
                // The number of unqueried windows follows the number of preceding mixed windows. The page-by-page scan
                // therefore covers at most twice the pages that it must.
                let end = end_of(at, 1 + unasked).min(self.end);
                self.pages(at, end, runs)?;
                at = end;
                unasked = (unasked * 2 + 1).min(UNASKED_MAX);
            }
        }
        Ok(())
    }

    /// Maps the queried pages without a change of the file's time of access. If that time would change, the scan uses
    /// `cachestat`, which is slower for single pages, if the kernel has it. Returns `None` if the scan must do without
    /// a mapping.
    fn map(&self) -> Option<MappedRange> {
        let fd = self.file.as_fd();
        let flags = rustix::fs::fcntl_getfl(fd).ok()?;
        let noatime = flags | OFlags::NOATIME;
        let quiet = flags == noatime || rustix::fs::fcntl_setfl(fd, noatime).is_ok();
        if !quiet && sys::cachestat(fd, 0, 1).is_ok() && !is_overlay(self.file) {
            return None;
        }
        let mapping = MappedRange::new(fd, self.start, self.end - self.start).ok();
        if quiet && flags != noatime {
            // The flag is harmless if it stays.
            let _ = rustix::fs::fcntl_setfl(fd, flags);
        }
        mapping
    }

    /// Scans page by page with `mincore`, or with `cachestat` if the file cannot be mapped.
    fn pages(&mut self, from: u64, to: u64, runs: &mut PresenceRanges) -> io::Result<()> {
        const PAGES_MAX: usize = 64 << 10;
        if self.mapping.is_none() {
            self.mapping = self.map();
        }
        let page = sys::page_size();
        let Some(mapping) = &self.mapping else {
            for at in (from..to).step_by(page as usize) {
                let presence = self.uniform(at, at + page)?.unwrap_or(Presence::Absent);
                runs.push(at + page, presence);
            }
            return Ok(());
        };
        let mut pages = vec![0; (((to - from) / page) as usize).min(PAGES_MAX)];
        let mut at = from;
        while at < to {
            let count = (((to - at) / page) as usize).min(PAGES_MAX);
            mapping.residency(at, &mut pages[..count])?;
            for same in pages[..count].chunk_by(|a, b| a & 1 == b & 1) {
                at += same.len() as u64 * page;
                let presence = match same[0] & 1 {
                    0 => Presence::Absent,
                    _ => Presence::Cached,
                };
                runs.push(at, presence);
            }
        }
        Ok(())
    }
}
