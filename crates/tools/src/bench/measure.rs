//! Running a program and seeing what it took.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, Read as _, Seek as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::signals;

/// What one run took.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Run {
    pub(super) seconds: f64,
    /// Bytes that came from storage, read-ahead included.
    pub(super) read_bytes: u64,
}

impl Run {
    /// What the paper counts: reads of a page that had to wait for the disk. Bytes over the page
    /// size, since read-ahead brings in many pages with one fault.
    pub(super) fn pages(&self) -> f64 {
        self.read_bytes as f64 / 4096.0
    }
}

/// Runs a program to its end, and gives what it took and the [`digest`] of what it printed.
///
/// Its output goes to a file, as `grep` does less work when it sees that nobody looks.
///
/// # Errors
/// If it cannot be run, or ends with a code other than 0 or 1 (`grep` says 1 for no match).
pub(super) fn run(program: &Path, args: &[String], table: &Path) -> Result<(Run, u64)> {
    let words = || format!("{} {}", program.display(), args.join(" "));
    let mut output = tempfile::tempfile().context("cannot make a temporary file")?;
    let mut command = command(program);
    command
        .args(args)
        // What is measured is reading. In other locales GNU's `wc` decodes every character slowly.
        .env("LC_ALL", "C")
        .env(sleds::format::TABLE_VARIABLE, table)
        .stdout(output.try_clone()?);
    let begun = Instant::now();
    let (status, (seconds, counters)) = watched(command, |pid| {
        let seconds = begun.elapsed().as_secs_f64();
        let path = format!("/proc/{}/io", pid.as_raw_nonzero());
        let counters = fs::read_to_string(&path).with_context(|| path)?;
        Ok((seconds, counters))
    })
    .with_context(words)?;
    ensure!(
        matches!(status.code(), Some(0 | 1)),
        "{}: {status}",
        words()
    );
    let read_bytes = read_bytes_of(&counters)
        .with_context(|| format!("{}: no counters of its I/O in /proc", words()))?;
    output.rewind()?;
    let printed = digest(&mut output)?;
    Ok((
        Run {
            seconds,
            read_bytes,
        },
        printed,
    ))
}

/// A program that gets nothing to read.
pub(super) fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

/// Runs a command to its end, or until this process is told to end. `ended` looks at the process
/// after its end and before that is collected: so long are its counters there.
///
/// # Errors
/// If it cannot be run, if `ended` fails, or if this process was told to end.
pub(super) fn watched<T>(
    mut command: Command,
    ended: impl FnOnce(Pid) -> Result<T>,
) -> Result<(ExitStatus, T)> {
    let mut child = command.spawn()?;
    let pid = Pid::from_child(&child);
    let ending = signals::pass_on(pid);
    waitid(
        WaitId::Pid(pid),
        WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
    )?;
    let seen = ended(pid);
    drop(ending);
    let status = child.wait()?;
    signals::told_to_end()?;
    Ok((status, seen?))
}

/// A number that differs where the bytes do. This process lives in the little memory that is left to
/// those it measures, so it holds none of them.
///
/// # Errors
/// If they cannot be read.
pub(super) fn digest(file: &mut File) -> io::Result<u64> {
    let mut hasher = DefaultHasher::new();
    let mut buf = vec![0; 64 << 10];
    loop {
        match file.read(&mut buf)? {
            0 => return Ok(hasher.finish()),
            n => hasher.write(&buf[..n]),
        }
    }
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

    #[test]
    fn what_a_program_printed_and_read_is_seen() {
        let words = ["-c".to_owned(), "echo done; exit 1".to_owned()];
        let (run, printed) = run(Path::new("sh"), &words, Path::new("")).unwrap();
        let mut expected = tempfile::tempfile().unwrap();
        expected.write_all(b"done\n").unwrap();
        expected.rewind().unwrap();
        assert_eq!(printed, digest(&mut expected).unwrap());
        assert!(run.seconds > 0.0);
    }

    #[test]
    fn a_program_that_fails_is_an_error_that_names_it() {
        let error = run(
            Path::new("sh"),
            &["-c".into(), "exit 2".into()],
            Path::new(""),
        )
        .unwrap_err();
        assert!(error.to_string().contains("sh -c exit 2"), "{error}");
    }
}
