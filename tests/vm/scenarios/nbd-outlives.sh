#!/bin/sh
# An nbd device survives its daemon under a mounted filesystem, after a kill or a hand-off.
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
must "the volume is attached" attach
check "the device has the size of the data device" test "$(sectors "$device")" = "$(sectors "$data")"
check "the driver keeps the name of the device's owner" grep -q '^forebay ' "/sys/block/${device##*/}/backend"

# The driver sends pending requests again at its next periodic check, every 30 seconds.
users_begin ext4
check "a mounted device is not detached" refused "mounted on /mnt" detach
for round in 1 2; do
    killed ext4 "$round"
    must "ext4, $round: another daemon recovers the device" same_device attach
done
killed ext4 3
taken_up_and_over ext4 0.3 1 2
users_end ext4

unflushed_is_kept ext4

leftovers
must "an unused device is replaced" forebay attach v --via none
check "the nbd device is free" test ! -e "/sys/block/${device##*/}/backend"
must "the volume is detached" detach

# at_once: runs two attaches at once. The winner sets $device, and the other must fail with its reason.
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
must "of two attaches at once, exactly one succeeds" at_once
check "Forebay has one nbd device" one_device
must "the daemon is killed" kill_daemon
must "of two daemons that recover the device at once, exactly one succeeds" same_device at_once
check "Forebay still has one nbd device" one_device
must "the volume is detached again" detach
check "the nbd device is free" test ! -e "/sys/block/${device##*/}/backend"
alone ext4 "$data" as_written
