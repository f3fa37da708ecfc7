//! Text of users: configuration files, specs, options, sizes.

use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;

use forebay_units::{ByteLen, TimeSpan};
use forebay_volume::{
    AckMode, BypassSize, ConfigFile, DeviceSpec, FrontEndKind, HttpAddress, ListenAddress,
    MetricsAddress, VolumeName,
};

use super::fair;
use crate::cap;

/// Returns the input as text, at most 4,096 bytes: a parser of TOML may take more memory than a decoder.
fn as_text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(&bytes[..bytes.len().min(4096)]).ok()
}

/// Parses `text`, and checks that the value prints as text that parses to an equal value.
fn prints_as_it_reads<T: FromStr + Display + PartialEq + std::fmt::Debug>(text: &str) {
    if let Ok(value) = cap::within(fair(text.as_bytes()), || text.parse::<T>()) {
        let printed = value.to_string();
        let again = printed.parse::<T>().ok();
        assert_eq!(
            again.as_ref(),
            Some(&value),
            "{text:?} prints as {printed:?}"
        );
    }
}

/// Checks that a parsed configuration file is written as an equivalent file.
pub fn description(bytes: &[u8]) {
    let Some(text) = as_text(bytes) else { return };
    let (file, name) = (
        Path::new("/etc/forebay/volumes/v.toml"),
        "v".parse::<VolumeName>().expect("a name"),
    );
    // The parser keeps tokens in vectors that double: a line of dots costs it 270 bytes for each.
    let read = cap::within((64 << 10) + 512 * text.len(), || {
        ConfigFile::parse(text, file, &name)
    });
    match read {
        Ok(read) => {
            let written = read.to_toml();
            let again = ConfigFile::parse(&written, file, &name);
            // The written file has the present keys, so it causes no warning.
            let warnings = Vec::new();
            let read = ConfigFile { warnings, ..read };
            assert_eq!(again.as_ref(), Ok(&read), "written as\n{written}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

pub(super) fn description_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let full = "name = \"v\"\nvolume = \"00010203-0405-0607-0809-0a0b0c0d0e0f\"\n\
                data = \"/dev/disk/by-id/a@b\"\nlog = \"/dev/sdb@64MiB+1GiB\"\nvia = \"loop\"\n\
                listen = \"tcp:[::1]:10809\"\nack = \"durable\"\nmax-delay = \"50ms\"\n\
                bypass = \"64KiB\"\nmetrics = \"127.0.0.1:9100\"\n";
    let short = "# a comment\nname='v'\ndata='/a'\nlog=\"/b\"\nbypass = \"off\"\n";
    let wrong = "[a]\nname = 3\ndata = [\"x\", {y = 1.5e3}]\nlog = 1979-05-27T07:32:00Z\n";
    let nested = "name='v'\nkind='cache'\nlog='/a'\n[data]\nkind='cache'\nlog='/b@0+1GiB'\n\
                  data='/b@1GiB+9GiB'\nbypass='64KiB'\n";
    vec![
        ("full", full.into()),
        ("nested", nested.into()),
        ("short", short.into()),
        ("wrong", wrong.into()),
    ]
}

/// Parses a device as named on the command line.
pub fn spec(bytes: &[u8]) {
    if let Some(text) = as_text(bytes) {
        prints_as_it_reads::<DeviceSpec>(text);
    }
}

pub(super) fn spec_seeds() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("path", b"/dev/sdb".to_vec()),
        ("part", b"disk.img@64MiB+1.5GiB".to_vec()),
        ("at", b"/dev/disk/by-id/a@b@0+512".to_vec()),
    ]
}

/// Parses options with values of their own, and names.
pub fn options(bytes: &[u8]) {
    if let Some(text) = as_text(bytes) {
        prints_as_it_reads::<FrontEndKind>(text);
        prints_as_it_reads::<AckMode>(text);
        prints_as_it_reads::<BypassSize>(text);
        prints_as_it_reads::<ListenAddress>(text);
        prints_as_it_reads::<MetricsAddress>(text);
        prints_as_it_reads::<HttpAddress>(text);
        prints_as_it_reads::<VolumeName>(text);
    }
}

pub(super) fn options_seeds() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("bypass", b"64KiB".to_vec()),
        ("unix", b"unix:/run/a.sock".to_vec()),
        ("tcp", b"tcp:[::1]:10809".to_vec()),
        ("metrics", b"localhost:9100".to_vec()),
        ("http", b"9100".to_vec()),
        ("name", b"a-volume_1.x".to_vec()),
    ]
}

/// Parses lengths and time spans.
pub fn sizes(bytes: &[u8]) {
    let Some(text) = as_text(bytes) else { return };
    prints_as_it_reads::<TimeSpan>(text);
    if let Ok(len) = cap::within(fair(bytes), || text.parse::<ByteLen>()) {
        // A length prints rounded; in bytes it parses to an equal length.
        assert_eq!(len.0.to_string().parse(), Ok(len));
        assert!(!len.to_string().is_empty());
        let digits = text.trim().trim_end_matches(|c: char| !c.is_ascii_digit());
        let whole = digits.len() == text.trim().len() && !digits.contains('.');
        if whole && let Ok(number) = digits.parse::<u64>() {
            assert_eq!(len, ByteLen(number));
        }
    }
}

pub(super) fn sizes_seeds() -> Vec<(&'static str, Vec<u8>)> {
    [
        "0",
        "64KiB",
        " 1.5 GiB ",
        "16777215PiB",
        "50ms",
        "5min",
        "18446744073709551615",
    ]
    .into_iter()
    .zip(["zero", "kib", "fraction", "large", "ms", "min", "most"])
    .map(|(text, name)| (name, text.as_bytes().to_vec()))
    .collect()
}
