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
for delay in 0.3 1 2; do
    check "ext4: one that takes it up is killed after $delay s" kill_starting "$delay"
done
must "ext4: yet another takes it up" same_device attach
must "ext4: the device is busy" within 120 busy
must "ext4: the daemon is told to go" detach --hand-over
check "ext4: the device waits" within 60 waits
must "ext4: who writes waits, too" writes
must "ext4: another version takes it up" same_device attach_next
must "ext4: and serves" within 120 busy
must "ext4: one that waits for the mount is told again to end" told_twice
check "ext4: the device waits" within 60 waits
must "ext4: who writes waits, too" writes
must "ext4: it is taken up once more" same_device attach
must "ext4: the device is busy" within 120 busy
users_end ext4

# With this delay what is acknowledged would stay in memory, if it were for that.
must "the daemon is told to go" detach --hand-over
must "another flushes late" same_device attach v --max-delay 60s
must "a file is written past the page cache" unflushed
must "the daemon is killed at once" kill_daemon
must "another takes it up" same_device attach
check "what was acknowledged is there, unflushed" as_written
in_order ext4

# Leftovers.
must "the daemon is killed" kill_daemon
check "in another way it is not served while it is mounted" \
    refused "mounted on /mnt" forebay attach v --via none
check "nor removed" refused "waits for it" forebay remove v
check "nor taken up to lose what it acknowledges" \
    refused "would be lost" forebay attach v --via nbd --durability flush
must "it is taken up" same_device attach
must "it unmounts" umount_fs
must "the daemon is killed" kill_daemon
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
check "ext4: the data device alone is in order" check_fs ext4 "$data"
must "ext4: the data device alone mounts" mount_fs "$data"
check "ext4: what fsync promised is on the data device alone" users verify
check "ext4: and what was acknowledged" as_written
must "ext4: the data device is let go" umount_fs
