//! Reads the missing parts of a file into the page cache, the cheapest first.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use rustix::fs::{Advice, OFlags, fadvise, fcntl_getfl, fcntl_setfl};
use sleds::{Sled, StorageLevel};

/// Share of a request's time that may be latency.
const LATENCY_SHARE: f64 = 0.1;
/// Limits of a request. A request is a multiple of the lower limit.
const REQUEST_MIN: u64 = 128 << 10;
const REQUEST_MAX: u64 = 16 << 20;
/// Bytes of a request to a device without known rates.
const REQUEST_UNKNOWN: u64 = 1 << 20;
/// Bytes of a copy to the buffer, whose content is not used.
const COPY_BYTES: usize = 1 << 20;

/// Returns the parts that are not in memory: lowest latency first, then in file order. Parts with an unknown latency are
/// last.
pub(super) fn missing(sleds: &[Sled]) -> Vec<&Sled> {
    let mut parts: Vec<&Sled> = sleds
        .iter()
        .filter(|sled| sled.level != StorageLevel::Memory)
        .collect();
    let latency = |sled: &Sled| sled.latency_s.map_or(f64::INFINITY, |range| range.median);
    parts.sort_by(|a, b| latency(a).total_cmp(&latency(b)));
    parts
}

/// Returns the bytes of a request to the level of a part: its latency takes a tenth of the time at most.
fn request_bytes(part: &Sled) -> u64 {
    let (Some(latency), Some(bandwidth)) = (part.latency_s, part.bandwidth_Bps) else {
        return REQUEST_UNKNOWN;
    };
    let bytes = latency.median * bandwidth.median * (1.0 / LATENCY_SHARE - 1.0);
    let bytes = (bytes as u64).clamp(REQUEST_MIN, REQUEST_MAX);
    bytes.next_multiple_of(REQUEST_MIN)
}

/// Reads missing parts into the page cache, at most `limit` bytes. Calls `advance` with the number of bytes after each
/// step; an error of `advance` ends the reading. Returns the number of bytes read.
///
/// The kernel reads the next request while this function waits for the current one. Changes neither the file's time of
/// access, if the caller may suppress it, nor reads other parts.
pub(super) fn fill(
    file: &File,
    sleds: &[Sled],
    limit: u64,
    advance: &mut dyn FnMut(u64) -> io::Result<()>,
) -> io::Result<u64> {
    if let Ok(flags) = fcntl_getfl(file) {
        // Allowed for the owner only.
        let _ = fcntl_setfl(file, flags | OFlags::NOATIME);
    }
    // Without this advice, the kernel's read-ahead reads beyond the part. A refusal has no other consequence.
    let _ = fadvise(file, 0, None, Advice::Random);
    let mut requests = requests(sleds, limit).into_iter().peekable();
    let mut buffer = vec![0; COPY_BYTES];
    let mut done = 0;
    if let Some(first) = requests.peek() {
        announce(file, *first);
    }
    while let Some((start, end)) = requests.next() {
        if let Some(next) = requests.peek() {
            announce(file, *next);
        }
        let mut at = start;
        while at < end {
            let most = buffer
                .len()
                .min(usize::try_from(end - at).unwrap_or(usize::MAX));
            let count = match file.read_at(&mut buffer[..most], at) {
                // The file has become shorter.
                Ok(0) => break,
                Ok(count) => count as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    let text = format!("byte {at}: {}", sleds_common::gnu::reason(&error));
                    return Err(io::Error::new(error.kind(), text));
                }
            };
            at += count;
            done += count;
            advance(count)?;
        }
    }
    Ok(done)
}

/// Asks the kernel to begin reading. A refusal only makes the reading slower.
fn announce(file: &File, (start, end): (u64, u64)) {
    let _ = fadvise(
        file,
        start,
        std::num::NonZeroU64::new(end - start),
        Advice::WillNeed,
    );
}

/// Returns the first and the last byte (exclusive) of each request, for at most `limit` bytes.
fn requests(sleds: &[Sled], limit: u64) -> Vec<(u64, u64)> {
    let mut left = limit;
    let mut requests = Vec::new();
    for part in missing(sleds) {
        let bytes = request_bytes(part);
        let mut at = part.offset;
        while at < part.end() && left > 0 {
            // Requests end at multiples of their length, so they do not cut the kernel's large pages.
            let next = (at / bytes + 1).saturating_mul(bytes).min(part.end());
            let next = next.min(at.saturating_add(left));
            requests.push((at, next));
            left -= next - at;
            at = next;
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use sleds::{EstimateRange, RateSource};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn part(offset: u64, length: u64, level: StorageLevel, latency_s: Option<f64>) -> Sled {
        Sled {
            offset,
            length,
            latency_s: latency_s.map(EstimateRange::exactly),
            bandwidth_Bps: latency_s.map(|_| EstimateRange::exactly(1e8)),
            linear_Bps: None,
            level,
            source: RateSource::Measured,
        }
    }

    #[test]
    fn missing_parts_are_requested_once_cheapest_first_up_to_the_limit() {
        let device = |name: &str| StorageLevel::Device(name.into());
        let sleds = [
            part(0, MIB, device("disk"), Some(1e-2)),
            part(MIB, MIB, StorageLevel::Memory, Some(1e-7)),
            part(2 * MIB, MIB, StorageLevel::Unknown, None),
            part(3 * MIB, MIB, device("flash"), Some(1e-4)),
        ];
        let all = requests(&sleds, u64::MAX);
        // 0.1 ms at 100 MB/s are 10 kB: the smallest requests. 10 ms are 1 MB: requests of 9 MB.
        let flash: Vec<_> = (0..8)
            .map(|n| (3 * MIB + n * REQUEST_MIN, 3 * MIB + (n + 1) * REQUEST_MIN))
            .collect();
        assert_eq!(all[..8], flash);
        assert_eq!(all[8..], [(0, MIB), (2 * MIB, 3 * MIB)]);
        let some = requests(&sleds, REQUEST_MIN + 1);
        let end = 3 * MIB + REQUEST_MIN;
        assert_eq!(some, [(3 * MIB, end), (end, end + 1)]);
        assert_eq!(requests(&sleds, 0), []);
    }
}
