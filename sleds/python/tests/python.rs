//! Installs the package as a user would, into an environment of its own, and runs its tests.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn skipped(why: &str) {
    let line = format!("SKIPPED: the_python_package_installs_and_passes_its_tests: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Runs a program of an environment, as in a shell where that is active: the build calls `maturin` by
/// its name.
fn run(program: &Path, args: &[&str]) -> Output {
    let mut paths = vec![program.parent().expect("a directory").to_owned()];
    paths.extend(std::env::split_paths(
        &std::env::var_os("PATH").unwrap_or_default(),
    ));
    let output = Command::new(program)
        .args(args)
        .env("PATH", std::env::join_paths(paths).expect("no colons"))
        .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
        .env("SLEDS_TEST_DIR", env!("CARGO_TARGET_TMPDIR"))
        // As all else that is tested is built, but in a place of its own: for another interpreter,
        // pyo3 and all on it is built anew, and would be for the workspace's next build again.
        .env("MATURIN_PEP517_ARGS", "--profile dev")
        .env(
            "CARGO_TARGET_DIR",
            Path::new(env!("CARGO_TARGET_TMPDIR")).join("wheel"),
        )
        .output();
    output.unwrap_or_else(|error| panic!("{}: {error}", program.display()))
}

fn words(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!(
        "{}{}",
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(err)
    )
}

/// An empty environment; `None` if Python cannot make one.
fn environment() -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
    let _ = std::fs::remove_dir_all(&place);
    let made = Command::new("python3")
        .args(["-m", "venv"])
        .arg(&place)
        .output()
        .ok()?;
    made.status.success().then(|| place.join("bin/python"))
}

#[test]
fn the_python_package_installs_and_passes_its_tests() {
    let Some(python) = environment() else {
        return skipped("python3 cannot make an environment (package python3-venv)");
    };
    let pip = ["-m", "pip", "install", "--quiet"];
    // Only this needs the network; what follows must work.
    let tools = run(&python, &[&pip[..], &["maturin>=1.7,<2", "numpy"]].concat());
    if !tools.status.success() {
        return skipped(&format!(
            "pip cannot install maturin and numpy: {}",
            words(&tools).trim()
        ));
    }
    let package = env!("CARGO_MANIFEST_DIR");
    let installed = run(
        &python,
        &[&pip[..], &["--no-build-isolation", package]].concat(),
    );
    assert!(installed.status.success(), "{}", words(&installed));
    let tests = format!("{package}/tests/test_sleds.py");
    let tested = run(&python, &["-W", "error", &tests]);
    assert!(tested.status.success(), "{}", words(&tested));
    assert!(!words(&tested).contains("SKIPPED"), "{}", words(&tested));
}
