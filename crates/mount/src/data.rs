//! Data of files.

use forebay_device::Buf;
use forebay_dfs::{Fallocate, NewAttributes, Result};
use forebay_fuse::{self as format, open_flag};

use crate::handler::{Answer, Files};

// Modes of FALLOCATE (`linux/falloc.h`).
const KEEP_SIZE: u32 = 0x01;
const PUNCH_HOLE: u32 = 0x02;
const ZERO_RANGE: u32 = 0x10;

impl Files {
    pub(crate) async fn open(&self, file: u64, flags: u32, kill: bool) -> Answer {
        if flags & libc::O_TRUNC.cast_unsigned() != 0 {
            if kill {
                self.take_privileges(file).await?;
            }
            let new = NewAttributes {
                size: Some(0),
                ..NewAttributes::default()
            };
            self.fs.set(file, &new).await?;
        }
        Ok(format::open_out(open_flags(flags)).to_vec())
    }

    pub(crate) async fn write(&self, file: u64, at: u64, data: Buf, kill: bool) -> Answer {
        let len = data.len() as u32;
        if kill {
            self.take_privileges(file).await?;
        }
        self.fs.write(file, Some(at), data).await?;
        Ok(format::write_out(len).to_vec())
    }

    pub(crate) async fn seek(&self, file: u64, at: u64, hole: bool) -> Answer {
        let found = self.fs.seek(file, at, hole).await?;
        Ok(format::seek_out(found).to_vec())
    }

    /// None if there is no such mode.
    pub(crate) async fn fallocate(
        &self,
        file: u64,
        at: u64,
        len: u64,
        mode: u32,
    ) -> Option<Result<()>> {
        let keep_size = mode & KEEP_SIZE != 0;
        let what = match mode & !KEEP_SIZE {
            0 => Fallocate::Reserve { keep_size },
            PUNCH_HOLE if keep_size => Fallocate::Punch,
            ZERO_RANGE => Fallocate::Zero { keep_size },
            _ => return None,
        };
        Some(self.fs.fallocate(file, at, len, what).await)
    }
}

/// How a file is opened: what is in the page cache stays right.
pub(crate) fn open_flags(flags: u32) -> u32 {
    let direct = flags & libc::O_DIRECT.cast_unsigned() != 0;
    match direct {
        true => open_flag::DIRECT_IO | open_flag::PARALLEL_DIRECT_WRITES,
        false => open_flag::KEEP_CACHE,
    }
}
