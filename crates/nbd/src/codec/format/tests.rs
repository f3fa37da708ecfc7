use proptest::prelude::*;

use super::client::{context_query, info_query};
use super::*;

#[test]
fn a_request_survives_encode_and_decode() {
    let request = NbdRequest {
        flags: command_flag::FUA,
        command: command::WRITE,
        cookie: 0x0102_0304_0506_0708,
        offset: 1 << 40,
        len: 4096,
    };
    assert_eq!(NbdRequest::decode(&request.encode()), Some(request));
    let mut broken = request.encode();
    broken[0] ^= 1;
    assert_eq!(NbdRequest::decode(&broken), None);
    assert_eq!(NbdRequest::decode(&request.encode()[..27]), None);
}

#[test]
fn overlong_truncated_and_non_utf8_strings_are_refused() {
    let string = |len: u32, bytes: &[u8]| {
        let mut data = len.to_be_bytes().to_vec();
        data.extend_from_slice(bytes);
        WireReader(&data).string().map(str::to_owned)
    };
    assert_eq!(string(2, b"ab").as_deref(), Some("ab"));
    assert_eq!(string(3, b"ab"), None);
    assert_eq!(string(u32::MAX, b"ab"), None);
    assert_eq!(string(4097, &[b'a'; 4097]), None);
    assert_eq!(string(2, &[0xff, 0xfe]), None);
}

#[test]
fn an_info_query_must_have_exactly_its_stated_length() {
    let mut data = 1u32.to_be_bytes().to_vec();
    data.extend_from_slice(b"x\x00\x01\x00\x03");
    let query = InfoQuery::decode(&data).unwrap();
    assert_eq!(query.name, "x");
    assert!(query.wants(info::BLOCK_SIZE) && !query.wants(info::NAME));
    data.push(0);
    assert!(InfoQuery::decode(&data).is_none());
    data.truncate(data.len() - 2);
    assert!(InfoQuery::decode(&data).is_none());
}

#[test]
fn a_context_query_with_a_huge_count_is_refused_at_the_first_missing_string() {
    let mut data = 0u32.to_be_bytes().to_vec();
    data.extend_from_slice(&u32::MAX.to_be_bytes());
    assert!(ContextQuery::decode(&data).is_none());
}

#[test]
fn replies_have_the_layout_of_the_protocol() {
    assert_eq!(
        simple_reply(7, Some(NbdErrno::Io)),
        *b"\x67\x44\x66\x98\0\0\0\x05\0\0\0\0\0\0\0\x07"
    );
    assert_eq!(
        data_chunk(7, true, 512, 1024),
        *b"\x66\x8e\x33\xef\0\x01\0\x01\0\0\0\0\0\0\0\x07\0\0\x04\x08\0\0\0\0\0\0\x02\0"
    );
    assert_eq!(
        error_chunk(7, true, NbdErrno::Inval, Some(512)),
        b"\x66\x8e\x33\xef\0\x01\x80\x02\0\0\0\0\0\0\0\x07\0\0\0\x0e\0\0\0\x16\0\0\0\0\0\0\0\0\x02\0"
    );
    assert_eq!(
        status_chunk(7, false, 2, &[(4096, 3)]),
        b"\x66\x8e\x33\xef\0\0\0\x05\0\0\0\0\0\0\0\x07\0\0\0\x0c\0\0\0\x02\0\0\x10\0\0\0\0\x03"
    );
    let mut out = Vec::new();
    option_reply(&mut out, 3, reply::ACK, &[]);
    assert_eq!(
        out,
        b"\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x03\0\0\0\x01\0\0\0\0"
    );
    assert_eq!(&greeting(), b"NBDMAGICIHAVEOPT\0\x03");
}

#[test]
fn the_server_side_decodes_what_the_client_side_encodes() {
    let names = context_query("disk", &["base:allocation", "x:y"]);
    let query = ContextQuery::decode(&names).expect("well formed");
    assert_eq!((query.name, query.count), ("disk", 2));
    assert!(query.queries().eq(["base:allocation", "x:y"]));
    let wishes = info_query("disk", &[info::NAME, info::BLOCK_SIZE]);
    let query = InfoQuery::decode(&wishes).expect("well formed");
    assert!(query.name == "disk" && query.wants(info::NAME) && !query.wants(info::DESCRIPTION));
    let header = OptionHeader::decode(&client::option(option::GO, &wishes)).expect("well formed");
    assert_eq!(
        (header.option, header.len as usize),
        (option::GO, wishes.len())
    );
}

#[test]
fn the_client_side_decodes_what_the_server_side_encodes() {
    let mut replies = Vec::new();
    option_reply(&mut replies, option::GO, reply::INFO, &[b"ab", b"c"]);
    let expected = client::OptionReply {
        option: option::GO,
        reply: reply::INFO,
        len: 3,
    };
    assert_eq!(client::OptionReply::decode(&replies), Some(expected));
    let simple = simple_reply(7, Some(NbdErrno::Io));
    let expected = client::SimpleReply {
        errno: 5,
        cookie: 7,
    };
    assert_eq!(client::SimpleReply::decode(&simple), Some(expected));
    let header = data_chunk(7, true, 4096, 512);
    let expected = client::ChunkHeader {
        kind: chunk::OFFSET_DATA,
        done: true,
        cookie: 7,
        len: 520,
    };
    assert_eq!(client::ChunkHeader::decode(&header), Some(expected));
    for cut in 0..16 {
        assert_eq!(client::OptionReply::decode(&replies[..cut]), None);
        assert_eq!(client::SimpleReply::decode(&simple[..cut]), None);
        assert_eq!(client::ChunkHeader::decode(&header[..cut]), None);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_decoding_panic(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = NbdRequest::decode(&data);
        let _ = OptionHeader::decode(&data);
        if let Some(query) = InfoQuery::decode(&data) {
            query.wants(info::NAME);
        }
        if let Some(query) = ContextQuery::decode(&data) {
            prop_assert_eq!(query.queries().count(), query.count as usize);
        }
    }

    #[test]
    fn every_request_survives_encode_and_decode(flags: u16, command: u16, cookie: u64, offset: u64, len: u32) {
        let request = NbdRequest { flags, command, cookie, offset, len };
        prop_assert_eq!(NbdRequest::decode(&request.encode()), Some(request));
    }
}
