use proptest::prelude::*;

use super::decode::{O_DIRECT, READ_LOCKOWNER};
use super::*;
use crate::codec::init_flag::{ASYNC_DIO, OVER_IO_URING};

fn message(opcode: u32, body: &[u8]) -> Vec<u8> {
    let mut message = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
    message.extend_from_slice(&opcode.to_ne_bytes());
    message.extend_from_slice(&7u64.to_ne_bytes());
    message.extend_from_slice(&2u64.to_ne_bytes());
    message.resize(HEADER, 0);
    message.extend_from_slice(body);
    message
}

/// Decodes a message whose body is received in two parts, the first of which has `cut` bytes.
fn decode_cut(message: &[u8], cut: usize) -> Result<FuseRequest, MalformedRequest> {
    let (header, body) = message.split_at(message.len().min(HEADER));
    let (front, back) = body.split_at(cut.min(body.len()));
    decode(header, [front, back], init_flag::SETXATTR_EXT)
}

fn decode_whole(message: &[u8]) -> Result<FuseRequest, MalformedRequest> {
    decode_cut(message, FIXED - HEADER)
}

fn malformed(part: MalformedPart) -> Result<FuseRequest, MalformedRequest> {
    let unique = Some(7);
    Err(MalformedRequest { unique, part })
}

fn write_body(at: u64, len: u32, data: usize) -> Vec<u8> {
    let mut body = vec![0; 40 + data];
    body[8..16].copy_from_slice(&at.to_ne_bytes());
    body[16..20].copy_from_slice(&len.to_ne_bytes());
    body
}

#[test]
fn a_write_decodes_only_if_its_data_has_the_stated_length() {
    let expected = FuseRequest {
        unique: 7,
        node: 2,
        user: 0,
        group: 0,
        handle: 0,
        file_flags: 0,
        op: FuseOp::Write {
            at: 8192,
            len: 4096,
            kill: false,
            delayed: false,
        },
    };
    let whole = message(opcode::WRITE, &write_body(8192, 4096, 4096));
    assert_eq!(decode_whole(&whole), Ok(expected));
    for data in [0, 4095, 4097] {
        let message = message(opcode::WRITE, &write_body(8192, 4096, data));
        let refused = malformed(MalformedPart::Length);
        assert_eq!(decode_whole(&message), refused, "{data} bytes");
    }
}

#[test]
fn the_file_handle_is_decoded_from_every_kind_of_request() {
    let mut io = write_body(0, 0, 0);
    io[..8].copy_from_slice(&77u64.to_ne_bytes());
    let direct = O_DIRECT | 2;
    io[32..36].copy_from_slice(&direct.to_ne_bytes());
    for opcode in [
        opcode::READ,
        opcode::WRITE,
        opcode::RELEASE,
        opcode::FSYNC,
        opcode::FLUSH,
        opcode::READDIR,
        opcode::RELEASEDIR,
        opcode::FSYNCDIR,
        opcode::FALLOCATE,
        opcode::READDIRPLUS,
        opcode::LSEEK,
    ] {
        let request = decode_whole(&message(opcode, &io)).expect("whole");
        assert_eq!(request.handle, 77, "{opcode}");
        // A read without an owner fills the page cache.
        let flags = match opcode {
            opcode::READ => 2,
            opcode::WRITE => direct,
            _ => 0,
        };
        assert_eq!(request.file_flags, flags, "{opcode}");
    }
    for opcode in [opcode::IOCTL, opcode::COPY_FILE_RANGE] {
        let mut body = [0; 56];
        body[0] = 77;
        let request = decode_whole(&message(opcode, &body)).expect("whole");
        assert_eq!(request.handle, 77, "{opcode}");
    }
    io[20..24].copy_from_slice(&READ_LOCKOWNER.to_ne_bytes());
    let request = decode_whole(&message(opcode::READ, &io)).expect("whole");
    assert_eq!(request.file_flags, direct);
    let mut setattr = [0; 88];
    setattr[8] = 78;
    for (valid, handle) in [(1 << 3, 0), (1 << 3 | 1 << 6, 78)] {
        setattr[..4].copy_from_slice(&u32::to_ne_bytes(valid));
        let request = decode_whole(&message(opcode::SETATTR, &setattr)).expect("whole");
        assert_eq!(request.handle, handle);
    }
    let request = decode_whole(&message(opcode::RELEASE, &[])).expect("whole");
    assert_eq!(request.handle, 0);
}

#[test]
fn a_name_decodes_at_every_boundary_of_the_parts_and_needs_its_end() {
    let name = [b'v'; 100];
    let sent = [&name[..], b"\0"].concat();
    for cut in 0..=sent.len() {
        let request = decode_cut(&message(opcode::LOOKUP, &sent), cut).expect("whole");
        assert_eq!(request.op, FuseOp::Lookup(name.into()), "at {cut}");
        let refused = decode_cut(&message(opcode::LOOKUP, &name), cut);
        assert_eq!(refused, malformed(MalformedPart::Body), "at {cut}");
    }
    let rename = [&[9, 0, 0, 0, 0, 0, 0, 0], &b"old\0new\0"[..]].concat();
    for cut in 0..=rename.len() {
        let request = decode_cut(&message(opcode::RENAME, &rename), cut).expect("whole");
        let expected = FuseOp::Rename {
            name: b"old"[..].into(),
            to: 9,
            new: b"new"[..].into(),
            flags: 0,
        };
        assert_eq!(request.op, expected, "at {cut}");
    }
}

#[test]
fn inodes_to_forget_are_as_many_as_the_message_has() {
    let inode = |file: u64, count: u64| [file.to_ne_bytes(), count.to_ne_bytes()].concat();
    let body = |stated: u32| {
        let count = [stated.to_ne_bytes(), [0; 4]].concat();
        [count, inode(5, 3), inode(0, 1)].concat()
    };
    let request = decode_whole(&message(opcode::BATCH_FORGET, &body(2))).expect("whole");
    // 0 stands for the inode in the header.
    assert_eq!(request.op, FuseOp::Forget(vec![(5, 3), (2, 1)]));
    for stated in [3, u32::MAX] {
        let message = message(opcode::BATCH_FORGET, &body(stated));
        assert_eq!(decode_whole(&message), malformed(MalformedPart::Body));
    }
    let request = decode_whole(&message(opcode::FORGET, &[4, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(request.expect("whole").op, FuseOp::Forget(vec![(2, 4)]));
}

#[test]
fn a_truncated_message_is_refused_and_can_still_be_answered() {
    let whole = message(opcode::READ, &[0; 40]);
    assert!(decode_whole(&whole).is_ok());
    for cut in HEADER..whole.len() {
        let refused = malformed(MalformedPart::Length);
        assert_eq!(decode_whole(&whole[..cut]), refused, "at {cut}");
    }
    let refused = MalformedRequest {
        unique: None,
        part: MalformedPart::Length,
    };
    assert_eq!(decode_whole(&whole[..12]), Err(refused));
}

#[test]
fn a_body_that_ends_too_early_is_refused() {
    for (opcode, len) in [
        (opcode::OPEN, 8),
        (opcode::FSYNC, 12),
        (opcode::FSYNCDIR, 12),
        (opcode::LSEEK, 20),
        (opcode::READDIRPLUS, 20),
        (opcode::COPY_FILE_RANGE, 48),
        (opcode::IOCTL, 32),
        (opcode::LISTXATTR, 8),
    ] {
        let body = [0; 48];
        assert!(decode_whole(&message(opcode, &body[..len])).is_ok());
        let refused = decode_whole(&message(opcode, &body[..len - 1]));
        assert_eq!(refused, malformed(MalformedPart::Body), "{opcode}");
    }
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
    for (first, body, offered) in [
        (1 << 30, 64, OVER_IO_URING | 1 << 30),
        (1 << 30, 16, 1 << 30),
        (0, 64, 0),
    ] {
        let mut init = [0; 64];
        init[12..16].copy_from_slice(&u32::to_ne_bytes(first));
        init[16..20].copy_from_slice(&(1u32 << 9).to_ne_bytes());
        let request = decode_whole(&message(opcode::INIT, &init[..body])).unwrap();
        let flags = offered;
        assert_eq!(request.op, FuseOp::Init { major: 0, flags });
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_decode_or_are_refused(
        header: [u8; HEADER],
        opcode in 0u32..60,
        body in prop::collection::vec(any::<u8>(), 0..200),
        cut in 0usize..200,
    ) {
        let mut message = [&header[..], &body].concat();
        message[4..8].copy_from_slice(&opcode.to_ne_bytes());
        let _ = decode_cut(&message, cut);
        let total = message.len();
        message[..4].copy_from_slice(&(total as u32).to_ne_bytes());
        let decoded = decode_cut(&message, cut);
        prop_assert_eq!(&decoded, &decode_whole(&message));
        if let Ok(FuseRequest { op: FuseOp::Write { len, .. }, .. }) = decoded {
            prop_assert_eq!(len as usize, total - FIXED);
        }
    }
}
