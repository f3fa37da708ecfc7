//! A client that does as it is told, right or wrong.

use std::rc::Rc;

use forebay_serve::nbd::Wire;
use forebay_serve::nbd::duplex::End;
use forebay_serve::nbd::format::{self, Reader, Request, chunk, command, option, reply};

/// A chunk of a structured reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Chunk {
    pub(crate) kind: u16,
    pub(crate) done: bool,
    pub(crate) cookie: u64,
    pub(crate) data: Vec<u8>,
}

impl Chunk {
    /// An error chunk's number and, if it has one, offset.
    pub(crate) fn error(&self) -> Option<(u32, Option<u64>)> {
        let mut reader = Reader(&self.data);
        let errno = reader.u32()?;
        let text = reader.u16()?;
        reader.bytes(text.into())?;
        match self.kind {
            chunk::ERROR => Some((errno, None)),
            chunk::ERROR_OFFSET => Some((errno, reader.u64())),
            _ => None,
        }
    }

    /// A block status chunk's context and extents.
    pub(crate) fn extents(&self) -> (u32, Vec<(u32, u32)>) {
        assert_eq!(self.kind, chunk::BLOCK_STATUS);
        let mut reader = Reader(&self.data);
        let context = reader.u32().unwrap();
        let extents = std::iter::from_fn(|| Some((reader.u32()?, reader.u32()?)));
        (context, extents.collect())
    }
}

pub(crate) struct Client {
    pub(crate) end: Rc<End>,
    cookie: u64,
}

pub(crate) fn info_query(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut data = string(name);
    data.extend_from_slice(&(wanted.len() as u16).to_be_bytes());
    data.extend(wanted.iter().flat_map(|info| info.to_be_bytes()));
    data
}

pub(crate) fn context_query(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = string(name);
    data.extend_from_slice(&(queries.len() as u32).to_be_bytes());
    data.extend(queries.iter().flat_map(|query| string(query)));
    data
}

fn string(text: &str) -> Vec<u8> {
    let mut data = (text.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(text.as_bytes());
    data
}

impl Client {
    pub(crate) fn new(end: Rc<End>) -> Client {
        Client { end, cookie: 0 }
    }

    /// Reads the greeting and answers it with `flags`.
    pub(crate) async fn greet(&self, flags: u32) {
        let greeting = self.end.read(18).await.unwrap();
        assert_eq!(greeting, format::greeting());
        self.end.write(&flags.to_be_bytes()).await.unwrap();
    }

    pub(crate) async fn send_option(&self, option: u32, data: &[u8]) {
        let mut bytes = format::OPTION_MAGIC.to_be_bytes().to_vec();
        bytes.extend_from_slice(&option.to_be_bytes());
        bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
        bytes.extend_from_slice(data);
        self.end.write(&bytes).await.unwrap();
    }

    /// Sends an option and gathers its replies up to the last.
    pub(crate) async fn option(&self, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send_option(option, data).await;
        let mut replies = Vec::new();
        loop {
            let header = self.end.read(20).await.unwrap();
            let mut reader = Reader(&header);
            assert_eq!(reader.u64(), Some(format::OPTION_REPLY_MAGIC));
            assert_eq!(reader.u32(), Some(option));
            let (kind, len) = (reader.u32().unwrap(), reader.u32().unwrap());
            replies.push((kind, self.end.read(len as usize).await.unwrap()));
            if kind == reply::ACK || kind >= reply::ERR_UNSUP {
                return replies;
            }
        }
    }

    /// Enters transmission with plain replies.
    pub(crate) async fn go(self) -> Client {
        self.greet(3).await;
        let replies = self.option(option::GO, &info_query("disk", &[])).await;
        assert_eq!(replies.last().unwrap().0, reply::ACK);
        self
    }

    /// Enters transmission with structured replies and these metadata contexts.
    pub(crate) async fn go_structured(self, contexts: &[&str]) -> Client {
        self.greet(3).await;
        self.option(option::STRUCTURED_REPLY, &[]).await;
        if !contexts.is_empty() {
            let query = context_query("disk", contexts);
            let replies = self.option(option::SET_META_CONTEXT, &query).await;
            assert_eq!(replies.len(), contexts.len() + 1);
        }
        self.option(option::GO, &info_query("disk", &[])).await;
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
        self.cookie += 1;
        let request = Request {
            flags,
            command,
            cookie: self.cookie,
            offset,
            len,
        };
        self.end.write(&request.encode()).await.unwrap();
        self.end.write(payload).await.unwrap();
        self.cookie
    }

    /// The next simple reply: its cookie and error.
    pub(crate) async fn simple(&self) -> (u64, u32) {
        let header = self.end.read(16).await.expect("a reply");
        let mut reader = Reader(&header);
        assert_eq!(reader.u32(), Some(format::SIMPLE_REPLY_MAGIC));
        let errno = reader.u32().unwrap();
        (reader.u64().unwrap(), errno)
    }

    /// The next chunk.
    pub(crate) async fn chunk(&self) -> Chunk {
        let header = self.end.read(20).await.expect("a chunk");
        let mut reader = Reader(&header);
        assert_eq!(reader.u32(), Some(format::CHUNK_MAGIC));
        let (flags, kind) = (reader.u16().unwrap(), reader.u16().unwrap());
        let (cookie, len) = (reader.u64().unwrap(), reader.u32().unwrap());
        Chunk {
            kind,
            done: flags & chunk::DONE != 0,
            cookie,
            data: self.end.read(len as usize).await.unwrap(),
        }
    }

    /// A request with a simple reply: its error, 0 if none.
    pub(crate) async fn call(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        len: u32,
        payload: &[u8],
    ) -> u32 {
        let cookie = self.send(command, flags, offset, len, payload).await;
        let (answered, errno) = self.simple().await;
        assert_eq!(answered, cookie);
        errno
    }

    pub(crate) async fn write(&mut self, offset: u64, data: &[u8]) -> u32 {
        self.call(command::WRITE, 0, offset, data.len() as u32, data)
            .await
    }

    /// A read with a simple reply.
    pub(crate) async fn read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, u32> {
        match self.call(command::READ, 0, offset, len, &[]).await {
            0 => Ok(self.end.read(len as usize).await.unwrap()),
            errno => Err(errno),
        }
    }

    /// The chunks that answer a request.
    pub(crate) async fn chunks(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        len: u32,
    ) -> Vec<Chunk> {
        let cookie = self.send(command, flags, offset, len, &[]).await;
        let mut chunks = Vec::new();
        loop {
            let chunk = self.chunk().await;
            assert_eq!(chunk.cookie, cookie);
            chunks.push(chunk.clone());
            if chunk.done {
                return chunks;
            }
        }
    }

    /// True once the server has closed the connection; whatever it sent before is thrown away.
    pub(crate) async fn is_cut_off(&self) -> bool {
        while self.end.read(1).await.is_some() {}
        true
    }

    /// Closes this end.
    pub(crate) fn hang_up(&self) {
        self.end.shutdown();
    }
}
