//! Memory that programs map and change (`mapped.py`): nobody who looks at the file in another way misses it, and no atomic update
//! loses it or is lost by it. Found by `cp` of a database that was mapped: it copied zeroes.

use std::path::Path;
use std::process::Command;

use crate::harness::{Mounted, has, skip};
use crate::programs::{atomic, run};

fn does(test: &str, case: &str) {
    if !has("python3") {
        return skip(test, "no python3");
    }
    let Some(mounted) = Mounted::new(test) else {
        return;
    };
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/atomic/mapped.py");
    let mut python = Command::new("python3");
    python.arg("-B").arg(program).arg(mounted.dir()).arg(case);
    run(python.env("PYTHONPATH", atomic().join("python")));
    mounted.finish();
}

#[test]
fn holes_to_which_a_program_has_stored_are_data() {
    does("holes_to_which_a_program_has_stored_are_data", "holes");
}

#[test]
fn an_atomic_change_keeps_what_was_stored_beside_it() {
    does("an_atomic_change_keeps_what_was_stored_beside_it", "change");
}

#[test]
fn a_page_that_is_written_back_takes_nothing_along_of_a_transaction() {
    let test = "a_page_that_is_written_back_takes_nothing_along";
    does(test, "transaction");
}

#[test]
fn what_was_stored_is_exchanged_with_the_file() {
    does("what_was_stored_is_exchanged_with_the_file", "exchange");
}
