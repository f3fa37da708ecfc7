//! Creates the ring, with as many of the kernel's features as are available.

use std::io;

use io_uring::squeue::EntryMarker;
use io_uring::{IoUring, Parameters, cqueue};

use super::queue::UringQueue;

/// Completions that the queue holds for each entry of the submission queue, so that requests in flight beyond one batch
/// do not overflow it (which is slow, but loses nothing).
const COMPLETIONS_PER_ENTRY: u32 = 8;
const COMPLETIONS_MIN: u32 = 4096;

/// A set of ring features to request.
type SetupFeatures<S> = fn(&mut io_uring::Builder<S>);

pub(super) fn build(entries: u32) -> io::Result<UringQueue> {
    // Long entries: Linux 5.19.
    match build_of(entries) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
        built => {
            return built
                .map_err(explained)
                .and_then(suitable)
                .map(UringQueue::Long);
        }
    }
    let built = build_of(entries).map_err(explained);
    built.and_then(suitable).map(UringQueue::Short)
}

fn build_of<S: EntryMarker>(entries: u32) -> io::Result<IoUring<S>> {
    let wishes: [SetupFeatures<S>; 3] = [
        // Linux 6.6.
        |b| {
            b.setup_single_issuer().setup_defer_taskrun();
            b.setup_taskrun_flag().setup_submit_all().setup_no_sqarray();
        },
        // Linux 6.1.
        |b| {
            b.setup_single_issuer().setup_defer_taskrun();
            b.setup_taskrun_flag().setup_submit_all();
        },
        |_| {},
    ];
    let completions = entries
        .saturating_mul(COMPLETIONS_PER_ENTRY)
        .max(COMPLETIONS_MIN);
    let mut last = None;
    for wish in wishes {
        let mut builder = IoUring::<S, cqueue::Entry>::builder();
        builder.setup_clamp().setup_cqsize(completions);
        wish(&mut builder);
        match builder.build(entries) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => last = Some(error),
            built => return built,
        }
    }
    Err(last.expect("the kernel refused every set of flags"))
}

fn suitable<S: EntryMarker>(uring: IoUring<S>) -> io::Result<IoUring<S>> {
    let has = Parameters::is_feature_ext_arg;
    let params = uring.params();
    if has(params) && params.is_feature_nodrop() && params.is_feature_submit_stable() {
        return Ok(uring);
    }
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this kernel's io_uring is too old: Linux 5.11 or later is needed",
    ))
}

fn explained(error: io::Error) -> io::Error {
    let hint = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "io_uring is forbidden here: see the sysctl kernel.io_uring_disabled, or the seccomp \
             profile of the container"
        }
        Some(libc::ENOSYS) => "this kernel is built without io_uring",
        Some(libc::ENOMEM) => "not enough lockable memory for an io_uring: raise RLIMIT_MEMLOCK",
        _ => "cannot make an io_uring",
    };
    io::Error::new(error.kind(), format!("{hint} ({error})"))
}
