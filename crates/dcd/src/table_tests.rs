use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Returns the memory for a GiB of cached data, in MiB, with fragments of `sectors` sectors.
fn mib_a_gib(table: &FragmentTable, sectors: u64) -> f64 {
    let gib = (table.len() as u64 * sectors * 512) as f64 / f64::from(1 << 30);
    table.bytes() as f64 / f64::from(1 << 20) / gib
}

fn piece(line: u64, start: u8, sectors: u8, n: u64) -> LogFragment {
    LogFragment {
        line: BlockNumber(line),
        start,
        sectors,
        live: n as u8 | 1,
        addr: LogAddr(n & FIELD_40),
        crc: n as u32,
    }
}

fn whole(line: u64, n: u64) -> LogFragment {
    piece(line, 0, 8, n)
}

#[test]
fn a_fragment_packed_into_a_slot_unpacks_unchanged() {
    for start in 0..8 {
        for sectors in 1..=8 - start {
            for n in [0, 1, 0x5555_5555_5555_5555, u64::MAX] {
                let piece = piece(LINES_MAX - 1, start, sectors, n);
                let slot = FragmentSlot::new(piece);
                assert_eq!((slot.piece(), slot.is_empty()), (piece, false));
            }
        }
    }
    assert!(FragmentSlot::default().is_empty());
}

/// Fills a table with fragments of `sectors` sectors, `to_a_line` of them per block. Returns the maximum memory per GiB
/// on the way, in MiB.
fn most_mib_a_gib(pieces: u64, sectors: u8, to_a_line: u64) -> f64 {
    let (mut table, mut most) = (FragmentTable::new(), 0f64);
    for n in 0..pieces {
        // Far apart, like random writes to a large volume.
        let line = n / to_a_line * 7919 % LINES_MAX;
        let start = (n % to_a_line) as u8 * sectors;
        push(&mut table, piece(line, start, sectors, n));
        if n > 65_536 {
            most = most.max(mib_a_gib(&table, sectors.into()));
        }
    }
    most
}

#[test]
fn the_map_of_a_gib_in_whole_blocks_takes_at_most_six_mib_at_every_size() {
    let most = most_mib_a_gib(400_000, 8, 1);
    assert!(most <= 5.1, "{most} MiB");
}

#[test]
fn the_map_of_a_gib_in_single_sectors_takes_at_most_forty_mib() {
    for to_a_line in [1, 2, 3, 8] {
        let most = most_mib_a_gib(400_000, 1, to_a_line);
        assert!(most <= 40.0, "{most} MiB, {to_a_line} to a line");
    }
}

#[test]
fn memory_is_released_when_blocks_are_removed() {
    let mut table = FragmentTable::new();
    for n in 0..100_000 {
        push(&mut table, whole(n, n));
    }
    let full = table.bytes();
    for n in 1_000..100_000 {
        table.retain(BlockNumber(n), |_| false);
        let per_piece = table.bytes() / table.len() as u64;
        // It shrinks at 55 %, except for the last slots of each shard.
        assert!(per_piece <= 30 || table.bytes() < 80_000, "{per_piece}");
    }
    assert!(table.bytes() < full / 20, "{} of {full}", table.bytes());
    assert!(table.get(BlockNumber(999)).eq([whole(999, 999)]));
}

/// Inserts one more fragment of its block, without changing the others.
fn push(table: &mut FragmentTable, piece: LogFragment) {
    table.put(table.find(piece.line), piece, |_| true);
}

#[derive(Debug, Clone)]
enum FragmentTableStep {
    Push(u64, u64),
    /// Puts a fragment in the place of those with an address divisible by a number.
    Put(u64, u64, u64),
    /// Changes the fragments of a block, and removes those with an address divisible by a number.
    Retain(u64, u64),
    RetainAll(u64),
}

fn step() -> impl Strategy<Value = FragmentTableStep> {
    prop_oneof![
        300 => (0..300u64, any::<u64>()).prop_map(|(line, n)| FragmentTableStep::Push(line, n)),
        200 => (0..300u64, any::<u64>(), 1..4u64).prop_map(|(line, n, by)| FragmentTableStep::Put(line, n, by)),
        200 => (0..300u64, 1..4u64).prop_map(|(line, by)| FragmentTableStep::Retain(line, by)),
        1 => (2..4u64).prop_map(FragmentTableStep::RetainAll),
    ]
}

/// Changes a fragment. Returns true if it stays.
fn keep(piece: &mut LogFragment, by: u64) -> bool {
    piece.live |= 0x80;
    !piece.addr.0.is_multiple_of(by)
}

fn sorted(pieces: impl Iterator<Item = LogFragment>) -> Vec<LogFragment> {
    let mut pieces: Vec<LogFragment> = pieces.collect();
    pieces.sort_by_key(|piece| (piece.line, piece.addr, piece.live, piece.crc));
    pieces
}

proptest! {
    #[test]
    fn the_table_returns_the_fragments_of_every_block(steps in proptest::collection::vec(step(), 1..3000)) {
        let (mut table, mut model) = (FragmentTable::new(), BTreeMap::<u64, Vec<LogFragment>>::new());
        for step in steps {
            match step {
                FragmentTableStep::Push(line, n) => {
                    push(&mut table, whole(line, n));
                    model.entry(line).or_default().push(whole(line, n));
                }
                FragmentTableStep::Put(line, n, by) => {
                    table.put(table.find(BlockNumber(line)), whole(line, n), |piece| keep(piece, by));
                    let pieces = model.entry(line).or_default();
                    pieces.retain_mut(|piece| keep(piece, by));
                    pieces.push(whole(line, n));
                }
                FragmentTableStep::Retain(line, by) => {
                    table.retain(BlockNumber(line), |piece| keep(piece, by));
                    model.entry(line).or_default().retain_mut(|piece| keep(piece, by));
                }
                FragmentTableStep::RetainAll(by) => {
                    table.retain_all(|piece| keep(piece, by));
                    for list in model.values_mut() {
                        list.retain_mut(|piece| keep(piece, by));
                    }
                }
            }
            prop_assert_eq!(table.len(), model.values().map(Vec::len).sum::<usize>());
        }
        for line in 0..300 {
            let listed = model.get(&line).into_iter().flatten().copied();
            prop_assert_eq!(sorted(table.get(BlockNumber(line))), sorted(listed));
        }
        prop_assert_eq!(sorted(table.iter()), sorted(model.into_values().flatten()));
    }
}
