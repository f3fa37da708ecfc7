//! An in-memory byte stream with two ends, for a client in the same process: tests and fuzzing.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use forebay_device::{Buf, BufMut};
use forebay_rt::Event;

use crate::client::ServerStream;
use crate::server::{NbdWire, WireFuture};

struct DuplexPipe {
    bytes: RefCell<VecDeque<u8>>,
    capacity: usize,
    /// Limit on the bytes of one transfer.
    grain: Cell<usize>,
    closed: Cell<bool>,
    changed: Event,
}

impl DuplexPipe {
    fn new() -> Rc<DuplexPipe> {
        Rc::new(DuplexPipe {
            bytes: RefCell::default(),
            capacity: 1 << 20,
            grain: Cell::new(usize::MAX),
            closed: Cell::new(false),
            changed: Event::new(),
        })
    }

    fn close(&self) {
        self.closed.set(true);
        self.changed.notify_all();
    }

    async fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut sent = 0;
        while sent < bytes.len() {
            let n = self
                .changed
                .until(|| {
                    let room = self.capacity - self.bytes.borrow().len();
                    (room > 0 || self.closed.get()).then_some(room)
                })
                .await;
            if self.closed.get() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let end = bytes.len().min(sent + n);
            self.bytes.borrow_mut().extend(&bytes[sent..end]);
            sent = end;
            self.changed.notify_all();
        }
        Ok(())
    }

    async fn recv(&self, out: &mut [u8]) -> usize {
        let there = || !self.bytes.borrow().is_empty() || self.closed.get();
        self.changed.until(|| there().then_some(())).await;
        let mut bytes = self.bytes.borrow_mut();
        let n = bytes.len().min(out.len()).min(self.grain.get());
        for (slot, byte) in out.iter_mut().zip(bytes.drain(..n)) {
            *slot = byte;
        }
        drop(bytes);
        self.changed.notify_all();
        n
    }
}

/// One end of the stream.
pub struct DuplexEnd {
    incoming: Rc<DuplexPipe>,
    outgoing: Rc<DuplexPipe>,
}

/// Returns two connected ends.
pub fn pair() -> (Rc<DuplexEnd>, Rc<DuplexEnd>) {
    let (a, b) = (DuplexPipe::new(), DuplexPipe::new());
    let end = |incoming: &Rc<DuplexPipe>, outgoing: &Rc<DuplexPipe>| {
        Rc::new(DuplexEnd {
            incoming: Rc::clone(incoming),
            outgoing: Rc::clone(outgoing),
        })
    };
    (end(&a, &b), end(&b, &a))
}

impl DuplexEnd {
    /// Sends `bytes`, and waits for free capacity in the stream.
    ///
    /// # Errors
    /// If the stream is closed.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.outgoing.send(bytes).await
    }

    /// Reads exactly `n` bytes; `None` if the stream ends before.
    pub async fn read(&self, n: usize) -> Option<Vec<u8>> {
        let mut out = vec![0; n];
        let mut done = 0;
        while done < n {
            match self.incoming.recv(&mut out[done..]).await {
                0 => return None,
                got => done += got,
            }
        }
        Some(out)
    }

    /// Makes the bytes sent by this end arrive in transfers of at most `n` bytes.
    pub fn send_in_grains(&self, n: usize) {
        self.outgoing.grain.set(n);
    }

    /// Returns the number of bytes that arrived and are unread.
    pub fn unread(&self) -> usize {
        self.incoming.bytes.borrow().len()
    }

    /// Returns the number of bytes sent that the other end has not received.
    pub fn untaken(&self) -> usize {
        self.outgoing.bytes.borrow().len()
    }
}

impl NbdWire for DuplexEnd {
    fn recv(&self, mut buf: BufMut) -> WireFuture<'_, (BufMut, usize)> {
        Box::pin(async move {
            let n = self.incoming.recv(&mut buf).await;
            Ok((buf, n))
        })
    }

    fn send(&self, bufs: Vec<Buf>) -> WireFuture<'_, ()> {
        Box::pin(async move {
            for buf in bufs {
                self.outgoing.send(&buf).await?;
            }
            Ok(())
        })
    }

    fn shutdown(&self) {
        self.incoming.close();
        self.outgoing.close();
    }
}

impl ServerStream for Rc<DuplexEnd> {
    async fn read(&self, n: usize) -> io::Result<Vec<u8>> {
        let read = DuplexEnd::read(self, n).await;
        read.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    async fn write(&self, parts: &[&[u8]]) -> io::Result<()> {
        for part in parts {
            DuplexEnd::write(self, part).await?;
        }
        Ok(())
    }
}
