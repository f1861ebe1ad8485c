"""``python -m indus_nb`` is the console program."""

from indus_nb.console.cli import main

main()
