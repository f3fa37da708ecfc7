//! Performs the steps of a page in a scratch directory, as root.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit, Signal};

use crate::names::{ExampleNames, devices};
use crate::page::PageStep;
use crate::system::{tool, try_tool};
use crate::world::{CliSandbox, skip};

/// Time limit of a command, in seconds.
const LIMIT: &str = "120";
/// Size of a device without an instruction.
const DISK: &str = "1G";
/// Offset in its file of a device made by `file`. A limit on the length of files below it fails writes to the device.
const FILE_START: &str = "128MiB";
const BROKEN_FROM: u64 = 1 << 20;
/// A file that MariaDB looks for, and that a page makes outside of the sandbox.
const MARIADB_FILE: &str = "/dev/fcta";

/// The sandbox of a page, with its devices.
pub(crate) struct GuideStage {
    sandbox: CliSandbox,
    names: ExampleNames,
    /// Links to the devices. `create` records paths below /dev without resolving links.
    links: tempfile::TempDir,
    /// Process groups of commands that left processes in the background.
    groups: Vec<Pid>,
    is_skipping: bool,
    /// True if a command of this page made [`MARIADB_FILE`].
    made_mariadb_file: bool,
}

impl GuideStage {
    pub(crate) fn new() -> GuideStage {
        let sandbox = CliSandbox::new();
        // Database servers run as other users.
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(sandbox.dir(), open).expect("one's own directory");
        for name in ["srv", "mnt", "bin", "disks"] {
            fs::create_dir(sandbox.path(name)).expect("a new directory");
        }
        let program = Path::new(env!("CARGO_BIN_EXE_forebay"));
        for name in ["forebay", "sleds"] {
            let built = program.with_file_name(name);
            if built.exists() {
                let link = sandbox.path("bin").join(name);
                std::os::unix::fs::symlink(built, link).expect("a new link");
            }
        }
        let mut links = tempfile::Builder::new();
        let links = links.prefix("forebay-guide-").tempdir_in("/dev");
        GuideStage {
            links: links.expect("a new directory"),
            names: ExampleNames::new(sandbox.dir()),
            sandbox,
            groups: Vec::new(),
            is_skipping: false,
            made_mariadb_file: false,
        }
    }

    /// Performs a step. An error describes the difference to the page.
    pub(crate) fn perform(&mut self, step: &PageStep) -> Result<(), String> {
        match step {
            PageStep::Hidden { name, .. } if name == "fresh" => {
                *self = GuideStage::new();
                Ok(())
            }
            _ if self.is_skipping => Ok(()),
            PageStep::NotRun { .. } => Ok(()),
            PageStep::Hidden { name, arguments } => self.instruct(name, arguments),
            PageStep::Show {
                command,
                output,
                fails,
            } => {
                let (succeeded, printed) = self.execute(command)?;
                if succeeded == *fails {
                    let verb = if *fails { "succeeded" } else { "failed" };
                    return Err(format!("`{command}` {verb}:\n{printed}"));
                }
                compare(output, &printed).map_err(|line| {
                    format!("`{command}` did not print `{line}` here, but:\n{printed}")
                })
            }
        }
    }

    fn instruct(&mut self, name: &str, arguments: &str) -> Result<(), String> {
        let (first, second) = arguments.split_once(' ').unwrap_or((arguments, ""));
        match name {
            "needs" => {
                let path = self.path();
                let missing = arguments.split(' ').find(|program| {
                    !std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
                });
                if let Some(program) = missing {
                    skip("steps of the guide", &format!("{program} is not installed"));
                    self.is_skipping = true;
                }
                Ok(())
            }
            "run" => match self.execute(arguments)? {
                (true, _) => Ok(()),
                (false, printed) => Err(format!("`{arguments}` failed:\n{printed}")),
            },
            "disk" => self.disk(first, second),
            "file" => self.file(first, second),
            "grow" => self.grow(first, second),
            "lose" => self.lose(first),
            "break" => self.limit(first, Some(BROKEN_FROM)),
            "mend" => self.limit(first, None),
            "kill" => {
                self.sandbox.kill(first);
                Ok(())
            }
            _ => Err(format!("`{name}` is not an instruction")),
        }
    }

    /// Executes a command with its examples replaced. Returns true if it succeeded, and its output with the examples.
    fn execute(&mut self, command: &str) -> Result<(bool, String), String> {
        for device in devices(command) {
            if self.names.scratch(device).is_none() {
                self.disk(device, DISK)?;
            }
        }
        if command.contains(MARIADB_FILE) && !Path::new(MARIADB_FILE).exists() {
            self.made_mariadb_file = true;
        }
        let printed = self.sandbox.path("printed");
        let file = File::create(&printed).map_err(|e| e.to_string())?;
        let mut shell = Command::new("timeout");
        self.sandbox.set_up(&mut shell);
        // A broken device must fail the daemon's writes, not end the daemon.
        let script = format!("trap '' XFSZ\n{}", self.names.to_scratch(command));
        shell.args(["--kill-after=5", LIMIT, "bash", "-c", &script]);
        shell.env("PATH", self.path());
        shell.stdout(file.try_clone().map_err(|e| e.to_string())?);
        shell.stderr(file);
        let mut child = shell.spawn().map_err(|e| e.to_string())?;
        if command.contains('&') {
            self.groups.extend(Pid::from_raw(child.id().cast_signed()));
        }
        let status = child.wait().map_err(|e| e.to_string())?;
        let bytes = fs::read(&printed).map_err(|e| e.to_string())?;
        let text = String::from_utf8_lossy(&bytes);
        Ok((status.success(), self.names.to_shown(&text)))
    }

    fn path(&self) -> OsString {
        let own = self.sandbox.path("bin");
        let usual = std::env::var_os("PATH").unwrap_or_default();
        let all = std::iter::once(own).chain(std::env::split_paths(&usual));
        std::env::join_paths(all).expect("directories without colons")
    }

    /// Returns the image of a device.
    fn image(&self, shown: &str) -> String {
        let name = shown.trim_start_matches("/dev/").replace('/', "-");
        let path = self.sandbox.path("disks").join(format!("{name}.img"));
        path.display().to_string()
    }

    /// Returns the link to a device.
    fn link(&self, shown: &str) -> PathBuf {
        let name = shown.trim_start_matches("/dev/").replace('/', "-");
        self.links.path().join(name)
    }

    /// Makes a loop device, and a link to it.
    fn disk(&mut self, shown: &str, size: &str) -> Result<(), String> {
        let (link, image) = (self.link(shown), self.image(shown));
        try_tool("truncate", &["--size", size, &image])?;
        let device = try_tool("losetup", &["--find", "--show", &image])?;
        std::os::unix::fs::symlink(&device, &link).map_err(|e| e.to_string())?;
        self.names.add(shown, device);
        self.names.add(shown, link.display().to_string());
        Ok(())
    }

    /// Makes a device that is a part of a file.
    fn file(&mut self, shown: &str, size: &str) -> Result<(), String> {
        let image = self.image(shown);
        try_tool("truncate", &["--size", "1G", &image])?;
        self.names
            .add(shown, format!("{image}@{FILE_START}+{size}"));
        Ok(())
    }

    fn grow(&self, shown: &str, size: &str) -> Result<(), String> {
        let link = self.link(shown).display().to_string();
        try_tool("truncate", &["--size", size, &self.image(shown)])?;
        try_tool("losetup", &["--set-capacity", &link]).map(drop)
    }

    fn lose(&self, shown: &str) -> Result<(), String> {
        let link = self.link(shown);
        try_tool("losetup", &["--detach", &link.display().to_string()])?;
        fs::remove_file(link).map_err(|e| e.to_string())
    }

    /// Makes writes of a daemon beyond this length of a file fail, or removes the limit.
    fn limit(&self, volume: &str, len: Option<u64>) -> Result<(), String> {
        let limit = Rlimit {
            current: len,
            maximum: None,
        };
        let pid = self.sandbox.pid(volume).ok_or("the volume has no daemon")?;
        let process = Pid::from_raw(pid.cast_signed());
        let set = rustix::process::prlimit(process, Resource::Fsize, limit);
        set.map(drop).map_err(|e| e.to_string())
    }
}

impl Drop for GuideStage {
    fn drop(&mut self) {
        for &group in &self.groups {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        if self.made_mariadb_file {
            let _ = fs::remove_file(MARIADB_FILE);
        }
        // Filesystems on the devices of daemons, before the daemons are killed.
        for name in ["srv", "mnt"] {
            let at = self.sandbox.path(name);
            let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
            let mounted = mounts
                .lines()
                .rev()
                .filter_map(|line| line.split(' ').nth(1));
            for at in mounted.filter(|mount| Path::new(mount).starts_with(&at)) {
                tool("umount", &["--lazy", at]);
            }
        }
    }
}

/// Compares the lines of a page with an output. An error is the first line that the output lacks.
fn compare(shown: &[String], printed: &str) -> Result<(), String> {
    let mut lines = printed.lines().map(spaced);
    for line in shown {
        let pattern = spaced(line);
        if !pattern.is_empty() && !lines.any(|printed| matches(&pattern, &printed)) {
            return Err(line.clone());
        }
    }
    Ok(())
}

fn spaced(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.join(" ")
}

/// Returns true if a text has the form of a pattern, in which `…` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('…') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            ends.into_iter().any(|at| matches(rest, &text[at..]))
        }),
    }
}

#[test]
fn lines_are_compared_in_order_with_any_text_for_ellipses() {
    let shown = |lines: &[&str]| {
        lines
            .iter()
            .map(|&line| line.to_owned())
            .collect::<Vec<_>>()
    };
    let printed = "a   b\nnoise\nmode: full\nlast 3 of 5\n";
    for lines in [
        &["a b", "mode: …", "last … of …"][..],
        &["…"],
        &["noise"],
        &[],
    ] {
        assert_eq!(compare(&shown(lines), printed), Ok(()));
    }
    let wrong = shown(&["mode: full", "a b"]);
    assert_eq!(compare(&wrong, printed), Err("a b".to_owned()));
    assert!(compare(&shown(&["last … of 4"]), printed).is_err());
}
