//! Makes folders with everything that a walk may meet.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, Timespec, Timestamps, mknodat, utimensat};

use forebay_rng::Rng;

/// Names that are difficult for patterns, quotes and terminals.
const NAMES: [&[u8]; 24] = [
    b"a",
    b"b",
    b"B",
    b"ab",
    b"abc",
    b"foo.c",
    b"bar.h",
    b"README",
    b".hid",
    b"x y",
    b"-n",
    b"[ab]",
    b"st*r",
    b"q?m",
    b"new\nline",
    b"\xff\xc3",
    b"\xc3\xa9t\xc3\xa9",
    b"qu'o\"te",
    b"back\\slash",
    b"tab\t",
    b"(",
    b"!",
    b"deep",
    b"{}",
];

/// Returns the time from which all files' times are counted back. It is half a day off, so that ages in whole days do
/// not change while a test runs.
fn now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("a clock after 1970").as_secs() as i64
}

/// Makes folders and files under `root`, which exists. `loops` allows links to themselves.
pub(crate) fn grow(root: &Path, rng: &Rng, files: usize, loops: bool) {
    let mut folders = vec![root.to_owned()];
    let mut all: Vec<PathBuf> = Vec::new();
    let root_user = rustix::process::geteuid().is_root();
    for _ in 0..files {
        let folder = folders[rng.below(folders.len() as u64) as usize].clone();
        let mut name = NAMES[rng.below(NAMES.len() as u64) as usize].to_vec();
        if rng.below(3) == 0 {
            name.extend_from_slice(rng.below(100).to_string().as_bytes());
        }
        let path = folder.join(OsString::from_vec(name));
        if path.symlink_metadata().is_ok() {
            continue;
        }
        match rng.below(12) {
            0..3 => {
                fs::create_dir(&path).expect("a folder");
                folders.push(path.clone());
            }
            3 => {
                let to = match (rng.below(4), all.is_empty()) {
                    (0, _) | (_, true) => PathBuf::from("nowhere"),
                    (1, _) => PathBuf::from(".."),
                    (2, _) if loops => PathBuf::from(path.file_name().expect("it has a name")),
                    _ => all[rng.below(all.len() as u64) as usize].clone(),
                };
                std::os::unix::fs::symlink(to, &path).expect("a link");
            }
            4 => {
                let kind = rustix::fs::FileType::Fifo;
                mknodat(CWD, &path, kind, Mode::from_raw_mode(0o640), 0).expect("a pipe");
            }
            5 if !all.is_empty() => {
                let to = &all[rng.below(all.len() as u64) as usize];
                // A folder cannot have a second name.
                if fs::hard_link(to, &path).is_err() {
                    continue;
                }
            }
            _ => write(&path, rng),
        }
        all.push(path);
    }
    for path in all.iter().rev() {
        decorate(path, rng, root_user);
    }
}

fn write(path: &Path, rng: &Rng) {
    let file = File::create(path).expect("a file");
    let sizes = [0, 1, 511, 512, 513, 1023, 1024, 1025, 4096, 70_000];
    let size = match rng.below(8) {
        0 => 3 << 20,
        1 => rng.below(5000),
        _ => sizes[rng.below(sizes.len() as u64) as usize],
    };
    // Holes have a length and no blocks.
    match rng.below(4) {
        0 => file.set_len(size).expect("a hole"),
        _ => fs::write(path, vec![b'x'; size.min(10_000) as usize]).expect("content"),
    }
}

/// Gives a file times, a mode and an owner.
fn decorate(path: &Path, rng: &Rng, root_user: bool) {
    let meta = path.symlink_metadata().expect("it is there");
    if root_user && rng.below(5) == 0 {
        let ids = [1, 65_534, 12_345];
        let id = || ids[rng.below(3) as usize];
        std::os::unix::fs::lchown(path, Some(id()), Some(id())).expect("an owner");
    }
    if !meta.is_symlink() && rng.below(2) == 0 {
        let modes = [
            0o644, 0o755, 0o600, 0o4755, 0o2755, 0o1777, 0o400, 0o7000, 0o070, 0o777,
        ];
        let mode = modes[rng.below(modes.len() as u64) as usize];
        // Users other than root must be able to enter.
        let mode = if meta.is_dir() { mode | 0o700 } else { mode };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    }
    let ago = || {
        let days = [0, 0, 1, 2, 3, 30, 200, 400][rng.below(8) as usize];
        Timespec {
            tv_sec: now() - days * 86_400 - 43_200 - 30,
            tv_nsec: rng.below(1_000_000_000) as i64,
        }
    };
    let times = Timestamps {
        last_access: ago(),
        last_modification: ago(),
    };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("times");
}

/// Reads every folder and link once: the first read may set the time of the last access.
pub(crate) fn settle(root: &Path) {
    let Ok(entries) = fs::read_dir(root) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            settle(&entry.path());
        }
        let _ = fs::read_link(entry.path());
    }
}
