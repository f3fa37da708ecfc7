//! Messages of the nbd driver's generic netlink family (`linux/nbd-netlink.h`, `linux/genetlink.h`). They connect a
//! device, give a device a new connection, and disconnect a device.
//!
//! A message is a header of 16 bytes (length, type, flags, sequence number, port), a header of 4 bytes (command,
//! version), and attributes. An attribute has its length and type in 2 bytes each, then the value, padded to 4 bytes.
//! Numbers are in the machine's byte order.

use std::os::fd::{AsRawFd, BorrowedFd};

const HEADER_BYTES: usize = 16;
const GENERIC_HEADER_BYTES: usize = 4;
const ATTRIBUTE_HEADER_BYTES: usize = 4;

/// `NLM_F_REQUEST | NLM_F_ACK`.
const REQUEST_WITH_ANSWER: u16 = 1 | 4;
/// `NLMSG_ERROR`, which also reports success.
const OUTCOME: u16 = 2;
/// `NLA_F_NESTED`.
const NESTED: u16 = 1 << 15;

/// The family that returns the numbers of the others: `GENL_ID_CTRL`, its command and attributes.
pub const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// `NBD_GENL_FAMILY_NAME` with its terminating zero.
const NBD: &[u8] = b"nbd\0";

/// `NBD_CMD_*`.
mod command {
    pub(super) const CONNECT: u8 = 1;
    pub(super) const DISCONNECT: u8 = 2;
    pub(super) const RECONFIGURE: u8 = 3;
}

/// `NBD_ATTR_*`, `NBD_SOCK_*`.
mod attribute {
    pub(super) const INDEX: u16 = 1;
    pub(super) const SIZE_BYTES: u16 = 2;
    pub(super) const BLOCK_SIZE_BYTES: u16 = 3;
    pub(super) const SERVER_FLAGS: u16 = 5;
    pub(super) const SOCKETS: u16 = 7;
    pub(super) const DEAD_CONN_TIMEOUT: u16 = 8;
    pub(super) const BACKEND_IDENTIFIER: u16 = 10;
    pub(super) const SOCKET_ITEM: u16 = 1;
    pub(super) const SOCKET_FD: u16 = 1;
}

/// Properties of a new device.
#[derive(Debug)]
pub struct NbdDeviceSpec<'a> {
    /// Length of the device, in bytes.
    pub len: u64,
    /// Block size, in bytes.
    pub block_size: u32,
    /// The export's transmission flags.
    pub flags: u16,
    /// String that the driver stores with the device and shows as `backend`.
    pub backend: &'a str,
    /// Time that requests wait for a new connection, in seconds.
    pub patience: u64,
}

/// The attributes of a message.
#[derive(Default)]
struct NetlinkAttributes(Vec<u8>);

impl NetlinkAttributes {
    fn with(mut self, kind: u16, value: &[u8]) -> NetlinkAttributes {
        let len = ATTRIBUTE_HEADER_BYTES + value.len();
        self.0.extend_from_slice(&(len as u16).to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn number(self, kind: u16, value: u64) -> NetlinkAttributes {
        self.with(kind, &value.to_ne_bytes())
    }

    fn index(self, index: u32) -> NetlinkAttributes {
        self.with(attribute::INDEX, &index.to_ne_bytes())
    }

    fn backend(self, backend: &str) -> NetlinkAttributes {
        let mut text = backend.as_bytes().to_vec();
        text.push(0);
        self.with(attribute::BACKEND_IDENTIFIER, &text)
    }

    fn socket(self, socket: BorrowedFd<'_>) -> NetlinkAttributes {
        let number = (socket.as_raw_fd() as u32).to_ne_bytes();
        let fd = NetlinkAttributes::default().with(attribute::SOCKET_FD, &number);
        let item = NetlinkAttributes::default().with(attribute::SOCKET_ITEM | NESTED, &fd.0);
        self.with(attribute::SOCKETS | NESTED, &item.0)
    }
}

/// A command to a family.
pub struct NetlinkCommand {
    number: u8,
    attributes: NetlinkAttributes,
}

/// Returns a command that asks [`CONTROLLER`] for the number of the driver's family; see [`family`].
pub fn get_family() -> NetlinkCommand {
    NetlinkCommand {
        number: GET_FAMILY,
        attributes: NetlinkAttributes::default().with(FAMILY_NAME, NBD),
    }
}

/// Returns a command that creates a device from one end of a stream. The answer contains its [`index`].
pub fn connect(wished: &NbdDeviceSpec<'_>, socket: BorrowedFd<'_>) -> NetlinkCommand {
    let attributes = NetlinkAttributes::default()
        .number(attribute::SIZE_BYTES, wished.len)
        .number(attribute::BLOCK_SIZE_BYTES, wished.block_size.into())
        .number(attribute::SERVER_FLAGS, wished.flags.into())
        .number(attribute::DEAD_CONN_TIMEOUT, wished.patience)
        .backend(wished.backend)
        .socket(socket);
    NetlinkCommand {
        number: command::CONNECT,
        attributes,
    }
}

/// Returns a command that gives a device a new connection. `backend` is the string the device was created with.
pub fn reconnect(index: u32, backend: &str, socket: BorrowedFd<'_>) -> NetlinkCommand {
    let attributes = NetlinkAttributes::default().index(index).backend(backend);
    NetlinkCommand {
        number: command::RECONFIGURE,
        attributes: attributes.socket(socket),
    }
}

/// Returns a command that sets the length of a connected device, in bytes. `backend` is the string the device was
/// created with.
pub fn resize(index: u32, backend: &str, len: u64) -> NetlinkCommand {
    let attributes = NetlinkAttributes::default().index(index).backend(backend);
    NetlinkCommand {
        number: command::RECONFIGURE,
        attributes: attributes.number(attribute::SIZE_BYTES, len),
    }
}

/// Returns a command that disconnects a device.
pub fn disconnect(index: u32) -> NetlinkCommand {
    NetlinkCommand {
        number: command::DISCONNECT,
        attributes: NetlinkAttributes::default().index(index),
    }
}

impl NetlinkCommand {
    /// Encodes the message to a family. Every answer repeats the sequence number `number`.
    pub fn message(&self, family: u16, number: u32) -> Vec<u8> {
        let attributes = &self.attributes.0;
        let len = HEADER_BYTES + GENERIC_HEADER_BYTES + attributes.len();
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(&(len as u32).to_ne_bytes());
        bytes.extend_from_slice(&family.to_ne_bytes());
        bytes.extend_from_slice(&REQUEST_WITH_ANSWER.to_ne_bytes());
        bytes.extend_from_slice(&number.to_ne_bytes());
        // The kernel fills in the port; the version of both families is 1.
        bytes.extend_from_slice(&[0, 0, 0, 0, self.number, 1, 0, 0]);
        bytes.extend_from_slice(attributes);
        bytes
    }
}

/// One message of an answer.
#[derive(PartialEq, Eq, Debug)]
pub enum NetlinkMessage<'a> {
    /// Attributes.
    Data(&'a [u8]),
    /// Result of the command: 0 or an error number. Always the last message.
    Outcome(i32),
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Takes the first message off `bytes`, if the message is complete: its sequence number and its content.
pub fn next<'a>(bytes: &mut &'a [u8]) -> Option<(u32, NetlinkMessage<'a>)> {
    let len = u32_at(bytes, 0)? as usize;
    let body = bytes.get(HEADER_BYTES..len)?;
    let said = match u16_at(bytes, 4)? {
        OUTCOME => NetlinkMessage::Outcome(-(u32_at(body, 0)? as i32)),
        _ => NetlinkMessage::Data(body.get(GENERIC_HEADER_BYTES..)?),
    };
    let number = u32_at(bytes, 8)?;
    *bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    Some((number, said))
}

/// Returns the number of the family in [`CONTROLLER`]'s answer.
pub fn family(answer: &[u8]) -> Option<u16> {
    find(answer, FAMILY_ID).and_then(|value| u16_at(value, 0))
}

/// Returns the number of the device in the driver's answer.
pub fn index(answer: &[u8]) -> Option<u32> {
    find(answer, attribute::INDEX).and_then(|value| u32_at(value, 0))
}

/// Returns the value of the first attribute of this kind.
fn find(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let len = usize::from(u16_at(attributes, 0)?);
        let value = attributes.get(ATTRIBUTE_HEADER_BYTES..len)?;
        if u16_at(attributes, 2)? == kind {
            return Some(value);
        }
        attributes = attributes.get(len.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    const ENOSPC: i32 = 28;

    /// Encodes numbers of two bytes in the machine's order.
    fn words(numbers: &[u16]) -> Vec<u8> {
        numbers.iter().flat_map(|n| n.to_ne_bytes()).collect()
    }

    #[test]
    fn a_netlink_command_is_two_headers_and_padded_attributes() {
        let bytes = disconnect(3).message(0x21, 7);
        let mut expected = 28_u32.to_ne_bytes().to_vec();
        expected.extend(words(&[0x21, 5]));
        expected.extend(7_u32.to_ne_bytes());
        expected.extend([0, 0, 0, 0, 2, 1, 0, 0]);
        expected.extend(words(&[8, attribute::INDEX]));
        expected.extend(3_u32.to_ne_bytes());
        assert_eq!(bytes, expected);
        let backend = NetlinkAttributes::default().backend("ab");
        assert_eq!(backend.0[4..], *b"ab\0\0");
        assert_eq!(u16_at(&backend.0, 0), Some(7));
    }

    #[test]
    fn a_connect_command_contains_size_flags_timeout_name_and_socket() {
        let stdin = std::io::stdin();
        let wished = NbdDeviceSpec {
            len: 1 << 40,
            block_size: 4096,
            flags: 0x25,
            backend: "forebay x",
            patience: 60,
        };
        let sent = connect(&wished, stdin.as_fd()).attributes;
        let number = |kind| {
            let value = find(&sent.0, kind).expect("the attribute");
            u64::from_ne_bytes(value.try_into().expect("64 bits"))
        };
        assert_eq!(number(attribute::SIZE_BYTES), 1 << 40);
        assert_eq!(number(attribute::BLOCK_SIZE_BYTES), 4096);
        assert_eq!(number(attribute::SERVER_FLAGS), 0x25);
        assert_eq!(number(attribute::DEAD_CONN_TIMEOUT), 60);
        let backend = find(&sent.0, attribute::BACKEND_IDENTIFIER);
        assert_eq!(backend, Some(&b"forebay x\0"[..]));
        let sockets = find(&sent.0, attribute::SOCKETS | NESTED).expect("sockets");
        let item = find(sockets, attribute::SOCKET_ITEM | NESTED).expect("one socket");
        let fd = find(item, attribute::SOCKET_FD).and_then(|value| u32_at(value, 0));
        assert_eq!(fd, Some(0));
    }

    #[test]
    fn netlink_answers_are_parsed_message_by_message_and_never_beyond_their_end() {
        // An answer has the same structure as a command.
        let mut bytes = disconnect(5).message(0x21, 9);
        let mut outcome = 20_u32.to_ne_bytes().to_vec();
        outcome.extend(words(&[OUTCOME, 0]));
        outcome.extend(9_u32.to_ne_bytes());
        outcome.extend([0; 4]);
        outcome.extend((-ENOSPC).to_ne_bytes());
        bytes.extend(&outcome);
        let mut rest = &bytes[..];
        let Some((9, NetlinkMessage::Data(data))) = next(&mut rest) else {
            panic!("no data");
        };
        assert_eq!(index(data), Some(5));
        assert_eq!(find(data, attribute::SOCKETS), None);
        assert_eq!(next(&mut rest), Some((9, NetlinkMessage::Outcome(ENOSPC))));
        assert_eq!(next(&mut rest), None);
        // A truncated message or a wrong length ends the decoding.
        for cut in 0..outcome.len() {
            assert_eq!(next(&mut &outcome[..cut]), None, "{cut}");
        }
        for len in 0..8_u16 {
            let mut odd = words(&[len, attribute::INDEX]);
            odd.extend([0; 2]);
            assert_eq!(find(&odd, attribute::SOCKETS), None, "{len}");
        }
    }
}
