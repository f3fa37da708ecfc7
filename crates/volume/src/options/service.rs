//! Options of the process that serves a volume.

use super::values::{
    BootAttach, FrontEndKind, HttpAddress, ListenAddress, MemoryLimit, MetricsAddress,
};
use super::{OptionKey, OptionRow};
use crate::kind_spec::ServedAs;
use crate::mounting::{MountDir, MountOptions};

/// Front end that makes a block device of the volume.
pub static VIA: OptionKey<FrontEndKind> = OptionKey::new(
    "via",
    "HOW",
    "The front end that makes the block device: auto, ublk, nbd, loop, or none (NBD clients only).",
)
.choices(&["auto", "ublk", "nbd", "loop", "none"]);

/// Listening address for NBD clients, besides the socket in the runtime directory.
pub static LISTEN: OptionKey<ListenAddress> = OptionKey::new(
    "listen",
    "WHERE",
    "Address for NBD clients, besides the socket in the runtime directory: unix:PATH or tcp:ADDRESS:PORT. TCP has no \
     authentication.",
);

/// Memory limit for the data of requests.
pub static MEMORY: OptionKey<MemoryLimit> = OptionKey::new(
    "memory",
    "SIZE",
    "Maximum memory for the data of requests, over all clients and the block device: 64MiB or more.",
);

/// Address for metrics over HTTP.
pub static METRICS: OptionKey<MetricsAddress> = OptionKey::new(
    "metrics",
    "ADDRESS:PORT",
    "Address at which Prometheus metrics are served over HTTP, at the path /metrics.",
);

/// Address for the status page, and the metrics, over HTTP.
pub static HTTP: OptionKey<HttpAddress> = OptionKey::new(
    "http",
    "[ADDRESS:]PORT",
    "Address at which a status page and the metrics are served over HTTP, without authentication: PORT, for this \
     machine only, or ADDRESS:PORT. Port 0 selects a free port, which `status` shows.",
);

/// Mount point of a filesystem.
pub static MOUNT: OptionKey<MountDir> = OptionKey::new(
    "mount",
    "DIR",
    "Directory to mount on if the command line of `forebay mount` has none.",
);

/// Mount options of a filesystem.
pub static MOUNT_OPTIONS: OptionKey<MountOptions> = OptionKey::new(
    "mount-options",
    "OPTION,…",
    "Mount options, as behind -o in `mount -o ro,noexec`.",
);

/// Attaching from the initramfs.
pub static BOOT: OptionKey<BootAttach> = OptionKey::new(
    "boot",
    "on|off",
    "If on, the initramfs attaches the volume, for a root filesystem on it. After a change, make the initramfs again \
     (update-initramfs -u, or dracut --force). Only in the configuration file.",
)
.choices(&["on", "off"]);

static OF_BLOCKS: [OptionRow; 5] = [
    VIA.row("auto", "auto"),
    LISTEN.row("none", "tcp:127.0.0.1:10809"),
    MEMORY.row("256MiB", "256MiB"),
    METRICS.row("none", "127.0.0.1:9420"),
    HTTP.row("none", "127.0.0.1:9420"),
];

static OF_FILES: [OptionRow; 3] = [
    MEMORY.row("256MiB", "256MiB"),
    METRICS.row("none", "127.0.0.1:9420"),
    HTTP.row("none", "127.0.0.1:9420"),
];

/// Options that are arguments or `-o` on the command line of `forebay mount`.
static OF_MOUNTS: [OptionRow; 2] = [
    MOUNT.row("none", "/srv/files"),
    MOUNT_OPTIONS.row("rw", "rw"),
];

/// Options of block devices that only the configuration file has.
static OF_BOOT: [OptionRow; 1] = [BOOT.row("off", "on")];

/// Returns the options of the process that serves a volume in this form, as far as they are options of the command
/// line.
pub fn service_options(served: ServedAs) -> &'static [OptionRow] {
    match served {
        ServedAs::BlockDevice => &OF_BLOCKS,
        ServedAs::Files => &OF_FILES,
    }
}

/// Returns the keys of a filesystem's configuration file that are arguments or `-o` on the command line.
pub fn mount_keys() -> &'static [OptionRow] {
    &OF_MOUNTS
}

/// Returns the keys of a block device's configuration file that are no options of the command line.
pub fn boot_keys() -> &'static [OptionRow] {
    &OF_BOOT
}

/// Returns the options of the process that serves a volume in this form, as keys of its configuration file.
pub(crate) fn service_keys(served: ServedAs) -> Vec<&'static OptionRow> {
    let of_file = match served {
        ServedAs::BlockDevice => boot_keys(),
        ServedAs::Files => mount_keys(),
    };
    service_options(served).iter().chain(of_file).collect()
}
