//! One bound on the memory of all connections' requests.

use std::rc::Rc;
use std::time::Duration;

use forebay_frontend::requests::RequestMemory;
use forebay_nbd::codec::format::{chunk, command};
use forebay_nbd::{ClientLimits, NbdExport, NbdServer};
use forebay_rt::Rt;
use futures_util::future::join_all;

use crate::support::client::DuplexClient;
use crate::support::device::{ProbeDevice, probe};
use crate::support::{LEN, connect, run};

const MIB: usize = 1 << 20;
/// The largest request.
const LARGEST: u32 = 32 << 20;

fn serve(rt: &Rt, probe: &Rc<ProbeDevice>, memory: &RequestMemory) -> NbdServer {
    let export = NbdExport::new("disk", Rc::clone(probe) as _);
    NbdServer::new(rt.clone(), vec![export], ClientLimits::default(), memory).unwrap()
}

/// Sends a write of the largest size, filled with `byte`, and waits for its reply.
async fn write_largest(mut client: DuplexClient, byte: u8) -> DuplexClient {
    let data = vec![byte; LARGEST as usize];
    assert_eq!(client.write(0, &data).await, 0);
    client
}

/// Found by a review: 24 clients that each sent a write of 32 MiB made a daemon hold 1.6 GB.
#[test]
fn concurrent_large_writes_share_one_memory_bound_and_all_progress() {
    run(async |rt| {
        let probe = probe(LEN, 4096);
        let memory = RequestMemory::new(128 << 20);
        let server = serve(&rt, &probe, &memory);
        probe.hold();
        let mut clients = Vec::new();
        for i in 0..24 {
            let client = connect(&server).go().await;
            clients.push(rt.spawn(write_largest(client, i)));
        }
        rt.sleep(Duration::from_secs(10)).await;
        let held = probe.asked().len() * MIB;
        assert!(held <= 128 * MIB, "{held} bytes are with the device");
        assert!(held >= 56 * MIB, "room is left unused: {held}");
        assert!(memory.in_use() <= memory.bound());
        assert!(memory.in_use() >= held as u64);
        probe.release();
        join_all(clients).await;
        assert_eq!(probe.asked().len() * MIB + held, 24 * LARGEST as usize);
    });
}

#[test]
fn memory_is_freed_when_it_is_no_longer_used() {
    run(async |rt| {
        let probe = probe(LEN, 4096);
        let memory = RequestMemory::new(128 << 20);
        let server = serve(&rt, &probe, &memory);
        let clients = (0..8).map(|i| {
            let client = connect(&server);
            rt.spawn(async move { write_largest(client.go().await, i).await })
        });
        let mut clients = join_all(clients).await;
        assert_eq!(clients[0].read(0, LARGEST).await.unwrap().len(), 32 * MIB);
        rt.sleep(Duration::from_secs(1)).await;
        // A receive buffer for each client, and the idle buffers.
        let kept = memory.in_use();
        assert!(kept <= 16 << 20, "{kept} bytes");
        for client in &clients {
            client.hang_up();
        }
        rt.sleep(Duration::from_secs(1)).await;
        assert!(memory.in_use() < kept);
    });
}

#[test]
fn a_client_that_holds_memory_does_not_block_other_clients() {
    run(async |rt| {
        let probe = probe(LEN, 4096);
        let memory = RequestMemory::new(RequestMemory::BYTES_MIN);
        let server = serve(&rt, &probe, &memory);
        let mut other = connect(&server).go().await;
        let mut structured = connect(&server).go_structured(&[]).await;
        // Request as much data as possible, and receive none of it.
        let mut lazy = Vec::new();
        for _ in 0..4 {
            let mut client = connect(&server).go().await;
            for _ in 0..60 {
                client.send(command::READ, 0, 0, MIB as u32, &[]).await;
            }
            lazy.push(client);
        }
        rt.sleep(Duration::from_secs(1)).await;
        let started = rt.now();
        let data: Vec<u8> = (0..3 * MIB).map(|i| (i / 512) as u8).collect();
        assert_eq!(other.write(4096, &data).await, 0);
        assert_eq!(other.read(4096, MIB as u32).await.unwrap(), data[..MIB]);
        // A write sent before the answer to a read is received.
        let read = other.send(command::READ, 0, 4096, MIB as u32, &[]).await;
        let len = data.len() as u32;
        other.send(command::WRITE, 0, 0, len, &data).await;
        assert_eq!(other.simple().await, (read, 0));
        other.end.read(MIB).await.unwrap();
        assert_eq!(other.simple().await, (read + 1, 0));
        // A large read that may come in chunks needs memory for one chunk at a time.
        let chunks = structured.chunks(command::READ, 0, 0, LARGEST).await;
        let data = chunks
            .iter()
            .filter(|c| c.header.kind == chunk::OFFSET_DATA);
        assert_eq!(data.map(|c| c.data.len() - 8).sum::<usize>(), 32 * MIB);
        assert!(rt.now().since(started) < Duration::from_secs(1));
        // A large read in a single reply waits until the idle clients are disconnected.
        assert_eq!(other.read(0, LARGEST).await.unwrap().len(), 32 * MIB);
        assert!(rt.now().since(started) > Duration::from_secs(50));
        drop(lazy);
    });
}

#[test]
fn a_request_larger_than_the_free_memory_is_served_despite_a_stream_of_small_requests() {
    run(async |rt| {
        let probe = probe(LEN, 4096);
        let memory = RequestMemory::new(RequestMemory::BYTES_MIN);
        let server = serve(&rt, &probe, &memory);
        let mut busy = Vec::new();
        for _ in 0..6 {
            let mut client = connect(&server).go().await;
            busy.push(rt.spawn(async move {
                for _ in 0..10 {
                    client.send(command::READ, 0, 0, MIB as u32, &[]).await;
                }
                loop {
                    client.simple().await;
                    client.end.read(MIB).await.unwrap();
                    client.send(command::READ, 0, 0, MIB as u32, &[]).await;
                }
            }));
        }
        let mut client = connect(&server).go().await;
        for _ in 0..3 {
            assert_eq!(client.read(0, LARGEST).await.unwrap().len(), 32 * MIB);
        }
        drop(busy);
    });
}

#[test]
fn connections_are_limited_by_the_memory_reserved_for_them() {
    run(async |rt| {
        let probe = probe(LEN, 4096);
        let memory = RequestMemory::new(RequestMemory::BYTES_MIN);
        let server = serve(&rt, &probe, &memory);
        let mut clients = Vec::new();
        loop {
            let client = connect(&server);
            if server.connections() == clients.len() {
                assert!(client.is_cut_off().await);
                break;
            }
            clients.push(client.go().await);
        }
        assert!((8..16).contains(&clients.len()), "{}", clients.len());
        // All clients progress at once, each with its own connection.
        let all = clients
            .into_iter()
            .map(|client| rt.spawn(write_largest(client, 7)));
        join_all(all).await;
    });
}

/// The parts of a write that have arrived are written before the rest has come.
#[test]
fn a_write_whose_client_disconnects_midway_is_not_answered_and_holds_no_memory() {
    run(async |rt| {
        let probe = probe(LEN, 4096);
        let memory = RequestMemory::new(RequestMemory::BYTES_MIN);
        let server = serve(&rt, &probe, &memory);
        let mut client = connect(&server).go().await;
        probe.hold();
        let half = vec![1; LARGEST as usize / 2];
        client.send(command::WRITE, 0, 0, LARGEST, &half).await;
        probe.has_been_asked(16).await;
        client.hang_up();
        rt.sleep(Duration::from_secs(1)).await;
        // The server waits for the request that the device is executing.
        assert_eq!(server.connections(), 1);
        probe.release();
        rt.sleep(Duration::from_secs(1)).await;
        assert_eq!(server.connections(), 0);
        assert_eq!(client.end.unread(), 0);
        assert!(memory.in_use() <= 8 << 20, "{}", memory.in_use());
    });
}
