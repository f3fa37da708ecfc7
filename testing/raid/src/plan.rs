//! Selection of the parts of a row that must be read to write another part.
//!
//! *Read-modify-write* reads the overwritten data and the parity, and adds the difference. *Reconstruct-write* reads
//! the data that is not overwritten, and computes the sum of all data. The method with fewer requests to members is
//! selected, or with equal requests, the method with fewer bytes.

use std::ops::Range;

use crate::settle::MemberSet;

/// The part of a row that is written on one member, in bytes of the member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MemberRange {
    pub(crate) member: usize,
    pub(crate) range: Range<u64>,
}

/// The method of computing the new parity, with the parts that must be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ParityMethod {
    /// Reads the overwritten parts, in the order of the pieces, and then the parity.
    ReadModify(Vec<MemberRange>),
    /// Reads the parts that are not overwritten.
    Reconstruct(Vec<MemberRange>),
    /// Writes the data without parity, which cannot be computed or stored.
    Bare,
}

/// The number of members in a row, and the member with the parity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowLayout {
    pub(crate) members: usize,
    pub(crate) parity: usize,
}

fn is_in(member: usize, set: MemberSet) -> bool {
    set & 1 << member != 0
}

/// Selects the better of the methods that read nothing from `unreadable` members. `None` if neither method is possible.
pub(crate) fn choose(
    row: RowLayout,
    columns: &Range<u64>,
    writes: &[MemberRange],
    unreadable: MemberSet,
) -> Option<ParityMethod> {
    let readable = |reads: &Vec<MemberRange>| reads.iter().all(|r| !is_in(r.member, unreadable));
    let modify = Some(overwritten(row, columns, writes)).filter(readable);
    let construct = Some(kept(row, columns, writes)).filter(readable);
    let cost = |reads: &Vec<MemberRange>| {
        let bytes: u64 = reads.iter().map(|r| r.range.end - r.range.start).sum();
        (reads.len(), bytes)
    };
    match (modify, construct) {
        (Some(modify), Some(construct)) if cost(&modify) < cost(&construct) => {
            Some(ParityMethod::ReadModify(modify))
        }
        (_, Some(construct)) => Some(ParityMethod::Reconstruct(construct)),
        (Some(modify), None) => Some(ParityMethod::ReadModify(modify)),
        (None, None) => None,
    }
}

/// Returns the reads of a read-modify-write.
fn overwritten(row: RowLayout, columns: &Range<u64>, writes: &[MemberRange]) -> Vec<MemberRange> {
    let parity = MemberRange {
        member: row.parity,
        range: columns.clone(),
    };
    writes.iter().cloned().chain([parity]).collect()
}

/// Returns the reads of a reconstruct-write.
fn kept(row: RowLayout, columns: &Range<u64>, writes: &[MemberRange]) -> Vec<MemberRange> {
    let mut reads = Vec::new();
    for member in (0..row.members).filter(|member| *member != row.parity) {
        let written = writes.iter().find(|piece| piece.member == member);
        let ranges = match written {
            Some(piece) => [
                columns.start..piece.range.start,
                piece.range.end..columns.end,
            ],
            None => [columns.clone(), 0..0],
        };
        let ranges = ranges.into_iter().filter(|range| range.start < range.end);
        reads.extend(ranges.map(|range| MemberRange { member, range }));
    }
    reads
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: RowLayout = RowLayout {
        members: 5,
        parity: 4,
    };

    fn pieces(all: &[(usize, Range<u64>)]) -> Vec<MemberRange> {
        let piece = |(member, range): &(usize, Range<u64>)| MemberRange {
            member: *member,
            range: range.clone(),
        };
        all.iter().map(piece).collect()
    }

    #[test]
    fn a_small_write_reads_the_overwritten_data_and_the_parity() {
        let writes = pieces(&[(1, 8..12)]);
        let reads = pieces(&[(1, 8..12), (4, 8..12)]);
        let chosen = choose(ROW, &(8..12), &writes, 0);
        assert_eq!(chosen, Some(ParityMethod::ReadModify(reads)));
    }

    #[test]
    fn a_write_of_most_of_a_row_reads_the_other_units() {
        let writes = pieces(&[(0, 0..16), (1, 0..16), (2, 0..16)]);
        let chosen = choose(ROW, &(0..16), &writes, 0);
        let rest = pieces(&[(3, 0..16)]);
        assert_eq!(chosen, Some(ParityMethod::Reconstruct(rest)));
        // Both methods need three reads. With holes, the rest is shorter.
        let writes = pieces(&[(0, 4..16), (1, 0..16), (2, 0..12)]);
        let chosen = choose(ROW, &(0..16), &writes, 0);
        let rest = pieces(&[(0, 0..4), (2, 12..16), (3, 0..16)]);
        assert_eq!(chosen, Some(ParityMethod::Reconstruct(rest)));
    }

    #[test]
    fn a_write_of_a_whole_row_reads_nothing() {
        let writes = pieces(&[(0, 0..16), (1, 0..16), (2, 0..16), (3, 0..16)]);
        let chosen = choose(ROW, &(0..16), &writes, 0b10000);
        assert_eq!(chosen, Some(ParityMethod::Reconstruct(Vec::new())));
    }

    #[test]
    fn the_chosen_method_avoids_unreadable_members_if_possible() {
        let writes = pieces(&[(1, 8..12)]);
        let is_reconstruct = |unreadable| {
            matches!(
                choose(ROW, &(8..12), &writes, unreadable),
                Some(ParityMethod::Reconstruct(_))
            )
        };
        assert!(is_reconstruct(0b00010) && is_reconstruct(0b10000));
        assert!(!is_reconstruct(0b00001) && !is_reconstruct(0b01000));
        assert_eq!(choose(ROW, &(8..12), &writes, 0b00011), None);
    }
}
