"""`python -m ttrace_torch doctor SCRIPT`."""

from __future__ import annotations

import sys

from ttrace_torch.doctor.examine import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
