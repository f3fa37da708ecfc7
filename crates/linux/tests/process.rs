//! Process settings for the kernel.

use forebay_linux::{io_flusher, lock_memory};

#[test]
fn privileged_process_settings_are_optional() {
    io_flusher();
    let page = forebay_device::BufMut::zeroed(4096);
    let _may_be_refused = lock_memory(&page);
    assert!(lock_memory(&[]));
}
