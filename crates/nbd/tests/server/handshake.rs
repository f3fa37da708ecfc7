//! Every option, requested correctly and incorrectly.

use std::rc::Rc;

use forebay_device::RamDevice;
use forebay_frontend::requests::RequestMemory;
use forebay_nbd::codec::format::client::{context_query, info_query};
use forebay_nbd::codec::format::{export_flag, info, option, reply};
use forebay_nbd::{ClientLimits, ExportError, NbdExport, NbdServer, duplex};
use forebay_rt::Rt;

use crate::support::client::DuplexClient;
use crate::support::{LEN, StripedStatus, connect, run, serve};

const RW: u16 = export_flag::HAS_FLAGS
    | export_flag::SEND_FLUSH
    | export_flag::SEND_FUA
    | export_flag::SEND_TRIM
    | export_flag::SEND_WRITE_ZEROES
    | export_flag::CAN_MULTI_CONN
    | export_flag::SEND_FAST_ZERO;

fn ram(block_size: u32) -> Rc<RamDevice> {
    Rc::new(RamDevice::new(LEN, block_size))
}

fn two_exports(rt: &Rt) -> NbdServer {
    let exports = vec![
        NbdExport::new("disk", ram(4096))
            .description("the first")
            .status(Rc::new(StripedStatus)),
        NbdExport::new("second", ram(512)).read_only(true),
    ];
    NbdServer::new(
        rt.clone(),
        exports,
        ClientLimits::default(),
        &RequestMemory::default(),
    )
    .unwrap()
}

async fn greeted(server: &NbdServer) -> DuplexClient {
    let client = connect(server);
    client.greet(3).await;
    client
}

fn export_info(len: u64, flags: u16) -> Vec<u8> {
    let mut data = info::EXPORT.to_be_bytes().to_vec();
    data.extend_from_slice(&len.to_be_bytes());
    data.extend_from_slice(&flags.to_be_bytes());
    data
}

#[test]
fn export_name_is_answered_with_size_and_optional_zero_padding() {
    run(async |rt| {
        let server = serve(&rt, ram(4096));
        for (flags, zeroes) in [(1, 124), (3, 0)] {
            let mut client = connect(&server);
            client.greet(flags).await;
            client.send_option(option::EXPORT_NAME, b"").await;
            let answer = client.end.read(10 + zeroes).await.unwrap();
            assert_eq!(answer[..8], LEN.to_be_bytes());
            assert_eq!(answer[8..10], RW.to_be_bytes());
            assert_eq!(client.read(0, 4096).await, Ok(vec![0; 4096]));
        }
    });
}

#[test]
fn export_name_with_an_unknown_name_ends_the_connection() {
    run(async |rt| {
        let server = serve(&rt, ram(4096));
        let client = greeted(&server).await;
        client.send_option(option::EXPORT_NAME, b"nonsense").await;
        assert!(client.is_cut_off().await);
    });
}

#[test]
fn abort_is_acknowledged_and_ends_the_connection() {
    run(async |rt| {
        let client = greeted(&serve(&rt, ram(4096))).await;
        assert_eq!(
            client.option(option::ABORT, &[]).await,
            [(reply::ACK, vec![])]
        );
        assert!(client.is_cut_off().await);
    });
}

#[test]
fn list_names_every_export_with_its_description() {
    run(async |rt| {
        let client = greeted(&two_exports(&rt)).await;
        assert_eq!(
            client.option(option::LIST, &[]).await,
            [
                (reply::SERVER, b"\0\0\0\x04diskthe first".to_vec()),
                (reply::SERVER, b"\0\0\0\x06second".to_vec()),
                (reply::ACK, vec![]),
            ]
        );
        let with_data = client.option(option::LIST, b"x").await;
        assert_eq!(with_data[0].0, reply::ERR_INVALID);
    });
}

#[test]
fn info_returns_size_flags_block_sizes_and_requested_items() {
    run(async |rt| {
        let client = greeted(&two_exports(&rt)).await;
        let query = info_query("", &[info::NAME, info::DESCRIPTION, 77]);
        assert_eq!(
            client.option(option::INFO, &query).await,
            [
                (reply::INFO, export_info(LEN, RW)),
                (reply::INFO, b"\0\x01disk".to_vec()),
                (reply::INFO, b"\0\x02the first".to_vec()),
                (
                    reply::INFO,
                    b"\0\x03\0\0\x10\0\0\0\x10\0\x02\0\0\0".to_vec()
                ),
                (reply::ACK, vec![]),
            ]
        );
        // Still in the handshake: the next option is answered too.
        let flags = RW & !(export_flag::SEND_TRIM | export_flag::SEND_WRITE_ZEROES);
        let flags = flags & !export_flag::SEND_FAST_ZERO | export_flag::READ_ONLY;
        let replies = client
            .option(option::INFO, &info_query("second", &[]))
            .await;
        assert_eq!(replies[0], (reply::INFO, export_info(LEN, flags)));
    });
}

#[test]
fn go_to_an_unknown_export_is_refused_and_another_may_be_tried() {
    run(async |rt| {
        let client = greeted(&two_exports(&rt)).await;
        let replies = client.option(option::GO, &info_query("third", &[])).await;
        assert_eq!(replies[0].0, reply::ERR_UNKNOWN);
        let malformed = client.option(option::GO, b"\0\0\0\xffx").await;
        assert_eq!(malformed[0].0, reply::ERR_INVALID);
        let replies = client.option(option::GO, &info_query("second", &[])).await;
        assert_eq!(replies.last().unwrap().0, reply::ACK);
    });
}

#[test]
fn dont_fragment_is_offered_only_with_structured_replies() {
    run(async |rt| {
        let client = greeted(&serve(&rt, ram(4096))).await;
        assert_eq!(
            client.option(option::STRUCTURED_REPLY, b"x").await[0].0,
            reply::ERR_INVALID
        );
        let ask = async || client.option(option::INFO, &info_query("", &[])).await[0].clone();
        assert_eq!(ask().await.1, export_info(LEN, RW));
        client.option(option::STRUCTURED_REPLY, &[]).await;
        assert_eq!(ask().await.1, export_info(LEN, RW | export_flag::SEND_DF));
    });
}

#[test]
fn unsupported_options_are_answered_as_unsupported() {
    run(async |rt| {
        let client = greeted(&serve(&rt, ram(4096))).await;
        // STARTTLS, PEEK_EXPORT, extended headers, and an option that does not exist.
        for code in [5, 4, 11, 0xdead_beef] {
            assert_eq!(client.option(code, b"abc").await[0].0, reply::ERR_UNSUP);
        }
    });
}

#[test]
fn metadata_contexts_are_listed_by_name_by_namespace_or_all() {
    run(async |rt| {
        let client = greeted(&two_exports(&rt)).await;
        let list = async |queries: &[&str]| {
            let query = context_query("disk", queries);
            client.option(option::LIST_META_CONTEXT, &query).await
        };
        assert_eq!(list(&[]).await[0].0, reply::ERR_INVALID);
        client.option(option::STRUCTURED_REPLY, &[]).await;
        let allocation = (reply::META_CONTEXT, b"\0\0\0\0base:allocation".to_vec());
        let place = (reply::META_CONTEXT, b"\0\0\0\0forebay:place".to_vec());
        let ack = (reply::ACK, vec![]);
        let all = [allocation.clone(), place.clone(), ack.clone()];
        assert_eq!(list(&[]).await, all);
        assert_eq!(list(&["base:"]).await, [allocation, ack.clone()]);
        assert_eq!(list(&["forebay:place"]).await, [place, ack.clone()]);
        let none = list(&["qemu:dirty-bitmap:x", ""]).await;
        assert_eq!(none, std::slice::from_ref(&ack));
        // Another export's contexts are independent.
        let second = context_query("second", &[]);
        let replies = client.option(option::LIST_META_CONTEXT, &second).await;
        assert_eq!(replies, [all[0].clone(), ack]);
        let unknown = context_query("third", &[]);
        let replies = client.option(option::LIST_META_CONTEXT, &unknown).await;
        assert_eq!(replies[0].0, reply::ERR_UNKNOWN);
    });
}

#[test]
fn metadata_contexts_are_selected_by_full_name_and_the_last_selection_applies() {
    run(async |rt| {
        let client = greeted(&two_exports(&rt)).await;
        client.option(option::STRUCTURED_REPLY, &[]).await;
        let set = async |queries: &[&str]| {
            let query = context_query("disk", queries);
            client.option(option::SET_META_CONTEXT, &query).await
        };
        assert_eq!(
            set(&["base:allocation", "forebay:place", "base:allocation"]).await,
            [
                (reply::META_CONTEXT, b"\0\0\0\x01base:allocation".to_vec()),
                (reply::META_CONTEXT, b"\0\0\0\x02forebay:place".to_vec()),
                (reply::ACK, vec![]),
            ]
        );
        assert_eq!(set(&["base:"]).await, [(reply::ACK, vec![])]);
        assert_eq!(set(&[]).await, [(reply::ACK, vec![])]);
    });
}

#[test]
fn a_long_option_is_skipped_and_an_oversized_option_ends_the_connection() {
    run(async |rt| {
        let server = serve(&rt, ram(4096));
        let client = greeted(&server).await;
        let replies = client.option(option::GO, &vec![0; 100_000]).await;
        assert_eq!(replies[0].0, reply::ERR_TOO_BIG);
        let replies = client.option(option::LIST, &[]).await;
        assert_eq!(replies.last().unwrap().0, reply::ACK);
        let mut header = b"IHAVEOPT\0\0\0\x07".to_vec();
        header.extend_from_slice(&u32::MAX.to_be_bytes());
        client.end.write(&header).await.unwrap();
        assert!(client.is_cut_off().await);
    });
}

#[test]
fn a_client_with_flags_that_were_not_offered_is_disconnected() {
    run(async |rt| {
        let client = connect(&serve(&rt, ram(4096)));
        client.greet(4).await;
        assert!(client.is_cut_off().await);
    });
}

#[test]
fn missing_duplicate_and_overlong_export_names_are_refused() {
    run(async |rt| {
        let make = |names: &[&str]| {
            let exports = names.iter().map(|name| NbdExport::new(*name, ram(512)));
            NbdServer::new(
                rt.clone(),
                exports.collect(),
                ClientLimits::default(),
                &RequestMemory::default(),
            )
            .err()
        };
        assert_eq!(make(&[]), Some(ExportError::None));
        let twice = Some(ExportError::Duplicate("a".into()));
        assert_eq!(make(&["a", "b", "a"]), twice);
        let long = "x".repeat(5000);
        assert_eq!(make(&[&long]), Some(ExportError::TooLong(long.clone())));
    });
}

#[test]
fn a_connection_without_handshake_gets_only_replies() {
    run(async |rt| {
        let server = two_exports(&rt);
        let (ours, theirs) = duplex::pair();
        server.connect_without_handshake(theirs);
        let haggling = greeted(&server).await;
        let mut kernel = DuplexClient::new(ours);
        assert_eq!(kernel.write(4096, &[7; 4096]).await, 0);
        assert_eq!(kernel.read(4096, 4096).await, Ok(vec![7; 4096]));
        assert_eq!(kernel.end.unread(), 0);
        let replies = haggling.option(option::ABORT, &[]).await;
        assert_eq!(replies, [(reply::ACK, Vec::new())]);
        server.shutdown().await;
        assert!(kernel.is_cut_off().await);
    });
}
