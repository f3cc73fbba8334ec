"""Find the right MCP tool at once: the public names, each imported when it is first used.

``docs/guides/library.md`` shows them at work. The modules behind them may move in any release.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from toolscript import errors
from toolscript.errors import ToolscriptError
from toolscript.version import __version__

if TYPE_CHECKING:
    from toolscript.agent.two_phase import Executor, Llm, Outcome, Toolbox
    from toolscript.app.application import App
    from toolscript.bootstrap import Wiring, application
    from toolscript.codegen.api_definitions import define_tool
    from toolscript.config.servers import Config, load_config
    from toolscript.config.settings import Settings, load_settings
    from toolscript.embedding.base import Encoder
    from toolscript.embedding.loader import LazyModel, load_model
    from toolscript.embedding.vector_cache import SqliteVectorCache
    from toolscript.retrieval.engine import SearchEngine
    from toolscript.retrieval.lexical.bm25f import LexicalSignal
    from toolscript.retrieval.profiles import search_profile
    from toolscript.retrieval.ranker import OfferedTool, RankedTool, Ranker
    from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
    from toolscript.skills.vector_pair import VectorPair
    from toolscript.types.search import Document, Hit, SearchRequest, SearchResult
    from toolscript.types.tools import ToolSpec

__all__ = [
    "App",
    "Config",
    "Document",
    "Encoder",
    "Executor",
    "Hit",
    "LazyModel",
    "LexicalSignal",
    "Llm",
    "OfferedTool",
    "Outcome",
    "RankedTool",
    "Ranker",
    "SearchEngine",
    "SearchRequest",
    "SearchResult",
    "SemanticSignal",
    "Settings",
    "SqliteVectorCache",
    "ToolSpec",
    "Toolbox",
    "ToolscriptError",
    "VectorPair",
    "Wiring",
    "__version__",
    "application",
    "define_tool",
    "errors",
    "load_config",
    "load_model",
    "load_settings",
    "search_profile",
]
_MODULES = {
    "agent.two_phase": ("Executor", "Llm", "Outcome", "Toolbox"),
    "app.application": ("App",),
    "bootstrap": ("Wiring", "application"),
    "codegen.api_definitions": ("define_tool",),
    "config.servers": ("Config", "load_config"),
    "config.settings": ("Settings", "load_settings"),
    "embedding.base": ("Encoder",),
    "embedding.loader": ("LazyModel", "load_model"),
    "embedding.vector_cache": ("SqliteVectorCache",),
    "retrieval.engine": ("SearchEngine",),
    "retrieval.lexical.bm25f": ("LexicalSignal",),
    "retrieval.profiles": ("search_profile",),
    "retrieval.ranker": ("OfferedTool", "RankedTool", "Ranker"),
    "retrieval.semantic.semantic_signal": ("SemanticSignal",),
    "skills.vector_pair": ("VectorPair",),
    "types.search": ("Document", "Hit", "SearchRequest", "SearchResult"),
    "types.tools": ("ToolSpec",),
}
"""Where each name is imported from; the imports above say the same to type checkers."""


def __getattr__(name: str) -> Any:
    """Returns a public name, importing its module; raises `AttributeError` for any other."""
    for module, names in _MODULES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
