//! A small NBD client, one request at a time: enough to use a volume without root.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

const GREETING: [u8; 16] = *b"NBDMAGICIHAVEOPT";
/// Fixed newstyle, no zeroes after the export's flags.
const CLIENT_FLAGS: u32 = 3;
const OPT_GO: u32 = 7;
const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REP_ACK: u32 = 1;
const REP_INFO: u32 = 3;
const INFO_EXPORT: u16 = 0;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
const CMD_READ: u16 = 0;
const CMD_WRITE: u16 = 1;
const CMD_DISCONNECT: u16 = 2;
const CMD_FLUSH: u16 = 3;
/// An option's reply is short; more is not from a server.
const OPTION_REPLY_MAX: u32 = 64 << 10;

/// A connection to one export.
pub(crate) struct NbdClient {
    stream: UnixStream,
    len: u64,
}

fn garbage(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("not an NBD server: {what}"),
    )
}

fn take<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

impl NbdClient {
    /// Connects to the export `name` at the unix socket `path`.
    pub(crate) fn connect(path: &Path, name: &str) -> io::Result<NbdClient> {
        let mut stream = UnixStream::connect(path)?;
        if take::<16>(&mut stream)? != GREETING {
            return Err(garbage("another greeting"));
        }
        let _server_flags: [u8; 2] = take(&mut stream)?;
        let mut go = CLIENT_FLAGS.to_be_bytes().to_vec();
        go.extend_from_slice(b"IHAVEOPT");
        go.extend_from_slice(&OPT_GO.to_be_bytes());
        go.extend_from_slice(&(name.len() as u32 + 6).to_be_bytes());
        go.extend_from_slice(&(name.len() as u32).to_be_bytes());
        go.extend_from_slice(name.as_bytes());
        go.extend_from_slice(&0u16.to_be_bytes());
        stream.write_all(&go)?;
        let mut len = None;
        loop {
            if u64::from_be_bytes(take(&mut stream)?) != REPLY_MAGIC {
                return Err(garbage("another option reply"));
            }
            let _option: [u8; 4] = take(&mut stream)?;
            let kind = u32::from_be_bytes(take(&mut stream)?);
            let size = u32::from_be_bytes(take(&mut stream)?);
            if size > OPTION_REPLY_MAX {
                return Err(garbage("an endless option reply"));
            }
            let mut data = vec![0; size as usize];
            stream.read_exact(&mut data)?;
            match kind {
                REP_ACK => break,
                REP_INFO => len = len.or_else(|| export_len(&data)),
                _ => return Err(io::Error::other("the server refuses the export")),
            }
        }
        let len = len.ok_or_else(|| garbage("no size"))?;
        Ok(NbdClient { stream, len })
    }

    /// The export's length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    fn request(&mut self, command: u16, at: u64, len: u32, data: &[u8]) -> io::Result<()> {
        let mut request = REQUEST_MAGIC.to_be_bytes().to_vec();
        request.extend_from_slice(&0u16.to_be_bytes());
        request.extend_from_slice(&command.to_be_bytes());
        request.extend_from_slice(&0u64.to_be_bytes());
        request.extend_from_slice(&at.to_be_bytes());
        request.extend_from_slice(&len.to_be_bytes());
        request.extend_from_slice(data);
        self.stream.write_all(&request)
    }

    fn reply(&mut self) -> io::Result<()> {
        if u32::from_be_bytes(take(&mut self.stream)?) != SIMPLE_REPLY_MAGIC {
            return Err(garbage("another reply"));
        }
        let errno = u32::from_be_bytes(take(&mut self.stream)?);
        let _cookie: [u8; 8] = take(&mut self.stream)?;
        match errno {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno as i32)),
        }
    }

    /// Reads `len` bytes from byte `at`.
    pub(crate) fn read(&mut self, at: u64, len: u32) -> io::Result<Vec<u8>> {
        self.request(CMD_READ, at, len, &[])?;
        self.reply()?;
        let mut data = vec![0; len as usize];
        self.stream.read_exact(&mut data)?;
        Ok(data)
    }

    /// Writes `data` at byte `at`.
    pub(crate) fn write(&mut self, at: u64, data: &[u8]) -> io::Result<()> {
        self.request(CMD_WRITE, at, data.len() as u32, data)?;
        self.reply()
    }

    /// Makes durable what was written.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.request(CMD_FLUSH, 0, 0, &[])?;
        self.reply()
    }
}

fn export_len(info: &[u8]) -> Option<u64> {
    let (kind, rest) = info.split_first_chunk::<2>()?;
    let len = rest.first_chunk::<8>()?;
    (u16::from_be_bytes(*kind) == INFO_EXPORT).then_some(u64::from_be_bytes(*len))
}

impl Drop for NbdClient {
    fn drop(&mut self) {
        // If it is gone already, so much the better.
        let _ = self.request(CMD_DISCONNECT, 0, 0, &[]);
    }
}
