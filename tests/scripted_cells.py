"""A notebook with everything that answers are made of, and the answers, at any pace: for what it shows in two runs."""

from __future__ import annotations

from messages_api import Gate, HttpError, Reply, Text, Thinking, ToolUse

CELLS = (
    "%load_ext indus_nb\n%matplotlib inline\nimport pandas as pd\nimport matplotlib.pyplot as plt",
    "from pathlib import Path\n_ = Path('limits.py').write_text('low = 1\\n')\ndf = pd.DataFrame({'a': [1, 2, 3]})",
    "%agent --new",
    "%agent draw them, and say what is there",
    "%%agent\nnow the files\nand the rest",
    "%agent undo",
    "%agent --result int how many are there?",
    "%agent think about all of it",
)
_PLAN = {"op": "init", "phases": [{"name": "Work", "tasks": ["look"]}]}
_DRAWING = "print(df.a.sum())\nplt.plot(df.a)\nplt.show()\ndf"
_LONG = "\n\n".join(f"Paragraph {number} says more than one thing. " * 6 for number in range(40))


def answers(chunk: int, held: Gate | None = None) -> list[Reply | HttpError]:
    """The answers to one run of the cells, in deltas of ``chunk`` characters; the first prompt's ends once it may."""

    def reply(*content: str | Text | Thinking | ToolUse | Gate) -> Reply:
        return Reply(*content, chunk=chunk)

    looks = [ToolUse("python", {"code": f"df.a.max() + {number}"}) for number in range(12)]
    edit = {"path": "limits.py", "edits": [{"oldText": "low = 1", "newText": "low = 2"}]}
    return [
        reply(Thinking("Let me see how they look."), "I draw `a`.", ToolUse("python", {"code": _DRAWING})),
        HttpError(529, "overloaded_error", "Overloaded"),
        reply("One column more.", ToolUse("python", {"code": "df[0] = df.a"}), ToolUse("python", {"code": "1/0"})),
        reply(*([held] if held else []), "It grew.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nThat is $x^2$, and all.\n"),
        reply(ToolUse("bash", {"command": "echo hi; ls"}), ToolUse("edit", edit)),
        reply(Thinking("And a list."), ToolUse("todo", _PLAN), ToolUse("read", {"path": "limits.py"})),
        reply(ToolUse("todo", {"op": "done"}), *looks),
        reply("Done."),
        reply(ToolUse("answer", {"answer": 3})),
        reply(Thinking(_LONG), _LONG),
    ]
