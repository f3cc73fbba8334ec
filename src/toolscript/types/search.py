"""Documents that can be found, and the questions and answers of a search."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Literal, TypeAlias

import msgspec

from toolscript.text.json_values import as_list, as_object
from toolscript.types.grants import EVERYTHING, Grant
from toolscript.types.tools import ToolSpec, sha256_of

GOOD_CONFIDENCE, WEAK_CONFIDENCE = 0.58, 0.35
"""Minimum scores of the best hit for the verdicts "good" and "weak".

Of the everyday sentences with the verdict "good", 19 of 20 have a right tool among the first three:
see `benchmarks.everyday`.
"""
MAX_DOCUMENT_CHARS = 16_384
"""A longer description is cut for the search, but not where it is shown."""
MAX_PARAMETERS = 64
MAX_PARAMETER_CHARS = 200
"""Searched parameters of a tool, and characters of each one's description and choices."""
MAX_CHOICES = 20
Fit: TypeAlias = Literal["good", "weak", "none"]
"""How well the best hit fits the question."""


class Document(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A text that can be found: a tool, a skill or a passage of a skill."""

    id: str
    """Unlike every other document's; of a tool ``server__tool``."""
    server: str
    """The name of the server that a request may ask for, and a grant be of."""
    name: str
    """A question that spells it finds the document."""
    title: str = ""
    """Its name for people, or a passage's heading."""
    description: str = ""
    """What it does, in words: most of what is searched."""
    parameters: tuple[tuple[str, str], ...] = ()
    """The name of each parameter, and its description and choices as one text."""
    digest: str = ""
    """Identifies the content: a document with the same digest is not embedded again. It is
    computed from the other fields if it is left out."""
    parent_id: str = ""
    """The id of the skill that this is a passage of; a skill with passages has its own id here.
    Of a skill and its passages only the best is a hit."""

    def __post_init__(self) -> None:
        """Computes a digest that is left out."""
        if not self.digest:
            stated = (self.id, self.name, self.title, self.description, self.parameters)
            msgspec.structs.force_setattr(self, "digest", sha256_of(stated))

    @classmethod
    def of(cls, source: ToolSpec | Callable[..., Any] | Any, server: str = "tools") -> "Document":
        """Returns the document of a tool.

        Args:
            source: A `ToolSpec`, a function, or a definition as MCP, OpenAI or Anthropic has it: a
                mapping, or an object with a method ``model_dump``.
            server: The server that it belongs to, unless it is a `ToolSpec`.

        Raises:
            InputError: It is none of these, or has no name.
        """
        tool = ToolSpec.of(source, server)
        properties: Any = tool.input_schema.get("properties")
        return cls(
            id=tool.id,
            server=tool.server,
            name=tool.name,
            title=tool.title,
            description=tool.description[:MAX_DOCUMENT_CHARS],
            parameters=tuple(_parameters(properties)),
            digest=tool.digest,
        )


def _parameters(properties: Any) -> Iterator[tuple[str, str]]:
    """Yields names and texts from a third party's schema, which may hold anything."""
    for name, schema in islice(as_object(properties).items(), MAX_PARAMETERS):
        stated = as_object(schema)
        values = [stated.get("description"), *as_list(stated.get("enum"))]
        texts = [text for text in values[: MAX_CHOICES + 1] if isinstance(text, str)]
        yield str(name), " ".join(texts)[:MAX_PARAMETER_CHARS]


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A question to a search, and what its caller wants otherwise than the profile has it."""

    text: str
    """The question, in words, or the name of a tool."""
    limit: int | None = None
    """Maximum number of hits; None for the profile's."""
    threshold: float | None = None
    """Minimum score of a hit, 0 to 1; None for the profile's."""
    alpha: float | None = None
    """Weight of the semantic score, 0 to 1; the rest is the lexical score's. None for the
    profile's."""
    steps: str | None = None
    """``none`` scores by the formula alone, ``all`` by the steps after it, too; None for the
    profile's."""
    words_only: bool = False
    """Whether to search as if there were no embedding model; ``alpha`` then has no effect."""
    servers: tuple[str, ...] = ()
    """Names of the servers whose tools are searched; all for none."""
    grant: Grant = EVERYTHING
    """What the caller may find."""
    hidden: frozenset[str] = frozenset()
    """Ids of granted tools that may not be found all the same."""
    context: tuple[str, ...] = ()
    """Ids of the tools that were used before, the last one last; related tools rank higher."""
    by_relatedness: bool = False
    """Whether the context counts by the formula of ``search_tools``, not by a forecast."""
    explain: bool = False
    """Whether each hit gets an `Explanation` of its score."""
    evidence: tuple[str, ...] | None = None
    """Ids of the hits whose explanations say what each signal found, which takes much longer than
    the search; all for None."""
    why: str = ""
    """The id or name of a tool whose rank, or absence, the result is to explain."""
    skills: bool = False
    """Whether to search skills as well as tools."""
    by_model: bool = False
    """Whether a model asks: it finds no skill that is for people alone."""

    def shows(self, identifier: str) -> bool:
        """Whether the document with the id ``identifier`` may be found."""
        return identifier not in self.hidden and self.grant.allows(identifier)


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What one signal says of one document."""

    signal: str
    score: float
    weight: float
    """Its part in the weighted mean: all the shares' weights sum to 1."""
    evidence: tuple[str, ...] = ()


class ScoreChange(msgspec.Struct, frozen=True, kw_only=True):
    """What changed a score after the weighted mean, and the score after it."""

    name: str
    score: float
    evidence: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """How a document's score came about: shares make the weighted mean, steps change it."""

    fused: float
    shares: tuple[Share, ...]
    steps: tuple[ScoreChange, ...] = ()


class Related(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that goes with another, and what says so."""

    tool: str
    score: float
    """From 0 to 1; only the order among the same kind of relation means something."""
    evidence: str


class Relations(msgspec.Struct, frozen=True, kw_only=True):
    """What goes with a tool: used before it, used after it, needed by it; best first."""

    before: tuple[Related, ...] = ()
    after: tuple[Related, ...] = ()
    needs: tuple[Related, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self.before or self.after or self.needs)


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A document that answers: its score in [0, 1], each signal's own score, and why."""

    document: Document
    """What was found; of a skill its best passage."""
    score: float
    """From 0 to 1; 1 only if the question is exactly its name."""
    reason: str
    """One line that says why, such as ``Semantic similarity (file operations)``."""
    fused: float = 0.0
    """α · semantic + (1 − α) · fuzzy, which the steps start from."""
    signals: dict[str, float]
    """Each signal's own score, by name; ``graph`` among them where that had something to say."""
    own: float | None = None
    """The search's own score, where the graph moved it."""
    explanation: Explanation | None = None
    """How the score came about, where the request asks for that."""
    related: Relations | None = None
    """What goes with it, where anything is known."""
    twins: tuple[str, ...] = ()
    """Servers that have a tool of the same name and meaning, which answers as well."""


class MissExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """Where a tool that was asked after ended up, and why."""

    id: str
    verdict: str
    """One sentence: shown, below the threshold, beyond the limit, hidden, its server down."""
    rank: int | None = None
    """Its place among all tools that were searched, from 1; none if it was not searched."""
    hit: Hit | None = None


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a search found."""

    hits: tuple[Hit, ...]
    """Best first; at most ``limit``, each with at least the score ``threshold``."""
    limit: int
    threshold: float
    nearest: tuple[Hit, ...] = ()
    """The next best that the threshold kept out, best first, if hardly any hit passed it."""
    degraded: tuple[str, ...] = ()
    """Which signals did not answer, and why."""
    why: MissExplanation | None = None
    """Where the tool ended up that ``SearchRequest.why`` asked after."""
    held: tuple[str, ...] = ()
    """The server of each held tool that would have been among the best, by its pinned text."""
    alpha: float = 1.0
    """What the search's own scores weighed; the rest is the graph's. 1 where that was silent."""
    edges: int = 0
    """Of the graph."""

    @property
    def fit(self) -> Fit:
        """The verdict about the best hit."""
        best = self.hits[0].score if self.hits else 0.0
        return "good" if best >= GOOD_CONFIDENCE else "weak" if best >= WEAK_CONFIDENCE else "none"
