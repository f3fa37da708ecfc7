//! The encodings have the offsets of the kernel's header.

use proptest::prelude::*;

use super::*;

#[test]
fn commands_have_the_numbers_of_the_kernel_macros() {
    for (ours, theirs) in [
        (control::GET_DEV_INFO, 0x8020_7502),
        (control::ADD_DEV, 0xc020_7504),
        (control::DEL_DEV, 0xc020_7505),
        (control::START_DEV, 0xc020_7506),
        (control::STOP_DEV, 0xc020_7507),
        (control::SET_PARAMS, 0xc020_7508),
        (control::GET_PARAMS, 0x8020_7509),
        (control::START_USER_RECOVERY, 0xc020_7510),
        (control::END_USER_RECOVERY, 0xc020_7511),
        (control::GET_FEATURES, 0x8020_7513),
        (control::DEL_DEV_ASYNC, 0x8020_7514),
        (control::UPDATE_SIZE, 0xc020_7515),
        (control::TRY_STOP_DEV, 0xc020_7517),
        (queue::FETCH_REQ, 0xc010_7520),
        (queue::COMMIT_AND_FETCH_REQ, 0xc010_7521),
    ] {
        assert_eq!(ours, theirs, "{ours:#x}");
    }
}

#[test]
fn a_control_command_has_the_field_offsets_of_the_kernel() {
    let command = UblkControlCommand {
        device: 0x0403_0201,
        buffer: (0x1817_1615_1413_1211, 0x2221),
        data: 0x3837_3635_3433_3231,
    };
    let bytes = command.encode();
    assert_eq!(u32_at(&bytes, 0), 0x0403_0201);
    // The field for a queue says "no queue".
    assert_eq!(u16_at(&bytes, 4), 0xffff);
    assert_eq!(u16_at(&bytes, 6), 0x2221);
    assert_eq!(u64_at(&bytes, 8), 0x1817_1615_1413_1211);
    assert_eq!(u64_at(&bytes, 16), 0x3837_3635_3433_3231);
    assert!(bytes[24..].iter().all(|byte| *byte == 0));
}

#[test]
fn the_command_of_a_tag_contains_no_address() {
    let command = UblkQueueCommand {
        tag: 0x0201,
        result: -5,
    };
    let bytes = command.encode();
    assert_eq!((u16_at(&bytes, 0), u16_at(&bytes, 2)), (0, 0x0201));
    assert_eq!(u32_at(&bytes, 4).cast_signed(), -5);
    assert_eq!(u64_at(&bytes, 8), 0);
}

#[test]
fn device_info_has_the_field_offsets_of_the_kernel() {
    let info = UblkDeviceInfo {
        queues: 1,
        depth: 128,
        state: UblkDeviceState::Quiesced,
        io_bytes_max: 1 << 20,
        id: 7,
        server_pid: -1,
        flags: 0xd8,
        volume: u64::MAX - 1,
    };
    let bytes = info.encode();
    let numbers = [u16_at(&bytes, 0), u16_at(&bytes, 2), u16_at(&bytes, 4)];
    assert_eq!(numbers, [1, 128, 2]);
    assert_eq!((u32_at(&bytes, 8), u32_at(&bytes, 12)), (1 << 20, 7));
    assert_eq!(u32_at(&bytes, 16), u32::MAX);
    assert_eq!(
        (u64_at(&bytes, 24), u64_at(&bytes, 32)),
        (0xd8, u64::MAX - 1)
    );
}

#[test]
fn block_device_parameters_have_the_field_offsets_of_the_kernel() {
    let params = UblkParams {
        volatile: true,
        logical_shift: 9,
        physical_shift: 12,
        optimal_shift: 16,
        sectors_max: 2048,
        sectors: 1 << 33,
        discard_granularity: 4096,
        discard_sectors_max: 131_072,
        zero_sectors_max: 65_536,
    };
    let bytes = params.encode();
    // Length, and the flags of the basic part and of the discard part.
    assert_eq!((u32_at(&bytes, 0), u32_at(&bytes, 4)), (60, 0b11));
    // A volatile cache, and FUA.
    assert_eq!(u32_at(&bytes, 8), 0b1100);
    // Logical, physical, optimal, smallest.
    assert_eq!(bytes[12..16], [9, 12, 16, 12]);
    // Largest request; no chunks; length; no boundaries.
    assert_eq!((u32_at(&bytes, 16), u32_at(&bytes, 20)), (2048, 0));
    assert_eq!((u64_at(&bytes, 24), u64_at(&bytes, 32)), (1 << 33, 0));
    // Alignment, granularity, largest discard, largest zeroing; one segment.
    assert_eq!((u32_at(&bytes, 40), u32_at(&bytes, 44)), (0, 4096));
    assert_eq!((u32_at(&bytes, 48), u32_at(&bytes, 52)), (131_072, 65_536));
    assert_eq!((u16_at(&bytes, 56), u16_at(&bytes, 58)), (1, 0));
    let plain = UblkParams {
        volatile: false,
        ..params
    };
    assert_eq!(u32_at(&plain.encode(), 8), 0);
    // The driver fills in at most the length of the query.
    assert_eq!(u32_at(&UblkParams::question(), 0), 60);
}

fn descriptor(op_flags: u32, sectors: u32, first: u64) -> UblkDescriptor {
    let mut bytes = [0xff; DESCRIPTOR];
    bytes[..4].copy_from_slice(&op_flags.to_ne_bytes());
    bytes[4..8].copy_from_slice(&sectors.to_ne_bytes());
    bytes[8..16].copy_from_slice(&first.to_ne_bytes());
    UblkDescriptor::decode(&bytes)
}

#[test]
fn request_operations_are_decoded_with_any_flags() {
    for (number, op) in [
        (0, UblkOp::Read),
        (1, UblkOp::Write),
        (2, UblkOp::Flush),
        (3, UblkOp::Discard),
        (5, UblkOp::WriteZeroes),
        (4, UblkOp::Other(4)),
        (255, UblkOp::Other(255)),
    ] {
        // Flags for "do not try for long", "metadata", "swap".
        let others = 1 << 8 | 1 << 11 | 1 << 16;
        let plain = descriptor(number | others, 8, 1 << 40);
        assert_eq!((plain.op, plain.fua, plain.keep_room), (op, false, false));
        assert_eq!((plain.sectors, plain.first_sector), (8, 1 << 40));
        assert!(descriptor(number | 1 << 13, 8, 0).fua);
        assert!(descriptor(number | 1 << 15, 8, 0).keep_room);
    }
}

#[test]
fn a_request_whose_range_overflows_lies_beyond_every_device() {
    assert_eq!(descriptor(0, 8, 3).range(), 1536..5632);
    assert_eq!(descriptor(0, u32::MAX, 0).bytes(), (1 << 41) - 512);
    let far = descriptor(0, 1, u64::MAX).range();
    assert_eq!((far.start, far.end), (u64::MAX, u64::MAX));
    let across = descriptor(3, u32::MAX, u64::MAX / 512).range();
    assert_eq!(across.end, u64::MAX);
}

#[test]
fn every_tag_has_its_own_data_offset() {
    assert_eq!(data_offset(0), 0x8000_0000);
    assert_eq!(data_offset(3), 0x8000_0000 + 3 * (32 << 20));
    assert_eq!(descriptors_len(128, 4096), 4096);
    assert_eq!(descriptors_len(171, 4096), 8192);
    assert_eq!(descriptors_len(1, 65_536), 65_536);
}

proptest! {
    #[test]
    fn device_info_survives_encode_and_decode(
        (queues, depth, state, io_bytes_max) in any::<(u16, u16, u16, u32)>(),
        (id, server_pid, flags, volume) in any::<(u32, i32, u64, u64)>(),
    ) {
        let state = UblkDeviceState::of(state);
        let info = UblkDeviceInfo {
            queues, depth, state, io_bytes_max, id, server_pid, flags, volume,
        };
        prop_assert_eq!(UblkDeviceInfo::decode(&info.encode()), info);
    }

    #[test]
    fn block_device_parameters_survive_encode_and_decode(
        (volatile, logical_shift, physical_shift, optimal_shift) in any::<(bool, u8, u8, u8)>(),
        (sectors_max, sectors, discard_granularity) in any::<(u32, u64, u32)>(),
        (discard_sectors_max, zero_sectors_max) in any::<(u32, u32)>(),
    ) {
        let params = UblkParams {
            volatile, logical_shift, physical_shift, optimal_shift, sectors_max, sectors,
            discard_granularity, discard_sectors_max, zero_sectors_max,
        };
        prop_assert_eq!(UblkParams::decode(&params.encode()), params);
    }
}
