//! Comments on options in configuration files, for administrators that edit the files.

/// Key of each option, the text shown if it has no value, and its comment.
pub(crate) const OPTIONS: [(&str, &str, &str); 14] = [
    (
        "via",
        "auto",
        "# The front end that makes the block device: auto, ublk, nbd, loop, or none (NBD clients only).",
    ),
    (
        "listen",
        "tcp:127.0.0.1:10809",
        "# Address for NBD clients, besides the socket in the runtime directory: unix:PATH\n\
         # or tcp:ADDRESS:PORT. TCP has no authentication.",
    ),
    (
        "durability",
        "flush",
        "# Acknowledgement of a write: \"flush\": at once; a flush makes it durable, as with any\n\
         # disk that has a write cache. \"handover\": when the log device has the data, which then\n\
         # survives the daemon; a flush makes it durable. \"write\": when it is durable. Default:\n\
         # handover for a ublk or nbd device, which another daemon can take over; else flush.",
    ),
    (
        "max-delay",
        "50ms",
        "# Maximum time that unflushed data may wait before it is written to the log. Default: 500ms if\n\
         # log and data are on one disk, else 50ms.",
    ),
    (
        "patience",
        "60s",
        "# Time that requests wait for a failing device before they fail too. The device is retried\n\
         # without a time limit in any case.",
    ),
    (
        "bypass",
        "off",
        "# Writes of this size and more go to the data device directly: \"off\", or a size such as\n\
         # \"64KiB\". Default: 64KiB if log and data are parts of one device, else off.",
    ),
    (
        "map-memory",
        "1GiB",
        "# Maximum memory for the map of the log. When it is full, writes wait, as for free space in\n\
         # the log. 1GiB is enough for 200 GiB in extents of 4 KiB, or 25 GiB in extents of 512 bytes.",
    ),
    (
        "discard",
        "on",
        "# Discard segments before they are used again: on or off. Default: on for a block device that\n\
         # supports discards; off for files, whose space would have to be allocated again.",
    ),
    (
        "spare",
        "1/16",
        "# The share of the segments that is kept free of data: 1/N or a percentage. A larger share\n\
         # reduces the writes for cleaning a full volume. Default: 1/16, and at least 1/128, or 1/32\n\
         # for small volumes; 1/512 and 1/1024 if the placement writes in place (hylog,\n\
         # hylog+sepbit, overwrite).",
    ),
    (
        "metrics",
        "127.0.0.1:9420",
        "# Address at which Prometheus metrics are served over HTTP (ADDRESS:PORT, path /metrics).",
    ),
    (
        "http",
        "127.0.0.1:9420",
        "# Address at which a status page and the metrics are served over HTTP, without\n\
         # authentication: PORT, for this machine only, or ADDRESS:PORT.",
    ),
    (
        "memory",
        "256MiB",
        "# Maximum memory for the data of requests, over all clients and the block device:\n\
         # 64MiB or more.",
    ),
    (
        "mount",
        "/srv/files",
        "# Directory to mount on if the command line of `forebay mount` has none.",
    ),
    (
        "mount-options",
        "rw",
        "# Mount options, as behind -o in `mount -o ro,noexec`.",
    ),
];

/// Entries that differ for a log-structured space, and so also for a filesystem.
pub(crate) const IN_A_SPACE: [(&str, &str, &str); 2] = [
    (
        "max-delay",
        "250ms",
        "# Maximum time that unflushed data may wait before it is written to the device.",
    ),
    (
        "map-memory",
        "256MiB",
        "# Maximum memory for the map of the space, without its unwritten changes. Parts of the map\n\
         # that do not fit are read again when they are needed.",
    ),
];
