//! The requests of a ring, as async functions.
//!
//! Each is one entry. The caller decides how to handle a short transfer. `EINTR` and `EAGAIN`, which are no result of
//! the request itself, are retried here.
#![allow(
    unsafe_code,
    reason = "tells the kernel where memory is; each request names the owner of it"
)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

use forebay_device::{Buf, BufMut};
use io_uring::{opcode, squeue, types};
use rustix::net::SocketAddrAny;

use super::slot::new_fd;
use super::{HeldMemory, IoRing, OnDrop, SharedFd, SocketMessage};

/// Largest single transfer; the kernel's own limit is just under 2 GiB.
const TRANSFER_BYTES_MAX: usize = 1 << 30;
/// Maximum number of parts of a message.
const MESSAGE_PARTS_MAX: usize = libc::UIO_MAXIOV as usize;
/// "At the current position", for descriptors without positions.
const NO_OFFSET: u64 = u64::MAX;

/// `BLOCK_URING_CMD_DISCARD` of `linux/blkdev.h`: `_IO(0x12, 0)`.
const BLOCK_URING_CMD_DISCARD: u32 = 0x1200;

fn fd_of(fd: &SharedFd) -> types::Fd {
    types::Fd(fd.as_raw_fd())
}

fn again(result: &io::Result<u32>) -> bool {
    matches!(result, Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN)))
}

fn transfer_len(len: usize, from: usize) -> u32 {
    (len - from).min(TRANSFER_BYTES_MAX) as u32
}

impl IoRing {
    /// Reads once from byte `at` of a file into `buf[from..]`.
    pub(crate) async fn read_at(
        self: &Rc<Self>,
        fd: &SharedFd,
        mut buf: BufMut,
        from: usize,
        at: u64,
    ) -> (io::Result<u32>, BufMut) {
        loop {
            let len = transfer_len(buf.len(), from);
            let memory = buf[from..].as_mut_ptr();
            let entry = opcode::Read::new(fd_of(fd), memory, len).offset(at).build();
            // SAFETY: the memory is the buffer's.
            let request = unsafe { self.start(entry, HeldMemory::Filled(buf), fd, OnDrop::Finish) };
            let (result, hold) = request.await;
            buf = filled(hold);
            if !again(&result) {
                return (result, buf);
            }
        }
    }

    /// Writes `buf[from..]` once to byte `at` of a file; `flags` are those of `pwritev2`.
    pub(crate) async fn write_at(
        self: &Rc<Self>,
        fd: &SharedFd,
        mut buf: Buf,
        from: usize,
        at: u64,
        flags: i32,
    ) -> (io::Result<u32>, Buf) {
        loop {
            let len = transfer_len(buf.len(), from);
            let entry = opcode::Write::new(fd_of(fd), buf[from..].as_ptr(), len)
                .offset(at)
                .rw_flags(flags)
                .build();
            // SAFETY: the memory is the buffer's.
            let request = unsafe { self.start(entry, HeldMemory::Read(buf), fd, OnDrop::Finish) };
            let (result, hold) = request.await;
            buf = read(hold);
            if !again(&result) {
                return (result, buf);
            }
        }
    }

    /// Makes a file's data durable, with the metadata that is needed to find the data.
    pub(crate) async fn fdatasync(self: &Rc<Self>, fd: &SharedFd) -> io::Result<()> {
        let build = || {
            opcode::Fsync::new(fd_of(fd))
                .flags(types::FsyncFlags::DATASYNC)
                .build()
        };
        self.plain(fd, OnDrop::Finish, build).await.map(drop)
    }

    /// Executes `fallocate(2)`.
    pub(crate) async fn fallocate(
        self: &Rc<Self>,
        fd: &SharedFd,
        mode: i32,
        at: u64,
        len: u64,
    ) -> io::Result<()> {
        let build = || {
            opcode::Fallocate::new(fd_of(fd), len)
                .offset(at)
                .mode(mode)
                .build()
        };
        self.plain(fd, OnDrop::Finish, build).await.map(drop)
    }

    /// Discards part of a block device (Linux 6.12).
    pub(crate) async fn discard_blocks(
        self: &Rc<Self>,
        fd: &SharedFd,
        at: u64,
        len: u64,
    ) -> io::Result<()> {
        let mut command = [0; 16];
        command[..8].copy_from_slice(&len.to_ne_bytes());
        let build = || {
            opcode::UringCmd16::new(fd_of(fd), BLOCK_URING_CMD_DISCARD)
                .addr(Some(at))
                .cmd(command)
                .build()
        };
        self.plain(fd, OnDrop::Finish, build).await.map(drop)
    }

    /// Sends a command with sixteen bytes of data to the driver behind `fd`, and waits for its answer
    /// (`IORING_OP_URING_CMD`). The answer may be the driver's next event and never come.
    ///
    /// If the future is dropped, the command stays with the driver. It ends when the ring is closed.
    ///
    /// # Errors
    /// The driver's error; `EOPNOTSUPP` if the driver takes no commands.
    ///
    /// # Safety
    /// The command must name no memory.
    pub unsafe fn command(
        self: &Rc<Self>,
        fd: &SharedFd,
        op: u32,
        bytes: [u8; 16],
    ) -> impl Future<Output = io::Result<u32>> + use<> {
        let entry = opcode::UringCmd16::new(fd_of(fd), op).cmd(bytes).build();
        // SAFETY: the entry points to no memory, and by the caller's guarantee the command does not either.
        let request = unsafe { self.start(entry, HeldMemory::Nothing, fd, OnDrop::Stay) };
        async { request.await.0 }
    }

    /// Waits until one of `events` (`POLLIN`, …) or an error is present, and returns which.
    pub(crate) async fn poll(self: &Rc<Self>, fd: &SharedFd, events: i16) -> io::Result<u32> {
        let build = || opcode::PollAdd::new(fd_of(fd), events as u32).build();
        self.plain(fd, OnDrop::Cancel, build).await
    }

    /// Makes a request that uses no memory.
    async fn plain(
        self: &Rc<Self>,
        fd: &SharedFd,
        on_drop: OnDrop,
        build: impl Fn() -> squeue::Entry,
    ) -> io::Result<u32> {
        loop {
            // SAFETY: none of the entries passed in here points to memory.
            let request = unsafe { self.start(build(), HeldMemory::Nothing, fd, on_drop) };
            let (result, _) = request.await;
            if !again(&result) {
                return result;
            }
        }
    }

    /// Reads once from a descriptor without positions (an eventfd, a pipe, a character device). Returns the buffer with
    /// the number of bytes read; 0 is the end. Also waits if the descriptor is in non-blocking mode.
    ///
    /// If the future is dropped, the read is cancelled, or its data is lost.
    ///
    /// # Errors
    /// Those of `read(2)`.
    pub async fn read_fd(
        self: &Rc<Self>,
        fd: &SharedFd,
        mut buf: BufMut,
    ) -> io::Result<(BufMut, usize)> {
        loop {
            let len = transfer_len(buf.len(), 0);
            let entry = opcode::Read::new(fd_of(fd), buf.as_mut_ptr(), len)
                .offset(NO_OFFSET)
                .build();
            // SAFETY: the memory is the buffer's.
            let request = unsafe { self.start(entry, HeldMemory::Filled(buf), fd, OnDrop::Cancel) };
            let (result, hold) = request.await;
            buf = filled(hold);
            match result {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.poll(fd, libc::POLLIN).await?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map(|n| (buf, n as usize)),
            }
        }
    }

    /// Writes once to a descriptor without positions, and returns the number of bytes written.
    ///
    /// # Errors
    /// Those of `write(2)`.
    pub async fn write_fd(self: &Rc<Self>, fd: &SharedFd, mut buf: Buf) -> io::Result<usize> {
        loop {
            let len = transfer_len(buf.len(), 0);
            let entry = opcode::Write::new(fd_of(fd), buf.as_ptr(), len)
                .offset(NO_OFFSET)
                .build();
            // SAFETY: the memory is the buffer's.
            let request = unsafe { self.start(entry, HeldMemory::Read(buf), fd, OnDrop::Cancel) };
            let (result, hold) = request.await;
            buf = read(hold);
            match result {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.poll(fd, libc::POLLOUT).await?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map(|n| n as usize),
            }
        }
    }

    /// Receives once into `buf`.
    pub(crate) async fn recv(
        self: &Rc<Self>,
        fd: &SharedFd,
        mut buf: BufMut,
    ) -> (io::Result<u32>, BufMut) {
        loop {
            let len = transfer_len(buf.len(), 0);
            let entry = opcode::Recv::new(fd_of(fd), buf.as_mut_ptr(), len).build();
            // SAFETY: the memory is the buffer's.
            let request = unsafe { self.start(entry, HeldMemory::Filled(buf), fd, OnDrop::Cancel) };
            let (result, hold) = request.await;
            buf = filled(hold);
            if !again(&result) {
                return (result, buf);
            }
        }
    }

    /// Sends `buf[from..]`, in most cases all of it.
    pub(crate) async fn send(
        self: &Rc<Self>,
        fd: &SharedFd,
        mut buf: Buf,
        from: usize,
    ) -> (io::Result<u32>, Buf) {
        loop {
            let len = transfer_len(buf.len(), from);
            let entry = opcode::Send::new(fd_of(fd), buf[from..].as_ptr(), len)
                .flags(SEND_FLAGS)
                .build();
            // SAFETY: the memory is the buffer's.
            let request = unsafe { self.start(entry, HeldMemory::Read(buf), fd, OnDrop::Cancel) };
            let (result, hold) = request.await;
            buf = read(hold);
            if !again(&result) {
                return (result, buf);
            }
        }
    }

    /// Sends the rest of a message, in most cases all of it.
    pub(crate) async fn send_message(
        self: &Rc<Self>,
        fd: &SharedFd,
        mut message: Box<SocketMessage>,
    ) -> (io::Result<u32>, Box<SocketMessage>) {
        loop {
            message.point();
            let entry = opcode::SendMsg::new(fd_of(fd), &raw const message.header)
                .flags(SEND_FLAGS as u32)
                .build();
            // SAFETY: the header is in the box, and the box owns the memory that it points to.
            let request =
                unsafe { self.start(entry, HeldMemory::Message(message), fd, OnDrop::Cancel) };
            let (result, hold) = request.await;
            let HeldMemory::Message(back) = hold else {
                unreachable!("a request gives back what it held")
            };
            message = back;
            if !again(&result) {
                return (result, message);
            }
        }
    }

    /// Accepts the next connection of a listening socket.
    pub(crate) async fn accept(self: &Rc<Self>, fd: &SharedFd) -> io::Result<OwnedFd> {
        loop {
            let none = std::ptr::null_mut();
            let entry = opcode::Accept::new(fd_of(fd), none, none.cast())
                .flags(libc::SOCK_CLOEXEC)
                .build();
            // SAFETY: the entry points to no memory.
            let request = unsafe { self.start(entry, HeldMemory::NewFd, fd, OnDrop::Cancel) };
            let (result, _) = request.await;
            if !again(&result) {
                return result.map(|fd| new_fd(fd as i32));
            }
        }
    }

    /// Connects a socket.
    pub(crate) async fn connect(
        self: &Rc<Self>,
        fd: &SharedFd,
        address: SocketAddrAny,
    ) -> io::Result<()> {
        let address = Box::new(address);
        let memory = address.as_ptr().cast::<libc::sockaddr>();
        let entry = opcode::Connect::new(fd_of(fd), memory, address.addr_len()).build();
        // SAFETY: the address is in the box.
        let request =
            unsafe { self.start(entry, HeldMemory::Address(address), fd, OnDrop::Cancel) };
        request.await.0.map(drop)
    }
}

/// Sends everything, and returns an error instead of raising a signal if the peer is gone.
const SEND_FLAGS: i32 = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;

fn filled(hold: HeldMemory) -> BufMut {
    match hold {
        HeldMemory::Filled(buf) => buf,
        _ => unreachable!("a request gives back what it held"),
    }
}

fn read(hold: HeldMemory) -> Buf {
    match hold {
        HeldMemory::Read(buf) => buf,
        _ => unreachable!("a request gives back what it held"),
    }
}

impl SocketMessage {
    /// Creates a message of all of `bufs`, in order.
    #[expect(
        clippy::unnecessary_box_returns,
        reason = "the kernel knows its address"
    )]
    pub(crate) fn new(bufs: Vec<Buf>) -> Box<SocketMessage> {
        let parts = bufs
            .iter()
            .map(|buf| libc::iovec {
                iov_base: buf.as_ptr().cast_mut().cast(),
                iov_len: buf.len(),
            })
            .collect();
        // SAFETY: a message header is plain data for which all zeroes is "nothing".
        let header = unsafe { std::mem::zeroed() };
        Box::new(SocketMessage {
            _bufs: bufs,
            parts,
            sent_parts: 0,
            header,
        })
    }

    /// Returns true if everything is sent.
    pub(crate) fn is_sent(&self) -> bool {
        self.parts[self.sent_parts..]
            .iter()
            .all(|part| part.iov_len == 0)
    }

    /// Records that `n` more bytes are sent.
    pub(crate) fn advance(&mut self, mut n: usize) {
        while n > 0 {
            let part = &mut self.parts[self.sent_parts];
            let now = n.min(part.iov_len);
            // The address stays within the buffer or at its end.
            part.iov_base = part.iov_base.cast::<u8>().wrapping_add(now).cast();
            part.iov_len -= now;
            n -= now;
            if part.iov_len == 0 {
                self.sent_parts += 1;
            }
        }
    }

    /// Points the header to the remaining parts.
    fn point(&mut self) {
        let left = &mut self.parts[self.sent_parts..];
        self.header.msg_iov = left.as_mut_ptr();
        self.header.msg_iovlen = left.len().min(MESSAGE_PARTS_MAX) as _;
    }
}
