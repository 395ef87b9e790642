"""`python -m perftax_fleet`."""

from perftax_fleet.cli import run

run()
