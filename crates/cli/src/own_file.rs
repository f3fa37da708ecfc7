//! Work of a daemon on files that may be on the volume that it serves, each done by a process of its own.
//!
//! The work may wait for a request that only a daemon of this volume can answer. If the daemon is killed meanwhile, the
//! wait ends when the next daemon answers the request. Until then, a thread that waits in the kernel keeps the memory of
//! its process. If this were the daemon, the kernel would keep the mapping of the ublk device's requests, would not know
//! that the daemon has ended, and would refuse the next one. A separate process keeps only itself.
//!
//! The process is this program again, with the hidden command `own-file`, which `commands/own_file.rs` implements. The
//! kernel kills it when the daemon ends, so that an old request cannot change a file under the next daemon.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_control::FailureCode;
use forebay_linux::isolated;
use serde::{Deserialize, Serialize};

/// The running program, also if its file was replaced meanwhile.
const PROGRAM: &str = "/proc/self/exe";

/// Work on files.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum OwnFileWork {
    /// Makes a configuration file durable as it is now, if it exists.
    Settle { file: PathBuf },
    /// Names another log in a configuration file, durably.
    NameLog(LogName),
    /// Checks that a configuration file can name another log. Changes nothing.
    CheckLog(LogName),
    /// Tells whether two paths are on a common disk: [`OwnFileReply::Common`].
    CompareDisks { one: PathBuf, other: PathBuf },
    /// Reads the failed-log record of a volume: [`OwnFileReply::Epoch`].
    ReadFailedLog { dir: PathBuf, volume: String },
    /// Records a failed log, durably.
    RecordFailedLog {
        dir: PathBuf,
        volume: String,
        epoch: u64,
    },
    /// Reads the result of a scrub: [`OwnFileReply::Text`].
    ReadScrub { file: PathBuf },
    /// Records the result of a scrub, durably.
    RecordScrub { file: PathBuf, text: String },
}

/// A log, and the configuration file that is to name it.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) struct LogName {
    pub(crate) file: PathBuf,
    pub(crate) volume: String,
    pub(crate) log: String,
}

/// Result of a work.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum OwnFileReply {
    Done,
    /// The epoch in a failed-log record, if the record exists.
    Epoch(Option<u64>),
    Text(String),
    Common(bool),
    Failed {
        code: FailureCode,
        message: String,
    },
}

/// A request to the process.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) struct OwnFileRequest {
    /// The process that waits for the reply. If it has ended, the work is not done.
    pub(crate) parent: u32,
    pub(crate) work: OwnFileWork,
}

/// Does the work in a process of its own. A thread waits for the process: starting it may take a moment.
///
/// # Errors
/// If the process cannot be started or ends without a reply, or the work fails.
pub(crate) async fn apart(work: OwnFileWork) -> io::Result<OwnFileReply> {
    let done = isolated(move || apart_blocking(work)).await?;
    done.map_err(|failure| io::Error::other(failure.text))
}

/// Like [`apart()`], for a thread that may wait.
pub(crate) fn apart_blocking(work: OwnFileWork) -> CommandResult<OwnFileReply> {
    let request = OwnFileRequest {
        parent: std::process::id(),
        work,
    };
    let request = serde_json::to_string(&request).map_err(|error| failed(&error.into()))?;
    let mut command = Command::new(PROGRAM);
    command.arg0("forebay-file").args(["own-file", &request]);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().map_err(|error| failed(&error))?;
    match serde_json::from_slice(&output.stdout) {
        Ok(OwnFileReply::Failed { code, message }) => Err(CommandFailure::new(code, message)),
        Ok(reply) => Ok(reply),
        Err(_) => Err(CommandFailure::io(format!(
            "the process that works on the files of this daemon ended without a reply ({})",
            output.status
        ))),
    }
}

fn failed(error: &io::Error) -> CommandFailure {
    CommandFailure::io(format!(
        "cannot start a process that works on the files of this daemon: {error}"
    ))
}
