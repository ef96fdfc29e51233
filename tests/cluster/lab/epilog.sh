#!/bin/sh
# What SLURM runs as root on a node after a job: the epilog that joulelab ships, with the simulated driver's tool.
lab=$(dirname "$(realpath "$0")")
PATH=$lab/bin:$PATH
export PATH
echo "$SLURMD_NODENAME $SLURM_JOB_ID $SLURM_JOB_UID ${SLURM_JOB_GPUS:-}" >>"$lab/log/epilog.log"
exec "$lab/home/researcher/joulelab/cluster/epilog_restore_clocks.sh"
