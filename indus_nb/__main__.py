"""``python -m indus_nb`` is the console program."""

from indus_nb.cli import main

main()
