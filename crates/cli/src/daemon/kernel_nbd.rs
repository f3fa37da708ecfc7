//! The kernel as a client of our own NBD server.
//!
//! The kernel's end of the socket begins with requests, without a handshake. So the server sees a
//! [`Greeted`] wire, which says the client's part of the handshake in the kernel's stead and keeps
//! the server's part from it.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use forebay_device::{Buf, BufMut, Device};
use forebay_os::{Ring, Stream};
use forebay_serve::blockdev::{NbdDevice, NbdError, NbdExport, attach_nbd};
use forebay_serve::nbd::format::export_flag;
use forebay_serve::nbd::{Server, Wire, WireFuture};

/// What a client sends that wants the default export: flags (fixed newstyle, no zeroes), then the
/// option NBD_OPT_EXPORT_NAME with an empty name.
const CLIENT_HANDSHAKE: [u8; 20] = *b"\x00\x00\x00\x03IHAVEOPT\x00\x00\x00\x01\x00\x00\x00\x00";
/// What the server sends then: magic, magic, flags; size and flags of the export.
const SERVER_HANDSHAKE_BYTES: usize = 18 + 10;

/// Attaches a free `/dev/nbdN` that `server` serves its default export to.
pub(super) async fn attach(
    ring: &Rc<Ring>,
    device: &Rc<dyn Device>,
    server: &Server,
) -> Result<NbdDevice, NbdError> {
    use export_flag::{HAS_FLAGS, SEND_FLUSH, SEND_FUA, SEND_TRIM, SEND_WRITE_ZEROES};
    let geometry = device.geometry();
    let trim = match geometry.discard_granularity {
        0 => 0,
        _ => SEND_TRIM,
    };
    let (nbd, socket) = attach_nbd(NbdExport {
        len: geometry.len,
        block_size: geometry.block_size,
        transmission_flags: HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_WRITE_ZEROES | trim,
    })?;
    let node = nbd.path().to_owned();
    let stream = Stream::from_fd(ring, socket.into()).map_err(|source| NbdError::Io {
        doing: "use the socket of",
        device: node,
        source,
    })?;
    server.connect(Rc::new(Greeted::new(stream)));
    Ok(nbd)
}

/// A connection whose handshake is over for the client and not yet for the server.
struct Greeted {
    stream: Stream,
    /// What the server has not received of the client's part.
    to_say: RefCell<&'static [u8]>,
    /// Bytes of the server's part still to come.
    to_swallow: Cell<usize>,
}

impl Greeted {
    fn new(stream: Stream) -> Greeted {
        Greeted {
            stream,
            to_say: RefCell::new(&CLIENT_HANDSHAKE),
            to_swallow: Cell::new(SERVER_HANDSHAKE_BYTES),
        }
    }

    /// The next of the client's part, if any is left.
    fn say(&self, buf: &mut [u8]) -> Option<usize> {
        let mut left = self.to_say.borrow_mut();
        let n = left.len().min(buf.len());
        let (now, rest) = left.split_at(n);
        buf[..n].copy_from_slice(now);
        *left = rest;
        (n > 0).then_some(n)
    }

    /// What of `bufs` is for the kernel.
    fn swallow(&self, bufs: Vec<Buf>) -> Vec<Buf> {
        let mut for_kernel = Vec::with_capacity(bufs.len());
        for buf in bufs {
            let swallowed = self.to_swallow.get().min(buf.len());
            self.to_swallow.set(self.to_swallow.get() - swallowed);
            if swallowed < buf.len() {
                for_kernel.push(buf.slice(swallowed..));
            }
        }
        for_kernel
    }
}

impl Wire for Greeted {
    fn recv(&self, mut buf: BufMut) -> WireFuture<'_, (BufMut, usize)> {
        Box::pin(async move {
            match self.say(&mut buf) {
                Some(n) => Ok((buf, n)),
                None => self.stream.recv(buf).await,
            }
        })
    }

    fn send(&self, bufs: Vec<Buf>) -> WireFuture<'_, ()> {
        Box::pin(async move {
            let bufs = self.swallow(bufs);
            if bufs.is_empty() {
                return io::Result::Ok(());
            }
            self.stream.send_vectored(bufs).await
        })
    }

    fn shutdown(&self) {
        // An error means that the peer was faster.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use forebay_device::RamDevice;
    use forebay_rt::Executor;
    use forebay_serve::Memory;
    use forebay_serve::nbd::{Export, Limits};

    use super::*;

    /// What the kernel sends: a write of 512 bytes at 4096, and a read of them.
    fn requests() -> Vec<u8> {
        let mut bytes = Vec::new();
        for (command, data) in [(1u16, &[7u8; 512][..]), (0, &[])] {
            bytes.extend_from_slice(&0x2560_9513u32.to_be_bytes());
            bytes.extend_from_slice(&0u16.to_be_bytes());
            bytes.extend_from_slice(&command.to_be_bytes());
            bytes.extend_from_slice(&42u64.to_be_bytes());
            bytes.extend_from_slice(&4096u64.to_be_bytes());
            bytes.extend_from_slice(&512u32.to_be_bytes());
            bytes.extend_from_slice(data);
        }
        bytes
    }

    #[test]
    fn a_client_that_begins_with_requests_gets_replies_and_nothing_before() {
        let ring = Ring::new(32).unwrap();
        let executor = Executor::new(Rc::clone(&ring) as Rc<_>);
        let rt = executor.rt();
        executor.block_on(async move {
            let device = Rc::new(RamDevice::new(1 << 20, 512));
            let exports = vec![Export::new("v", device)];
            let server = Server::new(rt, exports, Limits::default(), &Memory::default()).unwrap();
            let (kernels, servers) = Stream::pair(&ring).unwrap();
            server.connect(Rc::new(Greeted::new(servers)));
            // One at a time, as requests in flight may be answered in any order.
            let bytes = requests();
            let (write, read) = bytes.split_at(28 + 512);
            for (request, reply) in [(write, 16), (read, 16 + 512)] {
                kernels
                    .send(BufMut::copy_of(request).freeze())
                    .await
                    .unwrap();
                let mut received = Vec::new();
                while received.len() < reply {
                    let (buf, n) = kernels.recv(BufMut::zeroed(4096)).await.unwrap();
                    assert!(n > 0, "the server hung up after {received:?}");
                    received.extend_from_slice(&buf[..n]);
                }
                assert_eq!(received[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
                assert_eq!(received.len(), reply);
                assert!(received[16..].iter().all(|byte| *byte == 7));
            }
            server.shutdown().await;
        });
    }
}
