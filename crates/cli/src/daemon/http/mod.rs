//! The HTTP server: metrics, and with `--http` also the report as JSON and a page that shows the report as it changes.
//!
//! The interface is read-only and costs the volume little. The number of clients, the length of their requests and the
//! time for a request are bounded, and each connection serves a single request.
//!
//! Everyone with access to the address can read the answers. A foreign web page in a browser on this machine can also
//! reach the address. The browser does not let the page read the answers, since their origins differ. The foreign page
//! could fake the origin with a host name that resolves to this machine. Therefore, at a loopback address, only
//! requests that name a loopback host are answered.
//!
//! `request.rs` decodes requests, `answer.rs` makes the answers, `history.rs` keeps the last minutes, `page.html` is the
//! page.

mod answer;
mod history;
mod request;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use forebay_device::BufMut;
use forebay_linux::{SocketListener, SocketStream};

use super::Daemon;
use answer::answer;
use history::{SAMPLE_EVERY_S, VitalsHistory};

/// Maximum number of clients; a further connection is closed at once. Browsers open some connections in advance.
const CLIENTS_MAX: usize = 16;
/// The longest request, in bytes: browsers also send cookies that other servers at this host have set.
const REQUEST_BYTES_MAX: usize = 16 << 10;
/// Time for a client to send its request, and to fetch the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause when the process has no file descriptor left for a client.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// The content served at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HttpSite {
    /// Serve the page and the report, besides the metrics.
    page: bool,
    /// Answer only requests that call this machine by a loopback name or address.
    local: bool,
}

impl HttpSite {
    /// Serves the metrics alone.
    pub(super) const METRICS: HttpSite = HttpSite {
        page: false,
        local: false,
    };

    /// Returns a site with the page, the report and the metrics.
    pub(super) fn page_at(listener: &SocketListener) -> HttpSite {
        let address = listener.local_address();
        let local = address.is_some_and(|address| address.ip().to_canonical().is_loopback());
        HttpSite { page: true, local }
    }
}

/// Accepts clients forever.
pub(super) async fn listen(daemon: Rc<Daemon>, listener: SocketListener, site: HttpSite) {
    let clients = Rc::new(Cell::new(0));
    let history = Rc::new(RefCell::new(VitalsHistory::default()));
    if site.page {
        let sampled = sample(Rc::clone(&daemon), Rc::clone(&history));
        daemon.rt.spawn(sampled).detach();
    }
    loop {
        match listener.accept().await {
            Ok(_) if clients.get() >= CLIENTS_MAX => {}
            Ok(stream) => {
                let (daemon, clients) = (Rc::clone(&daemon), Rc::clone(&clients));
                let history = Rc::clone(&history);
                clients.set(clients.get() + 1);
                let rt = daemon.rt.clone();
                rt.spawn(async move {
                    serve(&daemon, &stream, site, &history).await;
                    clients.set(clients.get() - 1);
                })
                .detach();
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept an HTTP client");
                daemon.rt.sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}

/// Adds a sample to the history each second, forever.
async fn sample(daemon: Rc<Daemon>, history: Rc<RefCell<VitalsHistory>>) {
    loop {
        let uptime_s = daemon.rt.now().since(daemon.started).as_secs_f64();
        let status = daemon.volume.status();
        history.borrow_mut().push(uptime_s, &status);
        daemon.rt.sleep(Duration::from_secs(SAMPLE_EVERY_S)).await;
    }
}

async fn serve(
    daemon: &Daemon,
    stream: &SocketStream,
    site: HttpSite,
    history: &RefCell<VitalsHistory>,
) {
    let head = daemon.rt.timeout(PATIENCE, receive(stream)).await;
    let Ok(Some(head)) = head else { return };
    let answer = answer(&head, site, &history.borrow(), || daemon.report());
    let send = stream.send(BufMut::copy_of(answer.as_bytes()).freeze());
    let _ = daemon.rt.timeout(PATIENCE, send).await;
    let _ = stream.shutdown(std::net::Shutdown::Both);
}

/// Returns the head of the request; `None` if the head is incomplete or too long.
async fn receive(stream: &SocketStream) -> Option<Vec<u8>> {
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
