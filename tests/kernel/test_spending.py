"""What code of the model's asks models for: charged to the cell that runs it, whichever thread asks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kernels import Kernel, private_environment
from messages_api import MessagesApi, Recorded, Reply, ToolUse

ROWS = "agent.map('row {item}', range(40), model='claude-haiku-4-5', progress=False).summary"
ASKING = {
    "here": f"from indus_nb import agent\n{ROWS}",
    "in a thread": (
        "import threading\nfrom indus_nb import agent\nfound = []\n"
        f"thread = threading.Thread(target=lambda: found.append({ROWS}))\nthread.start(); thread.join(); found[0]"
    ),
    "in a pool": (
        "from concurrent.futures import ThreadPoolExecutor\nfrom indus_nb import agent\n"
        f"with ThreadPoolExecutor(2) as pool:\n    found = list(pool.map(lambda _: {ROWS}, range(2)))\nfound"
    ),
    "awaited": (
        "from indus_nb import agent\n(await agent.map_async('row {item}', range(40), model='claude-haiku-4-5')).summary"
    ),
    "a session": (
        "from indus_nb import SessionOptions, open_session\n"
        "with open_session(SessionOptions(model='claude-haiku-4-5', no_session=True, tools=[])) as session:\n"
        "    for _ in range(40): session.run('more')"
    ),
}


@pytest.mark.parametrize("where", ASKING)
def test_what_code_of_the_models_asks_stays_within_what_the_cell_may_cost_and_is_counted(
    tmp_path: Path, api: MessagesApi, where: str
) -> None:
    before = len(api.requests)
    sold: list[float] = []

    def answer(request: Recorded) -> Reply:
        sold.append((100 * 1.0 + 20 * 5.0) / 1e6)
        texts = "\n".join(request.texts)
        if "lead" in texts and len(request.body["messages"]) == 1:
            return Reply(ToolUse("python", {"code": ASKING[where]}))
        return Reply("fine")

    api.default = answer  # type: ignore[assignment]
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("%load_ext indus_nb\n%agent --model claude-haiku-4-5 --approve never")
        kernel.run("%agent --max-cost 0.026 lead")
        assert sum(sold) <= 0.026
        cost = re.search(r"cost +\$(0\.\d+)", kernel.run("%agent stats").shown[-1])
        assert cost is not None
        assert float(cost[1]) == pytest.approx(sum(sold), abs=1e-4)
        assert len(api.requests) - before > 2
        # The user's own code is not charged to a cell that has ended.
        rest = kernel.run(f"from indus_nb import agent\nprint({ROWS})")
        assert "40 answered" in rest.streams
