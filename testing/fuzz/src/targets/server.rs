//! A whole NBD server, given one client's side of a conversation.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::RamDevice;
use forebay_frontend::requests::RequestMemory;
use forebay_nbd::codec::format::client::{self, context_query, info_query};
use forebay_nbd::codec::format::{
    CHUNK_BYTES, CHUNK_MAGIC, OPTION_REPLY_MAGIC, SIMPLE_REPLY_BYTES, SIMPLE_REPLY_MAGIC,
    WireReader, command, greeting, option, reply,
};
use forebay_nbd::duplex::{self, DuplexEnd};
use forebay_nbd::{BlockStatus, ClientLimits, NbdExport, NbdServer, NbdWire, StatusExtent};
use forebay_rt::{Executor, Rt, VirtualTime};

use super::protocols::nbd_request;
use crate::cap;

const DEVICE_BYTES: u64 = 1 << 20;
const BYTES_IN_FLIGHT: u64 = 1 << 20;
/// Memory of the server: one large read, which is served alone, a receive buffer, the pools, and answers that the
/// client has not fetched.
const MEMORY: usize = 16 << 20;

/// A device with more extents than an answer may have.
struct SectorExtents;

impl BlockStatus for SectorExtents {
    fn context(&self) -> Option<&str> {
        Some("forebay:place")
    }

    fn status(&self, range: Range<u64>, max: usize) -> Vec<StatusExtent> {
        let sectors = range.step_by(512).take(max + 1).map(|at| StatusExtent {
            len: 512,
            hole: at % 1024 == 0,
            zero: at % 1024 == 0,
            value: (at / 512 % 4) as u32,
        });
        sectors.collect()
    }
}

/// Runs a server. The first byte selects the place of the others in the conversation: 0 at the greeting, 1 after the
/// handshake with simple replies, 2 with structured replies.
pub fn nbd_server(bytes: &[u8]) {
    let (&stage, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let (rt, bytes) = (executor.rt(), bytes.to_vec());
    cap::within(MEMORY + 4 * bytes.len(), || {
        executor.block_on(converse(rt, stage % 3, bytes));
    });
}

async fn converse(rt: Rt, stage: u8, bytes: Vec<u8>) {
    let device = Rc::new(RamDevice::new(DEVICE_BYTES, 512));
    let limits = ClientLimits {
        bytes_in_flight: BYTES_IN_FLIGHT,
        ..ClientLimits::default()
    };
    let server = NbdServer::new(
        rt.clone(),
        vec![NbdExport::new("disk", device).status(Rc::new(SectorExtents))],
        limits,
        &RequestMemory::default(),
    );
    let server = server.expect("one export");
    let (end, theirs) = duplex::pair();
    server.connect(theirs);
    assert_eq!(end.read(18).await.as_deref(), Some(&greeting()[..]));
    let mut said = 3u32.to_be_bytes().to_vec();
    if stage == 2 {
        said.extend(client::option(option::STRUCTURED_REPLY, &[]));
        let contexts = context_query("disk", &["base:allocation"]);
        said.extend(client::option(option::SET_META_CONTEXT, &contexts));
    }
    if stage > 0 {
        said.extend(client::option(option::GO, &info_query("disk", &[])));
    }
    said.extend(bytes);
    // The server may close the connection while the client still sends.
    let sending = Rc::clone(&end);
    let sender = rt.spawn(async move {
        let _ = sending.write(&said).await;
    });
    rt.sleep(Duration::from_secs(1)).await;
    let replies = end.read(end.unread()).await.unwrap_or_default();
    end.shutdown();
    sender.await;
    rt.sleep(Duration::from_secs(1)).await;
    assert_eq!(
        server.connections(),
        0,
        "a client that is gone is forgotten"
    );
    understand(&replies);
    let (other, theirs) = duplex::pair();
    server.connect(theirs);
    assert!(is_served(&other).await, "others are served as before");
}

/// Checks that all of the server's answers are well formed. The answers may end at any place.
fn understand(replies: &[u8]) {
    let mut rest = replies;
    while rest.len() >= SIMPLE_REPLY_BYTES.max(CHUNK_BYTES) {
        let mut reader = WireReader(rest);
        let magic = reader.u32().unwrap_or_default();
        let len = if magic == CHUNK_MAGIC {
            let at = CHUNK_BYTES - 4;
            CHUNK_BYTES + u32::from_be_bytes(rest[at..at + 4].try_into().expect("four")) as usize
        } else if magic == SIMPLE_REPLY_MAGIC {
            // The length of the data is only in the request.
            return;
        } else {
            let magic = WireReader(rest).u64();
            if magic != Some(OPTION_REPLY_MAGIC) {
                // The answer to EXPORT_NAME has no magic: the length and flags of the export.
                assert_eq!(magic, Some(DEVICE_BYTES), "{:02x?}", &rest[..20]);
                return;
            }
            20 + u32::from_be_bytes(rest[16..20].try_into().expect("four")) as usize
        };
        rest = rest.get(len..).unwrap_or_default();
    }
}

/// Returns true if the server answers a correct client.
async fn is_served(end: &Rc<DuplexEnd>) -> bool {
    let mut said = 3u32.to_be_bytes().to_vec();
    said.extend(client::option(option::LIST, &[]));
    if end.write(&said).await.is_err() || end.read(18).await.is_none() {
        return false;
    }
    let Some(answer) = end.read(20).await else {
        return false;
    };
    answer[12..16] == reply::SERVER.to_be_bytes()
}

pub(super) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let write = [nbd_request(command::WRITE, 0, 512, 512), vec![0x5a; 512]].concat();
    let read = nbd_request(command::READ, 0, 0, 1024);
    let flush = nbd_request(command::FLUSH, 0, 0, 0);
    let more = [
        nbd_request(command::TRIM, 0, 4096, 4096),
        nbd_request(command::WRITE_ZEROES, 2, 0, 8192),
        nbd_request(command::BLOCK_STATUS, 8, 0, 65536),
        nbd_request(command::DISC, 0, 0, 0),
    ]
    .concat();
    let session = [write, read, flush, more].concat();
    let haggling = [
        client::option(option::LIST, &[]),
        client::option(option::INFO, &info_query("disk", &[0, 1, 2, 3])),
        client::option(option::STRUCTURED_REPLY, &[]),
        client::option(
            option::LIST_META_CONTEXT,
            &context_query("disk", &["base:"]),
        ),
        client::option(
            option::SET_META_CONTEXT,
            &context_query("disk", &["forebay:place"]),
        ),
        client::option(99, &[1, 2, 3]),
        client::option(option::GO, &info_query("disk", &[3])),
        nbd_request(command::BLOCK_STATUS, 0, 0, 4096),
    ]
    .concat();
    let begin = |stage: u8, rest: &[u8]| [&[stage], rest].concat();
    vec![
        ("haggling", begin(0, &haggling)),
        (
            "export_name",
            begin(0, &client::option(option::EXPORT_NAME, b"disk")),
        ),
        ("abort", begin(0, &client::option(option::ABORT, &[]))),
        ("simple", begin(1, &session)),
        ("structured", begin(2, &session)),
    ]
}
