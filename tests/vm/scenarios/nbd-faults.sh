#!/bin/sh
# Peculiarities of the kernel's nbd driver.
#
# vm: disk data 256M
# vm: disk log 64M
# vm: minutes 10
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh
via=nbd

data=$(disk data) log=$(disk log)
must "a volume is made" create "$data" "$log"

# The driver sets the size some time after the start of the device. The size was 0 in 28 of 40 attempts.
sized() {
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        attach && [ "$(sectors "$device")" = "$(sectors "$data")" ] &&
            [ "$(dd if="$device" bs=4096 count=1 | wc -c)" -eq 4096 ] || return 1
        forebay detach v || return 1
    done
}
check "an attached device has its size at once" sized
# A failed check leaves the volume attached.
forebay detach v >/dev/null 2>&1

must "the volume is attached" attach_mortal
check "status counts the kernel among the clients" says nbd_connections 1
must "a filesystem is made" make_fs ext4 "$device"
must "the filesystem mounts" mount_fs "$device"
check "a mounted device is not detached" refused "mounted on /mnt" detach
check "the message does not name Forebay as the user" lacks "forebay (process" detach

# An earlier version chose the next device here, and the filesystem stayed mounted from a stale one.
first=$device
must "the daemon is killed" kill_daemon
check "no device is attached while the stale one is mounted" \
    refused "$first is still in use: mounted on /mnt" attach_mortal
modprobe ublk_drv
via=ublk
check "no device of another front end is attached either" refused "$first is still in use: mounted on /mnt" attach
via=nbd
must "the stale mount is unmounted" umount_fs
must "the volume is attached again" attach_mortal
check "the device name is unchanged" test "$device" = "$first"

# Keeps the device open: dd waits for a reader of the pipe.
mkfifo /tmp/never
dd if="$device" of=/tmp/never 2>/dev/null &
reader=$!
reads() {
    for fd in "/proc/$reader/fd/"*; do
        [ "$(readlink "$fd")" != "$device" ] || return 0
    done
    return 1
}
must "a process has the device open" within 30 reads
check "an open device is not detached" refused "open in" detach
kill "$reader"
wait "$reader" 2>/dev/null
must "the volume is detached" detach
