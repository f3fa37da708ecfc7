//! Messages of the kernel and of NBD clients.

use forebay_fuse::codec::{
    self as fuse_format, FIXED, FuseFileKind, FuseOp, HEADER, MalformedPart, ReaddirReply,
    init_flag,
};
use forebay_nbd::codec::format::client::{self, context_query, info_query};
use forebay_nbd::codec::format::{
    ContextQuery, InfoQuery, NbdRequest, OPTION_BYTES, OptionHeader, REQUEST_BYTES, command, option,
};

use crate::cap;

/// Decodes a FUSE message, as it is and with its correct length.
pub fn fuse(bytes: &[u8]) {
    look_at_fuse(bytes);
    let mut whole = bytes.to_vec();
    if let Some(len) = whole.first_chunk_mut() {
        *len = (bytes.len() as u32).to_ne_bytes();
    }
    look_at_fuse(&whole);
}

/// Decodes a message in the parts that the transports receive, which give the same request.
fn look_at_fuse(bytes: &[u8]) {
    let (header, body) = bytes.split_at(bytes.len().min(HEADER));
    let decode = |cut: usize, agreed| {
        let (front, back) = body.split_at(cut.min(body.len()));
        cap::within(bytes.len(), || {
            fuse_format::decode(header, [front, back], agreed)
        })
    };
    let agreed = init_flag::SETXATTR_EXT;
    let decoded = decode(FIXED - HEADER, agreed);
    for cut in [0, 7, 128, body.len()] {
        assert_eq!(decode(cut, agreed), decoded, "the parts have no meaning");
    }
    let _ = decode(FIXED - HEADER, 0);
    let total = bytes.len();
    match decoded {
        Ok(request) => {
            assert!(total >= HEADER);
            if let FuseOp::Write { len, .. } = request.op {
                assert_eq!(
                    len as usize + FIXED,
                    total,
                    "no more than was sent may be written"
                );
            }
            if let FuseOp::ReadDir { len, .. } = request.op {
                let mut listing = ReaddirReply::new(len as usize);
                while listing.bytes().len() < 4096
                    && listing.add(2, 1, FuseFileKind::File, b"volume")
                {}
                assert!(listing.bytes().len() <= len as usize);
            }
        }
        Err(malformed) => {
            assert_eq!(malformed.unique.is_some(), total >= HEADER);
            assert!(malformed.unique.is_some() || malformed.part == MalformedPart::Length);
        }
    }
}

pub(super) fn fuse_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let message = |opcode: u32, body: &[u8]| {
        let mut bytes = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend_from_slice(&opcode.to_ne_bytes());
        bytes.extend_from_slice(&77u64.to_ne_bytes());
        bytes.extend_from_slice(&2u64.to_ne_bytes());
        bytes.resize(HEADER, 0);
        bytes.extend_from_slice(body);
        bytes
    };
    let io = |at: u64, len: u32| {
        let mut body = vec![0; 40];
        body[8..16].copy_from_slice(&at.to_ne_bytes());
        body[16..20].copy_from_slice(&len.to_ne_bytes());
        body
    };
    let mut write = io(4096, 32);
    write.resize(write.len() + 32, 0xab);
    vec![
        (
            "init",
            message(26, &[7, 0, 0, 0, 38, 0, 0, 0, 0, 0, 0, 0, 0xff, 0, 0, 0]),
        ),
        ("lookup", message(1, b"volume\0")),
        ("setattr", message(4, &[8; 88])),
        ("read", message(15, &io(8192, 4096))),
        ("write", message(16, &write)),
        ("readdir", message(28, &io(0, 200))),
        ("fallocate", message(43, &[3; 32])),
        ("fsync", message(20, &[0; 16])),
        (
            "batch_forget",
            message(42, &[&[2, 0, 0, 0, 0, 0, 0, 0][..], &[5; 32]].concat()),
        ),
        ("rename", message(12, b"\x01\0\0\0\0\0\0\0old\0new\0")),
        (
            "setxattr",
            message(21, b"\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0user.a\0ab"),
        ),
        (
            "ioctl",
            message(
                39,
                &[&[0; 24][..], &[4, 0, 0, 0, 0, 0, 0, 0], &[1; 4]].concat(),
            ),
        ),
    ]
}

/// Decodes the parts of NBD messages, each from these bytes. No decoder may allocate.
pub fn nbd_format(bytes: &[u8]) {
    if let Some(request) = cap::within(0, || NbdRequest::decode(bytes)) {
        assert_eq!(request.encode(), bytes[..REQUEST_BYTES]);
    }
    let data = match cap::within(0, || OptionHeader::decode(bytes)) {
        Some(header) => {
            assert_eq!(bytes[8..12], header.option.to_be_bytes());
            &bytes[OPTION_BYTES..]
        }
        None => bytes,
    };
    if let Some(query) = cap::within(0, || InfoQuery::decode(data)) {
        // Name and number of requested items with their lengths, and the items: no other bytes.
        let wishes = data.len() - query.name.len() - 6;
        assert!(wishes.is_multiple_of(2));
        let asked = |info: &u16| query.wants(*info);
        assert!((0..4).filter(asked).count() <= wishes / 2);
    }
    if let Some(query) = cap::within(0, || ContextQuery::decode(data)) {
        assert_eq!(query.queries().count(), query.count as usize);
        let texts: usize = query.queries().map(|query| query.len() + 4).sum();
        assert_eq!(texts + query.name.len() + 8, data.len());
    }
}

/// Returns a request as a client sends it, without its payload.
pub(super) fn nbd_request(command: u16, flags: u16, offset: u64, len: u32) -> Vec<u8> {
    let cookie = 0x1122_3344;
    NbdRequest {
        flags,
        command,
        cookie,
        offset,
        len,
    }
    .encode()
    .to_vec()
}

pub(super) fn nbd_format_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let contexts = context_query("disk", &["base:allocation", "forebay:place"]);
    vec![
        ("request", nbd_request(command::WRITE, 1, 4096, 512)),
        (
            "info",
            client::option(option::GO, &info_query("disk", &[0, 3])),
        ),
        (
            "contexts",
            client::option(option::SET_META_CONTEXT, &contexts),
        ),
        ("bare", context_query("", &[])),
    ]
}
