"""The console script of the wheel: the same program as the `sigbank` binary, inside the native module."""

import signal
import sys

from sigbank import _native


def main() -> int:
    """Run the command line on `sys.argv` and return its exit code."""
    # The native call does not come back to Python before it is done: let Ctrl-C end the process as it ends the binary.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.cli_main(sys.argv)


if __name__ == "__main__":
    raise SystemExit(main())
