"""The worker of `wholestep bench memory` on short sequences, so that a test can wait for it."""

import sys

from wholestep_tools.bench import deep

if __name__ == "__main__":
    deep.main(sys.argv[1:], 8)
