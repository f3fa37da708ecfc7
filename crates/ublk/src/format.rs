//! The bytes that are exchanged with the ublk driver: commands, what it is told of a device, requests.
//!
//! Numbers are in the machine's own order; the kernel is on the same machine. docs/design/ublk.md says
//! what of it is used, and since which kernel.
//!
//! Protocol: `linux/ublk_cmd.h` of the kernel's user API, as of Linux 6.5 with what came later.

use std::ops::Range;

/// Commands to `/dev/ublk-control`, with a [`ControlCommand`].
pub mod control {
    use super::{read, write};

    const BYTES: u32 = 32;

    /// Tells what the driver can do, in 64 bits.
    pub const GET_FEATURES: u32 = read(0x13, BYTES);
    /// Tells what a device is, as a `DeviceInfo`.
    pub const GET_DEV_INFO: u32 = read(0x02, BYTES);
    /// Makes a device of a `DeviceInfo`, which comes back as it is.
    pub const ADD_DEV: u32 = write(0x04, BYTES);
    /// Removes a device, and waits until nobody uses it.
    pub const DEL_DEV: u32 = write(0x05, BYTES);
    /// Removes a device that goes when nobody uses it any more (Linux 6.9).
    pub const DEL_DEV_ASYNC: u32 = read(0x14, BYTES);
    /// Makes the block device, when all tags are fetched.
    pub const START_DEV: u32 = write(0x06, BYTES);
    /// Takes the block device away, whoever uses it.
    pub const STOP_DEV: u32 = write(0x07, BYTES);
    /// Gives a live device another length, in sectors of 512 bytes (Linux 6.16).
    pub const UPDATE_SIZE: u32 = write(0x15, BYTES);
    /// Takes the block device away if nobody has it open (Linux 7.0).
    pub const TRY_STOP_DEV: u32 = write(0x17, BYTES);
    /// Says what the block device is to be like, with `Params`.
    pub const SET_PARAMS: u32 = write(0x08, BYTES);
    /// Tells what the block device is like.
    pub const GET_PARAMS: u32 = read(0x09, BYTES);
    /// Begins to take up a device whose server is gone.
    pub const START_USER_RECOVERY: u32 = write(0x10, BYTES);
    /// Lets requests through again, when all tags are fetched.
    pub const END_USER_RECOVERY: u32 = write(0x11, BYTES);
}

/// Commands to `/dev/ublkcN`, with a [`QueueCommand`].
pub mod queue {
    use super::write;

    const BYTES: u32 = 16;

    /// Offers a tag for the first time.
    pub const FETCH_REQ: u32 = write(0x20, BYTES);
    /// Answers the request of a tag and offers the tag for the next.
    pub const COMMIT_AND_FETCH_REQ: u32 = write(0x21, BYTES);
}

/// What a device may be able to do, and what the driver can: bits of `DeviceInfo::flags`.
pub mod feature {
    /// The device outlives its server.
    pub const USER_RECOVERY: u64 = 1 << 3;
    /// Requests that the server had taken and not answered are sent to the next.
    pub const USER_RECOVERY_REISSUE: u64 = 1 << 4;
    /// Commands are numbered as they are here.
    pub const CMD_IOCTL_ENCODE: u64 = 1 << 6;
    /// Data is read from and written to `/dev/ublkcN`, instead of to an address told with the tag.
    pub const USER_COPY: u64 = 1 << 7;
}

/// Bytes of the sectors that the driver counts in.
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

/// Where the data of a tag's request is in `/dev/ublkcN`.
pub fn data_offset(tag: u16) -> u64 {
    const BEGIN: u64 = 0x8000_0000;
    const TAG_SHIFT: u32 = 25;
    BEGIN + (u64::from(tag) << TAG_SHIFT)
}

/// Bytes of a queue's descriptors, as they are mapped from the beginning of `/dev/ublkcN`.
pub fn descriptors_len(depth: u16, page: usize) -> usize {
    (usize::from(depth) * DESCRIPTOR).next_multiple_of(page)
}

/// Puts fields into a structure at the places where they are.
struct Out<const N: usize>([u8; N]);

impl<const N: usize> Out<N> {
    fn new() -> Out<N> {
        Out([0; N])
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

/// `struct ublksrv_ctrl_cmd`: what a control command is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ControlCommand {
    /// Which device; [`ANY_DEVICE`] if it is about none.
    pub device: u32,
    /// Address of the buffer that goes with it, and its length.
    pub buffer: (u64, u16),
    /// One number that goes with it.
    pub data: u64,
}

/// Where a device's number is asked for: whichever is free.
pub const ANY_DEVICE: u32 = u32::MAX;

impl ControlCommand {
    /// In the room that a command has.
    pub fn encode(&self) -> [u8; 80] {
        let no_queue = u16::MAX;
        let mut out = Out::<80>::new();
        out.put(0, self.device.to_ne_bytes());
        out.put(4, no_queue.to_ne_bytes());
        out.put(6, self.buffer.1.to_ne_bytes());
        out.put(8, self.buffer.0.to_ne_bytes());
        out.put(16, self.data.to_ne_bytes());
        out.0
    }
}

/// How a device stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// There is no block device: not yet, or not any more.
    Dead,
    /// It is served.
    Live,
    /// Its server is gone; requests wait for the next.
    Quiesced,
    /// Its server is gone; requests fail until there is the next.
    Failing,
    /// One that came later than this was written.
    Unknown(u16),
}

impl State {
    fn of(number: u16) -> State {
        match number {
            0 => State::Dead,
            1 => State::Live,
            2 => State::Quiesced,
            3 => State::Failing,
            other => State::Unknown(other),
        }
    }

    fn number(self) -> u16 {
        match self {
            State::Dead => 0,
            State::Live => 1,
            State::Quiesced => 2,
            State::Failing => 3,
            State::Unknown(other) => other,
        }
    }
}

/// Bytes of a [`DeviceInfo`].
pub const DEVICE_INFO: usize = 64;

/// `struct ublksrv_ctrl_dev_info`: what the driver knows of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceInfo {
    /// How many queues it has.
    pub queues: u16,
    /// How many requests each has under way at most.
    pub depth: u16,
    /// How it stands.
    pub state: State,
    /// The largest request in bytes.
    pub io_bytes_max: u32,
    /// Its number N in `/dev/ublkbN` and `/dev/ublkcN`.
    pub id: u32,
    /// The server. What it is while there is none depends on the kernel.
    pub server_pid: i32,
    /// See [`feature`].
    pub flags: u64,
    /// Means nothing to the driver, which keeps it: which volume it is.
    pub volume: u64,
}

impl DeviceInfo {
    /// As the driver reads it.
    pub fn encode(&self) -> [u8; DEVICE_INFO] {
        let mut out = Out::<DEVICE_INFO>::new();
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

    /// From what the driver wrote.
    pub fn decode(bytes: &[u8; DEVICE_INFO]) -> DeviceInfo {
        DeviceInfo {
            queues: u16_at(bytes, 0),
            depth: u16_at(bytes, 2),
            state: State::of(u16_at(bytes, 4)),
            io_bytes_max: u32_at(bytes, 8),
            id: u32_at(bytes, 12),
            server_pid: i32::from_ne_bytes(take(bytes, 16)),
            flags: u64_at(bytes, 24),
            volume: u64_at(bytes, 32),
        }
    }
}

/// Bytes of [`Params`].
pub const PARAMS: usize = 60;

/// `struct ublk_params`, with the first two of its parts: what the block device is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// Completed writes may be lost until a flush: it is sent flushes, and writes with FUA.
    pub volatile: bool,
    /// Logical block size in bytes, as a power of two.
    pub logical_shift: u8,
    /// Physical block size in bytes, as a power of two.
    pub physical_shift: u8,
    /// The request size that serves it well, in bytes, as a power of two.
    pub optimal_shift: u8,
    /// The largest read or write, in sectors of 512 bytes.
    pub sectors_max: u32,
    /// Its length, in sectors of 512 bytes.
    pub sectors: u64,
    /// Unit in which discards take effect, in bytes.
    pub discard_granularity: u32,
    /// The largest discard, in sectors; 0 if there are none.
    pub discard_sectors_max: u32,
    /// The largest range zeroed at once, in sectors.
    pub zero_sectors_max: u32,
}

// Which parts there are.
const BASIC: u32 = 1 << 0;
const DISCARD: u32 = 1 << 1;
// Attributes.
const VOLATILE_CACHE: u32 = 1 << 2;
const FUA: u32 = 1 << 3;

impl Params {
    /// As the driver reads them.
    pub fn encode(&self) -> [u8; PARAMS] {
        let attributes = match self.volatile {
            true => VOLATILE_CACHE | FUA,
            false => 0,
        };
        let one_segment: u16 = 1;
        let mut out = Out::<PARAMS>::new();
        out.put(0, (PARAMS as u32).to_ne_bytes());
        out.put(4, (BASIC | DISCARD).to_ne_bytes());
        out.put(8, attributes.to_ne_bytes());
        out.put(12, [self.logical_shift, self.physical_shift]);
        // The smallest good request is a physical block.
        out.put(14, [self.optimal_shift, self.physical_shift]);
        out.put(16, self.sectors_max.to_ne_bytes());
        out.put(24, self.sectors.to_ne_bytes());
        out.put(44, self.discard_granularity.to_ne_bytes());
        out.put(48, self.discard_sectors_max.to_ne_bytes());
        out.put(52, self.zero_sectors_max.to_ne_bytes());
        out.put(56, one_segment.to_ne_bytes());
        out.0
    }

    /// What is asked for them: how long the answer may be.
    pub fn question() -> [u8; PARAMS] {
        let mut out = Out::<PARAMS>::new();
        out.put(0, (PARAMS as u32).to_ne_bytes());
        out.0
    }

    /// From what the driver wrote; all zero if nothing was said of the block device yet.
    pub fn decode(bytes: &[u8; PARAMS]) -> Params {
        Params {
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

/// `struct ublksrv_io_cmd`: what is said of a tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueCommand {
    /// Which.
    pub tag: u16,
    /// How the request that it had ended: bytes, or a negative error number.
    pub result: i32,
}

impl QueueCommand {
    /// For the first queue, and without an address, as it has to be with [`feature::USER_COPY`].
    pub fn encode(&self) -> [u8; 16] {
        let mut out = Out::<16>::new();
        out.put(2, self.tag.to_ne_bytes());
        out.put(4, self.result.to_ne_bytes());
        out.0
    }
}

/// Bytes of a [`Descriptor`].
pub const DESCRIPTOR: usize = 24;

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// What was written becomes durable.
    Flush,
    /// A range is of no use any more.
    Discard,
    /// A range is to read as zeroes.
    WriteZeroes,
    /// Another, by its number.
    Other(u8),
}

/// `struct ublksrv_io_desc`: a request. Positions and lengths are as the kernel sent them, in sectors
/// of 512 bytes, and not yet checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// What it asks for.
    pub op: Op,
    /// It is durable when it is answered.
    pub fua: bool,
    /// What is zeroed keeps its room.
    pub keep_room: bool,
    /// How many.
    pub sectors: u32,
    /// Where they begin.
    pub first_sector: u64,
}

const FLAG_FUA: u32 = 1 << 13;
const FLAG_NOUNMAP: u32 = 1 << 15;

impl Descriptor {
    /// From the memory that the driver shares.
    pub fn decode(bytes: &[u8; DESCRIPTOR]) -> Descriptor {
        let op_flags = u32_at(bytes, 0);
        Descriptor {
            op: match op_flags as u8 {
                0 => Op::Read,
                1 => Op::Write,
                2 => Op::Flush,
                3 => Op::Discard,
                5 => Op::WriteZeroes,
                other => Op::Other(other),
            },
            fua: op_flags & FLAG_FUA != 0,
            keep_room: op_flags & FLAG_NOUNMAP != 0,
            sectors: u32_at(bytes, 4),
            first_sector: u64_at(bytes, 8),
        }
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.sectors) * SECTOR_BYTES
    }

    /// The bytes it is about. What would begin or end past all that can be counted does so at the last
    /// byte that can, which no device has.
    pub fn range(&self) -> Range<u64> {
        let begin = self.first_sector.saturating_mul(SECTOR_BYTES);
        begin..begin.saturating_add(self.bytes())
    }
}

#[cfg(test)]
mod tests;
