"""What code would do, found out in a copy of this process that can reach nothing.

The process is forked. The copy has all of its memory, and neither its open files nor its connections; it can change no
file but in a directory of its own, start no program, connect to nothing and signal nobody. There the code runs for
seconds at most, and tells over a pipe what it did and what it was stopped at. That is a hint for the user: the code can
notice where it runs, and what is told is told by the copy.

It knows neither notebooks nor sessions.
"""

from indus_nb.preview.copying import Copy
from indus_nb.preview.possible import obstacle, working_thread
from indus_nb.preview.report import Report, Stop, Task

__all__ = ["Copy", "Report", "Stop", "Task", "obstacle", "working_thread"]
