# shellcheck shell=bash
# Nodes with V100s, in a partition of their own: an example of a site's profile.
#
#   . cluster/sites/matador.sh
#   sbatch --nodes 2 cluster/ray.sbatch experiments/dvfs_sweep.py --device nvml
#
# `sbatch` and `salloc` read these variables; an option on the command line goes before them.
export SBATCH_PARTITION=matador SALLOC_PARTITION=matador
# export SBATCH_ACCOUNT=... SBATCH_CONSTRAINT=... SBATCH_TIMELIMIT=04:00:00
export GPU_PRODUCT=v100 # ray.sbatch: --gpu-product, unless the experiment is given one
# PyTorch for a V100 is another build (docs/install.md): pip install -c constraints-volta.txt -e '.[all]'
export VENV=${VENV:-$PWD/.venv-volta}
