//! The reader behind the C functions: a file together with its reader.

use std::fs::File;

use sleds::{FileReader, ReadOptions, ReadPlan};

use crate::state::{self, ErrnoCode};

self_cell::self_cell!(
    /// A reader together with its file. Dropping the reader closes the file.
    struct OwnedReader {
        owner: File,
        #[not_covariant]
        dependent: FileReader,
    }
);

/// A piece in the memory of its reader, which keeps it until the next piece.
pub(crate) struct LentPiece {
    pub(crate) data: *const u8,
    pub(crate) length: usize,
    pub(crate) offset: u64,
}

/// A reader for C.
pub(crate) struct ReaderSession {
    reader: OwnedReader,
    /// Result of all further calls, after the last piece or an error.
    end: Option<Result<(), ErrnoCode>>,
}

impl ReaderSession {
    pub(crate) fn new(file: File, options: ReadOptions) -> Result<ReaderSession, ErrnoCode> {
        if options.chunk == 0 {
            return Err(libc::EINVAL);
        }
        let reader = OwnedReader::try_new(file, |file| FileReader::new(file, options));
        let reader = reader.map_err(|error| state::of_io(&error))?;
        Ok(ReaderSession { reader, end: None })
    }

    /// Returns the next piece; `None` after the last.
    pub(crate) fn next_piece(&mut self) -> Result<Option<LentPiece>, ErrnoCode> {
        if let Some(end) = self.end {
            return end.map(|()| None);
        }
        let next = self.reader.with_dependent_mut(|_, reader| {
            let piece = reader.next_piece()?;
            Ok(piece.map(|piece| LentPiece {
                data: piece.data.as_ptr(),
                length: piece.data.len(),
                offset: piece.offset,
            }))
        });
        let next = next.map_err(|error| state::of_io(&error));
        match &next {
            Ok(Some(_)) => {}
            Ok(None) => self.end = Some(Ok(())),
            Err(errno) => self.end = Some(Err(*errno)),
        }
        next
    }

    /// Returns the order in use.
    pub(crate) fn plan(&self) -> ReadPlan {
        self.reader.with_dependent(|_, reader| reader.plan())
    }
}
