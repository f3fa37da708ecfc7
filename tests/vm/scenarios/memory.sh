#!/bin/sh
# Low memory: 600 MiB of writes through the page cache of a machine with 384 MiB.
# The kernel writes back through Forebay, which needs memory for these writes.
#
# vm: disk data 1G
# vm: disk log 96M
# vm: memory 384M
# vm: minutes 10
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh

fill() {
    n=0
    while [ "$n" -lt 600 ]; do
        cat /tmp/piece || return 1
        n=$((n + 1))
    done >/mnt/file && sync
}

# Compares 100 of the 600 blocks of 1 MiB with the written data.
same() {
    n=0
    while [ "$n" -lt 600 ]; do
        dd if=/mnt/file of=/tmp/read bs=1M skip="$n" count=1 2>/dev/null
        cmp /tmp/piece /tmp/read || return 1
        n=$((n + 6))
    done
}

must "a volume is made" create "$(disk data)" "$(disk log)"
must "the volume is attached" attach v --memory 64MiB
must "a filesystem is made" make_fs ext4 "$device"
must "the filesystem mounts" mount_fs "$device"
dd if=/dev/urandom of=/tmp/piece bs=1M count=1 2>/dev/null
must "600 MiB are written" fill
must "the filesystem unmounts" umount_fs
must "the filesystem passes its check" check_fs ext4 "$device"
must "the filesystem mounts again" mount_fs "$device"
must "the written data is present" same
must "the filesystem unmounts again" umount_fs
must "the volume is detached" detach
check "the kernel killed no process for memory" lacks "Out of memory" dmesg
