# shellcheck shell=dash
# Measured write caches (peers), inside the guest: one function for each.
#
# The argument of a peer's function is an action:
#
#   up      set up an empty cache over $data and $cache; sets $device
#   again   recover the cache after a crash; sets $device
#   drain   write all cached data to $data, and return afterwards
#   down    drain, and remove the cache
#
# Each peer is set up as its own documentation describes. Comments give the reasons for settings other than its
# defaults. `offset` is the position on $data of the first byte of $device, in bytes.

: "${data:?}" "${cache:?}"
export offset=0

# Succeeds if the measured peer does not use $cache.
cacheless() {
    case ${peer:?} in
    raw | qemu_nbd) ;;
    *) return 1 ;;
    esac
}

# Overwrites the superblocks of earlier peers.
wipe() {
    for disk in "$@"; do
        dd if=/dev/zero of="$disk" bs=1M count=2 conv=fsync,notrunc 2>/dev/null || return 1
    done
}

flush_device() { dd if=/dev/null of="$device" bs=4k conv=fsync,notrunc; }

# sized NBD: succeeds once the kernel knows the size of the device.
sized() { [ "$(sectors "$1" 2>/dev/null || echo 0)" -gt 0 ]; }

# mapped TABLE…: creates a device-mapper device over all of $data; sets $device.
mapped() {
    device=/dev/mapper/peer
    dmsetup create peer --table "0 $(sectors "$data") $*"
}

# The data disk without a cache.
raw() {
    case $1 in
    up | again) device=$data ;;
    drain) flush_device ;;
    down) ;;
    esac
}

dm_writecache() {
    case $1 in
    up) modprobe dm-writecache && wipe "$cache" && dm_writecache again ;;
    again) modprobe dm-writecache && mapped writecache s "$data" "$cache" 4096 0 ;;
    drain) dmsetup message peer 0 flush ;;
    down) dm_writecache drain && dmsetup remove peer ;;
    esac
}

dm_writeboost() {
    case $1 in
    up) modprobe dm-writeboost && wipe "$cache" && dm_writeboost again ;;
    # Without a threshold dm-writeboost writes back only when it must, so a burst would meet a full cache.
    again) modprobe dm-writeboost && mapped writeboost "$data" "$cache" 2 writeback_threshold 70 ;;
    drain) dmsetup message peer 0 drop_caches ;;
    down) dm_writeboost drain && dmsetup remove peer ;;
    esac
}

bcache() {
    device=/dev/bcache0
    # bcache's superblock on $data precedes the served bytes.
    offset=8192
    local own=/sys/block/bcache0/bcache set
    case $1 in
    up)
        modprobe bcache && wipe "$data" "$cache" &&
            make-bcache -b 128k -w 4k --writeback -C "$cache" -B "$data" && bcache again
        ;;
    again)
        modprobe bcache || return 1
        # Registration fails for a device that the kernel has already registered by itself.
        for disk in "$data" "$cache"; do
            echo "$disk" >/sys/fs/bcache/register || true
        done
        within 60 test -b "$device" && within 60 grep -q -e clean -e dirty "$own/state" || return 1
        # bcache would bypass a cache with a latency above this threshold. All disks of this guest are above it.
        for set in /sys/fs/bcache/*-*; do
            echo 0 >"$set/congested_write_threshold_us"
        done
        ;;
    drain)
        # By default, bcache delays the write-back and keeps 10 % of the cache dirty.
        echo 0 >"$own/writeback_delay" && echo 0 >"$own/writeback_percent" &&
            within 900 grep -q clean "$own/state"
        ;;
    down)
        bcache drain && echo 1 >"$own/stop" || return 1
        for set in /sys/fs/bcache/*-*; do
            echo 1 >"$set/stop"
        done
        within 60 no_bcache
        ;;
    esac
}

no_bcache() {
    for set in /sys/fs/bcache/*-*; do
        [ ! -e "$set" ] || return 1
    done
    [ ! -e /sys/block/bcache0 ]
}

# nbdkit's cache filter keeps its data in an unlinked file, so the data is lost when nbdkit ends. With the default
# block size of 64 KiB, each small write would need a read.
nbdkit_cache() {
    device=/dev/nbd8
    case $1 in
    up | again)
        mkfs.ext4 -q -F "$cache" && mkdir -p /cache && mount -t ext4 "$cache" /cache &&
            TMPDIR=/cache nbdkit -U /tmp/nbdkit.sock -P /tmp/nbdkit.pid --filter=cache file "$data" \
                cache=writeback cache-max-size=200M cache-min-block-size=4K &&
            nbd-client -unix /tmp/nbdkit.sock "$device" && within 60 sized "$device"
        ;;
    drain) flush_device ;;
    down)
        nbdkit_cache drain && nbd-client -d "$device" && kill "$(cat /tmp/nbdkit.pid)" &&
            within 60 umount /cache
        ;;
    esac
}

# Keeps written data in memory until a flush.
qemu_nbd() {
    device=/dev/nbd9
    case $1 in
    up | again)
        # Directory of qemu-nbd's socket.
        mkdir -p /var/lock &&
            qemu-nbd --fork --persistent --connect="$device" --format=raw --cache=writeback "$data" &&
            within 60 sized "$device"
        ;;
    drain) flush_device ;;
    down) qemu_nbd drain && qemu-nbd --disconnect "$device" ;;
    esac
}

# ours FRONT_END ACTION: Forebay as a peer.
ours() {
    # shellcheck disable=SC2034  # for lib.sh
    via=$1
    [ "$via" != ublk ] || modprobe ublk_drv || return 1
    case $2 in
    up) create "$data" "$cache" && attach ;;
    again) attach --log "$cache" ;;
    drain) forebay drain v ;;
    down) detach ;;
    esac
}

forebay_ublk() { ours ublk "$1"; }
forebay_nbd() { ours nbd "$1"; }
