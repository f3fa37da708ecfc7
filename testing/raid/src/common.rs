//! Common parts of all kinds of array: the geometry, and the shares of members in a request.

use std::ops::Range;

use forebay_device::{Buf, BufMut, DeviceGeometry};

use crate::ArrayError;

/// The most members of an array: sets of members are words.
pub(crate) const MEMBERS_MAX: usize = 64;

/// Returns an array's geometry, and its number of rows of stripe units. `data` units of each row contain data.
pub(crate) fn geometry(
    members: &[DeviceGeometry],
    unit: u32,
    data: usize,
) -> Result<(DeviceGeometry, u64), ArrayError> {
    let of = |field: fn(&DeviceGeometry) -> u32| members.iter().map(field);
    let block = of(|g| g.block_size).max().unwrap_or(0);
    let physical = of(|g| g.physical_block_size).min().unwrap_or(0);
    let widest = of(|g| g.physical_block_size).max().unwrap_or(0);
    if physical < block {
        return Err(ArrayError::Unlike { physical, block });
    }
    let row = unit.checked_mul(data as u32);
    let Some(row) = row.filter(|_| unit > 0 && unit.is_multiple_of(widest)) else {
        let block = widest;
        return Err(ArrayError::Unit { unit, block });
    };
    let have = members.iter().map(|g| g.len).min().unwrap_or(0);
    let rows = have / u64::from(unit);
    if rows == 0 {
        let need = unit.into();
        return Err(ArrayError::TooShort { have, need });
    }
    let geometry = DeviceGeometry {
        len: rows * u64::from(row),
        block_size: block,
        physical_block_size: physical,
        preferred_io: row,
        volatile: members.iter().any(|g| g.volatile),
        discard_granularity: 0,
        zeroes_by_unmapping: false,
    };
    Ok((geometry, rows))
}

/// Returns the unit in which discards take effect on all members, in bytes of a member; 0 if a member has no such unit.
pub(crate) fn discard_unit(members: &[DeviceGeometry]) -> u64 {
    let units = members.iter().map(|g| u64::from(g.discard_granularity));
    units.reduce(common_multiple).unwrap_or(0)
}

/// Returns the least common multiple, or 0 if one of the numbers is 0.
pub(crate) fn common_multiple(a: u64, b: u64) -> u64 {
    let (mut divisor, mut rest) = (a, b);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    match divisor {
        0 => 0,
        _ => a / divisor * b,
    }
}

/// A member's share in a request: a range of the member, and the corresponding parts of the request's buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MemberShare {
    pub(crate) member: usize,
    /// Bytes of the member.
    pub(crate) range: Range<u64>,
    /// Parts of the buffer, in the order of the member's bytes.
    pub(crate) pieces: Vec<Range<usize>>,
}

impl MemberShare {
    pub(crate) fn len(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }

    /// Returns the smallest range of the array that contains the share, for a request that begins at `at`.
    pub(crate) fn hull(&self, at: u64) -> Range<u64> {
        let first = self.pieces.first().map_or(0, |piece| piece.start);
        let last = self.pieces.last().map_or(0, |piece| piece.end);
        at + first as u64..at + last as u64
    }

    /// Returns the share's part of the data to write.
    pub(crate) fn gather(&self, data: &Buf) -> Buf {
        if let [piece] = &self.pieces[..] {
            return data.slice(piece.clone());
        }
        let (mut out, mut at) = (BufMut::zeroed(self.len()), 0);
        for piece in &self.pieces {
            out[at..at + piece.len()].copy_from_slice(&data[piece.clone()]);
            at += piece.len();
        }
        out.freeze()
    }

    /// Copies data that was read from the member to its parts of the buffer.
    pub(crate) fn scatter(&self, read: &[u8], out: &mut [u8]) {
        let mut at = 0;
        for piece in &self.pieces {
            out[piece.clone()].copy_from_slice(&read[at..at + piece.len()]);
            at += piece.len();
        }
    }
}

/// Returns the shares in a request for `len` bytes from `at` on. `place` returns the member and the row of a unit of
/// the array. Contiguous bytes of a member are one share.
pub(crate) fn shares(
    unit: u64,
    at: u64,
    len: usize,
    place: impl Fn(u64) -> (usize, u64),
) -> Vec<MemberShare> {
    let mut shares: Vec<MemberShare> = Vec::new();
    let mut last_of = [None; MEMBERS_MAX];
    let mut done = 0;
    while done < len {
        let pos = at + done as u64;
        let within = pos % unit;
        let n = (unit - within).min((len - done) as u64);
        let (member, row) = place(pos / unit);
        let start = row * unit + within;
        let piece = done..done + n as usize;
        done += n as usize;
        let last = last_of[member].map(|index: usize| &mut shares[index]);
        if let Some(share) = last.filter(|share| share.range.end == start) {
            share.range.end += n;
            share.pieces.push(piece);
        } else {
            last_of[member] = Some(shares.len());
            shares.push(MemberShare {
                member,
                range: start..start + n,
                pieces: vec![piece],
            });
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_multiple_returns_the_least_common_multiple_and_zero_for_zero() {
        assert_eq!(common_multiple(4096, 512), 4096);
        assert_eq!(common_multiple(6, 4), 12);
        assert_eq!(common_multiple(0, 4), 0);
        assert_eq!(common_multiple(0, 0), 0);
    }

    #[test]
    fn adjacent_ranges_of_a_member_are_a_single_share() {
        // Two alternating members, units of 10.
        let found = shares(10, 5, 30, |unit| ((unit % 2) as usize, unit / 2));
        let expected = [
            (0, 5..20, vec![0..5, 15..25]),
            (1, 0..15, vec![5..15, 25..30]),
        ];
        let expected = expected.map(|(member, range, pieces)| MemberShare {
            member,
            range,
            pieces,
        });
        assert_eq!(found, expected);
    }
}
