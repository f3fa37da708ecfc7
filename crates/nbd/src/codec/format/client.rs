//! The client's side: its messages, and the server's answers.

use super::{
    CHUNK_BYTES, CHUNK_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, SIMPLE_REPLY_BYTES,
    SIMPLE_REPLY_MAGIC, WireReader, chunk,
};

/// Bytes of a reply to an option before its data.
pub const OPTION_REPLY_BYTES: usize = 20;

/// Returns an option with its data.
///
/// # Panics
/// If the data is longer than the length field allows.
pub fn option(option: u32, data: &[u8]) -> Vec<u8> {
    let mut out = OPTION_MAGIC.to_be_bytes().to_vec();
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&len(data).to_be_bytes());
    out.extend_from_slice(data);
    out
}

/// Returns the data of the options `INFO` and `GO`: the name of the export, and the codes of the wanted properties.
pub fn info_query(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut data = string(name);
    data.extend_from_slice(&(wanted.len() as u16).to_be_bytes());
    data.extend(wanted.iter().flat_map(|info| info.to_be_bytes()));
    data
}

/// Returns the data of the options about metadata contexts.
pub fn context_query(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = string(name);
    data.extend_from_slice(&(queries.len() as u32).to_be_bytes());
    data.extend(queries.iter().flat_map(|query| string(query)));
    data
}

fn string(text: &str) -> Vec<u8> {
    [&len(text.as_bytes()).to_be_bytes(), text.as_bytes()].concat()
}

fn len(data: &[u8]) -> u32 {
    u32::try_from(data.len()).expect("it is short")
}

/// A reply to an option, before its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionReply {
    /// Code of the answered option.
    pub option: u32,
    /// See [`super::reply`].
    pub reply: u32,
    /// Bytes of data that follow.
    pub len: u32,
}

impl OptionReply {
    /// Decodes the first [`OPTION_REPLY_BYTES`] of `bytes`; `None` if they are not a reply to an option.
    pub fn decode(bytes: &[u8]) -> Option<OptionReply> {
        let mut reader = WireReader(bytes);
        (reader.u64()? == OPTION_REPLY_MAGIC).then_some(())?;
        Some(OptionReply {
            option: reader.u32()?,
            reply: reader.u32()?,
            len: reader.u32()?,
        })
    }
}

/// A simple reply, before the data of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimpleReply {
    /// 0 or an error number.
    pub errno: u32,
    /// Cookie of the request.
    pub cookie: u64,
}

impl SimpleReply {
    /// Decodes the first [`SIMPLE_REPLY_BYTES`] of `bytes`; `None` if they are not a simple reply.
    pub fn decode(bytes: &[u8]) -> Option<SimpleReply> {
        let mut reader = WireReader(bytes.get(..SIMPLE_REPLY_BYTES)?);
        (reader.u32()? == SIMPLE_REPLY_MAGIC).then_some(())?;
        Some(SimpleReply {
            errno: reader.u32()?,
            cookie: reader.u64()?,
        })
    }
}

/// A chunk of a structured reply, before its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkHeader {
    /// See [`super::chunk`].
    pub kind: u16,
    /// True for the last chunk of a reply.
    pub done: bool,
    /// Cookie of the request.
    pub cookie: u64,
    /// Bytes of payload that follow.
    pub len: u32,
}

impl ChunkHeader {
    /// Decodes the first [`CHUNK_BYTES`] of `bytes`; `None` if they are not a chunk.
    pub fn decode(bytes: &[u8]) -> Option<ChunkHeader> {
        let mut reader = WireReader(bytes.get(..CHUNK_BYTES)?);
        (reader.u32()? == CHUNK_MAGIC).then_some(())?;
        Some(ChunkHeader {
            done: reader.u16()? & chunk::DONE != 0,
            kind: reader.u16()?,
            cookie: reader.u64()?,
            len: reader.u32()?,
        })
    }
}
