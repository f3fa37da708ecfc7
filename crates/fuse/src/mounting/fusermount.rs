//! `fusermount3`, which mounts for users other than root.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};

const PROGRAM: &str = "fusermount3";
/// Environment variable with the number of the socket on which the program sends the descriptor.
const SOCKET_VARIABLE: &str = "_FUSE_COMMFD";

/// Mounts a new connection at `dir`, and returns its descriptor.
///
/// # Errors
/// If the program is missing, or fails; the error contains its output.
pub(super) fn mount(dir: &Path, options: &str) -> io::Result<OwnedFd> {
    let pair = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::empty(),
        None,
    );
    let (ours, theirs) = pair?;
    rustix::io::fcntl_setfd(&ours, rustix::io::FdFlags::CLOEXEC)?;
    let child = Command::new(PROGRAM)
        .arg("-o")
        .arg(options)
        .arg("--")
        .arg(dir)
        .env(SOCKET_VARIABLE, theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(not_started)?;
    drop(theirs);
    let received = receive(&ours);
    let output = child.wait_with_output()?;
    succeeded(&output)?;
    received?.ok_or_else(|| io::Error::other(format!("{PROGRAM} returned no connection")))
}

/// Unmounts the filesystem at `dir`.
///
/// # Errors
/// If the program fails. A busy filesystem is reported by the system's error number.
pub(super) fn unmount(dir: &Path, lazy: bool) -> io::Result<()> {
    let mut command = Command::new(PROGRAM);
    command.arg("-u");
    if lazy {
        command.arg("-z");
    }
    let output = command.arg("--").arg(dir).stdin(Stdio::null()).output();
    let output = output.map_err(not_started)?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && said.contains("busy") {
        return Err(rustix::io::Errno::BUSY.into());
    }
    // Another process has unmounted it.
    if said.contains("not found") || said.contains("not mounted") {
        return Ok(());
    }
    succeeded(&output)
}

fn not_started(error: io::Error) -> io::Error {
    let text = format!(
        "cannot start {PROGRAM}, which mounts for users other than root: {error}; install fuse3"
    );
    io::Error::new(error.kind(), text)
}

fn succeeded(output: &Output) -> io::Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(said.trim().to_owned()))
}

/// Receives the descriptor that is sent on a socket; `None` if the other end is closed before.
fn receive(socket: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut byte)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(descriptors.last())
}
