"""Preview of what code would do, in a copy of this process that can reach nothing.

The process is forked. The copy has all of its memory, and neither its open files nor its connections; it can change no
file but in a directory of its own, read no more than it is allowed, start no program, connect to nothing and signal
no process. There the code runs, and sends over a pipe what it shows, what it did and what it was stopped at. This is
untrusted: code can notice where it runs.

It knows neither notebooks nor sessions.
"""

from indus_nb.kernel.preview.copying import Copy
from indus_nb.kernel.preview.possible import obstacle, working_thread
from indus_nb.kernel.preview.report import CopyTask, Report, Send, Stop

__all__ = ["Copy", "CopyTask", "Report", "Send", "Stop", "obstacle", "working_thread"]
