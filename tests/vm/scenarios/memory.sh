#!/bin/sh
# 600 MB are written through the page cache of a machine with 384: the kernel writes back through us,
# who need memory to take it.
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

# Each of a hundred pieces is what it was.
same() {
    n=0
    while [ "$n" -lt 600 ]; do
        dd if=/mnt/file of=/tmp/read bs=1M skip="$n" count=1 2>/dev/null
        cmp /tmp/piece /tmp/read || return 1
        n=$((n + 6))
    done
}

must "a volume is made" create "$(disk data)" "$(disk log)"
must "it is attached" attach v --memory 64MiB
must "a filesystem is made" make_fs ext4 "$device"
must "it mounts" mount_fs "$device"
dd if=/dev/urandom of=/tmp/piece bs=1M count=1 2>/dev/null
must "600 MB are written" fill
must "it unmounts" umount_fs
must "it is in order" check_fs ext4 "$device"
must "it mounts again" mount_fs "$device"
must "what was written is there" same
must "it unmounts again" umount_fs
must "it is detached" detach
check "nobody was killed for memory" lacks "Out of memory" dmesg
