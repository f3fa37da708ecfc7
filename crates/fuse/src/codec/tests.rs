use proptest::prelude::*;

use super::*;
use crate::codec::files::FuseFileKind;
use crate::codec::init_flag::{ASYNC_DIO, OVER_IO_URING};

fn message(opcode: u32, body: &[u8]) -> ([u8; FIXED], usize) {
    let total = HEADER + body.len();
    let mut fixed = [0; FIXED];
    fixed[..4].copy_from_slice(&(total as u32).to_ne_bytes());
    fixed[4..8].copy_from_slice(&opcode.to_ne_bytes());
    fixed[8..16].copy_from_slice(&7u64.to_ne_bytes());
    fixed[16..24].copy_from_slice(&2u64.to_ne_bytes());
    let n = body.len().min(FIXED - HEADER);
    fixed[HEADER..HEADER + n].copy_from_slice(&body[..n]);
    (fixed, total)
}

fn write_body(at: u64, len: u32, data: usize) -> Vec<u8> {
    let mut body = vec![0; 40 + data];
    body[8..16].copy_from_slice(&at.to_ne_bytes());
    body[16..20].copy_from_slice(&len.to_ne_bytes());
    body
}

#[test]
fn a_write_decodes_only_if_its_data_has_the_stated_length() {
    let (fixed, total) = message(16, &write_body(8192, 4096, 4096));
    let expected = FuseRequest {
        unique: 7,
        node: 2,
        user: 0,
        group: 0,
        handle: 0,
        file_flags: 0,
        opcode: 16,
        op: FuseOp::Write {
            at: 8192,
            len: 4096,
            kill: false,
            delayed: false,
        },
    };
    assert_eq!(decode(&fixed, total), Ok(expected));
    for data in [0, 4095, 4097] {
        let (fixed, total) = message(16, &write_body(8192, 4096, data));
        let malformed = MalformedRequest { unique: Some(7) };
        assert_eq!(decode(&fixed, total), Err(malformed), "{data} bytes");
    }
}

#[test]
fn the_file_handle_is_decoded_from_every_kind_of_request() {
    let mut io = write_body(0, 0, 0);
    io[..8].copy_from_slice(&77u64.to_ne_bytes());
    let direct = crate::codec::O_DIRECT | 2;
    io[32..36].copy_from_slice(&direct.to_ne_bytes());
    for opcode in [15, 16, 18, 20, 28, 29, 39, 43, 44, 46, 47] {
        let (fixed, total) = message(opcode, &io);
        let request = decode(&fixed, total).expect("whole");
        assert_eq!(request.handle, 77, "{opcode}");
        // A read without an owner fills the page cache.
        let flags = match opcode {
            15 => 2,
            16 => direct,
            _ => 0,
        };
        assert_eq!(request.file_flags, flags, "{opcode}");
    }
    io[20..24].copy_from_slice(&READ_LOCKOWNER.to_ne_bytes());
    let (fixed, total) = message(15, &io);
    assert_eq!(decode(&fixed, total).expect("whole").file_flags, direct);
    let mut setattr = [0; 88];
    setattr[8] = 78;
    for (valid, handle) in [(1 << 3, 0), (1 << 3 | 1 << 6, 78)] {
        setattr[..4].copy_from_slice(&u32::to_ne_bytes(valid));
        let (fixed, total) = message(4, &setattr);
        assert_eq!(decode(&fixed, total).expect("whole").handle, handle);
    }
    let (fixed, total) = message(18, &[]);
    assert_eq!(decode(&fixed, total).expect("whole").handle, 0);
}

#[test]
fn a_name_matches_only_if_it_is_completely_equal() {
    let long = [b'v'; 300];
    for (sent, known) in [
        (&b"volume\0"[..], true),
        (b"volume", false),
        (b"volum\0", false),
        (b"volumes\0", false),
        (b"volume\0\0", false),
        (b"", false),
        (&long, false),
    ] {
        let (fixed, total) = message(1, sent);
        assert_eq!(decode(&fixed, total).expect("whole").op, FuseOp::Lookup);
        for cut in [0, 3, 6, 40] {
            let (front, back) = sent.split_at(cut.min(sent.len()));
            assert_eq!(
                is_name([front, back], b"volume"),
                known,
                "{sent:?} at {cut}"
            );
        }
    }
    assert!(is_name([&long[..40], b"\0"], &long[..40]));
}

#[test]
fn a_truncated_message_is_refused_and_can_still_be_answered() {
    let (fixed, total) = message(15, &[0; 40]);
    assert!(decode(&fixed, total).is_ok());
    for cut in HEADER..total {
        assert_eq!(
            decode(&fixed, cut),
            Err(MalformedRequest { unique: Some(7) }),
            "at {cut}"
        );
    }
    assert_eq!(decode(&fixed, 12), Err(MalformedRequest { unique: None }));
}

#[test]
fn a_directory_listing_contains_the_whole_entries_that_fit() {
    for (bytes_max, entries) in [(0, 0), (31, 0), (32, 1), (95, 2), (96, 3), (4096, 3)] {
        let mut listing = ReaddirReply::new(bytes_max);
        let names = [&b"."[..], b"..", b"volume"];
        let fit = (1..).zip(names).take_while(|(next, name)| {
            let kind = FuseFileKind::Directory;
            listing.add(ROOT, *next, kind, name)
        });
        assert_eq!(fit.count(), entries, "in {bytes_max} bytes");
        assert_eq!(listing.bytes().len(), entries * 32);
    }
}

#[test]
fn init_accepts_only_flags_that_the_kernel_offers() {
    let limits = InitReply {
        flags: ASYNC_DIO,
        read_ahead: 0,
        io_bytes_max: 1 << 20,
        background_max: 1024,
    };
    let out = init_out(ASYNC_DIO | 1 << 16, limits);
    assert_eq!(out[12..16], (ASYNC_DIO as u32).to_ne_bytes());
    assert_eq!(out[28..30], 256u16.to_ne_bytes());
    assert_eq!(out[32..36], [0; 4]);
    let limits = InitReply {
        flags: ASYNC_DIO | OVER_IO_URING,
        ..limits
    };
    let out = init_out(u64::MAX, limits);
    assert_eq!(out[12..16], (ASYNC_DIO as u32 | 1 << 30).to_ne_bytes());
    assert_eq!(out[32..36], (1u32 << 9).to_ne_bytes());
}

#[test]
fn init_has_more_than_32_flags_only_if_flagged_and_long_enough() {
    for (first, total, offered) in [
        (1 << 30, 104, OVER_IO_URING | 1 << 30),
        (1 << 30, 56, 1 << 30),
        (0, 104, 0),
    ] {
        let mut fixed = [0; FIXED];
        fixed[..4].copy_from_slice(&u32::to_ne_bytes(total));
        fixed[4..8].copy_from_slice(&26u32.to_ne_bytes());
        fixed[52..56].copy_from_slice(&u32::to_ne_bytes(first));
        fixed[56..60].copy_from_slice(&(1u32 << 9).to_ne_bytes());
        let request = decode(&fixed, total as usize).unwrap();
        let flags = offered;
        assert_eq!(request.op, FuseOp::Init { major: 0, flags });
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_decode_or_are_refused(fixed: [u8; 32], opcode in 0u32..60, total in 0usize..2_000_000) {
        let mut message = [0xa5; FIXED];
        message[..32].copy_from_slice(&fixed);
        message[4..8].copy_from_slice(&opcode.to_ne_bytes());
        let _ = decode(&message, total);
        message[..4].copy_from_slice(&(total as u32).to_ne_bytes());
        if let Ok(FuseRequest { op: FuseOp::Write { len, .. }, .. }) = decode(&message, total) {
            prop_assert_eq!(len as usize, total - FIXED);
        }
    }
}
