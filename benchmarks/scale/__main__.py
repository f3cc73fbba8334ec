"""See `benchmarks.scale.measure`."""

import sys

from benchmarks.scale.measure import main

if __name__ == "__main__":
    sys.exit(main())
