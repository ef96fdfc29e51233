#!/bin/bash
# Run Ray on this node until it is told to stop. The first node of a SLURM step is the head.
#
#   srun cluster/ray_node.sh        in an allocation, one task per node (ray.sbatch does this)
#   cluster/ray_node.sh             a cluster of this machine alone
#
# It stays in the foreground, so whoever started it owns the cluster's life. It never calls
# `ray stop`, which would end every Ray of this user on the node.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. cluster/env.sh
unset RAY_ADDRESS RAY_API_SERVER_ADDRESS
rank=${SLURM_PROCID:-0}
mkdir -p "$RAY_TMPDIR"

# UUIDs of the GPUs that this job may use; the scheduler says which, as indices or UUIDs, and none by
# an empty list.
my_gpus() {
    command -v nvidia-smi >/dev/null || return 0
    nvidia-smi --query-gpu=index,uuid --format=csv,noheader \
        | awk -F', ' -v allowed=",${CUDA_VISIBLE_DEVICES-all}," \
            'allowed == ",all," || index(allowed, "," $1 ",") || index(allowed, "," $2 ",") { print $2 }'
}

# {"dev:GPU-...": 1, ...}: what pins an actor to its GPU, wherever that GPU's node is.
as_resources() {
    local uuid separator='' json='{'
    for uuid in "$@"; do
        json+="$separator\"dev:$uuid\": 1"
        separator=', '
    done
    echo "$json}"
}

# Not `hostname --ip-address`: /etc/hosts often maps the name to 127.*.
my_address() {
    hostname -I | tr ' ' '\n' | grep -E '^[0-9]+(\.[0-9]+){3}$' | grep -v '^127\.' | head -n 1
}

# Another Ray that answers there would be taken for this job's, and refuse its token.
taken() { (: <>"/dev/tcp/$address/$1") 2>/dev/null || (: <>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# Whether somebody listens at a host:port. `ray health-check` takes two seconds of the processor to say so.
answers() { timeout 5 bash -c ": <>'/dev/tcp/${1%:*}/${1##*:}'" 2>/dev/null; }

# Move on to ports of which none is taken; those at the offsets $@ from the first are needed. Outside
# of SLURM, what has them may be this very cluster, started before.
find_ports() {
    local port
    while port=$(first_taken "$@"); do
        [ -z "$GIVEN_PORT" ] && [ -n "${SLURM_JOB_ID:-}" ] \
            || refuse "Port $port of $address is taken. Set RAY_PORT to the first of twenty free ports."
        set_ports "$(block_of_ports $(((RAY_PORT - 20000) / 20 + 1)))"
    done
}

first_taken() {
    local offset
    for offset; do
        ! taken $((RAY_PORT + offset)) || { echo $((RAY_PORT + offset)); return 0; }
    done
    return 1
}

refuse() {
    echo "$1" >&2
    publish "$RUN_DIR/failed" "$1"
    exit 1
}

# Write a file so that who waits for it never reads half of it.
publish() {
    printf '%s' "$2" >"$1.tmp"
    mv "$1.tmp" "$1"
}

# With proctrack/cgroup SLURM kills the whole step once its leader, this shell, has ended, the
# clock guard included. So the clocks are restored before this shell ends, but not before Ray has:
# an actor that still lives would start another guard and set its clock again.
# Elsewhere the guard outlives Ray and restores them by itself.
restore_clocks() {
    [ -z "${SLURM_JOB_ID:-}" ] || joulelab guard --stop >/dev/null 2>&1 || true
}

# SLURM sends SIGKILL 30 s after it has asked (KillWait), so Ray gets half of that.
# shellcheck disable=SC2329 # called by the trap
stop_ray() {
    stopped=yes
    kill -TERM "$ray" 2>/dev/null || true
    timeout 15 tail --pid="$ray" -f /dev/null || kill -KILL "$ray" 2>/dev/null || true
}

# The nodes that the job has by now, none once it has ended. Fails while SLURM does not answer.
find_nodes() {
    local listed
    nodes=()
    if ! listed=$(squeue -h -j "$SLURM_JOB_ID" -o %N 2>&1); then
        [[ $listed == *"Invalid job id"* ]]
        return
    fi
    [ -z "$listed" ] || mapfile -t nodes < <(scontrol show hostnames "$listed")
}

# Whether the job has ended, or goes on without this node.
is_left() { find_nodes && [[ " ${nodes[*]} " != *" $SLURMD_NODENAME "* ]]; }

# SLURM forgets the step of a node that was cut off, and Ray would run on there once it is back.
leave_with_job() {
    local nodes
    while sleep 10; do
        answers "$1" || ! is_left || { kill -TERM $$; return; }
    done
}

# With --no-kill a job outlives the node of its script, and holds the others until its time is up. Their
# Ray ends for want of a head; once SLURM has found out, too, the first of them queues the job again.
queue_orphan() {
    local nodes
    while [ -z "$stopped" ] && ! is_left; do
        if [ "${#nodes[@]}" -gt 0 ] && [[ " ${nodes[*]} " != *" $SCRIPT_HOST "* ]]; then
            [ "${nodes[0]}" = "$SLURMD_NODENAME" ] || return
            scontrol requeue "$SLURM_JOB_ID" || scancel "$SLURM_JOB_ID" # refused after --no-requeue
            return
        fi
        sleep 10 &
        wait $! || kill $! # a signal ends a wait early
    done
}

run() {
    local status=0
    stopped=
    "$@" &
    ray=$!
    trap stop_ray TERM INT HUP
    wait "$ray" || status=$?
    while kill -0 "$ray" 2>/dev/null; do # a signal ends a wait early
        wait "$ray" || status=$?
    done
    [ -n "$stopped" ] || publish "$RUN_DIR/failed" "Ray on $(hostname) ended with $status."
    [ -z "${leaver:-}" ] || kill "$leaver" 2>/dev/null || true
    restore_clocks
    case "${SCRIPT_HOST:-}" in
        "" | "${SLURMD_NODENAME:-}") ;;
        *) queue_orphan || true ;;
    esac
    exit "$status"
}

mapfile -t gpus < <(my_gpus)
CUDA_VISIBLE_DEVICES=$(IFS=,; echo "${gpus[*]}")
export CUDA_VISIBLE_DEVICES
address=$(my_address)
agent=$((3 + rank % 16)) # several nodes may be on one machine
if [ "$rank" = 0 ]; then
    umask 077
    mkdir -p "$RUN_DIR"
    [ -n "${SLURM_JOB_ID:-}" ] || rm -f "$RUN_DIR/failed" # of an earlier life
    find_ports 0 1 2 "$agent" ${METRICS:+19}
else
    find_ports "$agent"
fi
command -v ray >/dev/null \
    || refuse "$(hostname) has no Ray: run make setup there, or set VENV or CONTAINER (cluster/README.md)."
options=(
    --num-cpus="${SLURM_CPUS_ON_NODE:-$(nproc)}"
    --num-gpus="${#gpus[@]}"
    --resources="$(as_resources "${gpus[@]}")"
    --dashboard-agent-listen-port="$((RAY_PORT + agent))"
    --disable-usage-stats
    # Nobody listens to what reads all of Ray's logs ten times a second beside the measurements.
    --include-log-monitor=false
    --block
)

if [ "$rank" = 0 ]; then
    if [ ! -s "$RAY_AUTH_TOKEN_PATH" ]; then
        token=$(python -c 'import secrets; print(secrets.token_hex(32))') # by itself: its failure ends this
        publish "$RAY_AUTH_TOKEN_PATH" "$token"
    fi
    publish "$RUN_DIR/api" "http://127.0.0.1:$DASHBOARD_PORT"
    publish "$RUN_DIR/head" "$address:$RAY_PORT"
    run ray start --head --node-ip-address="$address" --port="$RAY_PORT" \
        --dashboard-host=127.0.0.1 --dashboard-port="$DASHBOARD_PORT" \
        --ray-client-server-port="$CLIENT_PORT" --no-monitor "${options[@]}"
fi

for _ in $(seq 300); do
    if [ -s "$RUN_DIR/head" ] && head=$(cat "$RUN_DIR/head") && answers "$head"; then
        if [ -n "${SLURM_JOB_ID:-}" ]; then
            leave_with_job "$head" &>/dev/null & # whoever reads this log does not wait for its sleep
            leaver=$!
        fi
        run ray start --address="$head" "${options[@]}"
    fi
    sleep 1
done
echo "No Ray head answers at ${RUN_DIR}/head within 5 minutes; see the log of task 0." >&2
exit 1
