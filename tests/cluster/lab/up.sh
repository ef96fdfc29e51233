#!/bin/bash
# up.sh DIR [NODES]: a SLURM of its own on this machine. Root; DIR is a new folder with a short path.
#
# Each node has a network, host name, processes, /tmp, /run, /dev/shm and cgroups of its own, so that
# it can lose power. DIR is the file system that they share, with a copy of the code for each of two
# users who are not root. `down.sh DIR` ends everything.
#
# VENV is the environment with joulelab, PYTHON_HOME has its interpreter; both may lie under /root.
set -euo pipefail
lab=$(realpath -m "$1") nodes=${2:-3} here=$(dirname "$(realpath "$0")")
repo=$(realpath "$here/../../..")
[ ! -e "$lab/settings" ] || { echo "$lab is up already; end it with down.sh." >&2; exit 1; }
mkdir -p "$lab"/{bin,etc,log,run,state,spool,dev,home}
chmod 755 "$lab"
cp "$here"/{node_up.sh,node_init.sh,on.sh,as_user.sh,epilog.sh} "$lab"
cp "$here/nvidia-smi" "$repo/cluster/epilog_restore_clocks.sh" "$lab/bin"
printf '%s=%q\n' LAB "$lab" NODES "$nodes" VENV "${VENV:-$repo/.venv}" \
    PYTHON_HOME "${PYTHON_HOME:-}" >"$lab/settings"
. "$lab/settings"

cat /etc/passwd >"$lab/etc/passwd"
cat /etc/group >"$lab/etc/group"
uid=30001
for user in researcher colleague; do
    home=$lab/home/$user
    mkdir -p "$home/joulelab/experiments"
    cp -a "$repo"/{cluster,platform,actors,pyproject.toml} "$home/joulelab"
    cp -a "$repo"/experiments/*.py "$home/joulelab/experiments"
    chown -R "$uid:$uid" "$home"
    echo "$user:x:$uid:$uid::$home:/bin/bash" >>"$lab/etc/passwd"
    echo "$user:x:$uid:" >>"$lab/etc/group"
    uid=$((uid + 1))
done

{ grep -v '^hosts:' /etc/nsswitch.conf || :; echo "hosts: files"; } >"$lab/etc/nsswitch.conf"
{
    echo "127.0.0.1 localhost"
    echo "10.77.0.1 login"
    for i in $(seq "$nodes"); do echo "10.77.0.$((10 + i)) n$i"; done
} >"$lab/etc/hosts"
for i in 0 1; do mknod -m 666 "$lab/dev/nvidia$i" c 1 3; done # null devices stand in for GPUs
sed -e "s|@LAB@|$lab|g" -e "s|@N@|$nodes|g" -e "s|@LAST@|$((10 + nodes))|g" \
    "$here/slurm.conf" >"$lab/etc/slurm.conf"
echo "NodeName=n[1-$nodes] Name=gpu Type=h200 File=$lab/dev/nvidia[0-1]" >"$lab/etc/gres.conf"
cp "$here/cgroup.conf" "$lab/etc"
(umask 077; head -c 128 /dev/urandom >"$lab/etc/munge.key")

"$lab/node_up.sh" login
for i in $(seq "$nodes"); do "$lab/node_up.sh" "n$i"; done
for _ in $(seq 120); do
    [ "$("$lab/on.sh" login 'sinfo -h -N -t idle' 2>/dev/null | wc -l)" != "$nodes" ] || exit 0
    sleep 0.5
done
echo "Not all nodes are idle within a minute; see $lab/log." >&2
exit 1
