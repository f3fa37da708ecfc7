//! Compares the order of reading with its definition, on files in memory.

use proptest::prelude::*;

use super::*;

/// Lines of a text in memory, and the ranges that were searched.
struct LineBoundaries<'t> {
    text: &'t [u8],
    looked: Vec<(u64, u64)>,
}

impl UnitBoundaries for LineBoundaries<'_> {
    fn end_after(&mut self, from: u64, limit: u64) -> io::Result<Option<u64>> {
        self.looked.push((from, limit));
        let part = &self.text[from as usize..limit as usize];
        Ok(part
            .iter()
            .position(|b| *b == b'\n')
            .map(|n| from + n as u64 + 1))
    }

    fn end_before(&mut self, from: u64, limit: u64) -> io::Result<Option<u64>> {
        self.looked.push((limit, from));
        let part = &self.text[limit as usize..from as usize];
        Ok(part
            .iter()
            .rposition(|b| *b == b'\n')
            .map(|n| limit + n as u64 + 1))
    }
}

/// Returns adjacent stretches with these lengths and costs.
fn stretches(of: &[(u64, u8)]) -> Vec<CostStretch> {
    let mut at = 0;
    let mut all = Vec::new();
    for &(length, cost) in of {
        let cost = match cost {
            0 => ReadCost::CACHED,
            1 => ReadCost::HOLE,
            n => ReadCost::device(Some(f64::from(n))),
        };
        all.push(CostStretch {
            offset: at,
            end: at + length,
            cost,
        });
        at += length;
    }
    all
}

fn covers(stretches: &[CostStretch], length: u64) -> bool {
    let mut at = 0;
    for one in stretches {
        if one.offset != at || one.end <= at {
            return false;
        }
        at = one.end;
    }
    at == length
}

#[test]
fn a_line_across_a_boundary_belongs_to_the_more_expensive_side() {
    let text = b"aaaa\nbbbb\ncccc\ndddd\n";
    for (costs, edge) in [([0, 9], 5), ([9, 0], 10)] {
        let given = stretches(&[(7, costs[0]), (13, costs[1])]);
        let mut lines = LineBoundaries {
            text,
            looked: Vec::new(),
        };
        let settled = settle(given, &mut lines).unwrap();
        assert_eq!(settled[0].end, edge, "{costs:?}");
        assert!(covers(&settled, 20));
    }
}

#[test]
fn a_cheap_range_inside_one_line_is_read_with_the_line() {
    let text = b"a\nbbbbbbbbbbbbbbbb\nc\n";
    let given = stretches(&[(4, 9), (5, 0), (12, 9)]);
    let mut lines = LineBoundaries {
        text,
        looked: Vec::new(),
    };
    let settled = settle(given, &mut lines).unwrap();
    assert_eq!(settled.len(), 1);
    assert!(covers(&settled, 21));
}

#[test]
fn an_unknown_latency_costs_most_and_a_hole_costs_more_than_only_memory() {
    assert!(ReadCost::CACHED < ReadCost::HOLE);
    assert!(ReadCost::HOLE < ReadCost::device(Some(0.0)));
    assert!(ReadCost::device(Some(1e-9)) < ReadCost::device(Some(1e3)));
    assert!(ReadCost::device(Some(1e30)) < ReadCost::device(None));
    assert_eq!(ReadCost::device(Some(f64::NAN)), ReadCost::device(None));
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![4 => Just(b'x'), 1 => Just(b'\n')], 1..200)
}

fn costs() -> impl Strategy<Value = Vec<(u64, u8)>> {
    prop::collection::vec((1_u64..20, 0_u8..4), 1..30)
}

/// Returns the stretches of `of`, shortened or extended to `length` bytes.
fn fitted(of: &[(u64, u8)], length: u64) -> Vec<CostStretch> {
    let mut all = stretches(of);
    all.retain(|one| one.offset < length);
    let last = all.last_mut().unwrap();
    last.end = length;
    all
}

proptest! {
    #[test]
    fn every_byte_is_scheduled_once_by_cost_and_then_by_offset(
        of in costs(), chunk in 1_u64..16,
    ) {
        let all = fitted(&of, of.iter().map(|(length, _)| length).sum());
        let length = all.last().unwrap().end;
        let settled = settle(all.clone(), &mut ByteBoundaries).unwrap();
        prop_assert!(covers(&settled, length));
        let mut schedule = ReadSchedule::default();
        schedule.add(settled);
        let mut taken: Vec<(ReadCost, u64, u64)> = Vec::new();
        while let Some(first) = schedule.first(ReadCost::CACHED) {
            let end = first.end.min(first.offset + chunk);
            schedule.take(first, end);
            taken.push((first.cost, first.offset, end));
        }
        prop_assert!(taken.is_sorted());
        for at in 0..length {
            let by: Vec<_> = taken.iter().filter(|(_, from, to)| (*from..*to).contains(&at)).collect();
            prop_assert_eq!(by.len(), 1);
            let cost = all.iter().find(|one| (one.offset..one.end).contains(&at)).unwrap().cost;
            prop_assert_eq!(by[0].0, cost);
        }
    }

    #[test]
    fn boundaries_are_line_ends_and_a_line_belongs_to_its_most_expensive_range(
        text in text(), of in costs(),
    ) {
        let length = text.len() as u64;
        let all = fitted(&of, length);
        let mut lines = LineBoundaries { text: &text, looked: Vec::new() };
        let settled = settle(all.clone(), &mut lines).unwrap();
        prop_assert!(covers(&settled, length));
        let cost_at = |at: u64, of: &[CostStretch]| {
            of.iter().find(|one| (one.offset..one.end).contains(&at)).unwrap().cost
        };
        let mut start = 0;
        for line in text.split_inclusive(|b| *b == b'\n') {
            let end = start + line.len() as u64;
            let dearest = (start..end).map(|at| cost_at(at, &all)).max().unwrap();
            let given = cost_at(start, &settled);
            prop_assert!((start..end).all(|at| cost_at(at, &settled) == given), "line cut");
            // A higher cost is correct only if the unit begins at an edge whose other side has that cost: the search
            // does not read that side.
            let before = start.checked_sub(1).map(|at| cost_at(at, &settled));
            prop_assert!(given == dearest || (given > dearest && before == Some(given)));
            start = end;
        }
    }

    #[test]
    fn no_search_reads_a_byte_of_the_most_expensive_level(text in text(), of in costs()) {
        let all = fitted(&of, text.len() as u64);
        let mut lines = LineBoundaries { text: &text, looked: Vec::new() };
        settle(all.clone(), &mut lines).unwrap();
        let dearest = all.iter().map(|one| one.cost).max().unwrap();
        for (from, to) in lines.looked {
            for one in all.iter().filter(|one| one.cost == dearest) {
                prop_assert!(to <= one.offset || one.end <= from, "{from}..{to} in {one:?}");
            }
        }
    }

    #[test]
    fn elements_are_cut_only_at_the_end(
        of in costs(), size in 1_u64..20, start in 0_u64..10,
    ) {
        let mut all = stretches(&of);
        let length = all.last().unwrap().end;
        prop_assume!(start < length);
        all.retain(|one| one.end > start);
        all[0].offset = start;
        let settled = settle(all, &mut ElementBoundaries { start, size }).unwrap();
        prop_assert_eq!(settled[0].offset, start);
        prop_assert_eq!(settled.last().unwrap().end, length);
        for pair in settled.windows(2) {
            prop_assert_eq!(pair[0].end, pair[1].offset);
            prop_assert_eq!((pair[1].offset - start) % size, 0);
        }
    }

    #[test]
    fn a_drain_returns_exactly_the_ranges_that_were_not_taken(of in costs(), takes in 0_usize..10) {
        let all = fitted(&of, of.iter().map(|(length, _)| length).sum());
        let mut schedule = ReadSchedule::default();
        schedule.add(settle(all, &mut ByteBoundaries).unwrap());
        let mut taken: Vec<(u64, u64)> = Vec::new();
        for _ in 0..takes {
            if let Some(first) = schedule.first(ReadCost::CACHED) {
                let end = first.end.min(first.offset + 3);
                schedule.take(first, end);
                taken.push((first.offset, end));
            }
        }
        let mut all = schedule.drain();
        prop_assert!(all.windows(2).all(|pair| pair[0].1 < pair[1].0));
        all.extend(taken);
        all.sort_unstable();
        prop_assert!(all.windows(2).all(|pair| pair[0].1 == pair[1].0));
    }
}

#[test]
fn only_short_cheap_ranges_between_equally_expensive_ranges_are_read_through() {
    let mut all = stretches(&[
        (5, 0),
        (9, 7),
        (5, 0),
        (9, 7),
        (6, 0),
        (9, 7),
        (5, 1),
        (9, 7),
    ]);
    all.extend(stretches(&[(9, 7), (5, 0), (9, 8), (5, 0)]));
    let before = all.clone();
    read_over(&mut all, 5);
    let changed: Vec<_> = (0..all.len()).filter(|n| all[*n] != before[*n]).collect();
    assert_eq!(changed, [2, 6]);
    assert_eq!([all[2].cost, all[6].cost], [ReadCost::device(Some(7.0)); 2]);
    read_over(&mut all[..1], 5);
    read_over(&mut [], 5);
}
