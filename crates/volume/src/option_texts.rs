//! Comments on options in configuration files, for administrators that edit the files.

/// Key of each option, the text shown if it has no value, and its comment.
pub(crate) const OPTIONS: [(&str, &str, &str); 14] = [
    (
        "via",
        "auto",
        "# What makes a block device of it: auto, ublk, nbd, loop, or none (NBD clients only).",
    ),
    (
        "listen",
        "tcp:127.0.0.1:10809",
        "# Where NBD clients may connect besides the socket in the runtime directory: unix:PATH\n\
         # or tcp:ADDRESS:PORT. There is no authentication on TCP.",
    ),
    (
        "durability",
        "flush",
        "# When a write is acknowledged: \"flush\": at once, a flush makes it durable, as with any\n\
         # disk that has a write cache; \"handover\": when it was written to the log, so that it\n\
         # outlives a daemon that dies, and a flush makes it durable; \"write\": when it is durable.\n\
         # Default: handover for a ublk or nbd device, which another daemon can take up; else flush.",
    ),
    (
        "max-delay",
        "50ms",
        "# How long data that nobody flushed may wait before it goes to the log. Default: 500ms where log\n\
         # and data are parts of one device or on one disk, else 50ms.",
    ),
    (
        "patience",
        "60s",
        "# How long requests wait for a device that fails before they fail too. It is tried again\n\
         # for as long as it takes, whatever this is.",
    ),
    (
        "bypass",
        "off",
        "# Writes of this size and more go to the data device directly: \"off\", or a size such as\n\
         # \"64KiB\". Default: 64KiB where log and data are parts of one device, else off.",
    ),
    (
        "map-memory",
        "1GiB",
        "# How much memory the map of what is in the log may take; then writes wait as for room in\n\
         # the log. 1GiB is enough for 200 GiB in pieces of 4 KiB, and for 25 GiB in pieces of 512 bytes.",
    ),
    (
        "discard",
        "on",
        "# Whether segments are discarded before they are used again: on or off. Default: on for a block\n\
         # device that can discard; off for files, whose room would have to be found again.",
    ),
    (
        "spare",
        "1/16",
        "# The share of the segments that is kept free of data: 1/N, or a percentage. The more, the less is written to\n\
         # clean segments of a full volume. Default, and least: 1/16 and 1/128 (1/32 of small volumes), or where the\n\
         # placement writes in place (hylog, hylog+sepbit, overwrite), 1/512 and 1/1024.",
    ),
    (
        "metrics",
        "127.0.0.1:9420",
        "# Where Prometheus metrics are given out over HTTP (ADDRESS:PORT, path /metrics).",
    ),
    (
        "http",
        "127.0.0.1:9420",
        "# Where a page that shows how the volume is doing is given out over HTTP, with the metrics:\n\
         # PORT of this machine, or ADDRESS:PORT, without any authentication.",
    ),
    (
        "memory",
        "256MiB",
        "# How much memory the data of requests may take up, over all clients and the block device:\n\
         # 64MiB or more.",
    ),
    (
        "mount",
        "/srv/files",
        "# Where it is mounted if `forebay mount` is told no directory.",
    ),
    (
        "mount-options",
        "rw",
        "# How it is mounted: what stands behind -o in `mount -o ro,noexec`.",
    ),
];

/// Entries that differ for a log-structured space, and so also for a filesystem.
pub(crate) const IN_A_SPACE: [(&str, &str, &str); 2] = [
    (
        "max-delay",
        "250ms",
        "# How long data that nobody flushed may wait before it is written to the device.",
    ),
    (
        "map-memory",
        "256MiB",
        "# How much memory the map of where data lies may take, but for what of it is changed and not\n\
         # written yet. What does not fit is read again when it is needed.",
    ),
];
