"""What one fuzzing round does: bursts of commands, answers of the model, an extension; made from a seed.

A scenario is JSON through and through, so that it can be printed, shrunk and played again. What is not known before it
runs stands in commands as a name: ``$entry 7`` is the seventh entry (modulo their number) that the process told of,
``$user 2`` the second message of the user, ``$file 1`` the first session file.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

Json = dict[str, Any]

WIRES = ("snapshot", "snapshot", "delta", "delta", "delta", "strict")
FRAMES_TO_WAIT_FOR = (
    "agent_start",
    "message_start",
    "message_update",
    "message_update",
    "message_end",
    "tool_execution_start",
    "tool_execution_end",
    "turn_end",
    "agent_end",
    "agent_end",
    "agent_settled",
    "agent_settled",
    "auto_retry_start",
    "compaction_start",
    "response",
)
MODELS = ("claude-haiku-4-5", "claude-sonnet-4-6", "claude-opus-4-7", "no-such-model")
EXTENSION_COMMANDS = ("new_session", "fork", "navigate", "wait", "compact", "abort", "message", "reload")
BAD_LINES = ("{", "null", "[]", '"prompt"', "{'type': 'prompt'}", "\u0000", '{"type": "prompt"')


@dataclass
class Step:
    """Commands that are written in one go, and what is waited for then.

    ``wait`` is ``{}`` (nothing), ``{"seconds": 0.02}``, ``{"frame": "agent_end"}`` or ``{"idle": true}``. With ``look``
    the process is first asked for its entries and its file, for what the commands name.
    """

    commands: list[Json]
    wait: Json = field(default_factory=dict)
    look: bool = False


@dataclass
class Scenario:
    """One round. ``answers`` are taken by the requests in turn, ``extension`` is the plan of the extension."""

    seed: int
    wire: str
    steps: list[Step]
    answers: list[Json] = field(default_factory=list)
    extension: Json | None = None
    hurry: bool = False
    """Whether standard input is closed right behind the last step, whatever goes on."""

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The scenario that ``to_json`` wrote."""
        data = json.loads(text)
        return cls(**{**data, "steps": [Step(**step) for step in data["steps"]]})

    def with_steps(self, steps: list[Step]) -> Scenario:
        """The same with other steps."""
        return replace(self, steps=steps)

    @property
    def size(self) -> int:
        """How many commands it sends."""
        return sum(len(step.commands) for step in self.steps)


def make_scenario(seed: int) -> Scenario:
    """The scenario of that seed."""
    source = random.Random(seed)
    extension = _extension(source) if source.random() < 0.3 else None
    maker = _Maker(source, speaks_to_extension=extension is not None)
    steps = [Step([maker.command("prompt")], {"idle": True})] if source.random() < 0.7 else []
    steps += [maker.step() for _ in range(source.randint(12, 28))]
    return Scenario(
        seed=seed,
        wire=source.choice(WIRES),
        steps=steps,
        answers=[_answer(source) for _ in range(60)],
        extension=extension,
        hurry=source.random() < 0.2,
    )


class _Maker:
    def __init__(self, source: random.Random, *, speaks_to_extension: bool) -> None:
        self._source = source
        self._speaks_to_extension = speaks_to_extension
        self._count = 0
        self._kinds: dict[str, tuple[int, Callable[[], Json]]] = {
            "prompt": (24, self._prompt),
            "abort_and_prompt": (6, lambda: {"message": self._text()}),
            "steer": (6, lambda: {"message": self._text()}),
            "follow_up": (6, lambda: {"message": self._text()}),
            "abort": (14, dict),
            "abort_retry": (4, dict),
            "clear_queue": (3, dict),
            "compact": (12, dict),
            "set_auto_compaction": (2, lambda: {"enabled": source.random() < 0.8}),
            "set_auto_retry": (2, lambda: {"enabled": source.random() < 0.8}),
            "bash": (6, lambda: {"command": self._shell(), "excludeFromContext": source.random() < 0.3}),
            "abort_bash": (3, dict),
            "new_session": (5, dict),
            "switch_session": (4, lambda: {"sessionPath": self._name("file")}),
            "fork": (4, lambda: {"entryId": self._name("user")}),
            "clone": (3, dict),
            "navigate_tree": (7, lambda: {"targetId": self._name("entry"), "summarize": source.random() < 0.6}),
            "set_model": (2, lambda: {"provider": "anthropic", "modelId": source.choice(MODELS)}),
            "cycle_model": (1, dict),
            "set_thinking_level": (2, lambda: {"level": source.choice(("off", "low", "high"))}),
            "set_label": (2, lambda: {"entryId": self._name("entry"), "label": "marked"}),
            "set_session_name": (2, lambda: {"name": f"name {self._count}"}),
            "get_state": (6, dict),
            "get_messages": (2, dict),
            "get_entries": (1, dict),
            "get_tree": (1, dict),
            "get_session_stats": (1, dict),
            "set_steering_mode": (1, self._mode),
            "set_follow_up_mode": (1, self._mode),
            "set_interrupt_mode": (1, lambda: {"mode": source.choice(("immediate", "wait"))}),
            "export_html": (1, lambda: {"outputPath": "page.html"}),
            "raw": (1, lambda: {"line": source.choice(BAD_LINES)}),
            "extension_ui_response": (1, lambda: {"id": "nobody", "confirmed": True}),
        }

    def step(self) -> Step:
        source = self._source
        names = list(self._kinds)
        weights = [self._kinds[name][0] for name in names]
        commands = [
            self.command(name) for name in source.choices(names, weights, k=source.choice((1, 1, 2, 3, 3, 4, 6)))
        ]
        return Step(commands, self._wait(), look=any("$" in str(list(command.values())) for command in commands))

    def command(self, name: str) -> Json:
        self._count += 1
        return {"id": f"c{self._count}", "type": name, **self._kinds[name][1]()}

    def _wait(self) -> Json:
        source = self._source
        kind = source.random()
        if kind < 0.25:
            return {}
        if kind < 0.45:
            return {"seconds": round(source.uniform(0.001, 0.12), 3)}
        if kind < 0.75:
            return {"frame": source.choice(FRAMES_TO_WAIT_FOR)}
        return {"idle": True}

    def _text(self) -> str:
        return f"text c{self._count} {'word ' * self._source.choice((1, 5, 60))}".strip()

    def _prompt(self) -> Json:
        if self._speaks_to_extension and self._source.random() < 0.15:
            return {"message": f"/storm {self._source.choice(EXTENSION_COMMANDS)} c{self._count}"}
        behavior = self._source.choice((None, None, None, "steer", "followUp"))
        return {"message": self._text(), **({"streamingBehavior": behavior} if behavior else {})}

    def _mode(self) -> Json:
        return {"mode": self._source.choice(("all", "one-at-a-time"))}

    def _shell(self) -> str:
        return f"sleep {self._source.choice((0, 0, 0.05, 0.2))}; echo c{self._count}"

    def _name(self, kind: str) -> str:
        return f"${kind} {self._source.randint(0, 40)}"


def _answer(source: random.Random) -> Json:  # noqa: PLR0911 - one for each kind of answer
    """What the model's API does with one request: see ``server.reply_to``."""
    kind = source.choices(
        ("text", "slow", "tools", "thinking", "huge", "error", "overflow", "cut", "sse", "silence"),
        (26, 16, 20, 4, 6, 11, 3, 4, 3, 3),
    )[0]
    match kind:
        case "text":
            return {"kind": kind, "words": source.choice((1, 20, 120))}
        case "slow" | "thinking":
            return {"kind": kind, "words": source.choice((5, 60)), "pauses": source.randint(1, 4), "seconds": 0.03}
        case "tools":
            return {"kind": kind, "calls": [_call(source) for _ in range(source.choice((1, 1, 2, 3)))]}
        case "huge":
            return {"kind": kind, "words": 20, "tools": source.random() < 0.3}
        case "error":
            return {"kind": kind, "status": source.choice((429, 500, 529, 529, 400))}
        case "cut":
            return {"kind": kind, "words": source.choice((0, 20))}
        case "silence":
            return {"kind": kind, "seconds": round(source.uniform(0.2, 0.8), 2)}
        case _:
            return {"kind": kind}


def _call(source: random.Random) -> Json:
    if source.random() < 0.2:
        return {"name": source.choice(("read", "no_such_tool", "ls")), "input": {"path": "."}}
    return {"name": "bash", "input": {"command": f"sleep {source.choice((0, 0.02, 0.1, 0.2))}; echo done"}}


def _extension(source: random.Random) -> Json:
    """The plan of the extension: how long its handlers take, and what it does by itself at which event."""
    slow = ("input", "session_before_switch", "session_before_fork", "session_before_tree", "session_before_compact")
    slow += (
        "agent_settled",
        "agent_settled",
        "before_agent_start",
        "agent_end",
        "turn_end",
        "session_start",
        "user_bash",
    )
    delays = {name: round(source.uniform(0.01, 0.3), 2) for name in source.sample(slow, 4)}
    events = ("agent_settled", "agent_settled", "agent_end", "turn_end", "message_end", "compaction_end", "agent_start")
    actions = ("compact", "message", "message", "abort", "user_message", "next_turn", "ask")
    acts = [
        {"event": source.choice(events), "at": source.randint(1, 6), "action": source.choice(actions)}
        for _ in range(source.randint(0, 3))
    ]
    return {"delays": delays, "acts": acts}
