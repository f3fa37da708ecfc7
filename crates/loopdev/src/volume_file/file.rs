//! The handler: a directory with one file, and the device behind this file.
//!
//! The handler answers at once the requests that do not need the device, and starts those that do.

use std::cell::Cell;
use std::rc::Rc;

use forebay_device::{BufMut, Device, DeviceError, DeviceGeometry, Result, ZeroedSpace};
use forebay_frontend::requests::{ChangeRequest, FrontDevice, kernel_errno};
use forebay_fuse::codec::{
    self as format, FuseAttributes, FuseFileKind, FuseOp, FuseRequest, ROOT, ReaddirReply,
    StatfsReply as Units, init_flag, open_flag,
};
use forebay_fuse::{ActiveRequest, FuseHandler, IO_BYTES_MAX, IncomingRequest, InitOptions};
use forebay_rt::RangeLock;

use super::unaligned;

/// Name of the file.
pub(super) const NAME: &str = "volume";
/// Inode number of the file.
const VOLUME: u64 = 2;
/// Time that the kernel may cache names and attributes, in seconds. They change only when a volume grows, and then the
/// kernel is made to ask again (`loop_volume.rs::resize`).
const VALID_S: u64 = 1 << 30;
/// The longest range zeroed by one request to the device, in bytes. The kernel sends up to 4 GiB, and other requests
/// must be able to run in between.
const ZERO_BYTES_MAX: u64 = 64 << 20;

// Modes of FALLOCATE (`linux/falloc.h`).
const KEEP_SIZE: u32 = 0x01;
const PUNCH_HOLE: u32 = 0x02;
const ZERO_RANGE: u32 = 0x10;

/// The file and its directory.
pub(super) struct ServedFile {
    target: FrontDevice,
    time_s: u64,
    /// Serializes writes to the same blocks: a write that is not in whole blocks reads the surrounding blocks and
    /// writes them back.
    writes: Rc<RangeLock>,
    handles: Cell<usize>,
    errors: Cell<u64>,
    /// Makes STATFS fail. A loop device takes this as a sign that the file cannot be discarded.
    discard_hidden: Cell<bool>,
}

impl FuseHandler for ServedFile {
    fn wishes(&self) -> InitOptions {
        use init_flag::{ABORT_ERROR, ASYNC_DIO, ASYNC_READ, BIG_WRITES, MAX_PAGES};
        InitOptions {
            flags: ASYNC_READ | BIG_WRITES | ASYNC_DIO | ABORT_ERROR | MAX_PAGES,
            // The file bypasses the page cache, so a read-ahead would have no destination.
            read_ahead: 0,
        }
    }

    async fn take(self: &Rc<Self>, arrival: IncomingRequest<'_>, request: FuseRequest) {
        match request.op {
            ref op if !concerns(op, request.node) => arrival.refuse(libc::EISDIR),
            FuseOp::Read { at, len } => self.read(arrival, at, len).await,
            FuseOp::Write { at, len, .. } => self.write(arrival, at, len).await,
            FuseOp::Fsync(_) => self.flush(arrival),
            FuseOp::Fallocate { at, len, mode } => self.fallocate(arrival, at, len, mode),
            op => self.answer(arrival, request.node, &op),
        }
    }
}

/// Returns false if the request is valid for the file only, and names another node.
fn concerns(op: &FuseOp, node: u64) -> bool {
    let file_only = matches!(
        op,
        FuseOp::Open { .. }
            | FuseOp::Read { .. }
            | FuseOp::Write { .. }
            | FuseOp::Fsync(_)
            | FuseOp::Fallocate { .. }
    );
    !file_only || node == VOLUME
}

impl ServedFile {
    pub(super) fn new(device: Rc<dyn Device>, time_s: u64) -> ServedFile {
        ServedFile {
            target: FrontDevice::new(device, "fuse"),
            time_s,
            writes: Rc::default(),
            handles: Cell::new(0),
            errors: Cell::new(0),
            discard_hidden: Cell::new(false),
        }
    }

    /// Returns the number of open handles of the file.
    pub(super) fn handles(&self) -> usize {
        self.handles.get()
    }

    /// Makes STATFS fail while `hidden` is set. A loop device configured meanwhile offers no discard.
    pub(super) fn hide_discard(&self, hidden: bool) {
        self.discard_hidden.set(hidden);
    }

    fn geometry(&self) -> DeviceGeometry {
        self.target.geometry()
    }

    fn stat(&self, node: u64) -> FuseAttributes {
        let geometry = self.geometry();
        let (kind, permissions, links, len) = match node {
            VOLUME => (FuseFileKind::File, 0o600, 1, geometry.len),
            _ => (FuseFileKind::Directory, 0o700, 2, 0),
        };
        let time = (self.time_s.cast_signed(), 0);
        FuseAttributes {
            node,
            mode: kind.mode() | permissions,
            links,
            len,
            blocks: len / 512,
            preferred_io: geometry.preferred_io.max(geometry.block_size),
            accessed: time,
            modified: time,
            changed: time,
            ..FuseAttributes::default()
        }
    }

    /// Answers the requests that do not need the device.
    fn answer(&self, arrival: IncomingRequest<'_>, node: u64, op: &FuseOp) {
        match op {
            FuseOp::Lookup(name) if **name == *NAME.as_bytes() => {
                arrival.reply(&format::entry_out(&self.stat(VOLUME), 0, VALID_S));
            }
            FuseOp::Lookup(_) => arrival.refuse(libc::ENOENT),
            FuseOp::GetAttr => arrival.reply(&format::attr_out(&self.stat(node), VALID_S)),
            FuseOp::SetAttr(new) => {
                let ownership = new.mode.or(new.user).or(new.group).is_some();
                if ownership || new.size.is_some_and(|size| size != self.geometry().len) {
                    arrival.refuse(libc::EPERM);
                } else {
                    arrival.reply(&format::attr_out(&self.stat(node), VALID_S));
                }
            }
            FuseOp::Open { .. } => self.open(arrival),
            FuseOp::Release => self.release(arrival),
            FuseOp::StatFs if self.discard_hidden.get() => arrival.refuse(libc::EOPNOTSUPP),
            FuseOp::StatFs => self.statfs(arrival),
            FuseOp::OpenDir => arrival.reply(&format::open_out(0, 0)),
            FuseOp::ReadDir { at, len } => arrival.reply(listing(*at, *len as usize).bytes()),
            FuseOp::ReleaseDir | FuseOp::Destroy => arrival.reply(&[]),
            FuseOp::Forget(_) => {}
            // The only name cannot be changed.
            FuseOp::Symlink(..)
            | FuseOp::Mknod(_)
            | FuseOp::Mkdir(_)
            | FuseOp::Unlink(_)
            | FuseOp::Rmdir(_)
            | FuseOp::Rename { .. }
            | FuseOp::Link(..)
            | FuseOp::Create(_)
            | FuseOp::Tmpfile(_) => arrival.refuse(libc::EPERM),
            FuseOp::Init { .. } => unreachable!("the transport answers it"),
            FuseOp::Read { .. }
            | FuseOp::Write { .. }
            | FuseOp::Fsync(_)
            | FuseOp::Fallocate { .. } => {
                unreachable!("requests for the device are seen to before")
            }
            // The kernel takes "not implemented" as "never ask again". This is intended for flush on close, for
            // extended attributes, and for interrupts (the interrupted request is answered anyway).
            _ => arrival.refuse(libc::ENOSYS),
        }
    }

    /// Opens the file for I/O that bypasses the page cache, with concurrent writes.
    fn open(&self, arrival: IncomingRequest<'_>) {
        self.handles.set(self.handles.get() + 1);
        let flags = open_flag::DIRECT_IO | open_flag::PARALLEL_DIRECT_WRITES;
        arrival.reply(&format::open_out(0, flags));
    }

    fn release(&self, arrival: IncomingRequest<'_>) {
        self.handles.set(self.handles.get().saturating_sub(1));
        arrival.reply(&[]);
    }

    fn statfs(&self, arrival: IncomingRequest<'_>) {
        let geometry = self.geometry();
        let unit = geometry.discard_granularity.max(geometry.block_size);
        // Report the filesystem as full.
        let room = Units {
            units: geometry.len / u64::from(unit),
            free: 0,
            files: 2,
            files_free: 0,
            unit,
        };
        arrival.reply(&format::statfs_out(room));
    }

    async fn read(self: &Rc<Self>, arrival: IncomingRequest<'_>, at: u64, len: u32) {
        let geometry = self.geometry();
        // As with any file, a read past the end returns no data.
        let len = u64::from(len).min(geometry.len.saturating_sub(at)) as usize;
        if len == 0 {
            return arrival.reply(&[]);
        }
        if len > IO_BYTES_MAX {
            return arrival.refuse(libc::EINVAL);
        }
        let blocks = unaligned::around(at, len, geometry.block_size);
        let in_blocks = (blocks.end - blocks.start) as usize;
        let lease = arrival.lease(in_blocks).await;
        let file = Rc::clone(self);
        arrival.begin(|request| async move {
            let _lease = lease;
            let done = if in_blocks == len {
                let buf = request.buffer(len);
                file.target.read(at, buf).await.map(BufMut::freeze)
            } else {
                unaligned::read(&file.target, at, len).await
            };
            match done {
                Ok(buf) => request.reply(&buf),
                Err(error) => file.failed(&request, &error),
            }
        });
    }

    async fn write(self: &Rc<Self>, mut arrival: IncomingRequest<'_>, at: u64, len: u32) {
        let bytes = len as usize;
        let geometry = self.geometry();
        let end = at.checked_add(len.into());
        if end.is_none_or(|end| end > geometry.len) {
            return arrival.refuse(libc::ENOSPC);
        }
        if len == 0 {
            return arrival.reply(&format::write_out(0));
        }
        let (data, lease) = arrival.data(bytes).await;
        let blocks = unaligned::around(at, bytes, geometry.block_size);
        let aligned = blocks == (at..at + u64::from(len));
        let more = if aligned {
            None
        } else {
            Some(arrival.lease((blocks.end - blocks.start) as usize).await)
        };
        let file = Rc::clone(self);
        arrival.begin(|request| async move {
            // Declared in this order, so that the data is dropped before its leases.
            let _leases = (lease, more);
            let data = data;
            let _turn = file.writes.lock(blocks).await;
            let done = if aligned {
                file.target.write(at, data, false).await
            } else {
                unaligned::write(&file.target, at, &data).await
            };
            match done {
                Ok(()) => request.reply(&format::write_out(len)),
                Err(error) => file.failed(&request, &error),
            }
        });
    }

    fn flush(self: &Rc<Self>, arrival: IncomingRequest<'_>) {
        let file = Rc::clone(self);
        arrival.begin(|request| async move {
            let done = file.target.change(ChangeRequest::Flush).await;
            file.finish(&request, done);
        });
    }

    /// Zeroes or punches a range. A discard arrives as a punched hole: the loop driver sends the same request for
    /// "discard" and for "write zeroes, and deallocate". So the range must read as zeroes afterwards, which a mere
    /// discard does not guarantee. A device that cannot unmap refuses holes. Writing zeroes instead would defeat the
    /// purpose of "deallocate", and a filesystem that trims its free space would have all of this space written.
    fn fallocate(self: &Rc<Self>, arrival: IncomingRequest<'_>, at: u64, len: u64, mode: u32) {
        let geometry = self.geometry();
        let room = match mode & !KEEP_SIZE {
            PUNCH_HOLE if geometry.zeroes_by_unmapping => ZeroedSpace::Release,
            ZERO_RANGE => ZeroedSpace::Keep,
            _ => return arrival.refuse(libc::EOPNOTSUPP),
        };
        let end = at.saturating_add(len).min(geometry.len);
        let file = Rc::clone(self);
        arrival.begin(|request| async move {
            let mut done = Ok(());
            let mut at = at;
            while at < end && done.is_ok() {
                let to = end.min(at.saturating_add(ZERO_BYTES_MAX));
                let _turn = file.writes.lock(at..to).await;
                let (range, fua) = (at..to, false);
                done = file
                    .target
                    .change(ChangeRequest::Zero { range, room, fua })
                    .await;
                at = to;
            }
            file.finish(&request, done);
        });
    }

    fn finish(&self, request: &ActiveRequest, done: Result<()>) {
        match done {
            Ok(()) => request.reply(&[]),
            Err(error) => self.failed(request, &error),
        }
    }

    fn failed(&self, request: &ActiveRequest, error: &DeviceError) {
        let count = self.errors.get() + 1;
        self.errors.set(count);
        // A failed device fails every request, so log ever more rarely.
        if count.is_power_of_two() {
            tracing::warn!(%error, count, "a request to the volume failed");
        }
        request.refuse(kernel_errno(error));
    }
}

/// Returns the directory entries from position `at` on, in at most `bytes_max` bytes.
fn listing(at: u64, bytes_max: usize) -> ReaddirReply {
    let entries = [
        (ROOT, FuseFileKind::Directory, "."),
        (ROOT, FuseFileKind::Directory, ".."),
        (VOLUME, FuseFileKind::File, NAME),
    ];
    let mut listing = ReaddirReply::new(bytes_max);
    for (next, (node, kind, name)) in (1..).zip(entries) {
        if next > at && !listing.add(node, next, kind, name.as_bytes()) {
            break;
        }
    }
    listing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_lists_each_entry_once_at_any_buffer_size() {
        let whole = listing(0, 4096);
        assert_eq!(whole.bytes().len(), 32 + 32 + 32);
        let mut pieces = Vec::new();
        for at in 0..4 {
            pieces.extend_from_slice(listing(at, 32).bytes());
        }
        assert_eq!(pieces, whole.bytes());
        assert!(listing(0, 31).bytes().is_empty());
        assert!(listing(u64::MAX, 4096).bytes().is_empty());
    }
}
