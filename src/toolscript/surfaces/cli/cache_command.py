"""``toolscript cache info|clear``."""

import json
import shutil
from pathlib import Path
from typing import Any

import click

from toolscript.config.settings import load_settings
from toolscript.errors import GatewayRunningError
from toolscript.storage.atomic_files import locked
from toolscript.storage.blob_store import BlobStore
from toolscript.surfaces.cli.options import output_option, settings_options
from toolscript.surfaces.cli.output import print_answer
from toolscript.text.display import counted


@click.group()
def cache() -> None:
    """Show and clear what was computed or downloaded once."""


@cache.command()
@output_option
@settings_options("data_dir")
def info(output: str, **flags: Any) -> None:
    """Show the embeddings and the models that are kept, and their size."""
    data_dir = load_settings(flags).paths.data_dir
    embeddings = [_embeddings(path) for path in _vector_files(data_dir)]
    models = [_model(path) for path in sorted(data_dir.glob("models/*/*/complete.json"))]
    kept = {"directory": str(data_dir), "embeddings": embeddings, "models": models}
    rows = [[e["file"], e["model"], _megabytes(e["bytes"])] for e in (*embeddings, *models)]
    empty = f"nothing is kept in {data_dir}"
    print_answer(kept, output, ["What", "Model", "Size"], rows, empty=empty, flexible=0)


@cache.command()
@click.option("--models", is_flag=True, help="The models that were downloaded, too.")
@settings_options("data_dir")
def clear(models: bool, **flags: Any) -> None:
    """Delete the embeddings; they are computed again when they are needed."""
    data_dir = load_settings(flags).paths.data_dir
    vectors = _vector_folders(data_dir)
    folders = [*vectors, data_dir / "cache" / "calibration"]
    folders += [data_dir / "models"] if models else []
    for folder in vectors:
        _refuse_while_used(folder)
    count, size = len(_vector_files(data_dir)), sum(_size(folder) for folder in folders)
    for folder in folders:
        if folder.is_dir():
            shutil.rmtree(folder)
    if not models:  # a model that could not be had may be asked for again at once
        for note in data_dir.glob("models/**/*.failed.json"):
            note.unlink(missing_ok=True)
    click.echo(f"deleted {counted(count, 'file')} of embeddings, {_megabytes(size)} in all")


def _vector_folders(data_dir: Path) -> list[Path]:
    """The folders with vectors: of tools, of skills, of single files."""
    return [data_dir / "cache" / name for name in ("embeddings", "skills", "vector")]


def _vector_files(data_dir: Path) -> list[Path]:
    return sorted(
        path
        for folder in _vector_folders(data_dir)
        for pattern in ("*.sqlite", "embeddings-*.json")
        for path in folder.rglob(pattern)
    )


def _embeddings(path: Path) -> dict[str, Any]:
    from toolscript.embedding.json_vector_cache import model_of_file  # noqa: PLC0415 - imports NumPy
    from toolscript.embedding.vector_cache import FALLBACK, model_of  # noqa: PLC0415 - the same

    is_json = path.suffix == ".json"
    model = model_of_file(path) if is_json else model_of(BlobStore(path).writer_version("vectors"))
    missing = "cannot be read" if is_json or not path.is_file() else "nothing yet"
    return {
        "file": path.name,
        "model": model or missing,
        "bytes": path.stat().st_size if path.is_file() else 0,
        "fallback": path.parent.name == FALLBACK,
    }


def _model(path: Path) -> dict[str, Any]:
    folder = path.parent
    try:
        model = str(json.loads(path.read_bytes())["repository"])
    except (OSError, ValueError, KeyError, TypeError):
        model = "cannot be read"
    name = f"models/{folder.parent.name}/{folder.name}"
    return {"file": name, "model": model, "bytes": _size(folder)}


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _refuse_while_used(folder: Path) -> None:
    """A file that is being written right now is not to be deleted under its writer."""
    for path in folder.rglob("*.lock"):
        try:
            with locked(path, 1):
                pass
        except TimeoutError:
            raise GatewayRunningError(f"{path} is held: something is writing; try again") from None


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
