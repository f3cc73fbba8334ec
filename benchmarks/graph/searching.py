"""What searching gains: with a context, with what tools need, with what they were found by.

- *next-tool-asked*: as *next-tool*, for items with a question: the search alone; the search and
  counting, put together with the weight that does best here; the search with the forecast; and the
  search with relatedness, as the seed's ``search_tools`` has it.
- *multi-tool*: questions that want several tools. *graph* searches again with
  the first hit as context, and keeps that first.
- *needs*: mAP@10 over a tool and all that it needs (``dependencies``), when what each hit needs is
  read right after it.
- *usage*: nDCG@10 on test questions, before and after the train questions were
  learned from. *usage-half*: only half of the tools, drawn, have a history, and
  the questions are those of the other half.
- *mixed*: `SESSIONS` sessions that the graph learns from as a gateway does. Each calls the right
  tools of 3 to 6 questions, each of another server, then asks one more question. *fell* is the
  share of them of which the right tool has a worse rank than without the context. With a
  history, *+ habits*: the graph has learned it before.
"""

import random
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.graph.data import GRAPH, Item, drawn, load
from benchmarks.graph.next_tool import DEPTH, Place, counting, learn_history, place
from benchmarks.graph.results import Figures, Result
from benchmarks.quality import datasets
from benchmarks.quality.datasets import SEED, Query
from benchmarks.quality.own import encoder
from toolscript.config.settings import MAX_QUERY_CHARS, OPTION
from toolscript.graph.learning import Learning
from toolscript.graph.session_history import SessionHistory
from toolscript.retrieval import quality_metrics as metrics
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.lexical.bm25f import LexicalSignal
from toolscript.retrieval.profiles import search_profile
from toolscript.types import SearchRequest

COUNTED = 0.3
"""Of 0.3, 0.5 and 0.7 the weight of counting beside the search that does best on average."""
MOST_TRAIN, MOST_TEST, MOST_SEVERAL = 3000, 1000, 500
SESSIONS, FEWEST_CALLS, MOST_CALLS = 40, 3, 6
FEWEST_QUESTIONS = 100
"""From fewer questions sessions would be drawn that repeat each other: habits."""
ASKED, NOVEL = "next-tool-asked", "next-tool-asked-novel"
COMPARED = [
    *(
        (task, "mrr", "search + graph", other)
        for task in (ASKED, NOVEL)
        for other in ("search", "search + counting")
    ),
    ("multi-tool", "recall10", "graph", "search"),
    ("needs", "map10", "with needs", "search"),
    ("usage", "ndcg10", "learned", "search"),
    ("usage-half", "ndcg10", "learned", "search"),
]


def asked(folder: Path, sample: int | None) -> list[Result]:
    """*next-tool-asked*."""
    where = place(load(folder))
    items = drawn([item for item in where.used.items if item.asked], sample)
    if not items:
        return []
    engine, counts = _taught(where), counting(where)

    def counted(item: Item) -> list[str]:
        own = _scores(engine, item.asked, where)
        seen = counts(item)
        both = (1 - COUNTED) * own + COUNTED * seen / max(float(seen.max()), 1e-9)
        order = np.argsort(-both, kind="stable")[: DEPTH + len(item.context)]
        return [where.corpus.documents[int(row)].id for row in order]

    def with_graph(item: Item, **more: object) -> list[str]:
        return _ids(engine, item.asked, DEPTH + len(item.context), context=item.context, **more)

    answers = {
        "search": [_ids(engine, item.asked, DEPTH + len(item.context)) for item in items],
        "search + counting": [counted(item) for item in items],
        "search + graph": [with_graph(item) for item in items],
        "search + relatedness": [with_graph(item, by_relatedness=True) for item in items],
    }
    results: list[Result] = []
    for name, found in answers.items():
        figures = [_next(ids, item) for ids, item in zip(found, items, strict=True)]
        novel = [each for each, item in zip(figures, items, strict=True) if not item.seen_chain]
        results.append(Result(folder.name, ASKED, name, tuple(figures)))
        if novel:
            results.append(Result(folder.name, NOVEL, name, tuple(novel)))
    return results


def several(folder: Path, sample: int | None) -> list[Result]:
    """*multi-tool*."""
    where = place(load(folder))
    every = [q for q in datasets.queries(folder) if len(set(q.relevant)) > 1 and q.split != "train"]
    queries = drawn(every, sample or MOST_SEVERAL)
    if not queries or not where.used.history.sequences:
        return []
    engine = _taught(where)
    found: dict[str, list[Figures]] = {"search": [], "graph": []}
    for query in queries:
        first = _ids(engine, query.query, DEPTH)
        then = _ids(engine, query.query, DEPTH + 1, context=tuple(first[:1]))
        around = [*first[:1], *(each for each in then if each not in first[:1])][:DEPTH]
        for name, ids in (("search", first), ("graph", around)):
            figures = metrics.score(ids, query.relevant)
            found[name].append({"recall10": figures["r10"], "all10": figures["all10"]})
    return [Result(folder.name, "multi-tool", name, tuple(rows)) for name, rows in found.items()]


def needs(folder: Path, sample: int | None) -> list[Result]:
    """*needs*."""
    where = place(load(folder))
    pairs = [(row[0], row[1]) for row in where.used.history.dependencies]
    if not pairs:
        return []
    learning = Learning()
    learning.graph.add_dependencies(pairs)
    engine = _engine(where, learning)
    found: dict[str, list[Figures]] = {"search": [], "with needs": []}
    for query in datasets.load(folder, sample).queries:
        hits = engine.search(SearchRequest(text=query.query[:MAX_QUERY_CHARS], limit=DEPTH)).hits
        related = {hit.document.id: hit.related.needs if hit.related else () for hit in hits}
        read = dict.fromkeys(
            each for tool, needs in related.items() for each in (tool, *(n.tool for n in needs))
        )
        for name, ids in (("search", [*related]), ("with needs", [*read])):
            found[name].append({"map10": precision(ids, query.relevant)})
    return [Result(folder.name, "needs", name, tuple(rows)) for name, rows in found.items()]


def usage(folder: Path, sample: int | None) -> list[Result]:
    """*usage* and *usage-half*."""
    where = place(load(folder, tools_only=True))
    every = datasets.queries(folder)
    train = drawn([query for query in every if query.split == "train"], MOST_TRAIN)
    test = drawn([query for query in every if query.split == "test"], sample or MOST_TEST)
    if not train or not test:
        return []
    tools = sorted({tool for query in train for tool in query.relevant})
    half = set(random.Random(SEED).sample(tools, len(tools) // 2))  # noqa: S311 - the same draw every time
    others = [query for query in test if not half & set(query.relevant)]
    return [
        Result(folder.name, task, name, tuple(_gains(where, queries, train, known)))
        for task, queries, history in (("usage", test, set(tools)), ("usage-half", others, half))
        for name, known in (("search", set[str]()), ("learned", history))
    ]


def mixed(folder: Path, sample: int | None) -> list[Result]:
    """*mixed*."""
    has_history = (folder / GRAPH).is_file()
    where = place(load(folder, tools_only=not has_history))
    sessions = list(_mixed_sessions(where, datasets.queries(folder)))[: sample or SESSIONS]
    if not sessions:
        return []
    habits = [True] if where.used.history.sequences else []
    results: list[Result] = []
    for taught in (False, *habits):
        learning = Learning()
        engine = _taught(where, learning) if taught else _engine(where, learning)
        names = "search", "context", "relatedness"
        figures: dict[str, list[Figures]] = {name: [] for name in names}
        for calls, query in sessions:
            history = SessionHistory()
            for tool in calls:
                learning.record_call(history, tool, succeeded=True)
            learning.flush()
            context = history.telling_context
            alone = _rank(engine, query)
            expected = _rank(engine, query, context=context)
            related = _rank(engine, query, context=context, by_relatedness=True)
            for name, rank in zip(names, (alone, expected, related), strict=True):
                fell = float((rank or np.inf) > (alone or np.inf))
                figures[name].append({"mrr": 1 / rank if rank else 0.0, "fell": fell})
        learning.close()
        end = " + habits" * taught
        results += [
            Result(folder.name, "mixed", name + end, tuple(figures[name])) for name in names
        ]
    return results


def _mixed_sessions(where: Place, queries: Sequence[Query]) -> Iterator[tuple[list[str], Query]]:
    """Yields the calls of each session, and the question that it asks after them."""
    order = random.Random(SEED)  # noqa: S311 - the same draw every time
    servers = {document.id: document.server for document in where.corpus.documents}
    single = [q for q in queries if len(set(q.relevant)) == 1 and q.relevant[0] in servers]
    for _ in range(SESSIONS if len(single) >= FEWEST_QUESTIONS else 0):
        by_server = {servers[q.relevant[0]]: q for q in order.sample(single, len(single))}
        if len(by_server) <= MOST_CALLS:
            return
        *before, last = list(by_server.values())[: 1 + order.randint(FEWEST_CALLS, MOST_CALLS)]
        yield [query.relevant[0] for query in before], last


def _rank(engine: SearchEngine, query: Query, **more: object) -> int:
    """Returns the rank of the right tool among the best 100; 0 for none."""
    ids = _ids(engine, query.query, 100, **more)
    return next((at for at, each in enumerate(ids, 1) if each in query.relevant), 0)


def precision(ids: Sequence[str], relevant: Collection[str]) -> float:
    """Average precision at 10: the mean of precision at each relevant tool's rank."""
    wanted, found, total = set(relevant), 0, 0.0
    for rank, identifier in enumerate(ids[:DEPTH], 1):
        if identifier in wanted:
            found += 1
            total += found / rank
    return total / min(DEPTH, len(wanted))


def _gains(
    where: Place, test: Sequence[Query], train: Sequence[Query], history: Collection[str]
) -> list[Figures]:
    """nDCG@10 on test questions, when train questions have led to the tools of ``history``."""
    learning, model = Learning(), encoder()
    for query in train if history else ():
        vector = model.query(query.query[:MAX_QUERY_CHARS])
        for tool in set(query.relevant) & set(history):
            learning.usage.learn(tool, model.name, vector)
    engine = _engine(where, learning)
    return [
        {"ndcg10": metrics.score(_ids(engine, q.query, DEPTH), q.relevant)["ndcg10"]} for q in test
    ]


def _engine(where: Place, learning: Learning) -> SearchEngine:
    """The whole engine, as the application wires it, with nothing kept back by a threshold."""
    profile = search_profile(OPTION["alpha"].default, DEPTH, 0.0)
    engine = SearchEngine(profile, LexicalSignal(), where.signal(learning.usage), learning)
    engine.update(where.corpus.documents)
    return engine


def _taught(where: Place, learning: Learning | None = None) -> SearchEngine:
    """The engine with the history learned."""
    learning = learning or Learning()
    engine = _engine(where, learning)
    learn_history(learning, where)
    return engine


def _ids(engine: SearchEngine, text: str, limit: int, **more: object) -> list[str]:
    request = SearchRequest(text=text[:MAX_QUERY_CHARS], limit=limit, **more)  # pyright: ignore[reportArgumentType] - any field
    return [hit.document.id for hit in engine.search(request).hits]


def _scores(engine: SearchEngine, text: str, where: Place) -> np.ndarray:
    found = np.zeros(len(where.corpus))
    for hit in engine.search(SearchRequest(text=text[:MAX_QUERY_CHARS], limit=100)).hits:
        found[where.corpus.rows[hit.document.id]] = hit.score
    return found


def _next(ids: Sequence[str], item: Item) -> Figures:
    ranked = [each for each in ids if each not in item.context][:DEPTH]
    rank = next((at for at, each in enumerate(ranked, 1) if each in item.relevant), 0)
    return {
        "hit1": float(rank == 1),
        "hit5": float(0 < rank <= 5),
        "mrr": 1 / rank if rank else 0.0,
    }
