//! Recorded requests, repeated without end.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_sim::trace::{self, TraceFormat, TraceFormatError};
use forebay_units::SECTOR_BYTES;

use super::{PAGE_BYTES, PageAccess, Workload};

const PAGE_SECTORS: u64 = PAGE_BYTES / SECTOR_BYTES;
/// The longest request, in pages. Longer requests are split.
const REQUEST_PAGES_MAX: u32 = 16;

/// The traces of the study.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StudyTrace {
    /// An OLTP system, similar to the SPC's Financial1.
    Oltp,
    /// A week of a workstation of 1992: mail and editing.
    Workstation,
    /// Two hours of a virtual machine.
    VirtualMachine,
    /// PostMark, a mail server's benchmark.
    PostMark,
}

impl StudyTrace {
    /// All traces.
    pub const ALL: [StudyTrace; 4] = [
        StudyTrace::Oltp,
        StudyTrace::Workstation,
        StudyTrace::VirtualMachine,
        StudyTrace::PostMark,
    ];

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            StudyTrace::Oltp => "OLTP",
            StudyTrace::Workstation => "workstation",
            StudyTrace::VirtualMachine => "virtual machine",
            StudyTrace::PostMark => "PostMark (mail)",
        }
    }

    /// Returns the name of the file.
    pub fn file(self) -> &'static str {
        match self {
            StudyTrace::Oltp => "oltp-financial1-like.ascii",
            StudyTrace::Workstation => "hplajw-1week.srt",
            StudyTrace::VirtualMachine => "cloudphysics.vscsi",
            StudyTrace::PostMark => "postmark.disksim",
        }
    }

    /// Reads the beginning of the trace that touches at most `most` pages, from `folder`.
    ///
    /// # Errors
    /// If the file is missing or is not a trace.
    pub fn read(self, folder: &Path, most: usize) -> Result<TracedWorkload, TraceError> {
        let path = folder.join(self.file());
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) => return Err(TraceError::File { path, error }),
        };
        let format = TraceFormat::of_name(self.file()).ok_or(TraceError::Empty)?;
        TracedWorkload::new(&format.read(&bytes, usize::MAX)?, most)
    }
}

/// Reason why a trace cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("{} cannot be read: {error}", .path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Reason of the failure.
        error: std::io::Error,
    },
    /// The file is not a trace.
    #[error(transparent)]
    Bytes(#[from] TraceFormatError),
    /// The trace has no requests.
    #[error("it has no requests")]
    Empty,
}

/// Recorded requests, which users issue as fast as they complete.
///
/// The workload contains only the touched pages of the recorded disk, in the order of their addresses. So the
/// utilisation of the device is as requested. Users have adjacent copies. Users of one copy take its requests in turn.
#[derive(Clone, Debug)]
pub struct TracedWorkload {
    /// Pages of a copy.
    pages: u32,
    accesses: Arc<[PageAccess]>,
    /// Index of the next request of each copy.
    next: Vec<usize>,
}

impl TracedWorkload {
    /// Converts recorded requests to pages, until they touch more than `most` pages.
    ///
    /// # Errors
    /// If no request is left.
    pub fn new(trace: &[trace::TraceRequest], most: usize) -> Result<TracedWorkload, TraceError> {
        let range = |request: &trace::TraceRequest| {
            let end = request.sector + request.sectors.max(1);
            request.sector / PAGE_SECTORS..end.div_ceil(PAGE_SECTORS)
        };
        let mut touched = BTreeSet::new();
        let fits = |request: &&trace::TraceRequest| {
            touched.extend(range(request));
            touched.len() <= most
        };
        let trace: Vec<&trace::TraceRequest> = trace.iter().take_while(fits).collect();
        let touched: BTreeSet<u64> = trace.iter().flat_map(|request| range(request)).collect();
        let numbers: BTreeMap<u64, u32> = touched.into_iter().zip(0..).collect();
        let mut accesses = Vec::new();
        for request in trace {
            let range = range(request);
            let mut first = numbers[&range.start];
            // Pages that one request touches have consecutive numbers.
            let mut left = (range.end - range.start) as u32;
            while left > 0 {
                let pages = left.min(REQUEST_PAGES_MAX);
                accesses.push(PageAccess {
                    page: first,
                    pages,
                    write: request.write,
                });
                first += pages;
                left -= pages;
            }
        }
        if accesses.is_empty() {
            Err(TraceError::Empty)
        } else {
            Ok(TracedWorkload {
                pages: numbers.len() as u32,
                accesses: accesses.into(),
                next: vec![0],
            })
        }
    }

    /// Creates this number of copies, which begin at different requests.
    #[must_use]
    pub fn copies(&self, copies: u32) -> TracedWorkload {
        let all = self.accesses.len() as u64;
        let begin = |copy: u32| (all * u64::from(copy) / u64::from(copies)) as usize;
        TracedWorkload {
            next: (0..copies.max(1)).map(begin).collect(),
            ..self.clone()
        }
    }

    /// Returns the number of requests before the workload repeats.
    pub fn requests(&self) -> usize {
        self.accesses.len()
    }
}

impl Workload for TracedWorkload {
    fn pages(&self) -> u32 {
        self.pages * self.next.len() as u32
    }

    fn next(&mut self, user: usize) -> PageAccess {
        let copy = user % self.next.len();
        let next = &mut self.next[copy];
        let access = self.accesses[*next];
        *next = (*next + 1) % self.accesses.len();
        PageAccess {
            page: access.page + copy as u32 * self.pages,
            ..access
        }
    }

    /// Copies begin at even distances. When each copy has reached the beginning of the next, all requests were executed
    /// once.
    fn round(&self) -> Option<u64> {
        Some(self.accesses.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn request(write: bool, sector: u64, sectors: u64) -> trace::TraceRequest {
        trace::TraceRequest {
            at: Duration::ZERO,
            write,
            sector,
            sectors,
        }
    }

    #[test]
    fn untouched_pages_are_omitted_and_adjacent_pages_stay_adjacent() {
        let trace = [
            request(true, 16_000, 16),
            request(false, 8, 16),
            request(true, 16_008, 1),
        ];
        let mut traced = TracedWorkload::new(&trace, 9).unwrap();
        // Pages 0, 1 and 1000.
        assert_eq!((traced.pages(), traced.requests()), (3, 3));
        let begun = TracedWorkload::new(&trace, 2).unwrap();
        assert_eq!((begun.pages(), begun.requests()), (1, 1));
        let first: Vec<PageAccess> = (0..4).map(|user| traced.next(user)).collect();
        let read = PageAccess {
            page: 0,
            pages: 2,
            write: false,
        };
        let write = PageAccess::write(2);
        assert_eq!(first, [write, read, write, write]);
    }

    #[test]
    fn long_trace_requests_are_split() {
        let mut traced = TracedWorkload::new(&[request(true, 0, 16 * 40)], 40).unwrap();
        let lengths = [0; 3].map(|user| traced.next(user).pages);
        assert_eq!((traced.pages(), lengths), (40, [16, 16, 8]));
        assert!(matches!(
            TracedWorkload::new(&[], 9),
            Err(TraceError::Empty)
        ));
    }

    #[test]
    fn trace_copies_are_interleaved_and_start_at_different_positions() {
        let traced =
            TracedWorkload::new(&[request(true, 0, 16), request(true, 16, 16)], 9).unwrap();
        let mut copies = traced.copies(2);
        assert_eq!(copies.pages(), 4);
        let pages = [0, 1, 2, 0, 1].map(|user| copies.next(user).page);
        assert_eq!(pages, [0, 3, 1, 0, 2]);
    }

    #[test]
    fn every_trace_file_is_read_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let oltp = "0 3 16 8 0\n1000 3 32 8 1\n";
        std::fs::write(folder.path().join(StudyTrace::Oltp.file()), oltp).unwrap();
        let mut traced = StudyTrace::Oltp.read(folder.path(), 9).unwrap();
        assert_eq!(
            [0; 2].map(|user| traced.next(user)),
            [PageAccess::write(0), PageAccess::read(1)]
        );
        let missing = StudyTrace::PostMark.read(folder.path(), 9);
        assert!(matches!(missing, Err(TraceError::File { .. })));
        std::fs::write(folder.path().join(StudyTrace::PostMark.file()), "none\n").unwrap();
        let broken = StudyTrace::PostMark.read(folder.path(), 9);
        assert!(matches!(broken, Err(TraceError::Bytes(_))));
        for recorded in StudyTrace::ALL {
            assert!(TraceFormat::of_name(recorded.file()).is_some());
        }
    }
}
