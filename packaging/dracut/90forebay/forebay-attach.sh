#!/bin/sh
# Attaches the volumes of the initramfs, each time that devices have appeared.
# shellcheck shell=dash

forebay_attach() {
    local driver message said=/run/forebay.said
    ! getarg forebay=off || return 0
    for driver in ublk_drv nbd fuse loop; do
        modprobe -q "$driver"
    done
    # A missing disk gives the same message each time.
    if ! message=$(forebay boot 2>&1 >/dev/null) && [ "$message" != "$(cat "$said" 2>/dev/null)" ]; then
        echo "$message" >"$said"
        warn "$message"
    fi
}

forebay_attach
