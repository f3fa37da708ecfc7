#!/bin/sh
# Filesystems on a volume: make, fill, check and drain each, then check the data device alone.
#
# vm: disk data 512M
# vm: disk log 64M
# vm: minutes 10
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh

data=$(disk data) log=$(disk log)
for kind in ext4 xfs btrfs; do
    must "$kind: a volume is made" create "$data" "$log"
    must "$kind: the volume is attached via $via" attach
    must "$kind: a filesystem is made" make_fs "$kind" "$device"
    must "$kind: the filesystem mounts" mount_fs "$device"
    new_ledger 2>/dev/null
    must "$kind: clients write" users write --acts 40
    must "$kind: the filesystem unmounts" umount_fs
    must "$kind: the filesystem passes its check" check_fs "$kind" "$device"
    must "$kind: the filesystem mounts again" mount_fs "$device"
    must "$kind: fsynced data is present" users verify --least 120
    must "$kind: the volume drains while it is mounted" forebay drain v
    must "$kind: the filesystem unmounts again" umount_fs
    must "$kind: the volume is detached" detach
    check "$kind: the log is empty" forebay check v
    alone "$kind" "$data"
done
