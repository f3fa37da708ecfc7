//! What is said when something is wrong.

use crate::support::{Case, is_gnu, scratch};

#[test]
fn a_file_that_is_not_there_is_named_as_the_shell_would_take_it() {
    if !is_gnu(
        "a_file_that_is_not_there_is_named_as_the_shell_would_take_it",
        "wc",
    ) {
        return;
    }
    let dir = scratch();
    for name in ["nope", "n p"] {
        for locale in ["C", "C.UTF-8"] {
            Case::new("wc", dir.path())
                .args([name])
                .env("LC_ALL", locale)
                .check(0);
        }
    }
}
