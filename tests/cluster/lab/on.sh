#!/bin/bash
# on.sh NODE COMMAND: run a command as root on a node.
. "$(dirname "$(realpath "$0")")/settings"
pid=$(cat "$LAB/run/$1.pid")
shift
SLURM_CONF=$LAB/etc/slurm.conf exec nsenter -t "$pid" -a bash -c "$*"
