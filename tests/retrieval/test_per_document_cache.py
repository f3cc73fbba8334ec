from toolscript.retrieval.per_document_cache import PerDocumentCache
from toolscript.types import Document


def document(name: str, description: str = "") -> Document:
    return Document(id=name, server="s", name=name, description=description)


def test_a_document_is_computed_once_until_it_changes_or_goes() -> None:
    """upstream:live"""
    computed: list[str] = []

    def compute(document: Document) -> str:
        computed.append(document.id)
        return document.name + document.description

    derived = PerDocumentCache(compute)
    assert derived.of([document("b"), document("a")]) == ["b", "a"]
    assert derived.of([document("b"), document("a"), document("c")]) == ["b", "a", "c"]
    assert computed == ["b", "a", "c"]
    assert derived.of([document("a", "x"), document("c")]) == ["ax", "c"]
    assert computed == ["b", "a", "c", "a"]
    derived.of([document("b")])
    assert computed == ["b", "a", "c", "a", "b"]
