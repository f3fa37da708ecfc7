//! Recorded traces of disk requests, in the formats of their recorders.
//!
//! Text and binary, read only. docs/format/traces.md describes the formats.

use std::time::Duration;

/// Bytes in a sector of the returned traces.
const SECTOR: u64 = 512;

/// Bytes in a record of VMware's traces.
pub const VSCSI_RECORD: usize = 32;
/// Command code of a write in VMware's traces.
pub const VSCSI_WRITE: u64 = 0x2a;
/// Command code of a read in VMware's traces.
pub const VSCSI_READ: u64 = 0x28;

/// Bytes in a record of HP's traces.
pub const SRT_RECORD: usize = 56;
/// Bytes in a sector of HP's traces.
pub const SRT_SECTOR: u64 = 256;
/// End of the text before the first record of HP's traces.
const SRT_TEXT_END: &[u8] = b"};\n\x0c";

/// Format of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceFormat {
    /// Text: `time_ns device sector sectors op`, op 0 a write.
    Oltp,
    /// Text, DiskSim's: `time_ms device sector sectors flags`, an even flag a write.
    DiskSim,
    /// VMware's binary format.
    Vscsi,
    /// HP's binary format.
    Srt,
}

/// A request of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceRequest {
    /// Time since the start of the trace.
    pub at: Duration,
    /// True for a write, false for a read.
    pub write: bool,
    /// First sector.
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u64,
}

/// Error: the bytes are not a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record {record} is not one of a trace in this format")]
pub struct TraceFormatError {
    /// Number of the bad record, counted from 0.
    pub record: usize,
}

impl TraceFormat {
    /// Returns the format that a file name indicates.
    pub fn of_name(name: &str) -> Option<TraceFormat> {
        match name.rsplit('.').next()? {
            "ascii" => Some(TraceFormat::Oltp),
            "disksim" => Some(TraceFormat::DiskSim),
            "vscsi" => Some(TraceFormat::Vscsi),
            "srt" => Some(TraceFormat::Srt),
            _ => None,
        }
    }

    /// Reads at most `most` requests of a trace.
    ///
    /// # Errors
    /// If a record does not have this format.
    pub fn read(self, bytes: &[u8], most: usize) -> Result<Vec<TraceRequest>, TraceFormatError> {
        match self {
            TraceFormat::Vscsi => all(bytes.chunks(VSCSI_RECORD).map(vscsi), most),
            TraceFormat::Srt => {
                let records = srt_records(bytes).ok_or(TraceFormatError { record: 0 })?;
                all(records.chunks(SRT_RECORD).map(srt), most)
            }
            TraceFormat::Oltp | TraceFormat::DiskSim => {
                let text = String::from_utf8_lossy(bytes);
                let lines = text.lines().filter(|line| !line.trim().is_empty());
                all(lines.map(|line| self.line(line)), most)
            }
        }
    }

    fn line(self, line: &str) -> Option<TraceRequest> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [time, _device, sector, sectors, op] = words[..] else {
            return None;
        };
        let op: u64 = op.parse().ok()?;
        let (at, write) = if self == TraceFormat::Oltp {
            (Duration::from_nanos(time.parse().ok()?), op == 0)
        } else {
            let ms: f64 = time.parse().ok()?;
            let at = Duration::try_from_secs_f64(ms / 1e3).ok()?;
            (at, op.is_multiple_of(2))
        };
        Some(TraceRequest {
            at,
            write,
            sector: sector.parse().ok()?,
            sectors: sectors.parse().ok()?,
        })
    }
}

/// Returns the first records, if all of them are valid.
fn all(
    records: impl Iterator<Item = Option<TraceRequest>>,
    most: usize,
) -> Result<Vec<TraceRequest>, TraceFormatError> {
    let numbered = records.take(most).enumerate();
    let read = numbered.map(|(record, traced)| traced.ok_or(TraceFormatError { record }));
    read.collect()
}

fn vscsi(record: &[u8]) -> Option<TraceRequest> {
    let number = |at: usize, len: usize| {
        let bytes = record.get(at..at + len)?.iter().rev();
        Some(bytes.fold(0u64, |all, byte| all << 8 | u64::from(*byte)))
    };
    let write = match number(12, 2)? {
        VSCSI_WRITE => true,
        VSCSI_READ => false,
        _ => return None,
    };
    Some(TraceRequest {
        at: Duration::from_micros(number(24, 8)?),
        write,
        sector: number(16, 8)?,
        sectors: number(4, 4)?.div_ceil(SECTOR),
    })
}

/// Returns the records after the text at the start of HP's traces.
fn srt_records(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes
        .windows(SRT_TEXT_END.len())
        .position(|window| window == SRT_TEXT_END)?;
    bytes.get(end + SRT_TEXT_END.len()..)
}

fn srt(record: &[u8]) -> Option<TraceRequest> {
    let word = |n: usize| {
        let bytes = record.get(n * 4..n * 4 + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    if word(0)? as usize != SRT_RECORD {
        return None;
    }
    // The last word is read only to detect truncated records.
    word(SRT_RECORD / 4 - 1)?;
    let (at, len) = (u64::from(word(7)?) * SRT_SECTOR, u64::from(word(6)?));
    let micros = Duration::from_micros(word(3)?.into());
    Some(TraceRequest {
        at: Duration::from_secs(word(2)?.into()) + micros,
        write: word(11)? & 1 == 0,
        sector: at / SECTOR,
        sectors: (at % SECTOR + len).div_ceil(SECTOR),
    })
}

/// A request measured on a real drive.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MeasuredRequest {
    /// True for a write, false for a read.
    pub write: bool,
    /// First block.
    pub first: u64,
    /// Number of blocks, at least one.
    pub blocks: u32,
    /// Time from issue to completion, in microseconds.
    pub service_us: f64,
    /// Idle time before or after the request, in microseconds. The meaning depends on the drive.
    pub gap_us: f64,
}

/// Reason why a text is not a measured trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeasuredTraceError {
    /// The text has no requests.
    #[error("it has no requests")]
    Empty,
    /// A line is not a request.
    #[error("line {line}")]
    Line {
        /// Number of the line, counted from 1.
        line: usize,
        /// Reason why the line is not a request.
        source: MeasuredRequestError,
    },
}

/// Reason why a line is not a measured request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeasuredRequestError {
    /// The line has this number of words.
    #[error("{0} words where there should be 6")]
    Words(usize),
    /// The operation is invalid.
    #[error("{0:?} is neither R nor W")]
    Op(String),
    /// The first block is invalid.
    #[error("{0:?} is not a block's number")]
    First(String),
    /// The number of blocks is invalid.
    #[error("{0:?} is not a number of blocks")]
    Blocks(String),
    /// The number of blocks is 0.
    #[error("a request for no blocks")]
    NoBlocks,
    /// The duration is invalid.
    #[error("{0:?} is not a time")]
    Time(String),
}

/// Reads a trace measured on a real drive.
///
/// # Errors
/// If a line is not a request, or the text has no requests.
pub fn read_measured(text: &str) -> Result<Vec<MeasuredRequest>, MeasuredTraceError> {
    let lines = text.lines().zip(1..);
    let lines = lines.filter(|(text, _)| !text.trim().is_empty());
    let read =
        |(text, line)| request(text).map_err(|source| MeasuredTraceError::Line { line, source });
    let trace: Vec<MeasuredRequest> = lines.map(read).collect::<Result<_, _>>()?;
    if trace.is_empty() {
        Err(MeasuredTraceError::Empty)
    } else {
        Ok(trace)
    }
}

fn request(line: &str) -> Result<MeasuredRequest, MeasuredRequestError> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [op, _, first, blocks, service, gap] = words[..] else {
        return Err(MeasuredRequestError::Words(words.len()));
    };
    let write = match op {
        "R" => false,
        "W" => true,
        other => return Err(MeasuredRequestError::Op(other.to_owned())),
    };
    let blocks = match blocks.parse() {
        Ok(0) => return Err(MeasuredRequestError::NoBlocks),
        Ok(blocks) => blocks,
        Err(_) => return Err(MeasuredRequestError::Blocks(blocks.to_owned())),
    };
    let not_a_place = |_| MeasuredRequestError::First(first.to_owned());
    Ok(MeasuredRequest {
        write,
        first: first.parse().map_err(not_a_place)?,
        blocks,
        service_us: microseconds(service)?,
        gap_us: microseconds(gap)?,
    })
}

fn microseconds(word: &str) -> Result<f64, MeasuredRequestError> {
    let time = word.parse().ok();
    // NaN and infinite values are in no range.
    let time = time.filter(|us| (0.0..1e12).contains(us));
    time.ok_or_else(|| MeasuredRequestError::Time(word.to_owned()))
}
