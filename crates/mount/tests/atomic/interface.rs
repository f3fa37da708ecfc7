//! The ioctls of atomic updates.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use forebay_atomic::{FileChange, FileTransaction, change, exchange, features, punch};
use forebay_device::BufMut;

use crate::harness::AtomicMount;

const PAGE: u64 = 4096;

fn open(path: &Path, flags: i32) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.custom_flags(flags).open(path).expect("opened")
}

/// Reads the file's data past the page cache.
fn there(path: &Path, at: u64, len: usize) -> Vec<u8> {
    let mut buf = BufMut::zeroed(len.next_multiple_of(512));
    let read = open(path, libc::O_DIRECT).read_at(&mut buf, at);
    buf[..read.expect("read").min(len)].to_vec()
}

fn read(file: &File, at: u64, len: usize) -> Vec<u8> {
    let mut buf = vec![0; len];
    let read = file.read_at(&mut buf, at).expect("read");
    buf.truncate(read);
    buf
}

fn errno<T: std::fmt::Debug>(result: io::Result<T>) -> Option<i32> {
    result.expect_err("refused").raw_os_error()
}

#[test]
fn several_ranges_of_a_file_change_atomically_and_cached_pages_are_updated() {
    let Some(mounted) =
        AtomicMount::new("several_ranges_of_a_file_change_atomically_and_cached_pages_are_updated")
    else {
        return;
    };
    let path = mounted.dir().join("a");
    let file = open(&path, 0);
    file.write_all_at(&[b'a'; 20_000], 0).expect("written");
    assert_eq!(read(&file, 0, 20_000), [b'a'; 20_000]);
    let said = features(&file).expect("said");
    assert_eq!((said.version, said.bytes_max), (1, 64 << 20));
    let parts = [
        FileChange::Write(100, b"new"),
        FileChange::Punch(PAGE..3 * PAGE),
        FileChange::Write(2 * PAGE, b"over it"),
        FileChange::Write(30_000, b"end"),
    ];
    change(&file, &parts).expect("done");
    let mut expected = vec![b'a'; 20_000];
    expected[100..103].copy_from_slice(b"new");
    expected[PAGE as usize..3 * PAGE as usize].fill(0);
    expected[2 * PAGE as usize..][..7].copy_from_slice(b"over it");
    expected.resize(30_000, 0);
    expected.extend_from_slice(b"end");
    assert!(read(&file, 0, 40_000) == expected);
    assert_eq!(file.metadata().expect("known").len(), 30_003);
    punch(&file, &[0..PAGE, 3 * PAGE..4 * PAGE]).expect("done");
    assert_eq!(read(&file, 100, 3), [0; 3]);
    let read_only = File::open(&path).expect("opened");
    assert_eq!(errno(change(&read_only, &parts)), Some(libc::EBADF));
    drop((file, read_only));
    mounted.finish();
}

#[test]
fn files_of_a_transaction_change_together_at_the_commit() {
    let Some(mounted) = AtomicMount::new("files_of_a_transaction_change_together_at_the_commit")
    else {
        return;
    };
    let paths = ["a", "b"].map(|name| mounted.dir().join(name));
    let [a, b] = [&paths[0], &paths[1]].map(|path| open(path, 0));
    for file in [&a, &b] {
        file.write_all_at(&[b'a'; 8192], 0).expect("written");
    }
    // One transaction with more data than one ioctl carries, with buffered writes, and with direct writes.
    let direct = open(&paths[1], libc::O_DIRECT);
    let both = FileTransaction::begin(&a).expect("begun");
    let long = vec![b'b'; 100_000];
    both.change(&a, &[FileChange::Write(1000, &long)])
        .expect("kept");
    both.join(&b).expect("joined");
    both.join(&direct).expect("joined");
    b.write_all_at(&[b'c'; 4096], 0).expect("kept");
    let page = BufMut::copy_of(&[b'd'; 4096]);
    direct.write_all_at(&page, 12_288).expect("kept");
    assert!(there(&paths[0], 0, 8192) == [b'a'; 8192]);
    assert!(there(&paths[1], 0, 8192) == [b'a'; 8192]);
    // The file grows as soon as it is written, and other readers read zeroes there.
    assert_eq!(b.metadata().expect("known").len(), 16_384);
    assert_eq!(there(&paths[1], 12_288, 4096), [0; 4096]);
    // Handles in the transaction read its uncommitted data.
    let mut own = BufMut::zeroed(4096);
    assert_eq!(direct.read_at(&mut own, 0).expect("read"), 4096);
    assert!(own[..] == [b'c'; 4096]);
    both.commit().expect("done");
    for (path, file) in paths.iter().zip([&a, &b]) {
        let len = file.metadata().expect("known").len() as usize;
        assert!(there(path, 0, len) == read(file, 0, len));
    }
    assert!(read(&a, 1000, 200_000) == long);
    assert!(read(&b, 0, 4096) == [b'c'; 4096]);
    assert!(read(&b, 12_288, 4096) == [b'd'; 4096]);
    // Afterwards, writes are immediate again.
    b.write_all_at(b"later", 0).expect("written");
    assert_eq!(there(&paths[1], 0, 5), b"later");
    drop((a, b, direct));
    mounted.finish();
}

#[test]
fn an_aborted_transaction_leaves_no_change() {
    let Some(mounted) = AtomicMount::new("an_aborted_transaction_leaves_no_change") else {
        return;
    };
    let path = mounted.dir().join("a");
    let file = open(&path, 0);
    file.write_all_at(&[b'a'; 8192], 0).expect("written");
    for closes in [false, true] {
        let owner = open(&path, 0);
        let writer = open(&path, 0);
        let abandoned = FileTransaction::begin(&owner).expect("begun");
        abandoned.join(&writer).expect("joined");
        writer.write_all_at(&[b'b'; 4096], 4096).expect("kept");
        writer.write_all_at(&[b'c'; 10], 0).expect("kept");
        writer.write_all_at(&[b'd'; 4096], 16_384).expect("kept");
        if closes {
            std::mem::forget(abandoned);
            drop((owner, writer));
            // The kernel reports a closed file without waiting for the answer.
            while file.metadata().expect("known").len() > 8192 || read(&file, 0, 1) == b"c" {
                std::thread::yield_now();
            }
        } else {
            drop(abandoned);
        }
        assert!(there(&path, 0, 20_000) == [b'a'; 8192]);
        assert!(read(&file, 0, 20_000) == [b'a'; 8192]);
        assert_eq!(file.metadata().expect("known").len(), 8192);
    }
    drop(file);
    mounted.finish();
}

#[test]
fn an_unsupported_change_is_refused_and_the_transaction_continues() {
    let Some(mounted) =
        AtomicMount::new("an_unsupported_change_is_refused_and_the_transaction_continues")
    else {
        return;
    };
    let path = mounted.dir().join("a");
    let file = open(&path, 0);
    file.write_all_at(&[b'a'; 8192], 0).expect("written");
    let one = FileTransaction::begin(&file).expect("begun");
    assert_eq!(errno(FileTransaction::begin(&file)), Some(libc::EBUSY));
    one.join(&file).expect("joined");
    assert_eq!(errno(one.join(&file)), Some(libc::EBUSY));
    let parts = [FileChange::Write(0, b"x")];
    assert_eq!(errno(change(&file, &parts)), Some(libc::EBUSY));
    assert_eq!(errno(file.set_len(10)), Some(libc::EBUSY));
    file.write_all_at(&[b'b'; 4096], 0).expect("kept");
    file.sync_all().expect("what is done is durable");
    // Another transaction of the same file is independent: the last commit wins.
    let other = open(&path, 0);
    let second = FileTransaction::begin(&other).expect("begun");
    second
        .change(&other, &[FileChange::Write(0, b"second")])
        .expect("kept");
    second.commit().expect("done");
    assert_eq!(there(&path, 0, 6), b"second");
    one.commit().expect("done");
    assert_eq!(there(&path, 0, 6), b"bbbbbb");
    // A transaction that exceeds the limit is not committed at all.
    let large = FileTransaction::begin(&file).expect("begun");
    large.join(&file).expect("joined");
    let part = vec![b'c'; 1 << 20];
    let mut kept = 0;
    let refused = loop {
        match file.write_all_at(&part, kept << 20) {
            Ok(()) => kept += 1,
            Err(error) => break error.raw_os_error(),
        }
    };
    assert_eq!((kept, refused), (64, Some(libc::E2BIG)));
    assert_eq!(errno(large.commit()), Some(libc::E2BIG));
    assert_eq!(file.metadata().expect("known").len(), 8192);
    assert!(read(&file, 4096, 8192) == [b'a'; 4096]);
    // A file that is removed before the commit.
    let gone = open(&mounted.dir().join("gone"), 0);
    let last = FileTransaction::begin(&file).expect("begun");
    last.change(&gone, &parts).expect("kept");
    std::fs::remove_file(mounted.dir().join("gone")).expect("removed");
    drop(gone);
    last.commit().expect("done, and gone with it");
    drop((file, other));
    mounted.finish();
}

#[test]
fn exchange_swaps_the_contents_of_two_files() {
    let Some(mounted) = AtomicMount::new("exchange_swaps_the_contents_of_two_files") else {
        return;
    };
    let [a, b] = ["a", "b"].map(|name| open(&mounted.dir().join(name), 0));
    a.write_all_at(&[b'a'; 100], 0).expect("written");
    b.write_all_at(&[b'b'; 100_000], 0).expect("written");
    exchange(&a, &b).expect("done");
    assert!(read(&a, 0, 200_000) == [b'b'; 100_000]);
    assert!(read(&b, 0, 200_000) == [b'a'; 100]);
    let lens = [&a, &b].map(|file| file.metadata().expect("known").len());
    assert_eq!(lens, [100_000, 100]);
    let read_only = File::open(mounted.dir().join("a")).expect("opened");
    assert_eq!(errno(exchange(&b, &read_only)), Some(libc::EBADF));
    assert_eq!(errno(exchange(&read_only, &b)), Some(libc::EBADF));
    drop((a, b, read_only));
    mounted.finish();
}

#[test]
fn a_range_of_a_file_is_copied_within_the_server_with_its_holes() {
    let Some(mounted) =
        AtomicMount::new("a_range_of_a_file_is_copied_within_the_server_with_its_holes")
    else {
        return;
    };
    let [a, b] = ["a", "b"].map(|name| open(&mounted.dir().join(name), 0));
    a.write_all_at(&[b'a'; 5000], 100).expect("written");
    a.write_all_at(&[b'b'; 5000], 10 << 20).expect("written");
    a.set_len(12 << 20).expect("grown");
    let (mut from, mut to) = (0, 77);
    loop {
        let n = rustix::fs::copy_file_range(&a, Some(&mut from), &b, Some(&mut to), 64 << 20);
        if n.expect("copied") == 0 {
            break;
        }
    }
    assert_eq!(from, 12 << 20);
    let len = b.metadata().expect("known").len();
    assert_eq!(len, 77 + (12 << 20));
    assert!(read(&b, 77, 16 << 20) == read(&a, 0, 16 << 20));
    assert_eq!(read(&b, 0, 77), [0; 77]);
    let blocks = std::os::unix::fs::MetadataExt::blocks(&b.metadata().expect("known"));
    assert!(blocks < 100, "{blocks}");
    drop((a, b));
    mounted.finish();
}

#[test]
fn an_append_goes_to_the_file_end_set_by_the_last_update() {
    let Some(mounted) = AtomicMount::new("an_append_goes_to_the_file_end_set_by_the_last_update")
    else {
        return;
    };
    let [path, longer] = ["a", "b"].map(|name| mounted.dir().join(name));
    let append = |path: &Path, data: &[u8]| {
        let mut file = OpenOptions::new().append(true).open(path).expect("opened");
        file.write_all(data).expect("appended");
    };
    let content = |path: &Path| std::fs::read(path).expect("read");
    // The kernel caches a size before each update.
    std::fs::write(&path, [b'a'; 100]).expect("written");
    let file = open(&path, 0);
    assert_eq!(file.metadata().expect("known").len(), 100);
    let appending = OpenOptions::new().append(true).open(&path).expect("opened");
    change(&file, &[FileChange::Write(100, &[b'B'; 5000])]).expect("done");
    (&appending).write_all(b"XYZ").expect("appended");
    assert_eq!(content(&path).len(), 5103);
    assert_eq!(&content(&path)[5099..], b"BXYZ");
    drop((file, appending));
    // Two files exchange their data: one grows, and one shrinks.
    std::fs::write(&path, [b'a'; 100]).expect("written");
    std::fs::write(&longer, [b'b'; 9000]).expect("written");
    exchange(open(&path, 0), open(&longer, 0)).expect("done");
    append(&path, b"XYZ");
    append(&longer, b"XYZ");
    assert_eq!((content(&path).len(), content(&longer).len()), (9003, 103));
    assert_eq!(&content(&path)[8999..], b"bXYZ");
    assert_eq!(&content(&longer)[99..], b"aXYZ");
    // Kept data that is not committed.
    std::fs::write(&path, [b'a'; 100]).expect("written");
    let file = OpenOptions::new().read(true).append(true).open(&path);
    let file = file.expect("opened");
    let transaction = FileTransaction::begin(&file).expect("begun");
    transaction.join(&file).expect("joined");
    (&file).write_all(&[b'K'; 4096]).expect("kept");
    (&file).write_all(b"kept").expect("kept");
    assert_eq!(file.metadata().expect("known").len(), 4200);
    drop(transaction);
    (&file).write_all(b"XYZ").expect("appended");
    assert_eq!(content(&path).len(), 103);
    assert_eq!(&content(&path)[99..], b"aXYZ");
    drop(file);
    mounted.finish();
}

#[test]
fn a_commit_of_whole_pages_updates_the_modification_time() {
    let Some(mounted) = AtomicMount::new("a_commit_of_whole_pages_updates_the_modification_time")
    else {
        return;
    };
    let path = mounted.dir().join("a");
    let file = open(&path, 0);
    file.write_all_at(&[b'a'; 2 * PAGE as usize], 0)
        .expect("written");
    let before = file.metadata().expect("known").modified().expect("a time");
    let transaction = FileTransaction::begin(&file).expect("begun");
    transaction.join(&file).expect("joined");
    file.write_all_at(&[b'N'; PAGE as usize], 0).expect("kept");
    transaction.commit().expect("done");
    let after = file.metadata().expect("known").modified().expect("a time");
    assert!(after > before, "{after:?}, and {before:?} before");
    drop(file);
    mounted.finish();
}
