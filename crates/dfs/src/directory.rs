//! Directories: sparse hash tables in extents of their own.
//!
//! The hash of a name selects a sector of the directory's extent. The entry lies in this sector or, if it is occupied,
//! in one of the few sectors behind it. If all of these are occupied, another hash selects the next window of sectors.
//! The directory's i-node contains the number of windows in use, which is one for most directories. The mapped sectors
//! of the extent are the directory, so a listing walks the mapped sectors. An entry stays in its sector as long as its
//! name exists, so a listing that is continued neither misses nor repeats an entry.

use std::hash::Hasher;
use std::ops::Range;

use forebay_device::BufMut;
use forebay_units::{SECTOR_BYTES, Sector};
use futures_util::future::try_join_all;
use siphasher::sip::SipHasher24;

use crate::error::{FsError, Result};
use crate::format::{DirectoryEntry, Inode};
use crate::fs::Fs;

/// Sectors of a window: an entry lies in one of these, in one of the windows of its name.
const WINDOW: u64 = 8;
/// The most windows beside the first. With 16 windows in all, names fit until about nine tenths of the table are
/// occupied.
const FURTHER_MAX: u8 = 15;
/// The most sectors of an extent that a listing reads at once.
const LIST_SECTORS: u64 = 128;
/// Listing positions of `.` and `..`, which precede the sectors of entries.
const DOTS: u64 = 2;

/// The result of looking up a name in a directory.
pub(crate) struct DirectoryLookup {
    /// The entry and its sector, if the name exists.
    pub(crate) entry: Option<(Sector, DirectoryEntry)>,
    /// A free sector for an entry of this name.
    pub(crate) free: Option<Sector>,
    /// The windows in use beside the first, if an entry is put at `free`.
    pub(crate) further: u8,
}

/// A name in a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedEntry {
    /// The name and the file it refers to.
    pub entry: DirectoryEntry,
    /// The position at which the listing continues.
    pub next: u64,
}

impl Fs {
    /// Returns the first sector of a window for a name. Window 0 is the first.
    pub(crate) fn hashed(&self, directory: &Inode, name: &[u8], window: u8) -> Sector {
        let superblock = self.superblock();
        let mut hasher = SipHasher24::new_with_key(&superblock.hash_key);
        hasher.write(name);
        if window > 0 {
            // A name contains no zero byte, so the suffix cannot collide with another name.
            hasher.write(&[0, window]);
        }
        let room = superblock.geometry.chunk_sectors() - WINDOW;
        Sector(directory.base + hasher.finish() % room)
    }

    /// Returns true if the entry of a name may lie at a sector.
    pub(crate) fn is_findable(&self, directory: &Inode, name: &[u8], at: u64) -> bool {
        (0..=directory.further).any(|window| {
            let first = self.hashed(directory, name, window).0;
            (first..first + WINDOW).contains(&at)
        })
    }

    /// Looks up a name in a directory.
    pub(crate) async fn find(&self, directory: &Inode, name: &[u8]) -> Result<DirectoryLookup> {
        let mut found = DirectoryLookup {
            entry: None,
            free: None,
            further: directory.further,
        };
        for window in 0..=FURTHER_MAX {
            let is_beyond = window > directory.further;
            if found.entry.is_some() || is_beyond && found.free.is_some() {
                break;
            }
            found.further = window.max(directory.further);
            self.find_within(directory, name, window, &mut found)
                .await?;
        }
        Ok(found)
    }

    /// Looks up a name in one window.
    async fn find_within(
        &self,
        directory: &Inode,
        name: &[u8],
        window: u8,
        found: &mut DirectoryLookup,
    ) -> Result<()> {
        let first = self.hashed(directory, name, window).0;
        let (mut at, end) = (first, first + WINDOW);
        while at < end {
            let run = self.space().next_mapped(at..end).await?;
            let run = run.unwrap_or(end..end);
            if run.start > at {
                found.free = found.free.or(Some(Sector(at)));
            }
            for (sector, entry) in self.entries(directory.file, run.clone()).await? {
                match entry {
                    Some(entry) if entry.name == name => {
                        found.entry = Some((Sector(sector), entry));
                    }
                    Some(_) => {}
                    // The entry was removed after the lookup of mapped sectors.
                    None => found.free = found.free.or(Some(Sector(sector))),
                }
            }
            at = run.end;
        }
        Ok(())
    }

    /// Reads the entries in mapped sectors.
    async fn entries(
        &self,
        directory: u64,
        sectors: Range<u64>,
    ) -> Result<Vec<(u64, Option<DirectoryEntry>)>> {
        let recent = &self.0.recent;
        let known: Option<Vec<_>> = sectors
            .clone()
            .map(|sector| Some((sector, Some(recent.get(sector)?))))
            .collect();
        if let Some(known) = known {
            return Ok(known);
        }
        let since = recent.since();
        let count = sectors.end - sectors.start;
        let read = self.read_sectors(Sector(sectors.start), count).await?;
        let mut entries = Vec::with_capacity(count as usize);
        for (sector, bytes) in sectors.zip(read.chunks(SECTOR_BYTES as usize)) {
            let entry = self.entry(directory, bytes)?;
            if let Some(entry) = &entry {
                recent.keep(since, sector, entry);
            }
            entries.push((sector, entry));
        }
        Ok(entries)
    }

    fn entry(&self, directory: u64, sector: &[u8]) -> Result<Option<DirectoryEntry>> {
        DirectoryEntry::decode(sector).map_err(|why| FsError::Damaged {
            what: "an entry",
            file: directory,
            why,
        })
    }

    pub(crate) async fn read_sectors(&self, at: Sector, sectors: u64) -> Result<BufMut> {
        let buf = BufMut::to_fill((sectors * SECTOR_BYTES) as usize);
        Ok(self.space().read(at, buf).await?)
    }

    /// Lists names of a directory from a position, which is 0 at first. Returns at most about `wanted` names, and an
    /// empty list at the end. The first two are `.` and `..`.
    ///
    /// A name that exists during the whole listing is listed once. A name that is created or removed meanwhile may be
    /// listed or not.
    ///
    /// # Errors
    ///
    /// If the file is not a directory or cannot be read.
    pub async fn list(&self, directory: u64, from: u64, wanted: usize) -> Result<Vec<ListedEntry>> {
        let inode = self.directory(directory).await?.inode().clone();
        let mut listed = Vec::new();
        let dots: [(&[u8], u64); 2] = [(b".", inode.file), (b"..", inode.parent)];
        for (n, (name, file)) in (0..).zip(dots) {
            if from <= n && listed.len() < wanted {
                let entry = DirectoryEntry {
                    file,
                    generation: 0,
                    kind: inode.kind,
                    name: name.into(),
                };
                listed.push(ListedEntry { entry, next: n + 1 });
            }
        }
        let end = inode.base + self.superblock().geometry.chunk_sectors();
        let mut at = inode.base.saturating_add(from.saturating_sub(DOTS));
        while listed.len() < wanted && at < end {
            // Hashed entries lie in short extents, so many extents are read concurrently.
            let (mut runs, mut left) = (Vec::new(), wanted - listed.len());
            while left > 0 && at < end {
                let Some(run) = self.space().next_mapped(at..end).await? else {
                    at = end;
                    break;
                };
                let sectors = (run.end - run.start).min(LIST_SECTORS).min(left as u64);
                runs.push(run.start..run.start + sectors);
                (at, left) = (run.start + sectors, left - sectors as usize);
            }
            let reads = runs.into_iter().map(|run| self.entries(directory, run));
            for (sector, entry) in try_join_all(reads).await?.into_iter().flatten() {
                let next = sector + 1 - inode.base + DOTS;
                listed.extend(entry.map(|entry| ListedEntry { entry, next }));
            }
        }
        Ok(listed)
    }

    /// Returns true if a directory has no entries.
    pub(crate) async fn is_empty(&self, directory: &Inode) -> Result<bool> {
        let end = directory.base + self.superblock().geometry.chunk_sectors();
        let first = self.space().next_mapped(directory.base..end).await?;
        Ok(first.is_none())
    }
}
