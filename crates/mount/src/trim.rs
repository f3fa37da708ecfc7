//! `fstrim`: discards free space on the device.
//!
//! With `discard = on`, a log-structured space discards segments when they become free, so nothing is left for
//! `fstrim`. Without it, as is usual on an image, `fstrim` is the administrator's way to give free space back.

use forebay_fuse::codec::FuseRequest;

use crate::error::IoctlResult;
use crate::handler::MountedFiles;

/// `_IOWR('X', 121, struct fstrim_range)`: start, length and the minimum length of a range, in bytes.
pub(crate) const FITRIM: u32 = 0xc018_5879;
/// The smallest supported minimum length.
const UNIT: u64 = 4096;

impl MountedFiles {
    /// Discards free segments, and answers the number of bytes of free space that were discarded.
    pub(crate) async fn trim(&self, request: &FuseRequest, data: &[u8]) -> IoctlResult {
        if request.user != 0 {
            return Err(libc::EPERM.into());
        }
        let mut fields = data.chunks_exact(8).map(|field| {
            let bytes = field.try_into().unwrap_or_default();
            u64::from_ne_bytes(bytes)
        });
        let mut next = || fields.next().ok_or(libc::EINVAL);
        let (start, len, least) = (next()?, next()?, next()?);
        let before = self.fs.room();
        if start >= before.bytes || len < UNIT || least > before.bytes {
            return Err(libc::EINVAL.into());
        }
        let range = start..start.saturating_add(len);
        let discarded = self.fs.space().discard_free(range).await;
        let discarded = discarded.map_err(forebay_dfs::FsError::from)?;
        // Segments that are kept free for cleaning are not part of the free space.
        let done = discarded.min(self.fs.room().free);
        let out = [start, done, least];
        Ok(out.into_iter().flat_map(u64::to_ne_bytes).collect())
    }
}
