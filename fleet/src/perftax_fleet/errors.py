"""Errors with a remedy, and the exit code that each ends with."""

from __future__ import annotations

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_LEFT_OUT = 3
EXIT_INTERRUPTED = 130


class FleetError(Exception):
    """Ends a command. The text names what is wrong, its value, what is needed and how to get it."""

    exit_code = EXIT_FAILURE


class UsageError(FleetError):
    """Bad input: an argument, a folder, a parameter."""

    exit_code = EXIT_USAGE
