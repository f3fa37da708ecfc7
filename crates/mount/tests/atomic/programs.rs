//! The libraries, tested by their examples, and the ioctls of other filesystems that are supported.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::{AtomicMount, has, skip};

#[path = "../../examples/transfer.rs"]
#[allow(dead_code, reason = "its main function is the example's")]
mod transfer;

pub(crate) fn atomic() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../atomic"))
}

pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

/// Unmounts a filesystem by `umount`. Retries while it is in use: a program that another test starts briefly inherits
/// the open files of this process.
pub(crate) fn unmount(at: &Path) {
    let until = Instant::now() + Duration::from_secs(10);
    let unmount = || Command::new("umount").arg(at).status();
    while !unmount().expect("umount runs").success() {
        assert!(Instant::now() < until, "{} is in use", at.display());
        // sleeps: no event reports that the last user has closed its files.
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Compiles a program with only the header.
fn compiled(source: &Path, scratch: &Path) -> std::path::PathBuf {
    let program = scratch.join("program");
    let mut cc = Command::new("cc");
    cc.args([
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-D_GNU_SOURCE",
        "-I",
    ]);
    cc.arg(atomic().join("include"));
    run(cc.arg(source).arg("-o").arg(&program));
    program
}

/// Checks the files that an example leaves.
fn was_transferred(dir: &Path) {
    let accounts = fs::read(dir.join("accounts")).expect("read");
    assert_eq!(accounts.len(), 17 * 4096);
    assert!(accounts.starts_with(b"90\0"));
    assert!(accounts[16 * 4096..].starts_with(b"110\0"));
    assert_eq!(fs::read(dir.join("journal")).expect("read"), b"");
    assert!(fs::read(dir.join("spare")).expect("read") == vec![b'n'; 200_000]);
}

#[test]
fn the_rust_example_transfers_atomically() {
    if let Some(mounted) = AtomicMount::new("the_rust_example_transfers_atomically") {
        transfer::transfer(&mounted.dir()).expect("done");
        was_transferred(&mounted.dir());
        mounted.finish();
    }
}

#[test]
fn the_c_example_transfers_atomically() {
    if !has("cc") {
        return skip("the_c_example_transfers_atomically", "no cc");
    }
    if let Some(mounted) = AtomicMount::new("the_c_example_transfers_atomically") {
        let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("made");
        let program = compiled(&atomic().join("examples/transfer.c"), scratch.path());
        let said = run(Command::new(program).arg(mounted.dir()));
        assert_eq!(said, "67108864 bytes in 8192 pieces at once\n");
        was_transferred(&mounted.dir());
        mounted.finish();
    }
}

#[test]
fn the_python_example_transfers_atomically() {
    if !has("python3") {
        return skip("the_python_example_transfers_atomically", "no python3");
    }
    if let Some(mounted) = AtomicMount::new("the_python_example_transfers_atomically") {
        let mut python = Command::new("python3");
        python.arg("-B").arg(atomic().join("examples/transfer.py"));
        python.env("PYTHONPATH", atomic().join("python"));
        run(python.arg(mounted.dir()));
        was_transferred(&mounted.dir());
        mounted.finish();
    }
}

/// The constants in the C header must equal those of the Rust library, which the server uses.
#[test]
fn the_c_header_has_the_numbers_of_the_server() {
    use forebay_atomic::ioctls::{AtomicCommand as Asked, CHANGE_HEADER, FEATURES, PART};

    if !has("cc") {
        return skip("the_c_header_has_the_numbers_of_the_server", "no cc");
    }
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("made");
    let source = scratch.path().join("numbers.c");
    let text = r#"
#include <stdio.h>
#include "forebay_atomic.h"
int main(void) {
    printf("%lx %lx %lx %lx %lx %lx %lx %zu %zu %zu\n", (long)FOREBAY_IOC_FEATURES, (long)FOREBAY_IOC_BEGIN,
           (long)FOREBAY_IOC_JOIN, (long)FOREBAY_IOC_CHANGE(100), (long)FOREBAY_IOC_COMMIT, (long)FOREBAY_IOC_ABORT,
           (long)FOREBAY_IOC_EXCHANGE, sizeof(struct forebay_features), sizeof(struct forebay_change),
           sizeof(struct forebay_part));
    return 0;
}
"#;
    fs::write(&source, text).expect("written");
    let said = run(&mut Command::new(compiled(&source, scratch.path())));
    let numbers = [
        Asked::Features,
        Asked::Begin,
        Asked::Join,
        Asked::Change,
        Asked::Commit,
        Asked::Abort,
        Asked::Exchange,
    ];
    let numbers = numbers.map(|asked| format!("{:x}", asked.number(100)));
    let sizes = format!("{FEATURES} {CHANGE_HEADER} {PART}");
    assert_eq!(said, format!("{} {sizes}\n", numbers.join(" ")));
    let python = fs::read_to_string(atomic().join("python/forebay_atomic.py")).expect("read");
    let ask = "\nprint(*(hex(n)[2:] for n in (FEATURES, BEGIN, JOIN, CHANGE(100), COMMIT, ABORT, EXCHANGE)), \
               _FEATURES.size, _HEAD.size, _PART.size)";
    if !has("python3") {
        return skip("the_c_header_has_the_numbers_of_the_server", "no python3");
    }
    let there = run(Command::new("python3").args(["-c", &(python + ask)]));
    assert_eq!(there, said);
}

/// Uses the ioctl numbers of F2FS and FusionIO, as SQLite and MariaDB do.
#[test]
fn ioctls_of_databases_for_other_filesystems_fail_as_expected() {
    if !has("python3") {
        return skip(
            "ioctls_of_databases_for_other_filesystems_fail_as_expected",
            "no python3",
        );
    }
    let text = r#"
import fcntl, os, struct, sys
at = os.path.join(sys.argv[1], "a")
a, other = (os.open(at, os.O_RDWR | os.O_CREAT) for _ in "ab")

def refused(fd, number):
    try:
        fcntl.ioctl(fd, number)
    except OSError as error:
        return error.strerror
    return "done"

assert struct.unpack("=I", fcntl.ioctl(a, 0x8004f50c, bytes(4)))[0] & 4
fcntl.ioctl(a, 0x40049502, struct.pack("=I", 1))
os.pwrite(a, b"a" * 8192, 0)
fcntl.ioctl(a, 0xf501)
os.pwrite(a, b"b" * 8192, 0)
assert os.pread(other, 1, 0) == b"a"
fcntl.ioctl(a, 0xf505)
assert os.pread(a, 8192, 0) == b"a" * 8192
fcntl.ioctl(a, 0xf501)
os.pwrite(a, b"c" * 8192, 4096)
fcntl.ioctl(a, 0xf502)
assert os.pread(other, 20000, 0) == b"a" * 4096 + b"c" * 8192
directory = os.open(sys.argv[1], os.O_RDONLY)
# Nothing was started; volatile writes; something else; a directory.
print(refused(a, 0xf502), refused(a, 0xf503), refused(a, 0xf504), refused(a, 0x5401), refused(directory, 0xf501), sep=", ")
"#;
    if let Some(mounted) =
        AtomicMount::new("ioctls_of_databases_for_other_filesystems_fail_as_expected")
    {
        let said = run(Command::new("python3")
            .args(["-c", text])
            .arg(mounted.dir()));
        let no = "Inappropriate ioctl for device";
        assert_eq!(said, format!("Invalid argument, {no}, {no}, {no}, {no}\n"));
        mounted.finish();
    }
}
