//! The array with parity while its members work: the requests to members, and waiting for locks.

mod common;

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use common::{MemberDevice, buf, filled, members, parity, read, run, sum_is_zero};
use forebay_device::{Device, DeviceGeometry, DeviceOp, Durability, RamDevice, ZeroedSpace};
use forebay_raid::{ArrayError, ParityArray, ParityStats};
use forebay_rng::Rng;
use futures_util::future::{join, join_all};

const KIB: u64 = 1024;
const UNIT: u64 = 4096;
/// Bytes of data in a row of five members.
const ROW: u64 = 4 * UNIT;

type MemberRequests = Vec<(DeviceOp, Range<u64>)>;

/// Returns the requests to each member.
fn asked(members: &[Rc<MemberDevice>]) -> Vec<MemberRequests> {
    members.iter().map(|member| member.asked()).collect()
}

#[test]
fn data_and_parity_are_placed_in_the_left_symmetric_layout() {
    run(|rt| async move {
        let members = members(&rt, 5, 64 * KIB);
        let array = parity(&rt, &members, UNIT as u32);
        for unit in 0..12 {
            let data = filled(UNIT as usize, 1 << (unit % 4));
            array
                .write(unit * UNIT, data, Durability::Flush)
                .await
                .unwrap();
        }
        // By rows, with members from left to right; 15 is the sum of 1, 2, 4 and 8.
        let expected = [[1, 2, 4, 8, 15], [2, 4, 8, 15, 1], [4, 8, 15, 1, 2]];
        for (row, bytes) in (0..).zip(expected) {
            for (member, byte) in members.iter().zip(bytes) {
                let found = read(&**member, row * UNIT, UNIT as usize).await.unwrap();
                assert_eq!(found, vec![byte; UNIT as usize]);
            }
        }
    });
}

#[test]
fn a_small_write_takes_two_reads_and_then_two_writes() {
    run(|rt| async move {
        let members = members(&rt, 5, 64 * KIB);
        for m in &members {
            m.takes(Duration::from_millis(5));
        }
        let array = parity(&rt, &members, UNIT as u32);
        // Row 1 has its parity on member 3 and its unit 1 on member 0.
        let data = filled(1024, 7);
        array
            .write(ROW + UNIT + 512, data, Durability::Flush)
            .await
            .unwrap();
        assert_eq!(rt.now().as_nanos(), 10_000_000);
        let range = || UNIT + 512..UNIT + 1536;
        let pair = vec![(DeviceOp::Read, range()), (DeviceOp::Write, range())];
        let expected = [pair.clone(), vec![], vec![], pair, vec![]];
        assert_eq!(asked(&members), expected);
    });
}

#[test]
fn whole_rows_take_a_single_write_to_each_member_and_no_reads() {
    run(|rt| async move {
        let members = members(&rt, 5, 64 * KIB);
        for m in &members {
            m.takes(Duration::from_millis(5));
        }
        let array = parity(&rt, &members, UNIT as u32);
        let data = filled(3 * ROW as usize, 7);
        array.write(ROW, data, Durability::Fua).await.unwrap();
        assert_eq!(rt.now().as_nanos(), 5_000_000);
        let once = vec![(DeviceOp::Write, UNIT..4 * UNIT)];
        assert_eq!(asked(&members), vec![once; 5]);
        let stats = ParityStats {
            row_writes: 1,
            row_bytes: 3 * ROW,
            ..ParityStats::default()
        };
        assert_eq!(array.stats(), stats);
    });
}

#[test]
fn the_array_reads_the_other_units_for_a_write_of_most_of_a_row() {
    run(|rt| async move {
        let members = members(&rt, 5, 64 * KIB);
        let array = parity(&rt, &members, UNIT as u32);
        // Row 0 except for its last unit, which is on member 3.
        let data = filled(3 * UNIT as usize, 7);
        array.write(0, data, Durability::Flush).await.unwrap();
        let one = |op| vec![(op, 0..UNIT)];
        let write = || one(DeviceOp::Write);
        let expected = [write(), write(), write(), one(DeviceOp::Read), write()];
        assert_eq!(asked(&members), expected);
        assert_eq!(array.stats().reconstruct_writes, 1);
        assert_eq!(array.stats().part_bytes, 3 * UNIT);
    });
}

#[test]
fn a_write_across_a_unit_boundary_is_two_small_writes() {
    run(|rt| async move {
        let members = members(&rt, 5, 64 * KIB);
        let array = parity(&rt, &members, UNIT as u32);
        let data = filled(1024, 7);
        array
            .write(UNIT - 512, data, Durability::Flush)
            .await
            .unwrap();
        let pair = |range: Range<u64>| [(DeviceOp::Read, range.clone()), (DeviceOp::Write, range)];
        let (end, begin) = (3584..4096, 0..512);
        let found = asked(&members);
        assert_eq!(found[0], pair(end.clone()));
        assert_eq!(found[1], pair(begin.clone()));
        let mut of_parity = found[4].clone();
        of_parity.sort_by_key(|(_, range)| range.start);
        assert_eq!(of_parity, [pair(begin), pair(end)].concat());
        assert_eq!(array.stats().read_modify_writes, 2);
        assert_eq!(
            (array.stats().row_bytes, array.stats().part_bytes),
            (0, 1024)
        );
        assert_eq!(read(&array, UNIT - 512, 1024).await.unwrap(), [7; 1024]);
        assert!(sum_is_zero(&members));
    });
}

#[test]
fn a_read_sends_a_single_request_for_adjacent_ranges_of_a_member() {
    run(|rt| async move {
        let members = members(&rt, 5, 64 * KIB);
        for m in &members {
            m.takes(Duration::from_millis(5));
        }
        let array = parity(&rt, &members, UNIT as u32);
        read(&array, 0, 2 * ROW as usize).await.unwrap();
        assert_eq!(rt.now().as_nanos(), 5_000_000);
        // Member 3 has the parity of row 1, and member 4 that of row 0.
        let read = |range| vec![(DeviceOp::Read, range)];
        let both = || read(0..2 * UNIT);
        let expected = [both(), both(), both(), read(0..UNIT), read(UNIT..2 * UNIT)];
        assert_eq!(asked(&members), expected);
    });
}

#[test]
fn writes_to_overlapping_columns_run_in_turn_and_others_do_not_wait() {
    run(|rt| async move {
        let members = members(&rt, 5, 64 * KIB);
        for m in &members {
            m.takes(Duration::from_millis(5));
        }
        let array = parity(&rt, &members, UNIT as u32);
        let write = async |at: u64| {
            array
                .write(at, filled(512, 7), Durability::Flush)
                .await
                .unwrap();
            rt.now().as_nanos() / 1_000_000
        };
        // The first sector of units 0 and 1, the second sector of unit 2, and the first sector of the next row.
        let done = join_all([0, UNIT, 2 * UNIT + 512, ROW].map(write)).await;
        assert_eq!(done, [10, 20, 10, 10]);
        assert!(sum_is_zero(&members));
    });
}

#[test]
fn flushes_and_zeroing_reach_all_members_and_fua_the_written_members() {
    run(|rt| async move {
        let members = members(&rt, 5, 64 * KIB);
        let array = parity(&rt, &members, UNIT as u32);
        array
            .write(0, filled(512, 1), Durability::Fua)
            .await
            .unwrap();
        let fua: Vec<bool> = members.iter().map(|member| member.took_fua()).collect();
        assert_eq!(fua, [true, false, false, false, true]);
        asked(&members);
        array.flush().await.unwrap();
        assert_eq!(asked(&members), vec![vec![(DeviceOp::Flush, 0..0)]; 5]);
        array
            .write_zeroes(ROW..3 * ROW, ZeroedSpace::Keep)
            .await
            .unwrap();
        assert_eq!(
            asked(&members),
            vec![vec![(DeviceOp::WriteZeroes, UNIT..3 * UNIT)]; 5]
        );
        // A discard reaches only the whole row.
        array.discard(UNIT..2 * ROW + 512).await.unwrap();
        assert_eq!(
            asked(&members),
            vec![vec![(DeviceOp::WriteZeroes, UNIT..2 * UNIT)]; 5]
        );
        array.discard(UNIT..ROW + 512).await.unwrap();
        assert_eq!(asked(&members), vec![vec![]; 5]);
    });
}

#[test]
fn discards_are_not_passed_to_members_that_must_write_zeroes() {
    run(|rt| async move {
        let member = || -> Rc<dyn Device> {
            Rc::new(common::GeometryOverride {
                below: RamDevice::new(64 * KIB, 512),
                change: |g| DeviceGeometry {
                    zeroes_by_unmapping: false,
                    ..g
                },
            })
        };
        let members = vec![Some(member()), Some(member()), Some(member())];
        let array = ParityArray::new(&rt, members, 4096).unwrap();
        let geometry = array.geometry();
        assert_eq!(
            (geometry.discard_granularity, geometry.zeroes_by_unmapping),
            (0, false)
        );
        array
            .write(0, filled(8192, 3), Durability::Flush)
            .await
            .unwrap();
        array.discard(0..8192).await.unwrap();
        assert_eq!(read(&array, 0, 8192).await.unwrap(), vec![3; 8192]);
    });
}

#[test]
fn the_length_is_that_of_the_data_and_the_preferred_request_is_a_row() {
    run(|rt| async move {
        let ram = |len| -> Option<Rc<dyn Device>> { Some(Rc::new(RamDevice::new(len, 512))) };
        let all = vec![ram(70 * KIB), ram(100 * KIB), None, ram(65 * KIB)];
        let geometry = ParityArray::new(&rt, all, 16 << 10).unwrap().geometry();
        assert_eq!(geometry.len, 3 * 64 * KIB);
        assert_eq!(
            (geometry.preferred_io, geometry.discard_granularity),
            (48 << 10, 48 << 10)
        );
        let refused = |members| ParityArray::new(&rt, members, 4096).err();
        let two = ArrayError::Members {
            have: 2,
            least: 3,
            most: 64,
        };
        assert_eq!(refused(vec![ram(8192), ram(8192)]), Some(two));
        let missing = refused(vec![ram(8192), None, None]);
        assert_eq!(missing, Some(ArrayError::Missing(2)));
    });
}

#[test]
fn an_abandoned_write_is_completed() {
    run(|rt| async move {
        let members = members(&rt, 3, 64 * KIB);
        for m in &members {
            m.takes(Duration::from_millis(5));
        }
        let array = parity(&rt, &members, UNIT as u32);
        let write = array.write(512, filled(512, 7), Durability::Flush);
        assert!(rt.timeout(Duration::from_millis(7), write).await.is_err());
        rt.sleep(Duration::from_millis(10)).await;
        assert!(sum_is_zero(&members));
        assert_eq!(read(&array, 512, 512).await.unwrap(), [7; 512]);
    });
}

#[test]
fn inconsistent_parity_is_detected_and_rewritten() {
    run(|rt| async move {
        let members = members(&rt, 4, 64 * KIB);
        let array = parity(&rt, &members, UNIT as u32);
        for (n, member) in (0..).zip(&members) {
            member.below.poke(0, &Rng::new(n).bytes(64 << 10));
        }
        let before = read(&array, 0, 48 << 10).await.unwrap();
        let row = 3 * UNIT;
        let found = array.resync(row + 512..2 * row).await.unwrap();
        assert_eq!((found.parity, found.members, found.left), (UNIT, 0, 0));
        let found = array.resync(0..16 * row).await.unwrap();
        assert_eq!((found.parity, found.members, found.left), (15 * UNIT, 0, 0));
        assert!(sum_is_zero(&members));
        assert_eq!(read(&array, 0, 48 << 10).await.unwrap(), before);
    });
}

/// Returns disjoint ranges of sectors.
fn apart(rng: &Rng, sectors: u64, count: usize) -> Vec<Range<u64>> {
    let mut ends: Vec<u64> = (0..2 * count).map(|_| rng.below(sectors + 1)).collect();
    ends.sort_unstable();
    let ranges = ends
        .chunks_exact(2)
        .map(|ends| ends[0] * 512..ends[1] * 512);
    ranges.filter(|range| range.start < range.end).collect()
}

#[test]
fn a_parity_array_equals_an_array_of_bytes_under_concurrent_requests() {
    for seed in 0..60 {
        run(move |rt| async move {
            let rng = Rng::new(seed);
            let count = 3 + rng.below(5) as usize;
            let unit = 512 << rng.below(5);
            let members = members(&rt, count, 64 * KIB);
            for member in &members {
                member.takes_any(rng.next());
            }
            let array = parity(&rt, &members, unit);
            let len = array.geometry().len;
            let mut model = vec![0; len as usize];
            for _ in 0..25 {
                let at_once = 1 + rng.below(8) as usize;
                let requests = apart(&rng, len / 512, at_once).into_iter().map(|range| {
                    let data = match rng.below(4) {
                        0 => vec![0; (range.end - range.start) as usize],
                        _ => rng.bytes((range.end - range.start) as usize),
                    };
                    model[range.start as usize..range.end as usize].copy_from_slice(&data);
                    (range, data)
                });
                let requests: Vec<_> = requests.collect();
                let array = &array;
                let writes = requests.into_iter().map(async |(range, data)| {
                    if data[..] == vec![0; data.len()] {
                        return array
                            .write_zeroes(range, ZeroedSpace::Release)
                            .await
                            .unwrap();
                    }
                    array
                        .write(range.start, buf(&data), Durability::Flush)
                        .await
                        .unwrap();
                });
                let reads = read(array, 0, 512);
                let _ = join(join_all(writes), reads).await;
                assert_eq!(
                    read(array, 0, len as usize).await.unwrap(),
                    model,
                    "seed {seed}"
                );
                assert!(sum_is_zero(&members), "seed {seed}");
            }
            assert_eq!(array.stats().reconstructions, 0);
        });
    }
}
