#!/bin/sh
# Two resets of the machine while clients of Forebay's filesystem write and fsync, then a killed daemon.
# A separate disk records the fsynced data.
#
# vm: disk data 512M
# vm: disk ledger 1M
# vm: boots 3
# vm: minutes 10
# shellcheck shell=dash source=tests/vm/lib.sh
. /vm/lib.sh

data=$(disk data) ledger=$(disk ledger)

in_order() { forebay check --data "$data"; }

# Exit code 1 of `check`: the filesystem needs recovery, and has no damage.
to_be_recovered() {
    local status=0
    forebay check --data "$data" || status=$?
    [ "$status" -eq 1 ]
}

# mounted [OPTION…]: mounts the filesystem. The options follow the mount point.
mounted() { forebay mount "$data" /mnt "$@"; }

again() {
    check "the filesystem needs recovery and has no damage" to_be_recovered
    must "the filesystem is mounted again" mounted
    must "fsynced data is present" users verify
}

case $boot in
1)
    must "a filesystem is made" forebay create --fs --data "$data" --name v --force
    must "the filesystem is mounted" mounted
    new_ledger 2>/dev/null
    load
    must "clients write" act_begun 60
    reset_machine
    ;;
2)
    again
    load
    must "clients continue" act_begun 120
    reset_machine
    ;;
3)
    again
    load
    must "clients continue" act_begun 180
    must "the daemon is killed" kill -KILL "$(cat /run/forebay/*.lock)"
    check "clients get an error" within 30 refused "not connected" ls /mnt
    wait "$load" 2>/dev/null
    must "the filesystem is mounted again, over the stale mount" mounted
    must "fsynced data is present" users verify
    must "the filesystem is unmounted" forebay umount /mnt
    check "the filesystem passes its check" in_order
    must "the filesystem is mounted read-only" mounted -o ro
    check "a write is refused" refused "Read-only" touch /mnt/new
    must "umount unmounts the filesystem" umount /mnt
    ;;
esac
