"""The texts of a document that are embedded, and the vector made of them."""

import numpy as np

from toolscript.embedding.base import Encoder, Vectors, unit_rows
from toolscript.text.words import first_sentence, words
from toolscript.types import Document

TEXT_WEIGHTS = {"everything": 0.8, "name": 0.05, "first sentence": 0.15}
"""The weight of each of a document's texts in its vector; passages and parents have only the
first."""
DESCRIPTION_CHARS, PARENT_CHARS = 600, 2400
PARAMETERS_CHARS = 400
PARAMETER_CHARS = 80
PARAMETERS = 12
"""How much of a description, of a parent's text and of the parameters is embedded."""


def embedding_inputs(document: Document) -> dict[str, str]:
    """The texts that are embedded for a document: everything, its name, its first sentence."""
    name = " ".join(words(document.name))
    title = f" ({document.title})" if document.title and document.title != document.name else ""
    called = f"{document.server} {name}{title}"
    everything = {"everything": _everything(called, document)}
    if document.parent_id:
        return everything
    return everything | {
        "name": called,
        "first sentence": first_sentence(document.description) or called,
    }


def _everything(called: str, document: Document) -> str:
    if document.parent_id == document.id:
        return f"{document.name}: {document.description[:PARENT_CHARS]}"
    description = document.description[:DESCRIPTION_CHARS]
    parameters = [
        f"{' '.join(words(name))} ({text[:PARAMETER_CHARS]})" if text else " ".join(words(name))
        for name, text in document.parameters[:PARAMETERS]
    ]
    takes = f" ({', '.join(parameters)[:PARAMETERS_CHARS]})" if parameters else ""
    return f"{called}: {description}{takes}".strip()


def document_vectors(encoder: Encoder, documents: list[Document]) -> Vectors:
    """One vector per document: float32 [n, dim], unit rows.

    The weighted mean of the vectors of its texts, at length 1 again. A long
    description drowns the first sentence; the mean keeps both, and a
    cosine with it is the weighted mean of the cosines, for the price of one.
    """
    mean = np.zeros((len(documents), encoder.dim), dtype=np.float32)
    inputs = [
        (row, TEXT_WEIGHTS[name], text)
        for row, document in enumerate(documents)
        for name, text in embedding_inputs(document).items()
    ]
    if inputs:
        rows, weights, texts = zip(*inputs, strict=True)
        scaled = np.array(weights, np.float32)[:, None] * encoder.documents(texts)
        np.add.at(mean, list(rows), scaled)
    return unit_rows(mean)
