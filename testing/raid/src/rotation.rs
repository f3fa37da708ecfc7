//! The positions of data and parity: the left-symmetric layout.
//!
//! The parity of the first row is on the last member, and moves one member to the left with each row. The data of a row
//! begins on the member behind its parity and wraps around. So consecutive units of the array, as many as the array has
//! members, are on different members (Lee and Katz, "Performance Consequences of Parity Placement in Disk Arrays",
//! ASPLOS 1991).

use std::ops::Range;

/// The layout of an array with parity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ParityLayout {
    pub(crate) members: usize,
    /// Bytes of a stripe unit.
    pub(crate) unit: u64,
    pub(crate) rows: u64,
}

impl ParityLayout {
    /// Returns the bytes of data in a row.
    pub(crate) fn row_bytes(&self) -> u64 {
        (self.members as u64 - 1) * self.unit
    }

    /// Returns the bytes of each member that are in use.
    pub(crate) fn member_bytes(&self) -> u64 {
        self.rows * self.unit
    }

    /// Returns the member with a row's parity.
    pub(crate) fn parity(&self, row: u64) -> usize {
        self.members - 1 - (row % self.members as u64) as usize
    }

    /// Returns the member with the data unit of this number in a row.
    pub(crate) fn data(&self, row: u64, number: usize) -> usize {
        (self.parity(row) + 1 + number) % self.members
    }

    /// Returns the member and the row of a unit of the array.
    pub(crate) fn place(&self, unit: u64) -> (usize, u64) {
        let data = self.members as u64 - 1;
        let row = unit / data;
        (self.data(row, (unit % data) as usize), row)
    }

    /// Returns the bytes of each member that belong to a row.
    pub(crate) fn columns(&self, row: u64) -> Range<u64> {
        row * self.unit..(row + 1) * self.unit
    }

    /// Returns the row of a byte of a member.
    pub(crate) fn row_of(&self, column: u64) -> u64 {
        column / self.unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_of_five_members_is_left_symmetric() {
        // Lee and Katz, figure 2: each row's units by member; P is parity.
        const P: u64 = u64::MAX;
        let rotation = ParityLayout {
            members: 5,
            unit: 4096,
            rows: 6,
        };
        let expected = [
            [0, 1, 2, 3, P],
            [5, 6, 7, P, 4],
            [10, 11, P, 8, 9],
            [15, P, 12, 13, 14],
            [P, 16, 17, 18, 19],
            [20, 21, 22, 23, P],
        ];
        let mut found = [[P; 5]; 6];
        for unit in 0..24 {
            let (member, row) = rotation.place(unit);
            found[row as usize][member] = unit;
        }
        assert_eq!(found, expected);
        let parity: Vec<usize> = (0..6).map(|row| rotation.parity(row)).collect();
        assert_eq!(parity, [4, 3, 2, 1, 0, 4]);
    }
}
