import json

import pytest

from toolscript.embedding.loader import BUNDLED_FOLDER
from toolscript.embedding.models import BUNDLED, MODELS, ModelSpec, model_spec
from toolscript.errors import ModelError
from toolscript.retrieval.calibration import CURVES


@pytest.mark.parametrize("spec", MODELS, ids=lambda spec: spec.name)
def test_a_row_of_the_table_is_complete(spec: ModelSpec) -> None:
    """model:table"""
    assert spec.name == spec.name.strip()
    assert spec.name
    assert spec.dimensions > 0
    assert spec.max_tokens > 0
    assert spec.pooling in {"mean", "cls"}
    assert spec.licence
    assert spec.source
    assert spec.query_prefix == "" or spec.query_prefix.endswith(" ")


def test_no_model_is_in_the_table_twice() -> None:
    """model:table"""
    assert len({spec.name.casefold() for spec in MODELS}) == len(MODELS)


def test_every_model_of_the_table_has_a_calibration_and_no_other_has() -> None:
    """search:calibrated, model:table"""
    assert CURVES.keys() == {spec.name for spec in MODELS}


def test_the_bundled_models_row_says_what_its_files_say() -> None:
    """model:table, model:bundled"""
    config = json.loads((BUNDLED_FOLDER / "config.json").read_text("utf-8"))
    provenance = json.loads((BUNDLED_FOLDER / "PROVENANCE.json").read_text("utf-8"))
    spec = model_spec(BUNDLED)
    assert spec.dimensions == config["hidden_size"] == provenance["dimension"]
    assert spec.max_tokens == provenance["max_tokens"] <= config["max_position_embeddings"]
    assert provenance["pooling"].startswith(spec.pooling)
    assert provenance["licence"] == spec.licence
    assert provenance["upstream"].endswith(f"/{spec.name}")


@pytest.mark.parametrize(
    "name",
    ["all-MiniLM-L6-v2", "Xenova/all-MiniLM-L6-v2", "SENTENCE-TRANSFORMERS/ALL-MINILM-L6-V2/"],
)
def test_a_model_is_known_whatever_repository_publishes_it(name: str) -> None:
    """model:table"""
    assert model_spec(name).name == "all-MiniLM-L6-v2"


@pytest.mark.parametrize("name", ["", "unheard/of", "all-MiniLM-L6-v2/x"])
def test_an_unknown_model_is_refused_with_those_that_are_known(name: str) -> None:
    """model:select"""
    with pytest.raises(ModelError) as caught:
        model_spec(name)
    assert repr(name) in str(caught.value)
    assert "all-MiniLM-L6-v2" in str(caught.value)
