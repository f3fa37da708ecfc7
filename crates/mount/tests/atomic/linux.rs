//! Linux interfaces of a filesystem beside names, reads and writes.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use rustix::fs::{
    CWD, FallocateFlags, RenameFlags, XattrFlags, copy_file_range, fallocate, getxattr,
    removexattr, renameat_with, setxattr, statvfs,
};
use rustix::io::Errno;

use crate::harness::{AtomicMount, has, skip};
use crate::programs::{run, unmount};
use crate::users::{as_nobody, open_to_all};

const MIB: u64 = 1 << 20;

#[test]
fn rename_can_leave_a_whiteout_and_the_filesystem_works_as_an_overlay_upper_layer() {
    let test = "rename_can_leave_a_whiteout_and_the_filesystem_works_as_an_overlay_upper_layer";
    let Some(mounted) = AtomicMount::new(test) else {
        return;
    };
    let dir = mounted.dir();
    let [a, b, c] = ["a", "b", "c"].map(|name| dir.join(name));
    for path in [&a, &c] {
        fs::write(path, path.to_str().unwrap()).expect("written");
    }
    let moved = renameat_with(CWD, &a, CWD, &b, RenameFlags::WHITEOUT);
    moved.expect("moved");
    let is_whiteout = |path: &Path| {
        let left = fs::symlink_metadata(path).expect("left");
        let is_one = left.file_type().is_char_device() && left.rdev() == 0;
        is_one && left.mode() & 0o7777 == 0 && left.nlink() == 1
    };
    assert!(is_whiteout(&a) && fs::read(&b).expect("read") == a.to_str().unwrap().as_bytes());
    let flags = RenameFlags::WHITEOUT | RenameFlags::NOREPLACE;
    assert_eq!(renameat_with(CWD, &b, CWD, &c, flags), Err(Errno::EXIST));
    let flags = RenameFlags::WHITEOUT | RenameFlags::EXCHANGE;
    assert_eq!(renameat_with(CWD, &b, CWD, &c, flags), Err(Errno::INVAL));
    renameat_with(CWD, &b, CWD, &c, RenameFlags::WHITEOUT).expect("moved over another");
    assert!(is_whiteout(&b) && fs::read(&c).expect("read") == a.to_str().unwrap().as_bytes());
    assert_eq!(fs::read_dir(&dir).expect("listed").count(), 3);
    let layers = ["upper", "work", "lower", "merged"].map(|name| dir.join(name));
    for layer in &layers {
        fs::create_dir(layer).expect("made");
    }
    let [upper, work, lower, merged] = layers.map(|layer| layer.display().to_string());
    let lower_dir = tempfile::tempdir().expect("a lower layer elsewhere");
    for name in ["goes", "moves"] {
        fs::write(lower_dir.path().join(name), name).expect("written");
    }
    let options = format!(
        "lowerdir={},upperdir={upper},workdir={work}",
        lower_dir.path().display()
    );
    let mut mount = Command::new("mount");
    mount.args(["-t", "overlay", "overlay", "-o", &options, &merged]);
    let overlaid = mount.output().expect("started");
    if overlaid.status.success() {
        let merged = Path::new(&merged);
        fs::remove_file(merged.join("goes")).expect("removed");
        fs::rename(merged.join("moves"), merged.join("moved")).expect("moved");
        assert!(!merged.join("goes").exists() && !merged.join("moves").exists());
        assert_eq!(fs::read(merged.join("moved")).expect("read"), b"moves");
        let upper = Path::new(&upper);
        assert!(is_overlaid_whiteout(&upper.join("goes")));
        assert!(is_overlaid_whiteout(&upper.join("moves")));
        unmount(merged);
    } else {
        skip(test, "no overlay filesystem; only its requests were made");
    }
    drop(lower);
    mounted.finish();
}

/// Returns true if overlayfs has left a whiteout. Such a whiteout has no permissions either, but may have more than one
/// name.
fn is_overlaid_whiteout(path: &Path) -> bool {
    let left = fs::symlink_metadata(path).expect("left");
    left.file_type().is_char_device() && left.rdev() == 0
}

#[test]
fn the_creation_time_of_a_file_never_changes() {
    let Some(mounted) = AtomicMount::new("the_creation_time_of_a_file_never_changes") else {
        return;
    };
    let path = mounted.dir().join("a");
    let before = SystemTime::now();
    fs::write(&path, b"1").expect("written");
    let after = SystemTime::now();
    let made = || fs::metadata(&path).expect("known").created().expect("told");
    let first = made();
    // The clock of files may be coarser.
    assert!(first >= before - std::time::Duration::from_secs(1) && first <= after);
    fs::write(&path, b"2").expect("written");
    File::open(&path)
        .expect("opened")
        .set_modified(SystemTime::UNIX_EPOCH)
        .expect("set");
    assert_eq!(made(), first);
    let known = fs::metadata(&path).expect("known");
    assert_eq!(
        known.modified().expect("told"),
        SystemTime::UNIX_EPOCH,
        "times are not mixed up"
    );
    mounted.finish();
}

#[test]
fn extended_attributes_have_the_name_spaces_of_linux() {
    let test = "extended_attributes_have_the_name_spaces_of_linux";
    let Some(mounted) = AtomicMount::new(test) else {
        return;
    };
    let path = mounted.dir().join("a");
    fs::write(&path, b"").expect("written");
    let set = |name: &str| setxattr(&path, name, b"value", XattrFlags::empty());
    for name in ["user.a", "trusted.a", "security.a"] {
        set(name).expect(name);
    }
    for name in ["a", "other.a", "system.a", "usera", "User.a"] {
        assert_eq!(set(name), Err(Errno::OPNOTSUPP), "{name}");
        let read = getxattr(&path, name, &mut [0_u8; 16]);
        assert_eq!(read, Err(Errno::OPNOTSUPP), "{name}");
        assert_eq!(removexattr(&path, name), Err(Errno::OPNOTSUPP), "{name}");
    }
    assert_eq!(set("user."), Err(Errno::INVAL));
    if has("setpriv") && has("python3") {
        open_to_all(&mounted.dir());
        let names = "import os; assert os.listxattr(\"a\") == [\"security.a\", \"user.a\"] or \
                     os.listxattr(\"a\") == [\"user.a\", \"security.a\"], os.listxattr(\"a\")";
        as_nobody(&mounted.dir(), &format!("python3 -c '{names}'"));
    } else {
        skip(
            test,
            "no setpriv or python3; names were not listed by others",
        );
    }
    mounted.finish();
}

/// Requests a shutdown (`FS_IOC_SHUTDOWN`) by the path of a directory.
const SHUT_DOWN: &str = r"
import fcntl, os, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, bytes(4))
";

#[test]
fn a_filesystem_shut_down_by_root_keeps_its_data_and_refuses_changes() {
    let test = "a_filesystem_shut_down_by_root_keeps_its_data_and_refuses_changes";
    if !has("python3") || !has("setpriv") {
        return skip(test, "no python3, or no setpriv");
    }
    let Some(mounted) = AtomicMount::new(test) else {
        return;
    };
    let dir = mounted.dir();
    open_to_all(&dir);
    fs::write(dir.join("a"), b"1").expect("written");
    let as_other = format!("! python3 -c '{SHUT_DOWN}' . 2>/dev/null");
    as_nobody(&dir, &as_other);
    let open = File::options().write(true).open(dir.join("a"));
    let mut open = open.expect("not shut down by another");
    run(Command::new("python3").args(["-c", SHUT_DOWN]).arg(&dir));
    let refused = |done: std::io::Result<()>| {
        assert_eq!(done.expect_err("refused").raw_os_error(), Some(libc::EIO));
    };
    refused(fs::write(dir.join("b"), b"2"));
    refused(std::io::Write::write_all(&mut open, b"2"));
    refused(fs::remove_file(dir.join("a")));
    drop(open);
    mounted.finish();
}

/// A file that is read and written directly, and also mapped. Its argument is the path of the file.
const MAPPED_DIRECT: &str = r#"
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT)
os.ftruncate(fd, 8192)
memory = mmap.mmap(fd, 8192)
memory[0:6] = b"stored"
page = mmap.mmap(-1, 4096)
os.preadv(fd, [page], 0)
assert page[0:6] == b"stored", page[0:6]
page[0:7] = b"written"
os.pwritev(fd, [page], 4096)
assert memory[4096:4103] == b"written", memory[4096:4103]
os.pwritev(fd, [page], 0)
assert memory[0:7] == b"written", memory[0:7]
"#;

#[test]
fn a_file_open_for_direct_io_can_be_mapped() {
    let test = "a_file_open_for_direct_io_can_be_mapped";
    if !has("python3") {
        return skip(test, "no python3");
    }
    let Some(mounted) = AtomicMount::new(test) else {
        return;
    };
    let mut python = Command::new("python3");
    python.args(["-B", "-c", MAPPED_DIRECT]);
    run(python.arg(mounted.dir().join("file")));
    mounted.finish();
}

/// Found by xfstests' generic/451: after a buffered read was answered during an asynchronous direct write, the kernel
/// kept the old data permanently.
#[test]
fn reads_through_the_page_cache_see_a_direct_write_that_has_ended() {
    let test = "reads_through_the_page_cache_see_a_direct_write_that_has_ended";
    if !has("python3") {
        return skip(test, "no python3");
    }
    let Some(mounted) = AtomicMount::new(test) else {
        return;
    };
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/atomic/direct.py");
    let mut python = Command::new("python3");
    python.arg("-B").arg(program);
    run(python.arg(mounted.dir().join("file")));
    mounted.finish();
}

#[test]
fn space_reserved_by_fallocate_is_unavailable_to_other_files() {
    let Some(mounted) =
        AtomicMount::new("space_reserved_by_fallocate_is_unavailable_to_other_files")
    else {
        return;
    };
    let dir = mounted.dir();
    let kept = File::create(dir.join("kept")).expect("made");
    let free = || {
        let stat = statvfs(&dir).expect("told");
        stat.f_bavail * stat.f_frsize
    };
    let before = free();
    fallocate(&kept, FallocateFlags::KEEP_SIZE, 0, 4 * MIB).expect("reserved");
    fallocate(&kept, FallocateFlags::empty(), 0, MIB).expect("reserved already");
    let meta = kept.metadata().expect("told");
    assert_eq!((meta.len(), meta.blocks()), (MIB, 4 * MIB / 512));
    assert!(before - free() >= 4 * MIB, "{before} {}", free());
    let filler = File::create(dir.join("filler")).expect("made");
    let mut at = 0;
    for len in [MIB, 4096, 512] {
        let data = vec![b'f'; len as usize];
        let full = loop {
            match filler.write_all_at(&data, at) {
                Ok(()) => at += len,
                Err(error) => break error,
            }
        };
        assert_eq!(full.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
    }
    let too_much = fallocate(&filler, FallocateFlags::KEEP_SIZE, at, MIB);
    assert_eq!(too_much, Err(Errno::NOSPC));
    for block in (0..4 * MIB / 4096).rev() {
        let data = [block as u8; 4096];
        kept.write_all_at(&data, block * 4096).expect("it has room");
    }
    kept.sync_all().expect("durable");
    fallocate(
        &kept,
        FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE,
        0,
        2 * MIB,
    )
    .expect("a hole");
    filler
        .write_all_at(&[b'f'; 65536], at)
        .expect("there is room again");
    drop((kept, filler));
    mounted.finish();
}

/// Found by a hostile review: a copy with more extents than a batch may have was refused (E2BIG).
#[test]
fn a_file_of_many_small_extents_is_copied_with_its_holes() {
    let Some(mounted) = AtomicMount::new("a_file_of_many_small_extents_is_copied_with_its_holes")
    else {
        return;
    };
    let dir = mounted.dir();
    let (from, to) = (dir.join("from"), dir.join("to"));
    let source = File::create(&from).expect("made");
    for at in (0..8 * MIB).step_by(1024) {
        source
            .write_all_at(&[at as u8 | 1; 512], at)
            .expect("written");
    }
    source.set_len(8 * MIB).expect("a hole at the end");
    drop(source);
    let (source, target) = (
        File::open(&from).expect("opened"),
        File::create(&to).expect("made"),
    );
    let (mut at, mut there) = (0, 0);
    while at < 8 * MIB {
        let left = (8 * MIB - at) as usize;
        let copied = copy_file_range(&source, Some(&mut at), &target, Some(&mut there), left);
        assert!(copied.expect("copied") > 0);
    }
    assert_eq!(there, 8 * MIB);
    assert!(fs::read(&from).expect("read") == fs::read(&to).expect("read"));
    let blocks = |path| fs::metadata(path).expect("told").blocks();
    assert_eq!(blocks(&from), blocks(&to));
    drop((source, target));
    mounted.finish();
}
