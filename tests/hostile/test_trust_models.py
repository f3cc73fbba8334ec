"""L17: a model's files are those that are known, wherever they come from."""

import shutil
from pathlib import Path

import pytest

from tests.hub import Hub
from toolscript.embedding.download_progress import Progress
from toolscript.embedding.hub import Hub as Models
from toolscript.embedding.integrity import check_bundled, is_known, sha256
from toolscript.embedding.loader import BUNDLED_FOLDER
from toolscript.embedding.model_layout import weights_for
from toolscript.embedding.models import DIGESTS, MODELS, Repository
from toolscript.errors import ModelError


def test_l17_a_hub_that_has_other_files_under_the_pinned_commit_is_refused(tmp_path: Path) -> None:
    """Even where its own checksums are right for them."""
    repository = Repository.parse("all-MiniLM-L6-v2")
    assert repository is not None
    with Hub.of(BUNDLED_FOLDER, repository.name).running() as hub:
        models = Models(tmp_path, hub.url)
        with pytest.raises(ModelError, match="is not the file that toolscript knows"):
            models.fetch(repository, weights_for(gpu=False), Progress())
        assert models.local(repository) is None


def test_l17_the_default_models_files_are_known_by_their_digests() -> None:
    pinned = {spec.revision for spec in MODELS if spec.revision != "main"}
    assert pinned == DIGESTS.keys()
    for files in DIGESTS.values():
        assert {"config.json", "tokenizer.json", "onnx/model_quantized.onnx"} <= files.keys()
        assert all(len(bytes.fromhex(digest)) == 32 for digest in files.values())


def test_l17_of_other_models_nothing_is_known(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", "utf-8")
    assert is_known(tmp_path / "config.json", "config.json", "main")
    assert not is_known(tmp_path / "config.json", "config.json", next(iter(DIGESTS)))


@pytest.mark.parametrize("file", ["config.json", "onnx/model_quantized.onnx"])
def test_l17_a_damaged_bundled_model_is_noticed(tmp_path: Path, file: str) -> None:
    """Once it has been found right, it is looked at again when a file has changed."""
    folder, note = tmp_path / "bundled", tmp_path / "note"
    shutil.copytree(BUNDLED_FOLDER, folder)
    check_bundled(folder, note)
    assert note.exists()
    check_bundled(folder, note)
    before = sha256(folder / file)
    with (folder / file).open("ab") as damaged:
        damaged.write(b" ")
    assert sha256(folder / file) != before
    with pytest.raises(ModelError, match=f"the bundled model is damaged .{file}"):
        check_bundled(folder, note)
    (folder / file).unlink()
    with pytest.raises(ModelError, match="the bundled model is damaged"):
        check_bundled(folder, None)
