"""The models of a server on this machine that speaks OpenAI's chat completions: Ollama, llama.cpp, vLLM, LM Studio.

The server says itself which models it has. ``--local-url=http://127.0.0.1:8080/v1`` names another one, and
``--local-model=qwen3:8b`` talks to a model of it from the start.
"""

from __future__ import annotations

import asyncio
import json
from urllib.request import ProxyHandler, build_opener

from indus_nb.base.errors import UsageError
from indus_nb.extend.api import Context, ExtensionApi
from indus_nb.extend.events import SessionStart

USUAL_URL = "http://127.0.0.1:11434/v1"
SECONDS = 3


def setup(api: ExtensionApi) -> None:
    """Register the provider ``local`` at the start; without a server that is an error, which names the address."""
    api.register_flag("local-url", "string", default=USUAL_URL, description="where the local server is")
    api.register_flag("local-model", "string", description="the model of the local server to begin with")

    @api.on("session_start")
    async def register(event: SessionStart, ctx: Context) -> None:
        url = str(api.get_flag("local-url"))
        names = await asyncio.to_thread(model_names, url)
        # What `ModelRegistry.register` takes. Servers do not tell how long a context may be, so be careful.
        models = [{"id": name, "contextWindow": 32_768, "maxTokens": 8_192} for name in names]
        api.register_provider("local", {"baseUrl": url, "api": "openai-completions", "models": models})
        wanted = api.get_flag("local-model")
        if wanted is None or event.reason != "startup":
            return
        model = next((model for model in ctx.models if (model.provider, model.id) == ("local", wanted)), None)
        if model is None:
            raise UsageError(f"The server at {url} has no model {wanted}. It has: {', '.join(names) or 'none'}.")
        await api.set_model(model)


def model_names(url: str) -> list[str]:
    """The ids of the server's models; raises ``UsageError``."""
    try:
        # No proxy of the environment stands between this machine and itself.
        with build_opener(ProxyHandler({})).open(f"{url}/models", timeout=SECONDS) as response:
            return [str(model["id"]) for model in json.load(response)["data"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"No server told its models at {url}/models ({error}). Start it, or give --local-url."
        ) from error
