//! FUSE over io_uring: entries that the kernel fills with requests, and that carry the answers back (Linux 6.14;
//! `linux/fuse.h`: `fuse_uring_req_header`, `fuse_uring_cmd_req`; the kernel's documentation: `fuse-io-uring`).
//!
//! Each entry has a header and a payload in memory of this process. It alternates between the kernel and this process.
//! A command registers the entry with a queue, and completes when the entry contains a request. The command that
//! commits the answer also fetches the next request. So one system call submits many answers and receives many
//! requests, where `/dev/fuse` needs a call for each answer and each request.
//!
//! Invariant, on which the unsafe code here depends: an entry's memory belongs to the kernel from the command to its
//! completion. Otherwise it belongs to the entry's only [`FuseEntry`].
#![allow(
    unsafe_code,
    reason = "memory that a driver fills, by turns with us; see the invariant above"
)]

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::rc::Rc;
use std::task::Poll;

use io_uring::{opcode, types};

use super::queue::{UringEntry, too_short};
use super::reports::{FuseEntryTable, PrivateMapping};
use super::slot::{HeldMemory, UringSlot, UringSlotState};
use super::{IoRing, SharedFd};

/// Bytes of a request's own header, `fuse_in_header`, and of an answer's, `fuse_out_header`.
const IN_HEADER: usize = 40;
const OUT_HEADER: usize = 16;
/// Size and offset of the part of a request that depends on its opcode.
const OP_BYTES: usize = 128;
const OP_AT: usize = 128;
/// Offset of `fuse_uring_ent_in_out`: flags, the id for the commit, the length of the payload.
const COMMIT_AT: usize = 256 + 8;
const PAYLOAD_AT: usize = 256 + 16;
const HEADER: usize = 288;
/// Distance between headers, so that they share no cache line.
const HEADERS_APART: usize = 320;

const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;

/// The entries of one connection.
pub struct FuseEntries {
    ring: Rc<IoRing>,
    fd: SharedFd,
    reports: Rc<FuseEntryTable>,
    /// Number of entries of each queue.
    of_each: usize,
    payload: usize,
}

/// An entry that belongs to this process: it contains a request that must be answered.
pub struct FuseEntry {
    entries: Rc<FuseEntries>,
    index: usize,
}

impl FuseEntries {
    /// Registers `of_each` entries with each of `queues` queues (one for each possible processor) of the connection
    /// `fd`. Each entry has a payload of up to `payload` bytes, a multiple of the page size. The kernel's acceptance is
    /// reported when the entries [complete](FuseEntries::next).
    ///
    /// # Errors
    /// If memory is short, or the ring lacks long entries for such commands.
    pub fn register(
        ring: &Rc<IoRing>,
        fd: &SharedFd,
        queues: usize,
        of_each: usize,
        payload: usize,
    ) -> io::Result<Rc<FuseEntries>> {
        if !ring.queues.borrow().uring.is_long() {
            return Err(too_short());
        }
        let count = queues * of_each;
        let memory = PrivateMapping::new(count * (payload + HEADERS_APART))?;
        let place = |entry: usize| {
            // SAFETY: both lie inside the mapping: first all payloads, then all headers.
            let (header, body) = unsafe {
                let headers = memory.at.add(count * payload);
                (
                    headers.add(entry * HEADERS_APART),
                    memory.at.add(entry * payload),
                )
            };
            [(header, HEADER), (body, payload)].map(|(at, len)| libc::iovec {
                iov_base: at.as_ptr().cast(),
                iov_len: len,
            })
        };
        let entries = Rc::new(FuseEntries {
            ring: Rc::clone(ring),
            fd: Rc::clone(fd),
            reports: Rc::new(FuseEntryTable {
                told: RefCell::default(),
                places: (0..count).map(place).collect(),
                _memory: memory,
            }),
            of_each,
            payload,
        });
        (0..count).for_each(|entry| entries.give(entry, REGISTER, 0));
        Ok(entries)
    }

    /// Returns the number of entries.
    pub fn count(&self) -> usize {
        self.reports.places.len()
    }

    /// Waits for the next entry with a request.
    ///
    /// # Errors
    /// An error means that one of the entries will receive no more requests: the connection ended, or the kernel
    /// refused the entry.
    pub async fn next(self: &Rc<Self>) -> io::Result<FuseEntry> {
        let (index, result) = poll_fn(|context| {
            let mut told = self.reports.told.borrow_mut();
            if let Some(back) = told.back.pop_front() {
                return Poll::Ready(back);
            }
            told.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
        self.came(index, result)
    }

    fn came(self: &Rc<Self>, index: usize, result: i32) -> io::Result<FuseEntry> {
        if result < 0 {
            return Err(io::Error::from_raw_os_error(-result));
        }
        let entries = Rc::clone(self);
        Ok(FuseEntry { entries, index })
    }

    /// Passes an entry to the kernel.
    fn give(&self, index: usize, op: u32, commit: u64) {
        let place = &self.reports.places[index];
        let mut command = [0; 80];
        command[8..16].copy_from_slice(&commit.to_ne_bytes());
        let queue = (index / self.of_each) as u16;
        command[16..18].copy_from_slice(&queue.to_ne_bytes());
        // Address and number of the fragments (`with_len`). The kernel reads them when the entry is registered, and
        // keeps them.
        let at = place.as_ptr() as u64;
        let entry = opcode::UringCmd80::new(types::Fd(self.fd.as_raw_fd()), op)
            .cmd(command)
            .addr(Some(at))
            .build();
        let mut queues = self.ring.queues.borrow_mut();
        let key = queues.slots.insert(UringSlot {
            state: UringSlotState::Told,
            hold: HeldMemory::Entry(Rc::clone(&self.reports), index),
            _fd: Rc::clone(&self.fd),
            stays: true,
        });
        let entry = with_len(entry, place.len() as u32).user_data(key as u64);
        // SAFETY: the memory belongs to the reports, which the slot holds until the completion is seen. By the
        // invariant, nothing else uses it.
        unsafe { queues.push(UringEntry::Long(entry)) };
    }

    fn memory(&self, index: usize, part: usize) -> NonNull<u8> {
        let at = self.reports.places[index][part].iov_base.cast();
        NonNull::new(at).expect("inside a mapping")
    }
}

/// Returns the entry with `len` as its length, for which `io_uring`'s commands have no setter.
fn with_len(mut entry: io_uring::squeue::Entry128, len: u32) -> io_uring::squeue::Entry128 {
    const LEN_AT: usize = 24;
    // SAFETY: the entry is `io_uring_sqe`, plain data, whose length is the 32 bits at this offset (`linux/io_uring.h`).
    unsafe {
        let at = (&raw mut entry).cast::<u8>().add(LEN_AT).cast::<[u8; 4]>();
        at.write(len.to_ne_bytes());
    }
    entry
}

/// A request in an entry.
#[derive(Clone, Copy)]
pub struct FuseMessage<'a> {
    /// The header that all requests have.
    pub header: &'a [u8; IN_HEADER],
    /// The part that depends on the opcode, of a fixed length.
    pub op: &'a [u8],
    /// The rest: names, data.
    pub payload: &'a [u8],
}

impl FuseEntry {
    fn header(&self) -> &[u8; HEADER] {
        // SAFETY: inside the mapping, and ours by the invariant; no other reference exists while this is borrowed.
        unsafe { self.entries.memory(self.index, 0).cast().as_ref() }
    }

    fn header_mut(&mut self) -> &mut [u8; HEADER] {
        // SAFETY: as above, and borrowed exclusively.
        unsafe { self.entries.memory(self.index, 0).cast().as_mut() }
    }

    fn payload(&self) -> &[u8] {
        let at = self.entries.memory(self.index, 1);
        // SAFETY: each payload has this length; otherwise as above.
        unsafe { std::slice::from_raw_parts(at.as_ptr(), self.entries.payload) }
    }

    fn payload_mut(&mut self) -> &mut [u8] {
        let mut at = self.entries.memory(self.index, 1);
        // SAFETY: as above, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(at.as_mut(), self.entries.payload) }
    }

    fn number<const N: usize>(&self, at: usize) -> [u8; N] {
        let header = self.header();
        std::array::from_fn(|i| header[at + i])
    }

    /// Returns the request. Lengths beyond the entry's memory, which the kernel would not send, are cut.
    pub fn request(&self) -> FuseMessage<'_> {
        let payload = u32::from_ne_bytes(self.number(PAYLOAD_AT)) as usize;
        let payload = payload.min(self.entries.payload);
        let whole = u32::from_ne_bytes(self.number(0)) as usize;
        let op = whole.saturating_sub(IN_HEADER + payload).min(OP_BYTES);
        let header = self.header();
        FuseMessage {
            header: header.first_chunk().expect("the header is longer"),
            op: &header[OP_AT..OP_AT + op],
            payload: &self.payload()[..payload],
        }
    }

    /// Answers the request, and lets the kernel put the next request into the entry.
    ///
    /// # Panics
    /// If the payload is longer than the payload that the entry was registered with.
    pub fn answer(mut self, header: &[u8; OUT_HEADER], payload: &[u8]) {
        let commit = u64::from_ne_bytes(self.number(COMMIT_AT));
        self.payload_mut()[..payload.len()].copy_from_slice(payload);
        let ours = self.header_mut();
        ours[..OUT_HEADER].copy_from_slice(header);
        let len = (payload.len() as u32).to_ne_bytes();
        ours[PAYLOAD_AT..PAYLOAD_AT + 4].copy_from_slice(&len);
        self.entries.give(self.index, COMMIT_AND_FETCH, commit);
    }
}

#[cfg(test)]
mod tests {
    use forebay_rt::Executor;

    use super::*;

    #[test]
    fn a_driver_without_fuse_entries_returns_each_entry_once() {
        let ring = IoRing::new(8).unwrap();
        let executor = Executor::new(Rc::clone(&ring) as Rc<dyn forebay_rt::Driver>);
        let zero: SharedFd = Rc::new(std::fs::File::open("/dev/zero").unwrap().into());
        executor.block_on(async move {
            // More entries than fit into the queue at a time.
            let entries = FuseEntries::register(&ring, &zero, 5, 4, 4096);
            let entries = match entries {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => return,
                entries => entries.unwrap(),
            };
            for _ in 0..entries.count() {
                assert!(entries.next().await.is_err());
            }
            assert!(entries.reports.told.borrow().back.is_empty());
        });
    }
}
