# shellcheck shell=bash
# Nodes with A100s, in a partition of their own: an example of a site's profile.
#
#   . cluster/sites/toreador.sh
#   sbatch --nodes 2 cluster/ray.sbatch experiments/dvfs_sweep.py --device nvml
#
# `sbatch` and `salloc` read these variables; an option on the command line goes before them.
export SBATCH_PARTITION=toreador SALLOC_PARTITION=toreador
# export SBATCH_ACCOUNT=... SBATCH_CONSTRAINT=... SBATCH_TIMELIMIT=04:00:00
export GPU_PRODUCT=a100 # ray.sbatch: --gpu-product, unless the experiment is given one
