#!/bin/sh
# Two resets of the machine while clients write and fsync, on disks with 4096-byte sectors.
# A separate disk records the fsynced data.
#
# vm: disk data 512M sector=4096
# vm: disk log 64M sector=4096
# vm: disk ledger 1M
# vm: boots 4
# vm: minutes 10
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh

data=$(disk data) log=$(disk log) ledger=$(disk ledger)

# begin KIND: makes a filesystem, and resets the machine under load.
begin() {
    must "$1: a volume is made" create "$data" "$log"
    must "$1: the volume is attached" attach
    must "$1: a filesystem is made" make_fs "$1" "$device"
    must "$1: the filesystem mounts" mount_fs "$device"
    new_ledger 2>/dev/null
    load
    must "$1: clients write" act_begun 60
    reset_machine
}

case $boot in
1) begin ext4 ;;
2)
    recovered ext4 --log "$log"
    load
    must "ext4: clients continue" act_begun 120
    reset_machine
    ;;
3)
    recovered ext4 --log "$log"
    must "ext4: the filesystem unmounts" umount_fs
    must "ext4: the volume is detached" detach
    alone ext4 "$data"
    begin xfs
    ;;
4)
    recovered xfs --log "$log"
    must "xfs: the filesystem unmounts" umount_fs
    must "xfs: the volume is detached" detach
    alone xfs "$data"
    ;;
esac
