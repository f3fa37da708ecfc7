//! `forebay boot`: attaches the volumes that the initramfs needs. Not for users.
//!
//! The daemon of such a volume outlives the initramfs, and the units of the system: the root filesystem may be on it. So
//! three processes follow each other:
//!
//! 1. `forebay boot` starts one process for each volume, and waits until the volume is served.
//! 2. `forebay boot --enter` moves itself into a private root ([`crate::boot_root`]), and becomes the next process.
//! 3. `forebay boot --keep` starts the daemon, and starts it again when it fails. No unit could: systemd would have to
//!    read the program from the root filesystem, which waits for the daemon.
//!
//! The names of processes 2 and 3 and of the daemon begin with `@`. systemd leaves such processes of root alone when it
//! ends all others, before and after the root filesystem is unmounted (<https://systemd.io/ROOT_STORAGE_DAEMONS>).

use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::time::Duration;

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::result_line;
use forebay_control::{ConnectError, DaemonReadiness};
use forebay_volume::{BOOT, BootAttach, ConfigFile, VolumeName};

use crate::args::BootArgs;
use crate::boot_root;
use crate::client;
use crate::daemon;
use crate::dirs::ProgramDirs;

/// Name of the processes that systemd leaves alone.
const LEFT_ALONE: &str = "@forebay";
/// Time for a daemon to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Pause before a failed daemon is started again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &BootArgs) -> CommandResult {
    let dirs = ProgramDirs::new()?;
    match (&args.enter, &args.keep) {
        (Some(name), _) => enter(&dirs, name),
        (_, Some(name)) => keep(name),
        _ if args.list => list(&dirs),
        _ => attach_all(&dirs),
    }
}

/// Calls `each` for the volumes of the initramfs. One volume's failure is printed, and does not concern the others.
///
/// # Errors
/// The last failure.
fn for_marked(
    dirs: &ProgramDirs,
    mut each: impl FnMut(&ConfigFile) -> CommandResult,
) -> CommandResult {
    let mut result = Ok(());
    for name in dirs.described_names() {
        let marked = dirs.description(&name).and_then(|described| {
            match described.service.get(&BOOT).unwrap_or_default() {
                BootAttach::On => each(&described),
                BootAttach::Off => Ok(()),
            }
        });
        let named = |failure: CommandFailure| {
            let text = format!("{name} is not attached: {}", failure.text);
            CommandFailure::new(failure.code, text)
        };
        if let Err(failure) = marked.map_err(named)
            && let Err(earlier) = std::mem::replace(&mut result, Err(failure))
        {
            eprintln!("forebay: {}", earlier.text);
        }
    }
    result
}

fn list(dirs: &ProgramDirs) -> CommandResult {
    for_marked(dirs, |described| {
        result_line!("volume {}", described.name);
        result_line!("file {}", dirs.description_file(&described.name).display());
        for (_, device) in described.tree.devices() {
            result_line!("device {}", device.path().display());
        }
        Ok(())
    })
}

fn attach_all(dirs: &ProgramDirs) -> CommandResult {
    for_marked(dirs, |described| {
        let name = &described.name;
        match client::report_within(dirs, name, PATIENCE) {
            // A daemon that does not answer is a daemon.
            Ok(_) | Err(ConnectError::Failed(_)) => return Ok(()),
            Err(ConnectError::NotAttached | ConnectError::Dead) => {}
        }
        let program = std::env::current_exe().map_err(CommandFailure::io)?;
        let mut command = Command::new(program);
        command
            .arg0(LEFT_ALONE)
            .args(["boot", "--enter", name.as_str()]);
        daemon::await_readiness(command, false)
    })
}

/// Prepares the surroundings of a daemon, and becomes the process that keeps it. Reports to the parent only if this
/// fails.
fn enter(dirs: &ProgramDirs, name: &VolumeName) -> CommandResult {
    let failure = match boot_root::enter(dirs, name) {
        Ok(()) => {
            let mut keeper = Command::new(boot_root::PROGRAM);
            keeper.arg0(LEFT_ALONE).env_clear();
            keeper.args(["boot", "--keep", name.as_str()]);
            CommandFailure::io(format!("cannot start the daemon: {}", keeper.exec()))
        }
        Err(error) => CommandFailure::io(format!("cannot leave the initramfs: {error}")),
    };
    report(failure.clone())
}

/// Serves a volume until its daemon ends by itself.
fn keep(name: &VolumeName) -> CommandResult {
    // A page of this process must not be on a swap device that waits for the daemon.
    forebay_linux::hold_memory();
    let mut child = match start(name) {
        Ok((child, ready)) => {
            // The parent is free to end. The console belongs to the system.
            let _ = daemon::send_readiness(&ready);
            let _ = release_output();
            child
        }
        Err(failure) => return report(failure),
    };
    loop {
        let ended = child.wait().map_err(CommandFailure::io)?;
        if ended.success() {
            return Ok(());
        }
        log(&format!(
            "the daemon of {name} ended ({ended}); starting it again"
        ));
        child = loop {
            std::thread::sleep(AGAIN_AFTER);
            match start(name) {
                Ok((child, _)) => break child,
                Err(failure) => log(&format!("{name} is not served: {failure}")),
            }
        };
    }
}

/// Starts the daemon, and waits until it serves.
fn start(name: &VolumeName) -> CommandResult<(Child, DaemonReadiness)> {
    let mut command = Command::new(boot_root::PROGRAM);
    command.arg0(LEFT_ALONE);
    command.args(["attach", name.as_str(), "--foreground", "--daemon"]);
    let (mut child, readiness) = daemon::start_and_hear(command)?;
    match readiness {
        DaemonReadiness::Ready { .. } => Ok((child, readiness)),
        DaemonReadiness::Failed { code, message } => {
            let _ = child.wait();
            Err(CommandFailure::new(code, message))
        }
    }
}

/// Reports a failure to the parent, which prints it, and ends with its code.
fn report(failure: CommandFailure) -> CommandResult {
    let code = failure.code;
    let message = failure.text.clone();
    match daemon::send_readiness(&DaemonReadiness::Failed { code, message }) {
        Ok(()) => std::process::exit(code as i32),
        Err(_) => Err(failure),
    }
}

/// Writes a message to the kernel's log, where each write is a message.
fn log(text: &str) {
    let _ = std::io::stderr().write_all(format!("forebay: {text}\n").as_bytes());
}

/// Sends the messages of this process to the kernel's log.
fn release_output() -> std::io::Result<()> {
    let null = fs::File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    let log = fs::File::options().write(true).open("/dev/kmsg")?;
    rustix::stdio::dup2_stderr(&log).map_err(std::io::Error::from)
}
