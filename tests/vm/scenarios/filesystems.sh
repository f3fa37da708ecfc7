#!/bin/sh
# A filesystem's life on a volume: made, filled, checked, drained, and found on the data device alone.
#
# vm: disk data 512M
# vm: disk log 64M
# vm: minutes 10
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh

data=$(disk data) log=$(disk log)
for kind in ext4 xfs btrfs; do
    must "$kind: a volume is made" create "$data" "$log"
    must "$kind: it is attached via $via" attach
    must "$kind: a filesystem is made" make_fs "$kind" "$device"
    must "$kind: it mounts" mount_fs "$device"
    new_ledger 2>/dev/null
    must "$kind: users write" users write --acts 40
    must "$kind: it unmounts" umount_fs
    must "$kind: it is in order" check_fs "$kind" "$device"
    must "$kind: it mounts again" mount_fs "$device"
    must "$kind: what fsync promised is there" users verify --least 120
    must "$kind: it drains while it is mounted" forebay drain v
    must "$kind: it unmounts again" umount_fs
    must "$kind: it is detached" detach
    check "$kind: nothing is left in the log" forebay check v
    alone "$kind" "$data"
done
