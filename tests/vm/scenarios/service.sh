#!/bin/sh
# A volume's unit under systemd: it loads the driver, restarts a killed daemon, takes over after a hand-off, and stops.
# A filesystem is mounted meanwhile.
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
# udev reports devices to systemd. A mount unit waits for its device.
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

# Starts the unit. Sets $device to the unit's block device.
started() {
    systemctl start "$unit" || {
        systemctl status "$unit" --no-pager
        return 1
    }
    state_is active && device=$(readlink -f /dev/forebay/v) && [ -b "$device" ]
}

# Succeeds if systemd knows the device with the name /dev/forebay/v.
named() { systemctl is-active dev-forebay-v.device; }

# follows PID: succeeds if systemd has started a daemon with another process id.
follows() { state_is active && [ "$(daemon)" != "$1" ] && ! ended "$(daemon)"; }

must "a volume is made" create "$data" "$log"
must "the unit starts" started
check "the unit has loaded the ublk driver" says via '"ublk"'
check "the device has its name" within 30 named
locked() { [ "$(sed -n 's/^VmLck:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$(daemon)/status")" -gt 0 ]; }
check "the daemon's memory is locked" locked

users_begin ext4
for round in 1 2 3; do
    must "$round: the device is busy" within 120 busy
    killed=$(daemon)
    must "$round: the daemon is killed" kill_daemon
    must "$round: systemd starts another daemon" within 60 follows "$killed"
    must "$round: writers wait, and continue" within 120 busy
done
must "the daemon hands the device off" detach --hand-over
check "systemd starts no other daemon" state_is inactive
must "writers wait" writes
must "the unit starts with the program installed now" started
must "the device is busy" within 120 busy
users_end ext4
must "the filesystem unmounts" umount_fs
check "the filesystem passes its check" check_fs ext4 "$device"
must "the unit stops" systemctl stop "$unit"
check "the unit is inactive" state_is inactive
check "the device is removed" within 30 test ! -e "$device"
check "the device link is removed" test ! -L /dev/forebay/v
check "systemd knows of the removal" within 30 refused inactive named

must "a mount unit starts the volume's unit" systemctl start mnt.mount
check "the unit is active" state_is active
check "fsynced data is present" users verify
killed=$(daemon)
must "the daemon is killed" kill_daemon
must "systemd starts another daemon" within 60 follows "$killed"
check "the mount is still active" systemctl is-active mnt.mount
check "fsynced data is present under the mount" users verify
must "the mount stops" systemctl stop mnt.mount
must "the unit stops" systemctl stop "$unit"
check "the unit is inactive" state_is inactive

must "the volume is attached for a drain" attach v
must "the volume is drained" forebay drain v
must "the volume is detached" detach
alone ext4 "$data"

# A failed attach makes the start of its unit fail.
must "a volume is configured with a missing log" \
    sh -c 'sed "s,/dev/[^\"]*,/dev/nowhere," /etc/forebay/v.toml >/etc/forebay/w.toml'
check "its unit does not start" refused . systemctl start forebay@w
