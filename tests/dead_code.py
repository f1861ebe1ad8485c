"""Code of the package that nothing uses: neither the package itself, nor its tests, nor the examples.

    python tests/dead_code.py

vulture finds names that are defined and never mentioned. What is used in ways that it cannot see stands below with the
reason; an entry that is no longer needed is pointed out.
"""

from __future__ import annotations

import sys
from fnmatch import fnmatch
from pathlib import Path

from vulture.core import Vulture

ROOT = Path(__file__).resolve().parent.parent
CALLED_BY_DECORATOR = [
    *("@model_validator*", "@field_validator*", "@*_validator", "@*_serializer*", "@computed_field*"),  # pydantic
    *("@agent.*", "@*.tool", "@*.command*", "@*.on*"),  # a session
]
PACKAGE = ROOT / "indus_nb"
DECLARATIONS = [
    PACKAGE / "base" / "readers.py",  # keys are written as strings
    *(PACKAGE / "front" / "notebook" / "page" / name for name in ("protocol.py", "states.py")),  # likewise
    PACKAGE / "front" / "notebook" / "door" / "messages.py",  # likewise
    *(PACKAGE / "front" / "verbs").glob("*_verbs.py"),  # classes are found in their modules
]
"""Modules whose names are used without being mentioned."""
USED_UNSEEN = {
    "what a protocol or a base class calls or reads by name": (
        *("__call__", "__getattr__", "path_stats", "model_config"),
        *("field_title_should_be_set", "decimal_schema"),
        "IndusPersona",  # an entry point
        *("on_files", "on_page_markdown", "CodeInDocstrings", "on_object"),
    ),
    "keys of what a client of another package is made with": ("default_headers", "http_client", "aws_*"),
    "attributes that are set for others": (
        *("f_trace", "validateLink", "paste_to_editor"),
        "_clearing",  # a reference keeps a task alive
        *("should_exit", "force_exit"),  # uvicorn's server
        "monitor_interval",  # tqdm's bars
        # What the copy of a kernel replaces, so that it reaches nothing outside.
        *("raw_input", "shebang", "handleError", "register_error", "tempdir", "dont_write_bytecode", "io_open"),
        *("pager", "get_tmp_directory"),
    ),
    "what extensions call and read, and what is accepted from those that come from elsewhere: docs/extensions.md": (
        *("register_shortcut", "unregister_provider", "get_active_tools", "get_all_tools", "get_commands"),
        *("get_thinking_level", "session_manager", "has_pending_messages", "wait_for_idle", "navigate_tree"),
        *("compaction_entry", "theme_paths", "skip_conversation_restore"),
        *("common_ancestor_id", "entries_to_summarize", "user_wants_summary"),
    ),
    "fields of frames and files, for those who read these": (
        *("auth_header", "status_key", "widget_key", "total_messages"),
        *("tool_count", "current_tool", "recent_output", "duration_ms"),
        *("agent_source", "parent_tool_call_id"),
    ),
    "what a fresh kernel is sent as text": ("values_of_claims",),
    "called by asyncio on a protocol": (
        *("data_received", "eof_received", "connection_lost", "pause_writing", "resume_writing"),
    ),
    "called by the parser of HTML, with its arguments": ("handle_data", "handle_starttag"),
}


def main() -> int:
    """Print what is unused, and which entries above are; returns the exit status."""
    vulture = Vulture(ignore_decorators=CALLED_BY_DECORATOR)
    vulture.scavenge([str(ROOT / place) for place in ("indus_nb", "tests", "docs")])
    excuses = [name for names in USED_UNSEEN.values() for name in names]
    needed: set[str] = set()
    problems: list[str] = []
    for item in vulture.get_unused_code(min_confidence=60):
        if item.filename.is_relative_to(ROOT / "tests") or item.filename in DECLARATIONS:
            continue  # tests are found by name, and their stand-ins have what somebody else asks for
        excused = [name for name in excuses if fnmatch(item.name, name)]
        needed.update(excused)
        if not excused:
            problems.append(item.get_report())
    stale = [f"(tests/dead_code.py: {name} is used after all, or gone)" for name in excuses if name not in needed]
    print("\n".join([*problems, *stale]), end="\n" if problems or stale else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
