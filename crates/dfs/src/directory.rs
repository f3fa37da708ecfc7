//! Directories: sparse hash tables in extents of their own.
//!
//! The hash of a name says at which sector of the directory's extent its entry is, or which of the few behind that if
//! others are there already. Where all of these are taken, another hash says where the next window of sectors is; the directory's i-node
//! has how many windows are in use, so most directories have one. What is mapped of the extent is the directory: to list it is to go over that. An entry
//! stays where it is as long as its name does, so a listing that goes on later neither misses nor repeats one.

use std::hash::Hasher;
use std::ops::Range;

use forebay_device::BufMut;
use forebay_units::{SECTOR_BYTES, Sector};
use futures_util::future::try_join_all;
use siphasher::sip::SipHasher24;

use crate::error::{FsError, Result};
use crate::format::{Entry, Inode};
use crate::fs::Fs;

/// An entry is at one of so many sectors, in one of the windows for its name.
const WINDOW: u64 = 8;
/// So many windows there may be beside the first. With 16 in all a table is full only where nine tenths of it are.
const FURTHER_MAX: u8 = 15;
/// The most sectors of a run that a listing reads at once.
const LIST_SECTORS: u64 = 128;
/// Where listings are: `.`, `..`, and then entries by their sectors.
const DOTS: u64 = 2;

/// What a directory says of a name.
pub(crate) struct Found {
    /// Its entry, and where that is.
    pub(crate) entry: Option<(Sector, Entry)>,
    /// Where an entry of this name could be put.
    pub(crate) free: Option<Sector>,
    /// How many windows the directory has in use then, beside the first.
    pub(crate) further: u8,
}

/// A name in a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// The name and what it names.
    pub entry: Entry,
    /// Where the listing goes on behind it.
    pub next: u64,
}

impl Fs {
    /// The first sector of a window in which the entry of a name may be: window 0 is the first.
    pub(crate) fn hashed(&self, directory: &Inode, name: &[u8], window: u8) -> Sector {
        let superblock = self.superblock();
        let mut hasher = SipHasher24::new_with_key(&superblock.hash_key);
        hasher.write(name);
        if window > 0 {
            // No name has a zero in it.
            hasher.write(&[0, window]);
        }
        let room = superblock.geometry.chunk_sectors() - WINDOW;
        Sector(directory.base + hasher.finish() % room)
    }

    /// Returns true if the entry of a name can be at a sector.
    pub(crate) fn is_findable(&self, directory: &Inode, name: &[u8], at: u64) -> bool {
        (0..=directory.further).any(|window| {
            let first = self.hashed(directory, name, window).0;
            (first..first + WINDOW).contains(&at)
        })
    }

    /// What a directory says of a name.
    pub(crate) async fn find(&self, directory: &Inode, name: &[u8]) -> Result<Found> {
        let mut found = Found {
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

    /// What one window says of a name.
    async fn find_within(
        &self,
        directory: &Inode,
        name: &[u8],
        window: u8,
        found: &mut Found,
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
                    // It has gone since it was looked what is mapped.
                    None => found.free = found.free.or(Some(Sector(sector))),
                }
            }
            at = run.end;
        }
        Ok(())
    }

    /// The entries in sectors that are mapped.
    async fn entries(
        &self,
        directory: u64,
        sectors: Range<u64>,
    ) -> Result<Vec<(u64, Option<Entry>)>> {
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

    fn entry(&self, directory: u64, sector: &[u8]) -> Result<Option<Entry>> {
        Entry::decode(sector).map_err(|why| FsError::Damaged {
            what: "an entry",
            file: directory,
            why,
        })
    }

    pub(crate) async fn read_sectors(&self, at: Sector, sectors: u64) -> Result<BufMut> {
        let buf = BufMut::to_fill((sectors * SECTOR_BYTES) as usize);
        Ok(self.space().read(at, buf).await?)
    }

    /// Names of a directory from where a listing is on, 0 at first; about as many as are wanted at most, and none at the
    /// end. The first two are `.` and `..`.
    ///
    /// What was there when it began and still is is listed once; what comes or goes meanwhile may be listed or not.
    ///
    /// # Errors
    /// If it is no directory, or cannot be read.
    pub async fn list(&self, directory: u64, from: u64, wanted: usize) -> Result<Vec<Listed>> {
        let inode = self.directory(directory).await?.inode().clone();
        let mut listed = Vec::new();
        let dots: [(&[u8], u64); 2] = [(b".", inode.file), (b"..", inode.parent)];
        for (n, (name, file)) in (0..).zip(dots) {
            if from <= n && listed.len() < wanted {
                let entry = Entry {
                    file,
                    generation: 0,
                    kind: inode.kind,
                    name: name.into(),
                };
                listed.push(Listed { entry, next: n + 1 });
            }
        }
        let end = inode.base + self.superblock().geometry.chunk_sectors();
        let mut at = inode.base.saturating_add(from.saturating_sub(DOTS));
        while listed.len() < wanted && at < end {
            // Runs are short, where hashes put them: they are read all at once.
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
                listed.extend(entry.map(|entry| Listed { entry, next }));
            }
        }
        Ok(listed)
    }

    /// Whether nothing is in a directory.
    pub(crate) async fn is_empty(&self, directory: &Inode) -> Result<bool> {
        let end = directory.base + self.superblock().geometry.chunk_sectors();
        let first = self.space().next_mapped(directory.base..end).await?;
        Ok(first.is_none())
    }
}
