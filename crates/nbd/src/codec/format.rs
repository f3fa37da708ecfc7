//! The encoding of the whole protocol, and nothing else.
//!
//! Protocol: `doc/proto.md` of the NBD project. All integers are big-endian. Decoding takes untrusted bytes: it returns
//! `None` for malformed input, and allocates nothing.

pub mod client;

/// First word of the server's greeting, `NBDMAGIC`.
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Second word of the greeting and first of every option, `IHAVEOPT`.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// First word of a reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// First word of a request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// First word of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// First word of a chunk of a structured reply.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Bytes of the client's flags that answer the greeting.
pub const CLIENT_FLAGS_BYTES: usize = 4;
/// Bytes of an option before its data.
pub const OPTION_BYTES: usize = 16;
/// Bytes of a request before its payload.
pub const REQUEST_BYTES: usize = 28;
/// Bytes of a simple reply before its payload.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Bytes of a chunk before its payload.
pub const CHUNK_BYTES: usize = 20;
/// Longest string the protocol allows, in bytes.
pub const STRING_BYTES_MAX: usize = 4096;

/// Flags of the greeting, and, with the same values, of the client's answer to it.
pub mod handshake_flag {
    /// Unknown options are answered with an error; the connection continues.
    pub const FIXED_NEWSTYLE: u16 = 1 << 0;
    /// The 124 zeroes after `EXPORT_NAME` are left out.
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Flags with the capabilities of an export.
pub mod export_flag {
    /// Always set.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Writes are refused.
    pub const READ_ONLY: u16 = 1 << 1;
    /// `FLUSH` works.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// The FUA flag is honoured.
    pub const SEND_FUA: u16 = 1 << 3;
    /// `TRIM` works.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// `WRITE_ZEROES` works.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// The don't-fragment flag is honoured. Only with structured replies.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush on one connection covers the writes of all.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// The fast-zero flag is understood.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Flags of a request.
pub mod command_flag {
    /// The effect is durable before the reply.
    pub const FUA: u16 = 1 << 0;
    /// `WRITE_ZEROES` must not free the space.
    pub const NO_HOLE: u16 = 1 << 1;
    /// `READ` is answered in one chunk.
    pub const DF: u16 = 1 << 2;
    /// `BLOCK_STATUS` is answered with one extent.
    pub const REQ_ONE: u16 = 1 << 3;
    /// `WRITE_ZEROES` is refused if it would be no faster than writing.
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Codes of options.
pub mod option {
    /// Choose an export, the old way: the only answer is the export's size.
    pub const EXPORT_NAME: u32 = 1;
    /// End the session.
    pub const ABORT: u32 = 2;
    /// List the names of the exports.
    pub const LIST: u32 = 3;
    /// Ask about an export.
    pub const INFO: u32 = 6;
    /// Ask about an export and enter it.
    pub const GO: u32 = 7;
    /// Agree on replies in chunks.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// List the metadata contexts.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Choose the metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Codes of replies to options.
pub mod reply {
    /// Done.
    pub const ACK: u32 = 1;
    /// An export's name and description.
    pub const SERVER: u32 = 2;
    /// A property of an export; see [`super::info`].
    pub const INFO: u32 = 3;
    /// A metadata context's number and name.
    pub const META_CONTEXT: u32 = 4;
    /// The option is unknown.
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    /// The option's data is malformed, or the option came at the wrong time.
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    /// The export does not exist.
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    /// The option's data is too long.
    pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;
}

/// Codes of an export's properties.
pub mod info {
    /// Its length and flags.
    pub const EXPORT: u16 = 0;
    /// Its own name.
    pub const NAME: u16 = 1;
    /// Its description.
    pub const DESCRIPTION: u16 = 2;
    /// The smallest, preferred and largest size of a request.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Codes of requests.
pub mod command {
    /// Read.
    pub const READ: u16 = 0;
    /// Write; the payload follows.
    pub const WRITE: u16 = 1;
    /// Finish the requests under way and end the session. Not answered.
    pub const DISC: u16 = 2;
    /// Make completed writes durable.
    pub const FLUSH: u16 = 3;
    /// The range is no longer needed.
    pub const TRIM: u16 = 4;
    /// Make the range read as zeroes.
    pub const WRITE_ZEROES: u16 = 6;
    /// Return the state of the range.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Kinds of chunks of a structured reply.
pub mod chunk {
    /// The end of the reply, without data.
    pub const NONE: u16 = 0;
    /// An offset and data.
    pub const OFFSET_DATA: u16 = 1;
    /// A context's number and its extents.
    pub const BLOCK_STATUS: u16 = 5;
    /// The request failed.
    pub const ERROR: u16 = (1 << 15) + 1;
    /// The request failed at an offset.
    pub const ERROR_OFFSET: u16 = (1 << 15) + 2;
    /// Flag of the last chunk of a reply.
    pub const DONE: u16 = 1;
}

/// The errors a reply can carry. Values are the protocol's, which are Linux's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum NbdErrno {
    /// Not allowed: a write to a read-only export.
    Perm = 1,
    /// The device failed.
    Io = 5,
    /// No memory.
    NoMem = 12,
    /// The request is invalid.
    Inval = 22,
    /// A write past the end, or no space.
    NoSpc = 28,
    /// The answer would be too large.
    Overflow = 75,
    /// The request cannot be met in the requested way: a fast zero that would not be fast.
    NotSup = 95,
    /// The server is shutting down.
    Shutdown = 108,
}

/// Reads integers and strings off the front of a byte slice.
#[derive(Clone, Copy, Debug)]
pub struct WireReader<'a>(pub &'a [u8]);

impl<'a> WireReader<'a> {
    /// Reads `n` bytes.
    pub fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(front)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*front)
    }

    /// Reads a 16-bit number.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads a 32-bit number.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a 64-bit number.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a string after its length. `None` also if it is longer than the protocol allows, or not UTF-8.
    pub fn string(&mut self) -> Option<&'a str> {
        let len = usize::try_from(self.u32()?).ok()?;
        if len > STRING_BYTES_MAX {
            return None;
        }
        std::str::from_utf8(self.bytes(len)?).ok()
    }

    /// Returns `Some` if all bytes are read.
    pub fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// An option before its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionHeader {
    /// Code of the option; see [`option`].
    pub option: u32,
    /// Bytes of data that follow. An untrusted value.
    pub len: u32,
}

impl OptionHeader {
    /// Decodes the first [`OPTION_BYTES`] of `bytes`; `None` if `bytes` is shorter or the magic is wrong.
    pub fn decode(bytes: &[u8]) -> Option<OptionHeader> {
        let mut reader = WireReader(bytes);
        (reader.u64()? == OPTION_MAGIC).then_some(())?;
        Some(OptionHeader {
            option: reader.u32()?,
            len: reader.u32()?,
        })
    }
}

/// The data of `INFO` and `GO`.
#[derive(Clone, Copy, Debug)]
pub struct InfoQuery<'a> {
    /// Name of the export.
    pub name: &'a str,
    wanted: &'a [u8],
}

impl<'a> InfoQuery<'a> {
    /// Decodes the whole data of the option.
    pub fn decode(data: &'a [u8]) -> Option<InfoQuery<'a>> {
        let mut reader = WireReader(data);
        let name = reader.string()?;
        let n = usize::from(reader.u16()?);
        let wanted = reader.bytes(n * 2)?;
        reader.end()?;
        Some(InfoQuery { name, wanted })
    }

    /// Returns true if the client asked for `info`.
    pub fn wants(&self, info: u16) -> bool {
        self.wanted.chunks_exact(2).any(|w| w == info.to_be_bytes())
    }
}

/// The data of `LIST_META_CONTEXT` and `SET_META_CONTEXT`.
#[derive(Clone, Copy, Debug)]
pub struct ContextQuery<'a> {
    /// Name of the export.
    pub name: &'a str,
    /// Number of queries.
    pub count: u32,
    queries: WireReader<'a>,
}

impl<'a> ContextQuery<'a> {
    /// Decodes the whole data of the option, and validates all queries.
    pub fn decode(data: &'a [u8]) -> Option<ContextQuery<'a>> {
        let mut reader = WireReader(data);
        let name = reader.string()?;
        let count = reader.u32()?;
        let queries = reader;
        for _ in 0..count {
            reader.string()?;
        }
        reader.end()?;
        Some(ContextQuery {
            name,
            count,
            queries,
        })
    }

    /// Returns the queries.
    pub fn queries(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut reader = self.queries;
        std::iter::from_fn(move || reader.string())
    }
}

/// A request before its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NbdRequest {
    /// See [`command_flag`].
    pub flags: u16,
    /// See [`command`].
    pub command: u16,
    /// The client's own number for the request, which the reply repeats.
    pub cookie: u64,
    /// Offset of the first byte.
    pub offset: u64,
    /// Length in bytes.
    pub len: u32,
}

impl NbdRequest {
    /// Decodes the first [`REQUEST_BYTES`] of `bytes`; `None` if `bytes` is shorter or the magic is wrong.
    pub fn decode(bytes: &[u8]) -> Option<NbdRequest> {
        let mut reader = WireReader(bytes);
        (reader.u32()? == REQUEST_MAGIC).then_some(())?;
        Some(NbdRequest {
            flags: reader.u16()?,
            command: reader.u16()?,
            cookie: reader.u64()?,
            offset: reader.u64()?,
            len: reader.u32()?,
        })
    }

    /// Encodes the request as a client sends it.
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut out = [0; REQUEST_BYTES];
        out[0..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        out[4..6].copy_from_slice(&self.flags.to_be_bytes());
        out[6..8].copy_from_slice(&self.command.to_be_bytes());
        out[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        out[16..24].copy_from_slice(&self.offset.to_be_bytes());
        out[24..28].copy_from_slice(&self.len.to_be_bytes());
        out
    }
}

/// Returns the server's greeting.
pub fn greeting() -> [u8; 18] {
    let flags = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
    let mut out = [0; 18];
    out[0..8].copy_from_slice(&INIT_MAGIC.to_be_bytes());
    out[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    out[16..18].copy_from_slice(&flags.to_be_bytes());
    out
}

/// Appends a reply to `option` of the kind `reply`, with its data in parts.
///
/// # Panics
/// If the data is longer than the length field allows.
pub fn option_reply(out: &mut Vec<u8>, option: u32, reply: u32, data: &[&[u8]]) {
    let len: usize = data.iter().map(|part| part.len()).sum();
    let len = u32::try_from(len).expect("a reply to an option is short");
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&reply.to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
    for part in data {
        out.extend_from_slice(part);
    }
}

/// Returns a simple reply; `None` is success. The data of a successful read follows the reply.
pub fn simple_reply(cookie: u64, error: Option<NbdErrno>) -> [u8; SIMPLE_REPLY_BYTES] {
    let error = error.map_or(0, |errno| errno as u32);
    let mut out = [0; SIMPLE_REPLY_BYTES];
    out[0..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    out[4..8].copy_from_slice(&error.to_be_bytes());
    out[8..16].copy_from_slice(&cookie.to_be_bytes());
    out
}

/// Returns a chunk's header; `len` bytes follow.
pub fn chunk_header(cookie: u64, kind: u16, done: bool, len: u32) -> [u8; CHUNK_BYTES] {
    let flags = if done { chunk::DONE } else { 0 };
    let mut out = [0; CHUNK_BYTES];
    out[0..4].copy_from_slice(&CHUNK_MAGIC.to_be_bytes());
    out[4..6].copy_from_slice(&flags.to_be_bytes());
    out[6..8].copy_from_slice(&kind.to_be_bytes());
    out[8..16].copy_from_slice(&cookie.to_be_bytes());
    out[16..20].copy_from_slice(&len.to_be_bytes());
    out
}

/// Returns the front of a data chunk; `len` bytes of data, from `offset` of the export, follow.
pub fn data_chunk(cookie: u64, done: bool, offset: u64, len: u32) -> [u8; CHUNK_BYTES + 8] {
    let mut out = [0; CHUNK_BYTES + 8];
    let header = chunk_header(cookie, chunk::OFFSET_DATA, done, len + 8);
    out[..CHUNK_BYTES].copy_from_slice(&header);
    out[CHUNK_BYTES..].copy_from_slice(&offset.to_be_bytes());
    out
}

/// Returns an error chunk without a text, with an offset if `offset` is given.
pub fn error_chunk(cookie: u64, done: bool, errno: NbdErrno, offset: Option<u64>) -> Vec<u8> {
    let (kind, len) = match offset {
        None => (chunk::ERROR, 6),
        Some(_) => (chunk::ERROR_OFFSET, 14),
    };
    let mut out = Vec::with_capacity(CHUNK_BYTES + 14);
    out.extend_from_slice(&chunk_header(cookie, kind, done, len));
    out.extend_from_slice(&(errno as u32).to_be_bytes());
    out.extend_from_slice(&0u16.to_be_bytes());
    if let Some(offset) = offset {
        out.extend_from_slice(&offset.to_be_bytes());
    }
    out
}

/// Returns a block status chunk: lengths and flags of `extents` in the context numbered `context`.
///
/// # Panics
/// If a chunk cannot carry the number of extents.
pub fn status_chunk(cookie: u64, done: bool, context: u32, extents: &[(u32, u32)]) -> Vec<u8> {
    let len = u32::try_from(4 + extents.len() * 8).expect("few extents");
    let mut out = Vec::with_capacity(CHUNK_BYTES + 4 + extents.len() * 8);
    out.extend_from_slice(&chunk_header(cookie, chunk::BLOCK_STATUS, done, len));
    out.extend_from_slice(&context.to_be_bytes());
    for (len, flags) in extents {
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(&flags.to_be_bytes());
    }
    out
}

#[cfg(test)]
mod tests;
