"""The bundled model's folder: its files, and what says where they come from."""

import json
import subprocess
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from training import published_model
from training.onnx_graph import build_float_model, build_model
from training.published_model import sha256
from training.trainer import Recipe

NAME = "toolscript-minilm-l6"
BUNDLED = Path(__file__).resolve().parents[1] / "src/toolscript/embedding/bundled"
WORK = Path(__file__).resolve().parents[1] / ".training"
"""The folder of a training: its state, the published model and the trained weights."""
PUBLISHED, WEIGHTS = "published", "model.safetensors"
COPIED = ("config.json", "tokenizer.json")
MODEL_FILE = "onnx/model_quantized.onnx"
FLOAT_FILE = "onnx/model_dequantized.onnx"
"""The graph for accelerators, with the matrices of the file beside it."""
PROVENANCE = "PROVENANCE.json"
TOOLS = ("numpy", "onnx", "safetensors", "tokenizers", "torch", "transformers")


def write(folder: Path, source: Path, weights: Path, training: dict[str, Any]) -> dict[str, str]:
    """Build the model's files and their provenance; the SHA-256 of each.

    Args:
        folder: Gets the files.
        source: The published model, as `published_model.unpack` writes it.
        weights: The trained weights, a safetensors file.
        training: What `PROVENANCE.json` says about the training.
    """
    config = json.loads((source / "config.json").read_bytes())
    properties = {"source": published_model.UPSTREAM, "license": published_model.LICENCE}
    built = {name: (source / name).read_bytes() for name in COPIED}
    trained = weights.read_bytes()
    built[MODEL_FILE] = build_model(config, trained, properties)
    built[FLOAT_FILE] = build_float_model(
        config, trained, properties, built[MODEL_FILE], Path(MODEL_FILE).name
    )
    for name, data in built.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    training = training | {"weights_sha256": sha256(trained)}
    results = {name: sha256(data) for name, data in sorted(built.items())}
    limits = json.loads((source / "sentence_bert_config.json").read_bytes())
    provenance = {
        "name": NAME,
        "licence": published_model.LICENCE,
        "begins_from": {
            "upstream": published_model.UPSTREAM,
            "package": published_model.PACKAGE,
            "version": published_model.PACKAGE_VERSION,
            "files": published_model.SOURCE_SHA256,
        },
        "training": training,
        "quantisation": {
            "matrices": "int8 kept within 7 bits, one scale per output column",
            "activations": "uint8, rounded while running, one scale per token",
            "embedding_tables": "int8, one scale per row",
        },
        "pooling": "mean over the attention mask",
        "normalise": "L2",
        "dimension": config["hidden_size"],
        "max_tokens": limits["max_seq_length"],
        "versions": {tool: version(tool) for tool in TOOLS},
        "results": results,
    }
    text = json.dumps(provenance, indent=2) + "\n"
    (folder / PROVENANCE).write_text(text, encoding="utf-8")
    return results


def described(recipe: Recipe, data_digest: str, steps: int) -> dict[str, Any]:
    """What is recorded about a training: recipe, data and the commit that it ran at."""
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"],  # noqa: S607 - whichever git is installed
        capture_output=True,
        text=True,
        check=False,
        cwd=BUNDLED,
    )
    return {
        "command": "python -m training",
        "commit": head.stdout.strip(),
        "recipe": asdict(recipe),
        "steps": steps,
        "data_sha256": data_digest,
    }


def recorded(folder: Path) -> dict[str, Any]:
    """The provenance of a model's folder."""
    return json.loads((folder / PROVENANCE).read_text(encoding="utf-8"))
