//! Work of a writer: a sequence of acts, each derived from a seed and its number.
//!
//! Two acts of three create a file, which is named by the act's number; the third overwrites one of those in place. So
//! the content of a file after any number of acts can be computed.

use forebay_rng::Rng;

/// Period of acts that overwrite a file.
const OVERWRITES_EVERY: u64 = 3;
/// Length of the longest file, in bytes. Half of the files have at most one or two pages.
const LONG_BYTES_MAX: u64 = 96 << 10;
const SHORT_BYTES_MAX: u64 = 8 << 10;

/// All acts of one writer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriterPlan {
    seed: u64,
    /// Number of the writer.
    pub(crate) writer: u64,
}

/// One change of one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WriterAct {
    /// Number of the file: the number of the act that creates the file.
    pub(crate) file: u64,
    /// Number of the act, which determines the content.
    number: u64,
}

impl WriterAct {
    /// Returns true if the act creates the file.
    pub(crate) fn creates(&self) -> bool {
        self.file == self.number
    }
}

impl WriterPlan {
    pub(crate) fn new(seed: u64, writer: u64) -> WriterPlan {
        WriterPlan { seed, writer }
    }

    fn numbers(&self, purpose: u64, number: u64) -> Rng {
        let start = Rng::new(self.seed ^ (self.writer << 40) ^ (purpose << 56));
        Rng::new(start.next() ^ number)
    }

    /// Returns act `number`.
    pub(crate) fn act(&self, number: u64) -> WriterAct {
        let overwrites = number % OVERWRITES_EVERY == OVERWRITES_EVERY - 1;
        let file = if overwrites {
            // Of each three acts before this one, the first two created files.
            let nth = self
                .numbers(1, number)
                .below(number - number / OVERWRITES_EVERY);
            nth / (OVERWRITES_EVERY - 1) * OVERWRITES_EVERY + nth % (OVERWRITES_EVERY - 1)
        } else {
            number
        };
        WriterAct { file, number }
    }

    /// Returns the content of the file after the act. An overwrite keeps the length.
    pub(crate) fn content(&self, act: WriterAct) -> Vec<u8> {
        let numbers = self.numbers(2, act.file);
        let most = if numbers.coin() {
            SHORT_BYTES_MAX
        } else {
            LONG_BYTES_MAX
        };
        let len = 1 + numbers.below(most);
        self.numbers(3, act.number).bytes(len as usize)
    }

    /// Returns each file that the first `promised` acts created, with the newest of these acts that changed the file,
    /// and the acts among the next `open` that may have changed the file, too.
    pub(crate) fn files(&self, promised: u64, open: u64) -> Vec<(WriterAct, Vec<WriterAct>)> {
        let mut files: Vec<(WriterAct, Vec<WriterAct>)> = Vec::new();
        let place = |files: &[(WriterAct, Vec<WriterAct>)], file| {
            files.binary_search_by_key(&file, |(act, _)| act.file).ok()
        };
        for act in (0..promised).map(|number| self.act(number)) {
            match place(&files, act.file) {
                Some(at) => files[at].0 = act,
                None => files.push((act, Vec::new())),
            }
        }
        for act in (promised..promised + open).map(|number| self.act(number)) {
            if let Some(at) = place(&files, act.file) {
                files[at].1.push(act);
            }
        }
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overwrite_targets_an_existing_file_and_keeps_its_length() {
        let plan = WriterPlan::new(7, 1);
        let mut created = Vec::new();
        for number in 0..300 {
            let act = plan.act(number);
            if act.creates() {
                created.push(number);
                continue;
            }
            assert!(created.contains(&act.file), "{act:?}");
            let first = plan.content(plan.act(act.file));
            let second = plan.content(act);
            assert_eq!(first.len(), second.len());
            assert_ne!(first, second);
        }
        assert_eq!(created.len(), 200);
    }

    #[test]
    fn every_created_file_is_expected_once_with_its_last_change() {
        let plan = WriterPlan::new(7, 1);
        let files = plan.files(90, 3);
        assert_eq!(files.len(), 60);
        assert!(files.is_sorted_by_key(|(act, _)| act.file));
        let newest = |file| {
            (0..90)
                .rev()
                .map(|n| plan.act(n))
                .find(|act| act.file == file)
        };
        for (act, open) in &files {
            assert_eq!(Some(*act), newest(act.file));
            assert!(
                open.iter()
                    .all(|later| later.file == act.file && later.number >= 90)
            );
        }
        // Act 92 overwrites a file.
        assert!(plan.files(92, 1).iter().any(|(_, open)| open.len() == 1));
    }

    #[test]
    fn two_writers_write_different_content() {
        let content = |writer| {
            let plan = WriterPlan::new(7, writer);
            plan.content(plan.act(0))
        };
        assert_ne!(content(0), content(1));
    }
}
