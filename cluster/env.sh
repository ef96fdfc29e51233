# shellcheck shell=bash
# What head, workers, drivers and `ray job submit` must agree on. Source it: . cluster/env.sh
#
# Settable beforehand: RUN_DIR, RAY_TMPDIR, RAY_PORT, METRICS, and VENV or CONTAINER.

REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
JOB=${SLURM_JOB_ID:-local-$UID}
export REPO JOB
# A job has the variables of the shell that submitted it, which may be those of another cluster.
if [ "${ENV_OF:-$JOB}" != "$JOB" ]; then
    unset RUN_DIR RAY_TMPDIR RAY_PORT GIVEN_PORT RAY_ADDRESS RAY_API_SERVER_ADDRESS
fi
export ENV_OF=$JOB

# SLURM sets these clocks itself at every step, and the highest at the job's end, whoever has locked
# others: neither a study's clocks nor the driver's default would be what results say.
if [ -n "${SLURM_GPU_FREQ:-}" ]; then
    echo "SLURM sets clocks of this job (--gpu-freq=$SLURM_GPU_FREQ), as the clock guard does;" \
        "submit it without, and name clocks to the study." >&2
    return 2
fi

# On the shared file system: where the cluster is, and the token that lets one use it.
export RUN_DIR=${RUN_DIR:-$REPO/.run/$JOB}
# On the node, and short: Ray's sockets have paths of at most 107 bytes.
export RAY_TMPDIR=${RAY_TMPDIR:-/tmp/ray-$JOB}

# Ports by job, so that two jobs can share a node, in blocks below those that the system hands out
# (32768 and up). If they are taken, ray_node.sh of a job goes on to the next, unless RAY_PORT was set.
export GIVEN_PORT=${GIVEN_PORT-${RAY_PORT:-}}
set_ports() {
    export RAY_PORT=$1 DASHBOARD_PORT=$(($1 + 1)) CLIENT_PORT=$(($1 + 2))
    # Two servers of the head have no switch, but take ports, of which 65536 is none.
    export AUTOSCALER_METRIC_PORT=65536 DASHBOARD_METRIC_PORT=65536
    [ -z "${METRICS:-}" ] || DASHBOARD_METRIC_PORT=$(($1 + 19))
}
block_of_ports() { echo $((20000 + $1 % 638 * 20)); }
set_ports "${RAY_PORT:-$(block_of_ports "${SLURM_JOB_ID:-0}")}"

# Whoever has the token can run code as this user. Ray asks every process for both variables.
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$RUN_DIR/token
export RAY_USAGE_STATS_ENABLED=0
# Ray's metrics ask for no token, so that anybody on the network can read them: only if METRICS is set.
# What is reported no more is served for two intervals; Ray's own is ten seconds.
export RAY_enable_metrics_collection=0
[ -z "${METRICS:-}" ] || export RAY_enable_metrics_collection=1 RAY_metrics_report_interval_ms=2000
# Ray's workers give way to every other process of the node (niceness 15); a program that is
# measured must not.
export RAY_worker_niceness=0
# Ray starts a process for every core of every node at once, of which a study needs a few.
export RAY_prestart_worker_first_driver=0
# And it keeps as many that have nothing to do, of 70 MB each.
export RAY_num_workers_soft_limit=0
# Until it kills, `ray job stop` waits so long for a study to conclude from what it has.
export RAY_JOB_STOP_WAIT_TIME_S=60
export CUDA_DEVICE_ORDER=PCI_BUS_ID

# ray.init(), `ray job submit` and experiments find the cluster by these.
if [ -s "$RUN_DIR/head" ]; then
    RAY_ADDRESS=$(cat "$RUN_DIR/head")
    RAY_API_SERVER_ADDRESS=$(cat "$RUN_DIR/api")
    export RAY_ADDRESS RAY_API_SERVER_ADDRESS
fi

if [ -z "${VENV:-}" ] && [ -f "$REPO/.venv/bin/activate" ]; then
    VENV=$REPO/.venv
fi
# shellcheck disable=SC1091
[ -z "${VENV:-}" ] || . "$VENV/bin/activate"
# An Apptainer image whose Python it is instead.
[ -z "${CONTAINER:-}" ] || PATH=$REPO/cluster/container:$PATH
