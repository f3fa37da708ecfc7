//! Helpers shared by the tests.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::future::Future;
use std::path::PathBuf;
use std::rc::Rc;

use forebay_device::{Buf, BufMut, Device};
use forebay_linux::{DeviceOpenOptions, IoRing};
use forebay_rt::{Executor, Rt};

/// Runs the future of `make` on an executor with its own ring.
pub(crate) fn run<T, F>(make: impl FnOnce(Rt, Rc<IoRing>) -> F) -> T
where
    T: 'static,
    F: Future<Output = T> + 'static,
{
    let ring = IoRing::new(64).expect("an io_uring");
    let executor = Executor::new(Rc::clone(&ring) as Rc<dyn forebay_rt::Driver>);
    executor.block_on(make(executor.rt(), ring))
}

/// Creates a directory on a disk (not in memory), removed at the end.
pub(crate) fn dir() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Creates a file of `len` bytes.
pub(crate) fn file(dir: &tempfile::TempDir, name: &str, len: u64) -> PathBuf {
    let path = dir.path().join(name);
    forebay_linux::create_file(&path, len, false).unwrap();
    path
}

pub(crate) fn open(ring: &Rc<IoRing>, path: impl AsRef<std::path::Path>) -> Rc<dyn Device> {
    forebay_linux::open(ring, path, DeviceOpenOptions::default())
        .unwrap()
        .device
}

pub(crate) fn filled(len: usize, byte: u8) -> Buf {
    let mut buf = BufMut::zeroed(len);
    buf.fill(byte);
    buf.freeze()
}

pub(crate) async fn read(device: &dyn Device, at: u64, len: usize) -> Vec<u8> {
    device.read(at, BufMut::zeroed(len)).await.unwrap().to_vec()
}

/// Returns true for the superuser; otherwise reports the skipped test.
pub(crate) fn root_or_skip(what: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("SKIPPED (needs root): {what}");
    }
    root
}
