//! Requests and how long they took.

/// A request that a filesystem made.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    pub(crate) bytes: u64,
    /// From when it was made to its answer, in milliseconds.
    pub(crate) ms: f64,
}

/// What it is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Read,
    /// A write that somebody waits for.
    Write,
    /// A write that nobody waits for.
    WriteBehind,
}

/// Which requests are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Of {
    Reads,
    Writes,
}

/// Response times in milliseconds, shortest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Responses(Vec<f64>);

impl Responses {
    pub(crate) fn of(which: Of, requests: &[Request]) -> Responses {
        let wanted = |request: &&Request| (request.kind == Kind::Read) == (which == Of::Reads);
        let chosen = requests.iter().filter(wanted);
        let mut times: Vec<f64> = chosen.map(|request| request.ms).collect();
        times.sort_by(f64::total_cmp);
        Responses(times)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    /// The time that a share of them do not exceed.
    pub(crate) fn at(&self, share: f64) -> f64 {
        let rank = (self.0.len() as f64 * share).ceil() as usize;
        self.0.get(rank.max(1) - 1).copied().unwrap_or(0.0)
    }

    /// The share of them that took longer than `from` and at most `to` milliseconds.
    pub(crate) fn share(&self, from: f64, to: f64) -> f64 {
        let up_to = |ms: f64| self.0.partition_point(|time| *time <= ms);
        (up_to(to) - up_to(from)) as f64 / self.0.len().max(1) as f64
    }

    /// The share of them that took at most `ms`.
    pub(crate) fn within(&self, ms: f64) -> f64 {
        self.share(-1.0, ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_percentiles_count_what_they_say() {
        let request = |kind, ms| Request {
            kind,
            bytes: 1024,
            ms,
        };
        let requests = [
            request(Kind::Write, 4.0),
            request(Kind::Read, 100.0),
            request(Kind::WriteBehind, 2.0),
            request(Kind::Write, 0.0),
            request(Kind::Write, 6.0),
        ];
        let writes = Responses::of(Of::Writes, &requests);
        assert_eq!((writes.count(), writes.mean()), (4, 3.0));
        assert_eq!((writes.at(0.5), writes.at(1.0)), (2.0, 6.0));
        assert_eq!((writes.share(2.0, 6.0), writes.within(0.0)), (0.5, 0.25));
        assert_eq!(Responses::of(Of::Reads, &requests).mean(), 100.0);
    }
}
