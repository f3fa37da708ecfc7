//! Every request, its flags, and its possible errors.

use std::rc::Rc;

use forebay_nbd::NbdExport;
use forebay_nbd::client::ReplyChunk;
use forebay_nbd::codec::format::client::info_query;
use forebay_nbd::codec::format::{NbdErrno, chunk, command, command_flag, export_flag, option};

use crate::support::device::{probe, probe_without_discard};
use crate::support::{LEN, StripedStatus, connect, run, serve, serve_export};

const MIB: usize = 1 << 20;
const PERM: u32 = NbdErrno::Perm as u32;
const IO: u32 = NbdErrno::Io as u32;
const INVAL: u32 = NbdErrno::Inval as u32;
const NO_SPACE: u32 = NbdErrno::NoSpc as u32;
const NOT_SUPPORTED: u32 = NbdErrno::NotSup as u32;

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i / 512 + i * 7) as u8).collect()
}

#[test]
fn written_data_is_read_back_at_any_size_and_network_fragmentation() {
    run(async |rt| {
        let probe = probe(LEN, 512);
        let server = serve(&rt, probe);
        for grain in [usize::MAX, 1000] {
            let mut client = connect(&server).go().await;
            client.end.send_in_grains(grain);
            for len in [512, 4096, 65_536, 200_000 / 512 * 512, MIB, 3 * MIB + 512] {
                let data = pattern(len);
                assert_eq!(client.write(1024, &data).await, 0);
                assert!(client.read(1024, len as u32).await == Ok(data), "{len}");
            }
        }
    });
}

#[test]
fn writes_are_split_into_device_requests_of_a_mebibyte() {
    run(async |rt| {
        let probe = probe(LEN, 512);
        let mut client = connect(&serve(&rt, Rc::clone(&probe) as _)).go().await;
        client.write(512, &pattern(MIB)).await;
        assert_eq!(probe.asked(), ["write 512+1048576"]);
        client.write(0, &pattern(2 * MIB + 512)).await;
        let parts = [
            "write 0+1048576",
            "write 1048576+1048576",
            "write 2097152+512",
        ];
        assert_eq!(probe.asked(), parts);
    });
}

#[test]
fn fua_reaches_the_device_or_is_replaced_by_a_flush() {
    run(async |rt| {
        let probe = probe(LEN, 4096);
        let mut client = connect(&serve(&rt, Rc::clone(&probe) as _)).go().await;
        let fua = command_flag::FUA;
        client.call(command::WRITE, fua, 0, 4096, &[1; 4096]).await;
        assert_eq!(probe.asked(), ["write(fua) 0+4096"]);
        client.call(command::TRIM, fua, 0, 8192, &[]).await;
        assert_eq!(probe.asked(), ["discard 0+8192", "flush 0+0"]);
        client.call(command::WRITE_ZEROES, fua, 0, 8192, &[]).await;
        assert_eq!(probe.asked(), ["write-zeroes(release) 0+8192", "flush 0+0"]);
        client.call(command::TRIM, 0, 0, 8192, &[]).await;
        assert_eq!(probe.asked(), ["discard 0+8192"]);
        assert_eq!(client.call(command::FLUSH, 0, 0, 0, &[]).await, 0);
        assert_eq!(probe.asked(), ["flush 0+0"]);
    });
}

#[test]
fn write_zeroes_with_no_hole_keeps_the_space_and_otherwise_releases_it() {
    run(async |rt| {
        let probe = probe(LEN, 4096);
        let mut client = connect(&serve(&rt, Rc::clone(&probe) as _)).go().await;
        client.write(0, &pattern(2 * MIB)).await;
        probe.asked();
        let len = MIB as u32 + 4096;
        for (flags, asked) in [
            (command_flag::NO_HOLE, "write-zeroes(keep) 0+1052672"),
            (0, "write-zeroes(release) 0+1052672"),
        ] {
            let answer = client.call(command::WRITE_ZEROES, flags, 0, len, &[]).await;
            assert_eq!((answer, probe.asked()), (0, vec![asked.to_owned()]));
            assert_eq!(client.read(0, len).await, Ok(vec![0; len as usize]));
            client.write(0, &pattern(2 * MIB)).await;
            probe.asked();
        }
    });
}

#[test]
fn trim_is_neither_offered_nor_accepted_if_the_device_cannot_discard() {
    run(async |rt| {
        let probe = probe_without_discard(LEN, 4096);
        let mut client = connect(&serve(&rt, Rc::clone(&probe) as _));
        client.greet(3).await;
        let replies = client.option(option::GO, &info_query("disk", &[])).await;
        // The type (two bytes) and the size (eight bytes) come first.
        let flags = u16::from_be_bytes(replies[0].1[10..12].try_into().expect("two bytes"));
        assert_eq!(flags & export_flag::SEND_TRIM, 0);
        assert_ne!(flags & export_flag::SEND_WRITE_ZEROES, 0);
        assert_eq!(client.call(command::TRIM, 0, 0, 8192, &[]).await, INVAL);
        assert!(probe.asked().is_empty());
        // Zeroes requested by a client are written all the same.
        client.call(command::WRITE_ZEROES, 0, 0, 8192, &[]).await;
        assert_eq!(probe.asked(), ["write-zeroes(release) 0+8192"]);
    });
}

#[test]
fn a_fast_zero_is_executed_only_if_fast_and_otherwise_refused_without_effect() {
    run(async |rt| {
        let fast = command_flag::FAST_ZERO;
        let both = fast | command_flag::NO_HOLE;
        for (is_fast, expected) in [(false, NOT_SUPPORTED), (true, 0)] {
            let probe = probe(LEN, 4096);
            let export = NbdExport::new("disk", Rc::clone(&probe) as _).fast_zeroes(is_fast);
            let mut client = connect(&serve_export(&rt, export)).go().await;
            for flags in [fast, both] {
                let answer = client
                    .call(command::WRITE_ZEROES, flags, 0, 4096, &[])
                    .await;
                assert_eq!(answer, expected, "{is_fast} {flags}");
                assert_eq!(probe.asked().len(), usize::from(is_fast));
            }
        }
    });
}

#[test]
fn invalid_requests_are_answered_with_errors_and_the_connection_continues() {
    use command::*;
    run(async |rt| {
        let probe = probe(LEN, 4096);
        let mut client = connect(&serve(&rt, Rc::clone(&probe) as _)).go().await;
        let end = LEN;
        for (what, command, flags, offset, len, errno) in [
            ("unaligned read", READ, 0, 512, 4096, INVAL),
            ("unaligned length", READ, 0, 0, 512, INVAL),
            ("empty read", READ, 0, 0, 0, INVAL),
            ("read past the end", READ, 0, end, 4096, INVAL),
            ("read that wraps", READ, 0, u64::MAX - 4095, 4096, INVAL),
            (
                "read that is too large",
                READ,
                0,
                0,
                (32 << 20) + 4096,
                INVAL,
            ),
            ("unaligned trim", TRIM, 0, 1, 4096, INVAL),
            ("trim past the end", TRIM, 0, end - 4096, 8192, INVAL),
            ("zeroes past the end", WRITE_ZEROES, 0, end, 4096, NO_SPACE),
            ("status without a context", BLOCK_STATUS, 0, 0, 4096, INVAL),
            ("flush of a range", FLUSH, 0, 4096, 4096, INVAL),
            (
                "don't-fragment without structured replies",
                READ,
                4,
                0,
                4096,
                INVAL,
            ),
            ("no-hole on a trim", TRIM, 2, 0, 4096, INVAL),
            ("an unknown flag", READ, 1 << 9, 0, 4096, INVAL),
            ("an unknown command", 99, 0, 0, 4096, INVAL),
            ("a resize", 8, 0, 0, 4096, INVAL),
            ("a cache hint that was not offered", 5, 0, 0, 4096, INVAL),
        ] {
            let answer = client.call(command, flags, offset, len, &[]).await;
            assert_eq!(answer, errno, "{what}");
        }
        assert!(probe.asked().is_empty());
        assert_eq!(client.read(0, 4096).await, Ok(vec![0; 4096]));
    });
}

#[test]
fn the_payload_of_a_refused_write_is_skipped() {
    run(async |rt| {
        let probe = probe(LEN, 4096);
        let mut client = connect(&serve(&rt, Rc::clone(&probe) as _)).go().await;
        assert_eq!(client.write(512, &[1; 4096]).await, INVAL);
        assert_eq!(client.write(LEN - 4096, &[1; 8192]).await, NO_SPACE);
        assert_eq!(client.write(0, &[1; 100]).await, INVAL);
        assert_eq!(client.write(0, &vec![1; (32 << 20) + 4096]).await, INVAL);
        assert!(probe.asked().is_empty());
        assert_eq!(client.write(0, &[1; 4096]).await, 0);
    });
}

#[test]
fn a_read_only_export_refuses_every_modifying_request() {
    run(async |rt| {
        let probe = probe(LEN, 4096);
        let export = NbdExport::new("disk", Rc::clone(&probe) as _).read_only(true);
        let mut client = connect(&serve_export(&rt, export)).go().await;
        assert_eq!(client.write(0, &[1; 4096]).await, PERM);
        for command in [command::TRIM, command::WRITE_ZEROES] {
            assert_eq!(client.call(command, 0, 0, 4096, &[]).await, PERM);
        }
        assert!(probe.asked().is_empty());
        assert_eq!(client.call(command::FLUSH, 0, 0, 0, &[]).await, 0);
        assert_eq!(client.read(0, 4096).await, Ok(vec![0; 4096]));
    });
}

#[test]
fn device_errors_are_returned_as_protocol_errors() {
    run(async |rt| {
        let probe = probe(LEN, 4096);
        let mut client = connect(&serve(&rt, Rc::clone(&probe) as _)).go().await;
        for (system, errno) in [
            (5, IO),
            (28, NO_SPACE),
            (30, PERM),
            (122, NO_SPACE),
            (71, IO),
        ] {
            *probe.broken.borrow_mut() = Some((0..4096, system));
            assert_eq!(client.write(0, &[1; 8192]).await, errno);
            assert_eq!(client.read(0, 8192).await, Err(errno));
        }
        // One failed part fails the whole write.
        *probe.broken.borrow_mut() = Some((2 << 20..3 << 20, 5));
        assert_eq!(client.write(0, &pattern(4 * MIB)).await, IO);
        assert_eq!(client.read(0, 4 << 20).await, Err(IO));
    });
}

#[test]
fn the_chunks_of_a_structured_read_cover_the_whole_range() {
    run(async |rt| {
        let probe = probe(LEN, 4096);
        let data = pattern(3 * MIB + 4096);
        probe.below.poke(4096, &data);
        let mut client = connect(&serve(&rt, probe)).go_structured(&[]).await;
        for (flags, n) in [(0, 4), (command_flag::DF, 1)] {
            let chunks = client
                .chunks(command::READ, flags, 4096, data.len() as u32)
                .await;
            assert_eq!(chunks.len(), n);
            let mut seen = vec![0; data.len()];
            for chunk in chunks {
                assert_eq!(chunk.header.kind, chunk::OFFSET_DATA);
                let (offset, bytes) = chunk.data.split_first_chunk().unwrap();
                let at = u64::from_be_bytes(*offset) as usize - 4096;
                seen[at..at + bytes.len()].copy_from_slice(bytes);
            }
            assert!(seen == data);
        }
    });
}

#[test]
fn a_structured_read_that_fails_in_part_returns_the_offset() {
    run(async |rt| {
        let probe = probe(LEN, 4096);
        *probe.broken.borrow_mut() = Some((1 << 20..(1 << 20) + 4096, 5));
        let mut client = connect(&serve(&rt, probe)).go_structured(&[]).await;
        let chunks = client.chunks(command::READ, 0, 0, 2 << 20).await;
        let errors: Vec<_> = chunks.iter().filter_map(ReplyChunk::error).collect();
        assert_eq!((chunks.len(), &errors[..]), (2, &[(IO, Some(1 << 20))][..]));
        let whole = client
            .chunks(command::READ, command_flag::DF, 0, 2 << 20)
            .await;
        assert_eq!(whole.len(), 1);
        assert_eq!(whole[0].error(), Some((IO, Some(1 << 20))));
        let small = client.chunks(command::READ, 0, 1 << 20, 4096).await;
        assert_eq!(small[0].error(), Some((IO, Some(1 << 20))));
        let senseless = client.chunks(command::READ, 0, 1, 4096).await;
        assert_eq!(senseless[0].error(), Some((INVAL, None)));
    });
}

#[test]
fn block_status_merges_extents_and_clips_them_to_the_request() {
    run(async |rt| {
        let probe = probe(LEN, 4096);
        let export = NbdExport::new("disk", probe).status(Rc::new(StripedStatus));
        let server = serve_export(&rt, export);
        let contexts = ["base:allocation", "forebay:place"];
        let mut client = connect(&server).go_structured(&contexts).await;
        let chunks = client
            .chunks(command::BLOCK_STATUS, 0, 4096, 256 << 10)
            .await;
        let stripe = 64 << 10;
        let allocation = vec![(2 * stripe - 4096, 0), (stripe, 2), (stripe, 3), (4096, 0)];
        assert_eq!(chunks[0].extents(), Some((1, allocation)));
        let place = vec![(stripe - 4096, 0), (stripe, 1), (2 * stripe, 3), (4096, 0)];
        assert_eq!(chunks[1].extents(), Some((2, place)));

        let one = command_flag::REQ_ONE;
        let chunks = client.chunks(command::BLOCK_STATUS, one, 0, 8192).await;
        assert_eq!(chunks[0].extents(), Some((1, vec![(8192, 0)])));
        assert_eq!(chunks[1].extents(), Some((2, vec![(8192, 0)])));

        let mut client = connect(&server).go_structured(&contexts[1..]).await;
        let chunks = client.chunks(command::BLOCK_STATUS, one, 0, 1 << 20).await;
        assert_eq!(chunks.len(), 1);
        assert_eq!(chunks[0].extents(), Some((2, vec![(stripe, 0)])));
        let senseless = client.chunks(command::BLOCK_STATUS, 0, 0, 0).await;
        assert_eq!(senseless[0].error(), Some((INVAL, None)));
    });
}

#[test]
fn without_a_status_provider_the_whole_export_is_allocated_data() {
    run(async |rt| {
        let server = serve(&rt, probe(LEN, 4096));
        let mut client = connect(&server).go_structured(&["base:allocation"]).await;
        let chunks = client.chunks(command::BLOCK_STATUS, 0, 0, LEN as u32).await;
        assert_eq!(chunks.len(), 1);
        assert_eq!(chunks[0].extents(), Some((1, vec![(LEN as u32, 0)])));
    });
}

#[test]
fn requests_are_answered_in_order_of_completion() {
    run(async |rt| {
        let probe = probe(LEN, 4096);
        let mut client = connect(&serve(&rt, Rc::clone(&probe) as _)).go().await;
        probe.hold();
        let slow = client.send(command::WRITE, 0, 0, 4096, &[1; 4096]).await;
        probe.has_been_asked(1).await;
        let refused = client.send(command::READ, 0, 1, 1, &[]).await;
        assert_eq!(client.simple().await, (refused, INVAL));
        probe.release();
        assert_eq!(client.simple().await, (slow, 0));
    });
}

#[test]
fn a_disconnect_waits_for_requests_in_flight() {
    run(async |rt| {
        let probe = probe(LEN, 4096);
        let mut client = connect(&serve(&rt, Rc::clone(&probe) as _)).go().await;
        probe.hold();
        let write = client.send(command::WRITE, 0, 0, 4096, &[1; 4096]).await;
        client.send(command::DISC, 0, 0, 0, &[]).await;
        probe.has_been_asked(1).await;
        probe.release();
        assert_eq!(client.simple().await, (write, 0));
        assert!(client.is_cut_off().await);
    });
}

#[test]
fn several_connections_immediately_see_the_writes_of_each_other() {
    run(async |rt| {
        let server = serve(&rt, probe(LEN, 4096));
        let mut one = connect(&server).go().await;
        let mut other = connect(&server).go().await;
        one.write(8192, &pattern(4096)).await;
        assert_eq!(other.read(8192, 4096).await, Ok(pattern(4096)));
    });
}
