#!/bin/bash
# dracut's module of Forebay: volumes whose configuration files have boot = "on".
# Installed in /usr/lib/dracut/modules.d/90forebay.

# dracut calls these functions.
check() {
    local listed
    require_binaries forebay || return 1
    listed=$(forebay boot --list) || return 1
    # 255: only if another module, or the administrator, asks for this one.
    [ -n "$listed" ] || return 255
}

depends() {
    echo base rootfs-block
}

installkernel() {
    # The drivers of all front ends, although none of them may be loaded now.
    hostonly='' instmods ublk_drv nbd fuse loop
}

install() {
    local what value volume record
    inst_binary "$(command -v forebay)" /usr/bin/forebay
    inst_rules 90-forebay.rules
    # Failed-log records, so that no failed log is attached.
    for record in "${dracutsysrootdir-}"/var/lib/forebay/*; do
        [ ! -f "$record" ] || inst_simple "$record"
    done
    while read -r what value; do
        case $what in
        volume) volume=$value ;;
        file) inst_simple "$value" "/etc/forebay/$volume.toml" ;;
        device)
            case $value in
            /dev/*) ;;
            *) dwarn "forebay: $value of the volume $volume is a file, which the initramfs does not have" ;;
            esac
            ;;
        esac
    done < <(forebay boot --list)
    # Without this, dracut with systemd runs no hooks of the queue.
    dracut_need_initqueue
    # shellcheck disable=SC2154  # dracut sets it
    inst_hook initqueue/settled 50 "$moddir/forebay-attach.sh"
    # shellcheck disable=SC2154
    inst_hook initqueue/finished 50 "$moddir/forebay-finished.sh"
    # shellcheck disable=SC2154
    inst_hook shutdown 40 "$moddir/forebay-shutdown.sh"
}
