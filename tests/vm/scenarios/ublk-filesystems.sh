#!/bin/sh
# xfs and btrfs on a ublk device: one daemon follows another that was killed.
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
must "it is attached" attach
for kind in xfs btrfs; do
    users_begin "$kind"
    for round in 1 2; do
        killed "$kind" "$round"
        must "$kind, $round: another daemon takes it up" same_device attach
    done
    must "$kind: it serves" within 120 busy
    users_end "$kind"
    in_order "$kind"
    must "$kind: it unmounts" umount_fs
done
must "it is detached" detach
alone btrfs "$data"
