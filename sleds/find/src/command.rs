//! Commands that find runs: `-exec`, `-execdir`, `-ok`, `-okdir`.

use std::ffi::OsStr;
use std::io::{self, BufRead as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Stdio};

use rustix::fs::{Access, CWD, Mode, OFlags};

use super::entry::{VisitedFile, base_name, trim_slashes};
use super::report;
use sleds_common::text;

/// Maximum length of the arguments of one run, with their terminating zeroes, in bytes.
const BYTES_MAX: usize = 128 << 10;

/// A command of the expression.
pub(super) struct CommandRunner {
    /// Words of the command. The file's name replaces each `{}`.
    words: Vec<Vec<u8>>,
    /// Run in the file's directory.
    in_dir: bool,
    /// Ask first.
    ask: bool,
    /// Run with many files at once, whose names follow the words.
    many: bool,
    /// Files for the next run.
    waiting: Vec<Vec<u8>>,
    waiting_bytes: usize,
    /// Directory of the files in `waiting`.
    dir: Option<OwnedFd>,
}

impl CommandRunner {
    pub(super) fn new(words: Vec<Vec<u8>>, in_dir: bool, ask: bool, many: bool) -> CommandRunner {
        CommandRunner {
            words,
            in_dir,
            ask,
            many,
            waiting: Vec::new(),
            waiting_bytes: 0,
            dir: None,
        }
    }

    /// Runs the command for a file, or keeps the file for later. Returns the value of the action.
    pub(super) fn run(&mut self, entry: &VisitedFile<'_>, flush: &mut dyn FnMut()) -> bool {
        let name = if self.in_dir {
            local_name(entry.path)
        } else {
            entry.path.to_vec()
        };
        if !self.many {
            flush();
            return self.run_one(entry, &name);
        }
        if self.in_dir && self.waiting.is_empty() {
            match open_parent(entry) {
                Ok(dir) => self.dir = Some(dir),
                Err(errno) => {
                    report::file_error(&parent_path(entry), errno);
                    return true;
                }
            }
        }
        let fixed: usize = self.words.iter().map(|word| word.len() + 1).sum();
        if fixed + self.waiting_bytes + name.len() + 1 > BYTES_MAX {
            self.run_waiting(flush);
        }
        self.waiting_bytes += name.len() + 1;
        self.waiting.push(name);
        true
    }

    /// Returns true if files of one directory are kept for a run.
    pub(super) fn waits_in_dir(&self) -> bool {
        self.in_dir && !self.waiting.is_empty()
    }

    /// Runs the command for the kept files.
    pub(super) fn run_waiting(&mut self, flush: &mut dyn FnMut()) {
        if self.waiting.is_empty() {
            return;
        }
        flush();
        let mut words = self.words.clone();
        words.append(&mut self.waiting);
        self.waiting_bytes = 0;
        if !self.launch(&words, self.dir.as_ref()) {
            report::fail();
        }
    }

    fn run_one(&self, entry: &VisitedFile<'_>, name: &[u8]) -> bool {
        if self.ask && !confirm(&self.words[0], entry.path) {
            return false;
        }
        let words: Vec<Vec<u8>> = self.words.iter().map(|word| put(word, name)).collect();
        if !self.in_dir {
            return self.launch(&words, None);
        }
        match open_parent(entry) {
            Ok(dir) => self.launch(&words, Some(&dir)),
            Err(errno) => {
                report::file_error(&parent_path(entry), errno);
                false
            }
        }
    }

    /// Runs a command and waits for it. Returns true if it succeeded.
    fn launch(&self, words: &[Vec<u8>], dir: Option<&OwnedFd>) -> bool {
        let status = match self.status(words, dir) {
            Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) => {
                self.status(&by_shell(words), dir)
            }
            status => status,
        };
        let status = match status {
            Ok(status) => status,
            Err(error) => {
                report::say(report::about(&words[0], report::errno_of(&error)));
                return false;
            }
        };
        if let Some(signal) = status.signal() {
            let how = format!(" terminated by signal {signal}");
            report::say(text!(report::quote(&words[0]), how));
        }
        status.success()
    }

    fn status(&self, words: &[Vec<u8>], dir: Option<&OwnedFd>) -> io::Result<ExitStatus> {
        let mut command = Command::new(OsStr::from_bytes(&words[0]));
        command.args(words[1..].iter().map(|word| OsStr::from_bytes(word)));
        if let Some(dir) = dir {
            command.current_dir(format!("/proc/self/fd/{}", dir.as_raw_fd()));
        }
        if self.ask {
            command.stdin(Stdio::null());
        }
        command.status()
    }
}

/// Returns the command line that runs a file without a known format by the shell, as `execvp` of POSIX does: a script
/// may lack the line with `#!`.
fn by_shell(words: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut all = vec![b"/bin/sh".to_vec(), in_path(&words[0])];
    all.extend_from_slice(&words[1..]);
    all
}

/// Returns the path of the command `name`, which is looked up in `PATH` if it contains no slash.
fn in_path(name: &[u8]) -> Vec<u8> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let parts = path.as_bytes().split(|byte| *byte == b':');
    let full = |part: &[u8]| match part {
        b"" => text!("./", name),
        part => text!(part, "/", name),
    };
    let runs = |path: &Vec<u8>| rustix::fs::access(&path[..], Access::EXEC_OK).is_ok();
    let found = parts.map(full).find(runs);
    found
        .filter(|_| !name.contains(&b'/'))
        .unwrap_or_else(|| name.to_vec())
}

/// Replaces every `{}` in `word` with `name`.
fn put(word: &[u8], name: &[u8]) -> Vec<u8> {
    let mut put = Vec::with_capacity(word.len() + name.len());
    let mut rest = word;
    while let Some(at) = rest.windows(2).position(|two| two == b"{}") {
        put.extend_from_slice(&rest[..at]);
        put.extend_from_slice(name);
        rest = &rest[at + 2..];
    }
    put.extend_from_slice(rest);
    put
}

/// Returns the name of a file in its own directory.
fn local_name(path: &[u8]) -> Vec<u8> {
    let base = base_name(path);
    if base == b"/" {
        return base.to_vec();
    }
    [b"./", base].concat()
}

/// Returns the path of the directory that contains a file.
fn parent_path(entry: &VisitedFile<'_>) -> Vec<u8> {
    let trimmed = trim_slashes(entry.path);
    match trimmed.iter().rposition(|b| *b == b'/') {
        Some(0) => b"/".to_vec(),
        Some(slash) => trimmed[..slash].to_vec(),
        None => b".".to_vec(),
    }
}

fn open_parent(entry: &VisitedFile<'_>) -> Result<OwnedFd, rustix::io::Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if entry.depth > 0 {
        return rustix::fs::openat(entry.dir, c".", flags, Mode::empty());
    }
    rustix::fs::openat(CWD, parent_path(entry), flags, Mode::empty())
}

/// Asks the user for permission to run a command for a file.
fn confirm(command: &[u8], path: &[u8]) -> bool {
    let _ = std::io::stderr().write_all(&text!("< ", command, " ... ", path, " > ? "));
    let mut answer = Vec::new();
    let read = std::io::stdin().lock().read_until(b'\n', &mut answer);
    read.is_ok() && matches!(answer.first(), Some(b'y' | b'Y'))
}

/// Returns the reason why commands must not run in directories that other users may have filled: a relative part of
/// `PATH`, which would be looked up there.
pub(super) fn unsafe_path(action: &str) -> Option<Vec<u8>> {
    let path = std::env::var_os("PATH")?;
    let mut parts = path.as_bytes().split(|b| *b == b':');
    let part = parts.find(|part| !part.starts_with(b"/"))?;
    let (what, remedy) = match part {
        b"" | b"." => (
            b"The current directory".to_vec(),
            "the current directory from your $PATH (that is, remove \".\", doubled colons, or \
             leading or trailing colons)",
        ),
        part => (
            text!("The relative path ", report::quote(part)),
            "that entry from $PATH",
        ),
    };
    let why = format!(
        " is included in the PATH environment variable, which is insecure in combination with the \
         {action} action of find.  Please remove "
    );
    Some(text!(what, why, remedy))
}
