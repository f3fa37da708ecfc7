//! Requests through the ring (FUSE over io_uring), where the kernel offers this
//! (`/sys/module/fuse/parameters/enable_uring`).
//!
//! The kernel has one queue for each processor, and each queue gets some entries. A request that finds no free entry
//! waits in its queue. Messages that cannot use the ring (such as those that inodes are forgotten) use `/dev/fuse` as
//! before, and so do all requests until every queue has an entry. Nothing is lost if the kernel refuses the entries.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use forebay_frontend::requests::{FRONT_RESERVE, RequestMemory};
use forebay_linux::FuseEntries;
use forebay_rt::{BudgetAccount, Rt, Task};

use super::IO_BYTES_MAX;
use super::entry::{OF_EACH_MIN, ReceivedEntry};
use super::handler::FuseHandler;
use super::request::{FuseConnection, IncomingRequest, RequestOrigin};
use crate::codec as format;

/// The entries of all queues together take this fraction (1/`SHARE`) of the memory for requests.
const SHARE: u64 = 4;
const OF_EACH_MAX: usize = 32;
/// Requests received in a row before other tasks can run.
const BATCH: usize = 32;
/// Time limit for the kernel to return all entries after the connection has ended.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// The task that receives requests through the ring.
pub(super) type FetchTask = Task<()>;

/// Makes the kernel send requests through the ring. `None` if the memory does not suffice for the number of processors.
/// Then, or if the kernel refuses the entries later, all requests come through `/dev/fuse`.
pub(super) fn fetch<H: FuseHandler>(
    connection: &Rc<FuseConnection>,
    handler: &Rc<H>,
) -> Option<FetchTask> {
    let plan = match processors().and_then(|queues| EntryPlan::new(&connection.memory, queues)) {
        Ok(plan) => plan,
        Err(error) => {
            tracing::info!(%error, "requests come through /dev/fuse, although the kernel offers io_uring");
            return None;
        }
    };
    let (connection, handler) = (Rc::clone(connection), Rc::clone(handler));
    let rt = connection.rt.clone();
    Some(rt.spawn(async move {
        if let Err(error) = plan.carry_out(&connection, &handler).await {
            tracing::info!(%error, "requests come through /dev/fuse, although the kernel offers io_uring");
        }
    }))
}

/// The number of entries, and the account for their memory and for other memory of their requests.
struct EntryPlan {
    queues: usize,
    of_each: usize,
    account: BudgetAccount,
}

impl EntryPlan {
    fn new(memory: &RequestMemory, queues: usize) -> io::Result<EntryPlan> {
        let each = RequestMemory::cost(IO_BYTES_MAX);
        let fit = (memory.bound() / SHARE / each) as usize / queues;
        if fit < OF_EACH_MIN {
            let small = format!("{queues} processors want more memory for requests");
            return Err(io::Error::other(small));
        }
        let of_each = fit.min(OF_EACH_MAX);
        let all = each * (queues * of_each) as u64;
        let account = memory.account(all + FRONT_RESERVE);
        Ok(EntryPlan {
            queues,
            of_each,
            account: account
                .ok_or_else(|| io::Error::other("the memory is reserved for others"))?,
        })
    }

    async fn carry_out<H: FuseHandler>(
        self,
        connection: &Rc<FuseConnection>,
        handler: &Rc<H>,
    ) -> io::Result<()> {
        let mut leases = Vec::new();
        for _ in 0..self.queues * self.of_each {
            // The lease is within the account's reserve, so it is granted at once.
            let lease = self.account.lease(RequestMemory::cost(IO_BYTES_MAX)).await;
            leases.push(lease);
        }
        let (queues, of_each, fd) = (self.queues, self.of_each, connection.channel.shared());
        let entries = FuseEntries::register(&connection.ring, fd, queues, of_each, IO_BYTES_MAX)?;
        tracing::info!(queues, of_each, "requests come through io_uring");
        take_requests(connection, handler, &entries, &self.account).await;
        Ok(())
    }
}

/// Returns the maximum number of processors, which is also the kernel's number of queues.
fn processors() -> io::Result<usize> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let all = count(&list);
    all.ok_or_else(|| io::Error::other(format!("cannot parse the list of processors {list:?}")))
}

/// Counts the numbers in a list such as `0-3,8`.
fn count(list: &str) -> Option<usize> {
    let of_range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first).map(|more| more + 1)
    };
    list.trim().split(',').map(of_range).sum()
}

/// Receives requests until the connection has ended and all entries are back.
async fn take_requests<H: FuseHandler>(
    connection: &Rc<FuseConnection>,
    handler: &Rc<H>,
    entries: &Rc<FuseEntries>,
    account: &BudgetAccount,
) {
    let (mut in_a_row, mut left) = (0, entries.count());
    while left > 0 {
        match entries.next().await {
            Ok(entry) => {
                connection.by_ring.set(true);
                let entry = ReceivedEntry { entry, account };
                take(connection, handler, entry).await;
                in_a_row += 1;
                if in_a_row == BATCH {
                    in_a_row = 0;
                    connection.rt.yield_now().await;
                }
            }
            Err(error) => {
                left -= 1;
                tracing::trace!(%error, left, "an entry of FUSE's came back");
            }
        }
    }
}

async fn take<H: FuseHandler>(
    connection: &Rc<FuseConnection>,
    handler: &Rc<H>,
    entry: ReceivedEntry<'_>,
) {
    let asked = entry.entry.request();
    let body = [asked.op, asked.payload];
    let request = match format::decode(asked.header, body, connection.agreed.get()) {
        Ok(request) => request,
        Err(malformed) => return connection.refuse_malformed(malformed, Some(entry.entry)),
    };
    let arrival = IncomingRequest {
        connection,
        admission: connection.under_way.admit(0).await,
        came: RequestOrigin::Fetched(entry),
        unique: request.unique,
    };
    handler.take(arrival, request).await;
}

/// Waits until the kernel has returned all entries of an ended connection.
pub(super) async fn end(rt: &Rt, fetching: FetchTask) {
    if rt.timeout(END_PATIENCE, fetching).await.is_err() {
        tracing::warn!("the kernel keeps entries of a FUSE connection that has ended");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted_from_a_list_of_ranges() {
        for (list, counted) in [
            ("0\n", Some(1)),
            ("0-1\n", Some(2)),
            ("0-3,8,16-17\n", Some(7)),
            ("", None),
            ("3-0", None),
        ] {
            assert_eq!(count(list), counted, "{list:?}");
        }
    }

    #[test]
    fn every_queue_gets_its_share_of_a_quarter_of_the_memory_or_no_queue_gets_memory() {
        let of_each = |bound, queues| {
            let plan = EntryPlan::new(&RequestMemory::new(bound), queues);
            plan.map(|plan| plan.of_each).ok()
        };
        let (least, usual) = (RequestMemory::BYTES_MIN, RequestMemory::BYTES_DEFAULT);
        for (bound, queues, expected) in [
            (usual, 1, Some(OF_EACH_MAX)),
            (usual, 2, Some(31)),
            (usual, 15, Some(4)),
            (usual, 16, None),
            (least, 1, Some(15)),
            (least, 3, Some(5)),
            (least, 4, None),
        ] {
            assert_eq!(of_each(bound, queues), expected, "{bound} by {queues}");
        }
        // Memory reserved by others is not available.
        let memory = RequestMemory::new(usual);
        let promised = memory.account(usual / 5 * 4);
        assert!(promised.is_some() && EntryPlan::new(&memory, 2).is_err());
    }
}
