//! The scratch volume, driven through the program itself, as a user does.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use forebay_serve::blockdev::{LeftoverPolicy, cleanup_stale};
use forebay_volume::VolumeName;
use rustix::process::{Pid, Signal};

use super::place::ScratchDir;
use forebay_program::client::{ControlClient, ProcessHandle};
use forebay_program::failure::{CommandFailure, CommandResult};
use forebay_program::report::StatusReport;

/// Longest time for a daemon to end.
const END_PATIENCE: Duration = Duration::from_secs(20);

/// A volume in the scratch directory, with directories of its own for configuration files and sockets.
pub(super) struct ScratchVolume {
    name: VolumeName,
    config: PathBuf,
    runtime: PathBuf,
}

impl ScratchVolume {
    /// Creates the volume and its configuration file; `more` contains further arguments of `create`.
    pub(super) fn create(
        scratch: &ScratchDir,
        name: &str,
        data: &str,
        more: &[&str],
    ) -> CommandResult<ScratchVolume> {
        let volume = ScratchVolume {
            name: name.parse()?,
            config: scratch.subdir("etc")?,
            runtime: scratch.subdir("run")?,
        };
        let create = ["create", "--name", name, "--data", data];
        volume.forebay(&[&create[..], more].concat())?;
        Ok(volume)
    }

    /// Returns the socket of the NBD server.
    pub(super) fn nbd_socket(&self) -> PathBuf {
        self.runtime.join(format!("{}.nbd.sock", self.name))
    }

    /// Runs this program on the volume's directories. Returns the first line that the program prints.
    pub(super) fn forebay(&self, args: &[&str]) -> CommandResult<String> {
        let program = std::env::current_exe().map_err(CommandFailure::io)?;
        let output = Command::new(program)
            .args(args)
            .env("FOREBAY_CONFIG_DIR", &self.config)
            .env("FOREBAY_RUNTIME_DIR", &self.runtime)
            .env("FOREBAY_STATE_DIR", self.config.join("state"))
            .output()
            .map_err(CommandFailure::io)?;
        first_line(&format!("forebay {}", args.join(" ")), &output)
    }

    /// Attaches the volume. Returns the block device or URI.
    pub(super) fn attach(&self, via: &str) -> CommandResult<String> {
        self.forebay(&["attach", self.name.as_str(), "--via", via])
    }

    /// Mounts the volume, which must be a filesystem.
    pub(super) fn mount(&self, at: &Path) -> CommandResult {
        let at = at.display().to_string();
        self.forebay(&["mount", self.name.as_str(), &at]).map(drop)
    }

    /// Unmounts a directory, also if the mount is stale.
    pub(super) fn umount(&self, at: &Path) -> CommandResult {
        self.forebay(&["umount", &at.display().to_string()])
            .map(drop)
    }

    /// Returns the bytes that the volume's daemon has written to devices.
    pub(super) fn written(&self) -> io::Result<u64> {
        let pid = self.client().and_then(|mut client| client.pid());
        let pid = pid.map_err(|failure| io::Error::other(failure.to_string()))?;
        let said = std::fs::read_to_string(format!("/proc/{pid}/io"))?;
        let bytes = said
            .lines()
            .find_map(|line| line.strip_prefix("write_bytes: "));
        let bytes = bytes.and_then(|bytes| bytes.parse().ok());
        bytes.ok_or(io::ErrorKind::InvalidData.into())
    }

    /// Kills the volume's daemon, as a crash does.
    pub(super) fn kill(&self) -> CommandResult {
        let pid = self.client()?.pid()?;
        self.signal(pid, Signal::KILL)
    }

    pub(super) fn status(&self) -> CommandResult<StatusReport> {
        self.client()?.status()
    }

    /// Drains and detaches the volume. Returns the time that this took.
    pub(super) fn detach(&self) -> CommandResult<Duration> {
        let started = Instant::now();
        self.forebay(&["detach", self.name.as_str()])?;
        Ok(started.elapsed())
    }

    /// Runs the program's own check, which must find neither faults nor a need for recovery.
    pub(super) fn check(&self) -> CommandResult {
        self.forebay(&["check", self.name.as_str()]).map(drop)
    }

    fn client(&self) -> CommandResult<ControlClient> {
        ControlClient::at(
            &self.runtime.join(format!("{}.sock", self.name)),
            &self.name,
        )
    }

    fn signal(&self, pid: u32, signal: Signal) -> CommandResult {
        let process = ProcessHandle::open(pid);
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let Some((process, pid)) = process.zip(raw) else {
            return Err(CommandFailure::general("the daemon ended"));
        };
        rustix::process::kill_process(pid, signal).map_err(CommandFailure::io)?;
        if !process.wait(END_PATIENCE) {
            return Err(CommandFailure::general("the daemon does not end"));
        }
        Ok(())
    }

    /// Ends processes and removes devices, in every state of the volume.
    fn clean_up(&self) {
        let pid = self.client().and_then(|mut client| client.pid());
        if let Ok(pid) = pid
            && self.signal(pid, Signal::TERM).is_err()
        {
            let _ = self.signal(pid, Signal::KILL);
        }
        if let Err(error) = cleanup_stale(&self.runtime, self.name.as_str(), LeftoverPolicy::Detach)
        {
            eprintln!("forebay: cannot clean up: {error}");
        }
    }
}

impl Drop for ScratchVolume {
    fn drop(&mut self) {
        self.clean_up();
    }
}

/// Returns the first line that a program printed, or its error.
pub(super) fn first_line(what: &str, output: &Output) -> CommandResult<String> {
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(CommandFailure::general(format!(
            "{what} failed ({}): {}",
            output.status,
            said.trim()
        )));
    }
    let out = String::from_utf8_lossy(&output.stdout);
    Ok(out.lines().next().unwrap_or_default().to_owned())
}
