#!/bin/sh
# The machine is reset while users of Forebay's filesystem write and fsync, and once more while they go on after that;
# then its daemon is killed under them. What was promised is noted on a disk of its own.
#
# vm: disk data 512M
# vm: disk ledger 1M
# vm: boots 3
# vm: minutes 10
# shellcheck shell=dash source=tests/vm/lib.sh
. /vm/lib.sh

data=$(disk data) ledger=$(disk ledger)

in_order() { forebay check --data "$data"; }

# Something is to be recovered, and nothing is wrong.
to_be_recovered() {
    local status=0
    forebay check --data "$data" || status=$?
    [ "$status" -eq 1 ]
}

# With what it is told behind the name.
mounted() { forebay mount "$data" /mnt "$@"; }

again() {
    check "what is left can be recovered" to_be_recovered
    must "it is mounted again" mounted
    must "what fsync promised is there" users verify
}

case $boot in
1)
    must "a filesystem is made" forebay create --fs --data "$data" --name v --force
    must "it is mounted" mounted
    new_ledger 2>/dev/null
    load
    must "users write" act_begun 60
    reset_machine
    ;;
2)
    again
    load
    must "users go on" act_begun 120
    reset_machine
    ;;
3)
    again
    load
    must "users go on" act_begun 180
    must "the daemon is killed" kill -KILL "$(cat /run/forebay/*.lock)"
    check "who uses it is told" within 30 refused "not connected" ls /mnt
    wait "$load" 2>/dev/null
    must "it is mounted again, over what was left" mounted
    must "what fsync promised is there" users verify
    must "it is unmounted" forebay umount /mnt
    check "it is in order" in_order
    must "nothing can be written to what is mounted so" mounted -o ro
    check "it cannot" refused "Read-only" touch /mnt/new
    must "it is unmounted by others" umount /mnt
    ;;
esac
