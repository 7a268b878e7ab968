"""The worker of `wholestep bench memory` on short sequences, so that a test can wait for it."""

import os
import sys

from wholestep.cli.bench import deep

if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    deep.serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.stdin, answers, 8)
