"""Which names code binds."""

from __future__ import annotations

import pytest

from indus_nb.kernel.undo.reach import bound_in_source, names_in_source


@pytest.mark.parametrize(
    ("code", "bound"),
    [
        ("print(x); x.y = 1; x[0] = 2", set()),
        ("x = 1; y += 1; (z := 2)", {"x", "y", "z"}),
        ("del x", {"x"}),
        ("for i in a: pass\nwith b as c: pass\nimport d.e, f as g", {"i", "c", "d", "g"}),
        ("def f():\n    global deep\n    deep = here = 1", {"f", "deep"}),
        ("async def f():\n    def g():\n        global deep\n        del deep", {"f", "deep"}),
        ("match a:\n    case {'k': v, **rest}: pass", {"v", "rest"}),
        ("x = await y", {"x"}),
        ("x = ", set()),
        ("from m import *", None),
        ("exec('x = 1')", None),
        ("globals()['x'] = 1", None),
        ("get_ipython().run_line_magic('time', 'x = 1')", None),
        ("get_ipython().system('ls')", set()),
    ],
)
def test_names_that_code_binds(code: str, bound: set[str] | None) -> None:
    assert bound_in_source(code, str) == bound


def test_what_cannot_be_made_python_may_bind_any() -> None:
    assert bound_in_source("x", lambda _: str(1 / 0)) is None


@pytest.mark.filterwarnings("error")
def test_what_python_warns_about_it_warns_about_when_the_code_is_run() -> None:
    assert names_in_source("(1, 2)(x); '\\d'", str).names == {"x"}
