"""Loads the bundle that it is given and lets go of it, many times, on a machine that is busy.

IREE's threads come late then, so that they are the last to hold the weights.
"""

import subprocess
import sys

from llmc.runtime.model import load

BUSY = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"

others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(2)]
try:
    for _ in range(400):
        load(sys.argv[1]).generate("Hello", max_new_tokens=8)
finally:
    for other in others:
        other.kill()
