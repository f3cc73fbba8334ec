"""What toolscript must do: every requirement, and where one is open, why.

The tests that prove a requirement carry it: ``@pytest.mark.requirement("search:rank")``.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement: what it asks for, and why it is open if it is."""

    text: str
    open: str = ""


REQUIREMENTS: dict[str, Requirement] = {
    "search:rank": Requirement(
        "A sentence returns tools by confidence, each with a reason; the order is total."
    ),
    "search:typo": Requirement(
        "Misspelled names find their tool, with a confidence that reflects the distance."
    ),
    "search:exact": Requirement(
        "A tool's name, qualified id or words return that tool first, whatever the weights."
    ),
    "search:intent": Requirement(
        "With only a shell, what a shell can do returns the shell, boosted, with the reason."
    ),
    "search:fusion": Requirement(
        "Score = alpha * semantic + (1 - alpha) * fuzzy, renormalised over what answered."
    ),
    "search:calibrated": Requirement("A threshold means the same for every model."),
    "search:reason": Requirement("The reason names the signal that contributed most."),
    "search:threshold": Requirement(
        "Results below the threshold are left out, one at the threshold stays."
    ),
    "search:limit": Requirement("At most limit results, three by default."),
    "search:none": Requirement(
        "Where nothing is found, advice and the nearest that fell below the threshold."
    ),
    "search:filter": Requirement("--server restricts the search."),
    "search:timeout": Requirement("A search ends within 10 s, with a clear error."),
    "search:degraded": Requirement("With no model the search answers from words, and says so."),
    "search:limits": Requirement(
        "Query length, limit and batch size are bounded; the refusal names value and range."
    ),
    "search:stats": Requirement("What is indexed, by what, and how much of it was cached."),
    "model:default": Requirement(
        "The default model is bundled; the seed's comes from the hub, once, with progress.",
        open="the real hub was out of reach: bge-small itself, and its 5 s, are not measured",
    ),
    "model:bundled": Requirement(
        "The package carries a model; it answers where the one asked for cannot."
    ),
    "model:select": Requirement(
        "A model is chosen by repository, folder or address; an incompatible one is refused."
    ),
    "model:table": Requirement("Dimensions, pooling, prefix, licence and source per model."),
    "model:prefix": Requirement("Questions get the model's prefix, tool texts never."),
    "model:device": Requirement(
        "auto, cpu or gpu, checked and shown.",
        open="no GPU was at hand: no accelerator has been run",
    ),
    "model:lazy": Requirement(
        "The model loads when first needed; embedding is batched, questions are remembered."
    ),
    "cache:place": Requirement("The cache lives in the data directory, which can be moved."),
    "cache:name": Requirement("One file per set of servers, named by its hash."),
    "cache:shape": Requirement("Version, model, hash, embeddings and a checksum."),
    "cache:validity": Requirement(
        "What does not fit is rebuilt, what changed is embedded again, what is gone is pruned."
    ),
    "pins:held": Requirement(
        "A changed tool is held, marked or trusted; one whose change adds no words is not held."
    ),
    "cache:incremental": Requirement("Another set of servers is another file."),
    "cache:off": Requirement("The cache can be switched off."),
    "cache:safe": Requirement("Two processes, a full disk or a kill lose nothing that was there."),
    "config:file": Requirement(
        "mcpServers as every client writes it; a mistake costs one server and is explained."
    ),
    "setup:move": Requirement(
        "One command moves the servers of every client, keeps all else, and takes itself back."
    ),
    "setup:safe": Requirement(
        "No kill, link or change by another program loses a file; nothing is written unasked."
    ),
    "config:switches": Requirement(
        "Servers are added, removed, turned off and on by commands, at once and at every door."
    ),
    "config:profiles": Requirement(
        "A profile has an address, and says what is found at every door; it widens no token."
    ),
    "upstream:transports": Requirement("stdio, streamable HTTP, SSE; OAuth for remote servers."),
    "upstream:isolation": Requirement(
        "What one server does reaches no other; no process outlives the gateway."
    ),
    "upstream:live": Requirement(
        "Changes of servers and configuration reach catalogue and index within a second."
    ),
    "upstream:lazy": Requirement(
        "A server whose tools are known starts when something is asked of it."
    ),
    "upstream:idle": Requirement(
        "A server without requests is stopped, never in the middle of one; its tools stay."
    ),
    "upstream:instances": Requirement(
        "A server that names the project, or is not shared, has instances that do not mix."
    ),
    "upstream:limits": Requirement(
        "Processes and requests at a time are bounded, and sessions take turns."
    ),
    "upstream:resources": Requirement(
        "Memory and processor time of each server's processes are told to whoever may see all."
    ),
    "mcp:missing": Requirement(
        "A search names the servers that it could not search, with the reason."
    ),
    "bridge:shared": Requirement(
        "Sessions of toolscript mcp share one gateway, which is started on demand."
    ),
    "bridge:light": Requirement(
        "The bridge needs neither the model nor the SDK, and little memory."
    ),
    "bridge:faithful": Requirement("The bridge carries every message both ways as it is."),
    "bridge:survives": Requirement(
        "A session goes on when its gateway dies; no call is made twice, none lost silently."
    ),
    "bridge:idle": Requirement(
        "A gateway that was started on demand ends when no client has been there for a while."
    ),
    "catalogue:progressive": Requirement("Tools are searchable as their server connects."),
    "catalogue:snapshot": Requirement(
        "The last known catalogue answers before anything is connected."
    ),
    "catalogue:ids": Requirement(
        "server__tool inside; exposed names short, stable and collision-free."
    ),
    "cli:search": Requirement("toolscript search: a table, types or JSON; plain in a pipe."),
    "cli:per-call": Requirement("--model and --data-dir hold for the call."),
    "cli:types": Requirement("Search results as a typed client."),
    "cli:others": Requirement("gateway, list-servers, list-tools, get-types, call, auth."),
    "http:search": Requirement("GET /search."),
    "http:types": Requirement("GET /runtime/tools.ts."),
    "http:others": Requirement(
        "/health, /servers, /tools, /search/stats, /metrics, calling tools, OpenAPI."
    ),
    "http:oauth": Requirement(
        "MCP clients log in by OAuth with the owner's consent, and get a token like any other."
    ),
    "http:oidc": Requirement(
        "A company's OpenID provider logs people in, whose groups say what they may let in."
    ),
    "http:tls": Requirement(
        "A gateway with a certificate speaks HTTPS, to its owner's commands and the bridge, too."
    ),
    "mcp:search_tools": Requirement("The MCP tool search_tools."),
    "mcp:tool_search": Requirement("The MCP tool tool_search, in two phases."),
    "mcp:transports": Requirement("Streamable HTTP and stdio, for any MCP client."),
    "agent:two-phase": Requirement("The executor over a chat endpoint."),
    "types:typescript": Requirement("A TypeScript module for any set of tools."),
    "types:python": Requirement("The same in Python."),
    "graph:methods": Requirement("Edges, neighbours, Adamic-Adar, relatedness, templates."),
    "graph:alpha": Requirement("The weight follows the number of edges."),
    "graph:context": Requirement("Without context the graph is silent."),
    "graph:learning": Requirement("Executions teach the graph, and never hurt."),
    "skills:update": Requirement(
        "Vector.VectorUpdate: reads below the sandbox only, embeds, stores, replaces."
    ),
    "skills:search": Requirement(
        "Vector.SearchSkills: raw cosine of at least 0.5, a JSON string, the message of a failure."
    ),
    "skills:folders": Requirement(
        "Agent Skills found, watched and searched, also beside tools; their index is kept."
    ),
    "skills:extension": Requirement(
        "The skills of your folders, served by MCP's extension for skills."
    ),
    "deploy:image": Requirement(
        "An image that runs as a user without rights, of the packages that are tested."
    ),
    "deploy:compose": Requirement(
        "A balancer sends requests to gateways that are ready, and repeats no call."
    ),
    "deploy:chart": Requirement("A chart whose manifests are valid, and hold what the values say."),
}


@cache
def proofs() -> dict[str, tuple[str, ...]]:
    """The node ids of the tests that carry each requirement, known or not."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        file = path.relative_to(TESTS.parent).as_posix()
        for names, node in functions_in(ast.parse(path.read_text("utf-8"))):
            for identifier in _carried(node):
                found.setdefault(identifier, []).append("::".join((file, *names)))
    return {identifier: tuple(nodes) for identifier, nodes in found.items()}


def functions_in(
    node: ast.Module | ast.ClassDef,
) -> Iterator[tuple[tuple[str, ...], ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function of a module with its name, after those of the classes around it."""
    for each in node.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (each.name,), each
        elif isinstance(each, ast.ClassDef):
            yield from (((each.name, *names), inner) for names, inner in functions_in(each))


def _carried(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith(
            "mark.requirement"
        ):
            yield from (str(ast.literal_eval(argument)) for argument in decorator.args)
