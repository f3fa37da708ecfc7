//! A filesystem in use: creating, opening, and the common parts of all operations.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use forebay_device::BufMut;
use forebay_rt::{Lock, LockGuard};
use forebay_units::{SECTOR_BYTES, Sector};
use forebay_vsl::{Batch, Space};

use crate::accesses::AccessTimes;
use crate::census::Census;
use crate::error::{FsError, FsOpenError, LATER, Result};
use crate::files::{CachedFile, FileTable};
use crate::format::{FileKind, INLINE_MAX, Inode, LINKS_MAX, SYMLINK_MAX};
use crate::format::{FileTime, FsSuperblock, VolumeId};
use crate::geometry::{FsGeometry, ROOT};
use crate::preallocated::PreallocationTable;
use crate::recent::RecentEntries;

/// Position of the number of mounts in a generation: files made after a mount have generations that begin with its
/// number.
const GENERATION_BITS: u32 = 40;
const SUPERBLOCK_SECTORS: u64 = 8;
/// Leaves of the space's map in which files are counted at a time.
const LEAVES_COUNTED: usize = 16;

/// Returns the present time.
pub type FsClock = Rc<dyn Fn() -> FileTime>;

/// Parameters of a new filesystem.
#[derive(Clone, Debug)]
pub struct FsSpec {
    /// The volume's identity.
    pub volume: VolumeId,
    /// The division of the space.
    pub geometry: FsGeometry,
    /// A key for the hash of names. It must be unpredictable.
    pub hash_key: [u8; 16],
    /// The user and the group that own the root directory.
    pub owner: (u32, u32),
    /// The permissions of the root directory.
    pub permissions: u16,
}

/// A filesystem in use. Clones refer to the same filesystem.
///
/// Files are identified by i-numbers. A caller that got a number by [`Fs::look_up`], or by making the file, uses the
/// file until [`Fs::forget`], and must call other operations on it only before then. The future of an operation must
/// not be dropped before it completes.
#[derive(Clone)]
pub struct Fs(pub(crate) Rc<FsInner>);

pub(crate) struct FsInner {
    space: Space,
    superblock: FsSuperblock,
    clock: FsClock,
    pub(crate) files: RefCell<FileTable>,
    pub(crate) recent: RecentEntries,
    pub(crate) preallocations: PreallocationTable,
    pub(crate) census: Census,
    /// Held while a directory moves to another parent.
    pub(crate) moving: Rc<Lock>,
    /// The i-number at which the search for a free number begins.
    cursor: Cell<u64>,
    /// Numbers of files that are being made.
    taken: RefCell<BTreeSet<u64>>,
    generation: Cell<u64>,
    /// Rules for recording accesses: of files other than directories, then of directories.
    pub(crate) access_times: Cell<(AccessTimes, AccessTimes)>,
    /// True while reads must not change anything.
    pub(crate) ignores_reads: Cell<bool>,
}

/// Capacity of a filesystem.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FsCapacity {
    /// Usable bytes.
    pub bytes: u64,
    /// Bytes that are neither in use nor preallocated.
    pub free: u64,
    /// The most files.
    pub files: u64,
    /// Files that exist, as far as they were counted ([`Fs::count_files`]).
    pub used_files: u64,
}

/// Creates a filesystem in an empty space.
///
/// # Errors
///
/// If the filesystem does not fit, the space is not empty, or the space fails.
pub async fn create(
    space: &Space,
    making: &FsSpec,
    clock: &FsClock,
) -> std::result::Result<(), FsOpenError> {
    let geometry = making.geometry;
    if !geometry.is_possible() {
        return Err(FsOpenError::Geometry {
            chunk_bits: geometry.chunk_bits,
            slot_sectors: geometry.slot_sectors,
        });
    }
    fits(space, geometry)?;
    if space.next_mapped(0..space.sectors()).await?.is_some() {
        return Err(FsOpenError::NotEmpty);
    }
    let superblock = FsSuperblock {
        volume: making.volume,
        mounts: 0,
        hash_key: making.hash_key,
        geometry,
    };
    let now = clock();
    let root = Inode {
        links: 2,
        user: making.owner.0,
        group: making.owner.1,
        base: geometry.chunk(ROOT).0,
        parent: ROOT,
        ..Inode::new(ROOT, FileKind::Directory, making.permissions, now)
    };
    let mut batch = Batch::new();
    batch.write(Sector(0), BufMut::copy_of(&superblock.encode()).freeze());
    batch.write(
        geometry.inode(ROOT),
        BufMut::copy_of(&root.encode()).freeze(),
    );
    space.apply(&batch, LATER).await?;
    Ok(space.flush().await?)
}

fn fits(space: &Space, geometry: FsGeometry) -> std::result::Result<(), FsOpenError> {
    let (needed, found) = (geometry.space_sectors(), space.sectors());
    if found < needed {
        return Err(FsOpenError::Small { needed, found });
    }
    Ok(())
}

/// Opens a filesystem.
///
/// # Errors
///
/// If the filesystem is missing or damaged, or the space fails.
pub async fn open(space: Space, clock: FsClock) -> std::result::Result<Fs, FsOpenError> {
    let mut superblock = read_superblock(&space).await?;
    superblock.mounts += 1;
    let bytes = BufMut::copy_of(&superblock.encode()).freeze();
    space
        .apply(&Batch::of_write(Sector(0), bytes), LATER)
        .await?;
    let fs = open_tables(space, superblock, clock).await?;
    fs.load_preallocations().await.map_err(FsOpenError::Root)?;
    fs.reclaim_orphans().await.map_err(FsOpenError::Root)?;
    Ok(fs)
}

/// Opens a filesystem for reading in the state in which it was left, including files that a crash left without a name.
/// Nothing may be changed in it.
///
/// # Errors
///
/// If the filesystem is missing or damaged, or the space fails.
pub async fn look(space: Space, clock: FsClock) -> std::result::Result<Fs, FsOpenError> {
    let superblock = read_superblock(&space).await?;
    open_tables(space, superblock, clock).await
}

/// Reads the superblock of the filesystem in a space.
///
/// # Errors
///
/// If the superblock is missing or damaged or does not fit the space, or the space fails.
pub async fn read_superblock(space: &Space) -> std::result::Result<FsSuperblock, FsOpenError> {
    let buf = BufMut::to_fill((SUPERBLOCK_SECTORS * SECTOR_BYTES) as usize);
    let read = space.read(Sector(0), buf).await?;
    let superblock = FsSuperblock::decode(&read)?;
    fits(space, superblock.geometry)?;
    Ok(superblock)
}

async fn open_tables(
    space: Space,
    superblock: FsSuperblock,
    clock: FsClock,
) -> std::result::Result<Fs, FsOpenError> {
    let mounts = superblock.mounts;
    // The search begins far from its beginning at the last mount, so that it does not pass over the numbers taken then.
    let begin = mounts.wrapping_mul(0x9e37_79b9_7f4a_7c15) % superblock.geometry.files();
    let fs = Fs(Rc::new(FsInner {
        space,
        superblock,
        clock,
        files: RefCell::default(),
        recent: RecentEntries::default(),
        preallocations: PreallocationTable::default(),
        census: Census::default(),
        moving: Rc::default(),
        cursor: Cell::new(begin),
        taken: RefCell::default(),
        generation: Cell::new(mounts << GENERATION_BITS),
        access_times: Cell::default(),
        ignores_reads: Cell::default(),
    }));
    let root = fs.directory(ROOT).await.map_err(FsOpenError::Root)?;
    root.users.set(1);
    Ok(fs)
}

impl Fs {
    /// Returns the space below.
    pub fn space(&self) -> &Space {
        &self.0.space
    }

    /// Returns the superblock.
    pub fn superblock(&self) -> &FsSuperblock {
        &self.0.superblock
    }

    pub(crate) fn geometry(&self) -> FsGeometry {
        self.0.superblock.geometry
    }

    /// Returns the present time of the filesystem's clock.
    pub fn time(&self) -> FileTime {
        (self.0.clock)()
    }

    /// Returns capacity and free space.
    pub fn room(&self) -> FsCapacity {
        let capacity = self.space().capacity();
        FsCapacity {
            bytes: capacity.mappable_in_blocks,
            free: capacity
                .mappable_in_blocks
                .saturating_sub(capacity.mapped + capacity.preallocated),
            files: self.geometry().files(),
            used_files: self.0.census.counted(),
        }
    }

    /// Counts some more files. Returns true if all files are counted.
    ///
    /// # Errors
    ///
    /// If the space's map cannot be read.
    pub async fn count_files(&self) -> Result<bool> {
        let (census, geometry) = (&self.0.census, self.geometry());
        let (first, end) = (geometry.inode(0).0, geometry.inode(geometry.files()).0);
        for _ in 0..LEAVES_COUNTED {
            let (begun, at) = (census.begin(), first + census.upto());
            if at >= end {
                return Ok(true);
            }
            let (found, upto) = self.space().mapped_in_leaf(at..end).await?;
            census.found(begun, upto - first, found);
        }
        Ok(false)
    }

    /// Returns the file with an i-number.
    ///
    /// # Errors
    ///
    /// If the file is missing, or its i-node cannot be read.
    pub(crate) async fn file(&self, number: u64) -> Result<Rc<CachedFile>> {
        loop {
            let (known, forgotten) = {
                let files = self.0.files.borrow();
                (files.get(number), files.forgotten())
            };
            if let Some(known) = known {
                return Ok(known);
            }
            let stored = self.stored(number).await?;
            let mut files = self.0.files.borrow_mut();
            if let Some(known) = files.get(number) {
                return Ok(known);
            }
            // If files were dropped from memory meanwhile, this file may have been known, changed and dropped: the
            // i-node that was read may be outdated.
            if files.forgotten() == forgotten {
                return Ok(files.insert(stored.ok_or(FsError::NotFound)?));
            }
        }
    }

    /// Reads an i-node from the space.
    pub(crate) async fn stored(&self, number: u64) -> Result<Option<Inode>> {
        if number == 0 || number >= self.geometry().files() {
            return Ok(None);
        }
        let read = self.read_sectors(self.geometry().inode(number), 1).await?;
        self.inode_in(number, &read)
    }

    /// Decodes the i-node of a file from its sector.
    pub(crate) fn inode_in(&self, number: u64, sector: &[u8]) -> Result<Option<Inode>> {
        let damaged = |why| FsError::Damaged {
            what: "the i-node",
            file: number,
            why,
        };
        let Some(inode) = Inode::decode(sector).map_err(damaged)? else {
            return Ok(None);
        };
        let contradiction = |why| Err(FsError::Contradiction { file: number, why });
        if inode.file != number {
            return contradiction("its i-node belongs to another file");
        }
        let geometry = self.geometry();
        let (slot, chunk) = (geometry.slot(number).0, geometry.chunk(number).0);
        let most = match (inode.kind, inode.base) {
            (FileKind::Directory, base) if base == chunk => geometry.chunk_sectors(),
            (FileKind::Regular, base) if base == chunk => geometry.size_max(),
            (FileKind::Regular, base) if base == slot => geometry.slot_bytes(),
            (FileKind::Symlink, base) if base == slot => SYMLINK_MAX as u64,
            (FileKind::Regular | FileKind::Symlink, 0) => INLINE_MAX as u64,
            (FileKind::Directory, 0) => {
                return contradiction("it is a directory without space for entries");
            }
            (_, 0) => 0,
            _ => return contradiction("its i-node records an impossible place of its data"),
        };
        if inode.links > LINKS_MAX {
            return contradiction("it has more names than the limit");
        }
        if inode.size > most {
            return contradiction("it is larger than the place of its data");
        }
        if u64::from(inode.attributes) > crate::geometry::ATTRIBUTE_BYTES as u64 {
            return contradiction("its extended attributes exceed the limit");
        }
        Ok(Some(inode))
    }

    /// Returns the directory with an i-number.
    ///
    /// # Errors
    ///
    /// `NotFound`, or `NotDirectory`.
    pub(crate) async fn directory(&self, number: u64) -> Result<Rc<CachedFile>> {
        let file = self.file(number).await?;
        let kind = file.inode().kind;
        match kind {
            FileKind::Directory => Ok(file),
            _ => Err(FsError::NotDirectory),
        }
    }

    /// Locks files in the order of their numbers, each once.
    pub(crate) async fn lock_all<'a>(
        &self,
        files: impl IntoIterator<Item = &'a Rc<CachedFile>>,
    ) -> Vec<LockGuard> {
        let mut files: Vec<&Rc<CachedFile>> = files.into_iter().collect();
        files.sort_by_key(|file| file.number());
        files.dedup_by_key(|file| file.number());
        let mut guards = Vec::with_capacity(files.len());
        for file in files {
            guards.push(file.lock.lock().await);
        }
        guards
    }

    /// Reserves a free number, and a generation, for a new file. The number is reserved until the [`InodeReservation`] is
    /// dropped.
    pub(crate) async fn number(&self) -> Result<InodeReservation> {
        let inner = &self.0;
        let files = self.geometry().files();
        let first = self.geometry().inode(0).0;
        let mut at = inner.cursor.get().max(ROOT + 1);
        let (mut left, mut wrapped) = (files, false);
        loop {
            if at >= files {
                if wrapped {
                    return Err(FsError::Files(files));
                }
                (at, wrapped) = (ROOT + 1, true);
            }
            let run = self.space().next_mapped(first + at..first + files).await?;
            let used = run.map_or(files..files, |run| run.start - first..run.end - first);
            // A known file without an i-node in the space is being removed. Its number must not be reused yet, or the
            // new file would be confused with it.
            let is_free = |n: &u64| {
                !inner.taken.borrow().contains(n) && inner.files.borrow().get(*n).is_none()
            };
            let free = (at..used.start).find(is_free);
            if let Some(number) = free {
                inner.taken.borrow_mut().insert(number);
                inner.cursor.set(number + 1);
                let generation = inner.generation.get() + 1;
                inner.generation.set(generation);
                return Ok(InodeReservation {
                    fs: self.clone(),
                    number,
                    generation,
                });
            }
            left = left.saturating_sub(used.end - at);
            if left == 0 {
                return Err(FsError::Files(files));
            }
            at = used.end;
        }
    }
}

/// The reserved number of a file that is being made.
pub(crate) struct InodeReservation {
    fs: Fs,
    pub(crate) number: u64,
    pub(crate) generation: u64,
}

impl Drop for InodeReservation {
    fn drop(&mut self) {
        self.fs.0.taken.borrow_mut().remove(&self.number);
    }
}

#[cfg(test)]
#[path = "fs_tests.rs"]
mod tests;
