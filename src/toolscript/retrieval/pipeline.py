"""The steps of a search in the order in which they change a score.

    fused    = weighted mean of the signals                       (see `fusion`)
    trusted  = the mean with the weights that the question speaks for
    known    = known-word ratio · trusted
    boosted  = known + `NAME_BOOST` · match · fuzzy · coverage² · (1 − known)
    blended  = max((1 − `SUBQUERY_WEIGHT`) · boosted + `SUBQUERY_WEIGHT` · subquery,
                   `SUBQUERY_FLOOR` · subquery)
    read     = max(blended, `READING_WEIGHT` · reading)           (see `everyday_phrases`)
    score    = read, raised for a named server and a shell, lowered for a tool that names its
               successor (see `deprecated_tools`), at least a name's similarity, lowered for a
               server that imitates others (see `copies`)
    reranked = score and what goes with the tools used before     (see `rerank`)

The ratio is below 1 only if most of the question's words mean nothing to any
signal; the coverage is the share of a document's name that the question says. The
match is the lexical score if there is a semantic one beside it, and 1 without.
To add evidence, write a function like these and put it into `STEPS`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from toolscript.config.settings import MAX_QUERY_CHARS, OPTION
from toolscript.embedding.base import Vectors
from toolscript.errors import QueryError
from toolscript.retrieval.abbreviations import expand_abbreviations
from toolscript.retrieval.base import Mask, Plan, Query, Ranking
from toolscript.retrieval.copies import lower_imitations
from toolscript.retrieval.deprecated_tools import prefer_successors
from toolscript.retrieval.everyday_phrases import read_expressions
from toolscript.retrieval.fusion import DECIMALS, fuse, round_scores
from toolscript.retrieval.lexical.name_matching import NameMatch, parse_selection
from toolscript.retrieval.profiles import SearchProfile, with_alpha
from toolscript.retrieval.rerank import expect_next, relate_to_context
from toolscript.retrieval.semantic.calibration import GOOD
from toolscript.retrieval.subqueries import split
from toolscript.retrieval.trace import Column, Evidence, IndexState, Trace
from toolscript.text.display import printable
from toolscript.text.words import words
from toolscript.tracing import span
from toolscript.types import SearchRequest

WORD_MATCH_EVEN = 0.85
"""The lexical score of the best document at which α stays as it is."""
WORD_MATCH_SLOPE = 6.0
"""How fast the odds of the meaning fall as that score rises. Both were learned: see ADR 4."""
STRAIGHT_GOOD = 0.5
"""The score of a good cosine, `GOOD`, on a straight line from that of unrelated texts to 1."""
MIN_KNOWN_WORDS = 0.5
"""The share of a question's words that have to mean something."""
NAMED_SERVER, NAMED_SERVER_SPREAD = 0.4, 0.2
"""The score of a tool if only its server is known, and how much its meaning adds at most."""
NAME_BOOST = 0.65
"""How far towards 1 a perfect lexical match that covers the whole name moves a score."""
SUBQUERY_WEIGHT = 0.4
"""The share of the subqueries in the score of a question that has several."""
SUBQUERY_FLOOR = 0.8
"""The least share of a subquery's score that a document gets, whatever the whole question gives."""

READING_WEIGHT = 0.8
"""The share of the score of an expression's reading that a document gets at least."""
CLEAR_READING = 0.6
"""A reading counts if some document scores as much: there is a tool for just that."""
CLEAR_QUESTION = 0.5
"""From this score of a question's own best document on, no reading brings another one before it."""


def plan(request: SearchRequest, profile: SearchProfile, known: IndexState) -> Plan:
    """Returns the plan of a search.

    Args:
        request: The question, and the values that its caller prefers to the profile's.
        profile: The values that the request does not state.
        known: Says with which words a wish begins, and which words some document has.

    Raises:
        QueryError: The query is empty or too long.
        RangeError: The limit, the threshold or α is outside its range.
    """
    if request.alpha is not None:
        profile = with_alpha(profile, OPTION["alpha"].parse(request.alpha, "alpha"))
    if request.steps is not None:
        profile = replace(profile, steps=OPTION["steps"].parse(request.steps, "steps"))
    query = parse(request.text, known, subqueries=profile.subqueries)
    query = replace(query, holder=request.grant.holder)
    limit = profile.limit if request.limit is None else request.limit
    if limit is not None:
        limit = max(OPTION["limit"].parse(limit, "limit"), len(parse_selection(query.original)))
    threshold = profile.threshold if request.threshold is None else request.threshold
    return Plan(
        request,
        profile,
        (query, *(Query(t, holder=query.holder) for t in query.subqueries + query.meanings)),
        limit,
        float(OPTION["threshold"].parse(float(threshold), "threshold")),
    )


def begin(state: IndexState, plan: Plan) -> Trace:
    """Returns a trace that has each signal's ranking, and no column yet."""
    profile = plan.profile
    if plan.request.words_only:
        state = replace(state, semantic=None)
    visible = state.visibility.mask(plan.request)
    return Trace(
        state,
        plan.request,
        profile.weights,
        profile.word_match,
        max(1, len(state.corpus)) if plan.limit is None else plan.limit,
        plan.threshold,
        state.visibility.reachable(plan.request),
        plan.queries,
        rank(state, plan, visible),
        visible,
    )


def parse(text: str, known: IndexState, *, subqueries: bool) -> Query:
    """The question in words that documents have, perhaps with its subqueries."""
    # An argument of the command line may hold what is no Unicode text.
    text = text.encode(errors="replace").decode().strip()
    if not text:
        raise QueryError("the query is empty; say what the tool should do")
    if len(text) > MAX_QUERY_CHARS:
        raise QueryError(
            f"the query {printable(text, 40)!r} has {len(text)} characters; "
            f"at most {MAX_QUERY_CHARS} are searched, so shorten it"
        )
    meant, readings = expand_abbreviations(text, known.knows)
    is_action = known.is_action if subqueries else None
    parts = tuple(split(meant, is_action)) if is_action else ()
    meanings = read_expressions(meant) if subqueries else ()
    return Query(meant, parts, written=text, readings=(*readings.items(),), meanings=meanings)


def rank(state: IndexState, plan: Plan, visible: Mask | None) -> tuple[dict[str, Ranking], ...]:
    """Returns the rankings of the ``visible`` documents by signal, for each query of a plan."""
    semantic, question = state.semantic, plan.queries[0]
    rankings: tuple[dict[str, Ranking], ...] = tuple({} for _ in plan.queries)
    if semantic:
        with span("candidates.vectors"):
            if plan.profile.raw_cosine:
                by_query = (semantic.cosines(question),)
            else:
                by_query = semantic.rank_all(plan.queries, visible)
        for ranking, scores in zip(rankings, by_query, strict=True):
            ranking["semantic"] = scores
    if not plan.profile.raw_cosine:
        with span("candidates.words"):
            for ranking, query in zip(rankings, plan.queries, strict=True):
                ranking["fuzzy"] = state.lexical.rank(query, visible)
    return rankings


def fuse_signals(trace: Trace) -> Column:
    """The weighted mean of the signals that answered."""
    readings = trace.query.readings
    read_as = ", ".join(f"{printable(short, 40)} read as {meant}" for short, meant in readings)
    step = "reading" if read_as else ""

    def evidence(row: int) -> Evidence:
        scores = {name: float(each.scores[row]) for name, each in trace.rankings[0].items()}
        signals = {name: score for name, score in scores.items() if not np.isnan(score)}
        return Evidence(step, read_as, phrase=trace.signal_phrase(0, row), signals=signals)

    return Column(np.stack([fuse(each, trace.weights) for each in trace.rankings]), evidence)


def weigh_by_word_match(trace: Trace) -> Column | None:
    """Move each score towards the words if they match well, else towards the meaning.

    The semantic weight β has odds(β) = odds(α) · exp(`WORD_MATCH_SLOPE` · (`WORD_MATCH_EVEN` − b))
    with b the lexical score of the best document. The semantic scores are taken back to a
    straight line first: otherwise the words would gain as much as calibration takes from the upper
    ones. If α is 0 or 1, the mean stays as it is. The scores are scaled so that the best one keeps
    its value: the order changes, and the threshold keeps its meaning.
    """
    weights, rankings = trace.weights, trace.rankings
    if not trace.word_match or not rankings[0].keys() >= weights.keys():
        return None
    alpha = weights["semantic"]
    if np.isnan(rankings[0]["semantic"].scores).all():
        return None
    best = [float(each["fuzzy"].scores.max(initial=0.0)) for each in rankings]
    factors = [math.exp(WORD_MATCH_SLOPE * (WORD_MATCH_EVEN - score)) for score in best]
    betas = [alpha * factor / (alpha * factor + 1 - alpha) for factor in factors]
    trace.weighed = tuple({"semantic": beta, "fuzzy": 1 - beta} for beta in betas)
    pairs = zip(rankings, trace.weighed, strict=True)
    mixed = 0 < alpha < 1
    scores = np.stack(
        [fuse(_straighten(each) if mixed else each, weights) for each, weights in pairs]
    )
    match = "well" if betas[0] < alpha else "little"
    text = f"the best words match {match} ({best[0]:.2f}), so meaning weighs {betas[0]:.2f}"
    evidence = Evidence("word match", text)
    before = trace.columns[-1].scores.max(axis=1, keepdims=True, initial=0.0)
    scale = before / np.maximum(scores.max(axis=1, keepdims=True, initial=0.0), 1e-6)
    return Column((scores * scale).astype(np.float32), lambda _: evidence)


def _straighten(rankings: Mapping[str, Ranking]) -> dict[str, Ranking]:
    """The rankings with the semantic scores as a straight line makes them of cosines."""
    scores = rankings["semantic"].scores.astype(np.float64)
    # The line through (0, 0), (GOOD, STRAIGHT_GOOD), (1, 1) bends upwards.
    above = STRAIGHT_GOOD + (scores - GOOD) * ((1 - STRAIGHT_GOOD) / (1 - GOOD))
    straight = np.maximum(scores * (STRAIGHT_GOOD / GOOD), above).astype(np.float32)
    return {**rankings, "semantic": Ranking(straight)}


def scale_by_known_words(trace: Trace) -> Column | None:
    """Scale down a question most of whose words mean nothing: any text is near to some other."""
    ratios = [ratio_of_known_words(trace.state, query) for query in trace.queries]
    if min(ratios) >= 1:
        return None
    evidence = Evidence("sense", "most of the query's words mean nothing here")
    scores = trace.columns[-1].scores * np.array(ratios, dtype=np.float32)[:, None]
    return Column(scores, lambda _: evidence if ratios[0] < 1 else None)


def ratio_of_known_words(state: IndexState, query: Query) -> float:
    """Returns 1 if at least half of the query's words mean anything to a signal, 0 if none does."""
    indexes = [state.lexical, *([state.semantic] if state.semantic else [])]
    content_words = query.content_words
    known = sum(any(index.understands(word) for index in indexes) for word in content_words)
    return min(1.0, known / max(1, len(content_words)) / MIN_KNOWN_WORDS)


def boost_names(trace: Trace) -> Column:
    """Raise the documents whose names the question says."""
    scores = trace.columns[-1].scores
    coverage = np.stack([trace.state.lexical.name_coverage(query) for query in trace.queries])
    lexical = np.stack([rankings["fuzzy"].scores for rankings in trace.rankings])
    # Where there is a meaning to go by, names count only as far as the words match.
    match = lexical if trace.weighed else np.ones_like(lexical)
    boost: Vectors = (NAME_BOOST * match * lexical * coverage**2 * (1 - scores)).astype(np.float32)
    trace.name_boost = boost

    def evidence(row: int) -> Evidence | None:
        text = f"the query says {coverage[0, row]:.0%} of its name"
        return Evidence("name boost", text) if boost[0, row] > 0 else None

    return Column(scores + boost, evidence)


def blend_subqueries(trace: Trace) -> Column | None:
    """Mix in, for each document, the subquery that is most about it.

    A subquery gives a document its score times the cube of the score's share of
    the subquery's best: so each one lifts its own best document, and little else.
    """
    subqueries = len(trace.query.subqueries)
    if not subqueries:
        return None
    (whole, *scores), meanings = np.split(trace.columns[-1].scores, [1 + subqueries])
    scores = np.stack(scores)
    best = np.maximum(scores.max(axis=1, keepdims=True, initial=0.0), 1e-6)
    given = scores * (scores / best) ** 3
    best_subquery, given_best = 1 + given.argmax(axis=0), given.max(axis=0)
    mixed = (1 - SUBQUERY_WEIGHT) * whole + SUBQUERY_WEIGHT * given_best
    blended = np.maximum(mixed, SUBQUERY_FLOOR * given_best).astype(np.float32)

    def evidence(row: int) -> Evidence:
        number = int(best_subquery[row])
        score = scores[number - 1, row]
        text = f"“{printable(trace.queries[number].text, 80)}” scores {score:.2f}"
        phrase = trace.signal_phrase(number, row) if score > whole[row] else ""
        return Evidence("part", text, phrase)

    return Column(np.concatenate([blended[None], meanings]), evidence)


def raise_readings(trace: Trace) -> Column | None:
    """Raise the documents that are most about the wish behind an everyday expression.

    A reading counts only if some document is clearly about it; it lifts that one, and little else.
    """
    whole, meanings = trace.scores, trace.columns[-1].scores[1:]
    best = meanings.max(axis=1, keepdims=True, initial=0.0)
    clear = best[:, 0] >= CLEAR_READING
    if not clear.any():
        return Column(whole[None], lambda _: None) if len(meanings) else None
    given = READING_WEIGHT * meanings[clear] * (meanings[clear] / best[clear]) ** 3
    own_best = float(whole.max(initial=0.0))
    if own_best >= CLEAR_QUESTION:
        given = np.minimum(given, own_best - 10.0**-DECIMALS)
    raised = np.maximum(whole, given.max(axis=0)).astype(np.float32)
    number = np.flatnonzero(clear)[given.argmax(axis=0)]

    def evidence(row: int) -> Evidence | None:
        text = f"the question is read as “{trace.query.meanings[number[row]]}”"
        return Evidence("expression", text) if raised[row] > whole[row] else None

    return Column(raised[None], evidence)


def raise_named_server(trace: Trace) -> Column | None:
    """Raise a server's tools if its name is all that the words of a question say.

    So a question in a language that neither the tools nor the model speak finds them: by meaning,
    and below those that match in earnest.
    """
    asked, documents, scores = trace.query.content_words, trace.state.corpus.documents, trace.scores
    known = set(filter(trace.state.lexical.knows, asked))
    if not known or len(known) > MIN_KNOWN_WORDS * len(asked):
        return None
    rows = np.flatnonzero(trace.rankings[0]["fuzzy"].scores > 0).tolist()
    servers = {server: known & {*words(server)} for server in {documents[r].server for r in rows}}
    named = [row for row in rows if servers[documents[row].server]]
    if known.difference(*servers.values()) or 2 * len(named) < len(rows):
        return None
    raised = scores.copy()
    meaning = fuse(trace.rankings[0], {"semantic": 1.0})[named]
    raised[named] = np.maximum(scores[named], NAMED_SERVER + NAMED_SERVER_SPREAD * meaning)
    text = "the name of its server is all that is known of the question"
    evidence = Evidence("server", text, "Name of its server")
    return Column(raised[None], lambda row: evidence if raised[row] > scores[row] else None)


def infer_shell(trace: Trace) -> Column | None:
    """Raise the tools that run commands, if only a command line can answer the question."""
    scores = trace.scores
    inferred = trace.state.capabilities.infer_shell(trace.query, scores, trace.reachable)
    if inferred is None:
        return None
    capability, raised = inferred
    text = f"a shell can do {capability.name}, and nothing else here does"
    phrase = f"Capability inference (shell → {capability.short})"
    evidence = Evidence("capability", text, phrase)
    return Column(raised[None], lambda row: evidence if raised[row] > scores[row] else None)


def pin_exact_names(trace: Trace) -> Column:
    """Give each name that is spelled at least its similarity, an exact one 1, and round all.

    A question that selects names (``select:a,b``) and spells one gets nothing else.
    """
    names, scores = trace.state.names, trace.scores.copy()
    matches = _name_matches(trace)
    for row, match in matches.items():
        scores[row] = max(scores[row], match.score)
        if row in names.impersonating and not match.is_exact:
            scores[row] = match.score
    final = round_scores(scores)
    final[[row for row, match in matches.items() if match.is_exact]] = 1.0
    if matches and parse_selection(trace.query.original):
        trace.reachable = np.intersect1d(trace.reachable, [*matches])

    def evidence(row: int) -> Evidence | None:
        match = matches.get(row)
        if match is None:
            return None
        near = f"Fuzzy match (name, {match.similarity:.0%} alike)"
        text = f"its name is spelled, {match.similarity:.0%} alike"
        return Evidence("name", text, "Exact name" if match.is_exact else near)

    return Column(final[None], evidence)


def _name_matches(trace: Trace) -> dict[int, NameMatch]:
    query = trace.query
    found = trace.state.names.match([query.original, *query.subqueries], trace.visible)
    matches = dict(found[query.original])
    for text in query.subqueries:
        for row, match in found[text].items():
            matches[row] = max(match.discount(), matches.get(row, match.discount()))
    return matches


def round_formula(trace: Trace) -> Column:
    """Round the weighted mean as every score is, below 1."""
    return Column(round_scores(trace.columns[-1].scores[:1]), lambda _: None)


FORMULA = (fuse_signals, round_formula, relate_to_context)
"""The steps of a search whose score is the formula's."""
STEPS = (
    fuse_signals,
    weigh_by_word_match,
    scale_by_known_words,
    boost_names,
    blend_subqueries,
    raise_readings,
    raise_named_server,
    infer_shell,
    prefer_successors,
    pin_exact_names,
    lower_imitations,
    relate_to_context,
    expect_next,
)


def steps_of(profile: SearchProfile) -> Sequence[Callable[[Trace], Column | None]]:
    """Returns the steps that score a search of this profile."""
    if profile.raw_cosine:
        return STEPS[:1]
    return FORMULA if profile.steps == "none" else STEPS
