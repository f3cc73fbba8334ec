import json
from pathlib import Path

import pytest

from toolscript.config.settings import OPTION
from toolscript.embedding.loader import BUNDLED_FOLDER
from toolscript.embedding.model_layout import spec_of
from toolscript.embedding.models import BUNDLED, MODELS, ModelSpec, Repository, known
from toolscript.errors import ModelError
from toolscript.retrieval.semantic.calibration import CURVES

BGE = next(spec for spec in MODELS if spec.name == "bge-small-en-v1.5")


@pytest.mark.requirement("model:table")
@pytest.mark.parametrize("spec", MODELS, ids=lambda spec: spec.name)
def test_a_row_of_the_table_is_complete(spec: ModelSpec) -> None:
    assert spec.name == spec.name.strip()
    assert spec.name
    assert spec.dimensions > 0
    assert spec.max_tokens > 0
    assert spec.pooling in {"mean", "cls"}
    assert spec.licence
    assert spec.source
    assert spec.query_prefix == "" or spec.query_prefix.endswith(" ")


@pytest.mark.requirement("model:table")
def test_no_model_is_in_the_table_twice() -> None:
    assert len({spec.name.casefold() for spec in MODELS}) == len(MODELS)


@pytest.mark.requirement("model:default", "model:table", "model:prefix")
def test_the_table_has_the_three_models_of_the_specification_beside_the_default() -> None:
    """model:table, model:default, model:prefix: prefix, pooling and size as published."""
    rows = {spec.repository: spec for spec in MODELS if spec.repository}
    assert {name: (s.dimensions, s.pooling, s.licence) for name, s in rows.items()} == {
        "Xenova/bge-small-en-v1.5": (384, "cls", "MIT"),
        "Xenova/all-MiniLM-L6-v2": (384, "mean", "Apache-2.0"),
        "Xenova/all-mpnet-base-v2": (768, "mean", "Apache-2.0"),
    }
    prefix = "Represent this sentence for searching relevant passages: "
    assert [s.name for s in MODELS if s.query_prefix] == ["bge-small-en-v1.5"]
    assert rows["Xenova/bge-small-en-v1.5"].query_prefix == prefix
    assert OPTION["model"].default == "bundled"
    assert [spec.name for spec in MODELS if not spec.repository] == [BUNDLED]


@pytest.mark.requirement("search:calibrated", "model:table")
def test_what_was_measured_is_in_the_table() -> None:
    assert BUNDLED in CURVES
    assert CURVES.keys() <= {spec.name for spec in MODELS}


@pytest.mark.requirement("model:bundled", "model:table")
def test_the_bundled_models_row_says_what_its_files_say() -> None:
    config = json.loads((BUNDLED_FOLDER / "config.json").read_text("utf-8"))
    provenance = json.loads((BUNDLED_FOLDER / "PROVENANCE.json").read_text("utf-8"))
    spec = known(BUNDLED)
    assert spec is not None
    assert spec.dimensions == config["hidden_size"] == provenance["dimension"]
    assert spec.max_tokens == provenance["max_tokens"] <= config["max_position_embeddings"]
    assert provenance["pooling"].startswith(spec.pooling)
    assert provenance["licence"] == spec.licence
    assert provenance["name"] == spec.name


@pytest.mark.requirement("model:table")
@pytest.mark.parametrize(
    "name",
    ["all-MiniLM-L6-v2", "Xenova/all-MiniLM-L6-v2", "SENTENCE-TRANSFORMERS/ALL-MINILM-L6-V2/"],
)
def test_a_model_is_known_whatever_repository_publishes_it(name: str) -> None:
    spec = known(name)
    assert spec is not None
    assert spec.name == "all-MiniLM-L6-v2"


@pytest.mark.requirement("model:select")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bge-small-en-v1.5", Repository(BGE.repository, BGE.revision)),
        ("xenova/BGE-small-en-v1.5", Repository(BGE.repository, BGE.revision)),
        ("Xenova/bge-small-en-v1.5@main", Repository("Xenova/bge-small-en-v1.5", "main")),
        ("BAAI/bge-small-en-v1.5", Repository("BAAI/bge-small-en-v1.5", "main")),
        ("a/b@refs/pr/1", Repository("a/b", "refs/pr/1")),
        ("a/b", Repository("a/b", "main")),
        ("", None),
        ("a", None),
        (BUNDLED, None),
        ("a/b/c", None),
        ("../b", None),
        ("a/..", None),
        ("a/b@../c", None),
        ("a/b@", None),
        ("a/b@-x", None),
        ("/a/b", None),
        ("a/" + "b" * 100, None),
        ("a/b c", None),
        ("http://a/b", None),
    ],
)
def test_a_repository_is_named_as_on_the_hub(text: str, expected: Repository | None) -> None:
    found = Repository.parse(text)
    assert found == expected


# Models that the table does not know


def folder_with(folder: Path, config: object, pooling: object = None) -> Path:
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    if pooling is not None:
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling), "utf-8")
    return folder


SIZES = {"hidden_size": 96, "max_position_embeddings": 1024}


@pytest.mark.requirement("model:select", "model:prefix")
@pytest.mark.parametrize(
    ("name", "stated", "pooling", "prefix"),
    [
        ("my-model", None, "mean", ""),
        ("my-model", {"pooling_mode_cls_token": True}, "cls", ""),
        ("my-model", {"pooling_mode_mean_tokens": True}, "mean", ""),
        ("BAAI/bge-large-en-v1.5", None, "cls", BGE.query_prefix),
        ("BAAI/bge-m3", None, "cls", ""),
        ("bge-base-en", {"pooling_mode_mean_tokens": True}, "mean", BGE.query_prefix),
    ],
)
def test_an_unknown_model_is_read_from_its_files_and_its_family(
    tmp_path: Path, name: str, stated: object, pooling: str, prefix: str
) -> None:
    spec = spec_of(folder_with(tmp_path / "m", SIZES, stated), name)
    assert (spec.dimensions, spec.max_tokens) == (96, 512)
    assert (spec.pooling, spec.query_prefix) == (pooling, prefix)


@pytest.mark.requirement("model:select")
@pytest.mark.parametrize(
    ("config", "pooling", "message"),
    [
        ({}, None, "has no hidden_size"),
        ({"hidden_size": "a lot"}, None, "has no hidden_size"),
        ({"hidden_size": True}, None, "has no hidden_size"),
        ({"hidden_size": 8}, None, "has no max_position_embeddings"),
        ([], None, "is no JSON object"),
        (SIZES, {"pooling_mode_max_tokens": True}, "asks for neither"),
        (SIZES, [], "is no JSON object"),
        ("x" * 2_000_000, None, "has more than"),
    ],
)
def test_files_that_do_not_say_enough_are_refused(
    tmp_path: Path, config: object, pooling: object, message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        spec_of(folder_with(tmp_path / "m", config, pooling), "unheard-of")


def test_a_file_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "m", SIZES)
    (folder / "config.json").write_text("[" * 500_000, "utf-8")
    with pytest.raises(ModelError, match=r"config\.json cannot be read"):
        spec_of(folder, "unheard-of")
