//! Directories: sparse hash tables in extents of their own.
//!
//! The hash of a name says at which sector of the directory's extent its entry is, or which of the few behind that if
//! others are there already. What is mapped of the extent is the directory: to list it is to go over that. An entry
//! stays where it is as long as its name does, so a listing that goes on later neither misses nor repeats one.

use forebay_device::BufMut;
use forebay_units::{SECTOR_BYTES, Sector};
use siphasher::sip::SipHasher24;
use std::hash::Hasher;

use crate::error::{FsError, Result};
use crate::format::{Entry, Inode};
use crate::fs::Fs;

/// An entry is at one of so many sectors.
pub(crate) const WINDOW: u64 = 8;
/// The most bytes that a listing reads at once.
const LIST_BYTES: u64 = 64 << 10;
/// Where listings are: `.`, `..`, and then entries by their sectors.
const DOTS: u64 = 2;

/// What a directory says of a name.
pub(crate) struct Found {
    /// Its entry, and where that is.
    pub(crate) entry: Option<(Sector, Entry)>,
    /// Where an entry of this name could be put.
    pub(crate) free: Option<Sector>,
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
    /// The first sector at which the entry of a name may be.
    pub(crate) fn hashed(&self, directory: &Inode, name: &[u8]) -> Sector {
        let superblock = self.superblock();
        let mut hasher = SipHasher24::new_with_key(&superblock.hash_key);
        hasher.write(name);
        let room = superblock.geometry.chunk_sectors() - WINDOW;
        Sector(directory.base + hasher.finish() % room)
    }

    /// What a directory says of a name.
    pub(crate) async fn find(&self, directory: &Inode, name: &[u8]) -> Result<Found> {
        let at = self.hashed(directory, name);
        let read = self.read_sectors(at, WINDOW).await?;
        let mut found = Found {
            entry: None,
            free: None,
        };
        for (n, sector) in (0..).zip(read.chunks(SECTOR_BYTES as usize)) {
            match self.entry(directory.file, sector)? {
                Some(entry) if entry.name == name => found.entry = Some((at.plus(n), entry)),
                Some(_) => {}
                None => found.free = found.free.or(Some(at.plus(n))),
            }
        }
        Ok(found)
    }

    fn entry(&self, directory: u64, sector: &[u8]) -> Result<Option<Entry>> {
        Entry::decode(sector).map_err(|why| FsError::Damaged {
            what: "an entry",
            file: directory,
            why,
        })
    }

    pub(crate) async fn read_sectors(&self, at: Sector, sectors: u64) -> Result<BufMut> {
        let buf = BufMut::zeroed((sectors * SECTOR_BYTES) as usize);
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
            let Some(run) = self.space().next_mapped(at..end).await? else {
                break;
            };
            let sectors = (run.end - run.start).min(LIST_BYTES / SECTOR_BYTES);
            let read = self.read_sectors(Sector(run.start), sectors).await?;
            for (sector, bytes) in (run.start..).zip(read.chunks(SECTOR_BYTES as usize)) {
                at = sector + 1;
                let next = at - inode.base + DOTS;
                if let Some(entry) = self.entry(directory, bytes)? {
                    listed.push(Listed { entry, next });
                }
                if listed.len() >= wanted {
                    break;
                }
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
