#!/bin/sh
# Forebay's filesystem under systemd: the unit mounts it at the configured path, restarts a killed daemon, and stops.
# Then fstab mounts the filesystem with `mount.forebay`, a link to the program.
#
# vm: disk data 512M
# vm: program systemctl
# vm: program mount
# vm: program umount
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
# vm: file packaging/systemd/forebay-mount@.service /etc/systemd/system/forebay-mount@.service
# vm: file tests/vm/systemd/scenario.service /etc/systemd/system/scenario.service
# vm: file tests/vm/systemd/default.target /etc/systemd/system/default.target
# vm: minutes 10
# shellcheck shell=dash source=tests/vm/lib.sh
. /vm/lib.sh

unit=forebay-mount@v
must "udev starts" systemctl start systemd-udevd
mkdir -p /usr/bin /sbin /etc/forebay
cp /vm/bin/forebay /usr/bin/forebay
data=$(disk data)

state_is() {
    local state
    state=$(systemctl show -p ActiveState --value "$unit")
    echo "$unit is $state"
    [ "$state" = "$1" ]
}

started() {
    systemctl start "$unit" || {
        systemctl status "$unit" --no-pager
        return 1
    }
    state_is active && grep ' /mnt fuse.forebay ' /proc/mounts
}

# follows PID: succeeds if systemd has started a daemon with another process id.
follows() { state_is active && [ "$(daemon)" != "$1" ] && ! ended "$(daemon)"; }

not_mounted() { ! grep ' /mnt ' /proc/mounts; }

must "a filesystem is made" forebay create --fs --data "$data" --name v --force
must "the configuration file contains the mount point" sh -c 'sed -i "1i mount = \"/mnt\"" /etc/forebay/v.toml'
must "the unit starts" started
locked() { [ "$(sed -n 's/^VmLck:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$(daemon)/status")" -gt 0 ]; }
check "the daemon's memory is locked" locked
new_ledger 2>/dev/null
load
for round in 1 2; do
    must "$round: clients write" act_begun $((round * 60))
    killed=$(daemon)
    must "$round: the daemon is killed" kill_daemon
    wait "$load" 2>/dev/null
    must "$round: systemd starts another daemon, which mounts the filesystem" within 60 follows "$killed"
    must "$round: fsynced data is present" users verify
    load
done
must "clients write" act_begun 180
check "no client met an error" end_load
must "the unit stops" systemctl stop "$unit"
check "the unit is inactive" state_is inactive
check "nothing is mounted at /mnt" not_mounted
check "the filesystem passes its check" forebay check v

ln -s /usr/bin/forebay /sbin/mount.forebay
echo "v /mnt forebay noatime,nofail 0 0" >/etc/fstab
must "mount finds the filesystem in fstab" mount /mnt
check "the mount has the options of fstab" grep ' /mnt fuse.forebay .*noatime' /proc/mounts
check "fsynced data is present" users verify
pid=$(daemon)
must "umount unmounts the filesystem" umount /mnt
check "the daemon ends after the unmount" within 30 ended "$pid"
check "the filesystem passes its check" forebay check v
