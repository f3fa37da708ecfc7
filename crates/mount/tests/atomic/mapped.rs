//! Memory that programs map and change (`mapped.py`). Every other way of reading the file must see the stores, and an
//! atomic update must neither lose them nor be lost by them. Found by `cp` of a mapped database: it copied zeroes.

use std::path::Path;
use std::process::Command;

use crate::harness::{AtomicMount, has, skip};
use crate::programs::{atomic, run};

fn does(test: &str, case: &str) {
    if !has("python3") {
        return skip(test, "no python3");
    }
    let Some(mounted) = AtomicMount::new(test) else {
        return;
    };
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/atomic/mapped.py");
    let mut python = Command::new("python3");
    python.arg("-B").arg(program).arg(mounted.dir()).arg(case);
    run(python.env("PYTHONPATH", atomic().join("python")));
    mounted.finish();
}

#[test]
fn holes_with_stores_through_a_mapping_become_data() {
    does("holes_with_stores_through_a_mapping_become_data", "holes");
}

#[test]
fn an_atomic_change_keeps_stores_to_adjacent_bytes() {
    does("an_atomic_change_keeps_stores_to_adjacent_bytes", "change");
}

/// Found by review: such an update lost the data stored between its extents.
#[test]
fn an_update_of_many_ranges_keeps_stores_between_them() {
    does("an_update_of_many_ranges_keeps_stores_between_them", "many");
}

/// Found by review: a buffered write that looked like a direct write waited for the kernel to forget the page that the
/// write itself held.
#[test]
fn writes_continue_while_the_flags_of_the_open_file_change() {
    does(
        "writes_continue_while_the_flags_of_the_open_file_change",
        "flags",
    );
}

#[test]
fn page_writeback_does_not_include_data_of_a_transaction() {
    let test = "page_writeback_does_not_include_data_of_a_transaction";
    does(test, "transaction");
}

#[test]
fn stores_through_a_mapping_are_exchanged_with_the_file() {
    does(
        "stores_through_a_mapping_are_exchanged_with_the_file",
        "exchange",
    );
}
