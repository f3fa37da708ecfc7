//! Sockets on the ring.

mod common;

use std::net::Shutdown;
use std::os::unix::net::UnixListener;
use std::rc::Rc;

use common::run;
use forebay_device::{Buf, BufMut};
use forebay_linux::{IoRing, SocketAddress, SocketListener, SocketStream};
use forebay_rt::Rt;

/// Bytes that differ from their neighbours and from page to page.
fn pattern(len: usize) -> Buf {
    let bytes: Vec<u8> = (0..len).map(|i| (i * 31 + (i >> 12)) as u8).collect();
    BufMut::copy_of(&bytes).freeze()
}

async fn recv_all(stream: &SocketStream) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let (buf, n) = stream.recv(BufMut::zeroed(100_000)).await.unwrap();
        if n == 0 {
            return all;
        }
        all.extend_from_slice(&buf[..n]);
    }
}

/// Sends a large payload in both directions at the same time, as one buffer and as thousands.
async fn exchange(rt: Rt, ring: Rc<IoRing>, listener: SocketListener, address: SocketAddress) {
    let payload = pattern(20 << 20);
    let accepting = rt.spawn(async move { listener.accept().await.unwrap() });
    let client = SocketStream::connect(&ring, &address).await.unwrap();
    let server = accepting.await;
    let there = rt.spawn({
        let payload = payload.clone();
        async move {
            client.send(payload).await.unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            client
        }
    });
    assert!(recv_all(&server).await == *payload);
    let client = there.await;
    let back = rt.spawn({
        let payload = payload.clone();
        async move {
            let mut parts: Vec<Buf> = (0..payload.len())
                .step_by(7000)
                .map(|at| payload.slice(at..(at + 7000).min(payload.len())))
                .collect();
            parts.insert(1, payload.slice(..0));
            parts.push(payload.slice(..0));
            server.send_vectored(parts).await.unwrap();
            server.send_vectored(Vec::new()).await.unwrap();
        }
    });
    assert!(recv_all(&client).await == *payload);
    back.await;
}

#[test]
fn large_payloads_cross_a_unix_socket_both_ways() {
    run(|rt, ring| async move {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = SocketListener::unix(&ring, &path).unwrap();
        exchange(rt, ring, listener, SocketAddress::Unix(path)).await;
    });
}

#[test]
fn large_payloads_cross_a_tcp_connection_both_ways() {
    run(|rt, ring| async move {
        let listener = SocketListener::bind(&ring, &"localhost:0".parse().unwrap()).unwrap();
        let address = listener.local_address().unwrap().to_string();
        exchange(rt, ring, listener, address.parse().unwrap()).await;
    });
}

#[test]
fn a_leftover_socket_is_replaced_but_a_socket_with_a_listener_is_not() {
    run(|_, ring| async move {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let first = SocketListener::unix(&ring, &path).unwrap();
        let second = SocketListener::unix(&ring, &path).err().unwrap();
        assert_eq!(second.kind(), std::io::ErrorKind::AddrInUse);
        assert!(
            second.to_string().contains("another process listens"),
            "{second}"
        );
        drop(first);
        assert!(!path.exists());
        std::fs::write(&path, "precious").unwrap();
        let error = SocketListener::unix(&ring, &path).err().unwrap();
        assert!(error.to_string().contains("not a socket"), "{error}");
        assert!(path.exists());
    });
}

#[test]
fn a_listener_does_not_remove_a_socket_that_replaced_its_own() {
    run(|_, ring| async move {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let first = SocketListener::unix(&ring, &path).unwrap();
        std::fs::rename(&path, dir.path().join("old")).unwrap();
        let _second = SocketListener::unix(&ring, &path).unwrap();
        drop(first);
        assert!(path.exists());
    });
}

#[test]
fn a_connect_without_a_listener_is_refused() {
    run(|_, ring| async move {
        let dir = tempfile::tempdir().unwrap();
        let missing = SocketAddress::Unix(dir.path().join("socket"));
        let error = SocketStream::connect(&ring, &missing).await.err().unwrap();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        let nobody = SocketAddress::Tcp("127.0.0.1:1".into());
        let error = SocketStream::connect(&ring, &nobody).await.err().unwrap();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    });
}

#[test]
fn a_send_to_a_closed_peer_is_an_error_and_not_a_signal() {
    run(|_, ring| async move {
        let (a, b) = SocketStream::pair(&ring).unwrap();
        drop(b);
        let error = a.send(pattern(10)).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
        let (_, n) = a.recv(BufMut::zeroed(10)).await.unwrap();
        assert_eq!(n, 0);
    });
}

#[test]
fn a_cancelled_accept_loses_no_connection() {
    run(|rt, ring| async move {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = SocketListener::unix(&ring, &path).unwrap();
        let wait = std::time::Duration::from_millis(1);
        assert!(rt.timeout(wait, listener.accept()).await.is_err());
        rt.sleep(wait).await;
        let _client = SocketStream::connect_unix(&ring, &path).await.unwrap();
        listener.accept().await.unwrap();
    });
}

#[test]
fn a_connection_accepted_after_cancellation_is_closed() {
    run(|rt, ring| async move {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = SocketListener::unix(&ring, &path).unwrap();
        let client = SocketStream::connect_unix(&ring, &path).await.unwrap();
        let mut accept = Box::pin(listener.accept());
        assert!(futures_util::poll!(&mut accept).is_pending());
        // The accept is queued before its cancellation, so it takes the connection.
        drop(accept);
        let end = client.recv(BufMut::zeroed(1));
        let (_, n) = rt
            .timeout(std::time::Duration::from_secs(60), end)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(n, 0);
    });
}
