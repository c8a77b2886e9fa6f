"""What holds for all tests."""

import signal

# A job in the background of a shell starts with Ctrl-C ignored, and its children inherit that: tests send it to theirs.
signal.signal(signal.SIGINT, signal.default_int_handler)
