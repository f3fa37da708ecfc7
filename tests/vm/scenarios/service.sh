#!/bin/sh
# The unit under systemd: it loads the driver, is started anew when its daemon is killed under a mounted
# filesystem, followed by another version, and stopped.
#
# vm: disk data 512M
# vm: disk log 96M
# vm: program fio
# vm: program systemctl
# vm: file /lib/systemd/systemd
# vm: file /lib/systemd/systemd-udevd
# vm: file /bin/udevadm
# vm: file /lib/udev/rules.d/99-systemd.rules
# vm: file /lib/systemd/system/systemd-udevd.service
# vm: file /lib/systemd/system/systemd-udevd-kernel.socket
# vm: file /lib/systemd/system/systemd-udevd-control.socket
# vm: file /lib/systemd/system/sysinit.target
# vm: file /lib/systemd/system/shutdown.target
# vm: file /lib/systemd/system/umount.target
# vm: file /lib/systemd/system/final.target
# vm: file /lib/systemd/system/local-fs.target
# vm: file /lib/systemd/system/local-fs-pre.target
# vm: file /lib/systemd/system/swap.target
# vm: file /lib/systemd/system/modprobe@.service
# vm: file packaging/udev/90-forebay.rules /etc/udev/rules.d/90-forebay.rules
# vm: file packaging/systemd/forebay@.service /etc/systemd/system/forebay@.service
# vm: file tests/vm/systemd/scenario.service /etc/systemd/system/scenario.service
# vm: file tests/vm/systemd/default.target /etc/systemd/system/default.target
# vm: file tests/vm/systemd/mnt.mount /etc/systemd/system/mnt.mount
# vm: minutes 10
# shellcheck shell=dash source=tests/vm/lib.sh
. /vm/lib.sh

unit=forebay@v
# Tells systemd which devices there are; a mount waits for its own.
must "udev starts" systemctl start systemd-udevd
mkdir -p /usr/bin /etc/forebay
cp /vm/bin/forebay /usr/bin/forebay
data=$(disk data) log=$(disk log)

state_is() {
    local state
    state=$(systemctl show -p ActiveState --value "$unit")
    echo "$unit is $state"
    [ "$state" = "$1" ]
}

# Sets $device to what the unit has made.
started() {
    systemctl start "$unit" || {
        systemctl status "$unit" --no-pager
        return 1
    }
    state_is active && device=$(readlink -f /dev/forebay/v) && [ -b "$device" ]
}

# systemd has been told which device the name stands for.
named() { systemctl is-active dev-forebay-v.device; }

# Another process than before, started by systemd.
follows() { state_is active && [ "$(daemon)" != "$1" ] && ! ended "$(daemon)"; }

must "a volume is made" create "$data" "$log"
must "the unit starts" started
check "with the driver, which nobody had loaded" says via '"ublk"'
check "the device has its name" within 30 named
locked() { [ "$(sed -n 's/^VmLck:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$(daemon)/status")" -gt 0 ]; }
check "its memory is locked" locked

users_begin ext4
for round in 1 2 3; do
    must "$round: the device is busy" within 120 busy
    killed=$(daemon)
    must "$round: the daemon is killed" kill_daemon
    must "$round: systemd starts another" within 60 follows "$killed"
    must "$round: who writes waits, and goes on" within 120 busy
done
must "the daemon is told to go" detach --hand-over
check "and nobody is started for it" state_is inactive
must "who writes waits" writes
must "the unit starts with what is installed now" started
must "the device is busy" within 120 busy
users_end ext4
must "it unmounts" umount_fs
check "it is in order" check_fs ext4 "$device"
must "the unit stops" systemctl stop "$unit"
check "as it should" state_is inactive
check "and takes its device along" within 30 test ! -e "$device"
check "and the name" test ! -L /dev/forebay/v
check "which systemd hears of" within 30 refused inactive named

must "a mount that wants the unit starts it" systemctl start mnt.mount
check "it has" state_is active
check "what fsync promised is there" users verify
killed=$(daemon)
must "the daemon is killed" kill_daemon
must "systemd starts another" within 60 follows "$killed"
check "under the same mount" systemctl is-active mnt.mount
check "which has what fsync promised" users verify
must "the mount stops" systemctl stop mnt.mount
must "the unit stops" systemctl stop "$unit"
check "as it should" state_is inactive

must "it is attached to be drained" attach v
must "all goes home" forebay drain v
must "it is detached" detach
alone ext4 "$data"

# What cannot be attached is said, and by its exit code.
must "a volume has no log any more" sh -c 'sed "s,/dev/[^\"]*,/dev/nowhere," /etc/forebay/v.toml >/etc/forebay/w.toml'
check "its unit does not start" refused . systemctl start forebay@w
