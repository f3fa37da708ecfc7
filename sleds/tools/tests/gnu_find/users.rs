//! Tests as a user without permission for some folders.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{is_gnu, skip};
use crate::tree;
use forebay_rng::Rng;

/// A user without any rights.
const NOBODY: u32 = 65_534;

fn run(program: &Path, args: &[&str], dir: &Path) -> (Option<i32>, String, String) {
    let output = Command::new(program)
        .args(args)
        .current_dir(dir)
        .env("LC_ALL", "C.UTF-8")
        .stdin(std::process::Stdio::null())
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .expect("a program to run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace("sleds find", "find");
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Copies the program to a directory that every user may access, since the build directory may be private. Another
/// process writes the copy: a descriptor open for writing in this process may be inherited by a child of a concurrent
/// test, and the copy could then not be executed.
fn program_for_all(dir: &Path) -> PathBuf {
    let program = dir.join("sleds");
    let mut copy = Command::new("cp");
    copy.arg(env!("CARGO_BIN_EXE_sleds")).arg(&program);
    assert!(copy.status().expect("cp").success());
    program
}

#[test]
fn inaccessible_files_and_folders_are_reported_like_in_gnu_find() {
    let test = "inaccessible_files_and_folders_are_reported_like_in_gnu_find";
    if !is_gnu(test, "find") {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return skip(test, "becoming another user needs root");
    }
    let dir = tempfile::tempdir().expect("a folder");
    let open = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    };
    open(dir.path(), 0o755);
    let program = program_for_all(dir.path());
    let root = dir.path().join("tree");
    fs::create_dir(&root).expect("a folder");
    tree::grow(&root, &Rng::new(7), 40, true);
    for (name, mode) in [
        ("shut", 0o700),
        ("list", 0o744),
        ("enter", 0o711),
        ("sticky", 0o1777),
    ] {
        let folder = root.join(name);
        fs::create_dir_all(folder.join("sub/sub")).expect("a folder");
        fs::write(folder.join("file"), "x").expect("a file");
        std::os::unix::fs::symlink("file", folder.join("link")).expect("a link");
        open(&folder, mode);
    }
    fs::write(root.join("secret"), "x").expect("a file");
    open(&root.join("secret"), 0o600);
    for args in [
        &["."][..],
        &[".", "-depth"],
        &["-L", "."],
        &[".", "-size", "1c"],
        &[".", "-empty"],
        &[".", "-printf", "%p %y %Y %s %l\\n"],
        &[".", "-ls"],
        &[".", "-xtype", "f"],
        &[".", "-lname", "*"],
        &[".", "-readable"],
        &[".", "!", "-readable", "-prune", "-o", "-print"],
        &[".", "-writable", "-o", "-executable"],
        &["shut/file", "enter/file", "list/file", "secret"],
        &["enter", "-maxdepth", "1", "-ls"],
        &["list", "-type", "f"],
        &["list", "-newer", "secret"],
        &[".", "-newer", "shut/file"],
        &["sticky", "secret", "-delete"],
        &["list", "-exec", "echo", "{}", "+"],
        &["secret", "-exec", "cat", "{}", ";"],
        &["-files0-from", "secret"],
        &[".", "-fprint", "shut/out"],
    ] {
        let gnu = run(Path::new("find"), args, &root);
        let ours = run(&program, &[&["find"], args].concat(), &root);
        assert_eq!(gnu, ours, "{args:?}");
    }
}

#[test]
fn the_time_of_a_file_of_another_user_is_reported_as_unknown() {
    let test = "the_time_of_a_file_of_another_user_is_reported_as_unknown";
    if !rustix::process::geteuid().is_root() {
        return skip(test, "becoming another user needs root");
    }
    let dir = tempfile::tempdir_in("/var/tmp").expect("a folder");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    let program = program_for_all(dir.path());
    let file = dir.path().join("theirs");
    fs::write(&file, vec![1; 100_000]).expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("a mode");
    let (code, out, _) = run(
        &program,
        &["find", "theirs", "-level", "unknown"],
        dir.path(),
    );
    if out.is_empty() {
        return skip(test, "the kernel tells everybody what is cached here");
    }
    assert_eq!((code, out.as_str()), (Some(0), "theirs\n"));
    for compare in ["-1000", "+0"] {
        let (code, out, err) = run(
            &program,
            &["find", "theirs", "-latency", compare],
            dir.path(),
        );
        assert_eq!((code, out.as_str()), (Some(0), ""));
        assert!(err.contains("the time for 1 file is not known"), "{err}");
    }
}

#[test]
fn the_reason_for_an_unknown_latency_is_the_missing_permission() {
    let test = "the_reason_for_an_unknown_latency_is_the_missing_permission";
    if !rustix::process::geteuid().is_root() {
        return skip(test, "becoming another user needs root");
    }
    let dir = tempfile::tempdir().expect("a folder");
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    };
    mode(dir.path(), 0o755);
    let program = program_for_all(dir.path());
    for name in ["readable", "writable"] {
        fs::write(dir.path().join(name), "content").expect("a file");
    }
    mode(&dir.path().join("readable"), 0o644);
    mode(&dir.path().join("writable"), 0o666);
    let args = ["find", "readable", "writable", "-latency", "-1000"];
    let (code, out, err) = run(&program, &args, dir.path());
    if out == "readable\nwritable\n" {
        return skip(test, "this kernel reports cached pages to every user");
    }
    assert_eq!((code, out.as_str()), (Some(0), "writable\n"), "{err}");
    let reason = "warning: the time for 1 file is not known, because the kernel reports the cached \
                  pages of a file only to its owner and to users that may write to it (run as such \
                  a user, or as root)";
    assert!(err.contains(reason), "{err}");
}
