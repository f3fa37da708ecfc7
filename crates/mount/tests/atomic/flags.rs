//! Flags of files that users set (`chattr`), and their restrictions.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown,
};
use std::path::Path;
use std::process::Command;

use forebay_atomic::{FileChange, FileTransaction};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, IFlags, Mode, OFlags, RenameFlags, Timespec, Timestamps,
    UTIME_NOW, XattrFlags, copy_file_range, fallocate, fcntl_setfl, ioctl_getflags, ioctl_setflags,
    linkat, openat, removexattr, renameat_with, setxattr, unlinkat, utimensat,
};
use rustix::io::Errno;

use crate::harness::{AtomicMount, has, skip};
use crate::programs::run;
use crate::users::{NOBODY, as_nobody, open_to_all};

fn set(path: &Path, flags: IFlags) {
    let file = File::open(path).expect("opened");
    ioctl_setflags(&file, flags).expect("set");
}

fn get(path: &Path) -> IFlags {
    ioctl_getflags(File::open(path).expect("opened")).expect("told")
}

#[track_caller]
fn refused<T>(done: io::Result<T>) {
    let error = done.err().expect("refused");
    assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{error}");
}

#[track_caller]
fn denied<T>(done: Result<T, Errno>) {
    assert_eq!(done.err(), Some(Errno::PERM));
}

fn touch(path: &Path, to_now: bool) -> Result<(), Errno> {
    let nanos = if to_now { UTIME_NOW } else { 0 };
    let time = Timespec {
        tv_sec: 1,
        tv_nsec: nanos,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    utimensat(CWD, path, &times, AtFlags::empty())
}

#[test]
fn an_immutable_file_refuses_changes_until_its_flag_is_cleared() {
    let Some(mounted) =
        AtomicMount::new("an_immutable_file_refuses_changes_until_its_flag_is_cleared")
    else {
        return;
    };
    let dir = mounted.dir();
    let [a, b, c] = ["a", "b", "c"].map(|name| dir.join(name));
    fs::write(&a, b"text").expect("written");
    fs::write(&b, b"other").expect("written");
    let early = File::options().read(true).write(true).open(&a);
    let mut early = early.expect("opened");
    setxattr(&a, "user.a", b"1", XattrFlags::empty()).expect("set");
    set(&a, IFlags::IMMUTABLE);
    assert_eq!(get(&a), IFlags::IMMUTABLE);
    // A file opened before the flag was set has the same restrictions as a file opened now.
    refused(early.write_all(b"more"));
    refused(early.set_len(0));
    for mode in [FallocateFlags::empty(), FallocateFlags::KEEP_SIZE] {
        denied(fallocate(&early, mode, 0, 100));
    }
    let source = File::open(&b).expect("opened");
    denied(copy_file_range(&source, None, &early, None, 5));
    refused(File::options().write(true).open(&a));
    refused(File::options().append(true).open(&a));
    refused(fs::set_permissions(&a, fs::Permissions::from_mode(0o600)));
    refused(std::os::unix::fs::chown(&a, Some(1), None));
    denied(touch(&a, false));
    denied(touch(&a, true));
    denied(setxattr(&a, "user.b", b"1", XattrFlags::empty()));
    denied(removexattr(&a, "user.a"));
    refused(fs::remove_file(&a));
    refused(fs::rename(&a, &c));
    refused(fs::rename(&b, &a));
    denied(renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE));
    refused(fs::hard_link(&a, &c));
    // The file stays immutable while other flags change, and remains readable.
    let file = File::open(&a).expect("opened");
    denied(ioctl_setflags(&file, IFlags::IMMUTABLE | IFlags::NODUMP));
    assert_eq!(fs::read(&a).expect("read"), b"text");
    set(&a, IFlags::empty());
    early.write_all(b"more").expect("written");
    fs::rename(&a, &c).expect("moved");
    assert_eq!(fs::read(&c).expect("read"), b"more");
    drop((early, source, file));
    mounted.finish();
}

#[test]
fn an_immutable_directory_refuses_new_and_removed_names() {
    let Some(mounted) = AtomicMount::new("an_immutable_directory_refuses_new_and_removed_names")
    else {
        return;
    };
    let dir = mounted.dir();
    let (inner, other) = (dir.join("d"), dir.join("other"));
    fs::create_dir_all(inner.join("below")).expect("made");
    fs::write(inner.join("a"), b"text").expect("written");
    fs::write(&other, b"other").expect("written");
    set(&inner, IFlags::IMMUTABLE);
    refused(File::create(inner.join("b")));
    refused(fs::create_dir(inner.join("b")));
    refused(std::os::unix::fs::symlink("x", inner.join("b")));
    refused(fs::hard_link(&other, inner.join("b")));
    let flags = OFlags::TMPFILE | OFlags::WRONLY;
    denied(openat(CWD, &inner, flags, Mode::from_raw_mode(0o600)));
    refused(fs::remove_file(inner.join("a")));
    refused(fs::remove_dir(inner.join("below")));
    refused(fs::rename(inner.join("a"), dir.join("b")));
    refused(fs::rename(&other, inner.join("b")));
    refused(fs::remove_dir(&inner));
    denied(unlinkat(CWD, &inner, AtFlags::REMOVEDIR));
    // The content of the directory is not protected itself.
    fs::write(inner.join("a"), b"changed").expect("written");
    fs::write(inner.join("below/c"), b"made").expect("made");
    set(&inner, IFlags::empty());
    fs::remove_dir_all(&inner).expect("removed");
    mounted.finish();
}

#[test]
fn an_append_only_file_accepts_only_appends() {
    let Some(mounted) = AtomicMount::new("an_append_only_file_accepts_only_appends") else {
        return;
    };
    let dir = mounted.dir();
    let [a, b] = ["a", "b"].map(|name| dir.join(name));
    fs::write(&a, b"one ").expect("written");
    set(&a, IFlags::APPEND);
    refused(File::options().write(true).open(&a));
    let cut = libc::O_APPEND | libc::O_TRUNC;
    refused(File::options().write(true).custom_flags(cut).open(&a));
    let mut log = File::options().append(true).open(&a).expect("opened");
    log.write_all(b"two ").expect("added");
    refused(log.set_len(2));
    fallocate(&log, FallocateFlags::KEEP_SIZE, 0, 100).expect("reserved");
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    denied(fallocate(&log, punch, 0, 2));
    // The kernel allows programs to clear the flag of an open file.
    fcntl_setfl(&log, OFlags::empty()).expect("cleared");
    refused(log.write_all_at(b"XX", 1));
    fcntl_setfl(&log, OFlags::APPEND).expect("set");
    log.write_all(b"three").expect("added");
    refused(fs::set_permissions(&a, fs::Permissions::from_mode(0o600)));
    denied(touch(&a, false));
    touch(&a, true).expect("touched");
    denied(setxattr(&a, "user.b", b"1", XattrFlags::empty()));
    refused(fs::remove_file(&a));
    refused(fs::rename(&a, &b));
    denied(linkat(CWD, &a, CWD, &b, AtFlags::empty()));
    let direct = libc::O_DIRECT | libc::O_APPEND;
    let opened = File::options().write(true).custom_flags(direct).open(&a);
    opened.expect("opened");
    assert_eq!(fs::read(&a).expect("read"), b"one two three");
    // In an append-only directory, names can be added but not removed.
    let inner = dir.join("d");
    fs::create_dir(&inner).expect("made");
    set(&inner, IFlags::APPEND);
    fs::write(inner.join("n"), b"1").expect("made");
    fs::rename(&b, inner.join("n")).expect_err("nothing to move");
    refused(fs::remove_file(inner.join("n")));
    refused(fs::rename(inner.join("n"), inner.join("m")));
    set(&inner, IFlags::empty());
    set(&a, IFlags::empty());
    fs::remove_dir_all(&inner).expect("removed");
    drop(log);
    mounted.finish();
}

/// Stores in a mapping of a file before and after the file becomes immutable. Its argument is the path of the file.
const STORES: &str = r#"
import fcntl, mmap, os, struct, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.write(fd, b"-" * 8192)
memory = mmap.mmap(fd, 8192)
memory[0:6] = b"before"
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x40086602, struct.pack("i", 0x10))
memory[4096:4101] = b"after"
try:
    memory.flush()
except OSError:
    pass
"#;

#[test]
fn stores_to_a_mapping_of_an_immutable_file_are_not_written() {
    let test = "stores_to_a_mapping_of_an_immutable_file_are_not_written";
    if !has("python3") {
        return skip(test, "no python3");
    }
    let Some(mounted) = AtomicMount::new(test) else {
        return;
    };
    let path = mounted.dir().join("a");
    run(Command::new("python3")
        .args(["-B", "-c", STORES])
        .arg(&path));
    let mut expected = vec![b'-'; 8192];
    expected[..6].copy_from_slice(b"before");
    assert!(fs::read(&path).expect("read") == expected);
    set(&path, IFlags::empty());
    mounted.finish();
}

#[test]
fn a_transaction_is_refused_completely_if_one_of_its_files_became_protected() {
    let test = "a_transaction_is_refused_completely_if_one_of_its_files_became_protected";
    let Some(mounted) = AtomicMount::new(test) else {
        return;
    };
    let paths = [mounted.dir().join("a"), mounted.dir().join("b")];
    for path in &paths {
        fs::write(path, [b'-'; 8192]).expect("written");
    }
    let open = |path: &Path| File::options().read(true).write(true).open(path);
    for flag in [IFlags::IMMUTABLE, IFlags::APPEND] {
        let [a, b] = [0, 1].map(|n: usize| open(&paths[n]).expect("opened"));
        let both = FileTransaction::begin(&a).expect("begun");
        both.change(&a, &[FileChange::Write(0, b"changed")])
            .expect("kept");
        both.join(&b).expect("joined");
        b.write_all_at(b"changed", 4096).expect("kept");
        set(&paths[1], flag);
        refused(b.write_all_at(b"changed", 0));
        refused(both.commit());
        set(&paths[1], IFlags::empty());
        drop((a, b));
        for path in &paths {
            assert!(fs::read(path).expect("read") == [b'-'; 8192], "{path:?}");
        }
    }
    mounted.finish();
}

#[test]
fn chattr_and_lsattr_work_and_only_the_owner_and_root_set_flags() {
    let test = "chattr_and_lsattr_work_and_only_the_owner_and_root_set_flags";
    if ["chattr", "lsattr"]
        .iter()
        .any(|name| Command::new(name).output().is_err())
    {
        return skip(test, "no chattr or lsattr");
    }
    let Some(mounted) = AtomicMount::new(test) else {
        return;
    };
    let dir = mounted.dir();
    let flags_of = |path: &Path| {
        let listed = Command::new("lsattr").arg("-d").arg(path).output();
        let listed = String::from_utf8(listed.expect("started").stdout).expect("text");
        let letters = listed.split_whitespace().next().expect("a word");
        letters.replace('-', "")
    };
    let chattr = |how: &str, path: &Path| {
        let done = Command::new("chattr").arg(how).arg(path).output();
        done.expect("started").status.success()
    };
    let (inner, a) = (dir.join("d"), dir.join("a"));
    fs::create_dir(&inner).expect("made");
    fs::write(&a, b"").expect("written");
    assert!(chattr("=SDdA", &inner) && chattr("=SiadA", &a));
    assert_eq!(
        (flags_of(&inner), flags_of(&a)),
        ("SDdA".into(), "SiadA".into())
    );
    // Found by xfstests' generic/277: the kernel kept using the cached change time.
    let changed = || {
        let known = fs::metadata(&a).expect("known");
        (known.ctime(), known.ctime_nsec())
    };
    let before = changed();
    assert!(chattr("-ia", &a) && flags_of(&a) == "SdA");
    assert!(changed() > before);
    for how in ["+c", "+j"] {
        assert!(!chattr(how, &a), "{how}");
    }
    // As on ext4, flags that protect are not inherited, and files do not inherit flags of directories.
    assert!(chattr("+a", &inner));
    fs::write(inner.join("n"), b"").expect("made");
    fs::create_dir(inner.join("below")).expect("made");
    assert_eq!(flags_of(&inner.join("n")), "SdA");
    assert_eq!(flags_of(&inner.join("below")), "SDdA");
    assert!(chattr("-a", &inner));
    let version = Command::new("lsattr").arg("-v").arg(&a).output();
    assert!(version.expect("started").status.success());
    if has("setpriv") {
        open_to_all(&dir);
        fs::write(dir.join("own"), b"").expect("made");
        chown(dir.join("own"), Some(NOBODY), Some(NOBODY)).expect("given away");
        as_nobody(&dir, "chattr +d own");
        assert_eq!(flags_of(&dir.join("own")), "d");
        fs::write(dir.join("other"), b"").expect("made");
        as_nobody(
            &dir,
            "! chattr +d other 2>/dev/null && ! chattr +i own 2>/dev/null",
        );
        assert_eq!(
            (flags_of(&dir.join("other")), flags_of(&dir.join("own"))),
            (String::new(), "d".into())
        );
    } else {
        skip(test, "no setpriv; others did not try");
    }
    mounted.finish();
}
