use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn whole(n: u64) -> Value {
    Value::Whole {
        addr: Addr(n & FIELD_40),
        crc: n as u32,
    }
}

#[test]
fn what_is_packed_into_a_slot_comes_out_again() {
    for value in [
        Value::Whole {
            addr: Addr(FIELD_40),
            crc: u32::MAX,
        },
        Value::Whole {
            addr: Addr(0),
            crc: 0,
        },
        Value::Pieces(u32::MAX),
    ] {
        let slot = Slot::new(Line(LINES_MAX - 1), value);
        assert_eq!(
            (slot.line(), slot.value(), slot.is_empty()),
            (Line(LINES_MAX - 1), value, false)
        );
    }
}

#[test]
fn a_gib_of_lines_takes_at_most_six_mib_at_every_size_on_the_way() {
    let mut table = LineTable::new();
    for n in 0..262_144u64 {
        // Far apart, as random writes to a large volume are.
        table.insert(Line(n * 7919 % LINES_MAX), whole(n));
        if n > 32_768 {
            let per_line = table.bytes() as f64 / table.len() as f64;
            assert!(per_line <= 24.0, "{per_line} bytes a line at {n} lines");
        }
    }
}

#[test]
fn memory_is_given_back_when_lines_leave() {
    let mut table = LineTable::new();
    for n in 0..100_000 {
        table.insert(Line(n), whole(n));
    }
    let full = table.bytes();
    for n in 1_000..100_000 {
        table.remove(Line(n));
    }
    assert!(table.bytes() < full / 20, "{} of {full}", table.bytes());
    assert_eq!(table.get(Line(999)), Some(whole(999)));
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u64, u64),
    Remove(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..300u64, any::<u64>()).prop_map(|(line, n)| Step::Insert(line, n)),
        2 => (0..300u64).prop_map(Step::Remove),
    ]
}

proptest! {
    #[test]
    fn the_table_is_a_map_from_line_to_value(steps in proptest::collection::vec(step(), 1..3000)) {
        let (mut table, mut model) = (LineTable::new(), BTreeMap::new());
        for step in steps {
            match step {
                Step::Insert(line, n) => {
                    prop_assert_eq!(table.insert(Line(line), whole(n)), model.insert(line, whole(n)));
                }
                Step::Remove(line) => {
                    prop_assert_eq!(table.remove(Line(line)), model.remove(&line));
                }
            }
            prop_assert_eq!(table.len(), model.len());
        }
        for line in 0..300 {
            prop_assert_eq!(table.get(Line(line)), model.get(&line).copied());
        }
        let mut all: Vec<_> = table.iter().map(|(line, value)| (line.0, value)).collect();
        all.sort_by_key(|(line, _)| *line);
        prop_assert_eq!(all, model.into_iter().collect::<Vec<_>>());
    }
}
