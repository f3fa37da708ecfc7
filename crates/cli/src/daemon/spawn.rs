//! Starts a daemon in the background, and waits until it is ready.
//!
//! The daemon is this program again, with `--foreground --daemon`. Its standard output is a pipe to the parent process,
//! on which it writes a single line ([`DaemonReadiness`]). Then it releases everything that belongs to a terminal, and logs
//! to a file in the runtime directory.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use forebay_control::DaemonReadiness;

use super::start::StartedDaemon;
use crate::dirs::ProgramDirs;
use crate::logging;
use forebay_command_output::failure::{CommandFailure, CommandResult, FailureCode};
use forebay_command_output::result_line;

/// A longer log file is renamed, and a new one is begun. The previous file is kept beside it.
const LOG_BYTES_MAX: u64 = 1 << 20;

/// Starts a daemon with these arguments, and waits until it serves the volume. Prints the name that users open, unless
/// `is_quiet` is set.
pub(crate) fn in_background(args: Vec<OsString>, is_quiet: bool) -> CommandResult {
    let cannot = |error: io::Error| CommandFailure::io(format!("cannot start the daemon: {error}"));
    let program = std::env::current_exe().map_err(cannot)?;
    let mut command = Command::new(program);
    command.args(daemon_args(args));
    await_readiness(command, is_quiet)
}

/// Starts a daemon by this command, and waits until it serves the volume. Prints the name that users open, unless
/// `is_quiet` is set.
pub(crate) fn await_readiness(command: Command, is_quiet: bool) -> CommandResult {
    let (mut child, readiness) = start_and_hear(command)?;
    match readiness {
        DaemonReadiness::Ready { endpoint, notes } => {
            for note in notes {
                eprintln!("forebay: {note}");
            }
            if !is_quiet {
                result_line!("{endpoint}");
            }
            Ok(())
        }
        DaemonReadiness::Failed { code, message } => {
            // Wait, so that the daemon's resources are free on return.
            let _ = child.wait();
            Err(CommandFailure::new(code, message))
        }
    }
}

/// Starts a daemon by this command. Returns its process, and the message about its start.
pub(crate) fn start_and_hear(mut command: Command) -> CommandResult<(Child, DaemonReadiness)> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let cannot = |error: io::Error| CommandFailure::io(format!("cannot start the daemon: {error}"));
    let mut child = child.map_err(cannot)?;
    let readiness = heard_from(&mut child)?;
    Ok((child, readiness))
}

fn daemon_args(mut args: Vec<OsString>) -> Vec<OsString> {
    let end = args.iter().position(|arg| arg == "--");
    let at = end.unwrap_or(args.len());
    args.splice(at..at, ["--foreground".into(), "--daemon".into()]);
    args
}

fn heard_from(child: &mut Child) -> CommandResult<DaemonReadiness> {
    let out = child.stdout.take().map(BufReader::new);
    let mut line = String::new();
    if let Some(mut out) = out {
        let _ = out.read_line(&mut line);
    }
    serde_json::from_str(&line).map_err(|_| {
        let ended = match child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        CommandFailure::general(format!(
            "the daemon ended before it was ready, without an error message ({ended})"
        ))
    })
}

/// Reports that the volume is served, and goes on without a terminal.
pub(super) fn report_ready(dirs: &ProgramDirs, started: &StartedDaemon) -> CommandResult {
    let name = &started.daemon.target.name;
    let log = dirs.daemon_log(name);
    let detach = || -> io::Result<()> {
        let log = open_log(&log)?;
        // Leave the directory that the daemon was started in, so that it is not kept in use.
        std::env::set_current_dir("/")?;
        send_readiness(&DaemonReadiness::Ready {
            endpoint: started.daemon.endpoint(),
            notes: started.notes.clone(),
        })?;
        rustix::stdio::dup2_stderr(&log)?;
        logging::release();
        let null = File::options().read(true).write(true).open("/dev/null")?;
        rustix::stdio::dup2_stdout(&null)?;
        Ok(())
    };
    detach().map_err(|error| {
        CommandFailure::new(
            FailureCode::General,
            format!(
                "stopped: the command that started {name} ended, or cannot be notified ({error})"
            ),
        )
    })?;
    tracing::info!(
        endpoint = started.daemon.endpoint(),
        pid = std::process::id(),
        "serving {name}"
    );
    for note in &started.notes {
        tracing::info!("{note}");
    }
    Ok(())
}

/// Reports the reason why the volume is not served.
pub(super) fn report_failure(failure: &CommandFailure) {
    // The parent may have exited.
    let _ = send_readiness(&DaemonReadiness::Failed {
        code: failure.code,
        message: failure.text.clone(),
    });
}

/// Writes the message about the start for the parent process.
///
/// # Errors
/// If the parent process has ended.
pub(crate) fn send_readiness(readiness: &DaemonReadiness) -> io::Result<()> {
    let mut line = serde_json::to_string(readiness)?;
    line.push('\n');
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.flush()
}

fn open_log(path: &Path) -> io::Result<File> {
    if fs::metadata(path).is_ok_and(|log| log.len() > LOG_BYTES_MAX) {
        fs::rename(path, path.with_extension("log.old"))?;
    }
    File::options().append(true).create(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemon_options_are_inserted_before_the_end_of_options() {
        let args = |words: &[&str]| words.iter().map(Into::into).collect::<Vec<OsString>>();
        let expected = args(&["attach", "--foreground", "--daemon", "--", "-x"]);
        assert_eq!(daemon_args(args(&["attach", "--", "-x"])), expected);
        let expected = args(&["attach", "a", "--foreground", "--daemon"]);
        assert_eq!(daemon_args(args(&["attach", "a"])), expected);
    }
}
