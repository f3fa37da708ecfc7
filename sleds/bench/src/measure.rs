//! Runs programs and measures their resource use.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::rusage;
use sleds_common::signals;

/// Measurements of one run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct RunMeasurement {
    pub(super) seconds: f64,
    /// Processor time, in seconds.
    pub(super) cpu_s: f64,
    /// Bytes read from storage, read-ahead included.
    pub(super) read_bytes: u64,
}

impl RunMeasurement {
    /// Returns the paper's unit: reads of a page that had to wait for the disk. Computed as bytes by page size, since
    /// read-ahead reads many pages with one fault.
    pub(super) fn pages(&self) -> f64 {
        self.read_bytes as f64 / 4096.0
    }
}

/// Runs a program to its end in an environment, and returns its measurements. Afterwards `output` contains exactly the
/// program's output.
///
/// The output goes to a file, since `grep` does less work if its output has no reader.
///
/// # Errors
/// If the program cannot be run, or ends with an exit code other than 0 or 1 (1 is `grep`'s code for no match).
pub(super) fn run<A: AsRef<OsStr>>(
    program: &Path,
    args: &[A],
    env: &[(&str, &OsStr)],
    mut output: &File,
) -> Result<RunMeasurement> {
    let words = || shown(program, args);
    output.rewind()?;
    output.set_len(0)?;
    let mut command = command(program);
    command
        .args(args)
        .envs(env.iter().copied())
        .stdout(output.try_clone()?)
        // `grep` reports a binary file there.
        .stderr(Stdio::null());
    let begun = Instant::now();
    let ended = |pid| Ok((begun.elapsed().as_secs_f64(), counters_of(pid)?));
    let (status, cpu_s, (seconds, counters)) = watched(command, ended).with_context(words)?;
    let done = matches!(status.code(), Some(0 | 1));
    ensure!(done, "{}: {status}", words());
    let read_bytes = read_bytes_of(&counters)
        .with_context(|| format!("{}: no counters of its I/O in /proc", words()))?;
    Ok(RunMeasurement {
        seconds,
        cpu_s,
        read_bytes,
    })
}

/// Formats a command for an error, with its first arguments.
fn shown<A: AsRef<OsStr>>(program: &Path, args: &[A]) -> String {
    let args = args.iter().take(8);
    let args: Vec<_> = args.map(|arg| arg.as_ref().to_string_lossy()).collect();
    format!("{} {}", program.display(), args.join(" "))
}

/// Returns a number ([`digest`]) for the content of a file.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn printed(mut output: &File) -> io::Result<u64> {
    output.rewind()?;
    digest(output)
}

/// Returns a line about the machine.
pub(super) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease");
    release.map_or_else(
        |_| String::new(),
        |release| format!("Linux {}, {cores} cores.\n", release.trim()),
    )
}

/// Returns the path of the running program, which is `sleds`.
pub(super) fn this_program() -> Result<PathBuf> {
    std::env::current_exe().context("where is this program?")
}

/// Makes a command with an empty standard input.
pub(super) fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

/// Runs a command to its end, or until this process is told to end. `ended` examines the process after its end and
/// before it is collected, while its counters still exist. Returns the exit status, and the processor time in seconds.
///
/// # Errors
/// If the command cannot be run, if `ended` fails, or if this process was told to end.
pub(super) fn watched<T>(
    mut command: Command,
    ended: impl FnOnce(Pid) -> Result<T>,
) -> Result<(ExitStatus, f64, T)> {
    let child = command.spawn()?;
    let pid = Pid::from_child(&child);
    let ending = signals::pass_on(pid);
    waitid(
        WaitId::Pid(pid),
        WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
    )?;
    let seen = ended(pid);
    drop(ending);
    let (status, cpu_s) = rusage::wait(child)?;
    signals::told_to_end()?;
    Ok((status, cpu_s, seen?))
}

/// Returns a number that differs for different content. This process shares the little memory of the measured programs,
/// so it does not keep the content.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn digest(mut file: &File) -> io::Result<u64> {
    let mut hasher = DefaultHasher::new();
    let mut buf = vec![0; 64 << 10];
    loop {
        match file.read(&mut buf)? {
            0 => return Ok(hasher.finish()),
            n => hasher.write(&buf[..n]),
        }
    }
}

/// Returns the kernel's counters of a process's reads and writes.
fn counters_of(pid: Pid) -> Result<String> {
    let path = format!("/proc/{}/io", pid.as_raw_nonzero());
    fs::read_to_string(&path).with_context(|| path)
}

fn read_bytes_of(counters: &str) -> Option<u64> {
    let line = counters
        .lines()
        .find_map(|line| line.strip_prefix("read_bytes:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn shell(script: &str) -> Result<(RunMeasurement, File)> {
        let output = tempfile::tempfile().unwrap();
        let run = run(Path::new("sh"), &["-c", script], &[], &output)?;
        Ok((run, output))
    }

    #[test]
    fn output_and_time_of_a_program_are_captured() {
        let (run, output) = shell("echo done; exit 1").unwrap();
        let mut expected = tempfile::tempfile().unwrap();
        expected.write_all(b"done\n").unwrap();
        assert_eq!(printed(&output).unwrap(), printed(&expected).unwrap());
        assert!(run.seconds > 0.0 && run.cpu_s > 0.0);
    }

    #[test]
    fn earlier_output_is_discarded() {
        let (_, output) = shell("echo a long line").unwrap();
        let env = [("WORD", OsStr::new("x"))];
        run(Path::new("sh"), &["-c", "echo $WORD"], &env, &output).unwrap();
        let expected = shell("echo x").unwrap().1;
        assert_eq!(printed(&output).unwrap(), printed(&expected).unwrap());
    }

    #[test]
    fn a_failed_program_is_an_error_with_its_command_line() {
        let error = shell("exit 2").unwrap_err();
        assert!(error.to_string().contains("sh -c exit 2"), "{error}");
    }
}
