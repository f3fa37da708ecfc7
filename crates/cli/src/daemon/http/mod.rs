//! What is given out over HTTP: metrics; and with `--http` also the report as JSON, and a page for people
//! that shows it as it changes.
//!
//! It can only be read, and costs the volume little: clients, the length of what they ask and the time they
//! take are bounded, and a connection is for one request.
//!
//! Who may read it is who reaches the address. A page of a stranger that is open in a browser on this
//! machine reaches it too, but may not read the answers, as the browser sees from which place both are. Such
//! a page could pretend to be that place, by letting its own name mean this machine: so at an address of this
//! machine, only requests that call it so are answered.
//!
//! `request.rs` reads what is asked, `answer.rs` says what is answered, `page.html` is the page.

mod answer;
mod request;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::BufMut;
use forebay_os::{Listener, Stream};

use super::Daemon;
use answer::answer;

/// Clients at a time; the next is closed at once. Browsers open some in advance.
const CLIENTS_MAX: usize = 16;
/// The longest request, in bytes: browsers send what others at this machine's address have them keep.
const REQUEST_BYTES_MAX: usize = 16 << 10;
/// How long a client may take for its request and for the answer, each.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait when the process has no descriptor left for a client.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// What there is at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Site {
    /// The page and the report, besides the metrics.
    page: bool,
    /// Only those are answered who call this machine by its own address.
    local: bool,
}

impl Site {
    /// Metrics and nothing else.
    pub(super) const METRICS: Site = Site {
        page: false,
        local: false,
    };

    /// All there is.
    pub(super) fn page_at(listener: &Listener) -> Site {
        let address = listener.local_address();
        let local = address.is_some_and(|address| address.ip().to_canonical().is_loopback());
        Site { page: true, local }
    }
}

/// Takes clients for ever.
pub(super) async fn listen(daemon: Rc<Daemon>, listener: Listener, site: Site) {
    let clients = Rc::new(Cell::new(0));
    loop {
        match listener.accept().await {
            Ok(_) if clients.get() >= CLIENTS_MAX => {}
            Ok(stream) => {
                let (daemon, clients) = (Rc::clone(&daemon), Rc::clone(&clients));
                clients.set(clients.get() + 1);
                let rt = daemon.rt.clone();
                rt.spawn(async move {
                    serve(&daemon, &stream, site).await;
                    clients.set(clients.get() - 1);
                })
                .detach();
            }
            Err(error) => {
                tracing::warn!(%error, "cannot take an HTTP client");
                daemon.rt.sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}

async fn serve(daemon: &Daemon, stream: &Stream, site: Site) {
    let head = daemon.rt.timeout(PATIENCE, receive(stream)).await;
    let Ok(Some(head)) = head else { return };
    let answer = answer(&head, site, || daemon.report());
    let send = stream.send(BufMut::copy_of(answer.as_bytes()).freeze());
    let _ = daemon.rt.timeout(PATIENCE, send).await;
    let _ = stream.shutdown(std::net::Shutdown::Both);
}

/// The request's head; `None` if there is none of reasonable length.
async fn receive(stream: &Stream) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    loop {
        let room = REQUEST_BYTES_MAX
            .checked_sub(head.len())
            .filter(|n| *n > 0)?;
        let (buf, n) = stream.recv(BufMut::zeroed(room)).await.ok()?;
        if n == 0 {
            return None;
        }
        head.extend_from_slice(&buf[..n]);
        if head.windows(4).any(|window| window == b"\r\n\r\n") {
            return Some(head);
        }
    }
}
