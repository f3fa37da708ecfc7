#!/bin/sh
# Ends the daemons at shutdown, after the root filesystem was unmounted. Dirty data stays in the log.
# shellcheck shell=dash

forebay_shutdown() {
    local socket name pid tries
    for socket in /run/forebay/*.sock; do
        case $socket in *.nbd.sock) continue ;; esac
        [ -S "$socket" ] || continue
        name=${socket##*/}
        name=${name%.sock}
        pid=$(forebay status "$name" --json 2>/dev/null | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p')
        [ -n "$pid" ] || continue
        info "Stopping the Forebay volume $name"
        kill -TERM "$pid"
        # The daemon waits for users of its device.
        tries=0
        while [ -d "/proc/$pid" ] && [ "$tries" -lt 100 ]; do
            sleep 0.1
            tries=$((tries + 1))
        done
        [ ! -d "/proc/$pid" ] || warn "The Forebay volume $name is still in use; flushed data is safe in its log"
    done
    return 0
}

forebay_shutdown
