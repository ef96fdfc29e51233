#!/bin/bash
# Run a command on the head of a cluster in an allocation, once all of its nodes have joined.
#
#   salloc --nodes 2 --gpus-per-node 4
#   srun cluster/ray_node.sh &
#   cluster/ray_run.sh experiments/dvfs_sweep.py --device nvml
#
# The shell of salloc may be on a login node, which is no part of the cluster.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ -n "${SLURM_JOB_ID:-}" ] || { echo "Run it in an allocation (salloc)." >&2; exit 2; }
# shellcheck disable=SC2016 # for the shell on the head
exec srun --overlap --nodes=1 --ntasks=1 bash -euo pipefail -c '
    . cluster/env.sh
    python -m joulelab_actors.wait_ready --run-dir "$RUN_DIR" --nodes "$SLURM_JOB_NUM_NODES"
    . cluster/env.sh
    exec "$@"' bash "$@"
