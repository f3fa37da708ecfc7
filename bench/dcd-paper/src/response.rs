//! Requests and their response times.

/// A request that a filesystem made.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct UfsRequest {
    pub(crate) kind: UfsRequestKind,
    pub(crate) bytes: u64,
    /// Time from the request to its answer, in milliseconds.
    pub(crate) ms: f64,
}

/// Purpose of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UfsRequestKind {
    Read,
    /// A write that a user waits for.
    Write,
    /// A write in the background.
    WriteBehind,
}

/// Selection of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ResponseFilter {
    Reads,
    Writes,
}

/// Response times in milliseconds, in ascending order.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResponseTimes(Vec<f64>);

impl ResponseTimes {
    pub(crate) fn of(which: ResponseFilter, requests: &[UfsRequest]) -> ResponseTimes {
        let wanted = |request: &&UfsRequest| {
            (request.kind == UfsRequestKind::Read) == (which == ResponseFilter::Reads)
        };
        let chosen = requests.iter().filter(wanted);
        let mut times: Vec<f64> = chosen.map(|request| request.ms).collect();
        times.sort_by(f64::total_cmp);
        ResponseTimes(times)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    /// Returns the response time that a share of the requests do not exceed.
    pub(crate) fn at(&self, share: f64) -> f64 {
        let rank = (self.0.len() as f64 * share).ceil() as usize;
        self.0.get(rank.max(1) - 1).copied().unwrap_or(0.0)
    }

    /// Returns the share of the requests that took longer than `from` and at most `to` milliseconds.
    pub(crate) fn share(&self, from: f64, to: f64) -> f64 {
        let up_to = |ms: f64| self.0.partition_point(|time| *time <= ms);
        (up_to(to) - up_to(from)) as f64 / self.0.len().max(1) as f64
    }

    /// Returns the share of the requests that took at most `ms`.
    pub(crate) fn within(&self, ms: f64) -> f64 {
        self.share(-1.0, ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_percentiles_count_only_the_filtered_requests() {
        let request = |kind, ms| UfsRequest {
            kind,
            bytes: 1024,
            ms,
        };
        let requests = [
            request(UfsRequestKind::Write, 4.0),
            request(UfsRequestKind::Read, 100.0),
            request(UfsRequestKind::WriteBehind, 2.0),
            request(UfsRequestKind::Write, 0.0),
            request(UfsRequestKind::Write, 6.0),
        ];
        let writes = ResponseTimes::of(ResponseFilter::Writes, &requests);
        assert_eq!((writes.count(), writes.mean()), (4, 3.0));
        assert_eq!((writes.at(0.5), writes.at(1.0)), (2.0, 6.0));
        assert_eq!((writes.share(2.0, 6.0), writes.within(0.0)), (0.5, 0.25));
        assert_eq!(
            ResponseTimes::of(ResponseFilter::Reads, &requests).mean(),
            100.0
        );
    }
}
