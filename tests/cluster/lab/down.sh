#!/bin/bash
# down.sh DIR: end all processes of the lab in DIR, remove its cgroups and DIR. Safe to call again.
lab=$(realpath -m "$1")
[ -e "$lab/settings" ] || exit 0
# Networks and mounts end with the processes that are in them.
for file in "$lab"/run/*.launcher; do
    [ ! -e "$file" ] || kill -KILL "$(cat "$file")" 2>/dev/null
done
for group in /sys/fs/cgroup/*/"$(basename "$lab")"; do
    [ -d "$group" ] || continue
    # A process that was killed is in its cgroup for a moment more.
    for _ in $(seq 50); do
        find "$group" -depth -type d -exec rmdir {} + 2>/dev/null && break
        sleep 0.1
    done
done
rm -rf "$lab"
