#!/bin/sh
# SLURM epilog (slurm.conf: Epilog=, runs as root on each node after a job): unlock the clocks of
# the GPUs that the job had. Needed where users run clock guards of their own: SLURM may kill a
# job's whole cgroup, guard and watchdog included, before they can restore. Where the systemd unit
# runs, the guard is outside every job and this finds nothing to do.
# It never fails, since a failing epilog drains the node; what went wrong is in the system log.

say() { logger -t joulelab-epilog -- "job ${SLURM_JOB_ID:-?}: $*" 2>/dev/null || :; }

restore() {
    nvidia-smi -i "$1" -rgc >/dev/null 2>&1 || say "could not unlock the SM clock of GPU $1"
    nvidia-smi -i "$1" -rmc >/dev/null 2>&1 || :  # not every GPU can lock its memory clock
    # A site that caps power writes its cap here.
    limit_w=$(ask "$1" power.default_limit)
    case $limit_w in
        [0-9]*) nvidia-smi -i "$1" -pl "$limit_w" >/dev/null 2>&1 \
            || say "could not restore the power limit of GPU $1" ;;
    esac
}

# The journal of the user's guard would have its next guard restore again what is restored now,
# perhaps under somebody else's job. Removed as the user, never as root: the folder is theirs.
forget() {
    uuid=$(ask "$1" uuid)
    case $uuid in
        GPU-*) runuser -u "$SLURM_JOB_USER" -- sh -c 'rm -f "$1".state/"$2"-*.jsonl' sh \
            "/tmp/joulelab-guard-$SLURM_JOB_UID/guard" "$uuid" 2>/dev/null || : ;;
    esac
}

ask() { nvidia-smi -i "$1" --query-gpu="$2" --format=csv,noheader,nounits 2>/dev/null; }

old_ifs=$IFS
IFS=,
set -- ${SLURM_JOB_GPUS:-}
IFS=$old_ifs
for gpu do
    restore "$gpu"
    [ -n "${SLURM_JOB_USER:-}" ] && [ -n "${SLURM_JOB_UID:-}" ] && forget "$gpu"
done
exit 0
