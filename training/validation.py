"""Validation: how well a model finds the tools of servers that it was not trained on."""

from pathlib import Path

import msgspec
from benchmarks.quality import datasets
from benchmarks.quality.own import cosine

from toolscript.embedding.models import ModelSpec
from toolscript.embedding.onnx import OnnxEncoder
from toolscript.retrieval import quality_metrics as metrics
from training.bundled_model import NAME, recorded
from training.data import TrainingData


def figures(folder: Path, data: TrainingData) -> metrics.Scores:
    """What the plain cosine of a built model gets, with ``server name: description`` as text."""
    said = recorded(folder)
    spec = ModelSpec(NAME, said["dimension"], "mean", "", said["max_tokens"], said["licence"], "")
    encoder = OnnxEncoder(folder, spec, threads=2)
    find = cosine(data.validation_tools, encoder)
    asked = datasets.select(data.validation_queries)
    return metrics.mean([metrics.score(find(query.query), query.relevant) for query in asked])


def write_dataset(folder: Path, data: TrainingData) -> None:
    """Write the validation servers as a dataset that ``benchmarks.quality`` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    encode = msgspec.json.encode
    rows = {"tools.jsonl": data.validation_tools, "queries.jsonl": data.validation_queries}
    for name, each in rows.items():
        (folder / name).write_bytes(b"".join(encode(row) + b"\n" for row in each))
