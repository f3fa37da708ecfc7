//! The serving side: takes requests from the channel, asks the device, replies.
//!
//! What can be answered from what is known is answered at once; what needs the device becomes a
//! task. Nothing here waits for the kernel but the poll in [`Session::run`].

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use forebay_device::{Buf, BufMut, Device, DeviceError, Geometry, Room};
use forebay_os::Poller;
use forebay_rt::{Account, Lease, RangeLock, Rt};

use super::IO_BYTES_MAX;
use super::channel::{Channel, Received};
use super::format::{self, Attributes, FIXED, Limits, Malformed, Op, Request, VOLUME};
use super::unaligned;
use crate::requests::{FRONT_RESERVE, Load, Memory, Target, UnderWay, kernel_errno, start};

/// Requests taken in a row before other tasks get a turn.
const BATCH: usize = 32;
/// Asynchronous requests the kernel may send without waiting for replies. More than the loop
/// device's queue and any sane direct user's depth, so that FUSE's own throttle never acts.
const BACKGROUND_MAX: u16 = 1024;
/// Requests handed to the device and not yet answered. Their memory has its own bound.
const UNDER_WAY_MAX: Load = Load {
    requests: 1024,
    bytes: u64::MAX,
};
/// A write's data is copied out of the buffer that requests are received into if it is at most this
/// long; what is longer takes the buffer with it.
const COPIED_BYTES_MAX: usize = 64 << 10;
/// The longest range zeroed by one request to the device, in bytes: the kernel sends up to 4 GiB,
/// and other requests are to get in between.
const ZERO_BYTES_MAX: u64 = 64 << 20;

// Modes of FALLOCATE (`linux/falloc.h`).
const KEEP_SIZE: u32 = 0x01;
const PUNCH_HOLE: u32 = 0x02;
const ZERO_RANGE: u32 = 0x10;

/// Why a session is over.
#[derive(Debug)]
pub enum Ended {
    /// The filesystem was unmounted.
    Unmounted,
    /// Somebody cut the connection: `umount --force`, or by hand in `/sys/fs/fuse/connections`.
    Aborted,
    /// `/dev/fuse` gave an error that has no place in the protocol.
    Failed(io::Error),
}

/// One connection and the device behind it.
pub(super) struct Session {
    channel: Channel,
    target: Target,
    geometry: Geometry,
    attributes: Attributes,
    memory: Memory,
    /// Writes to the same blocks take turns: one that is not in whole blocks writes back what it
    /// read around it.
    writes: Rc<RangeLock>,
    under_way: UnderWay,
    handles: Cell<usize>,
    errors: Cell<u64>,
    /// STATFS fails: that is how a loop device learns that discarding is of no use.
    discard_hidden: Cell<bool>,
}

/// What requests are received into.
struct Inbox {
    account: Account,
    /// Of the largest size.
    rest: BufMut,
    lease: Lease,
}

/// A request on its way through the device; counts until dropped, and holds its memory as long.
struct Underway {
    session: Rc<Session>,
    load: Load,
    _memory: Option<Lease>,
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.session.under_way.release(self.load);
    }
}

impl Session {
    pub(super) fn new(
        channel: Channel,
        device: Rc<dyn Device>,
        memory: Memory,
        time_s: u64,
    ) -> Session {
        let geometry = device.geometry();
        Session {
            channel,
            target: Target::new(device, "fuse"),
            geometry,
            attributes: Attributes {
                len: geometry.len,
                preferred_io: geometry.preferred_io.max(geometry.block_size),
                time_s,
            },
            memory,
            writes: Rc::default(),
            under_way: UnderWay::new(UNDER_WAY_MAX),
            handles: Cell::new(0),
            errors: Cell::new(0),
            discard_hidden: Cell::new(false),
        }
    }

    /// How often the file is open.
    pub(super) fn handles(&self) -> usize {
        self.handles.get()
    }

    /// While set, STATFS fails. A loop device configured meanwhile offers no discard.
    pub(super) fn hide_discard(&self, hidden: bool) {
        self.discard_hidden.set(hidden);
    }

    /// Serves until the filesystem is gone, then waits for the requests that are under way. `readable`
    /// tells when there are requests.
    pub(super) async fn run(self: Rc<Self>, rt: Rt, readable: Poller) -> Ended {
        let mut fixed = [0; FIXED];
        let Some(account) = self.memory.account(FRONT_RESERVE) else {
            let promised = io::Error::other("the memory for requests is promised to others");
            return Ended::Failed(promised);
        };
        let mut inbox = Inbox {
            lease: account.lease(Memory::cost(IO_BYTES_MAX)).await,
            rest: self.memory.take(IO_BYTES_MAX),
            account,
        };
        let mut in_a_row = 0;
        let ended = loop {
            match self.channel.receive(&mut fixed, &mut inbox.rest) {
                Ok(Received::Message(n)) => {
                    self.take(&rt, &fixed, n, &mut inbox).await;
                    in_a_row += 1;
                    if in_a_row == BATCH {
                        in_a_row = 0;
                        rt.yield_now().await;
                    }
                }
                Ok(Received::Nothing) => {
                    in_a_row = 0;
                    if let Err(error) = readable.readable().await {
                        break Ended::Failed(error);
                    }
                }
                Ok(Received::Unmounted) => break Ended::Unmounted,
                Ok(Received::Aborted) => break Ended::Aborted,
                Err(error) => break Ended::Failed(error),
            }
        };
        tracing::debug!(?ended, "FUSE session ends");
        self.under_way.idle().await;
        ended
    }

    /// Takes up a request. Waits while too many are under way.
    async fn underway(self: &Rc<Self>, memory: Option<Lease>) -> Underway {
        Underway {
            load: self.under_way.admit(0).await.keep(),
            session: Rc::clone(self),
            _memory: memory,
        }
    }

    /// Sees to one message of `n` bytes. Waits for the memory it takes, which others will give back.
    async fn take(self: &Rc<Self>, rt: &Rt, fixed: &[u8; FIXED], n: usize, inbox: &mut Inbox) {
        let request = match format::decode(fixed, n) {
            Ok(request) => request,
            Err(Malformed { unique }) => {
                tracing::warn!(bytes = n, ?unique, "a malformed FUSE request");
                if let Some(unique) = unique {
                    self.channel.reply_error(unique, libc::EIO);
                }
                return;
            }
        };
        let unique = request.unique;
        match request.op {
            _ if !self.concerns_volume(&request) => self.refuse(unique, libc::EISDIR),
            Op::Read { at, len } => self.read(rt, unique, at, len, &inbox.account).await,
            Op::Write { at, len } => self.write(rt, unique, at, len, inbox).await,
            Op::Fsync => self.flush(rt, unique).await,
            Op::Fallocate { at, len, mode } => self.fallocate(rt, unique, at, len, mode).await,
            _ => self.answer(&request),
        }
    }

    /// False if the request makes sense for the file only, and is about something else.
    fn concerns_volume(&self, request: &Request) -> bool {
        let file_only = matches!(
            request.op,
            Op::Open | Op::Read { .. } | Op::Write { .. } | Op::Fsync | Op::Fallocate { .. }
        );
        !file_only || request.node == VOLUME
    }

    fn refuse(&self, unique: u64, errno: i32) {
        self.channel.reply_error(unique, errno);
    }

    /// Answers what needs no device.
    fn answer(&self, request: &Request) {
        let Request { unique, node, op } = *request;
        let reply = |payload: &[u8]| self.channel.reply(unique, payload);
        match op {
            Op::Init { major, flags } => self.init(unique, major, flags),
            Op::Lookup { known: true } => reply(&self.attributes.entry_out()),
            Op::Lookup { known: false } => self.refuse(unique, libc::ENOENT),
            Op::GetAttr => reply(&self.attributes.attr_out(node)),
            Op::SetAttr { size, ownership } => {
                if ownership || size.is_some_and(|size| size != self.geometry.len) {
                    self.refuse(unique, libc::EPERM);
                } else {
                    reply(&self.attributes.attr_out(node));
                }
            }
            Op::Open => {
                self.handles.set(self.handles.get() + 1);
                reply(&format::open_out());
            }
            Op::Release => {
                self.handles.set(self.handles.get().saturating_sub(1));
                reply(&[]);
            }
            Op::StatFs if self.discard_hidden.get() => self.refuse(unique, libc::EOPNOTSUPP),
            Op::StatFs => {
                let unit = self.geometry.discard_granularity;
                let unit = unit.max(self.geometry.block_size);
                reply(&format::statfs_out(self.geometry.len, unit));
            }
            Op::OpenDir => reply(&format::opendir_out()),
            Op::ReadDir { at, len } => reply(&format::readdir_out(at, len as usize)),
            Op::ReleaseDir | Op::Destroy => reply(&[]),
            Op::Forget => {}
            Op::Namespace => self.refuse(unique, libc::EPERM),
            // The kernel takes "not implemented" as "never ask again", which is meant: for flush
            // on close, extended attributes, interrupts (whose request is answered anyway).
            Op::Other(_) => self.refuse(unique, libc::ENOSYS),
            Op::Read { .. } | Op::Write { .. } | Op::Fsync | Op::Fallocate { .. } => {
                unreachable!("requests for the device are seen to before")
            }
        }
    }

    fn init(&self, unique: u64, major: u32, flags: u32) {
        if major < format::MAJOR {
            tracing::error!(major, "the kernel's FUSE protocol is too old");
            return self.refuse(unique, libc::EPROTO);
        }
        // A newer kernel reads our major version from the reply and asks again in that one.
        let limits = Limits {
            io_bytes_max: IO_BYTES_MAX as u32,
            background_max: BACKGROUND_MAX,
        };
        self.channel.reply(unique, &format::init_out(flags, limits));
    }

    async fn read(self: &Rc<Self>, rt: &Rt, unique: u64, at: u64, len: u32, account: &Account) {
        // Past the end there is nothing, as in any file.
        let len = u64::from(len).min(self.geometry.len.saturating_sub(at)) as usize;
        if len == 0 {
            return self.channel.reply(unique, &[]);
        }
        if len > IO_BYTES_MAX {
            return self.refuse(unique, libc::EINVAL);
        }
        let blocks = unaligned::around(at, len, self.geometry.block_size);
        let in_blocks = (blocks.end - blocks.start) as usize;
        let memory = account.lease(Memory::cost(in_blocks)).await;
        let underway = self.underway(Some(memory)).await;
        start(rt, async move {
            let session = &underway.session;
            let done = if in_blocks == len {
                let buf = session.memory.take(len);
                session.target.read(at, buf).await.map(BufMut::freeze)
            } else {
                unaligned::read(&session.target, at, len).await
            };
            match done {
                Ok(buf) => session.channel.reply(unique, &buf),
                Err(error) => session.failed(unique, &error),
            }
        });
    }

    async fn write(self: &Rc<Self>, rt: &Rt, unique: u64, at: u64, len: u32, inbox: &mut Inbox) {
        let bytes = len as usize;
        if at
            .checked_add(len.into())
            .is_none_or(|end| end > self.geometry.len)
        {
            return self.refuse(unique, libc::ENOSPC);
        }
        if len == 0 {
            return self.channel.reply(unique, &format::write_out(0));
        }
        let (buf, memory) = self.data_of(inbox, bytes).await;
        let blocks = unaligned::around(at, bytes, self.geometry.block_size);
        let aligned = blocks == (at..at + u64::from(len));
        let more = match aligned {
            true => None,
            false => {
                let in_blocks = (blocks.end - blocks.start) as usize;
                Some(inbox.account.lease(Memory::cost(in_blocks)).await)
            }
        };
        let underway = self.underway(Some(memory)).await;
        start(rt, async move {
            let _more = more;
            let session = &underway.session;
            let _turn = session.writes.lock(blocks).await;
            let done = if aligned {
                session.target.write(at, buf, false).await
            } else {
                unaligned::write(&session.target, at, &buf).await
            };
            match done {
                Ok(()) => session.channel.reply(unique, &format::write_out(len)),
                Err(error) => session.failed(unique, &error),
            }
        });
    }

    /// The first `len` bytes of what was received, with their lease. A small part is copied, since it
    /// would keep the whole buffer from use (and was just written by this processor, so the copy is
    /// cheap); a large one is handed over, and another buffer takes its place.
    async fn data_of(&self, inbox: &mut Inbox, len: usize) -> (Buf, Lease) {
        if len <= COPIED_BYTES_MAX {
            let lease = inbox.account.lease(Memory::cost(len)).await;
            let mut part = self.memory.take(len);
            part.copy_from_slice(&inbox.rest[..len]);
            return (part.freeze(), lease);
        }
        let lease = inbox.account.lease(Memory::cost(IO_BYTES_MAX)).await;
        let fresh = self.memory.take(IO_BYTES_MAX);
        let mut part = std::mem::replace(&mut inbox.rest, fresh);
        part.truncate(len);
        (part.freeze(), std::mem::replace(&mut inbox.lease, lease))
    }

    async fn flush(self: &Rc<Self>, rt: &Rt, unique: u64) {
        let underway = self.underway(None).await;
        start(rt, async move {
            let session = &underway.session;
            let done = session.target.flush().await;
            session.finish(unique, done);
        });
    }

    /// Both ways of making zeroes, and discarding, which arrives as a punched hole: the loop driver
    /// sends the same for "discard" and for "write zeroes, and deallocate", so it must read back as
    /// zeroes, which a mere discard does not promise. A device that cannot unmap has no holes: to
    /// write the zeroes would be what "deallocate" asks not to do, and a filesystem that gives up its
    /// free space would have all of it written.
    async fn fallocate(self: &Rc<Self>, rt: &Rt, unique: u64, at: u64, len: u64, mode: u32) {
        let room = match mode & !KEEP_SIZE {
            PUNCH_HOLE if self.geometry.zeroes_by_unmapping => Room::Release,
            ZERO_RANGE => Room::Keep,
            _ => return self.refuse(unique, libc::EOPNOTSUPP),
        };
        let end = at.saturating_add(len).min(self.geometry.len);
        let underway = self.underway(None).await;
        start(rt, async move {
            let session = &underway.session;
            let mut done = Ok(());
            let mut at = at;
            while at < end && done.is_ok() {
                let to = end.min(at.saturating_add(ZERO_BYTES_MAX));
                let _turn = session.writes.lock(at..to).await;
                done = session.target.write_zeroes(at..to, room, false).await;
                at = to;
            }
            session.finish(unique, done);
        });
    }

    fn finish(&self, unique: u64, done: Result<(), DeviceError>) {
        match done {
            Ok(()) => self.channel.reply(unique, &[]),
            Err(error) => self.failed(unique, &error),
        }
    }

    fn failed(&self, unique: u64, error: &DeviceError) {
        let count = self.errors.get() + 1;
        self.errors.set(count);
        // A dead device fails every request: say so ever more rarely.
        if count.is_power_of_two() {
            tracing::warn!(%error, count, "a request to the volume failed");
        }
        self.refuse(unique, kernel_errno(error));
    }
}
