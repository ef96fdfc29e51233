"""What every test runs under."""

import os

from hypothesis import settings

# Tiny networks are slower on several threads than on one, far slower where tests share cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples on every machine; try others with --hypothesis-profile=default.
settings.register_profile("same", derandomize=True)
settings.load_profile("same")
