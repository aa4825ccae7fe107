"""``python -m gpumesh.sim``."""

import sys

from gpumesh.sim.run import main

if __name__ == "__main__":
    sys.exit(main())
