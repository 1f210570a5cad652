"""Run the command line with `python -m recombine.cli`."""

import sys

from recombine.cli.main import main

sys.exit(main())
