#!/bin/sh
# A filesystem of Forebay's under systemd: its unit mounts it where its description says, is started anew when its daemon
# is killed, and stopped; and fstab mounts it by the program under another name.
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

# Another process than before, started by systemd.
follows() { state_is active && [ "$(daemon)" != "$1" ] && ! ended "$(daemon)"; }

not_mounted() { ! grep ' /mnt ' /proc/mounts; }

must "a filesystem is made" forebay create --fs --data "$data" --name v --force
must "its description says where it is mounted" sh -c 'sed -i "1i mount = \"/mnt\"" /etc/forebay/v.toml'
must "the unit starts" started
locked() { [ "$(sed -n 's/^VmLck:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$(daemon)/status")" -gt 0 ]; }
check "its memory is locked" locked
new_ledger 2>/dev/null
load
for round in 1 2; do
    must "$round: users write" act_begun $((round * 60))
    killed=$(daemon)
    must "$round: the daemon is killed" kill_daemon
    wait "$load" 2>/dev/null
    must "$round: systemd starts another, which mounts it" within 60 follows "$killed"
    must "$round: what fsync promised is there" users verify
    load
done
must "users write" act_begun 180
check "no user met an error" end_load
must "the unit stops" systemctl stop "$unit"
check "as it should" state_is inactive
check "and nothing is mounted" not_mounted
check "the filesystem is in order" forebay check v

ln -s /usr/bin/forebay /sbin/mount.forebay
echo "v /mnt forebay noatime,nofail 0 0" >/etc/fstab
must "mount finds it in fstab" mount /mnt
check "with its options" grep ' /mnt fuse.forebay .*noatime' /proc/mounts
check "what fsync promised is there" users verify
pid=$(daemon)
must "umount unmounts it" umount /mnt
check "and its daemon ends" within 30 ended "$pid"
check "the filesystem is in order" forebay check v
