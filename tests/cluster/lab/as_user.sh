#!/bin/bash
# as_user.sh COMMAND: run a command as the user on the login node, in the repository, in a new shell.
. "$(dirname "$(realpath "$0")")/settings"
home=$LAB/home/$LAB_USER
repo=$home/joulelab
variables=(
    HOME="$home" USER="$LAB_USER" LOGNAME="$LAB_USER" PATH=/usr/bin:/bin:/usr/sbin
    SLURM_CONF="$LAB/etc/slurm.conf" VENV="$VENV" PYTHONPATH="$repo/platform:$repo/actors"
    OMP_NUM_THREADS=1 JOULELAB_HARDWARE=/dev/null
)
exec nsenter -t "$(cat "$LAB/run/login.pid")" -a \
    setpriv --reuid "$LAB_UID" --regid "$LAB_UID" --clear-groups \
    env -i "${variables[@]}" bash -c "cd '$repo' && $*"
