//! Tests of the C library from C programs.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

// Makes cargo build the libraries.
use sleds_c as _;

/// Compares the header with cbindgen's output for the functions. `SLEDS_WRITE_HEADER=1` writes the header.
#[test]
fn the_c_header_matches_the_exported_functions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let made = cbindgen::Builder::new()
        .with_config(config)
        .with_src(root.join("src/ffi.rs"))
        .with_src(root.join("src/ffi_reader.rs"))
        .generate()
        .unwrap();
    let mut text = Vec::new();
    made.write(&mut text);
    let text = String::from_utf8(text).unwrap();
    let header = root.join("include/sleds.h");
    if std::env::var_os("SLEDS_WRITE_HEADER").is_some() {
        fs::write(&header, &text).unwrap();
    }
    let kept = fs::read_to_string(&header).unwrap_or_default();
    assert!(
        kept == text,
        "run this test with SLEDS_WRITE_HEADER=1 and commit {header:?}"
    );
}

/// Returns the directory in which cargo put the libraries: the directory of this test, or its parent.
fn libraries() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let places = program.ancestors().skip(1).take(2);
    let place = places
        .into_iter()
        .find(|place| place.join("libsleds_c.a").exists());
    place
        .expect("cargo builds the libraries before their tests")
        .to_owned()
}

fn run(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    output
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output();
    found.is_ok_and(|output| output.status.success())
}

/// Installs the library in a scratch directory. Returns `None` and reports a skip without a compiler.
fn installed(test: &str) -> Option<tempfile::TempDir> {
    if !has("cc") || !has("pkg-config") {
        let line = format!("SKIPPED: {test}: no cc or no pkg-config\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
        return None;
    }
    let prefix = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install-sleds-c");
    run(Command::new(script)
        .arg(prefix.path())
        .env("SLEDS_LIBRARIES", libraries()));
    Some(prefix)
}

/// Compiles a C program against the installed library, as its users would.
fn compile(prefix: &Path, source: &Path, fixed: bool) -> PathBuf {
    let mut ask = Command::new("pkg-config");
    ask.args(["--cflags", "--libs", "sleds"]);
    ask.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let mut flags = String::from_utf8(run(&mut ask).stdout).unwrap();
    if fixed {
        let library = prefix.join("lib/libsleds.a");
        flags = flags.replace("-lsleds", library.to_str().unwrap());
        flags.push_str(" -lpthread -ldl -lm");
    }
    let stem = source.file_stem().unwrap().to_str().unwrap();
    let program = prefix.join(format!("{stem}-{fixed}"));
    let mut compiler = Command::new("cc");
    compiler.args([
        "-std=c99",
        "-D_XOPEN_SOURCE=700",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Werror",
    ]);
    compiler
        .arg("-o")
        .arg(&program)
        .arg(source)
        .args(flags.split_whitespace());
    run(&mut compiler);
    program
}

#[test]
fn the_example_counts_like_wc_with_the_shared_and_the_static_library() {
    let Some(prefix) =
        installed("the_example_counts_like_wc_with_the_shared_and_the_static_library")
    else {
        return;
    };
    let text = prefix.path().join("text");
    let content = "a line of text\n".repeat(100_000) + "and no end";
    fs::write(&text, &content).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/count.c");
    for fixed in [false, true] {
        let program = compile(prefix.path(), &source, fixed);
        let mut count = Command::new(program);
        count
            .arg(&text)
            .env("LD_LIBRARY_PATH", prefix.path().join("lib"));
        let output = run(&mut count);
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            said,
            format!("100000 {} {}\n", content.len(), text.display())
        );
        let shown = String::from_utf8(output.stderr).unwrap();
        assert!(shown.contains("linear") && shown.contains("0 +"), "{shown}");
        let failing = Command::new(count.get_program())
            .arg(prefix.path())
            .env("LD_LIBRARY_PATH", prefix.path().join("lib"))
            .output()
            .unwrap();
        assert_eq!(failing.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&failing.stderr).contains("Is a directory"));
    }
}

#[test]
fn errors_and_elements_behave_as_the_c_header_documents() {
    let Some(prefix) = installed("errors_and_elements_behave_as_the_c_header_documents") else {
        return;
    };
    let data = prefix.path().join("data");
    // A header, 1000 elements of 8 bytes, and an incomplete element.
    fs::write(&data, vec![0; 2880 + 8000 + 3]).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/contract.c");
    let program = compile(prefix.path(), &source, false);
    let mut contract = Command::new(program);
    contract
        .arg(&data)
        .env("LD_LIBRARY_PATH", prefix.path().join("lib"));
    run(&mut contract);
}

#[test]
fn readers_behave_as_the_c_header_documents() {
    let Some(prefix) = installed("readers_behave_as_the_c_header_documents") else {
        return;
    };
    let data = prefix.path().join("data");
    let content: Vec<u8> = (0..2880 + 8000 + 3).map(|n| (n % 251) as u8).collect();
    fs::write(&data, content).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reader.c");
    for fixed in [false, true] {
        let mut contract = Command::new(compile(prefix.path(), &source, fixed));
        contract
            .args([&data, prefix.path()])
            .env("LD_LIBRARY_PATH", prefix.path().join("lib"));
        run(&mut contract);
    }
}

/// The file is partly cached, so that the best order differs from the file's.
#[test]
fn the_example_copies_a_file_in_every_order() {
    let Some(prefix) = installed("the_example_copies_a_file_in_every_order") else {
        return;
    };
    let data = prefix.path().join("data");
    let content: Vec<u8> = (0..3_000_001_u32).map(|n| (n / 7 % 253) as u8).collect();
    fs::write(&data, &content).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/copy.c");
    let program = compile(prefix.path(), &source, false);
    let copy = prefix.path().join("copy");
    for (plan, order) in [
        (&["best"][..], "cheapest first"),
        (&["linear"], "in file order"),
        (&[], ""),
    ] {
        let file = fs::File::open(&data).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut [0; 65536], 2 << 20).unwrap();
        let mut command = Command::new(&program);
        command.args(plan).args([&data, &copy]);
        command.env("LD_LIBRARY_PATH", prefix.path().join("lib"));
        let said = String::from_utf8(run(&mut command).stderr).unwrap();
        assert!(said.contains(" pieces, ") && said.contains(order), "{said}");
        assert!(fs::read(&copy).unwrap() == content, "{plan:?}");
    }
    let mut failing = Command::new(&program);
    failing.args(["/no/such/file", copy.to_str().unwrap()]);
    failing.env("LD_LIBRARY_PATH", prefix.path().join("lib"));
    let output = failing.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("No such file"));
}

#[test]
fn a_fortran_program_reads_with_a_reader() {
    let test = "a_fortran_program_reads_with_a_reader";
    let Some(prefix) = installed(test) else {
        return;
    };
    if !has("gfortran") {
        let line = format!("SKIPPED: {test}: no gfortran\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
        return;
    }
    let content: Vec<u8> = (0..1_000_003_u32).map(|n| (n % 100) as u8).collect();
    let data = prefix.path().join("data");
    fs::write(&data, &content).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = prefix.path().join("reader");
    let mut compiler = Command::new("gfortran");
    compiler.args([
        "-std=f2018",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fcheck=all",
        "-J",
    ]);
    compiler.arg(prefix.path()).arg("-o").arg(&program);
    compiler.args([
        root.join("fortran/sleds.f90"),
        root.join("tests/reader.f90"),
    ]);
    compiler
        .arg("-L")
        .arg(prefix.path().join("lib"))
        .arg("-lsleds");
    run(&mut compiler);
    let mut reader = Command::new(&program);
    reader
        .arg(&data)
        .env("LD_LIBRARY_PATH", prefix.path().join("lib"));
    let said = String::from_utf8(run(&mut reader).stdout).unwrap();
    let fields: Vec<u64> = said
        .split_whitespace()
        .map(|field| field.parse().unwrap())
        .collect();
    let length = content.len() as u64;
    let sum = content.iter().map(|byte| u64::from(*byte)).sum();
    assert_eq!(fields, [length, length, sum]);
}

#[test]
fn a_fortran_program_reads_by_element() {
    let test = "a_fortran_program_reads_by_element";
    let Some(prefix) = installed(test) else {
        return;
    };
    if !has("gfortran") {
        let line = format!("SKIPPED: {test}: no gfortran\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
        return;
    }
    // A header, numbers whose sum is exact in any order, and an incomplete number.
    let numbers: Vec<f64> = (0..100_000).map(|n| f64::from(n % 1000) / 4.0).collect();
    let mut content = vec![7; 2880];
    content.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
    content.extend([1, 2, 3]);
    let data = prefix.path().join("data");
    fs::write(&data, content).unwrap();

    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("fortran");
    let program = prefix.path().join("mean");
    let mut compiler = Command::new("gfortran");
    compiler.args(["-std=f2018", "-Wall", "-Wextra", "-Werror", "-fcheck=all"]);
    compiler
        .arg("-J")
        .arg(prefix.path())
        .arg("-o")
        .arg(&program);
    compiler.args([sources.join("sleds.f90"), sources.join("mean.f90")]);
    compiler
        .arg("-L")
        .arg(prefix.path().join("lib"))
        .arg("-lsleds");
    run(&mut compiler);

    let mean = |args: &[&str]| {
        let mut mean = Command::new(&program);
        mean.args(args)
            .env("LD_LIBRARY_PATH", prefix.path().join("lib"));
        mean.output().unwrap()
    };
    let output = mean(&[data.to_str().unwrap(), "2880"]);
    let said = String::from_utf8(output.stdout).unwrap();
    let fields: Vec<f64> = said
        .split_whitespace()
        .map(|field| field.parse().unwrap())
        .collect();
    let expected = numbers.iter().sum::<f64>() / numbers.len() as f64;
    assert_eq!(fields, [numbers.len() as f64, expected]);
    let estimate = String::from_utf8(output.stderr).unwrap();
    assert!(
        estimate.contains("linear") && estimate.contains("best"),
        "{estimate}"
    );

    let failing = mean(&["/no/such/file"]);
    assert_eq!(failing.status.code(), Some(1));
    let words = String::from_utf8(failing.stderr).unwrap();
    assert!(words.contains("/no/such/file cannot be opened"), "{words}");
}
