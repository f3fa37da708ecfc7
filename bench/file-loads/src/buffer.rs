//! Aligned memory for direct I/O.

/// Alignment, in bytes.
const ALIGN: usize = 4096;

/// Bytes that begin at a multiple of [`ALIGN`].
pub(crate) struct AlignedBytes {
    all: Vec<u8>,
    skip: usize,
    len: usize,
}

impl AlignedBytes {
    pub(crate) fn zeroed(len: usize) -> AlignedBytes {
        let all = vec![0; len + ALIGN];
        let skip = all.as_ptr().align_offset(ALIGN);
        AlignedBytes { all, skip, len }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.all[self.skip..self.skip + self.len]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.all[self.skip..self.skip + self.len]
    }
}
