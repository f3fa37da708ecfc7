//! The array with parity when members fail: for one request, temporarily or permanently.

mod common;

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use common::{
    MemberDevice, MemberFault, buf, filled, member, members, parity, read, run, sum_is_zero,
};
use forebay_device::{Device, DeviceError, DeviceOp, Durability, RamDevice, ZeroedSpace};
use forebay_raid::{ArrayError, ParityArray, RebuildReport};
use forebay_rng::Rng;
use forebay_rt::Rt;
use futures_util::future::{join, join_all};

const KIB: u64 = 1024;
const UNIT: u64 = 4096;
const ALL: Range<u64> = 0..u64::MAX;

/// Returns an array of four members with random content, and the content.
async fn filled_array(rt: &Rt) -> (Vec<Rc<MemberDevice>>, ParityArray, Vec<u8>) {
    let members = members(rt, 4, 32 * KIB);
    let array = parity(rt, &members, UNIT as u32);
    let content = Rng::new(1).bytes(array.geometry().len as usize);
    let whole = array.write(0, buf(&content), Durability::Flush);
    whole.await.unwrap();
    for member in &members {
        drop(member.asked());
    }
    (members, array, content)
}

async fn write(array: &ParityArray, model: &mut [u8], at: u64, len: usize, byte: u8) {
    let data = filled(len, byte);
    array.write(at, data, Durability::Flush).await.unwrap();
    model[at as usize..at as usize + len].fill(byte);
}

async fn content(array: &ParityArray) -> Vec<u8> {
    let len = array.geometry().len as usize;
    read(array, 0, len).await.unwrap()
}

#[test]
fn unreadable_data_of_a_member_is_reconstructed_from_the_others() {
    run(|rt| async move {
        let (members, array, expected) = filled_array(&rt).await;
        for (failing, member) in members.iter().enumerate() {
            member.fails(MemberFault::Reads, 5000..6000);
            assert_eq!(content(&array).await, expected);
            member.fails(MemberFault::Nothing, ALL);
            // Nothing was written, and the member is not stale.
            assert!(array.stale(failing).is_empty());
        }
        let changes = |m: &Rc<MemberDevice>| m.ops().contains(&DeviceOp::Write);
        assert!(!members.iter().any(changes));
    });
}

#[test]
fn two_unreadable_members_give_the_error_of_the_device_until_they_are_readable() {
    run(|rt| async move {
        let (members, array, expected) = filled_array(&rt).await;
        members[0].fails(MemberFault::Reads, 0..UNIT);
        members[1].fails(MemberFault::Reads, 512..1024);
        let error = read(&array, 512, 512).await.unwrap_err();
        assert!(
            matches!(error, DeviceError::Io { op: DeviceOp::Read, range, .. } if range == (512..1024))
        );
        // Another column of the same units.
        assert_eq!(read(&array, 1024, 512).await.unwrap(), expected[1024..1536]);
        members[0].fails(MemberFault::Nothing, ALL);
        assert_eq!(content(&array).await, expected);
    });
}

#[test]
fn a_write_missed_by_a_member_is_not_read_from_it_until_it_is_resynced() {
    run(|rt| async move {
        for failing in 0..4 {
            let (members, array, mut model) = filled_array(&rt).await;
            let len = model.len() as u64;
            members[failing].fails(MemberFault::Writes, ALL);
            // A small write, most of a row, and whole rows, all of them crossing units.
            for (at, len) in [(512, 1024), (14_000 / 512 * 512, 10_240), (24_576, 36_864)] {
                write(&array, &mut model, at, len, 0x5a).await;
                assert_eq!(content(&array).await, model, "member {failing}");
            }
            members[failing].fails(MemberFault::Nothing, ALL);
            assert!(!array.stale(failing).is_empty());
            assert_eq!(content(&array).await, model, "member {failing}");
            // The member gets new writes now, and the rest when it is rebuilt.
            write(&array, &mut model, 512, 512, 0xa5).await;
            assert_eq!(content(&array).await, model, "member {failing}");
            let RebuildReport { written, lost } = array.rebuild(failing).await.unwrap();
            assert!(written > 0 && lost == 0);
            assert!(array.stale(failing).is_empty() && sum_is_zero(&members));
            members[(failing + 1) % 4].fails(MemberFault::Reads, ALL);
            assert_eq!(read(&array, 0, len as usize).await.unwrap(), model);
        }
    });
}

#[test]
fn an_array_is_read_and_written_without_a_missing_member_and_the_member_is_replaced() {
    run(|rt| async move {
        for missing in 0..4 {
            let (members, array, mut model) = filled_array(&rt).await;
            array.abandon(missing).unwrap();
            let other = (missing + 1) % 4;
            assert_eq!(array.abandon(other), Err(ArrayError::Missing(2)));
            members[missing].asked();
            for (at, len) in [(512, 1024), (14_000 / 512 * 512, 10_240), (24_576, 36_864)] {
                write(&array, &mut model, at, len, 0x5a).await;
            }
            assert_eq!(content(&array).await, model);
            array.flush().await.unwrap();
            assert!(members[missing].asked().is_empty());
            let short: Rc<dyn Device> = Rc::new(RamDevice::new(16 * KIB, 512));
            let (have, need) = (16 * KIB, 32 * KIB);
            let refused = array.replace(missing, short).await;
            assert_eq!(refused, Err(ArrayError::TooShort { have, need }));
            let fresh = member(&rt, 40 * KIB, false);
            let device = || Rc::clone(&fresh) as Rc<dyn Device>;
            let refused = array.replace(other, device()).await;
            assert_eq!(refused, Err(ArrayError::NoSuchMember(other)));
            array.replace(missing, device()).await.unwrap();
            assert_eq!(content(&array).await, model);
            let rebuilt = array.rebuild(missing).await.unwrap();
            assert_eq!((rebuilt.written, rebuilt.lost), (32 * KIB, 0));
            members[other].fails(MemberFault::All, ALL);
            assert_eq!(content(&array).await, model);
        }
    });
}

#[test]
fn a_small_write_succeeds_with_an_unreadable_member() {
    run(|rt| async move {
        for unreadable in 0..4 {
            let (members, array, mut model) = filled_array(&rt).await;
            members[unreadable].fails(MemberFault::Reads, ALL);
            write(&array, &mut model, 512, 512, 0x5a).await;
            write(&array, &mut model, UNIT + 512, 5120, 0x5b).await;
            members[unreadable].fails(MemberFault::Nothing, ALL);
            assert!(sum_is_zero(&members));
            assert_eq!(content(&array).await, model);
        }
    });
}

#[test]
fn a_write_that_needs_two_unreadable_members_fails_and_changes_nothing() {
    run(|rt| async move {
        let (members, array, model) = filled_array(&rt).await;
        members[0].fails(MemberFault::Reads, ALL);
        members[1].fails(MemberFault::Reads, ALL);
        let refused = array.write(512, filled(512, 1), Durability::Flush).await;
        assert!(matches!(
            refused,
            Err(DeviceError::Io {
                op: DeviceOp::Write,
                ..
            })
        ));
        members[0].fails(MemberFault::Nothing, ALL);
        members[1].fails(MemberFault::Nothing, ALL);
        assert!(sum_is_zero(&members));
        assert_eq!(content(&array).await, model);
    });
}

#[test]
fn a_write_that_fails_on_two_members_fails_and_loses_nothing_else() {
    run(|rt| async move {
        let (members, array, model) = filled_array(&rt).await;
        members[0].fails(MemberFault::Writes, ALL);
        members[3].fails(MemberFault::Writes, ALL);
        // Unit 0 of row 0 is on member 0, its parity on member 3.
        let refused = array.write(0, filled(2048, 1), Durability::Flush).await;
        assert!(matches!(
            refused,
            Err(DeviceError::Io {
                op: DeviceOp::Write,
                ..
            })
        ));
        members[0].fails(MemberFault::Nothing, ALL);
        members[3].fails(MemberFault::Nothing, ALL);
        // Each block is old or new, and the rest is unchanged.
        let found = content(&array).await;
        assert_eq!(found[..1024], [1; 1024]);
        assert_eq!(found[1024..], model[1024..]);
        // The parity is wrong and recorded as stale: a write computes it again.
        assert_eq!(array.stale(3), vec![0..2048]);
        assert!(array.stale(0).is_empty());
        array
            .write(UNIT, filled(2048, 2), Durability::Flush)
            .await
            .unwrap();
        assert!(array.stale(3).is_empty() && sum_is_zero(&members));
    });
}

#[test]
fn data_lost_on_all_members_is_an_error_until_it_is_rewritten_and_never_invented() {
    run(|rt| async move {
        let (members, array, mut model) = filled_array(&rt).await;
        // Member 0 misses a write, and then a write of the parity for the same columns fails.
        members[0].fails(MemberFault::Writes, ALL);
        write(&array, &mut model, 0, 512, 0x5a).await;
        members[0].fails(MemberFault::Nothing, ALL);
        members[3].fails(MemberFault::Writes, ALL);
        let beside = array.write(UNIT, filled(512, 3), Durability::Flush).await;
        beside.unwrap_err();
        members[3].fails(MemberFault::Nothing, ALL);
        let lost = read(&array, 0, 512).await.unwrap_err();
        assert!(matches!(lost, DeviceError::Damaged { range, .. } if range == (0..512)));
        assert_eq!(array.rebuild(0).await.unwrap().lost, 512);
        assert_eq!(array.resync(0..512).await.unwrap().left, 512);
        // The other data is intact, and can be written.
        model[4096..4608].fill(3);
        assert_eq!(
            read(&array, 512, 9000 / 512 * 512).await.unwrap(),
            model[512..512 + 8704]
        );
        write(&array, &mut model, UNIT, 512, 0x11).await;
        assert!(read(&array, 0, 512).await.is_err());
        // New data is written with its parity.
        write(&array, &mut model, 0, 1024, 0x22).await;
        assert_eq!(content(&array).await, model);
        assert!(sum_is_zero(&members) && array.stale(0).is_empty() && array.stale(3).is_empty());
    });
}

#[test]
fn a_member_whose_flush_fails_becomes_stale_where_data_was_unflushed() {
    run(|rt| async move {
        let members: Vec<_> = (0..3).map(|_| member(&rt, 32 * KIB, true)).collect();
        let array = parity(&rt, &members, UNIT as u32);
        let mut model = vec![0; 64 << 10];
        write(&array, &mut model, 0, 64 << 10, 1).await;
        array.flush().await.unwrap();
        write(&array, &mut model, 512, 1024, 2).await;
        array
            .write(4096, filled(512, 3), Durability::Fua)
            .await
            .unwrap();
        model[4096..4608].fill(3);
        // Row 0: member 0 has unit 0, and member 2 has the parity.
        members[0].fails(MemberFault::Flushes, ALL);
        array.flush().await.unwrap();
        assert_eq!(array.stale(0), vec![512..1536]);
        members[0].below.poke(512, &[9; 1024]);
        assert_eq!(content(&array).await, model);
        members[0].fails(MemberFault::Nothing, ALL);
        array.rebuild(0).await.unwrap();
        assert!(sum_is_zero(&members));
        // Two flushes fail: the members' present content becomes the correct content, and the array's flush fails.
        write(&array, &mut model, 512, 1024, 4).await;
        members[0].fails(MemberFault::Flushes, ALL);
        members[2].fails(MemberFault::Flushes, ALL);
        array.flush().await.unwrap_err();
        assert!(array.stale(0).is_empty());
        assert_eq!(array.stale(2), vec![512..1536]);
        members[0].below.poke(512, &[9; 512]);
        assert_eq!(read(&array, 512, 512).await.unwrap(), [9; 512]);
        assert_eq!(read(&array, 4096, 512).await.unwrap(), [3; 512]);
    });
}

#[test]
fn stale_ranges_can_be_restored_when_an_array_is_assembled_again() {
    run(|rt| async move {
        let (members, array, mut model) = filled_array(&rt).await;
        members[1].fails(MemberFault::Writes, ALL);
        write(&array, &mut model, UNIT + 512, 1024, 0x5a).await;
        let stale = array.stale(1);
        assert_eq!(stale, vec![512..1536]);
        drop(array);
        members[1].fails(MemberFault::Nothing, ALL);
        let array = parity(&rt, &members, UNIT as u32);
        for range in stale {
            array.mark_stale(1, range);
        }
        assert_eq!(content(&array).await, model);
        assert_eq!(array.resync(0..UNIT).await.unwrap().members, 1024);
        assert!(sum_is_zero(&members));
    });
}

#[test]
fn an_interrupted_write_leaves_inconsistent_parity_until_a_resync() {
    run(|rt| async move {
        let (members, array, mut model) = filled_array(&rt).await;
        // A power failure after the data was written and before the parity was: the write hole.
        members[0].below.poke(512, &[0x5a; 512]);
        model[512..1024].fill(0x5a);
        assert!(!sum_is_zero(&members));
        let found = array.resync(0..array.geometry().len).await.unwrap();
        assert_eq!((found.parity, found.members, found.left), (UNIT, 0, 0));
        array.abandon(0).unwrap();
        assert_eq!(content(&array).await, model);
    });
}

/// The faults of the members in a run.
#[derive(Clone, Copy, PartialEq, Debug)]
enum FaultScenario {
    /// One member at a time fails temporarily, and is rebuilt before the next one fails.
    Passing,
    /// One member is abandoned and replaced.
    Replaced,
    /// Two members fail at a time: this causes errors, but no wrong data.
    Two,
}

/// The possible contents of a sector: the last acknowledged write, and failed writes since then.
type FaultSector = Vec<u64>;

/// Sectors with one word each, written concurrently in disjoint ranges.
struct FaultClients {
    rng: Rng,
    sectors: Vec<FaultSector>,
    stamps: u64,
}

impl FaultClients {
    async fn act(&mut self, array: &ParityArray) -> usize {
        let mut ends: Vec<u64> = (0..12)
            .map(|_| self.rng.below(self.sectors.len() as u64 + 1))
            .collect();
        ends.sort_unstable();
        let ranges = ends.chunks_exact(2).filter(|ends| ends[0] < ends[1]);
        let jobs: Vec<_> = ranges
            .map(|ends| {
                self.stamps += 1;
                (ends[0]..ends[1], self.stamps, self.rng.one_in(5))
            })
            .collect();
        let writes = jobs.iter().map(async |(range, stamp, zeroes)| {
            let len = (range.end - range.start) * 512;
            let at = range.start * 512;
            if *zeroes {
                array.write_zeroes(at..at + len, ZeroedSpace::Keep).await
            } else {
                let data: Vec<u8> = stamp.to_le_bytes().repeat(len as usize / 8);
                array.write(at, buf(&data), Durability::Flush).await
            }
        });
        let mut failed = 0;
        for ((range, stamp, zeroes), done) in jobs.iter().zip(join_all(writes).await) {
            for sector in range.clone() {
                let sector = &mut self.sectors[sector as usize];
                if done.is_ok() {
                    sector.clear();
                }
                sector.push(if *zeroes { 0 } else { *stamp });
            }
            failed += usize::from(done.is_err());
        }
        failed
    }

    /// Reads all sectors one by one. Returns the number of unreadable sectors.
    async fn look(&self, array: &ParityArray, what: &str) -> usize {
        let mut unreadable = 0;
        for (n, sector) in self.sectors.iter().enumerate() {
            let Ok(found) = read(array, n as u64 * 512, 512).await else {
                unreadable += 1;
                continue;
            };
            let words = found.as_chunks::<8>().0;
            let word = u64::from_le_bytes(words[0]);
            assert!(
                words.iter().all(|w| *w == words[0]),
                "{what}, sector {n}: torn"
            );
            assert!(
                sector.contains(&word),
                "{what}, sector {n}: {word} of {sector:?}"
            );
        }
        unreadable
    }
}

async fn live_through(rt: Rt, seed: u64, trouble: FaultScenario) -> usize {
    let rng = Rng::new(seed);
    let count = 3 + rng.below(4) as usize;
    let unit = 512 << rng.below(4);
    let mut members = members(&rt, count, 16 * KIB);
    for member in &members {
        member.takes_any(rng.next());
    }
    let array = parity(&rt, &members, unit);
    let sectors = array.geometry().len as usize / 512;
    let mut users = FaultClients {
        rng: Rng::new(seed + 1),
        sectors: vec![vec![0]; sectors],
        stamps: 0,
    };
    let (mut troubles, what) = (0, format!("seed {seed}, {trouble:?}"));
    for _ in 0..6 {
        let failing = rng.below(count as u64) as usize;
        let faults = [MemberFault::Reads, MemberFault::Writes, MemberFault::All];
        let within = rng.below(8 * KIB)..rng.below(32 * KIB);
        match trouble {
            FaultScenario::Replaced => array.abandon(failing).unwrap(),
            FaultScenario::Two => {
                let other = (failing + 1) % count;
                members[other].fails(rng.pick(&faults), within.clone());
                members[failing].fails(rng.pick(&faults), within);
            }
            FaultScenario::Passing => members[failing].fails(rng.pick(&faults), within),
        }
        for _ in 0..3 {
            troubles += users.act(&array).await;
        }
        if trouble != FaultScenario::Two {
            assert_eq!(users.look(&array, &what).await, 0, "{what}");
        }
        for member in &members {
            member.fails(MemberFault::Nothing, ALL);
        }
        if trouble == FaultScenario::Replaced {
            members[failing] = member(&rt, 16 * KIB, false);
            members[failing].below.poke(0, &rng.bytes(16 << 10));
            let device = Rc::clone(&members[failing]) as Rc<dyn Device>;
            array.replace(failing, device).await.unwrap();
        }
        troubles += users.look(&array, &what).await;
        // Rebuilds concurrently with requests.
        let rebuilding = async {
            for member in 0..count {
                array.rebuild(member).await.unwrap();
            }
        };
        let ((), failed) = join(rebuilding, users.act(&array)).await;
        troubles += failed;
        for member in 0..count {
            array.rebuild(member).await.unwrap();
        }
        let found = array.resync(0..array.geometry().len).await.unwrap();
        if trouble != FaultScenario::Two {
            assert_eq!(
                (found.parity, found.members, found.left),
                (0, 0, 0),
                "{what}"
            );
            assert!(sum_is_zero(&members), "{what}");
        }
        troubles += users.look(&array, &what).await;
        users.act(&array).await;
    }
    // No wrong data was read. Without any one member, the content is the same.
    let gone = rng.below(count as u64) as usize;
    if trouble != FaultScenario::Two {
        members[gone].fails(MemberFault::All, ALL);
        assert_eq!(users.look(&array, &what).await, 0, "{what}");
    }
    troubles
}

#[test]
fn clients_notice_no_error_while_a_single_member_fails() {
    for seed in 0..60 {
        let troubles = run(move |rt| live_through(rt, seed, FaultScenario::Passing));
        assert_eq!(troubles, 0, "seed {seed}");
    }
}

#[test]
fn clients_notice_no_error_while_members_are_replaced_one_after_another() {
    for seed in 0..60 {
        let troubles = run(move |rt| live_through(rt, seed, FaultScenario::Replaced));
        assert_eq!(troubles, 0, "seed {seed}");
    }
}

#[test]
fn two_failing_members_give_errors_and_never_wrong_data() {
    let troubles = (0..100).map(|seed| run(move |rt| live_through(rt, seed, FaultScenario::Two)));
    assert!(troubles.sum::<usize>() > 0);
}

#[test]
fn a_replaced_member_does_not_count_writes_of_its_predecessor() {
    run(|rt| async move {
        let (members, array, mut model) = filled_array(&rt).await;
        for m in &members {
            m.takes(Duration::from_millis(5));
        }
        let late = array.write(512, filled(512, 0x5a), Durability::Flush);
        let replacing = async {
            rt.sleep(Duration::from_millis(7)).await;
            array.abandon(0).unwrap();
            let fresh: Rc<dyn Device> = Rc::new(RamDevice::new(32 * KIB, 512));
            array.replace(0, fresh).await.unwrap();
        };
        join(async { late.await.unwrap() }, replacing).await;
        model[512..1024].fill(0x5a);
        assert_eq!(content(&array).await, model);
    });
}

#[test]
fn reconstruction_waits_for_a_write_in_progress_in_its_row() {
    run(|rt| async move {
        let ms = Duration::from_millis;
        let (members, array, model) = filled_array(&rt).await;
        array.abandon(0).unwrap();
        // Row 0 has its parity on member 3, whose write takes longer than the write of the data.
        members[1].takes(ms(5));
        members[3].takes(ms(20));
        let write = array.write(UNIT, filled(512, 0x5a), Durability::Flush);
        let reading = async {
            rt.sleep(ms(30)).await;
            members[3].takes(ms(1));
            assert_eq!(read(&array, 0, 512).await.unwrap(), model[..512]);
        };
        let (written, ()) = join(write, reading).await;
        written.unwrap();
    });
}

#[test]
fn stale_parity_does_not_replace_data_lost_by_a_failed_flush() {
    run(|rt| async move {
        let members: Vec<_> = (0..3).map(|_| member(&rt, 32 * KIB, true)).collect();
        let array = parity(&rt, &members, UNIT as u32);
        let mut model = vec![0; 64 << 10];
        write(&array, &mut model, 0, 64 << 10, 1).await;
        // Row 0 has its parity on member 2, which misses a write.
        members[2].fails(MemberFault::Writes, ALL);
        write(&array, &mut model, 512, 1024, 2).await;
        members[2].fails(MemberFault::Nothing, ALL);
        members[0].fails(MemberFault::Flushes, ALL);
        array.flush().await.unwrap_err();
        assert_eq!(array.stale(2), vec![512..1536]);
        assert!(!array.stale(0).contains(&(512..1536)));
        assert_eq!(read(&array, 512, 1024).await.unwrap(), model[512..1536]);
    });
}

#[test]
fn data_in_a_row_without_parity_is_written_without_reads() {
    run(|rt| async move {
        let (members, array, mut model) = filled_array(&rt).await;
        array.abandon(3).unwrap();
        write(&array, &mut model, 0, 512, 0x5a).await;
        let ops: Vec<Vec<DeviceOp>> = members.iter().map(|member| member.ops()).collect();
        assert_eq!(ops, [vec![DeviceOp::Write], vec![], vec![], vec![]]);
        assert_eq!(content(&array).await, model);
    });
}
