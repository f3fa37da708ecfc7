#!/bin/sh
# A ublk device: one daemon follows another under a mounted filesystem, killed or told to go.
#
# vm: disk data 512M
# vm: disk log 96M
# vm: program fio
# vm: program blkdiscard
# vm: minutes 10
# shellcheck shell=dash source=tests/vm/lib.sh
. /vm/lib.sh
# shellcheck disable=SC2034  # for lib.sh
via=ublk
data=$(disk data) log=$(disk log)

queue_is() {
    local found
    found=$(cat "/sys/block/${device##*/}/queue/$1")
    echo "$1 is $found"
    [ "$found" = "$2" ]
}

# Writes to the device past the page cache, and compares what is there with what was written.
blocks() {
    fio --name=blocks --filename="$device" --direct=1 --ioengine=libaio --iodepth=32 --size=16m \
        --rw=randwrite --verify=crc32c --verify_fatal=1 --verify_state_save=0 "$@"
}

# With `--via ublk` it is there.
rmmod ublk_drv 2>/dev/null
must "a volume is made" create "$data" "$log"
check "without the driver it is said what to do" refused "modprobe ublk_drv" attach
must "the driver is loaded" modprobe ublk_drv
must "it is attached" attach
check "it has its size" test "$(sectors "$device")" = "$(sectors "$data")"
check "status says how" says via '"ublk"'
check "it has a cache that must be flushed" queue_is write_cache "write back"
check "and knows FUA" queue_is fua 1
check "discards come in pieces" queue_is discard_max_bytes 67108864
check "zeroes, too" queue_is write_zeroes_max_bytes 67108864
check "requests are as long as buffers" queue_is max_hw_sectors_kb 1024
check "what is written at random is read back" blocks --bs=4k --fdatasync=64
check "in pieces of all lengths" blocks --bsrange=512-512k --blockalign=512
zeroed() {
    local other
    blkdiscard --zeroout --offset 1M --length 130M "$device" || return 1
    other=$(dd if="$device" bs=1M skip=1 count=130 iflag=direct 2>/dev/null | tr -d '\000' | wc -c)
    [ "$other" -eq 0 ]
}
check "what is zeroed reads as zeroes" zeroed
check "all of it is discarded" blkdiscard "$device"
must "it is detached" detach
check "and gone" test ! -e "$device"
check "with the driver's end" within 10 test ! -e "/dev/ublkc${device##*ublkb}"

via=auto
must "where the choice is ours" attach
check "ublk is chosen" test "$device" != "${device#/dev/ublkb}"
via=ublk

users_begin ext4
check "a mounted device is not detached" refused "mounted on /mnt" detach
for round in 1 2 3; do
    killed ext4 "$round"
    must "ext4, $round: another daemon takes it up" same_device attach
done
killed ext4 4
taken_up_and_over ext4 0.1 0.3 0.6 1 1.5 2 3
users_end ext4

unflushed_is_kept ext4

leftovers
must "what nobody uses makes way" forebay attach v --via none
check "and is gone" test ! -e "$device"
must "it is detached" detach
alone ext4 "$data" as_written

must "with durability flush" attach v --durability flush
must "the daemon is killed" kill_daemon
check "the device ends with it" within 60 test ! -e "$device"
must "and there is another" attach
must "it is detached" detach
