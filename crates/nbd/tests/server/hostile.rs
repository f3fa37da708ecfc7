//! Arbitrary bytes from a client cost that client's connection and nothing else.

use std::time::Duration;

use forebay_nbd::codec::format::{NbdRequest, OPTION_MAGIC, REQUEST_MAGIC, command, option};
use forebay_rt::{Executor, VirtualTime};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::device::probe;
use crate::support::{LEN, connect, run, serve};

/// Sends `bytes` after the greeting or after the handshake, hangs up, and checks that the server is unaffected.
fn survives(bytes: Vec<u8>, after_handshake: bool) {
    let executor = Executor::new(std::rc::Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    executor.block_on(async move {
        let server = serve(&rt, probe(LEN, 512));
        let mut client = connect(&server);
        if after_handshake {
            client = client.go_structured(&["base:allocation"]).await;
        } else {
            client.greet(3).await;
        }
        // The server may close the connection while the client still sends.
        let end = std::rc::Rc::clone(&client.end);
        let sender = rt.spawn(async move {
            let _ = end.write(&bytes).await;
        });
        rt.sleep(Duration::from_secs(1)).await;
        client.hang_up();
        sender.await;
        rt.sleep(Duration::from_secs(1)).await;
        assert_eq!(server.connections(), 0);
        let mut other = connect(&server).go().await;
        assert!(other.read(0, 512).await.is_ok());
    });
}

fn options() -> impl Strategy<Value = Vec<u8>> {
    let data = vec(any::<u8>(), 0..40);
    let one = (0..13u32, data, -2..3i64).prop_map(|(code, data, lie)| {
        let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
        bytes.extend_from_slice(&code.to_be_bytes());
        let len = (data.len() as i64 + if lie == 2 { 1 << 31 } else { lie.max(0) }) as u32;
        bytes.extend_from_slice(&len.to_be_bytes());
        bytes.extend_from_slice(&data);
        bytes
    });
    vec(one, 1..12).prop_map(|all| all.concat())
}

fn requests() -> impl Strategy<Value = Vec<u8>> {
    let offset = prop_oneof![0..200u64, any::<u64>(), (0..64u64).prop_map(|n| n * 512)];
    let len = prop_oneof![0..20_000u32, any::<u32>(), (0..64u32).prop_map(|n| n * 512)];
    let one = (0..40u16, 0..10u16, offset, len, any::<u64>(), 0..5000usize);
    let one = one.prop_map(|(flags, command, offset, len, cookie, payload)| {
        let request = NbdRequest {
            flags,
            command,
            cookie,
            offset,
            len,
        };
        let mut bytes = request.encode().to_vec();
        bytes.resize(bytes.len() + payload, 0x25);
        bytes
    });
    vec(one, 1..12).prop_map(|all| all.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn arbitrary_bytes_in_the_handshake_do_no_harm(bytes in vec(any::<u8>(), 0..300)) {
        survives(bytes, false);
    }

    #[test]
    fn arbitrary_options_do_no_harm(bytes in options()) {
        survives(bytes, false);
    }

    #[test]
    fn arbitrary_bytes_in_place_of_requests_do_no_harm(bytes in vec(any::<u8>(), 0..300)) {
        survives(bytes, true);
    }

    #[test]
    fn arbitrary_requests_do_no_harm(bytes in requests()) {
        survives(bytes, true);
    }
}

#[test]
fn a_request_without_its_magic_number_ends_the_connection() {
    run(async |rt| {
        let mut client = connect(&serve(&rt, probe(LEN, 4096))).go().await;
        assert!(client.read(0, 4096).await.is_ok());
        let wrong = (REQUEST_MAGIC ^ 1).to_be_bytes();
        client
            .end
            .write(&[&wrong[..], &[0; 24]].concat())
            .await
            .unwrap();
        assert!(client.is_cut_off().await);
    });
}

#[test]
fn an_oversized_write_ends_the_connection_before_its_payload_is_received() {
    run(async |rt| {
        let mut client = connect(&serve(&rt, probe(LEN, 4096))).go().await;
        client.send(command::WRITE, 0, 0, u32::MAX, &[]).await;
        assert!(client.is_cut_off().await);
    });
}

#[test]
fn an_option_without_its_magic_number_ends_the_connection() {
    run(async |rt| {
        let client = connect(&serve(&rt, probe(LEN, 4096)));
        client.greet(3).await;
        client.end.write(&[0; 16]).await.unwrap();
        assert!(client.is_cut_off().await);
    });
}

#[test]
fn an_endless_sequence_of_options_ends_the_connection() {
    run(async |rt| {
        let client = connect(&serve(&rt, probe(LEN, 4096)));
        client.greet(3).await;
        for _ in 0..1024 {
            client.option(option::LIST, &[]).await;
        }
        assert!(client.is_cut_off().await);
    });
}
