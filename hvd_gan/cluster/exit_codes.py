"""How a job ends, to whoever has started it."""

from __future__ import annotations

EXIT_DONE = 0
# A rank raised an error, died or hung.
EXIT_FAILED = 1
# A mistake in the command, the settings or the data; the same again would end the same.
EXIT_REFUSED = 2
# Asked to stop, and has saved: the same command goes on. (sysexits.h: try again later.)
EXIT_STOPPED = 75
# Interrupted twice, and stopped at once. (128 + SIGINT, as shells have it.)
EXIT_INTERRUPTED = 130

# After these there is nothing to start again.
FINAL = (EXIT_DONE, EXIT_REFUSED, EXIT_STOPPED, EXIT_INTERRUPTED)
