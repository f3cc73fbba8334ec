"""Ways to rank skills for a question: ours, its parts, and what everybody would try first."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from benchmarks.quality.own import encoder, semantic
from toolscript.config.settings import OPTION
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.lexical.analyzer import Stemmer
from toolscript.retrieval.profiles import skills_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.skills.scanner import Skill, SkillCatalogue
from toolscript.text.words import STOP_WORDS, words
from toolscript.types import Document, SearchRequest

Find = Callable[[str], list[str]]
"""A question → the names of skills, the best first, every one that has a score."""
K1, B = 1.5, 0.75
"""As BM25 is usually run."""


def texts(skill_catalogue: SkillCatalogue) -> dict[str, str]:
    """Each skill's whole file as one text, without the marks of its front matter."""
    return {name: _whole(skill) for name, skill in skill_catalogue.skills.items()}


def _whole(skill: Skill) -> str:
    passages = (f"{each.heading}\n{each.text}" for each in skill.passages)
    return "\n\n".join((skill.name, skill.description, *passages))


def engine(skill_catalogue: SkillCatalogue, make: Callable[[], SemanticSignal | None]) -> Find:
    """The application's engine over passages, with nothing kept back by a threshold."""
    return _finding(skill_catalogue.documents, make())


def whole_files(skill_catalogue: SkillCatalogue, make: Callable[[], SemanticSignal | None]) -> Find:
    """The same over whole files."""
    documents = [
        Document(id=name, server="skills", name=name, description=text, digest=name)
        for name, text in texts(skill_catalogue).items()
    ]
    return _finding(documents, make())


def _finding(documents: Sequence[Document], semantic: SemanticSignal | None) -> Find:
    profile = skills_profile(OPTION["alpha"].default, limit=10, threshold=0.0)
    search = SearchEngine(profile, semantic=semantic)
    search.update(documents)

    def find(text: str) -> list[str]:
        hits = search.search(SearchRequest(text=text)).hits
        return [hit.document.parent_id.partition("__")[2] or hit.document.id for hit in hits]

    return find


def cosine(skill_catalogue: SkillCatalogue) -> Find:
    """The bundled model on each whole file, as far as it reads."""
    model, whole = encoder(), texts(skill_catalogue)
    names, vectors = list(whole), model.documents(list(whole.values()))

    def find(text: str) -> list[str]:
        order = np.argsort(-(vectors @ model.query(text)), kind="stable")
        return [names[int(row)] for row in order[:10]]

    return find


def bm25(skill_catalogue: SkillCatalogue) -> Find:
    """Okapi BM25 over whole files, stemmed, without stop words (Robertson and Zaragoza, 2009)."""
    stem = Stemmer()

    def stems(text: str) -> list[str]:
        return [stem(word) for word in words(text) if word not in STOP_WORDS]

    counts = {name: Counter(stems(text)) for name, text in texts(skill_catalogue).items()}
    frequency = Counter(word for count in counts.values() for word in count)
    lengths = {name: count.total() for name, count in counts.items()}
    average = sum(lengths.values()) / len(lengths)

    def score(name: str, word: str) -> float:
        tf = counts[name][word]
        rarity = math.log(1 + (len(counts) - frequency[word] + 0.5) / (frequency[word] + 0.5))
        return rarity * tf * (K1 + 1) / (tf + K1 * (1 - B + B * lengths[name] / average))

    def find(text: str) -> list[str]:
        asked = stems(text)
        scores = {name: sum(score(name, word) for word in asked) for name in counts}
        found = [name for name in scores if scores[name] > 0]
        return sorted(found, key=lambda name: (-scores[name], name))[:10]

    return find


ENGINES: Mapping[str, Callable[[SkillCatalogue], Find]] = {
    "toolscript": lambda skill_catalogue: engine(skill_catalogue, semantic),
    "toolscript without its model": lambda skill_catalogue: engine(skill_catalogue, lambda: None),
    "toolscript on whole files": lambda skill_catalogue: whole_files(skill_catalogue, semantic),
    "cosine of whole files": cosine,
    "BM25 of whole files": bm25,
}
