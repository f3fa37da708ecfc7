//! The daemon's side of the control socket; docs/control.md describes the protocol.
//!
//! A client costs the volume only a little memory: the number of clients, the length of a request and the time to send
//! a request are bounded.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use forebay_control::{
    ControlRequest, NewLogRequest, REQUEST_BYTES_MAX, RemainingWork, VolumeActivity,
};
use forebay_device::BufMut;
use forebay_linux::{SocketListener, SocketStream};
use futures_util::future::{Either, select};

use super::discard::discard_unreadable;
use super::freeze::{freeze, thaw, thaw_commanded};
use super::replace_log::replace_log;
use super::resize::resize;
use super::status_socket::ControlAccess;
use super::stop::{check_front, end_service, hand_over_front, stop_front};
use super::tune::tune;
use super::waiting_client::WaitingClient;
use super::{Daemon, PROGRESS_EVERY, STUCK_PATIENCE, place, scrub};
use crate::report::{DaemonReply, left};
use forebay_command_output::failure::{CommandFailure, CommandResult};

/// Pause when the process has no file descriptor left for a client.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// Accepts clients forever.
pub(super) async fn listen(daemon: Rc<Daemon>, listener: SocketListener, access: ControlAccess) {
    let clients = Rc::new(Cell::new(0));
    loop {
        match listener.accept().await {
            Ok(_) if clients.get() >= access.clients_max() => {
                tracing::debug!("too many control clients");
            }
            Ok(stream) => {
                let (daemon, clients) = (Rc::clone(&daemon), Rc::clone(&clients));
                clients.set(clients.get() + 1);
                let rt = daemon.rt.clone();
                rt.spawn(async move {
                    ControlConnection::new(daemon, stream, access).serve().await;
                    clients.set(clients.get() - 1);
                })
                .detach();
                if let Some(pause) = access.pause() {
                    rt.sleep(pause).await;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a control client");
                daemon.rt.sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}

/// The client has disconnected or violates the protocol.
struct ClientGone;

struct ControlConnection {
    daemon: Rc<Daemon>,
    stream: SocketStream,
    access: ControlAccess,
    /// Bytes received after the last request.
    received: Vec<u8>,
}

impl ControlConnection {
    fn new(daemon: Rc<Daemon>, stream: SocketStream, access: ControlAccess) -> ControlConnection {
        ControlConnection {
            daemon,
            stream,
            access,
            received: Vec::new(),
        }
    }

    async fn serve(mut self) {
        while let Ok(Some(line)) = self.line().await {
            let answered = match serde_json::from_slice::<ControlRequest>(&line) {
                Ok(request) => self.answer(request).await,
                Err(error) => {
                    let failure = CommandFailure::usage(format!("not a request: {error}"));
                    let _ = self.say(&failure.into()).await;
                    return;
                }
            };
            if answered.is_err() {
                return;
            }
            if let Some(pause) = self.access.pause() {
                self.daemon.rt.sleep(pause).await;
            }
        }
    }

    /// Returns the next line without its newline; `None` at the end of the connection.
    async fn line(&mut self) -> Result<Option<Vec<u8>>, ClientGone> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let rest = self.received.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.received, rest);
                line.pop();
                return Ok(Some(line));
            }
            let room = REQUEST_BYTES_MAX - self.received.len().min(REQUEST_BYTES_MAX);
            if room == 0 {
                let text = format!("a request is at most {REQUEST_BYTES_MAX} bytes");
                let _ = self.say(&CommandFailure::usage(text).into()).await;
                return Err(ClientGone);
            }
            let receive = self.stream.recv(BufMut::zeroed(room));
            let received = self
                .daemon
                .rt
                .timeout(self.access.patience(), receive)
                .await;
            match received {
                Ok(Ok((_, 0))) => return Ok(None),
                Ok(Ok((buf, n))) => self.received.extend_from_slice(&buf[..n]),
                Ok(Err(_)) | Err(_) => return Err(ClientGone),
            }
        }
    }

    async fn say(&self, reply: &DaemonReply) -> Result<(), ClientGone> {
        let mut line = serde_json::to_vec(reply).map_err(|_| ClientGone)?;
        line.push(b'\n');
        let send = self.stream.send(BufMut::copy_of(&line).freeze());
        match self.daemon.rt.timeout(self.access.patience(), send).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(ClientGone),
        }
    }

    async fn answer(&self, request: ControlRequest) -> Result<(), ClientGone> {
        let daemon = &self.daemon;
        if let Some(refusal) = self.access.refusal(&request, &daemon.target.name) {
            return self.say(&refusal.into()).await;
        }
        match request {
            ControlRequest::Ping {} => {
                self.say(&DaemonReply::Pong {
                    name: daemon.target.name.to_string(),
                    pid: std::process::id(),
                })
                .await
            }
            ControlRequest::Status {} => {
                self.say(&DaemonReply::Status(Box::new(daemon.report())))
                    .await
            }
            ControlRequest::Place { start, end } => {
                let places = place::places(daemon, start, end).await;
                self.say(&DaemonReply::Places(Box::new(places))).await
            }
            ControlRequest::Drain { timeout_ms } => {
                self.drain_thawed(timeout_ms.map(Duration::from_millis))
                    .await
            }
            ControlRequest::Freeze { timeout_ms } => {
                let limit = Duration::from_millis(timeout_ms);
                let progress = async |left| self.say(&DaemonReply::Progress(left)).await;
                let frozen = freeze(daemon, limit, progress).await?;
                self.done(frozen).await
            }
            ControlRequest::Thaw {} => self.done(thaw_commanded(daemon)).await,
            ControlRequest::DiscardUnreadable {} => {
                let progress = async |left| self.say(&DaemonReply::Progress(left)).await;
                let discarded = discard_unreadable(daemon, progress).await?;
                self.done(discarded).await
            }
            ControlRequest::Resize { size } => {
                let resized = self
                    .with_progress(VolumeActivity::Resizing, resize(daemon, size))
                    .await;
                self.say(&resized.map_or_else(Into::into, DaemonReply::Resized))
                    .await
            }
            ControlRequest::Tune { placement } => {
                let tuned = self
                    .with_progress(VolumeActivity::ChangingPlacement, tune(daemon, placement))
                    .await;
                self.say(&tuned.map_or_else(Into::into, DaemonReply::Tuned))
                    .await
            }
            ControlRequest::ReplaceLog(wanted) => self.replace_log(wanted).await,
            ControlRequest::Scrub { rate } => self.say(&scrub::start(daemon, rate)).await,
            ControlRequest::StopScrub {} => self.say(&scrub::stop(daemon)).await,
            ControlRequest::Detach { keep_dirty } => {
                let waits = WaitingClient::new(daemon);
                let detached = self.detach(keep_dirty).await?;
                let said = self.ended(detached).await;
                drop(waits);
                said
            }
            ControlRequest::HandOver {} => {
                let left = self.hand_over().await;
                self.ended(left).await
            }
        }
    }

    async fn replace_log(&self, wanted: NewLogRequest) -> Result<(), ClientGone> {
        let _waits = WaitingClient::new(&self.daemon);
        let replacing = replace_log(&self.daemon, wanted);
        let replaced = self
            .with_progress(VolumeActivity::ReplacingLog, replacing)
            .await;
        self.say(&replaced.map_or_else(Into::into, DaemonReply::LogReplaced))
            .await
    }

    /// Reports the result of closing the volume and makes the daemon exit, or reports the reason why the volume stays
    /// open.
    async fn ended(&self, ended: CommandResult<CommandResult<u64>>) -> Result<(), ClientGone> {
        match ended {
            Ok(closed) => {
                let said = self.done(closed).await;
                self.end();
                said
            }
            Err(failure) => self.done(Err(failure)).await,
        }
    }

    /// Makes the daemon exit.
    fn end(&self) {
        self.daemon.detached.set(true);
        self.daemon.changed.notify_all();
    }

    async fn done(&self, outcome: CommandResult<u64>) -> Result<(), ClientGone> {
        let reply = match outcome {
            Ok(dirty_bytes) => DaemonReply::Done {
                dirty_bytes,
                warning: self.daemon.volume.warning(),
                incomplete: self.daemon.devices.now().lengths.of_data(),
            },
            Err(failure) => failure.into(),
        };
        self.say(&reply).await
    }

    /// Drains the volume on command, unless it is frozen.
    async fn drain_thawed(&self, timeout: Option<Duration>) -> Result<(), ClientGone> {
        let daemon = &self.daemon;
        let _waits = WaitingClient::new(daemon);
        let drained = match daemon.freeze.check_thawed(daemon.target.name.as_str()) {
            Ok(()) => self.drain(timeout, DrainAudience::Needed).await?,
            Err(frozen) => Err(frozen),
        };
        self.done(drained).await
    }

    /// Drains and reports progress. Ends early if a needed client disconnects, the time limit is reached, the daemon
    /// must stop, or the data device fails without progress.
    async fn drain(
        &self,
        timeout: Option<Duration>,
        audience: DrainAudience,
    ) -> Result<CommandResult<u64>, ClientGone> {
        let daemon = &self.daemon;
        let rt = &daemon.rt;
        let deadline = timeout.map(|timeout| rt.now().plus(timeout));
        let (mut least, mut least_since) = (u64::MAX, rt.now());
        let mut draining = pin!(daemon.volume.drain());
        loop {
            let stopped = daemon.changed.until(|| daemon.stopping.get().then_some(()));
            let pause = rt.timeout(PROGRESS_EVERY, stopped);
            let drained = match select(draining.as_mut(), pin!(pause)).await {
                Either::Left((drained, _)) => Some(drained),
                Either::Right((Ok(()), _)) => return Ok(Err(self.stopped())),
                Either::Right((Err(_), _)) => None,
            };
            if let Some(drained) = drained {
                let left = daemon.volume.status().summary().dirty_bytes;
                return Ok(drained.map(|()| left).map_err(|error| {
                    let name = &daemon.target.name;
                    CommandFailure::io(format!(
                        "cannot drain {name}: {error}; see `forebay status`"
                    ))
                }));
            }
            let status = daemon.volume.status();
            let left = left(&status);
            if left.bytes() < least {
                (least, least_since) = (left.bytes(), rt.now());
            }
            let stuck = rt.now().since(least_since) > STUCK_PATIENCE;
            if deadline.is_some_and(|deadline| rt.now() >= deadline)
                || (status.summary().drain_fails && stuck)
            {
                return Ok(Err(self.not_drained()));
            }
            let said = self.say(&DaemonReply::Progress(left)).await;
            if audience == DrainAudience::Needed {
                said?;
            }
        }
    }

    fn stopped(&self) -> CommandFailure {
        let name = &self.daemon.target.name;
        CommandFailure::general(format!(
            "{name} is not drained: its daemon is stopping; the rest stays in the log"
        ))
    }

    fn not_drained(&self) -> CommandFailure {
        let daemon = &self.daemon;
        let why = match daemon.volume.what_is_left() {
            Some(error) => error.to_string(),
            None => "not all of it is durable yet".into(),
        };
        let name = &daemon.target.name;
        CommandFailure::io(format!(
            "{name} is not drained: {why}; the rest stays in the log, drain again to continue"
        ))
    }

    /// Runs `work` to completion, whether the client waits or not, and reports progress meanwhile.
    async fn with_progress<T>(&self, doing: VolumeActivity, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            let pause = pin!(self.daemon.rt.sleep(PROGRESS_EVERY));
            if let Either::Left((done, _)) = select(work.as_mut(), pause).await {
                return done;
            }
            let left = RemainingWork {
                doing,
                ..left(&self.daemon.volume.status())
            };
            if self.say(&DaemonReply::Progress(left)).await.is_err() {
                return work.await;
            }
        }
    }

    fn no_clients(&self) -> CommandResult {
        let daemon = &self.daemon;
        match daemon.nbd_connections() - daemon.kernel_connections() {
            0 => Ok(()),
            n => Err(CommandFailure::refused(format!(
                "cannot detach {}: {n} NBD clients are connected; disconnect them first",
                daemon.target.name
            ))),
        }
    }

    /// Leaves the block device as it is to the next daemon, and returns the result of closing the volume. The close
    /// makes acknowledged writes durable, since the next daemon may start much later. Even if the close fails, only the
    /// next daemon can serve the device from then on.
    async fn hand_over(&self) -> CommandResult<CommandResult<u64>> {
        let daemon = &self.daemon;
        self.no_clients()?;
        hand_over_front(daemon).await?;
        let ended = self
            .with_progress(VolumeActivity::Closing, end_service(daemon))
            .await;
        Ok(ended.map_err(|error| {
            let name = &daemon.target.name;
            let text =
                format!("{name} is left to the next daemon, but could not be closed: {error}");
            CommandFailure::new(error.code, text)
        }))
    }

    /// Drains while the block device is still in use, and removes the device afterwards. Until then the volume stays
    /// attached as before, even if the data device fails or the client disconnects. The removal refuses if the device
    /// is in use. It also writes back the data that the kernel has cached for the device, and this data is drained as
    /// well. Returns the result of closing the volume; even if the close fails, the volume is no longer served.
    async fn detach(
        &self,
        keep_dirty: bool,
    ) -> Result<CommandResult<CommandResult<u64>>, ClientGone> {
        let daemon = &self.daemon;
        let name = &daemon.target.name;
        thaw(daemon);
        // An unmounted filesystem is closed even if its device fails: it could not be mounted again from here.
        let drains = !keep_dirty && daemon.mounted.is_none();
        if drains {
            if let Err(failure) = self.drain_in_use().await? {
                return Ok(Err(failure));
            }
            // A client that disconnected at the end of the drain has not seen the result, and expects the volume as
            // before.
            let left = left(&daemon.volume.status());
            self.say(&DaemonReply::Progress(left)).await?;
        }
        if let Err(failure) = self.no_clients() {
            return Ok(Err(failure));
        }
        if let Err(failure) = self
            .with_progress(VolumeActivity::WritingBack, stop_front(daemon))
            .await
        {
            return Ok(Err(self.not_detached(&failure)));
        }
        // Drain the data written since, including the kernel's write-back. The device is gone, so this drain goes on
        // even if the client disconnects.
        if drains && let Err(failure) = self.drain(None, DrainAudience::MayGo).await? {
            if daemon.stopping.get() {
                return Ok(Err(failure));
            }
            return Ok(Err(CommandFailure::new(
                failure.code,
                format!(
                    "{failure}; {name} no longer has a block device, but is still attached: detach again when the \
                     data device works, or leave the rest in the log with --keep-dirty"
                ),
            )));
        }
        let ended = self
            .with_progress(VolumeActivity::Closing, end_service(daemon))
            .await;
        Ok(Ok(ended.map_err(|error| {
            let text = match daemon.mounted {
                None => format!("{name} is detached, but was not closed cleanly: {error}"),
                Some(_) => format!(
                    "{name} is unmounted, but was not closed cleanly: {error}; the next mount recovers the durable \
                     data when the device works"
                ),
            };
            CommandFailure::new(error.code, text)
        })))
    }

    /// Does the long part of a detach while the block device stays in use: the checks and the drain.
    async fn drain_in_use(&self) -> Result<CommandResult, ClientGone> {
        let daemon = &self.daemon;
        if let Err(failure) = self.no_clients() {
            return Ok(Err(failure));
        }
        // Check before a drain that would be useless.
        if let Err(failure) = check_front(daemon).await {
            return Ok(Err(self.not_detached(&failure)));
        }
        let drained = self.drain(None, DrainAudience::Needed).await?;
        Ok(drained.map(drop).map_err(|failure| {
            let name = &daemon.target.name;
            if daemon.stopping.get() {
                return failure;
            }
            CommandFailure::new(
                failure.code,
                format!(
                    "{failure}; {name} is still attached (at {}): detach again when the data device works, or leave the \
                     rest in the log with --keep-dirty",
                    daemon.endpoint()
                ),
            )
        }))
    }

    fn not_detached(&self, failure: &CommandFailure) -> CommandFailure {
        let daemon = &self.daemon;
        let name = &daemon.target.name;
        let at = match daemon.block_device.name() {
            // The failure text already contains the kernel's name of the device.
            Some(device) if Some(&device) != daemon.block_device.kernel_name().as_ref() => {
                format!(" ({device})")
            }
            _ => String::new(),
        };
        CommandFailure::new(failure.code, format!("cannot detach {name}{at}: {failure}"))
    }
}

/// Tells whether a drain ends when the client that receives its progress disconnects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DrainAudience {
    Needed,
    MayGo,
}
