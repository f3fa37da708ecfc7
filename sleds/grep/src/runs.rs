//! Selected lines as runs, one after the other. Without `-v` a run is one line. With `-v` a run contains all lines up
//! to the next matching line.

use memchr::{memchr, memrchr};

use super::regex::{CompiledPatterns, MatchLimitError};

/// A run: its range in a buffer of whole lines, including the terminator of its last line.
pub(super) type LineRange = (usize, usize);

/// Source of the runs of a buffer.
pub(super) enum LineRangeSource<'r> {
    Search { invert: bool, at: usize },
    Known(std::slice::Iter<'r, LineRange>),
}

impl LineRangeSource<'_> {
    pub(super) fn search(invert: bool) -> LineRangeSource<'static> {
        LineRangeSource::Search { invert, at: 0 }
    }

    pub(super) fn next(
        &mut self,
        regex: &mut CompiledPatterns,
        lines: &[u8],
    ) -> Result<Option<LineRange>, MatchLimitError> {
        let (invert, at) = match self {
            LineRangeSource::Known(runs) => return Ok(runs.next().copied()),
            LineRangeSource::Search { invert, at } => (*invert, at),
        };
        while *at < lines.len() {
            let begin = *at;
            let found = regex.find_line(lines, begin)?;
            *at = found
                .as_ref()
                .map_or(lines.len(), |f| (f.end + 1).min(lines.len()));
            match (found, invert) {
                (None, true) => return Ok(Some((begin, lines.len()))),
                (None, false) => return Ok(None),
                (Some(line), false) => return Ok(Some((line.start, *at))),
                (Some(line), true) if line.start > begin => return Ok(Some((begin, line.start))),
                (Some(_), true) => {}
            }
        }
        Ok(None)
    }
}

/// Returns the end of the line that begins at `at`, including its terminator.
pub(super) fn line_end(lines: &[u8], at: usize, eol: u8) -> usize {
    memchr(eol, &lines[at..]).map_or(lines.len(), |n| at + n + 1)
}

/// Returns the beginning of the `count` lines before `at`, where a line begins, and the number of those lines at or
/// after `floor`.
pub(super) fn back(lines: &[u8], at: usize, floor: usize, count: u64, eol: u8) -> (usize, u64) {
    let (mut start, mut n) = (at, 0);
    while n < count && start > floor {
        start = memrchr(eol, &lines[floor..start - 1]).map_or(floor, |m| floor + m + 1);
        n += 1;
    }
    (start, n)
}

/// Returns the number of line terminators in `bytes`.
pub(super) fn count_ends(bytes: &[u8], eol: u8) -> u64 {
    memchr::memchr_iter(eol, bytes).count() as u64
}
