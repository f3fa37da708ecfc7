//! Limits on the resources of one client, and the ends of connections.

use std::rc::Rc;
use std::time::Duration;

use forebay_frontend::requests::RequestMemory;
use forebay_nbd::codec::format::{command, option};
use forebay_nbd::{ClientLimits, NbdExport, NbdServer};

use crate::support::device::{ProbeDevice, probe};
use crate::support::{LEN, connect, run, serve};

fn limited(rt: &forebay_rt::Rt, probe: &Rc<ProbeDevice>, limits: ClientLimits) -> NbdServer {
    let export = NbdExport::new("disk", Rc::clone(probe) as _);
    NbdServer::new(rt.clone(), vec![export], limits, &RequestMemory::default()).unwrap()
}

#[test]
fn requests_beyond_the_limit_stay_in_the_socket_until_others_finish() {
    run(async |rt| {
        let probe = probe(LEN, 4096);
        let limits = ClientLimits {
            requests_in_flight: 4,
            ..ClientLimits::default()
        };
        let mut client = connect(&limited(&rt, &probe, limits)).go().await;
        probe.hold();
        for i in 0..10 {
            client.send(command::READ, 0, i * 4096, 4096, &[]).await;
        }
        rt.sleep(Duration::from_secs(1)).await;
        assert_eq!(probe.asked().len(), 4);
        probe.release();
        let mut answered = Vec::new();
        for _ in 0..10 {
            let (cookie, errno) = client.simple().await;
            assert_eq!(errno, 0);
            client.end.read(4096).await.unwrap();
            answered.push(cookie);
        }
        answered.sort_unstable();
        assert!(answered.into_iter().eq(1..=10));
    });
}

#[test]
fn data_beyond_the_limit_is_not_received_but_a_single_request_always_passes() {
    run(async |rt| {
        let probe = probe(LEN, 4096);
        let limits = ClientLimits {
            bytes_in_flight: 1 << 20,
            ..ClientLimits::default()
        };
        let mut client = connect(&limited(&rt, &probe, limits)).go().await;
        assert_eq!(client.write(0, &vec![1; 4 << 20]).await, 0);
        probe.asked();
        probe.hold();
        let data = vec![1; 600 << 10];
        for i in 0..2 {
            client
                .send(command::WRITE, 0, i << 20, 600 << 10, &[])
                .await;
            client.end.write(&data).await.unwrap();
        }
        rt.sleep(Duration::from_secs(1)).await;
        assert_eq!(probe.asked().len(), 1);
        assert!(client.end.untaken() > 300 << 10);
        probe.release();
        assert_eq!(client.simple().await, (2, 0));
        assert_eq!(client.simple().await, (3, 0));
    });
}

#[test]
fn a_client_that_reads_no_replies_blocks_only_itself_and_is_finally_disconnected() {
    run(async |rt| {
        let server = serve(&rt, probe(LEN, 4096));
        let mut lazy = connect(&server).go().await;
        for _ in 0..200 {
            lazy.send(command::READ, 0, 0, 1 << 20, &[]).await;
        }
        let mut other = connect(&server).go().await;
        assert_eq!(other.read(0, 4096).await, Ok(vec![0; 4096]));
        assert!(lazy.end.unread() > 0);
        rt.sleep(Duration::from_secs(61)).await;
        assert_eq!(server.connections(), 1);
        assert_eq!(other.read(0, 4096).await, Ok(vec![0; 4096]));
    });
}

#[test]
fn a_client_stuck_inside_a_request_is_disconnected_and_an_idle_client_is_not() {
    run(async |rt| {
        let server = serve(&rt, probe(LEN, 4096));
        let mut idle = connect(&server).go().await;
        let mut stuck = connect(&server).go().await;
        let half = [1; 2048];
        stuck.send(command::WRITE, 0, 0, 4096, &half).await;
        rt.sleep(Duration::from_secs(3600)).await;
        assert!(stuck.is_cut_off().await);
        assert_eq!(idle.read(0, 4096).await, Ok(vec![0; 4096]));
    });
}

#[test]
fn a_client_that_never_ends_the_handshake_is_disconnected() {
    run(async |rt| {
        let server = serve(&rt, probe(LEN, 4096));
        let client = connect(&server);
        client.greet(3).await;
        for _ in 0..29 {
            rt.sleep(Duration::from_secs(1)).await;
            client.option(option::LIST, &[]).await;
        }
        rt.sleep(Duration::from_secs(2)).await;
        assert!(client.is_cut_off().await);
        assert_eq!(server.connections(), 0);
    });
}

#[test]
fn silent_connections_give_way_to_active_clients() {
    run(async |rt| {
        let probe = probe(LEN, 4096);
        let limits = ClientLimits {
            connections: 8,
            handshakes: 4,
            ..ClientLimits::default()
        };
        let server = limited(&rt, &probe, limits);
        let mut early = connect(&server).go().await;
        let silent: Vec<_> = (0..50).map(|_| connect(&server)).collect();
        rt.sleep(Duration::from_secs(1)).await;
        let mut late = connect(&server).go().await;
        assert_eq!(early.read(0, 4096).await, Ok(vec![0; 4096]));
        assert_eq!(late.read(0, 4096).await, Ok(vec![0; 4096]));
        assert!(silent[0].is_cut_off().await);
    });
}

#[test]
fn connections_beyond_the_limit_are_closed_until_others_disconnect() {
    run(async |rt| {
        let probe = probe(LEN, 4096);
        let limits = ClientLimits {
            connections: 2,
            ..ClientLimits::default()
        };
        let server = limited(&rt, &probe, limits);
        let one = connect(&server).go().await;
        let _two = connect(&server).go().await;
        assert!(connect(&server).is_cut_off().await);
        one.hang_up();
        rt.sleep(Duration::from_secs(1)).await;
        connect(&server).go().await;
    });
}

#[test]
fn a_request_completes_after_its_client_disconnects() {
    run(async |rt| {
        let probe = probe(LEN, 4096);
        let server = serve(&rt, Rc::clone(&probe) as _);
        let mut client = connect(&server).go().await;
        probe.hold();
        client.send(command::WRITE, 0, 0, 4096, &[7; 4096]).await;
        probe.has_been_asked(1).await;
        client.hang_up();
        rt.sleep(Duration::from_secs(1)).await;
        probe.release();
        rt.sleep(Duration::from_secs(1)).await;
        let mut stored = [0; 4096];
        probe.below.peek(0, &mut stored);
        assert_eq!(stored, [7; 4096]);
        assert_eq!(server.connections(), 0);
    });
}

#[test]
fn a_shutdown_finishes_and_answers_requests_in_flight_and_closes() {
    run(async |rt| {
        let probe = probe(LEN, 4096);
        let server = serve(&rt, Rc::clone(&probe) as _);
        let haggling = connect(&server);
        let mut half = connect(&server).go().await;
        half.send(command::WRITE, 0, 0, 8192, &[1; 100]).await;
        let mut client = connect(&server).go().await;
        probe.hold();
        let write = client.send(command::WRITE, 0, 0, 4096, &[1; 4096]).await;
        probe.has_been_asked(1).await;
        let closing = rt.spawn({
            let server = server.clone();
            async move { server.shutdown().await }
        });
        rt.sleep(Duration::from_secs(1)).await;
        assert!(!closing.is_finished());
        assert!(connect(&server).is_cut_off().await);
        probe.release();
        assert_eq!(client.simple().await, (write, 0));
        assert!(client.is_cut_off().await);
        assert!(haggling.is_cut_off().await);
        assert!(half.is_cut_off().await);
        closing.await;
        assert_eq!(server.connections(), 0);
    });
}
