//! A client that writes all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use forebay_nbd::client::BlockingNbdClient;

use crate::world::{CliSandbox, MIB, wait_until};

/// A client that writes all the time: the number of each write, to blocks in a scattered order.
pub(crate) struct RunningWriter {
    written: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// Blocks that the writer uses.
pub(crate) const BLOCKS: u64 = 4096;

impl RunningWriter {
    pub(crate) fn start(world: &CliSandbox) -> RunningWriter {
        let (written, ends) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let mut client = world.client();
        let (count, over) = (Arc::clone(&written), Arc::clone(&ends));
        let thread = std::thread::spawn(move || {
            while !over.load(Ordering::SeqCst) {
                let number = count.load(Ordering::SeqCst) + 1;
                let block = number * 7919 % BLOCKS;
                let bytes = number.to_le_bytes().repeat(512);
                client.write(block * 4096, &bytes).unwrap();
                count.store(number, Ordering::SeqCst);
            }
        });
        let writer = RunningWriter {
            written,
            ends,
            thread,
        };
        writer.wait_for_more(1000);
        writer
    }

    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    pub(crate) fn wait_for_more(&self, count: u64) {
        let before = self.written();
        wait_until("the writer goes on", || self.written() >= before + count);
    }

    pub(crate) fn end(self) {
        self.ends.store(true, Ordering::SeqCst);
        self.thread.join().unwrap();
    }
}

/// Reads the blocks of the writer.
pub(crate) fn content(mut client: BlockingNbdClient) -> Vec<u8> {
    let parts = (0..BLOCKS * 4096).step_by(MIB as usize);
    let parts = parts.map(|at| client.read(at, MIB as u32).unwrap());
    parts.flatten().collect()
}
