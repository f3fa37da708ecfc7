//! Tests without `cachestat` and `mincore`, as on an old kernel or in a sandbox. A library that is loaded before the C
//! library refuses these calls.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::{scratch, skip};

/// Refuses system call 451 (`cachestat`) and `mincore`.
const REFUSING: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
long syscall(long number, long a, long b, long c, long d, long e, long f) {
    static long (*real)(long, ...);
    if (number == 451) { errno = ENOSYS; return -1; }
    if (!real) real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    return real(number, a, b, c, d, e, f);
}
int mincore(void *address, unsigned long length, unsigned char *pages) {
    errno = ENOSYS;
    return -1;
}
"#;

/// Builds the library in `dir`. Returns false without a C compiler.
fn build(dir: &Path) -> bool {
    std::fs::write(dir.join("refuse.c"), REFUSING).expect("a source");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o", "refuse.so", "refuse.c", "-ldl"])
        .current_dir(dir)
        .output();
    built.is_ok_and(|built| built.status.success())
}

#[test]
fn every_plan_works_if_the_kernel_reports_no_residency() {
    let dir = scratch();
    if !build(dir.path()) {
        let test = "every_plan_works_if_the_kernel_reports_no_residency";
        return skip(test, "cc builds no shared library");
    }
    let text = "a line\n".repeat(300_000);
    std::fs::write(dir.path().join("f"), &text).expect("a file");
    let run = |args: &[&str]| -> Output {
        Command::new(env!("CARGO_BIN_EXE_sleds"))
            .args(args)
            .current_dir(dir.path())
            .env("LD_PRELOAD", dir.path().join("refuse.so"))
            .output()
            .expect("sleds to run")
    };
    for plan in ["--plan=best", "--plan=auto", "--plan=linear"] {
        for (args, wanted) in [
            (&["wc", plan, "-l", "f"][..], "300000 f\n"),
            (&["grep", plan, "-c", "line", "f"], "300000\n"),
            (&["cat", plan, "--unordered", "f"], &text),
        ] {
            let output = run(args);
            assert!(output.status.success(), "{args:?}: {output:?}");
            assert!(output.stdout == wanted.as_bytes(), "{args:?}");
        }
    }
    let shown = run(&["show", "--json", "f"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains(r#""cached":null"#), "{shown}");
    assert!(shown.contains(r#""dirty":null"#), "{shown}");
    let found = run(&["find", "f", "-latency", "-1000"]);
    let reason = String::from_utf8_lossy(&found.stderr).into_owned();
    assert!(reason.contains("refuses cachestat and mincore"), "{reason}");
    assert!(!reason.contains("owner"), "{reason}");
}
