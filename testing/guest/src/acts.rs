//! What a writer does: act after act, each of which follows from a seed and its number.
//!
//! Two acts of three create a file, which is named by the act's number; the third overwrites one of
//! those in place. So what must be in a file after any number of acts can be told by counting.

use forebay_rng::Rng;

/// Every so many acts, one overwrites.
const OVERWRITES_EVERY: u64 = 3;
/// The longest file, in bytes. Half of them are within a page or two.
const LONG_BYTES_MAX: u64 = 96 << 10;
const SHORT_BYTES_MAX: u64 = 8 << 10;

/// All that one writer will ever do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriterPlan {
    seed: u64,
    /// Its number.
    pub(crate) writer: u64,
}

/// One thing to be done to one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WriterAct {
    /// The file's number: that of the act that creates it.
    pub(crate) file: u64,
    /// The act's own number, which decides the content.
    number: u64,
}

impl WriterAct {
    /// False if the file has been there before.
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

    /// Act `number`.
    pub(crate) fn act(&self, number: u64) -> WriterAct {
        let overwrites = number % OVERWRITES_EVERY == OVERWRITES_EVERY - 1;
        let file = if overwrites {
            // Of each three acts before this one, the first two created.
            let nth = self
                .numbers(1, number)
                .below(number - number / OVERWRITES_EVERY);
            nth / (OVERWRITES_EVERY - 1) * OVERWRITES_EVERY + nth % (OVERWRITES_EVERY - 1)
        } else {
            number
        };
        WriterAct { file, number }
    }

    /// What the file holds after the act: as much as before, if it was there.
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

    /// For each file that the first `promised` acts created: the newest of them that changed it, and
    /// those of the next `open` that may have, too.
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
    fn an_overwrite_is_of_a_file_that_was_created_before_and_as_long_as_that() {
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
    fn every_file_that_was_created_is_expected_once_as_it_was_changed_last() {
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
        // Act 92 overwrites something.
        assert!(plan.files(92, 1).iter().any(|(_, open)| open.len() == 1));
    }

    #[test]
    fn two_writers_do_not_write_the_same() {
        let content = |writer| {
            let plan = WriterPlan::new(7, writer);
            plan.content(plan.act(0))
        };
        assert_ne!(content(0), content(1));
    }
}
