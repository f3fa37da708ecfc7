//! The encoding of the messages of the ublk driver: commands, device properties, requests.
//!
//! Numbers are in the machine's own order; the kernel is on the same machine. docs/design/ublk.md lists the features
//! used, and the kernel version of each.
//!
//! Protocol: `linux/ublk_cmd.h` of the kernel's user API, as of Linux 6.5, with later additions.

use std::ops::Range;

/// Commands to `/dev/ublk-control`, with a [`UblkControlCommand`].
pub mod control {
    use super::{read, write};

    const BYTES: u32 = 32;

    /// Returns the driver's features, in 64 bits.
    pub const GET_FEATURES: u32 = read(0x13, BYTES);
    /// Returns the properties of a device, as a `UblkDeviceInfo`.
    pub const GET_DEV_INFO: u32 = read(0x02, BYTES);
    /// Creates a device from a `UblkDeviceInfo`, and returns its actual properties in the buffer.
    pub const ADD_DEV: u32 = write(0x04, BYTES);
    /// Removes a device, and waits until its last user closes it.
    pub const DEL_DEV: u32 = write(0x05, BYTES);
    /// Removes a device as soon as its last user closes it, without waiting (Linux 6.9).
    pub const DEL_DEV_ASYNC: u32 = read(0x14, BYTES);
    /// Starts the block device, after all tags are fetched.
    pub const START_DEV: u32 = write(0x06, BYTES);
    /// Stops the block device, even if it is in use.
    pub const STOP_DEV: u32 = write(0x07, BYTES);
    /// Sets the length of a live device, in sectors of 512 bytes (Linux 6.16).
    pub const UPDATE_SIZE: u32 = write(0x15, BYTES);
    /// Stops the block device if no process has it open (Linux 7.0).
    pub const TRY_STOP_DEV: u32 = write(0x17, BYTES);
    /// Sets the parameters of the block device, from `UblkParams`.
    pub const SET_PARAMS: u32 = write(0x08, BYTES);
    /// Returns the parameters of the block device.
    pub const GET_PARAMS: u32 = read(0x09, BYTES);
    /// Begins the recovery of a device whose server is gone.
    pub const START_USER_RECOVERY: u32 = write(0x10, BYTES);
    /// Ends the recovery, after all tags are fetched: requests flow again.
    pub const END_USER_RECOVERY: u32 = write(0x11, BYTES);
}

/// Commands to `/dev/ublkcN`, with a [`UblkQueueCommand`].
pub mod queue {
    use super::write;

    const BYTES: u32 = 16;

    /// Offers a tag for the first time.
    pub const FETCH_REQ: u32 = write(0x20, BYTES);
    /// Answers the request of a tag and offers the tag for the next request.
    pub const COMMIT_AND_FETCH_REQ: u32 = write(0x21, BYTES);
}

/// Features of a device and of the driver: bits of `UblkDeviceInfo::flags`.
pub mod feature {
    /// The device outlives its server.
    pub const USER_RECOVERY: u64 = 1 << 3;
    /// Unanswered requests of an ended server are sent to the next server.
    pub const USER_RECOVERY_REISSUE: u64 = 1 << 4;
    /// Command numbers have the encoding used here.
    pub const CMD_IOCTL_ENCODE: u64 = 1 << 6;
    /// Data is copied through reads and writes of `/dev/ublkcN`, instead of to an address passed with the tag.
    pub const USER_COPY: u64 = 1 << 7;
}

/// Bytes of the driver's sectors.
pub const SECTOR_BYTES: u64 = 512;

const fn command(direction: u32, number: u32, bytes: u32) -> u32 {
    direction << 30 | bytes << 16 | (b'u' as u32) << 8 | number
}

/// `_IOR('u', …)`.
const fn read(number: u32, bytes: u32) -> u32 {
    command(2, number, bytes)
}

/// `_IOWR('u', …)`.
const fn write(number: u32, bytes: u32) -> u32 {
    command(3, number, bytes)
}

/// Returns the position of the data of a tag's request in `/dev/ublkcN`.
pub fn data_offset(tag: u16) -> u64 {
    const BEGIN: u64 = 0x8000_0000;
    const TAG_SHIFT: u32 = 25;
    BEGIN + (u64::from(tag) << TAG_SHIFT)
}

/// Returns the bytes of a queue's descriptors, which are mapped from the beginning of `/dev/ublkcN`.
pub fn descriptors_len(depth: u16, page: usize) -> usize {
    (usize::from(depth) * DESCRIPTOR).next_multiple_of(page)
}

/// Writes fields into a structure at their offsets.
struct FieldWriter<const N: usize>([u8; N]);

impl<const N: usize> FieldWriter<N> {
    fn new() -> FieldWriter<N> {
        FieldWriter([0; N])
    }

    fn put<const M: usize>(&mut self, at: usize, bytes: [u8; M]) {
        self.0[at..at + M].copy_from_slice(&bytes);
    }
}

fn take<const M: usize>(bytes: &[u8], at: usize) -> [u8; M] {
    std::array::from_fn(|i| bytes[at + i])
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(take(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(take(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(take(bytes, at))
}

/// `struct ublksrv_ctrl_cmd`: the arguments of a control command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UblkControlCommand {
    /// Device number; [`ANY_DEVICE`] for a command that is not about a device.
    pub device: u32,
    /// Address and length of the command's buffer.
    pub buffer: (u64, u16),
    /// Additional number.
    pub data: u64,
}

/// Asks the driver to choose a free device number.
pub const ANY_DEVICE: u32 = u32::MAX;

impl UblkControlCommand {
    /// Encodes the command, padded to the size of a command's payload on the ring.
    pub fn encode(&self) -> [u8; 80] {
        let no_queue = u16::MAX;
        let mut out = FieldWriter::<80>::new();
        out.put(0, self.device.to_ne_bytes());
        out.put(4, no_queue.to_ne_bytes());
        out.put(6, self.buffer.1.to_ne_bytes());
        out.put(8, self.buffer.0.to_ne_bytes());
        out.put(16, self.data.to_ne_bytes());
        out.0
    }
}

/// State of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UblkDeviceState {
    /// The block device is not started yet, or stopped.
    Dead,
    /// The device has a server.
    Live,
    /// The server is gone; requests wait for the next server.
    Quiesced,
    /// The server is gone; requests fail until the next server.
    Failing,
    /// A state of a newer driver.
    Unknown(u16),
}

impl UblkDeviceState {
    fn of(number: u16) -> UblkDeviceState {
        match number {
            0 => UblkDeviceState::Dead,
            1 => UblkDeviceState::Live,
            2 => UblkDeviceState::Quiesced,
            3 => UblkDeviceState::Failing,
            other => UblkDeviceState::Unknown(other),
        }
    }

    fn number(self) -> u16 {
        match self {
            UblkDeviceState::Dead => 0,
            UblkDeviceState::Live => 1,
            UblkDeviceState::Quiesced => 2,
            UblkDeviceState::Failing => 3,
            UblkDeviceState::Unknown(other) => other,
        }
    }
}

/// Bytes of a [`UblkDeviceInfo`].
pub const DEVICE_INFO: usize = 64;

/// `struct ublksrv_ctrl_dev_info`: the properties and state of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UblkDeviceInfo {
    /// Number of queues.
    pub queues: u16,
    /// Limit on the requests under way of each queue.
    pub depth: u16,
    /// State.
    pub state: UblkDeviceState,
    /// Largest request in bytes.
    pub io_bytes_max: u32,
    /// Number N in `/dev/ublkbN` and `/dev/ublkcN`.
    pub id: u32,
    /// Process id of the server. Without a server the value depends on the kernel.
    pub server_pid: i32,
    /// See [`feature`].
    pub flags: u64,
    /// Id of the volume. The driver stores this value without using it.
    pub volume: u64,
}

impl UblkDeviceInfo {
    /// Encodes the structure for the driver.
    pub fn encode(&self) -> [u8; DEVICE_INFO] {
        let mut out = FieldWriter::<DEVICE_INFO>::new();
        out.put(0, self.queues.to_ne_bytes());
        out.put(2, self.depth.to_ne_bytes());
        out.put(4, self.state.number().to_ne_bytes());
        out.put(8, self.io_bytes_max.to_ne_bytes());
        out.put(12, self.id.to_ne_bytes());
        out.put(16, self.server_pid.to_ne_bytes());
        out.put(24, self.flags.to_ne_bytes());
        out.put(32, self.volume.to_ne_bytes());
        out.0
    }

    /// Decodes the driver's structure.
    pub fn decode(bytes: &[u8; DEVICE_INFO]) -> UblkDeviceInfo {
        UblkDeviceInfo {
            queues: u16_at(bytes, 0),
            depth: u16_at(bytes, 2),
            state: UblkDeviceState::of(u16_at(bytes, 4)),
            io_bytes_max: u32_at(bytes, 8),
            id: u32_at(bytes, 12),
            server_pid: i32::from_ne_bytes(take(bytes, 16)),
            flags: u64_at(bytes, 24),
            volume: u64_at(bytes, 32),
        }
    }
}

/// Bytes of [`UblkParams`].
pub const PARAMS: usize = 60;

/// `struct ublk_params` with its first two parts: the parameters of the block device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UblkParams {
    /// Completed writes may be lost until a flush. The device then gets flushes, and writes with FUA.
    pub volatile: bool,
    /// Logical block size in bytes, as a power of two.
    pub logical_shift: u8,
    /// Physical block size in bytes, as a power of two.
    pub physical_shift: u8,
    /// Preferred request size in bytes, as a power of two.
    pub optimal_shift: u8,
    /// Largest read or write, in sectors of 512 bytes.
    pub sectors_max: u32,
    /// Length, in sectors of 512 bytes.
    pub sectors: u64,
    /// Unit in which discards take effect, in bytes.
    pub discard_granularity: u32,
    /// Largest discard, in sectors; 0 if the device does not support discards.
    pub discard_sectors_max: u32,
    /// Largest zeroing request, in sectors.
    pub zero_sectors_max: u32,
}

// Flags of the included parts.
const BASIC: u32 = 1 << 0;
const DISCARD: u32 = 1 << 1;
// Attributes.
const VOLATILE_CACHE: u32 = 1 << 2;
const FUA: u32 = 1 << 3;

impl UblkParams {
    /// Encodes the structure for the driver.
    pub fn encode(&self) -> [u8; PARAMS] {
        let attributes = if self.volatile {
            VOLATILE_CACHE | FUA
        } else {
            0
        };
        let one_segment: u16 = 1;
        let mut out = FieldWriter::<PARAMS>::new();
        out.put(0, (PARAMS as u32).to_ne_bytes());
        out.put(4, (BASIC | DISCARD).to_ne_bytes());
        out.put(8, attributes.to_ne_bytes());
        out.put(12, [self.logical_shift, self.physical_shift]);
        // The minimum I/O size is a physical block.
        out.put(14, [self.optimal_shift, self.physical_shift]);
        out.put(16, self.sectors_max.to_ne_bytes());
        out.put(24, self.sectors.to_ne_bytes());
        out.put(44, self.discard_granularity.to_ne_bytes());
        out.put(48, self.discard_sectors_max.to_ne_bytes());
        out.put(52, self.zero_sectors_max.to_ne_bytes());
        out.put(56, one_segment.to_ne_bytes());
        out.0
    }

    /// Returns the query for the parameters, which contains the maximum length of the answer.
    pub fn question() -> [u8; PARAMS] {
        let mut out = FieldWriter::<PARAMS>::new();
        out.put(0, (PARAMS as u32).to_ne_bytes());
        out.0
    }

    /// Decodes the driver's structure; all zero if the parameters are not set yet.
    pub fn decode(bytes: &[u8; PARAMS]) -> UblkParams {
        UblkParams {
            volatile: u32_at(bytes, 8) & VOLATILE_CACHE != 0,
            logical_shift: bytes[12],
            physical_shift: bytes[13],
            optimal_shift: bytes[14],
            sectors_max: u32_at(bytes, 16),
            sectors: u64_at(bytes, 24),
            discard_granularity: u32_at(bytes, 44),
            discard_sectors_max: u32_at(bytes, 48),
            zero_sectors_max: u32_at(bytes, 52),
        }
    }
}

/// `struct ublksrv_io_cmd`: the arguments of a tag's command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UblkQueueCommand {
    /// Number of the tag.
    pub tag: u16,
    /// Result of the tag's previous request: bytes, or a negative error number.
    pub result: i32,
}

impl UblkQueueCommand {
    /// Encodes the command for the first queue. It contains no address, as [`feature::USER_COPY`] requires.
    pub fn encode(&self) -> [u8; 16] {
        let mut out = FieldWriter::<16>::new();
        out.put(2, self.tag.to_ne_bytes());
        out.put(4, self.result.to_ne_bytes());
        out.0
    }
}

/// Bytes of a [`UblkDescriptor`].
pub const DESCRIPTOR: usize = 24;

/// Operation of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UblkOp {
    /// Read bytes.
    Read,
    /// Write bytes.
    Write,
    /// Make completed writes durable.
    Flush,
    /// The range is no longer needed.
    Discard,
    /// Make the range read as zeroes.
    WriteZeroes,
    /// Another operation, by its number.
    Other(u8),
}

/// `struct ublksrv_io_desc`: a request. Positions and lengths are as the kernel sent them, in sectors of 512 bytes, and
/// not yet checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UblkDescriptor {
    /// Operation.
    pub op: UblkOp,
    /// The write must be durable when it is answered.
    pub fua: bool,
    /// The zeroed range must stay allocated.
    pub keep_room: bool,
    /// Number of sectors.
    pub sectors: u32,
    /// First sector.
    pub first_sector: u64,
}

const FLAG_FUA: u32 = 1 << 13;
const FLAG_NOUNMAP: u32 = 1 << 15;

impl UblkDescriptor {
    /// Decodes a descriptor from the memory shared with the driver.
    pub fn decode(bytes: &[u8; DESCRIPTOR]) -> UblkDescriptor {
        let op_flags = u32_at(bytes, 0);
        UblkDescriptor {
            op: match op_flags as u8 {
                0 => UblkOp::Read,
                1 => UblkOp::Write,
                2 => UblkOp::Flush,
                3 => UblkOp::Discard,
                5 => UblkOp::WriteZeroes,
                other => UblkOp::Other(other),
            },
            fua: op_flags & FLAG_FUA != 0,
            keep_room: op_flags & FLAG_NOUNMAP != 0,
            sectors: u32_at(bytes, 4),
            first_sector: u64_at(bytes, 8),
        }
    }

    /// Returns the length in bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.sectors) * SECTOR_BYTES
    }

    /// Returns the request's range in bytes. Positions beyond 64 bits saturate at the last position, which no device
    /// has.
    pub fn range(&self) -> Range<u64> {
        let begin = self.first_sector.saturating_mul(SECTOR_BYTES);
        begin..begin.saturating_add(self.bytes())
    }
}

#[cfg(test)]
mod tests;
