//! A filesystem in use: taking it up, and what all operations need.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use forebay_device::BufMut;
use forebay_rt::{Lock, LockGuard};
use forebay_units::{SECTOR_BYTES, Sector};
use forebay_vsl::{Batch, Space};

use crate::accesses::AccessTimes;
use crate::census::Census;
use crate::error::{FsError, LATER, OpenError, Result};
use crate::files::{File, Files};
use crate::format::{INLINE_MAX, Inode, Kind, LINKS_MAX, SYMLINK_MAX};
use crate::format::{Superblock, Time, VolumeId};
use crate::geometry::{Geometry, ROOT};
use crate::preallocated::Preallocations;
use crate::recent::Recent;

/// Generations of files that are made while the filesystem is in use begin with how often it was taken up, in the bits above.
const GENERATION_BITS: u32 = 40;
const SUPERBLOCK_SECTORS: u64 = 8;
/// Leaves of the space's map in which files are counted in one go.
const LEAVES_COUNTED: usize = 16;

/// Says what time it is.
pub type Clock = Rc<dyn Fn() -> Time>;

/// How a filesystem is to be made.
#[derive(Clone, Debug)]
pub struct Making {
    /// Whose it is.
    pub volume: VolumeId,
    /// How the space is divided.
    pub geometry: Geometry,
    /// A key for the hash of names: something that nobody can guess.
    pub hash_key: [u8; 16],
    /// Whose the root directory is: user and group.
    pub owner: (u32, u32),
    /// And its permissions.
    pub permissions: u16,
}

/// A filesystem in use. Clones are the same one.
///
/// Files are known by i-numbers. Whoever got one by [`Fs::look_up`], or by making the file, uses it until [`Fs::forget`]; and
/// uses it as long as anything is done with it. Operations are to be awaited to their end.
#[derive(Clone)]
pub struct Fs(pub(crate) Rc<Inner>);

pub(crate) struct Inner {
    space: Space,
    superblock: Superblock,
    clock: Clock,
    pub(crate) files: RefCell<Files>,
    pub(crate) recent: Recent,
    pub(crate) preallocations: Preallocations,
    pub(crate) census: Census,
    /// Held while a directory goes from one directory to another.
    pub(crate) moving: Rc<Lock>,
    /// Where a number for a new file is looked for.
    cursor: Cell<u64>,
    /// Numbers of files that are being made.
    taken: RefCell<BTreeSet<u64>>,
    generation: Cell<u64>,
    /// Which accesses are noted: of directories behind those of all other files.
    pub(crate) access_times: Cell<(AccessTimes, AccessTimes)>,
}

/// How much room there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Bytes that can be in use.
    pub bytes: u64,
    /// Of those, such that are not, nor preallocated.
    pub free: u64,
    /// Files that there may be.
    pub files: u64,
    /// Files that there are, as far as they were counted ([`Fs::count_files`]).
    pub used_files: u64,
}

/// Makes a filesystem in a space in which nothing is.
///
/// # Errors
/// If it does not fit, something is there, or the space refuses.
pub async fn create(
    space: &Space,
    making: &Making,
    clock: &Clock,
) -> std::result::Result<(), OpenError> {
    let geometry = making.geometry;
    if !geometry.is_possible() {
        return Err(OpenError::Geometry {
            chunk_bits: geometry.chunk_bits,
            slot_sectors: geometry.slot_sectors,
        });
    }
    fits(space, geometry)?;
    if space.next_mapped(0..space.sectors()).await?.is_some() {
        return Err(OpenError::NotEmpty);
    }
    let superblock = Superblock {
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
        ..Inode::new(ROOT, Kind::Directory, making.permissions, now)
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

fn fits(space: &Space, geometry: Geometry) -> std::result::Result<(), OpenError> {
    let (needed, found) = (geometry.space_sectors(), space.sectors());
    if found < needed {
        return Err(OpenError::Small { needed, found });
    }
    Ok(())
}

/// Takes a filesystem up.
///
/// # Errors
/// If there is none, it is damaged, or the space refuses.
pub async fn open(space: Space, clock: Clock) -> std::result::Result<Fs, OpenError> {
    let mut superblock = read_superblock(&space).await?;
    superblock.mounts += 1;
    let bytes = BufMut::copy_of(&superblock.encode()).freeze();
    space
        .apply(&Batch::of_write(Sector(0), bytes), LATER)
        .await?;
    let fs = take_up(space, superblock, clock).await?;
    fs.load_preallocations().await.map_err(OpenError::Root)?;
    fs.reclaim_orphans().await.map_err(OpenError::Root)?;
    Ok(fs)
}

/// A filesystem to be looked at as it was left: with the files that a crash left without a name. Nothing may be changed
/// in it.
///
/// # Errors
/// If there is none, it is damaged, or the space refuses.
pub async fn look(space: Space, clock: Clock) -> std::result::Result<Fs, OpenError> {
    let superblock = read_superblock(&space).await?;
    take_up(space, superblock, clock).await
}

/// The superblock of the filesystem in a space.
///
/// # Errors
/// If there is none, it is damaged, does not fit the space, or the space refuses.
pub async fn read_superblock(space: &Space) -> std::result::Result<Superblock, OpenError> {
    let buf = BufMut::to_fill((SUPERBLOCK_SECTORS * SECTOR_BYTES) as usize);
    let read = space.read(Sector(0), buf).await?;
    let superblock = Superblock::decode(&read)?;
    fits(space, superblock.geometry)?;
    Ok(superblock)
}

async fn take_up(
    space: Space,
    superblock: Superblock,
    clock: Clock,
) -> std::result::Result<Fs, OpenError> {
    let mounts = superblock.mounts;
    // Far from where the last one began: numbers are free there, and it need not be gone over what is taken.
    let begin = mounts.wrapping_mul(0x9e37_79b9_7f4a_7c15) % superblock.geometry.files();
    let fs = Fs(Rc::new(Inner {
        space,
        superblock,
        clock,
        files: RefCell::default(),
        recent: Recent::default(),
        preallocations: Preallocations::default(),
        census: Census::default(),
        moving: Rc::default(),
        cursor: Cell::new(begin),
        taken: RefCell::default(),
        generation: Cell::new(mounts << GENERATION_BITS),
        access_times: Cell::default(),
    }));
    let root = fs.directory(ROOT).await.map_err(OpenError::Root)?;
    root.users.set(1);
    Ok(fs)
}

impl Fs {
    /// The space below.
    pub fn space(&self) -> &Space {
        &self.0.space
    }

    /// What the filesystem says of itself.
    pub fn superblock(&self) -> &Superblock {
        &self.0.superblock
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.0.superblock.geometry
    }

    /// What time it is here.
    pub fn time(&self) -> Time {
        (self.0.clock)()
    }

    /// How much room there is.
    pub fn room(&self) -> Room {
        let capacity = self.space().capacity();
        Room {
            bytes: capacity.mappable_in_blocks,
            free: capacity
                .mappable_in_blocks
                .saturating_sub(capacity.mapped + capacity.preallocated),
            files: self.geometry().files(),
            used_files: self.0.census.counted(),
        }
    }

    /// Counts some more files. Returns true if all are counted.
    ///
    /// # Errors
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

    /// The file of this number.
    ///
    /// # Errors
    /// If there is none, or its i-node cannot be read.
    pub(crate) async fn file(&self, number: u64) -> Result<Rc<File>> {
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
            // It may have become known meanwhile, have changed, and be forgotten again: then what was read is old.
            if files.forgotten() == forgotten {
                return Ok(files.insert(stored.ok_or(FsError::NotFound)?));
            }
        }
    }

    /// The i-node in the space.
    pub(crate) async fn stored(&self, number: u64) -> Result<Option<Inode>> {
        if number == 0 || number >= self.geometry().files() {
            return Ok(None);
        }
        let read = self.read_sectors(self.geometry().inode(number), 1).await?;
        self.inode_in(number, &read)
    }

    /// The i-node of this number in a sector.
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
            return contradiction("its i-node is that of another");
        }
        let geometry = self.geometry();
        let (slot, chunk) = (geometry.slot(number).0, geometry.chunk(number).0);
        let most = match (inode.kind, inode.base) {
            (Kind::Directory, base) if base == chunk => geometry.chunk_sectors(),
            (Kind::Regular, base) if base == chunk => geometry.size_max(),
            (Kind::Regular, base) if base == slot => geometry.slot_bytes(),
            (Kind::Symlink, base) if base == slot => SYMLINK_MAX as u64,
            (Kind::Regular | Kind::Symlink, 0) => INLINE_MAX as u64,
            (Kind::Directory, 0) => return contradiction("a directory without a place"),
            (_, 0) => 0,
            _ => return contradiction("its data is said to be elsewhere"),
        };
        if inode.links > LINKS_MAX {
            return contradiction("it has more names than it can have");
        }
        if inode.size > most {
            return contradiction("it is larger than it can be where it is");
        }
        if u64::from(inode.attributes) > crate::geometry::ATTRIBUTE_BYTES as u64 {
            return contradiction("it has more extended attributes than it can have");
        }
        Ok(Some(inode))
    }

    /// The directory of this number.
    ///
    /// # Errors
    /// If there is none, or it is none.
    pub(crate) async fn directory(&self, number: u64) -> Result<Rc<File>> {
        let file = self.file(number).await?;
        let kind = file.inode().kind;
        match kind {
            Kind::Directory => Ok(file),
            _ => Err(FsError::NotDirectory),
        }
    }

    /// Locks files, in the order of their numbers, each once.
    pub(crate) async fn lock_all<'a>(
        &self,
        files: impl IntoIterator<Item = &'a Rc<File>>,
    ) -> Vec<LockGuard> {
        let mut files: Vec<&Rc<File>> = files.into_iter().collect();
        files.sort_by_key(|file| file.number());
        files.dedup_by_key(|file| file.number());
        let mut guards = Vec::with_capacity(files.len());
        for file in files {
            guards.push(file.lock.lock().await);
        }
        guards
    }

    /// A number that no file has, and a generation. Nobody else gets it before [`Number`] is dropped.
    pub(crate) async fn number(&self) -> Result<Number> {
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
            // One that is known and has no i-node is just being removed: it is not to be taken for what comes after it.
            let is_free = |n: &u64| {
                !inner.taken.borrow().contains(n) && inner.files.borrow().get(*n).is_none()
            };
            let free = (at..used.start).find(is_free);
            if let Some(number) = free {
                inner.taken.borrow_mut().insert(number);
                inner.cursor.set(number + 1);
                let generation = inner.generation.get() + 1;
                inner.generation.set(generation);
                return Ok(Number {
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

/// The number of a file that is being made.
pub(crate) struct Number {
    fs: Fs,
    pub(crate) number: u64,
    pub(crate) generation: u64,
}

impl Drop for Number {
    fn drop(&mut self) {
        self.fs.0.taken.borrow_mut().remove(&self.number);
    }
}

#[cfg(test)]
#[path = "fs_tests.rs"]
mod tests;
