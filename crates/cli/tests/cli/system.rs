//! Loop devices and mounts, made with the system's own tools, and removed when dropped.

#![allow(dead_code, reason = "each test program uses some of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::world::{output, skip, texts, wait_until};

/// Time for repeating an unmount: a child process being started holds its parent's files for a moment.
const UNMOUNTING: Duration = Duration::from_secs(10);

pub(crate) fn root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Waits until accesses to a mount of a killed daemon fail since it has no connection (`ENOTCONN`). While the kernel
/// ends the connection, it cancels and aborts requests (`ECANCELED`, `ECONNABORTED`).
pub(crate) fn dead_mount_refuses(mut access: impl FnMut() -> std::io::Result<()>) {
    wait_until("the connection has ended", || {
        let error = access().unwrap_err();
        assert!(
            matches!(error.raw_os_error(), Some(103 | 107 | 125)),
            "{error}"
        );
        error.raw_os_error() == Some(107)
    });
}

/// Runs a program. Returns its output, or the error if it fails.
pub(crate) fn try_tool(name: &str, args: &[&str]) -> Result<String, String> {
    let what = format!("{name} {}", args.join(" "));
    let output = output(Command::new(name).args(args)).map_err(|e| format!("{what}: {e}"))?;
    let (out, err) = texts(&output);
    if output.status.success() {
        Ok(out.trim().to_owned())
    } else {
        Err(format!("{what}: {}\n{out}{err}", output.status))
    }
}

pub(crate) fn tool(name: &str, args: &[&str]) -> Option<String> {
    try_tool(name, args).ok()
}

/// Returns true if all of `programs` are installed; otherwise prints a skip message.
pub(crate) fn installed(test: &str, programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = |name: &&&str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    let missing = programs.iter().find(|name| !there(name));
    if let Some(name) = missing {
        skip(test, &format!("{name} is not installed"));
    }
    missing.is_none()
}

/// Returns true if a volume can be attached as a loop device here; otherwise prints a skip message.
pub(crate) fn can_serve_loop(test: &str) -> bool {
    let can = root() && Path::new("/dev/fuse").exists() && Path::new("/dev/loop-control").exists();
    if !can {
        skip(test, "not root, or no FUSE or loop devices");
    }
    can
}

/// A loop device.
pub(crate) struct TestLoop(pub(crate) String);

impl TestLoop {
    pub(crate) fn over(path: &Path) -> Option<TestLoop> {
        tool("losetup", &["--find", "--show", path.to_str()?]).map(TestLoop)
    }
}

/// Returns a loop device over an image, or skips the test with a message.
pub(crate) fn loop_over(test: &str, path: &Path) -> Option<TestLoop> {
    let made = root().then(|| TestLoop::over(path)).flatten();
    if made.is_none() {
        skip(test, "not root, or no loop devices");
    }
    made
}

impl Drop for TestLoop {
    fn drop(&mut self) {
        tool("losetup", &["--detach", &self.0]);
    }
}

/// A mounted filesystem.
pub(crate) struct TestMount(pub(crate) String);

impl TestMount {
    pub(crate) fn new(device: &str, at: &Path, options: &str) -> Option<TestMount> {
        TestMount::try_new(device, at, options).ok()
    }

    pub(crate) fn try_new(device: &str, at: &Path, options: &str) -> Result<TestMount, String> {
        fs::create_dir_all(at).map_err(|error| error.to_string())?;
        let at = at.to_str().ok_or("not UTF-8")?;
        try_tool("mount", &["-o", options, device, at])?;
        Ok(TestMount(at.into()))
    }

    /// Unmounts the filesystem; lazily if it is still in use, which is an error.
    pub(crate) fn unmount(self) -> Result<(), String> {
        let at = std::mem::ManuallyDrop::new(self).0.clone();
        unmount(&at)
    }
}

fn unmount(at: &str) -> Result<(), String> {
    let unmounted = try_unmount(&[at]);
    if unmounted.is_err() {
        tool("umount", &["--lazy", at]);
    }
    unmounted
}

/// Unmounts a filesystem with the system's `umount`. Retries while the filesystem is in use.
pub(crate) fn try_unmount(args: &[&str]) -> Result<(), String> {
    let until = Instant::now() + UNMOUNTING;
    loop {
        match try_tool("umount", args) {
            // sleeps: no event tells when the last user releases it.
            Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(50)),
            result => return result.map(drop),
        }
    }
}

impl Drop for TestMount {
    fn drop(&mut self) {
        if let Err(why) = unmount(&self.0) {
            eprintln!("{why}");
        }
    }
}

/// Removes the leftovers of a failed test in `dir`.
pub(crate) fn clear_away(dir: &Path) {
    if !root() {
        return;
    }
    // Filesystems on loop devices first, then the devices, then the filesystems below them.
    let listed = tool(
        "losetup",
        &["--list", "--noheadings", "--output", "NAME,BACK-FILE"],
    );
    let loops: Vec<String> = listed
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(_, file)| Path::new(file.trim()).starts_with(dir))
        .map(|(name, _)| name.to_owned())
        .collect();
    let mounts = || {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let pairs = mounts.lines().rev().filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?.to_owned(), PathBuf::from(words.next()?)))
        });
        pairs
            .filter(|(_, at)| at.starts_with(dir))
            .collect::<Vec<_>>()
    };
    let lazily = |at: &Path| tool("umount", &["--lazy", &at.display().to_string()]);
    for (device, at) in mounts() {
        if loops.contains(&device) {
            lazily(&at);
        }
    }
    for name in &loops {
        tool("losetup", &["--detach", name]);
    }
    for (_, at) in mounts() {
        lazily(&at);
    }
}
