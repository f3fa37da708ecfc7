//! Commands to the nbd driver through its generic netlink family. The messages are in `codec/netlink.rs`.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::netlink::GENERIC;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::codec::netlink::{self, NbdDeviceSpec, NetlinkCommand, NetlinkMessage};

/// Buffer size, larger than any answer.
const ANSWER_BYTES: usize = 16 << 10;

/// A socket to the driver.
pub(super) struct NbdControl {
    socket: OwnedFd,
    family: u16,
    sent: u32,
}

impl NbdControl {
    /// Opens a socket to the driver.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the driver is missing.
    pub(super) fn open() -> io::Result<NbdControl> {
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(GENERIC),
        )?;
        let mut control = NbdControl {
            socket,
            family: netlink::CONTROLLER,
            sent: 0,
        };
        let answer = control.ask(&netlink::get_family())?;
        control.family = netlink::family(&answer).ok_or(io::ErrorKind::InvalidData)?;
        Ok(control)
    }

    /// Creates a device from one end of a stream, and returns its number. The device has its size on return.
    pub(super) fn connect(
        &mut self,
        wished: &NbdDeviceSpec<'_>,
        socket: BorrowedFd<'_>,
    ) -> io::Result<u32> {
        let answer = self.ask(&netlink::connect(wished, socket))?;
        netlink::index(&answer).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Gives a new connection to a device whose connection is gone. `backend` is the string the device was created
    /// with.
    ///
    /// # Errors
    /// `ENOSPC` while the driver has not noticed that the previous connection is gone.
    pub(super) fn reconnect(
        &mut self,
        index: u32,
        backend: &str,
        socket: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let command = netlink::reconnect(index, backend, socket);
        self.ask(&command).map(drop)
    }

    /// Sets the length of a device, in bytes. `backend` is the string the device was created with. Waits for the
    /// requests under way.
    pub(super) fn resize(&mut self, index: u32, backend: &str, len: u64) -> io::Result<()> {
        self.ask(&netlink::resize(index, backend, len)).map(drop)
    }

    /// Disconnects a device; its waiting requests fail.
    pub(super) fn disconnect(&mut self, index: u32) -> io::Result<()> {
        self.ask(&netlink::disconnect(index)).map(drop)
    }

    /// Sends a command, and returns the attributes of the answer.
    fn ask(&mut self, command: &NetlinkCommand) -> io::Result<Vec<u8>> {
        self.sent += 1;
        let message = command.message(self.family, self.sent);
        rustix::net::send(&self.socket, &message, SendFlags::empty())?;
        let mut answer = Vec::new();
        let mut buffer = vec![0; ANSWER_BYTES];
        loop {
            // The driver executes a command during the send call, so the answer is already available.
            let (got, _) = rustix::net::recv(&self.socket, &mut *buffer, RecvFlags::DONTWAIT)?;
            let mut rest = &buffer[..got];
            while let Some((number, said)) = netlink::next(&mut rest) {
                match said {
                    _ if number != self.sent => {}
                    NetlinkMessage::Data(data) => answer = data.to_vec(),
                    NetlinkMessage::Outcome(0) => return Ok(answer),
                    NetlinkMessage::Outcome(errno) => {
                        return Err(io::Error::from_raw_os_error(errno));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_netlink_family_is_reported() {
        if std::path::Path::new("/sys/block/nbd0").exists() {
            let skipped = b"SKIPPED: a_missing_netlink_family_is_reported: this kernel has nbd\n";
            return std::io::Write::write_all(&mut std::io::stderr(), skipped)
                .expect("standard error");
        }
        match NbdControl::open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let skipped = format!(
                    "SKIPPED: a_missing_netlink_family_is_reported: no generic netlink here: {error}\n"
                );
                std::io::Write::write_all(&mut std::io::stderr(), skipped.as_bytes())
                    .expect("standard error");
            }
            Ok(_) => panic!("there is no nbd driver"),
        }
    }
}
