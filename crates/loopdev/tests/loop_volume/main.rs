//! A volume as a block device of the kernel: needs root, FUSE and loop; skipped loudly without them.

mod harness;
mod killed;
mod stopping;

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::Command;

use harness::{LoopMount, LoopServerPlan, able, run};

fn fio_verify(node: &str, extra: &[&str]) {
    let filename = format!("--filename={node}");
    let mut args = vec![
        "--name=verify",
        &filename,
        "--ioengine=libaio",
        "--direct=1",
        "--iodepth=32",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--size=48m",
    ];
    args.extend(extra);
    run("fio", &args);
}

#[test]
fn random_writes_are_read_back() {
    if !able(&["fio"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    for block_size in [512, 4096] {
        let mut server = LoopServerPlan {
            block_size,
            ..LoopServerPlan::new(dir.path(), "fio")
        }
        .serve();
        assert_eq!(server.queue("logical_block_size"), block_size.to_string());
        let mixed = format!("--bsrange={block_size}-2m");
        fio_verify(server.node(), &["--rw=randwrite", "--bs=4k"]);
        let align = format!("--blockalign={block_size}");
        fio_verify(
            server.node(),
            &["--rw=randrw", &mixed, &align, "--randseed=7"],
        );
        fio_verify(
            server.node(),
            &["--rw=randwrite", "--bs=64k", "--fdatasync=16"],
        );
        server.detach().expect("idle");
    }
}

#[test]
fn a_file_served_by_the_same_ring_is_read_back_as_written() {
    if !able(&["fio"]) {
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let disk = dir.path().join("disk.img");
    forebay_linux::create_file(&disk, 64 << 20, true).expect("created");
    let mut server = LoopServerPlan {
        disk: Some(&disk),
        ..LoopServerPlan::new(dir.path(), "disk")
    }
    .serve();
    fio_verify(
        server.node(),
        &["--rw=randwrite", "--bs=4k", "--fdatasync=64"],
    );
    fio_verify(server.node(), &["--rw=randrw", "--bsrange=4k-2m"]);
    server.detach().expect("idle");
}

#[test]
fn a_tree_copied_to_a_filesystem_is_complete_after_unmount_and_fsck() {
    if !able(&[
        "mkfs.ext4",
        "mkfs.xfs",
        "mkfs.btrfs",
        "fsck.ext4",
        "xfs_repair",
        "btrfs",
        "diff",
    ]) {
        return;
    }
    let tree = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    for (mkfs, check) in [
        ("mkfs.ext4 -q -F", "fsck.ext4 -f -n"),
        ("mkfs.xfs -q -f", "xfs_repair -n"),
        ("mkfs.btrfs -q -f", "btrfs check"),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut server = LoopServerPlan {
            len: 512 << 20,
            ..LoopServerPlan::new(dir.path(), "fs")
        }
        .serve();
        let on_node = |command: &str| {
            let mut words: Vec<&str> = command.split(' ').collect();
            words.push(server.node());
            run(words[0], &words[1..])
        };
        on_node(mkfs);
        let at = dir.path().join("mnt");
        let copy = at.join("copy");
        let copy = copy.to_str().expect("text");
        let mounted = LoopMount::new(server.node(), &at);
        run("cp", &["-r", tree, copy]);
        drop(mounted);
        on_node(check);
        let mounted = LoopMount::new(server.node(), &at);
        run("diff", &["-r", tree, copy]);
        drop(mounted);
        assert!(server.flushes() > 0, "{mkfs}");
        server.detach().expect("unmounted");
    }
}

#[test]
fn a_sync_of_the_block_device_flushes_the_volume() {
    if !able(&[]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let server = LoopServerPlan::new(dir.path(), "sync").serve();
    let mut node = File::options()
        .write(true)
        .open(&server.node)
        .expect("open");
    let before = server.flushes();
    node.write_all(&[7; 8192]).expect("written");
    node.sync_all().expect("synced");
    assert!(server.flushes() > before);
    *server.strings.broken_flush.lock().expect("no panic") = true;
    for _ in 0..3 {
        node.seek(SeekFrom::Start(0)).expect("seek");
        node.write_all(&[8; 8192]).expect("written");
        let error = node.sync_all().expect_err("every time, not only the first");
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
    }
}

#[test]
fn only_discarded_and_zeroed_ranges_read_as_zeroes() {
    if !able(&["blkdiscard"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let server = LoopServerPlan::new(dir.path(), "zero").serve();
    let mut options = File::options();
    let node = options
        .read(true)
        .write(true)
        .open(&server.node)
        .expect("open");
    for how in [None, Some("--zeroout")] {
        node.write_all_at(&[0xaa; 1 << 20], 0).expect("written");
        node.sync_all().expect("synced");
        let mut args: Vec<&str> = how.into_iter().collect();
        args.extend(["--offset", "64KiB", "--length", "128KiB", server.node()]);
        run("blkdiscard", &args);
        let mut back = vec![0; 1 << 20];
        // Read the file below, which has no page cache that could hide a failure.
        let beneath = File::open(&server.file).expect("open");
        beneath.read_exact_at(&mut back, 0).expect("read");
        let zero = 64 << 10..192 << 10;
        assert!(back[zero.clone()].iter().all(|b| *b == 0), "{how:?}");
        assert!(
            back[..zero.start]
                .iter()
                .chain(&back[zero.end..])
                .all(|b| *b == 0xaa)
        );
    }
}

#[test]
fn a_volume_without_discard_offers_no_discards_and_still_zeroes_ranges() {
    if !able(&["blkdiscard", "fallocate"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let with = LoopServerPlan::new(dir.path(), "with").serve();
    let without = LoopServerPlan {
        unmaps: false,
        ..LoopServerPlan::new(dir.path(), "without")
    }
    .serve();
    assert_ne!(with.queue("discard_max_bytes"), "0");
    assert_eq!(without.queue("discard_max_bytes"), "0");
    let node = File::options()
        .write(true)
        .open(&without.node)
        .expect("open");
    node.write_all_at(&[0xaa; 1 << 20], 0).expect("written");
    node.sync_all().expect("synced");
    let range = ["--offset", "64KiB", "--length", "128KiB"];
    run(
        "blkdiscard",
        &[&["--zeroout"], &range[..], &[without.node()]].concat(),
    );
    // A program that makes a loop device of the file later gets the refusal, too.
    let file = File::options()
        .read(true)
        .write(true)
        .open(&without.file)
        .expect("open");
    let mut punch = Command::new("fallocate");
    punch.args(["--punch-hole", "--offset", "0", "--length", "4096"]);
    let punched = punch.arg(&without.file).output().expect("it runs");
    let said = String::from_utf8_lossy(&punched.stderr);
    assert!(said.contains("unsupported"), "{said}");
    let mut back = vec![0; 1 << 20];
    file.read_exact_at(&mut back, 0).expect("read");
    let zero = 64 << 10..192 << 10;
    let wrong = (0..back.len()).find(|at| back[*at] != if zero.contains(at) { 0 } else { 0xaa });
    assert_eq!(wrong, None);
}

#[test]
fn an_error_of_the_volume_is_eio_on_the_block_device() {
    if !able(&[]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let server = LoopServerPlan::new(dir.path(), "error").serve();
    *server.strings.broken.lock().expect("no panic") = 1 << 20..(1 << 20) + 1;
    let node = File::options()
        .read(true)
        .write(true)
        .open(&server.node)
        .expect("open");
    let mut buf = [0; 4096];
    let error = node.read_exact_at(&mut buf, 1 << 20).expect_err("broken");
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
    node.read_exact_at(&mut buf, 4 << 20)
        .expect("elsewhere it is well");
    node.write_all_at(&buf, 1 << 20)
        .expect("into the page cache");
    let error = node.sync_all().expect_err("broken");
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
    *server.strings.broken.lock().expect("no panic") = 0..0;
    node.write_all_at(&buf, 1 << 20).expect("mended");
    node.sync_all().expect("mended");
}

#[test]
fn the_volume_file_belongs_to_its_owner_and_keeps_its_size_and_name() {
    if !able(&[]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let server = LoopServerPlan::new(dir.path(), "file").serve();
    let stat = std::fs::metadata(&server.file).expect("stat");
    assert_eq!(
        (stat.mode() & 0o7777, stat.uid(), stat.len()),
        (0o600, 0, 64 << 20)
    );
    let parent = server.file.parent().expect("a directory");
    let names: Vec<_> = std::fs::read_dir(parent).expect("list").flatten().collect();
    assert_eq!(names.len(), 1);
    let file = File::options()
        .write(true)
        .open(&server.file)
        .expect("open");
    assert!(file.set_len(1).is_err());
    assert!(std::fs::remove_file(&server.file).is_err());
    assert!(File::create(parent.join("other")).is_err());
    assert!(file.write_all_at(&[0; 4096], 64 << 20).is_err());
}

/// Found when a read of a megabyte into memory that does not begin on a page boundary failed: the kernel splits such a
/// request inside a block.
#[test]
fn requests_with_memory_not_aligned_to_pages_are_served() {
    if !able(&["fio"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let server = LoopServerPlan::new(dir.path(), "memory").serve();
    let offset = ["--rw=randrw", "--bs=2m", "--iomem_align=512"];
    fio_verify(server.node(), &offset);
    fio_verify(server.file.to_str().expect("text"), &offset);
}

#[test]
fn an_unaligned_write_preserves_the_surrounding_bytes() {
    if !able(&[]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let server = LoopServerPlan::new(dir.path(), "midst").serve();
    let mut options = File::options();
    let file = options
        .read(true)
        .write(true)
        .open(&server.file)
        .expect("open");
    let mut expected = vec![1; 16 << 10];
    file.write_all_at(&expected, 0).expect("written");
    file.write_all_at(&[2; 5000], 3000).expect("written");
    expected[3000..8000].fill(2);
    let mut back = vec![0; 16 << 10];
    file.read_exact_at(&mut back, 0).expect("read");
    assert!(back == expected);
    let mut part = [0; 700];
    file.read_exact_at(&mut part, 7500).expect("read");
    assert_eq!(part, expected[7500..8200]);
}
