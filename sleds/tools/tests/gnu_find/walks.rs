//! Walks that are long or deep, or that change the tree during the walk.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::support::{GnuCase, is_gnu, scratch, seed};
use crate::tree;
use forebay_rng::Rng;
use rustix::fs::{Mode, OFlags, mkdirat, openat};

#[test]
fn a_folder_of_many_files_is_walked_in_the_same_order() {
    if !is_gnu("a_folder_of_many_files_is_walked_in_the_same_order", "find") {
        return;
    }
    let dir = scratch();
    // More entries than are sorted by inode; the order of the names' hashes differs from the order of creation.
    for n in 0..10_050 {
        fs::File::create(dir.path().join(format!("{:x}", n * 7919 % 104_729))).expect("a file");
    }
    for args in [&["."][..], &[".", "-exec", "echo", "{}", "+"]] {
        GnuCase::new("find", dir.path()).args(args).check(0);
    }
}

#[test]
fn folders_deeper_than_the_maximum_path_length_are_walked_completely() {
    if !is_gnu(
        "folders_deeper_than_the_maximum_path_length_are_walked_completely",
        "find",
    ) {
        return;
    }
    let dir = scratch();
    let name = "n".repeat(200);
    let mut at = fs::File::open(dir.path()).expect("the folder");
    for _ in 0..150 {
        mkdirat(&at, name.as_str(), Mode::from_raw_mode(0o755)).expect("a folder");
        mkdirat(&at, "z", Mode::from_raw_mode(0o755)).expect("a folder");
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        at = openat(&at, name.as_str(), flags, Mode::empty())
            .expect("a folder")
            .into();
    }
    for args in [
        &["."][..],
        &[".", "-depth"],
        &[".", "-name", "z", "-empty", "-printf", "%d\\n"],
    ] {
        GnuCase::new("find", dir.path()).args(args).check(0);
    }
    // No other process can remove it.
    let ours = GnuCase::new("find", dir.path()).args([".", "-mindepth", "1", "-delete"]);
    let ended = ours.run_ours();
    assert_eq!((ended.code, ended.err.as_slice()), (Some(0), &b""[..]));
    assert_eq!(fs::read_dir(dir.path()).expect("the folder").count(), 0);
}

/// Returns the paths under `root`.
fn all(root: &Path) -> BTreeSet<Vec<u8>> {
    let listed = GnuCase::new("find", root).args([".", "-print0"]).run_gnu();
    listed.out.split(|b| *b == 0).map(<[u8]>::to_vec).collect()
}

#[test]
fn delete_removes_the_files_that_gnu_find_removes() {
    if !is_gnu("delete_removes_the_files_that_gnu_find_removes", "find") {
        return;
    }
    let seed = seed();
    let expressions = [
        ". -type f -delete",
        ". -name a* -delete",
        ". -name a* -delete -print",
        ". -depth -type d -empty -delete",
        "-L . -type l -delete",
        "-L . -type f -delete",
        ". -mindepth 2 -delete",
        ". -not -name b -delete",
        "a b -delete",
        ". -delete",
    ];
    for (at, expression) in expressions.iter().enumerate() {
        let dir = scratch();
        let mut outcomes = Vec::new();
        for program in ["gnu", "ours"] {
            let root = dir.path().join(program).join("same");
            fs::create_dir_all(&root).expect("a folder");
            // The links inside a tree lead to paths inside; those of one tree must not lead into the other.
            let rng = Rng::new(seed + at as u64);
            tree::grow(&root, &rng, 50, true);
            let case = GnuCase::new("find", &root).args(expression.split(' '));
            let mut ended = match program {
                "gnu" => case.run_gnu(),
                _ => case.run_ours(),
            };
            let mut lines: Vec<_> = ended.out.split(|b| *b == b'\n').collect();
            lines.sort_unstable();
            ended.out = lines.concat();
            let text = String::from_utf8_lossy(&ended.err).replace("sleds find", "find");
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines.sort_unstable();
            outcomes.push((ended.code, ended.out, lines, all(&root)));
        }
        assert_eq!(outcomes[0], outcomes[1], "seed {seed}: {expression}");
    }
}

#[test]
fn a_followed_link_to_a_folder_is_not_deleted() {
    if !is_gnu("a_followed_link_to_a_folder_is_not_deleted", "find") {
        return;
    }
    for args in [
        "-L link -delete",
        "-H link -delete",
        "-L link/ -delete",
        "-L tree -delete",
    ] {
        let dir = scratch();
        let mut outcomes = Vec::new();
        for ours in [false, true] {
            for folder in ["folder", "tree"] {
                fs::create_dir_all(dir.path().join(folder)).expect("a folder");
            }
            fs::write(dir.path().join("folder/file"), "").expect("a file");
            for link in ["link", "tree/link"] {
                // The link may remain from the other program.
                let _ =
                    std::os::unix::fs::symlink(dir.path().join("folder"), dir.path().join(link));
            }
            let case = GnuCase::new("find", dir.path()).args(args.split(' '));
            let ended = if ours {
                case.run_ours()
            } else {
                case.run_gnu()
            };
            let err = String::from_utf8_lossy(&ended.err).replace("sleds find", "find");
            outcomes.push((ended.code, err, all(dir.path())));
        }
        assert_eq!(outcomes[0], outcomes[1], "{args}");
    }
}

#[test]
fn a_folder_removed_by_a_command_is_handled_like_in_gnu_find() {
    if !is_gnu(
        "a_folder_removed_by_a_command_is_handled_like_in_gnu_find",
        "find",
    ) {
        return;
    }
    let args = [
        ".", "-name", "gone", "-exec", "rm", "-r", "{}", ";", "-print",
    ];
    for more in [&[][..], &["-ignore_readdir_race"]] {
        let dir = scratch();
        let mut outcomes = Vec::new();
        for ours in [false, true] {
            fs::create_dir_all(dir.path().join("gone/inner")).expect("a folder");
            let case = GnuCase::new("find", dir.path()).args(args).args(more);
            let ended = if ours {
                case.run_ours()
            } else {
                case.run_gnu()
            };
            let text = String::from_utf8_lossy(&ended.err).replace("sleds find", "find");
            outcomes.push((ended.code, ended.out, text));
        }
        assert_eq!(outcomes[0], outcomes[1]);
    }
}

#[test]
fn a_full_output_is_an_error() {
    if !is_gnu("a_full_output_is_an_error", "find") {
        return;
    }
    let dir = scratch();
    for args in [
        &[".", "-fprint", "/dev/full"][..],
        &[".", "-fprintf", "/dev/full", "%p"],
    ] {
        GnuCase::new("find", dir.path()).args(args).check(0);
    }
}

#[test]
fn special_folders_are_walked_like_in_gnu_find() {
    if !is_gnu("special_folders_are_walked_like_in_gnu_find", "find") {
        return;
    }
    let dir = scratch();
    for args in [
        &[
            "/dev",
            "-maxdepth",
            "1",
            "-type",
            "c",
            "-name",
            "null",
            "-ls",
        ][..],
        &["/proc/self/", "-maxdepth", "0"],
        &[
            "/proc/1",
            "-maxdepth",
            "1",
            "-name",
            "s*",
            "-printf",
            "%p %s %y\\n",
        ],
        &["/", "-maxdepth", "1", "-printf", "%p|%f|%h|%P|%F\\n"],
        &[
            "/",
            "//",
            "/..",
            "-maxdepth",
            "0",
            "-printf",
            "%p|%f|%h|%P\\n",
        ],
        &[
            "/sys/block",
            "-xdev",
            "-name",
            "loop0",
            "-printf",
            "%p %Y\\n",
        ],
    ] {
        GnuCase::new("find", dir.path()).args(args).check(0);
    }
}

/// Makes a small tree with one file of every kind.
pub(crate) fn known_tree(root: &Path) {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let at = |name: &str| root.join(name);
    for folder in ["a/b", "c", "a/-x"] {
        fs::create_dir_all(at(folder)).expect("a folder");
    }
    fs::write(at("f"), "hi\n").expect("a file");
    for (to, name) in [
        ("f", "l"),
        ("nowhere", "brk"),
        ("loop", "loop"),
        ("..", "a/up"),
    ] {
        symlink(to, at(name)).expect("a link");
    }
    let kind = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    rustix::fs::mknodat(rustix::fs::CWD, at("p"), kind, mode, 0).expect("a pipe");
    for name in [
        "sp ace",
        "new\nline",
        "q'u\"o\\te\t\x07\x7f",
        "a/-x/q",
        "old",
        "f59",
        "f61",
    ] {
        fs::write(at(name), "").expect("a file");
    }
    fs::write(root.join(OsStr::from_bytes(b"\xff\xc3\xa9")), "x\n").expect("a file");
    fs::File::create(at("big"))
        .and_then(|f| f.set_len(5 << 30))
        .expect("a hole");
    let now = std::time::SystemTime::now();
    let minutes = |n: u64| std::time::Duration::from_secs(n * 60);
    let set = |name: &str, time| {
        let file = fs::File::options()
            .write(true)
            .open(at(name))
            .expect("a file");
        file.set_modified(time).expect("a time");
    };
    set(
        "old",
        std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_577_836_800),
    );
    set("f59", now + minutes(59));
    set("f61", now + minutes(61));
    for days in [179, 180, 181] {
        let name = format!("o{days}");
        fs::write(at(&name), "").expect("a file");
        // Not at the edge between two days.
        set(&name, now - minutes(days * 1440 + 5));
    }
    for (name, mode) in [
        ("sp ace", 0o7000),
        ("c", 0o1777),
        ("q'u\"o\\te\t\x07\x7f", 0o2604),
    ] {
        fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).expect("a mode");
    }
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(at("old"), Some(12_345), Some(54_321)).expect("an owner");
    }
    tree::settle(root);
}
