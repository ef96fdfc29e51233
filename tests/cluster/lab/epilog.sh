#!/bin/sh
# What SLURM runs as root on a node after a job: the epilog that joulelab ships, with the tool of the
# simulated driver. With a file named no-epilog the site has none.
. "$(dirname "$(realpath "$0")")/settings"
echo "$SLURMD_NODENAME $SLURM_JOB_ID ${SLURM_JOB_GPUS:-}" >>"$LAB/log/epilog.log"
[ ! -e "$LAB/no-epilog" ] || exit 0
PATH=$LAB/bin:$PATH exec "$LAB/bin/epilog_restore_clocks.sh"
