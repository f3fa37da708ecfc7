#!/bin/sh
# xfs and btrfs on a ublk device: the device survives killed daemons.
#
# vm: disk data 512M
# vm: disk log 96M
# vm: program fio
# vm: minutes 10
# shellcheck shell=dash source=tests/vm/lib.sh
. /vm/lib.sh
# shellcheck disable=SC2034  # for lib.sh
via=ublk
data=$(disk data) log=$(disk log)

must "the driver is loaded" modprobe ublk_drv
must "a volume is made" create "$data" "$log"
must "the volume is attached" attach
for kind in xfs btrfs; do
    users_begin "$kind"
    for round in 1 2; do
        killed "$kind" "$round"
        must "$kind, $round: another daemon recovers the device" same_device attach
    done
    must "$kind: the device is busy" within 120 busy
    users_end "$kind"
    in_order "$kind"
    must "$kind: the filesystem unmounts" umount_fs
done
must "the volume is detached" detach
alone btrfs "$data"
