"""A form for a key on the pages of a widget, and a cell that asks for one.

What this module promises: a key that a page sends goes to ``start/key_setup`` and nowhere else. No state of a widget,
no output, no message to a page and no log holds it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from indus_nb.base.errors import IndusError
from indus_nb.core.resources.settings import agent_directory, model_registry
from indus_nb.core.session.session import AgentSession
from indus_nb.front.notebook.page import protocol, states
from indus_nb.front.notebook.page.widget import AgentWidget
from indus_nb.front.notebook.view import blocks
from indus_nb.front.notebook.view.output import Display, Screen
from indus_nb.kernel.cell_ids import Origin
from indus_nb.models.registry import ModelRegistry
from indus_nb.start.key_setup import OFFLINE, choose_for_key, managed, needs_key, providers, take_key

WITHOUT_WIDGETS = "A form for a key stood here. `%agent key` opens it again."
_UNSENT = "Your prompt was not sent: no key is known."
_THEN = "Fill in this form, and send it again."
_AFTER_COMMAND = "You can ask now."
# An error in the output of a cell can be neither changed nor removed from the kernel.
_AFTER_ERROR = "You can ask now: the error below is from before, and goes when you run this cell again."


class KeyForm:
    """The form for a key, in the state of a widget."""

    def __init__(self, widget: AgentWidget, start: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        """Make a form that is not shown.

        Args:
            start: Starts a task on the agent's thread, and shows its errors.
        """
        self._widget = widget
        self._start = start
        self._form: states.KeyForm | None = None
        self._is_wanted = False
        self._unsent = False

    def note_unsent(self, session: AgentSession) -> bool:
        """Say in the form that a prompt was not sent for want of a key.

        Returns:
            Whether a key is wanted, so that the form is shown, or will be.
        """
        if not needs_key(session):
            return False
        self._unsent = True
        self.follow(session)
        if self._form is not None:
            self._change(testing=self._form["testing"], problem=_unsent(self._form["providers"]))
        return True

    def follow(self, session: AgentSession) -> None:
        """Show the form while a session wants for a key."""
        wanted = needs_key(session)
        if wanted == self._is_wanted:
            return
        self._is_wanted = wanted
        if wanted:
            self._start(self.open(session.registry, "" if session.model is None else session.model.provider))
        else:
            self._set(None)

    async def open(self, registry: ModelRegistry, provider: str = "") -> None:
        """Show the form.

        Args:
            provider: The one to begin with; empty for the first.
        """
        by = managed()
        place = await asyncio.to_thread(registry.kept.place)
        offered = [] if by else providers(registry)
        if self._widget.kind == "panel" and not self._is_wanted:
            return  # a key was found meanwhile
        choices: list[states.KeyChoice] = [{"provider": model.provider, "model": model.name} for model in offered]
        self._set(
            {
                "providers": choices,
                "provider": provider if provider in [model.provider for model in offered] else "",
                "place": place.name,
                "notes": [by] if by else [*filter(None, [place.note]), OFFLINE],
                "testing": False,
                "problem": _unsent(choices) if self._unsent else "",
            }
        )

    async def take(self, registry: ModelRegistry, session: AgentSession | None, given: protocol.GiveKey) -> str | None:
        """Test and take a key that a page sent, and hide the form.

        Returns:
            What became of it and what a prompt costs; ``None`` if the key was rejected, which the form says.
        """
        self._change(testing=True, problem="")
        try:
            accepted = await take_key(registry, given.provider, given.key, keep=given.keep)
        except IndusError as error:
            self._change(testing=False, problem=str(error))
            return None
        except BaseException:
            self._change(testing=False, problem="The key could not be tested.")
            raise
        self._set(None)
        costs = "" if session is None or session.closed else await choose_for_key(session, accepted.model)
        return " ".join(filter(None, (accepted.text, costs)))

    def _change(self, *, testing: bool, problem: str) -> None:
        if self._form is not None:
            self._set({**self._form, "testing": testing, "problem": problem})

    def _set(self, form: states.KeyForm | None) -> None:
        self._form = form
        self._unsent = self._unsent and form is not None
        self._widget.set(keys=form)
        self._widget.send()


def _unsent(choices: Sequence[states.KeyChoice]) -> str:
    return f"{_UNSENT} {_THEN}" if choices else _UNSENT


class KeyCell:
    """A form in the output of a cell; once a key was taken, a line stands in its place."""

    def __init__(
        self,
        call: Callable[[Callable[[], object]], None],
        session: Callable[[], AgentSession | None],
        shown_in: Origin | None,
    ) -> None:
        """Make the form.

        Args:
            call: Runs work on the agent's thread.
            session: Returns the conversation that is to go on with the key.
            shown_in: The cell that displays it.
        """
        self.widget: AgentWidget = AgentWidget("keys", self._receive, call, shown_in)
        self.widget.set_fallback(blocks.notice(WITHOUT_WIDGETS))
        self._call = call
        self._session = session
        self._form = KeyForm(self.widget, self._begin)
        self._tasks: set[asyncio.Task[None]] = set()
        self._display: Display | None = None
        self._next = ""

    def show(self, screen: Screen, provider: str) -> None:
        """Display the form.

        Args:
            provider: The one that a prompt of this cell failed without, to begin with; empty where none did.
        """
        self._next = _AFTER_ERROR if provider else _AFTER_COMMAND
        self._display = screen.show(self.widget.bundle, final=True)
        self._call(lambda: self._begin(self._form.open(self._registry(), provider)))

    def _registry(self) -> ModelRegistry:
        session = self._session()
        return model_registry(agent_directory()) if session is None else session.registry

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _receive(self, request: protocol.GiveKey) -> None:
        self._begin(self._take(request))

    async def _take(self, request: protocol.GiveKey) -> None:
        taken = await self._form.take(self._registry(), self._session(), request)
        if taken is not None and self._display is not None:
            self.widget.close()
            self._display.update(blocks.notice(f"{taken} {self._next}"), final=True)
            self.widget.on_closed()
