//! Common NBD tools, against a server behind a real socket.

use std::ops::Range;
use std::process::Command;
use std::rc::Rc;

use forebay_device::RamDevice;
use forebay_linux::DeviceOpenOptions;
use forebay_nbd::{BlockStatus, NbdExport, StatusExtent};

use crate::support::device::probe;
use crate::support::served::{ServedExports, output, tool, write_noise};

const LEN: u64 = 16 << 20;

fn ram(block_size: u32) -> NbdExport {
    NbdExport::new("disk", Rc::new(RamDevice::new(LEN, block_size)))
}

/// Block status with the first half in one place, and the second half unallocated.
struct HalvesStatus;

impl BlockStatus for HalvesStatus {
    fn context(&self) -> Option<&str> {
        Some("forebay:place")
    }

    fn status(&self, range: Range<u64>, _max: usize) -> Vec<StatusExtent> {
        let extent = |len: u64, empty| StatusExtent {
            len,
            hole: empty,
            zero: empty,
            value: if empty { 3 } else { 1 },
        };
        let half = LEN / 2;
        let first = half.min(range.end).saturating_sub(range.start);
        let second = range.end - range.start - first;
        let halves = [extent(first, false), extent(second, true)];
        halves.into_iter().filter(|e| e.len > 0).collect()
    }
}

#[test]
fn nbdinfo_reports_the_served_exports() {
    let Some(mut info) = tool("nbdinfo") else {
        return;
    };
    let served = ServedExports::new(|_| {
        let disk = ram(4096)
            .description("a disk")
            .status(Rc::new(HalvesStatus))
            .fast_zeroes(true);
        let other = NbdExport::new("other", Rc::new(RamDevice::new(512, 512))).read_only(true);
        (vec![disk, other], || ())
    });
    let text = output(info.arg("--list").arg(served.uri("")));
    for expected in [
        "protocol: newstyle-fixed without TLS, using structured packets",
        "export=\"disk\":",
        "description: a disk",
        "export=\"other\":",
        "export-size: 16777216",
        "base:allocation",
        "forebay:place",
        "is_read_only: true",
        "can_multi_conn: true",
        "can_df: true",
        "can_fua: true",
        "can_fast_zero: true",
        "block_size_minimum: 4096",
        "block_size_maximum: 33554432",
    ] {
        assert!(text.contains(expected), "no {expected:?} in\n{text}");
    }
    let map = |context: &str| {
        let mut info = Command::new("nbdinfo");
        let text = output(info.arg(format!("--map={context}")).arg(served.uri("disk")));
        let lines = text.lines().map(|line| {
            let words: Vec<_> = line.split_whitespace().take(3).collect();
            words.join(" ")
        });
        lines.collect::<Vec<_>>()
    };
    assert_eq!(map("base:allocation"), ["0 8388608 0", "8388608 8388608 3"]);
    assert_eq!(map("forebay:place"), ["0 8388608 1", "8388608 8388608 3"]);
    served.finish();
}

#[test]
fn nbdcopy_reads_back_the_data_it_copied_over_several_connections() {
    let Some(mut there) = tool("nbdcopy") else {
        return;
    };
    let served = ServedExports::one(|_| ram(512));
    let (source, target) = (served.file("source"), served.file("target"));
    write_noise(&source, LEN as usize, 1);
    output(
        there
            .args(["--connections=4", "--flush"])
            .arg(&source)
            .arg(served.uri("disk")),
    );
    let mut back = Command::new("nbdcopy");
    output(
        back.arg("--connections=4")
            .arg(served.uri("disk"))
            .arg(&target),
    );
    assert!(std::fs::read(&source).unwrap() == std::fs::read(&target).unwrap());
    served.finish();
}

#[test]
fn qemu_img_finds_a_converted_image_equal_to_its_source() {
    let Some(mut convert) = tool("qemu-img") else {
        return;
    };
    let served = ServedExports::one(|_| ram(4096));
    let image = served.file("image");
    write_noise(&image, LEN as usize, 2);
    let formats = ["-n", "-f", "raw", "-O", "raw"];
    output(
        convert
            .arg("convert")
            .args(formats)
            .arg(&image)
            .arg(served.uri("disk")),
    );
    let compare = || {
        let mut compare = Command::new("qemu-img");
        compare
            .args(["compare", "-f", "raw", "-F", "raw"])
            .arg(&image)
            .arg(served.uri("disk"));
        compare
    };
    assert!(output(&mut compare()).contains("identical"));
    write_noise(&image, LEN as usize, 3);
    assert_eq!(compare().output().unwrap().status.code(), Some(1));
    served.finish();
}

#[test]
fn qemu_io_reads_back_written_zeroed_and_discarded_patterns() {
    let Some(mut io) = tool("qemu-io") else {
        return;
    };
    let served = ServedExports::one(|_| ram(512));
    for command in [
        "write -P 0x5a 0 1M",
        "read -P 0x5a 0 1M",
        "write -f -P 0xa5 512 512",
        "read -P 0xa5 512 512",
        "write -z 64k 64k",
        "read -P 0 64k 64k",
        "write -z -u 128k 64k",
        "read -P 0 128k 64k",
        "discard 256k 64k",
        "flush",
        "aio_write -P 1 1M 4M",
        "aio_write -P 2 5M 4M",
        "aio_flush",
        "read -P 1 1M 4M",
        "read -P 2 5M 4M",
    ] {
        io.arg("-c").arg(command);
    }
    let text = output(io.args(["-f", "raw"]).arg(served.uri("disk")));
    assert!(!text.contains("failed"), "{text}");
    served.finish();
}

fn fio_verifies(served: &ServedExports) {
    let mut fio = Command::new("fio");
    // fio leaves its state in the working directory.
    fio.current_dir(served.dir());
    fio.args([
        "--name=verify",
        "--ioengine=nbd",
        "--rw=randrw",
        "--bsrange=4k-256k",
    ])
    .args([
        "--iodepth=16",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--randseed=7",
    ])
    .arg(format!("--size={LEN}"))
    .arg(format!("--uri={}", served.uri("disk")));
    let text = output(&mut fio);
    assert!(text.contains("err= 0"), "{text}");
}

#[test]
fn fio_verifies_its_writes_to_memory() {
    if tool("fio").is_none() {
        return;
    }
    let served = ServedExports::one(|_| ram(4096));
    fio_verifies(&served);
    served.finish();
}

#[test]
fn fio_verifies_its_writes_to_a_file() {
    if tool("fio").is_none() {
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("image");
    forebay_linux::create_file(&path, LEN, false).unwrap();
    let served = ServedExports::one(move |ring| {
        let opened = forebay_linux::open(ring, &path, DeviceOpenOptions::default()).unwrap();
        NbdExport::new("disk", opened.device)
    });
    fio_verifies(&served);
    served.finish();
}

const NBDSH: &str = r#"
import errno
h.add_meta_context("base:allocation")
h.add_meta_context("forebay:place")
h.connect_uri(uri)
assert h.can_fua() and h.can_flush() and h.can_trim() and h.can_zero() and h.can_df()
assert h.get_block_size(nbd.SIZE_MINIMUM) == 4096

h.pwrite(b"a" * 4096, 0, nbd.CMD_FLAG_FUA)
h.trim(8192, 8192, nbd.CMD_FLAG_FUA)
h.zero(4096, 4096, nbd.CMD_FLAG_FUA)
assert h.pread(8192, 0) == b"a" * 4096 + bytes(4096)
chunks = []
h.pread_structured(8192, 0, lambda data, at, status, err: chunks.append((bytes(data), at)), nbd.CMD_FLAG_DF)
assert chunks == [(b"a" * 4096 + bytes(4096), 0)]

seen = {}
h.block_status(1 << 20, 0, lambda name, offset, entries, err: seen.update({name: entries}))
assert seen == {"base:allocation": [1 << 20, 0], "forebay:place": [1 << 20, 1]}, seen

h.set_strict_mode(0)
def refused(number, call):
    try:
        call()
    except nbd.Error as error:
        assert error.errnum == number, error
    else:
        raise AssertionError("not refused")
size = h.get_size()
refused(errno.EINVAL, lambda: h.pread(512, 0))
refused(errno.EINVAL, lambda: h.pread(4096, 100))
refused(errno.EINVAL, lambda: h.pread(4096, size))
refused(errno.ENOSPC, lambda: h.pwrite(b"x" * 4096, size))
refused(errno.ENOSPC, lambda: h.zero(4096, size))
refused(errno.EINVAL, lambda: h.trim(4096, size))
refused(errno.ENOTSUP, lambda: h.zero(4096, 0, nbd.CMD_FLAG_FAST_ZERO))
refused(errno.EINVAL, lambda: h.cache(4096, 0))
assert h.pread(4096, 0) == b"a" * 4096
h.shutdown()
"#;

#[test]
fn nbdsh_finds_fua_block_status_and_errors_as_the_protocol_requires() {
    let Some(mut shell) = tool("nbdsh") else {
        return;
    };
    let served = ServedExports::new(|_| {
        let probe = probe(LEN, 4096);
        let export = NbdExport::new("disk", Rc::clone(&probe) as _).status(Rc::new(HalvesStatus));
        let at_end = move || {
            let expected = [
                "write(fua) 0+4096",
                "discard 8192+8192",
                "flush 0+0",
                "write-zeroes(release) 4096+4096",
                "flush 0+0",
                "read 0+8192",
                "read 0+8192",
                "read 0+4096",
            ];
            assert_eq!(probe.asked(), expected);
        };
        (vec![export], at_end)
    });
    let script = format!("uri = {:?}\n{NBDSH}", served.uri("disk"));
    // The module belongs to the system's own Python, even if another Python comes first.
    let path = std::env::var("PATH").unwrap_or_default();
    shell.env("PATH", format!("/usr/bin:{path}"));
    output(shell.arg("-c").arg(script));
    served.finish();
}
