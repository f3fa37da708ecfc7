#!/bin/sh
# The configuration file is on the volume that it describes. The daemon is killed while it makes that file durable.
#
# vm: disk data 256M
# vm: disk log 128M
# vm: minutes 10
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh

modprobe -a dm-mod nbd ublk_drv
data=$(disk data) log=$(disk log)
must "the log is mapped" dmsetup create log --table "0 $(sectors "$log") linear $log 0"

# Dirties data that the next fsync of the configuration file must write first.
dirty() {
    dd if=/dev/urandom of=/etc/forebay/large bs=1M count=48 && touch /etc/forebay/v.toml
}

# Succeeds if a process waits in the kernel for a file of the daemon.
file_waits() {
    waiting=$(grep -l -s own-file /proc/[0-9]*/cmdline)
    for cmdline in $waiting; do
        grep -q '^State:.D' "${cmdline%/*}/status" && return 0
    done
    return 1
}

no_file_waits() { ! file_waits; }

# Attaches in the background, while the log does not answer. The daemon waits in its recovery.
begin_attach() {
    forebay attach v --via "$via" --foreground >/tmp/beginning 2>&1 &
    beginning=$!
}

# Kills and attaches until the log stops while the daemon makes the file durable, which writes the data first.
stop_log_in_time() {
    for _ in 1 2 3 4 5 6; do
        dirty && attach && dmsetup suspend --nolockfs --noflush log || return 1
        within 1 file_waits && return
        dmsetup resume log && kill_daemon || return 1
    done
    return 1
}

continued() {
    must "$via, $1: the log answers again" dmsetup resume log
    must "$via, $1: the next daemon serves the device" same_device attach
    check "$via, $1: nothing waits for the configuration file" within 60 no_file_waits
    must "$via, $1: the filesystem is flushed" sync
    check "$via, $1: the configuration file is whole" cmp /tmp/v.toml /etc/forebay/v.toml
    must "$via, $1: the daemon is killed" kill_daemon
}

for via in nbd ublk; do
    must "$via: a volume is made" create "$data" /dev/mapper/log
    must "$via: its configuration file is kept" cp /etc/forebay/v.toml /tmp/v.toml
    must "$via: the volume is attached" attach
    must "$via: a filesystem is made" make_fs ext4 "$device"
    must "$via: the filesystem is mounted over the configuration files" \
        mount -o commit=300 "$device" /etc/forebay
    must "$via: the configuration file is on it" cp /tmp/v.toml /etc/forebay/v.toml
    must "$via: the configuration file is durable" sync
    must "$via: the daemon is killed" kill_daemon

    must "$via, recovery: data waits in the page cache" dirty
    must "$via, recovery: the log stops" dmsetup suspend --nolockfs --noflush log
    must "$via, recovery: an attach begins" begin_attach
    must "$via, recovery: the configuration file waits for its own volume" within 30 file_waits
    must "$via, recovery: the daemon is killed" kill -KILL "$beginning"
    must "$via, recovery: the daemon ends" within 30 ended "$beginning"
    continued recovery

    # With nbd, the file is durable before the log can be stopped.
    if [ "$via" = ublk ]; then
        must "$via, service: the configuration file waits for its own volume" stop_log_in_time
        must "$via, service: the daemon is killed" kill_daemon
        check "$via, service: the configuration file still waits" file_waits
        continued service
    fi

    must "$via: the volume is attached again" same_device attach
    must "$via: the filesystem unmounts" umount /etc/forebay
    must "$via: the volume is detached" detach
    must "$via: the filesystem passes its check" check_fs ext4 "$data"
done
