"""Studies: trials carried out on GPUs, whoever carries them out, and none of them lost."""
