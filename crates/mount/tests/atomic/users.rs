//! Isolation between users: atomic updates give a user no influence on others.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use forebay_atomic::{FileChange, change};
use forebay_rng::Rng;
use rustix::mount::{UnmountFlags, unmount};

use crate::harness::{AtomicMount, has, skip};

const PAGE: u64 = 4096;
pub(crate) const NOBODY: u32 = 65534;
const PRIVILEGED: u32 = 0o6777;

/// More concurrent requests than the limit of requests in progress.
const CHANGERS: u64 = 1100;
const READERS: u64 = 20;
/// Number of changes by all threads together after which the test ends.
const CHANGES: u64 = 20_000;
const READS: u64 = 500;
/// Time limit of each operation; a longer operation hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Work of all threads.
#[derive(Default)]
struct ThreadTotals {
    changes: AtomicU64,
    reads: AtomicU64,
    is_enough: AtomicBool,
}

impl ThreadTotals {
    fn counts(&self) -> (u64, u64) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (of(&self.changes), of(&self.reads))
    }
}

/// Aborts the connection of a filesystem that hangs, so that threads in it end.
fn cut_off(dir: &Path) {
    let cut = unmount(dir, UnmountFlags::FORCE);
    eprintln!("{} hangs and was cut off: {cut:?}", dir.display());
}

#[test]
fn concurrent_atomic_changes_and_reads_do_not_hang_the_mount() {
    let Some(mounted) =
        AtomicMount::new("concurrent_atomic_changes_and_reads_do_not_hang_the_mount")
    else {
        return;
    };
    let path = mounted.dir().join("shared");
    let pages = 2048;
    fs::write(&path, vec![b'a'; (pages * PAGE) as usize]).expect("written");
    let done = Arc::new(ThreadTotals::default());
    let run = |n: u64| {
        let (path, done) = (path.clone(), Arc::clone(&done));
        let thread = std::thread::Builder::new().stack_size(128 << 10);
        let work = move || {
            let rng = Rng::new(n);
            let file = OpenOptions::new().read(true).write(true).open(path);
            let file = file.expect("opened");
            let mut memory = vec![0; 16 * PAGE as usize];
            while !done.is_enough.load(Ordering::Relaxed) {
                if n < CHANGERS {
                    let at = rng.below(pages) * PAGE;
                    if change(&file, &[FileChange::Write(at, b"changed")]).is_err() {
                        return false;
                    }
                    done.changes.fetch_add(1, Ordering::Relaxed);
                } else {
                    let at = rng.below(pages - 16) * PAGE;
                    if file.read_at(&mut memory, at).is_err() {
                        return false;
                    }
                    done.reads.fetch_add(1, Ordering::Relaxed);
                }
            }
            true
        };
        thread.spawn(work).expect("a thread")
    };
    let threads: Vec<_> = (0..CHANGERS + READERS).map(run).collect();
    let (mut before, mut since) = (done.counts(), Instant::now());
    let mut hangs = false;
    loop {
        // sleeps: no event reports progress
        std::thread::sleep(Duration::from_millis(20));
        let now = done.counts();
        if now.0 >= CHANGES && now.1 >= READS {
            break;
        }
        if now.0 > before.0 && now.1 > before.1 {
            (before, since) = (now, Instant::now());
        }
        if since.elapsed() > PATIENCE {
            hangs = true;
            break;
        }
    }
    done.is_enough.store(true, Ordering::Relaxed);
    if hangs {
        cut_off(&mounted.dir());
    }
    let ends: Vec<bool> = threads
        .into_iter()
        .map(|thread| thread.join().expect("no panic"))
        .collect();
    assert!(!hangs, "no progress since {before:?}");
    assert!(ends.iter().all(|end| *end), "requests were refused");
    mounted.finish();
}

/// Gives users other than root access to a test's filesystem.
pub(crate) fn open_to_all(dir: &Path) {
    for one in dir.ancestors().take(2) {
        fs::set_permissions(one, Permissions::from_mode(0o755)).expect("opened to all");
    }
}

/// Runs a shell command as an unprivileged user.
pub(crate) fn as_nobody(dir: &Path, command: &str) {
    let mut shell = Command::new("setpriv");
    shell.args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "sh",
        "-c",
    ]);
    let output = shell
        .arg(command)
        .current_dir(dir)
        .output()
        .expect("started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {said}");
}

#[test]
fn a_file_changed_by_another_user_loses_its_setuid_bits_in_the_kernel_too() {
    let test = "a_file_changed_by_another_user_loses_its_setuid_bits_in_the_kernel_too";
    if !has("setpriv") {
        return skip(test, "no setpriv");
    }
    let Some(mounted) = AtomicMount::new(test) else {
        return;
    };
    let dir = mounted.dir();
    open_to_all(&dir);
    fs::write(dir.join("from"), [b'f'; 9000]).expect("written");
    let changes = [
        "dd if=/dev/zero of=to bs=4096 count=1 conv=notrunc",
        "dd if=/dev/zero of=to bs=4096 count=1 conv=notrunc oflag=direct",
        "fallocate -l 20000 to",
        "fallocate -n -l 20000 to",
        "fallocate -p -o 0 -l 4096 to",
        "fallocate -z -o 0 -l 4096 to",
        "python3 -c 'import os; os.copy_file_range(os.open(\"from\", 0), os.open(\"to\", 1), 4096)'",
        "truncate -s 100 to",
    ];
    let to = dir.join("to");
    let mode = || fs::metadata(&to).expect("known").mode() & 0o7777;
    for change in changes {
        if change.starts_with("python3") && !has("python3") {
            skip(test, "no python3");
            continue;
        }
        fs::write(&to, [b't'; 8192]).expect("written");
        let privileged = Permissions::from_mode(PRIVILEGED);
        fs::set_permissions(&to, privileged).expect("privileged");
        assert_eq!(mode(), PRIVILEGED);
        as_nobody(&dir, change);
        assert_eq!(mode(), 0o777, "{change}");
    }
    // Without group execution, `setgid` is removed if the user that changes the file is not in the file's group.
    for change in &changes[..6] {
        let (sgid, group) = (Permissions::from_mode(0o2766), Some(NOBODY));
        for (group, left) in [(Some(0), 0o766), (group, 0o2766)] {
            fs::write(&to, [b't'; 8192]).expect("written");
            std::os::unix::fs::chown(&to, None, group).expect("given");
            fs::set_permissions(&to, sgid.clone()).expect("set");
            as_nobody(&dir, change);
            assert_eq!(mode(), left, "{change}");
        }
    }
    // Changes by root keep the bits, as on other filesystems.
    let privileged = Permissions::from_mode(PRIVILEGED);
    fs::set_permissions(&to, privileged).expect("privileged");
    let file = OpenOptions::new().write(true).open(&to).expect("opened");
    file.write_all_at(b"root", 0).expect("written");
    assert_eq!(mode(), PRIVILEGED);
    drop(file);
    mounted.finish();
}

#[test]
fn an_access_list_set_by_an_owner_outside_the_group_clears_setgid() {
    let test = "an_access_list_set_by_an_owner_outside_the_group_clears_setgid";
    if !has("setpriv") || !has("setfacl") {
        return skip(test, "no setpriv, or no setfacl");
    }
    let Some(mounted) = AtomicMount::new(test) else {
        return;
    };
    let dir = mounted.dir();
    open_to_all(&dir);
    let file = dir.join("file");
    for (list, group, left) in [
        ("u::rwx,g::rwx,o::rwx,u:1:rwx", 0, 0o777),
        ("u::rwx,g::rx,o::rwx", 0, 0o757),
        ("u::rwx,g::rwx,o::rwx,u:1:rwx", NOBODY, 0o2777),
    ] {
        File::create(&file).expect("made");
        std::os::unix::fs::chown(&file, Some(NOBODY), Some(group)).expect("given");
        fs::set_permissions(&file, Permissions::from_mode(0o2777)).expect("set");
        as_nobody(&dir, &format!("setfacl -m {list} file"));
        let mode = fs::metadata(&file).expect("known").mode() & 0o7777;
        assert_eq!(mode, left, "{list}, group {group}");
        fs::remove_file(&file).expect("removed");
    }
    mounted.finish();
}
