#!/bin/bash
# node_up.sh NAME: start a node, or start it again. "login" has slurmctld and the network's bridge.
# SIGKILL to the process in run/NAME.launcher is a power cut.
set -euo pipefail
. "$(dirname "$(realpath "$0")")/settings"
name=$1
# Without the cpu controller, in which each node would count as one process against all others.
groups=()
for controller in cpuacct cpuset memory devices freezer; do
    for group in "$(basename "$LAB")" "$(basename "$LAB")/$name"; do
        folder=/sys/fs/cgroup/$controller/$group
        mkdir -p "$folder"
        [ "$controller" = cpuset ] || continue
        for what in cpus mems; do # a new one has none, and admits nobody
            cat "/sys/fs/cgroup/cpuset/cpuset.$what" >"$folder/cpuset.$what"
        done
    done
    groups+=("$folder")
done
setsid bash -c '
    name=$1 init=$2
    shift 2
    for group; do echo $$ >"$group/cgroup.procs"; done
    exec unshare --net --uts --mount --cgroup --pid --fork --kill-child --mount-proc "$init" "$name"
' bash "$name" "$LAB/node_init.sh" "${groups[@]}" >"$LAB/log/$name.out" 2>&1 </dev/null &
launcher=$!
echo "$launcher" >"$LAB/run/$name.launcher"
for _ in $(seq 200); do
    pid=$(pgrep -P "$launcher" -f node_init.sh) && break
    sleep 0.05
done
echo "$pid" >"$LAB/run/$name.pid"
[ "$name" != login ] || exit 0

router=$(cat "$LAB/run/login.pid") number=${name#n}
ip_at() { nsenter --net="/proc/$1/ns/net" ip "${@:2}"; }
for _ in $(seq 100); do
    ip_at "$router" link show br0 >/dev/null 2>&1 && break
    sleep 0.05
done
ip_at "$router" link del "v$number" 2>/dev/null || : # of the node's earlier life
ip_at "$router" link add "v$number" type veth peer name eth0 netns "$pid"
ip_at "$router" link set "v$number" master br0 up
ip_at "$pid" addr add "10.77.0.$((10 + number))/24" dev eth0
ip_at "$pid" link set eth0 up
