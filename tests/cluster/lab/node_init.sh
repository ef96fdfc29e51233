#!/bin/bash
# PID 1 of a node, in namespaces of its own: make the machine, then run SLURM's daemons.
set -euo pipefail
. "$(dirname "$(realpath "$0")")/settings"
name=$1
export SLURM_CONF=$LAB/etc/slurm.conf
hostname "$name"
mount --make-rprivate /
for file in hosts nsswitch.conf passwd group; do mount --bind "$LAB/etc/$file" "/etc/$file"; done

# What the user must reach although it lies where he may not look.
mkdir "$LAB/run/$name.kept"
kept=()
for path in "$VENV" "$PYTHON_HOME"; do
    case $path in
        /root/* | /tmp/*)
            mkdir "$LAB/run/$name.kept/${#kept[@]}"
            mount --bind "$path" "$LAB/run/$name.kept/${#kept[@]}"
            kept+=("$path") ;;
    esac
done
mount -t tmpfs -o mode=755 tmpfs /root
mount -t tmpfs -o mode=1777 tmpfs /tmp
for i in "${!kept[@]}"; do
    mkdir -p "${kept[i]}"
    mount --move "$LAB/run/$name.kept/$i" "${kept[i]}"
done
rm -r "$LAB/run/$name.kept"
mount -t tmpfs -o size=8g tmpfs /dev/shm
mount -t tmpfs tmpfs /run

umount -R /sys/fs/cgroup 2>/dev/null || umount -lR /sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
for controller in cpuacct cpuset memory devices freezer; do
    mkdir "/sys/fs/cgroup/$controller"
    mount -t cgroup -o "$controller" cgroup "/sys/fs/cgroup/$controller"
done

ip link set lo up
if [ "$name" = login ]; then
    ip link add br0 type bridge
    ip addr add 10.77.0.1/24 dev br0
    ip link set br0 up
    munged --force --key-file="$LAB/etc/munge.key" --socket="$LAB/run/munge.sock" \
        --pid-file="$LAB/run/munged.pid" --seed-file="$LAB/run/munge.seed" \
        --log-file="$LAB/log/munged.log"
    slurmctld -c -f "$SLURM_CONF"
else
    until ip -brief address show dev eth0 2>/dev/null | grep -q "UP.*10\.77\."; do sleep 0.05; done
    mkdir -p "$LAB/spool/$name"
    slurmd -N "$name" -f "$SLURM_CONF"
fi
while :; do
    sleep 3600 &
    wait $!
done
