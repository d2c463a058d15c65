"""``python -m demo_project`` opens the newsroom; ``--check`` proves that it works, and leaves."""

from __future__ import annotations

import argparse
import sys

from . import launcher


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demo_project", description=__doc__)
    parser.add_argument(
        "--check",
        action="store_true",
        help="drive the demo without a person; exit 0 only if everything came out as it should",
    )
    parser.add_argument("--verbose", action="store_true", help="with --check: show all output")
    options = parser.parse_args()
    if options.check:
        from . import check

        return check.main(verbose=options.verbose)
    return launcher.serve()


if __name__ == "__main__":
    sys.exit(main())
