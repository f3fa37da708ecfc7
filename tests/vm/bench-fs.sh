#!/bin/sh
# `forebay bench dfs` on a disk of this machine, for `scripts/bench-fs`: its report, each line behind `= `.
# shellcheck shell=dash source=tests/vm/lib.sh disable=SC1091
. /vm/lib.sh
scratch=$(disk scratch)

# Said as it goes on, since it takes long.
measured() {
    forebay bench dfs --quick --dir /mnt --output /tmp/report 2>&1 |
        while read -r line; do echo "= > $line"; done >/dev/console
    [ -s /tmp/report/report.md ]
}

modprobe fuse f2fs
must "a filesystem for the images" mkfs.xfs -q -f "$scratch"
must "it is mounted" mount -t xfs "$scratch" /mnt
must "all is measured" measured
sed 's/^/= /' /tmp/report/report.md
