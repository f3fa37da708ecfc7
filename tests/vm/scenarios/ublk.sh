#!/bin/sh
# A ublk device survives its daemon under a mounted filesystem, after a kill or a hand-off.
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

# blocks OPTION…: writes to the device past the page cache, and verifies the written data.
blocks() {
    fio --name=blocks --filename="$device" --direct=1 --ioengine=libaio --iodepth=32 --size=16m \
        --rw=randwrite --verify=crc32c --verify_fatal=1 --verify_state_save=0 "$@"
}

# With `--via ublk` the init script has loaded the driver.
rmmod ublk_drv 2>/dev/null
must "a volume is made" create "$data" "$log"
check "without the driver the message names the command that loads it" refused "modprobe ublk_drv" attach
must "the driver is loaded" modprobe ublk_drv
must "the volume is attached" attach
check "the device has the size of the data device" test "$(sectors "$device")" = "$(sectors "$data")"
check "status reports the front end" says via '"ublk"'
check "the device has a volatile write cache" queue_is write_cache "write back"
check "the device supports FUA" queue_is fua 1
check "discards are limited to 64 MiB" queue_is discard_max_bytes 67108864
check "writes of zeroes are limited to 64 MiB" queue_is write_zeroes_max_bytes 67108864
check "requests are limited to 1 MiB, the buffer size" queue_is max_hw_sectors_kb 1024
check "random writes are read back" blocks --bs=4k --fdatasync=64
check "random writes of different lengths are read back" blocks --bsrange=512-512k --blockalign=512
zeroed() {
    local other
    blkdiscard --zeroout --offset 1M --length 130M "$device" || return 1
    other=$(dd if="$device" bs=1M skip=1 count=130 iflag=direct 2>/dev/null | tr -d '\000' | wc -c)
    [ "$other" -eq 0 ]
}
check "zeroed ranges read as zeroes" zeroed
check "the whole device is discarded" blkdiscard "$device"
must "the volume is detached" detach
check "the block device is removed" test ! -e "$device"
check "the driver's control device is removed" within 10 test ! -e "/dev/ublkc${device##*ublkb}"

via=auto
must "the volume is attached with an automatic front end" attach
check "ublk is chosen" test "$device" != "${device#/dev/ublkb}"
via=ublk

users_begin ext4
check "a mounted device is not detached" refused "mounted on /mnt" detach
for round in 1 2 3; do
    killed ext4 "$round"
    must "ext4, $round: another daemon recovers the device" same_device attach
done
killed ext4 4
taken_up_and_over ext4 0.1 0.3 0.6 1 1.5 2 3
users_end ext4

unflushed_is_kept ext4

leftovers
must "an unused device is replaced" forebay attach v --via none
check "the ublk device is removed" test ! -e "$device"
must "the volume is detached" detach
alone ext4 "$data" as_written

must "the volume is attached with --ack memory" attach v --ack memory
must "the daemon is killed" kill_daemon
check "the device is removed with its daemon" within 60 test ! -e "$device"
must "the volume is attached again" attach
must "the volume is detached" detach
