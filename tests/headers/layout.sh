#!/bin/sh
# layout.sh check|update PROGRAM GOLDEN
set -e
if [ "$1" = update ]; then
    "$2" > "$3"
else
    "$2" | diff -u "$3" - || {
        echo "the layout of plugin.h changed; if that is wanted:" \
            "ninja -C build update-abi-layout" >&2
        exit 1
    }
fi
