//! Process settings for the kernel.

use forebay_linux::{io_flusher, lock_memory};

#[test]
fn what_needs_a_privilege_is_done_without_it_as_well_as_can_be() {
    io_flusher();
    let page = forebay_device::BufMut::zeroed(4096);
    let _may_be_refused = lock_memory(&page);
    assert!(lock_memory(&[]));
}
