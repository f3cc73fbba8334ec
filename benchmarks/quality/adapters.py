"""Other projects' engines, each used as its own documentation uses it.

Imported in the helper process only, where their packages are. None of them knows
of servers the way a gateway does, so a tool is called ``server_name``, as an MCP
client calls the tools of several servers, and its description and input schema
are handed over whole.
"""

import asyncio
import functools
import importlib
import logging
import re
import warnings
from collections.abc import Sequence
from typing import Any

from benchmarks.quality.datasets import Tool
from benchmarks.quality.timed import Build, Find
from toolscript.retrieval.quality_metrics import DEPTH

_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _module(name: str) -> Any:
    """A module that is not there when this file is checked."""
    return importlib.import_module(name)


def _named(tools: Sequence[Tool]) -> dict[str, Tool]:
    """The tools by a name that each has for itself."""
    found: dict[str, Tool] = {}
    for tool in tools:
        name = f"{tool.server}_{tool.name}"
        while name in found:
            name += "_2"
        found[name] = tool
    return found


def fastmcp_bm25(tools: Sequence[Tool]) -> Find:
    """A FastMCP server with ``BM25SearchTransform``, asked through its ``search_tools``."""
    logging.getLogger().setLevel(logging.ERROR)  # it warns of every name with a space
    base, server = _module("fastmcp.tools.base"), _module("fastmcp").FastMCP("benchmark")
    named = _named(tools)
    for name, tool in named.items():
        parameters = tool.input_schema or _NO_PARAMETERS
        server.add_tool(
            base.Tool(name=name, description=tool.description or "", parameters=parameters)
        )
    search = _module("fastmcp.server.transforms.search.bm25")
    server.add_transform(search.BM25SearchTransform(max_results=DEPTH))
    runner = asyncio.Runner()

    def find(text: str) -> list[str]:
        answer: Any = runner.run(server.call_tool("search_tools", {"query": text}))
        return [named[row["name"]].id for row in answer.structured_content["result"]]

    return find


def graph_tool_call(tools: Sequence[Tool]) -> Find:
    """A ``ToolGraph`` filled server by server, as its MCP proxy does, and asked in its basic mode.

    As there, a name is its own while no other server has it. The relations between
    tools are looked for once, over all, rather than again after each server.
    """
    warnings.simplefilter("ignore")  # it recommends an embedding model with every question
    graph = _module("graph_tool_call").ToolGraph()
    named: dict[str, str] = {}
    servers: dict[str, list[dict[str, Any]]] = {}
    for tool in tools:
        name = f"{tool.server}__{tool.name}" if tool.name in named else tool.name
        while name in named:
            name += "_2"
        named[name] = tool.id
        parameters = tool.input_schema or _NO_PARAMETERS
        row = {"name": name, "description": tool.description or "", "inputSchema": parameters}
        servers.setdefault(tool.server, []).append(row)
    for server, rows in servers.items():
        graph.ingest_mcp_tools(rows, server_name=server, detect_dependencies=False)
    graph.relink()
    return lambda text: [named[found.name] for found in graph.retrieve(text, top_k=DEPTH)]


def stackone_local(tools: Sequence[Tool]) -> Find:
    """The BM25 + TF-IDF index of ``stackone_ai.local_search``."""
    models, search = _module("stackone_ai.models"), _module("stackone_ai.local_search")
    named = _named(tools)
    wrapped = [
        models.StackOneTool(
            description=tool.description or "",
            parameters=models.ToolParameters(
                type="object", properties=(tool.input_schema or {}).get("properties") or {}
            ),
            _execute_config=models.ExecuteConfig(method="POST", url="", name=name),
            _api_key="",
        )
        for name, tool in named.items()
    ]
    index = search.ToolIndex(wrapped)
    return lambda text: [named[found.name].id for found in index.search(text, limit=DEPTH)]


@functools.cache
def _encoder() -> Any:
    """Our encoder, loaded once."""
    return _module("toolscript.embedding.loader").load_model("bundled", "bundled", 1).encoder


def langgraph_bigtool(tools: Sequence[Tool]) -> Find:
    """The default retrieval tool over an ``InMemoryStore``, as in its README, with our encoder."""
    encoder = _encoder()

    def embed(texts: list[str]) -> list[list[float]]:
        return encoder.documents(texts).tolist()

    store = _module("langgraph.store.memory").InMemoryStore(
        index={"embed": embed, "dims": encoder.dim, "fields": ["description"]}
    )
    named = _named(tools)
    for name, tool in named.items():
        store.put(("tools",), tool.id, {"description": f"{name}: {tool.description or ''}"})
    retrieve, _ = _module("langgraph_bigtool.tools").get_default_retrieval_tool(
        ("tools",), limit=DEPTH
    )
    return lambda text: retrieve(text, store=store)


def bm25s(tools: Sequence[Tool]) -> Find:
    """Plain BM25 over server, name and description: Porter stems, English stop words left out."""
    package = _module("bm25s")
    stop = set(_module("bm25s.stopwords").STOPWORDS_EN)
    stem = _module("Stemmer").Stemmer("porter").stemWords

    def tokens(text: str) -> list[str]:
        found = _WORD.findall(_CAMEL.sub(" ", text).casefold())
        return stem([word for word in found if word not in stop])

    index = package.BM25()
    texts = [f"{tool.server} {tool.name} {tool.description or ''}" for tool in tools]
    index.index([tokens(text) for text in texts], show_progress=False)

    def find(text: str) -> list[str]:
        k = min(DEPTH, len(tools))
        rows, scores = index.retrieve([tokens(text)], k=k, show_progress=False)
        found = zip(rows[0].tolist(), scores[0].tolist(), strict=True)
        return [tools[int(row)].id for row, score in found if score > 0]

    return find


PEERS: dict[str, tuple[str, Build]] = {
    "fastmcp-bm25": ("fastmcp", fastmcp_bm25),
    "graph-tool-call": ("graph-tool-call", graph_tool_call),
    "stackone-local": ("stackone-ai", stackone_local),
    "langgraph-bigtool": ("langgraph-bigtool", langgraph_bigtool),
    "bm25s": ("bm25s", bm25s),
}
"""Engine → the package it comes from, and how it is built."""
