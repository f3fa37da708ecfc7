//! An NBD client for programs and tests that use a served volume without the kernel's driver.
//!
//! [`NbdClient`] runs over any byte stream. It sends what the caller asks for, valid or not, so that tests can try servers
//! with it. [`BlockingNbdClient`] wraps it over a socket for callers without an executor.

use std::future::Future;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use futures_util::future::FutureExt;

use crate::codec::format::client::{
    self, ChunkHeader, OPTION_REPLY_BYTES, OptionReply, SimpleReply,
};
use crate::codec::format::{
    CHUNK_BYTES, NbdRequest, SIMPLE_REPLY_BYTES, WireReader, chunk, command, greeting,
    handshake_flag, info, option, reply,
};

/// Limit on the length of an option's reply or of a chunk, in bytes. A longer reply cannot come from a server.
const REPLY_BYTES_MAX: u32 = 64 << 20;
/// Answer to the greeting of a client that agrees to everything offered.
const FLAGS: u32 = (handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES) as u32;

/// A byte stream to a server.
pub trait ServerStream {
    /// Receives exactly `n` bytes.
    ///
    /// # Errors
    /// If the stream fails or ends.
    fn read(&self, n: usize) -> impl Future<Output = io::Result<Vec<u8>>>;

    /// Sends all of `parts`, one after the other.
    ///
    /// # Errors
    /// If the stream fails.
    fn write(&self, parts: &[&[u8]]) -> impl Future<Output = io::Result<()>>;
}

/// A chunk of a structured reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplyChunk {
    /// Kind of the chunk, cookie of its request, and the flag of the last chunk.
    pub header: ChunkHeader,
    /// Payload.
    pub data: Vec<u8>,
}

impl ReplyChunk {
    /// Decodes an error chunk: its error number, and the offset of the error if the chunk contains an offset. `None`
    /// for other chunks.
    pub fn error(&self) -> Option<(u32, Option<u64>)> {
        let mut reader = WireReader(&self.data);
        let errno = reader.u32()?;
        let text = reader.u16()?;
        reader.bytes(text.into())?;
        match self.header.kind {
            chunk::ERROR => Some((errno, None)),
            chunk::ERROR_OFFSET => Some((errno, reader.u64())),
            _ => None,
        }
    }

    /// Decodes a block status chunk: the number of the context, and length and value of each extent. `None` for other
    /// chunks.
    pub fn extents(&self) -> Option<(u32, Vec<(u32, u32)>)> {
        if self.header.kind != chunk::BLOCK_STATUS {
            return None;
        }
        let mut reader = WireReader(&self.data);
        let context = reader.u32()?;
        let extents = std::iter::from_fn(|| Some((reader.u32()?, reader.u32()?)));
        Some((context, extents.collect()))
    }
}

/// A connection to a server. One task uses it at a time; it may have several requests under way.
pub struct NbdClient<P> {
    peer: P,
    cookie: u64,
}

fn garbage(what: &str) -> io::Error {
    let text = format!("not an NBD server: {what}");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

impl<P: ServerStream> NbdClient<P> {
    /// Creates a client; sends nothing yet.
    pub fn new(peer: P) -> NbdClient<P> {
        NbdClient { peer, cookie: 0 }
    }

    /// Returns the stream.
    pub fn peer(&self) -> &P {
        &self.peer
    }

    /// Receives the greeting and answers it with `flags`.
    ///
    /// # Errors
    /// If the stream ends, breaks, or contains something else. The same holds for all methods below.
    pub async fn greet(&self, flags: u32) -> io::Result<()> {
        if self.peer.read(greeting().len()).await? != greeting() {
            return Err(garbage("an unexpected greeting"));
        }
        self.peer.write(&[&flags.to_be_bytes()]).await
    }

    /// Sends an option without waiting for its replies.
    ///
    /// # Errors
    /// If the stream fails.
    pub async fn send_option(&self, option: u32, data: &[u8]) -> io::Result<()> {
        self.peer.write(&[&client::option(option, data)]).await
    }

    /// Sends an option, and returns the kind and data of all its replies, including the last.
    ///
    /// # Errors
    /// If the stream fails, or the server answers another option.
    pub async fn option(&self, option: u32, data: &[u8]) -> io::Result<Vec<(u32, Vec<u8>)>> {
        self.send_option(option, data).await?;
        let mut replies = Vec::new();
        loop {
            let header = OptionReply::decode(&self.peer.read(OPTION_REPLY_BYTES).await?);
            let header = header.filter(|h| h.option == option && h.len <= REPLY_BYTES_MAX);
            let header = header.ok_or_else(|| garbage("an unexpected reply to an option"))?;
            let data = self.peer.read(header.len as usize).await?;
            replies.push((header.reply, data));
            if header.reply == reply::ACK || header.reply >= reply::ERR_UNSUP {
                return Ok(replies);
            }
        }
    }

    /// Asks to use the export `name`, and returns its length in bytes.
    ///
    /// # Errors
    /// If the stream fails, the server refuses the export, or the answer has no length.
    pub async fn go(&self, name: &str) -> io::Result<u64> {
        let replies = self
            .option(option::GO, &client::info_query(name, &[]))
            .await?;
        if replies.last().is_none_or(|(kind, _)| *kind != reply::ACK) {
            return Err(io::Error::other("the server refuses the export"));
        }
        let len = replies.iter().find_map(|(_, data)| {
            let mut reader = WireReader(data);
            (reader.u16()? == info::EXPORT).then(|| reader.u64())?
        });
        len.ok_or_else(|| garbage("no size"))
    }

    /// Sends a request without waiting for its reply. Returns the request's cookie.
    ///
    /// # Errors
    /// If the stream fails.
    pub async fn send(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        len: u32,
        payload: &[u8],
    ) -> io::Result<u64> {
        self.cookie += 1;
        let request = NbdRequest {
            flags,
            command,
            cookie: self.cookie,
            offset,
            len,
        };
        self.peer.write(&[&request.encode(), payload]).await?;
        Ok(self.cookie)
    }

    /// Receives the next simple reply.
    ///
    /// # Errors
    /// If the stream fails, or the reply is not a simple one.
    pub async fn simple(&self) -> io::Result<SimpleReply> {
        let header = self.peer.read(SIMPLE_REPLY_BYTES).await?;
        SimpleReply::decode(&header).ok_or_else(|| garbage("an unexpected reply"))
    }

    /// Receives the next chunk.
    ///
    /// # Errors
    /// If the stream fails, or the reply is not a chunk.
    pub async fn chunk(&self) -> io::Result<ReplyChunk> {
        let header = ChunkHeader::decode(&self.peer.read(CHUNK_BYTES).await?);
        let header = header.filter(|header| header.len <= REPLY_BYTES_MAX);
        let header = header.ok_or_else(|| garbage("an unexpected chunk"))?;
        let data = self.peer.read(header.len as usize).await?;
        Ok(ReplyChunk { header, data })
    }

    /// Sends a request with a simple reply, while no other is under way. Returns the reply's error number, 0 on
    /// success. The data of a read follows on the stream.
    ///
    /// # Errors
    /// If the stream fails, or the reply is not that of the request.
    pub async fn call(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        len: u32,
        payload: &[u8],
    ) -> io::Result<u32> {
        let cookie = self.send(command, flags, offset, len, payload).await?;
        match self.simple().await? {
            reply if reply.cookie == cookie => Ok(reply.errno),
            _ => Err(garbage("a reply to another request")),
        }
    }

    /// Sends a request, while no other is under way, and returns the chunks of its answer.
    ///
    /// # Errors
    /// If the stream fails, or a chunk is not of the request.
    pub async fn chunks(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        len: u32,
    ) -> io::Result<Vec<ReplyChunk>> {
        let cookie = self.send(command, flags, offset, len, &[]).await?;
        let mut chunks = Vec::new();
        loop {
            let chunk = self.chunk().await?;
            let header = chunk.header;
            if header.cookie != cookie {
                return Err(garbage("a chunk for another request"));
            }
            chunks.push(chunk);
            if header.done {
                return Ok(chunks);
            }
        }
    }
}

/// A blocking socket: its futures are ready when they are first polled.
struct BlockingSocket(UnixStream);

impl ServerStream for BlockingSocket {
    async fn read(&self, n: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; n];
        (&self.0).read_exact(&mut bytes)?;
        Ok(bytes)
    }

    async fn write(&self, parts: &[&[u8]]) -> io::Result<()> {
        (&self.0).write_all(&parts.concat())
    }
}

fn now<T>(done: impl Future<Output = T>) -> T {
    done.now_or_never().expect("a blocking stream never waits")
}

/// A connection to one export over a unix socket, with one request at a time: enough to use a volume without root.
pub struct BlockingNbdClient {
    client: NbdClient<BlockingSocket>,
    len: u64,
}

impl BlockingNbdClient {
    /// Connects to the export `name` at the unix socket `path`.
    ///
    /// # Errors
    /// If the connection fails, or the server has no such export.
    pub fn connect(path: &Path, name: &str) -> io::Result<BlockingNbdClient> {
        let client = NbdClient::new(BlockingSocket(UnixStream::connect(path)?));
        now(client.greet(FLAGS))?;
        let len = now(client.go(name))?;
        Ok(BlockingNbdClient { client, len })
    }

    /// Returns the export's length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if the export has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn call(&mut self, command: u16, at: u64, len: u32, data: &[u8]) -> io::Result<()> {
        match now(self.client.call(command, 0, at, len, data))? {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno as i32)),
        }
    }

    /// Reads `len` bytes from byte `at`.
    ///
    /// # Errors
    /// The server's error, or the fault of the connection.
    pub fn read(&mut self, at: u64, len: u32) -> io::Result<Vec<u8>> {
        self.call(command::READ, at, len, &[])?;
        now(self.client.peer.read(len as usize))
    }

    /// Writes `data` at byte `at`.
    ///
    /// # Errors
    /// Those of [`BlockingNbdClient::read`].
    pub fn write(&mut self, at: u64, data: &[u8]) -> io::Result<()> {
        self.call(command::WRITE, at, data.len() as u32, data)
    }

    /// Trims `len` bytes from byte `at`.
    ///
    /// # Errors
    /// Those of [`BlockingNbdClient::read`].
    pub fn trim(&mut self, at: u64, len: u32) -> io::Result<()> {
        self.call(command::TRIM, at, len, &[])
    }

    /// Makes all previous writes durable.
    ///
    /// # Errors
    /// Those of [`BlockingNbdClient::read`].
    pub fn flush(&mut self) -> io::Result<()> {
        self.call(command::FLUSH, 0, 0, &[])
    }
}

impl Drop for BlockingNbdClient {
    fn drop(&mut self) {
        // An error is harmless: the server is gone already.
        let _ = now(self.client.send(command::DISC, 0, 0, 0, &[]));
    }
}
