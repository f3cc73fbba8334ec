from toolscript.retrieval.base import Corpus
from toolscript.retrieval.derived import PerDocument
from toolscript.types import Document


def document(name: str, description: str = "") -> Document:
    return Document(id=name, server="s", name=name, description=description)


def test_a_document_is_computed_once_until_it_changes_or_goes() -> None:
    """upstream:live"""
    computed: list[str] = []

    def compute(document: Document) -> str:
        computed.append(document.id)
        return document.name + document.description

    derived = PerDocument(compute)
    assert derived.of(Corpus([document("b"), document("a")])) == ["a", "b"]
    assert derived.of(Corpus([document("b"), document("a"), document("c")])) == ["a", "b", "c"]
    assert computed == ["a", "b", "c"]
    assert derived.of(Corpus([document("a", "x"), document("c")])) == ["ax", "c"]
    assert computed == ["a", "b", "c", "a"]
    derived.of(Corpus([document("b")]))
    assert computed == ["a", "b", "c", "a", "b"]
