//! The striped array, with members that record their requests.

mod common;

use std::rc::Rc;
use std::time::Duration;

use common::{MemberDevice, MemberFault, filled, members, read, run};
use forebay_device::{
    CheckedDevice, Device, DeviceError, DeviceGeometry, DeviceOp, Durability, RamDevice,
    ZeroedSpace,
};
use forebay_raid::{ArrayError, StripedArray};
use forebay_rng::Rng;

const KIB: u64 = 1024;

fn striped(members: &[Rc<MemberDevice>], unit: u32) -> StripedArray {
    StripedArray::new(common::devices(members), unit).unwrap()
}

#[test]
fn units_are_distributed_over_the_members_in_rotation() {
    run(|rt| async move {
        let members = members(&rt, 3, 64 * KIB);
        let array = striped(&members, 4096);
        for unit in 0..9u8 {
            let data = filled(4096, unit);
            let write = array.write(u64::from(unit) * 4096, data, Durability::Flush);
            write.await.unwrap();
        }
        for (n, member) in members.iter().enumerate() {
            for row in 0..3 {
                let byte = read(&**member, row * 4096, 512).await.unwrap()[0];
                assert_eq!(u64::from(byte), row * 3 + n as u64);
            }
        }
    });
}

#[test]
fn a_request_is_sent_to_each_member_once_and_to_all_concurrently() {
    run(|rt| async move {
        let members = members(&rt, 3, 64 * KIB);
        for m in &members {
            m.takes(Duration::from_millis(5));
        }
        let array = striped(&members, 4096);
        // From the middle of unit 1 to the middle of unit 9.
        let data = filled(8 * 4096, 7);
        array.write(6144, data, Durability::Fua).await.unwrap();
        assert_eq!(rt.now().as_nanos(), 5_000_000);
        let asked: Vec<_> = members.iter().map(|member| member.asked()).collect();
        let expected = [
            vec![(DeviceOp::Write, 4096..14_336)],
            vec![(DeviceOp::Write, 2048..12_288)],
            vec![(DeviceOp::Write, 0..12_288)],
        ];
        assert_eq!(asked, expected);
        assert_eq!(
            read(&array, 6144, 8 * 4096).await.unwrap(),
            vec![7; 8 * 4096]
        );
        assert_eq!(rt.now().as_nanos(), 10_000_000);
        array.flush().await.unwrap();
        let flushed = |m: &Rc<MemberDevice>| m.asked().last().unwrap().0 == DeviceOp::Flush;
        assert!(members.iter().all(flushed));
    });
}

#[test]
fn the_shortest_member_determines_the_length_and_the_preferred_request_is_a_row() {
    run(|_| async {
        let member = |len, volatile| {
            let device: Rc<dyn Device> = Rc::new(common::GeometryOverride {
                below: RamDevice::new(len, 512),
                change: move |g| DeviceGeometry { volatile, ..g },
            });
            device
        };
        let all = vec![member(100 * KIB, false), member(70 * KIB, true)];
        let geometry = StripedArray::new(all, 16 << 10).unwrap().geometry();
        assert_eq!(geometry.len, 2 * 64 * KIB);
        assert_eq!(geometry.preferred_io, 32 << 10);
        assert_eq!((geometry.block_size, geometry.volatile), (512, true));
        assert_eq!(geometry.discard_granularity, 4096);
        assert!(geometry.zeroes_by_unmapping);
    });
}

#[test]
fn impossible_arrays_are_rejected() {
    let ram = |len, block| -> Rc<dyn Device> { Rc::new(RamDevice::new(len, block)) };
    let refused = |members, unit| StripedArray::new(members, unit).err().unwrap();
    let (least, most) = (1, 64);
    let none = ArrayError::Members {
        have: 0,
        least,
        most,
    };
    assert_eq!(refused(vec![], 4096), none);
    let unit = |unit, block| ArrayError::Unit { unit, block };
    assert_eq!(refused(vec![ram(8192, 4096)], 512), unit(512, 4096));
    assert_eq!(refused(vec![ram(8192, 512)], 0), unit(0, 512));
    let (have, need) = (8192, 16384);
    let short = ArrayError::TooShort { have, need };
    assert_eq!(refused(vec![ram(8192, 512)], 16384), short);
    let unlike = ArrayError::Unlike {
        physical: 512,
        block: 4096,
    };
    assert_eq!(refused(vec![ram(8192, 512), ram(8192, 4096)], 4096), unlike);
}

#[test]
fn an_error_of_a_member_is_reported_with_array_offsets_after_all_requests_end() {
    run(|rt| async move {
        let members = members(&rt, 3, 64 * KIB);
        let array = striped(&members, 4096);
        members[1].fails(MemberFault::Writes, 0..u64::MAX);
        members[2].takes(Duration::from_millis(5));
        let error = array.write(0, filled(6 * 4096, 1), Durability::Flush).await;
        let Err(DeviceError::Io { op, range, .. }) = error else {
            panic!("{error:?}");
        };
        assert_eq!((op, range), (DeviceOp::Write, 4096..5 * 4096));
        assert_eq!(rt.now().as_nanos(), 5_000_000);
        members[1].fails(MemberFault::Reads, 0..u64::MAX);
        assert!(read(&array, 4096, 512).await.is_err());
        read(&array, 8192, 4096).await.unwrap();
        array.flush().await.unwrap();
        members[0].fails(MemberFault::Flushes, 0..u64::MAX);
        array.flush().await.unwrap_err();
    });
}

#[test]
fn a_striped_array_equals_an_array_of_bytes() {
    for seed in 0..30 {
        run(move |rt| async move {
            let rng = Rng::new(seed);
            let count = 1 + rng.below(6) as usize;
            let unit = 512 << rng.below(6);
            let array = CheckedDevice::new(striped(&members(&rt, count, 128 * KIB), unit), "array");
            let len = array.geometry().len;
            let mut model = vec![0; len as usize];
            for _ in 0..100 {
                let at = rng.below(len / 512) * 512;
                let longest = (len - at).min(64 * KIB) / 512;
                let range = at..at + (1 + rng.below(longest)) * 512;
                let part = range.start as usize..range.end as usize;
                match rng.below(4) {
                    0 => {
                        let zeroed = array.write_zeroes(range, ZeroedSpace::Release);
                        zeroed.await.unwrap();
                        model[part].fill(0);
                    }
                    1 => {
                        // The members' memory reads as zeroes after a discard.
                        array.discard(range).await.unwrap();
                        model[part].fill(0);
                    }
                    _ => {
                        let data = rng.bytes(part.len());
                        let buf = common::buf(&data);
                        array.write(at, buf, Durability::Flush).await.unwrap();
                        model[part].copy_from_slice(&data);
                    }
                }
                let at = rng.below(len / 512) * 512;
                let n = (512 * (1 + rng.below(200))).min(len - at);
                let found = read(&array, at, n as usize).await.unwrap();
                assert_eq!(found, model[at as usize..(at + n) as usize], "seed {seed}");
            }
        });
    }
}
