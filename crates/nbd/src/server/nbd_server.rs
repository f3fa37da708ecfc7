//! The server: its connections, and their start and end.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;

use forebay_frontend::requests::RequestMemory;
use forebay_rt::{BudgetAccount, Event, Rt};
use futures_util::future::{Either, select};

use super::connection::NbdConnection;
use super::export::{ExportError, ExportList, NbdExport};
use super::handshake::{self, NbdSession};
use super::hangup::HangupReason;
use super::inbox::{self, NbdInbox};
use super::limits::ClientLimits;
use super::outbox;
use super::transmission::{read_requests, send_replies};
use super::wire::NbdWire;

/// The memory that a connection needs to make progress, in bytes.
const CONNECTION_RESERVE: u64 = inbox::RESERVE + outbox::RESERVE;

/// The server's state of one connection.
#[derive(Default)]
struct ClientState {
    /// The server has asked the connection to end.
    stopped: Cell<bool>,
    stop: Event,
    serving: Cell<bool>,
}

impl ClientState {
    fn stop(&self) {
        self.stopped.set(true);
        self.stop.notify_all();
    }

    async fn stopped(&self) {
        self.stop.until(|| self.stopped.get().then_some(())).await;
    }
}

struct NbdServerState {
    rt: Rt,
    exports: Rc<ExportList>,
    limits: ClientLimits,
    memory: RequestMemory,
    /// The accounts of unused connection slots: one account for receiving and one for replying. The accounts are
    /// separate, so that a client that sends a write before it receives the answers of its reads can still receive
    /// them. All are opened at the start, so a new connection need not wait for others.
    accounts: RefCell<Vec<(BudgetAccount, BudgetAccount)>>,
    /// The connections in order of their arrival.
    clients: RefCell<BTreeMap<u64, Rc<ClientState>>>,
    next_client: Cell<u64>,
    closing: Cell<bool>,
    /// Notified when `closing` becomes true.
    closed: Event,
    /// Notified when a client leaves.
    left: Event,
}

/// Serves exports to every connection that is passed to it. Clones share the server.
#[derive(Clone)]
pub struct NbdServer(Rc<NbdServerState>);

impl NbdServer {
    /// Creates a server of `exports` that runs on `rt` and takes buffers from `memory`. The first export is the
    /// default.
    ///
    /// # Errors
    /// If two exports have the same name, or `exports` is empty.
    pub fn new(
        rt: Rt,
        exports: Vec<NbdExport>,
        mut limits: ClientLimits,
        memory: &RequestMemory,
    ) -> Result<NbdServer, ExportError> {
        let reserves = memory.accounts_max(CONNECTION_RESERVE);
        let accounts = (0..limits.connections.min(reserves)).map_while(|_| {
            let receiving = memory.account(inbox::RESERVE)?;
            Some((receiving, memory.account(outbox::RESERVE)?))
        });
        let accounts: Vec<_> = accounts.collect();
        limits.connections = accounts.len();
        limits.handshakes = limits.handshakes.min(limits.connections.div_ceil(2));
        Ok(NbdServer(Rc::new(NbdServerState {
            rt,
            exports: Rc::new(ExportList::new(exports)?),
            limits,
            memory: memory.clone(),
            accounts: RefCell::new(accounts),
            clients: RefCell::default(),
            next_client: Cell::default(),
            closing: Cell::default(),
            closed: Event::new(),
            left: Event::new(),
        })))
    }

    /// Returns the number of connections.
    pub fn connections(&self) -> usize {
        self.0.clients.borrow().len()
    }

    /// Serves a new connection. Closes the connection instead if a limit is reached, or if the server is closing.
    pub fn connect(&self, wire: Rc<dyn NbdWire>) {
        self.take_over(wire, None);
    }

    /// Serves a connection whose client already knows the default export from elsewhere, as the kernel's driver does.
    /// The connection begins with requests and gets simple replies. Otherwise like [`NbdServer::connect`].
    pub fn connect_without_handshake(&self, wire: Rc<dyn NbdWire>) {
        let session = NbdSession::plain(Rc::clone(self.default_export()));
        self.take_over(wire, Some(session));
    }

    fn take_over(&self, wire: Rc<dyn NbdWire>, agreed: Option<NbdSession>) {
        let inner = &self.0;
        let accounts = if inner.closing.get() {
            None
        } else {
            inner.accounts.borrow_mut().pop()
        };
        let Some(accounts) = accounts else {
            tracing::debug!(target: "forebay::nbd", "connection refused");
            wire.shutdown();
            return;
        };
        if agreed.is_none() {
            self.make_room_for_handshake();
        }
        let id = inner.next_client.replace(inner.next_client.get() + 1);
        let client = Rc::new(ClientState::default());
        inner.clients.borrow_mut().insert(id, Rc::clone(&client));
        let server = Rc::clone(inner);
        let task = async move {
            let (receiving, replying) = accounts.clone();
            let served = server.serve(&client, &wire, agreed, receiving, replying);
            let hangup = served.await;
            wire.shutdown();
            tracing::debug!(target: "forebay::nbd", client = id, "connection ended: {hangup}");
            server.clients.borrow_mut().remove(&id);
            server.accounts.borrow_mut().push(accounts);
            server.left.notify_all();
        };
        inner.rt.spawn(task).detach();
    }

    /// Stops the oldest connection in the handshake phase if too many are in this phase. Silent clients must not block
    /// others.
    fn make_room_for_handshake(&self) {
        let clients = self.0.clients.borrow();
        let haggling = || {
            let all = clients.values();
            all.filter(|client| !client.serving.get() && !client.stopped.get())
        };
        if haggling().count() >= self.0.limits.handshakes
            && let Some(oldest) = haggling().next()
        {
            oldest.stop();
        }
    }

    /// Returns the export for a client that names none.
    pub(crate) fn default_export(&self) -> &Rc<NbdExport> {
        self.0.exports.default()
    }

    /// Waits for a call of [`NbdServer::shutdown`].
    pub(super) async fn closing(&self) {
        let closing = || self.0.closing.get().then_some(());
        self.0.closed.until(closing).await;
    }

    pub(super) fn rt(&self) -> &Rt {
        &self.0.rt
    }

    /// Shuts the server down: accepts no more connections or requests, finishes those under way, sends the replies, and
    /// closes. For a client that does not receive its replies, the server waits at most [`ClientLimits::stall_time`].
    pub async fn shutdown(&self) {
        self.0.closing.set(true);
        self.0.closed.notify_all();
        for client in self.0.clients.borrow().values() {
            client.stop();
        }
        let gone = || self.0.clients.borrow().is_empty().then_some(());
        self.0.left.until(gone).await;
    }
}

impl NbdServerState {
    /// Serves one connection from greeting to end, or from the first request if `agreed` replaces the handshake.
    async fn serve(
        &self,
        client: &ClientState,
        wire: &Rc<dyn NbdWire>,
        agreed: Option<NbdSession>,
        receiving: BudgetAccount,
        replying: BudgetAccount,
    ) -> HangupReason {
        let (rt, memory, stall) = (&self.rt, &self.memory, self.limits.stall_time);
        let mut inbox = NbdInbox::new(
            rt.clone(),
            Rc::clone(wire),
            memory.clone(),
            receiving,
            stall,
        );
        let session = match agreed {
            Some(session) => session,
            None => match unless_stopped(client, self.haggle(&mut inbox, &**wire)).await {
                Ok(session) => session,
                Err(hangup) => return hangup,
            },
        };
        client.serving.set(true);
        let (rt, memory) = (rt.clone(), memory.clone());
        let conn = NbdConnection::new(rt, session, memory, replying, self.limits).await;
        let conn = Rc::new(conn);
        let sender = send_replies(Rc::clone(&conn), Rc::clone(wire), stall);
        let sender = self.rt.spawn(sender);
        let hangup = unless_stopped(client, async {
            Err::<(), _>(read_requests(&conn, &mut inbox).await)
        })
        .await
        .err()
        .unwrap_or(HangupReason::Stopped);
        if matches!(hangup, HangupReason::Garbage(_) | HangupReason::Stalled) {
            // The client violated the protocol, so it gets no more answers.
            wire.shutdown();
        }
        conn.close();
        sender.await;
        hangup
    }

    async fn haggle(
        &self,
        inbox: &mut NbdInbox,
        wire: &dyn NbdWire,
    ) -> Result<NbdSession, HangupReason> {
        let haggling = handshake::negotiate(inbox, wire, &self.exports);
        let limit = self.limits.handshake_time;
        let outcome = self.rt.timeout(limit, haggling).await;
        outcome.unwrap_or(Err(HangupReason::Stalled))
    }
}

async fn unless_stopped<T>(
    client: &ClientState,
    work: impl Future<Output = Result<T, HangupReason>>,
) -> Result<T, HangupReason> {
    match select(pin!(work), pin!(client.stopped())).await {
        Either::Left((outcome, _)) => outcome,
        Either::Right(_) => Err(HangupReason::Stopped),
    }
}
