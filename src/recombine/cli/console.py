"""The console that prints with styles."""

from rich.console import Console


class Terminal(Console):
    """A console that reads no markup in what it prints, and leaves closed pipes to the caller."""

    def on_broken_pipe(self) -> None:
        """Pass the error on; the command line knows what to do."""
        raise BrokenPipeError
