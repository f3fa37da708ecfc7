#!/bin/sh
# The machine is reset while users write and fsync, and once more while they go on after that. What was
# promised is noted on a disk of its own. All sectors have 4096 bytes.
#
# vm: disk data 512M sector=4096
# vm: disk log 64M sector=4096
# vm: disk ledger 1M
# vm: boots 4
# vm: minutes 10
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh

data=$(disk data) log=$(disk log) ledger=$(disk ledger)

# begin KIND: a fresh filesystem under load, and a reset.
begin() {
    must "$1: a volume is made" create "$data" "$log"
    must "$1: it is attached" attach
    must "$1: a filesystem is made" make_fs "$1" "$device"
    must "$1: it mounts" mount_fs "$device"
    new_ledger 2>/dev/null
    load
    must "$1: users write" act_begun 60
    reset_machine
}

case $boot in
1) begin ext4 ;;
2)
    recovered ext4 --log "$log"
    load
    must "ext4: users go on" act_begun 120
    reset_machine
    ;;
3)
    recovered ext4 --log "$log"
    must "ext4: it unmounts" umount_fs
    must "ext4: it is detached" detach
    alone ext4 "$data"
    begin xfs
    ;;
4)
    recovered xfs --log "$log"
    must "xfs: it unmounts" umount_fs
    must "xfs: it is detached" detach
    alone xfs "$data"
    ;;
esac
