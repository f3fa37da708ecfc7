//! Tests of names without a regular file, of unreadable and vanishing files, and of special filesystems.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use crate::support::content::write;
use crate::support::{GnuCase, cool, scratch, seed, settle, skip};
use crate::{any, can_compare};
use forebay_rng::Rng;

const COLUMNS: [&[&str]; 5] = [&[], &["-c"], &["-l"], &["-m"], &["-wL"]];

#[test]
fn special_files_are_treated_like_in_gnu_wc() {
    if !can_compare("special_files_are_treated_like_in_gnu_wc") {
        return;
    }
    let dir = scratch();
    fs::create_dir(dir.path().join("dir")).unwrap();
    fs::write(dir.path().join("f"), "a word\n").unwrap();
    symlink("loop", dir.path().join("loop")).unwrap();
    symlink("gone", dir.path().join("dangling")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
    let long = "n".repeat(300);
    for columns in COLUMNS {
        for operands in [
            &["dir"][..],
            &["dir", "f"],
            &["f", "dir", "nope", "f"],
            &["loop", "dangling", "socket", "f/x", &long, "f"],
            &["/dev/null", "f"],
            &[""],
        ] {
            GnuCase::new("wc", dir.path())
                .args(columns)
                .args(operands)
                .check(0);
        }
        let input = crate::support::CaseInput::File(dir.path().join("dir"));
        GnuCase::new("wc", dir.path())
            .args(columns)
            .input(input)
            .check(0);
    }
}

#[test]
fn files_generated_by_the_kernel_are_read_to_their_end() {
    if !can_compare("files_generated_by_the_kernel_are_read_to_their_end") {
        return;
    }
    let dir = scratch();
    let files = [
        "/proc/version",
        "/proc/filesystems",
        "/proc/devices",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/kernel/notes",
    ];
    let there: Vec<&str> = files
        .into_iter()
        .filter(|f| Path::new(f).exists())
        .collect();
    assert!(!there.is_empty());
    for columns in COLUMNS {
        for plan in ["best", "linear"] {
            let case = GnuCase::new("wc", dir.path())
                .ours(["--plan", plan])
                .args(columns);
            case.clone().args(&there).check(0);
            case.args(&there[..1]).check(0);
        }
    }
}

#[test]
fn a_named_pipe_is_read_and_a_file_removed_meanwhile_is_an_error() {
    if !can_compare("a_named_pipe_is_read_and_a_file_removed_meanwhile_is_an_error") {
        return;
    }
    let dir = scratch();
    let (pipe, file) = (dir.path().join("pipe"), dir.path().join("file"));
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let case = GnuCase::new("wc", dir.path()).args(["pipe", "file"]);
    let vanish = |run: fn(&GnuCase) -> crate::support::ProgramOutcome| {
        fs::write(&file, "words in a file\n").unwrap();
        let (pipe, file) = (pipe.clone(), file.clone());
        // The open of the pipe waits until the program has opened it, and by then the program has examined the file.
        let writer = std::thread::spawn(move || {
            let mut pipe = File::options().write(true).open(pipe).unwrap();
            fs::remove_file(file).unwrap();
            pipe.write_all(b"through a pipe\n").unwrap();
        });
        let outcome = run(&case);
        writer.join().unwrap();
        outcome
    };
    let gnu = vanish(GnuCase::run_gnu);
    let mut ours = vanish(GnuCase::run_ours);
    assert!(ours.err.starts_with(b"sleds wc: file: No such file"));
    ours.err.drain(..b"sleds ".len());
    if let Some(what) = case.between(&gnu, &ours) {
        panic!("{what}");
    }
}

#[test]
fn an_unreadable_file_is_refused_like_in_gnu_wc() {
    let test = "an_unreadable_file_is_refused_like_in_gnu_wc";
    if !can_compare(test) {
        return;
    }
    let dir = scratch();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let root = rustix::process::geteuid().is_root();
    // Written by its owner and readable by all: the kernel does not report the residency to other users.
    for (name, mode) in [("closed", 0o000), ("open", 0o444)] {
        let path = dir.path().join(name);
        fs::write(&path, "some words\n".repeat(50_000)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }
    if root && !nobody_gets_here(dir.path()) {
        return skip(test, "nobody may not go where the build is");
    }
    for columns in COLUMNS {
        let case = GnuCase::new("wc", dir.path())
            .ours(["--plan=best"])
            .args(columns)
            .args(["open", "closed", "open"]);
        let case = if root { case.by_nobody() } else { case };
        case.check(0);
    }
}

/// Returns true if a user other than root can reach the program and the files.
fn nobody_gets_here(dir: &Path) -> bool {
    let program = Path::new(env!("CARGO_BIN_EXE_sleds"));
    let open = |path: &Path| fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 1 != 0);
    program.ancestors().chain(dir.ancestors()).all(open)
}

/// Compares a few files in `dir`.
fn compare_in(dir: &Path) {
    let seed = seed();
    let rng = Rng::new(seed);
    let names: Vec<String> = (0..60).map(|n| format!("f{n}")).collect();
    for name in &names {
        let bytes = any(&rng);
        write(&dir.join(name), &bytes, &rng);
    }
    settle(dir);
    for columns in COLUMNS {
        for name in &names {
            cool(&dir.join(name), &rng);
        }
        let plan = rng.pick(&["auto", "best"]);
        GnuCase::new("wc", dir)
            .ours(["--plan", plan])
            .args(columns)
            .args(&names)
            .env("LC_ALL", "C.UTF-8")
            .check(seed);
    }
}

#[test]
fn counts_on_tmpfs_equal_those_of_gnu_wc() {
    let test = "counts_on_tmpfs_equal_those_of_gnu_wc";
    if !can_compare(test) {
        return;
    }
    match tempfile::tempdir_in("/dev/shm") {
        Ok(dir) => compare_in(dir.path()),
        Err(error) => skip(test, &format!("no /dev/shm: {error}")),
    }
}

/// An overlay, unmounted when dropped.
struct OverlayGuard(String);

impl Drop for OverlayGuard {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

#[test]
fn counts_on_an_overlay_equal_those_of_gnu_wc() {
    let test = "counts_on_an_overlay_equal_those_of_gnu_wc";
    if !can_compare(test) {
        return;
    }
    let dir = scratch();
    let place = |name: &str| {
        let path = dir.path().join(name);
        fs::create_dir(&path).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (lower, upper, work, merged) = (
        place("lower"),
        place("upper"),
        place("work"),
        place("merged"),
    );
    // Half of the compared files are in the lower directory.
    fs::write(
        Path::new(&lower).join("below"),
        "from below\n".repeat(30_000),
    )
    .unwrap();
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
    let mount = Command::new("mount")
        .args(["-t", "overlay", "overlay", "-o", &options, &merged])
        .output();
    if !mount.is_ok_and(|m| m.status.success()) {
        return skip(test, "overlay cannot be mounted here");
    }
    let overlay = OverlayGuard(merged);
    let merged = Path::new(&overlay.0);
    compare_in(merged);
    for columns in COLUMNS {
        cool(&merged.join("below"), &Rng::new(1));
        GnuCase::new("wc", merged)
            .ours(["--plan=best"])
            .args(columns)
            .args(["below"])
            .check(0);
    }
}
