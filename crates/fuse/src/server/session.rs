//! The serving side: receives requests from the channel and passes them to the handler.
//!
//! Nothing here waits for the kernel except the poll in [`serve`].

use std::io;
use std::rc::Rc;

use forebay_frontend::requests::RequestLoad;
use forebay_linux::FdPoller;

use super::IO_BYTES_MAX;
use super::channel::ReceiveOutcome;
use super::entries::{self, FetchTask};
use super::handler::{FuseHandler, InitOptions};
use super::inbox::FuseInbox;
use super::request::{FuseConnection, IncomingRequest, RequestOrigin};
use crate::codec::{self as format, FuseOp, FuseRequest, InitReply, init_flag};

/// Requests received in a row before other tasks can run.
const BATCH: usize = 32;
/// Asynchronous requests the kernel may send without waiting for replies. More than the loop device's queue and any
/// reasonable depth of a direct user, so that FUSE's own throttle never acts.
const BACKGROUND_MAX: u16 = 1024;
/// Limit on the requests under way: begun and not yet answered. Their memory has its own bound.
pub(super) const UNDER_WAY_MAX: RequestLoad = RequestLoad {
    requests: 1024,
    bytes: u64::MAX,
};

/// The reason for the end of a session.
#[derive(Debug)]
pub enum SessionEnd {
    /// The filesystem was unmounted.
    Unmounted,
    /// The connection was cut: `umount --force`, or by hand in `/sys/fs/fuse/connections`.
    Aborted,
    /// `/dev/fuse` returned an error that has no place in the protocol.
    Failed(io::Error),
}

/// Serves until the filesystem is gone, then waits for the requests under way. `readable` is ready when requests are
/// queued.
pub(super) async fn serve<H: FuseHandler>(
    connection: Rc<FuseConnection>,
    handler: Rc<H>,
    readable: FdPoller,
) -> SessionEnd {
    let mut fetching = None;
    let ended = match FuseInbox::new(&connection.memory).await {
        Ok(inbox) => take_requests(&connection, &handler, inbox, &readable, &mut fetching).await,
        Err(error) => SessionEnd::Failed(error),
    };
    tracing::debug!(?ended, "FUSE session ends");
    connection.under_way.idle().await;
    if let Some(fetching) = fetching {
        entries::end(&connection.rt, fetching).await;
    }
    ended
}

async fn take_requests<H: FuseHandler>(
    connection: &Rc<FuseConnection>,
    handler: &Rc<H>,
    mut inbox: FuseInbox,
    readable: &FdPoller,
    fetching: &mut Option<FetchTask>,
) -> SessionEnd {
    let mut in_a_row = 0;
    loop {
        match inbox.receive(&connection.channel) {
            Ok(ReceiveOutcome::Message(total)) => {
                if take(connection, handler, &mut inbox, total).await {
                    *fetching = entries::fetch(connection, handler);
                }
                in_a_row += 1;
                if in_a_row == BATCH {
                    in_a_row = 0;
                    connection.rt.yield_now().await;
                }
            }
            Ok(ReceiveOutcome::Nothing) => {
                in_a_row = 0;
                if let Err(error) = readable.readable().await {
                    return SessionEnd::Failed(error);
                }
            }
            Ok(ReceiveOutcome::Unmounted) => return SessionEnd::Unmounted,
            Ok(ReceiveOutcome::Aborted) => return SessionEnd::Aborted,
            Err(error) => return SessionEnd::Failed(error),
        }
    }
}

/// Processes one message of `total` bytes. Waits for its place among the requests under way, and for its memory, which
/// other requests will return. Returns true if requests may come through the ring from now on.
async fn take<H: FuseHandler>(
    connection: &Rc<FuseConnection>,
    handler: &Rc<H>,
    inbox: &mut FuseInbox,
    total: usize,
) -> bool {
    let (header, body) = inbox.message(total);
    let request = match format::decode(header, body, connection.agreed.get()) {
        Ok(request) => request,
        Err(malformed) => {
            connection.refuse_malformed(malformed, None);
            return false;
        }
    };
    if let FuseOp::Init { major, flags } = request.op {
        return init(connection, handler.wishes(), &request, major, flags);
    }
    let arrival = IncomingRequest {
        connection,
        admission: connection.under_way.admit(0).await,
        came: RequestOrigin::Read(inbox),
        unique: request.unique,
    };
    handler.take(arrival, request).await;
    false
}

fn init(
    connection: &FuseConnection,
    wishes: InitOptions,
    request: &FuseRequest,
    major: u32,
    offered: u64,
) -> bool {
    let (channel, unique) = (&connection.channel, request.unique);
    if major < format::MAJOR {
        tracing::error!(major, "the kernel's FUSE protocol is too old");
        channel.reply_error(unique, libc::EPROTO);
        return false;
    }
    // A newer kernel reads our major version from the reply, and repeats the request with this version.
    let limits = InitReply {
        flags: wishes.flags,
        read_ahead: wishes.read_ahead,
        io_bytes_max: IO_BYTES_MAX as u32,
        background_max: BACKGROUND_MAX,
    };
    channel.reply(unique, &format::init_out(offered, limits));
    connection.agreed.set(wishes.flags & offered);
    // From here on the kernel uses the limit in this file. The reply to INIT can only lower the kernel's default of 128
    // KiB.
    if let Some(file) = &connection.read_ahead
        && let Err(error) = std::fs::write(file, (wishes.read_ahead >> 10).to_string())
    {
        tracing::debug!(%error, file = %file.display(), "cannot set the read-ahead; the kernel keeps its default");
    }
    wishes.flags & offered & init_flag::OVER_IO_URING != 0
}
