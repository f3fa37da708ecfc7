//! Tests of `sleds fits` with files that are written here: unsigned numbers of 64 bits, and data behind the pixels.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::scratch;

const BLOCK: usize = 2880;

/// Returns the bytes of an HDU with these cards and data.
fn hdu(cards: &[(&str, &str)], data: &[u8]) -> Vec<u8> {
    let cards = cards
        .iter()
        .map(|(key, value)| format!("{key:<8}= {value:>20}"));
    let cards = cards.chain(["END".to_owned()]);
    let mut bytes: Vec<u8> = cards
        .flat_map(|card| format!("{card:<80}").into_bytes())
        .collect();
    bytes.resize(bytes.len().next_multiple_of(BLOCK), b' ');
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    bytes
}

/// Returns an image of one row of unsigned numbers of 64 bits.
fn unsigned(pixels: &[u64]) -> Vec<u8> {
    let stored = pixels.iter().flat_map(|n| (n ^ 1 << 63).to_be_bytes());
    let width = pixels.len().to_string();
    let cards = [
        ("SIMPLE", "T"),
        ("BITPIX", "64"),
        ("NAXIS", "2"),
        ("NAXIS1", &width),
        ("NAXIS2", "1"),
        ("BSCALE", "1.0"),
        ("BZERO", "9223372036854775808"),
    ];
    hdu(&cards, &stored.collect::<Vec<_>>())
}

fn fits(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sleds"));
    command.arg("fits").args(args).current_dir(dir);
    command.output().expect("sleds to run")
}

/// Returns the data of the first HDU, whose header has one block.
fn data(path: &Path) -> Vec<u8> {
    fs::read(path).expect("the result")[BLOCK..].to_vec()
}

#[test]
fn unsigned_numbers_of_64_bits_keep_their_values_in_floating_point_results() {
    let dir = scratch();
    let pixels = [1, 2, 3, 4, 1000, 0, 1 << 40, 5];
    fs::write(dir.path().join("in"), unsigned(&pixels)).expect("an image");
    let sums = [3.0, 7.0, 1000.0, (1_u64 << 40) as f64 + 5.0];
    for (bitpix, size) in [("-64", 8), ("-32", 4)] {
        for (average, divisor) in [(&[][..], 1.0), (&["--average"][..], 2.0)] {
            let args = [&["bin", "--clobber", "--bitpix", bitpix][..], average].concat();
            let args = [&args[..], &["in", "out", "2", "1"]].concat();
            let output = fits(dir.path(), &args);
            assert!(output.status.success(), "{output:?}");
            let bytes = data(&dir.path().join("out"));
            let values = bytes.chunks(size).take(sums.len()).map(|pixel| match size {
                8 => f64::from_be_bytes(pixel.try_into().expect("8 bytes")),
                _ => f32::from_be_bytes(pixel.try_into().expect("4 bytes")).into(),
            });
            let wanted = sums.map(|sum| sum / divisor);
            let wanted = if size == 4 {
                wanted.map(|value| f64::from(value as f32))
            } else {
                wanted
            };
            assert_eq!(values.collect::<Vec<_>>(), wanted, "{bitpix} {average:?}");
        }
    }
}

#[test]
fn data_behind_the_pixels_is_neither_counted_nor_rebinned() {
    let dir = scratch();
    let cards = [
        ("XTENSION", "'IMAGE   '"),
        ("BITPIX", "8"),
        ("NAXIS", "2"),
        ("NAXIS1", "4"),
        ("NAXIS2", "2"),
        ("PCOUNT", "100"),
        ("GCOUNT", "2"),
    ];
    let mut image = vec![7; 8];
    image.resize(216, 9);
    let primary = hdu(&[("SIMPLE", "T"), ("BITPIX", "8"), ("NAXIS", "0")], &[]);
    let file = [primary, hdu(&cards, &image)].concat();
    fs::write(dir.path().join("in"), &file).expect("a file");
    for range in ["0:10", "-"] {
        let output = fits(
            dir.path(),
            &["hist", "--clobber", "in[1]", "out", range, "1"],
        );
        assert!(output.status.success(), "{output:?}");
        let bytes = fs::read(dir.path().join("out")).expect("the result");
        assert_eq!(bytes[..file.len()], file, "the input is copied");
        let table = &bytes[file.len() + BLOCK..];
        let rows = if range == "-" { 1 } else { 10 };
        let count = |row: &[u8]| u64::from_be_bytes(row[8..16].try_into().expect("8 bytes"));
        let counted: u64 = table.chunks(24).take(rows).map(count).sum();
        assert_eq!(counted, 8, "{range}");
    }
    let output = fits(dir.path(), &["bin", "--clobber", "in[1]", "out", "2", "1"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(data(&dir.path().join("out"))[..5], [14, 14, 14, 14, 0]);
}

#[test]
fn only_regular_files_are_replaced() {
    let dir = scratch();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("in"), unsigned(&[1, 2])).expect("an image");
    fs::write(at("target"), "text").expect("a file");
    std::os::unix::fs::symlink("target", at("link")).expect("a link");
    std::os::unix::fs::symlink("missing", at("dangling")).expect("a link");
    let made = Command::new("mkfifo").arg(at("fifo")).status();
    assert!(made.expect("mkfifo").success());
    for name in ["link", "dangling", "fifo", "/dev/null"] {
        for out in [&[&format!("!{name}")[..]][..], &[name, "--clobber"]] {
            for tool in [&["hist", "in"][..], &["bin", "in"]] {
                let args = [tool, out, &["0:1", "1"][usize::from(tool[0] == "bin")..]].concat();
                let output = fits(dir.path(), &args);
                assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
                let err = String::from_utf8_lossy(&output.stderr);
                assert!(err.contains("not replaced"), "{err}");
            }
        }
    }
    let kind = |name| {
        fs::symlink_metadata(at(name))
            .expect("it is there")
            .file_type()
    };
    assert!(kind("link").is_symlink() && kind("dangling").is_symlink());
    assert!(kind("fifo").is_fifo());
    assert_eq!(fs::read_to_string(at("target")).expect("the file"), "text");
}
