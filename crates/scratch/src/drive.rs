//! The scratch volume, driven through the program `forebay`, as a user does.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use forebay_control::{ANSWER_PATIENCE, ConnectError, ControlClient, ProcessHandle, VolumeReport};
use forebay_loopdev::{LeftoverPolicy, cleanup_stale};
use forebay_volume::{LayerStatus, VolumeName};
use rustix::process::{Pid, Signal};

use super::place::ScratchDir;
use forebay_command_output::failure::{CommandFailure, CommandResult};

/// Longest time for a daemon to end.
const END_PATIENCE: Duration = Duration::from_secs(20);

/// A volume in the scratch directory, with directories of its own for configuration files and sockets.
pub struct ScratchVolume {
    name: VolumeName,
    /// The program `forebay`.
    program: PathBuf,
    config: PathBuf,
    runtime: PathBuf,
}

impl ScratchVolume {
    /// Creates the volume and its configuration file by `program`, the program `forebay`; `more` contains further
    /// arguments of `create`.
    ///
    /// # Errors
    /// If the name is invalid, a directory cannot be created, or `forebay create` fails.
    pub fn create(
        program: &Path,
        scratch: &ScratchDir,
        name: &str,
        data: &str,
        more: &[&str],
    ) -> CommandResult<ScratchVolume> {
        let volume = ScratchVolume {
            name: name.parse()?,
            program: program.to_owned(),
            config: scratch.subdir("etc")?,
            runtime: scratch.subdir("run")?,
        };
        let create = ["create", "--name", name, "--data", data];
        volume.forebay(&[&create[..], more].concat())?;
        Ok(volume)
    }

    /// Returns the socket of the NBD server.
    pub(crate) fn nbd_socket(&self) -> PathBuf {
        self.runtime.join(format!("{}.nbd.sock", self.name))
    }

    /// Runs the program on the volume's directories. Returns the first line that the program prints.
    pub(crate) fn forebay(&self, args: &[&str]) -> CommandResult<String> {
        let output = Command::new(&self.program)
            .args(args)
            .env("FOREBAY_CONFIG_DIR", &self.config)
            .env("FOREBAY_RUNTIME_DIR", &self.runtime)
            .env("FOREBAY_STATE_DIR", self.config.join("state"))
            .output()
            .map_err(CommandFailure::io)?;
        first_line(&format!("forebay {}", args.join(" ")), &output)
    }

    /// Attaches the volume. Returns the block device or URI.
    ///
    /// # Errors
    /// If `forebay attach` fails.
    pub fn attach(&self, via: &str) -> CommandResult<String> {
        self.forebay(&["attach", self.name.as_str(), "--via", via])
    }

    /// Mounts the volume, which must be a filesystem.
    ///
    /// # Errors
    /// If `forebay mount` fails.
    pub fn mount(&self, at: &Path) -> CommandResult {
        let at = at.display().to_string();
        self.forebay(&["mount", self.name.as_str(), &at]).map(drop)
    }

    /// Unmounts a directory, also if the mount is stale.
    ///
    /// # Errors
    /// If `forebay umount` fails.
    pub fn umount(&self, at: &Path) -> CommandResult {
        self.forebay(&["umount", &at.display().to_string()])
            .map(drop)
    }

    /// Returns the bytes that the volume's daemon has written to devices.
    ///
    /// # Errors
    /// If the volume has no daemon, or its counters cannot be read.
    pub fn written(&self) -> io::Result<u64> {
        let pid = self
            .pid()
            .map_err(|failure| io::Error::other(failure.to_string()))?;
        let said = std::fs::read_to_string(format!("/proc/{pid}/io"))?;
        let bytes = said
            .lines()
            .find_map(|line| line.strip_prefix("write_bytes: "));
        let bytes = bytes.and_then(|bytes| bytes.parse().ok());
        bytes.ok_or(io::ErrorKind::InvalidData.into())
    }

    /// Kills the volume's daemon, as a crash does.
    pub(crate) fn kill(&self) -> CommandResult {
        let pid = self.pid()?;
        self.signal(pid, Signal::KILL)
    }

    pub(crate) fn status(&self) -> CommandResult<VolumeReport<LayerStatus>> {
        Ok(self.client()?.status()?)
    }

    /// Drains and detaches the volume. Returns the time that this took.
    pub(crate) fn detach(&self) -> CommandResult<Duration> {
        let started = Instant::now();
        self.forebay(&["detach", self.name.as_str()])?;
        Ok(started.elapsed())
    }

    /// Runs the program's own check, which must find neither faults nor a need for recovery.
    pub(crate) fn check(&self) -> CommandResult {
        self.forebay(&["check", self.name.as_str()]).map(drop)
    }

    fn client(&self) -> CommandResult<ControlClient<LayerStatus>> {
        let name = &self.name;
        let socket = self.runtime.join(format!("{name}.sock"));
        let connected = ControlClient::connect(&socket, name.as_str(), ANSWER_PATIENCE);
        connected.map_err(|absent| match absent {
            ConnectError::Failed(error) => error.into(),
            absent => CommandFailure::not_found(format!("{name}: {absent}")),
        })
    }

    /// Returns the process id of the volume's daemon.
    fn pid(&self) -> CommandResult<u32> {
        Ok(self.client()?.pid()?)
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
        if let Ok(pid) = self.pid()
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
pub(crate) fn first_line(what: &str, output: &Output) -> CommandResult<String> {
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
