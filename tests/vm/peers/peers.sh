# shellcheck shell=dash
# Those that are measured beside each other, inside the guest: a function each.
#
# A peer is called with what is wanted of it:
#
#   up      set it up, with nothing in it, over $data and $cache; sets $device
#   again   the same after a crash: take up what is there
#   drain   bring all that was written to $data, and come back when it is there
#   down    drain, and take it away
#
# Each as its own documentation says, with its own defaults but where a comment says why not. `offset` is
# where on $data the first byte of $device lies, if not at the beginning.

: "${data:?}" "${cache:?}"
export offset=0

# Who is measured has nothing on $cache.
cacheless() {
    case ${peer:?} in
    raw | qemu_nbd) ;;
    *) return 1 ;;
    esac
}

# Nothing of an earlier peer is to be found.
wipe() {
    for disk in "$@"; do
        dd if=/dev/zero of="$disk" bs=1M count=2 conv=fsync,notrunc 2>/dev/null || return 1
    done
}

flush_device() { dd if=/dev/null of="$device" bs=4k conv=fsync,notrunc; }

# sized NBD: the kernel has learnt how large it is.
sized() { [ "$(sectors "$1" 2>/dev/null || echo 0)" -gt 0 ]; }

# mapped TABLE…: a device of the mapper.
mapped() {
    device=/dev/mapper/peer
    dmsetup create peer --table "0 $(sectors "$data") $*"
}

# The disk without anything.
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
    # Without a threshold it writes back only when it must, so a burst would meet a full cache.
    again) modprobe dm-writeboost && mapped writeboost "$data" "$cache" 2 writeback_threshold 70 ;;
    drain) dmsetup message peer 0 drop_caches ;;
    down) dm_writeboost drain && dmsetup remove peer ;;
    esac
}

bcache() {
    device=/dev/bcache0
    # Its own superblock lies before what it serves.
    offset=8192
    local own=/sys/block/bcache0/bcache set
    case $1 in
    up)
        modprobe bcache && wipe "$data" "$cache" &&
            make-bcache -b 128k -w 4k --writeback -C "$cache" -B "$data" && bcache again
        ;;
    again)
        modprobe bcache || return 1
        # What the kernel has found by itself is refused.
        for disk in "$data" "$cache"; do
            echo "$disk" >/sys/fs/bcache/register || true
        done
        within 60 test -b "$device" && within 60 grep -q -e clean -e dirty "$own/state" || return 1
        # It would send writes past a cache that answers slower than this, as all does here.
        for set in /sys/fs/bcache/*-*; do
            echo 0 >"$set/congested_write_threshold_us"
        done
        ;;
    drain)
        # All of it, at once, and not as much as keeps a tenth dirty.
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

# Its filter keeps what it holds in a file that nobody finds after it has ended. In blocks of 64 KiB, as it
# would, each small write would have to read.
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

# Holds what is written in memory, until it is flushed.
qemu_nbd() {
    device=/dev/nbd9
    case $1 in
    up | again)
        # Where it puts its socket.
        mkdir -p /var/lock &&
            qemu-nbd --fork --persistent --connect="$device" --format=raw --cache=writeback "$data" &&
            within 60 sized "$device"
        ;;
    drain) flush_device ;;
    down) qemu_nbd drain && qemu-nbd --disconnect "$device" ;;
    esac
}

# ours HOW WHAT
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
