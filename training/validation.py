"""Validation: how well a model finds the tools of servers that it was not trained on."""

import random
from pathlib import Path

import msgspec
import numpy as np
from benchmarks.quality import metrics

from toolscript.embedding.models import ModelSpec
from toolscript.embedding.onnx import OnnxEncoder
from training.bundled_model import NAME, recorded
from training.data import TrainingData

QUERIES = 1000
"""So many questions are asked."""


def figures(folder: Path, data: TrainingData) -> metrics.Scores:
    """What the plain cosine of a built model gets, with ``server name: description`` as text."""
    said = recorded(folder)
    spec = ModelSpec(NAME, said["dimension"], "mean", "", said["max_tokens"], said["licence"], "")
    encoder = OnnxEncoder(folder, spec, threads=2)
    tools = data.validation_tools
    texts = [f"{tool.server} {tool.name}: {tool.description or ''}" for tool in tools]
    vectors = encoder.documents(texts)
    asked = list(data.validation_queries)
    if len(asked) > QUERIES:
        asked = random.Random(0).sample(asked, QUERIES)  # noqa: S311 - the same draw every time
    scores: list[metrics.Scores] = []
    for query in asked:
        cosines = vectors @ encoder.query(query.query)
        best = np.argsort(-cosines, kind="stable")[: metrics.DEPTH]
        scores.append(metrics.score([tools[int(row)].id for row in best], query.relevant))
    return metrics.mean(scores)


def write_dataset(folder: Path, data: TrainingData) -> None:
    """Write the validation servers as a dataset that ``benchmarks.quality`` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    encode = msgspec.json.encode
    rows = {"tools.jsonl": data.validation_tools, "queries.jsonl": data.validation_queries}
    for name, each in rows.items():
        (folder / name).write_bytes(b"".join(encode(row) + b"\n" for row in each))
