"""``python -m indus_nb`` is the console program."""

import sys

from indus_nb.base.own_imports import working_directory_entries

for _entry in working_directory_entries():  # -m put it there, and it is none of a program's
    sys.path.remove(_entry)

from indus_nb.front.console.cli import main  # noqa: E402 - see above

main()
