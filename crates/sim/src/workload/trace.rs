//! Recorded traces as workloads: what real systems asked of their disks, in their order and with
//! their pauses, folded into a small volume.

use std::time::Duration;

use super::{Bounds, Script};
use forebay_rng::Rng;

use crate::history::Action;

const SECTOR: u64 = 512;
/// Pauses are cut to this: long enough for anything that waits for idleness.
const PAUSE_MAX: Duration = Duration::from_millis(1500);
/// Requests are cut to this, in bytes.
const LEN_MAX: u64 = 256 << 10;

/// A record of HP's traces, the sectors it counts in, and what ends the text before the first.
const SRT_RECORD: usize = 56;
const SRT_SECTOR: u64 = 256;
const SRT_HEADER_END: &[u8] = b"};\n\x0c";

/// How a trace is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Text: `time_ns device sector sectors op`, op 0 a write.
    Oltp,
    /// Text, DiskSim's: `time_ms device sector sectors flags`, an even flag a write.
    DiskSim,
    /// Binary, records of 32 bytes, little-endian: `u32 sn, u32 bytes, u32 nsg, u16 cmd, u16 ver, u64
    /// lbn, u64 µs`; cmd 0x2a a write, 0x28 a read.
    Vscsi,
    /// Binary, HP's: a text header up to a line `};` and a form feed, then records of 56 bytes,
    /// 32-bit big-endian words: counted from 0, the second and the third are seconds and
    /// microseconds, the sixth the length in bytes, the seventh the first sector of 256 bytes, and the
    /// eleventh flags, of which the lowest is clear for a write.
    Srt,
}

/// One request of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Traced {
    /// When, since the trace began.
    pub at: Duration,
    /// True for a write, false for a read.
    pub write: bool,
    /// The first sector.
    pub sector: u64,
    /// How many.
    pub sectors: u64,
}

/// Why bytes are not a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record {record} is not one of a trace in this format")]
pub struct NotATrace {
    /// Which, counted from 0.
    pub record: usize,
}

impl Format {
    /// The format that a file's name tells of.
    pub fn of_name(name: &str) -> Option<Format> {
        match name.rsplit('.').next()? {
            "ascii" => Some(Format::Oltp),
            "disksim" => Some(Format::DiskSim),
            "vscsi" => Some(Format::Vscsi),
            "srt" => Some(Format::Srt),
            _ => None,
        }
    }

    /// Reads a trace; at most `most` requests of it.
    ///
    /// # Errors
    /// If a record is not of this format.
    pub fn read(self, bytes: &[u8], most: usize) -> Result<Vec<Traced>, NotATrace> {
        let read = |(record, traced): (usize, Option<Traced>)| traced.ok_or(NotATrace { record });
        match self {
            Format::Vscsi => bytes
                .chunks(32)
                .take(most)
                .map(vscsi)
                .enumerate()
                .map(read)
                .collect(),
            Format::Srt => srt_records(bytes)
                .ok_or(NotATrace { record: 0 })?
                .chunks(SRT_RECORD)
                .take(most)
                .map(srt)
                .enumerate()
                .map(read)
                .collect(),
            _ => {
                let text = String::from_utf8_lossy(bytes);
                let lines = text
                    .lines()
                    .filter(|line| !line.trim().is_empty())
                    .take(most);
                lines
                    .map(|line| self.line(line))
                    .enumerate()
                    .map(read)
                    .collect()
            }
        }
    }

    fn line(self, line: &str) -> Option<Traced> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [time, _device, sector, sectors, op] = words[..] else {
            return None;
        };
        let op: u64 = op.parse().ok()?;
        let (at, write) = match self {
            Format::Oltp => (Duration::from_nanos(time.parse().ok()?), op == 0),
            _ => {
                let ms: f64 = time.parse().ok()?;
                (
                    Duration::try_from_secs_f64(ms / 1e3).ok()?,
                    op.is_multiple_of(2),
                )
            }
        };
        let (sector, sectors) = (sector.parse().ok()?, sectors.parse().ok()?);
        Some(Traced {
            at,
            write,
            sector,
            sectors,
        })
    }
}

fn vscsi(record: &[u8]) -> Option<Traced> {
    let number = |at: usize, len: usize| {
        let bytes = record.get(at..at + len)?;
        Some(
            bytes
                .iter()
                .rev()
                .fold(0u64, |all, byte| all << 8 | u64::from(*byte)),
        )
    };
    let write = match number(12, 2)? {
        0x2a => true,
        0x28 => false,
        _ => return None,
    };
    Some(Traced {
        at: Duration::from_micros(number(24, 8)?),
        write,
        sector: number(16, 8)?,
        sectors: number(4, 4)?.div_ceil(SECTOR),
    })
}

/// What follows the text at the head of one of HP's traces.
fn srt_records(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes
        .windows(SRT_HEADER_END.len())
        .position(|window| window == SRT_HEADER_END)?;
    bytes.get(end + SRT_HEADER_END.len()..)
}

fn srt(record: &[u8]) -> Option<Traced> {
    let word = |n: usize| {
        let bytes = record.get(n * 4..n * 4 + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    if word(0)? as usize != SRT_RECORD {
        return None;
    }
    // The last word is only looked at so that a record cut short is none.
    word(SRT_RECORD / 4 - 1)?;
    let (at, len) = (u64::from(word(7)?) * SRT_SECTOR, u64::from(word(6)?));
    let micros = Duration::from_micros(word(3)?.into());
    Some(Traced {
        at: Duration::from_secs(word(2)?.into()) + micros,
        write: word(11)? & 1 == 0,
        sector: at / SECTOR,
        sectors: (at % SECTOR + len).div_ceil(SECTOR),
    })
}

/// A script of `len` requests of a trace from somewhere in it. Traces do not tell of flushes; one
/// comes after one in so many writes.
pub fn script(rng: &Rng, bounds: &Bounds, trace: &[Traced], len: usize) -> Script {
    let mut script = Script::default();
    if trace.is_empty() {
        return script;
    }
    let from = rng.below(trace.len().saturating_sub(len).max(1) as u64) as usize;
    let flushes = 2 + rng.below(12);
    let mut before = trace[from].at;
    for traced in trace[from..].iter().take(len) {
        let gap = traced.at.saturating_sub(before).min(PAUSE_MAX);
        before = traced.at;
        if gap > Duration::from_micros(100) {
            script.actions.push(Action::Pause(gap));
        }
        let region = if traced.write {
            bounds.region.clone()
        } else {
            0..bounds.volume
        };
        let room = region.end - region.start;
        let len = (traced.sectors.max(1) * SECTOR).min(LEN_MAX).min(room);
        let at = region.start + traced.sector % ((room - len) / SECTOR + 1) * SECTOR;
        let range = at..at + len;
        if !traced.write {
            let whole = Bounds {
                region: 0..bounds.volume,
                ..bounds.clone()
            };
            script.actions.push(Action::Read(whole.align(range)));
            continue;
        }
        script.actions.push(Action::Write {
            range: bounds.align(range),
            fua: false,
        });
        if rng.one_in(flushes) {
            script.actions.push(Action::Flush);
        }
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traced(at: Duration, write: bool, sector: u64, sectors: u64) -> Traced {
        Traced {
            at,
            write,
            sector,
            sectors,
        }
    }

    #[test]
    fn text_traces_are_read_line_by_line() {
        let oltp = Format::Oltp
            .read(b"0 0 303567 7 0\n26214000 0 303574 7 1\n", 9)
            .unwrap();
        let later = Duration::from_nanos(26_214_000);
        assert_eq!(
            oltp,
            [
                traced(Duration::ZERO, true, 303_567, 7),
                traced(later, false, 303_574, 7)
            ]
        );
        let disksim = Format::DiskSim.read(b"7961.5 0 20228336 8 0\n8346.25 0 6397360 496 1\n", 1);
        let first = Duration::from_micros(7_961_500);
        assert_eq!(disksim.unwrap(), [traced(first, true, 20_228_336, 8)]);
        assert_eq!(
            Format::Oltp.read(b"0 0 1 1 0\nhello\n", 9),
            Err(NotATrace { record: 1 })
        );
    }

    #[test]
    fn binary_traces_are_read_record_by_record() {
        let mut bytes = vec![0; 64];
        bytes[4..8].copy_from_slice(&1024u32.to_le_bytes());
        bytes[12] = 0x2a;
        bytes[16..24].copy_from_slice(&77u64.to_le_bytes());
        bytes[24..32].copy_from_slice(&5u64.to_le_bytes());
        bytes[32 + 12] = 0x28;
        let trace = Format::Vscsi.read(&bytes, 9).unwrap();
        assert_eq!(trace[0], traced(Duration::from_micros(5), true, 77, 2));
        assert!(!trace[1].write);
        assert_eq!(
            Format::Vscsi.read(&bytes[..40], 9),
            Err(NotATrace { record: 1 })
        );
    }

    #[test]
    fn traces_of_hp_are_read_record_by_record_behind_their_text() {
        let record = |words: [u32; 12]| {
            let mut bytes = words.map(u32::to_be_bytes).concat();
            bytes.resize(56, 0);
            bytes
        };
        let mut bytes = b"$$TR_IOREC\ndisks = { 0 -> { rpm = 4002 };\n};\n\x0c".to_vec();
        bytes.extend(record([
            56,
            4 << 16 | 1,
            3,
            250,
            9,
            9,
            8192,
            22,
            1,
            1,
            1,
            0x0800_0106,
        ]));
        bytes.extend(record([
            56,
            4 << 16 | 1,
            4,
            0,
            9,
            9,
            1024,
            23,
            0,
            0,
            0,
            0x0800_0107,
        ]));
        let first = Duration::from_micros(3_000_250);
        assert_eq!(
            Format::Srt.read(&bytes, 9).unwrap(),
            [
                traced(first, true, 11, 16),
                traced(Duration::from_secs(4), false, 11, 3)
            ]
        );
        assert_eq!(Format::of_name("week.srt"), Some(Format::Srt));
        let short = &bytes[..bytes.len() - 1];
        assert_eq!(Format::Srt.read(short, 9), Err(NotATrace { record: 1 }));
        assert_eq!(
            Format::Srt.read(b"no text ends here", 9),
            Err(NotATrace { record: 0 })
        );
    }

    #[test]
    fn a_script_of_a_trace_stays_in_its_lane_and_keeps_the_pauses() {
        let trace: Vec<Traced> = (0..50)
            .map(|n| traced(Duration::from_millis(n * 40), n % 3 != 0, n * 991, n * 17))
            .collect();
        let bounds = Bounds {
            region: 8192..40960,
            volume: 65536,
            block: 4096,
        };
        let script = script(&Rng::new(1), &bounds, &trace, 30);
        let pauses = script
            .actions
            .iter()
            .filter(|action| matches!(action, Action::Pause(_)));
        assert_eq!(pauses.count(), 29);
        for range in script.actions.iter().filter_map(Action::range) {
            assert!(
                bounds.region.start <= range.start && range.end <= bounds.region.end,
                "{range:?}"
            );
            assert!(range.start < range.end && range.start % 4096 == 0 && range.end % 4096 == 0);
        }
    }
}
