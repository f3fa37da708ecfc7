//! A client that sends valid and invalid requests, and expects a correct server at the other end.

use std::rc::Rc;

use forebay_nbd::NbdWire;
use forebay_nbd::client::{self, ReplyChunk};
use forebay_nbd::codec::format::client::context_query;
use forebay_nbd::codec::format::{command, option};
use forebay_nbd::duplex::DuplexEnd;

pub(crate) struct DuplexClient {
    pub(crate) end: Rc<DuplexEnd>,
    client: client::NbdClient<Rc<DuplexEnd>>,
}

impl DuplexClient {
    pub(crate) fn new(end: Rc<DuplexEnd>) -> DuplexClient {
        DuplexClient {
            client: client::NbdClient::new(Rc::clone(&end)),
            end,
        }
    }

    /// Reads the greeting and answers it with `flags`.
    pub(crate) async fn greet(&self, flags: u32) {
        self.client.greet(flags).await.unwrap();
    }

    pub(crate) async fn send_option(&self, option: u32, data: &[u8]) {
        self.client.send_option(option, data).await.unwrap();
    }

    /// Sends an option, and returns all its replies, including the last.
    pub(crate) async fn option(&self, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.client.option(option, data).await.unwrap()
    }

    /// Enters transmission with simple replies.
    pub(crate) async fn go(self) -> DuplexClient {
        self.greet(3).await;
        self.client.go("disk").await.unwrap();
        self
    }

    /// Enters transmission with structured replies and these metadata contexts.
    pub(crate) async fn go_structured(self, contexts: &[&str]) -> DuplexClient {
        self.greet(3).await;
        self.option(option::STRUCTURED_REPLY, &[]).await;
        if !contexts.is_empty() {
            let query = context_query("disk", contexts);
            let replies = self.option(option::SET_META_CONTEXT, &query).await;
            assert_eq!(replies.len(), contexts.len() + 1);
        }
        self.client.go("disk").await.unwrap();
        self
    }

    /// Sends a request without waiting for its reply. Returns its cookie.
    pub(crate) async fn send(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        len: u32,
        payload: &[u8],
    ) -> u64 {
        let sent = self.client.send(command, flags, offset, len, payload);
        sent.await.unwrap()
    }

    /// Receives the next simple reply: its cookie and error number.
    pub(crate) async fn simple(&self) -> (u64, u32) {
        let reply = self.client.simple().await.unwrap();
        (reply.cookie, reply.errno)
    }

    /// Sends a request with a simple reply, and returns the error number, 0 on success.
    pub(crate) async fn call(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        len: u32,
        payload: &[u8],
    ) -> u32 {
        let answered = self.client.call(command, flags, offset, len, payload);
        answered.await.unwrap()
    }

    pub(crate) async fn write(&mut self, offset: u64, data: &[u8]) -> u32 {
        self.call(command::WRITE, 0, offset, data.len() as u32, data)
            .await
    }

    /// Sends a read with a simple reply.
    pub(crate) async fn read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, u32> {
        match self.call(command::READ, 0, offset, len, &[]).await {
            0 => Ok(self.end.read(len as usize).await.unwrap()),
            errno => Err(errno),
        }
    }

    /// Sends a request, and returns the chunks that answer it.
    pub(crate) async fn chunks(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        len: u32,
    ) -> Vec<ReplyChunk> {
        let answered = self.client.chunks(command, flags, offset, len);
        answered.await.unwrap()
    }

    /// Returns true once the server has closed the connection. Drops all bytes sent before.
    pub(crate) async fn is_cut_off(&self) -> bool {
        while self.end.read(1).await.is_some() {}
        true
    }

    /// Closes this end.
    pub(crate) fn hang_up(&self) {
        self.end.shutdown();
    }
}
