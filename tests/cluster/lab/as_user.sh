#!/bin/bash
# as_user.sh NAME COMMAND: run a command as a user on the login node, in the user's repository, in a new shell.
. "$(dirname "$(realpath "$0")")/settings"
name=$1 home=$LAB/home/$1 uid=$(stat -c %u "$LAB/home/$1")
shift
repo=$home/joulelab
variables=(
    HOME="$home" USER="$name" LOGNAME="$name" PATH=/usr/bin:/bin:/usr/sbin
    SLURM_CONF="$LAB/etc/slurm.conf" VENV="$VENV" PYTHONPATH="$repo/platform:$repo/actors"
    OMP_NUM_THREADS=1 JOULELAB_HARDWARE=/dev/null
)
exec nsenter -t "$(cat "$LAB/run/login.pid")" -a \
    setpriv --reuid "$uid" --regid "$uid" --clear-groups \
    env -i "${variables[@]}" bash -c "cd '$repo' && $*"
