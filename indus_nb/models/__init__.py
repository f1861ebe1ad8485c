"""Access to models: the ``Provider`` protocol, and the models and keys that are known."""

from indus_nb.models.catalog import Model
from indus_nb.models.protocol import Cassette, Context, Provider, StreamOptions, ToolSpec

__all__ = ["Cassette", "Context", "Model", "Provider", "StreamOptions", "ToolSpec"]
