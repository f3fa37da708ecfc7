#!/bin/sh
# An nbd device: one daemon follows another under a mounted filesystem, killed or told to go.
#
# vm: disk data 512M
# vm: disk log 96M
# vm: program fio
# vm: minutes 12
# shellcheck shell=dash source=tests/vm/lib.sh
. /vm/lib.sh
# shellcheck disable=SC2034  # for lib.sh
via=nbd
data=$(disk data) log=$(disk log)

must "a volume is made" create "$data" "$log"
must "it is attached" attach
check "it has its size" test "$(sectors "$device")" = "$(sectors "$data")"
check "the driver keeps whose it is" grep -q '^forebay ' "/sys/block/${device##*/}/backend"

# What was under way is sent again when the driver next looks, every 30 seconds.
users_begin ext4
check "a mounted device is not detached" refused "mounted on /mnt" detach
for round in 1 2; do
    killed ext4 "$round"
    must "ext4, $round: another daemon takes it up" same_device attach
done
killed ext4 3
taken_up_and_over ext4 0.3 1 2
users_end ext4

unflushed_is_kept ext4

leftovers
must "what nobody uses makes way" forebay attach v --via none
check "and is gone" test ! -e "/sys/block/${device##*/}/backend"
must "it is detached" detach

# at_once: two attaches; the one that is refused says why.
at_once() {
    local other one=0 two=0 refused=/tmp/two
    forebay attach v --via nbd >/tmp/one 2>&1 &
    other=$!
    forebay attach v --via nbd >/tmp/two 2>&1 || two=$?
    wait "$other" || one=$?
    cat /tmp/one /tmp/two
    if [ "$two" -eq 0 ]; then
        refused=/tmp/one
        device=$(grep '^/dev/' /tmp/two)
    else
        device=$(grep '^/dev/' /tmp/one)
    fi
    [ "$((one == 0))$((two == 0))" != 11 ] && [ -b "$device" ] && grep -q "attached already" "$refused"
}
one_device() { [ "$(cat /sys/block/nbd*/backend | grep -c '^forebay ')" -eq 1 ]; }
must "of two attaches at once one serves" at_once
check "there is one device" one_device
must "the daemon is killed" kill_daemon
must "of two that take it up at once one serves" same_device at_once
check "there is one device still" one_device
must "it is detached again" detach
check "and there is none" test ! -e "/sys/block/${device##*/}/backend"
alone ext4 "$data" as_written
