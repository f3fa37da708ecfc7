#!/bin/sh
# What the kernel's nbd driver does that others do not.
#
# vm: disk data 256M
# vm: disk log 64M
# vm: minutes 10
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh
via=nbd

data=$(disk data) log=$(disk log)
must "a volume is made" create "$data" "$log"

# Found by trying: the driver sets the size some time after it was told to serve. It was 0 in 28 of 40.
sized() {
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        attach && [ "$(sectors "$device")" = "$(sectors "$data")" ] &&
            [ "$(dd if="$device" bs=4096 count=1 | wc -c)" -eq 4096 ] || return 1
        forebay detach v || return 1
    done
}
check "an attached device has its size at once" sized
# It is attached still if that failed.
forebay detach v >/dev/null 2>&1

must "it is attached" attach_mortal
check "status counts the kernel among the clients" says nbd_connections 1
must "a filesystem is made" make_fs ext4 "$device"
must "it mounts" mount_fs "$device"
check "a mounted device is not detached" refused "mounted on /mnt" detach
check "and we are not blamed" lacks "forebay (process" detach

# The next device was taken, and the filesystem stayed mounted from a dead one.
first=$device
must "the daemon is killed" kill_daemon
check "while the dead device is mounted none is attached" \
    refused "$first is still in use: mounted on /mnt" attach_mortal
modprobe ublk_drv
via=ublk
check "nor one of another kind" refused "$first is still in use: mounted on /mnt" attach
via=nbd
must "the dead device unmounts" umount_fs
must "it is attached again" attach_mortal
check "as the same device" test "$device" = "$first"

# Has it open and goes on waiting.
mkfifo /tmp/never
dd if="$device" of=/tmp/never 2>/dev/null &
reader=$!
reads() {
    for fd in "/proc/$reader/fd/"*; do
        [ "$(readlink "$fd")" != "$device" ] || return 0
    done
    return 1
}
must "somebody reads it" within 30 reads
check "a device that somebody reads is not detached" refused "open in" detach
kill "$reader"
wait "$reader" 2>/dev/null
must "it is detached" detach
