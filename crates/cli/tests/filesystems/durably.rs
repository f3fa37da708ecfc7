//! The ways in which a program asks for durability, and writes in each way.
//!
//! After a buffered write, the kernel sends FSYNC. After a direct write, it sends nothing: the flags of the write are
//! the only request for durability. AIO and io_uring write in one of these ways.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use forebay_device::BufMut;
use forebay_rng::Rng;
use rustix::fs::OFlags;
use rustix::io::ReadWriteFlags;

/// Unit of direct writes, in bytes.
pub(crate) const PAGE: usize = 4096;

/// A way to write: buffered or direct, and the request for durability.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WriteMethod {
    pub(crate) direct: bool,
    asks: DurabilityMethod,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DurabilityMethod {
    /// By flags of the open file.
    Open(OFlags),
    /// By flags of the write.
    Write(ReadWriteFlags),
    /// By a separate call, for data alone or for data and metadata.
    Call { data_only: bool },
}

/// Returns all ways.
pub(crate) fn ways() -> Vec<WriteMethod> {
    let asks = [
        DurabilityMethod::Open(OFlags::DSYNC),
        DurabilityMethod::Open(OFlags::SYNC),
        DurabilityMethod::Write(ReadWriteFlags::DSYNC),
        DurabilityMethod::Write(ReadWriteFlags::SYNC),
        DurabilityMethod::Call { data_only: true },
        DurabilityMethod::Call { data_only: false },
    ];
    let both = |asks| [false, true].map(|direct| WriteMethod { direct, asks });
    asks.into_iter().flat_map(both).collect()
}

impl WriteMethod {
    /// Returns a random way.
    pub(crate) fn any(numbers: &Rng) -> WriteMethod {
        numbers.pick(&ways())
    }

    /// Writes to an existing file, and returns when the data is durable.
    pub(crate) fn write(self, path: &Path, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut flags = OFlags::empty();
        if self.direct {
            flags |= OFlags::DIRECT;
        }
        if let DurabilityMethod::Open(more) = self.asks {
            flags |= more;
        }
        let mut options = File::options();
        let file = options
            .write(true)
            .custom_flags(flags.bits().cast_signed())
            .open(path)?;
        // Memory of direct writes is aligned.
        let memory = BufMut::copy_of(bytes);
        match self.asks {
            DurabilityMethod::Open(_) => file.write_all_at(&memory, at),
            DurabilityMethod::Write(flags) => {
                let written = rustix::io::pwritev2(&file, &[IoSlice::new(&memory)], at, flags)?;
                assert_eq!(written, bytes.len(), "written in part");
                Ok(())
            }
            DurabilityMethod::Call { data_only } => {
                file.write_all_at(&memory, at)?;
                if data_only {
                    file.sync_data()
                } else {
                    file.sync_all()
                }
            }
        }
    }
}
