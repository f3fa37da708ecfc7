#!/bin/sh
# Runs `forebay-bench dfs` on a disk of the guest, for `scripts/bench-fs`. Prints the report with `= ` before each line.
# shellcheck shell=dash source=tests/vm/lib.sh disable=SC1091
. /vm/lib.sh
scratch=$(disk scratch)

# Prints the progress, because the measurement takes long.
measured() {
    forebay-bench dfs --quick --dir /mnt --output /tmp/report 2>&1 |
        while read -r line; do echo "= > $line"; done >/dev/console
    [ -s /tmp/report/report.md ]
}

modprobe fuse f2fs
must "a filesystem for the images is made" mkfs.xfs -q -f "$scratch"
must "the filesystem is mounted" mount -t xfs "$scratch" /mnt
must "the benchmark writes its report" measured
sed 's/^/= /' /tmp/report/report.md
