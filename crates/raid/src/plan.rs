//! Which parts of a row have to be read to write another one.
//!
//! *Read-modify-write* reads what is overwritten and the parity, and adds the difference. *Reconstruct-write*
//! reads the data that is not overwritten, and adds up all of it. The fewer requests to members the better,
//! the fewer bytes where these are as many.

use std::ops::Range;

use crate::settle::Set;

/// What is written of one member in a row, in bytes of the member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) member: usize,
    pub(crate) range: Range<u64>,
}

/// How the new parity is told, with what has to be read for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Method {
    /// What is overwritten, in the order of the pieces, and then the parity.
    ReadModify(Vec<Piece>),
    /// What is not overwritten.
    Reconstruct(Vec<Piece>),
    /// The parity cannot be told, or not be kept: data alone is written.
    Bare,
}

/// A row's members: all of them, and which of them has parity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) members: usize,
    pub(crate) parity: usize,
}

fn is_in(member: usize, set: Set) -> bool {
    set & 1 << member != 0
}

/// The better of what can be done without reading from `unreadable`; `None` if neither can be.
pub(crate) fn choose(
    row: Row,
    columns: &Range<u64>,
    writes: &[Piece],
    unreadable: Set,
) -> Option<Method> {
    let readable = |reads: &Vec<Piece>| reads.iter().all(|r| !is_in(r.member, unreadable));
    let modify = Some(overwritten(row, columns, writes)).filter(readable);
    let construct = Some(kept(row, columns, writes)).filter(readable);
    let cost = |reads: &Vec<Piece>| {
        let bytes: u64 = reads.iter().map(|r| r.range.end - r.range.start).sum();
        (reads.len(), bytes)
    };
    match (modify, construct) {
        (Some(modify), Some(construct)) if cost(&modify) < cost(&construct) => {
            Some(Method::ReadModify(modify))
        }
        (_, Some(construct)) => Some(Method::Reconstruct(construct)),
        (Some(modify), None) => Some(Method::ReadModify(modify)),
        (None, None) => None,
    }
}

/// What a read-modify-write reads.
fn overwritten(row: Row, columns: &Range<u64>, writes: &[Piece]) -> Vec<Piece> {
    let parity = Piece {
        member: row.parity,
        range: columns.clone(),
    };
    writes.iter().cloned().chain([parity]).collect()
}

/// What a reconstruct-write reads.
fn kept(row: Row, columns: &Range<u64>, writes: &[Piece]) -> Vec<Piece> {
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
        reads.extend(ranges.map(|range| Piece { member, range }));
    }
    reads
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: Row = Row {
        members: 5,
        parity: 4,
    };

    fn pieces(all: &[(usize, Range<u64>)]) -> Vec<Piece> {
        let piece = |(member, range): &(usize, Range<u64>)| Piece {
            member: *member,
            range: range.clone(),
        };
        all.iter().map(piece).collect()
    }

    #[test]
    fn a_small_write_reads_what_it_overwrites_and_the_parity() {
        let writes = pieces(&[(1, 8..12)]);
        let reads = pieces(&[(1, 8..12), (4, 8..12)]);
        let chosen = choose(ROW, &(8..12), &writes, 0);
        assert_eq!(chosen, Some(Method::ReadModify(reads)));
    }

    #[test]
    fn a_write_of_most_of_a_row_reads_the_rest_of_it() {
        let writes = pieces(&[(0, 0..16), (1, 0..16), (2, 0..16)]);
        let chosen = choose(ROW, &(0..16), &writes, 0);
        let rest = pieces(&[(3, 0..16)]);
        assert_eq!(chosen, Some(Method::Reconstruct(rest)));
        // Three reads either way; with holes, the rest is less.
        let writes = pieces(&[(0, 4..16), (1, 0..16), (2, 0..12)]);
        let chosen = choose(ROW, &(0..16), &writes, 0);
        let rest = pieces(&[(0, 0..4), (2, 12..16), (3, 0..16)]);
        assert_eq!(chosen, Some(Method::Reconstruct(rest)));
    }

    #[test]
    fn a_whole_row_reads_nothing() {
        let writes = pieces(&[(0, 0..16), (1, 0..16), (2, 0..16), (3, 0..16)]);
        let chosen = choose(ROW, &(0..16), &writes, 0b10000);
        assert_eq!(chosen, Some(Method::Reconstruct(Vec::new())));
    }

    #[test]
    fn what_cannot_be_read_is_gone_round_if_there_is_a_way() {
        let writes = pieces(&[(1, 8..12)]);
        let is_reconstruct = |unreadable| {
            matches!(
                choose(ROW, &(8..12), &writes, unreadable),
                Some(Method::Reconstruct(_))
            )
        };
        assert!(is_reconstruct(0b00010) && is_reconstruct(0b10000));
        assert!(!is_reconstruct(0b00001) && !is_reconstruct(0b01000));
        assert_eq!(choose(ROW, &(8..12), &writes, 0b00011), None);
    }
}
