//! A model of the requests that the filesystem of the paper's machine made.
//!
//! Metadata is written synchronously: an inode in its block of 8 KiB, a directory in its whole length in KiB. Data is
//! written in the background, up to a limit. A directory's files lie in its own cylinder group, with their inodes;
//! directories are spread over the disk (McKusick, Joy, Leffler and Fabry, *A Fast File System for UNIX*, 1984). All
//! data that was read or written stays in memory until the next mount.
//!
//! Not modelled: read-ahead of files; maps of free blocks, which are written now and then; access times; data that
//! waits half a minute before it is written. The machine has one processor. Its costs are assumed: the processor's
//! share of the time on the plain disk is about the paper's (3 to 15 %).

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use forebay_device::{Buf, BufMut, Device, DeviceError, Durability};
use forebay_rng::{Rng, mix};
use forebay_rt::{Event, Instant, Rt};

use crate::response::{UfsRequest, UfsRequestKind};

const KIB: u64 = 1 << 10;
/// Size of a filesystem block, the unit of inode writes, and the number of inodes in a block.
const BLOCK: u64 = 8 * KIB;
const INODES_IN_BLOCK: u64 = 64;
/// Size of a cylinder group, and the size of its inodes.
const GROUP: u64 = 8 << 20;
const INODES: u64 = 16 * BLOCK;
/// Size of a directory entry.
const ENTRY: u64 = 24;
/// Largest transfer of one request (`maxcontig` of seven blocks).
const CLUSTER: u64 = 7 * BLOCK;
/// Limit of data in background writes. Above this limit users wait.
const BEHIND_MAX: u64 = 256 * KIB;
/// Processor time of a call, and of each KiB that a call copies: assumed, see above.
const CALL: Duration = Duration::from_micros(700);
const COPY_KIB: Duration = Duration::from_micros(50);

/// A file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UfsFile {
    /// Address of the block that holds the inode.
    inode: u64,
    data: u64,
    pub(crate) len: u64,
}

/// A directory.
#[derive(Debug)]
pub(crate) struct UfsDirectory {
    group: usize,
    inode: u64,
    at: u64,
    entries: Cell<u64>,
}

impl UfsDirectory {
    /// Returns the bytes that a change of an entry writes. A directory never becomes shorter.
    fn bytes(&self) -> u64 {
        (self.entries.get().max(1) * ENTRY).div_ceil(KIB).min(8) * KIB
    }
}

/// Allocated space of a cylinder group.
#[derive(Clone, Copy, Default, Debug)]
struct CylinderGroup {
    inodes: u64,
    bytes: u64,
}

/// The filesystem.
pub(crate) struct Ufs {
    pub(crate) rt: Rt,
    device: Rc<dyn Device>,
    groups: RefCell<Vec<CylinderGroup>>,
    /// Addresses of the blocks in memory.
    known: RefCell<BTreeSet<u64>>,
    /// Time at which the processor becomes idle, and its total busy time.
    processor: Cell<Instant>,
    computed: Cell<Duration>,
    /// Bytes in background writes, and the event that wakes users when a write completes.
    behind: Cell<u64>,
    arrived: Event,
    failed: RefCell<Option<DeviceError>>,
    seen: RefCell<Vec<UfsRequest>>,
    /// Content of all writes.
    content: Buf,
}

impl Ufs {
    pub(crate) fn new(rt: &Rt, device: Rc<dyn Device>, seed: u64) -> Rc<Ufs> {
        let groups = device.geometry().len / GROUP;
        let mut content = BufMut::zeroed(CLUSTER as usize);
        Rng::new(seed).fill(&mut content);
        Rc::new(Ufs {
            rt: rt.clone(),
            device,
            groups: RefCell::new(vec![CylinderGroup::default(); groups as usize]),
            known: RefCell::default(),
            processor: Cell::default(),
            computed: Cell::default(),
            behind: Cell::default(),
            arrived: Event::new(),
            failed: RefCell::default(),
            seen: RefCell::default(),
            content: content.freeze(),
        })
    }

    /// Makes a directory. The root directory has no parent.
    pub(crate) async fn make_directory(
        &self,
        parent: Option<&UfsDirectory>,
    ) -> Result<UfsDirectory> {
        // The group does not depend on timing, so that all compared setups get equal requests.
        let which = parent.map_or(0, |parent| mix(parent.at, parent.entries.get()));
        let group = (which % self.groups.borrow().len() as u64) as usize;
        let directory = UfsDirectory {
            group,
            inode: self.new_inode(group),
            at: self.new_data(group, BLOCK),
            entries: Cell::new(2),
        };
        self.compute(0).await;
        self.write(directory.inode, BLOCK).await?;
        self.write(directory.at, directory.bytes()).await?;
        if let Some(parent) = parent {
            self.enter(parent).await?;
            // The new directory adds a link to its parent.
            self.write(parent.inode, BLOCK).await?;
        }
        Ok(directory)
    }

    /// Makes a file with its content.
    pub(crate) async fn create(
        self: &Rc<Ufs>,
        directory: &UfsDirectory,
        len: u64,
    ) -> Result<UfsFile> {
        let node = UfsFile {
            inode: self.new_inode(directory.group),
            data: self.new_data(directory.group, len),
            len,
        };
        self.compute(0).await;
        self.write(node.inode, BLOCK).await?;
        self.enter(directory).await?;
        self.write_data(&node).await?;
        Ok(node)
    }

    /// Overwrites the content of a file in place.
    pub(crate) async fn rewrite(self: &Rc<Ufs>, node: &UfsFile) -> Result<()> {
        self.compute(0).await;
        self.read_block(node.inode, BLOCK).await?;
        self.write(node.inode, BLOCK).await?;
        self.write_data(node).await
    }

    /// Looks up a file.
    pub(crate) async fn open(&self, directory: &UfsDirectory, node: &UfsFile) -> Result<()> {
        self.read_block(directory.at, directory.bytes()).await?;
        self.read_block(node.inode, BLOCK).await
    }

    /// Reads a range of an opened file, in requests of the largest size.
    pub(crate) async fn read(&self, node: &UfsFile, part: Range<u64>) -> Result<()> {
        self.compute(part.end - part.start).await;
        let wanted = node.data + part.start..node.data + part.end;
        for (at, len) in clusters(node) {
            if at < wanted.end && wanted.start < at + len {
                self.read_block(at, len).await?;
            }
        }
        Ok(())
    }

    /// Removes a file.
    pub(crate) async fn remove(&self, directory: &UfsDirectory, node: &UfsFile) -> Result<()> {
        self.compute(0).await;
        self.open(directory, node).await?;
        self.write(directory.at, directory.bytes()).await?;
        self.write(node.inode, BLOCK).await
    }

    /// Removes an empty directory.
    pub(crate) async fn remove_directory(
        &self,
        parent: &UfsDirectory,
        directory: &UfsDirectory,
    ) -> Result<()> {
        self.compute(0).await;
        self.read_block(parent.at, parent.bytes()).await?;
        self.write(parent.at, parent.bytes()).await?;
        self.write(directory.inode, BLOCK).await?;
        self.write(parent.inode, BLOCK).await
    }

    /// Discards all blocks in memory, as an unmount and a mount do.
    pub(crate) fn forget(&self) {
        self.known.borrow_mut().clear();
    }

    /// Discards the data of a file in memory.
    pub(crate) fn forget_data(&self, node: &UfsFile) {
        let mut known = self.known.borrow_mut();
        for (at, _) in clusters(node) {
            known.remove(&at);
        }
    }

    /// Waits until all background writes are complete and durable.
    pub(crate) async fn sync(&self) -> Result<()> {
        let arrived = || (self.behind.get() == 0).then_some(());
        self.arrived.until(arrived).await;
        if let Some(error) = self.failed.take() {
            return Err(anyhow!(error));
        }
        Ok(self.device.flush().await?)
    }

    /// Returns the requests since the last call.
    pub(crate) fn take_requests(&self) -> Vec<UfsRequest> {
        self.seen.take()
    }

    /// Returns the processor time so far.
    pub(crate) fn computed(&self) -> Duration {
        self.computed.get()
    }

    async fn enter(&self, directory: &UfsDirectory) -> Result<()> {
        directory.entries.set(directory.entries.get() + 1);
        self.read_block(directory.at, directory.bytes()).await?;
        self.write(directory.at, directory.bytes()).await
    }

    /// Allocates an inode. Returns the address of its block.
    fn new_inode(&self, group: usize) -> u64 {
        let mut groups = self.groups.borrow_mut();
        let taken = &mut groups[group].inodes;
        *taken += 1;
        let block = (*taken - 1) / INODES_IN_BLOCK % (INODES / BLOCK);
        group as u64 * GROUP + block * BLOCK
    }

    /// Allocates space for data and returns its address. The space is behind the last allocation of the group, or at
    /// the beginning if the group is full; the model never looks at data.
    fn new_data(&self, group: usize, len: u64) -> u64 {
        let len = len.next_multiple_of(KIB);
        let mut groups = self.groups.borrow_mut();
        let taken = &mut groups[group].bytes;
        if INODES + *taken + len > GROUP {
            *taken = 0;
        }
        let at = group as u64 * GROUP + INODES + *taken;
        *taken += len;
        at
    }

    /// Uses the processor for a call that copies this many bytes. Calls are served in order of arrival.
    async fn compute(&self, bytes: u64) {
        let cost = CALL + COPY_KIB * bytes.div_ceil(KIB) as u32;
        let done = self.processor.get().max(self.rt.now()).plus(cost);
        self.processor.set(done);
        self.computed.set(self.computed.get() + cost);
        self.rt.sleep_until(done).await;
    }

    async fn write_data(self: &Rc<Ufs>, node: &UfsFile) -> Result<()> {
        self.compute(node.len).await;
        for (at, len) in clusters(node) {
            let room = || (self.behind.get() + len <= BEHIND_MAX).then_some(());
            self.arrived.until(room).await;
            self.behind.set(self.behind.get() + len);
            self.known.borrow_mut().insert(at);
            let fs = Rc::clone(self);
            let writing = async move {
                if let Err(error) = fs.request(UfsRequestKind::WriteBehind, at, len).await {
                    *fs.failed.borrow_mut() = Some(error);
                }
                fs.behind.set(fs.behind.get() - len);
                fs.arrived.notify_all();
            };
            self.rt.spawn(writing).detach();
        }
        Ok(())
    }

    /// Writes metadata, and waits until the write is complete.
    async fn write(&self, at: u64, len: u64) -> Result<()> {
        self.known.borrow_mut().insert(at);
        Ok(self.request(UfsRequestKind::Write, at, len).await?)
    }

    /// Reads a block that is not in memory.
    async fn read_block(&self, at: u64, len: u64) -> Result<()> {
        let is_new = self.known.borrow_mut().insert(at);
        if is_new {
            self.request(UfsRequestKind::Read, at, len).await?;
        }
        Ok(())
    }

    async fn request(
        &self,
        kind: UfsRequestKind,
        at: u64,
        bytes: u64,
    ) -> forebay_device::Result<()> {
        let began = self.rt.now();
        match kind {
            UfsRequestKind::Read => {
                let memory = BufMut::zeroed(bytes as usize);
                self.device.read(at, memory).await?;
            }
            UfsRequestKind::Write | UfsRequestKind::WriteBehind => {
                let content = self.content.slice(..bytes as usize);
                self.device.write(at, content, Durability::Flush).await?;
            }
        }
        let ms = self.rt.now().since(began).as_secs_f64() * 1e3;
        self.seen.borrow_mut().push(UfsRequest { kind, bytes, ms });
        Ok(())
    }
}

/// Returns the requests for the data of a file: address and length.
fn clusters(node: &UfsFile) -> impl Iterator<Item = (u64, u64)> + use<> {
    let (data, len) = (node.data, node.len.next_multiple_of(KIB));
    let starts = (0..len).step_by(CLUSTER as usize);
    starts.map(move |start| (data + start, (len - start).min(CLUSTER)))
}
