"""See `benchmarks.scale.measure`."""

import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as in a gateway, for the baseline too

from benchmarks.scale.measure import main

if __name__ == "__main__":
    sys.exit(main())
