#!/bin/sh
# Ends the wait for devices when all volumes of the initramfs are attached.
# shellcheck shell=dash

forebay_finished() {
    local file name
    ! getarg forebay=off || return 0
    for file in /etc/forebay/*.toml; do
        [ -e "$file" ] || continue
        name=${file##*/}
        [ -e "/dev/forebay/${name%.toml}" ] || return 1
    done
    return 0
}

forebay_finished
