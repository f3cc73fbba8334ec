import hashlib
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.embedding.conftest import TABLE, WORDS, TinyModel
from toolscript.embedding.base import Encoder, Vectors
from toolscript.embedding.loader import BUNDLED_FOLDER, load_model
from toolscript.embedding.model_layout import find_weights
from toolscript.embedding.models import ModelSpec, Pooling
from toolscript.embedding.onnx import MANY_TEXTS, OnnxEncoder
from toolscript.errors import ModelError, UnsuitableModelError

REFERENCE: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "fp32_reference.json").read_text("utf-8")
)["items"]


def spec(**changes: Any) -> ModelSpec:
    given: dict[str, Any] = {
        "name": "tiny",
        "dimensions": 4,
        "pooling": "mean",
        "query_prefix": "",
        "max_tokens": 256,
        "licence": "none",
        "source": "made up",
    }
    return ModelSpec(**(given | changes))


def unit(vector: Vectors) -> Vectors:
    return (vector / np.linalg.norm(vector)).astype(np.float32)


# The bundled model


@pytest.mark.requirement("model:bundled")
def test_the_bundled_model_agrees_with_the_publishers_at_full_precision(encoder: Encoder) -> None:
    expected = np.array([item["vector"] for item in REFERENCE], dtype=np.float32)
    computed = encoder.documents([item["text"] for item in REFERENCE])
    cosines = (expected * computed).sum(axis=1) / np.linalg.norm(expected, axis=1)
    assert cosines.shape == (len(REFERENCE),)
    assert len(REFERENCE) >= 40
    assert cosines.min() >= 0.98, REFERENCE[int(cosines.argmin())]["text"]
    assert cosines.mean() >= 0.99


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux")
def test_the_words_of_the_bundled_model_take_no_memory(encoder: Encoder) -> None:
    """They are half of its file, which is mapped; a page that was read is given back."""
    encoder.query("what is the current time in Tokyo")
    _, _, mapped = Path("/proc/self/smaps").read_text("utf-8").partition("model_quantized.onnx")
    values = dict(line.split(":", 1) for line in mapped.splitlines()[1:20])
    assert int(values["Size"].split()[0]) > 20_000
    assert values["Rss"].split() == ["0", "kB"]


@pytest.mark.requirement("model:bundled")
def test_the_bundled_files_are_those_that_provenance_names() -> None:
    provenance = json.loads((BUNDLED_FOLDER / "PROVENANCE.json").read_text("utf-8"))
    found = {
        name: hashlib.sha256((BUNDLED_FOLDER / name).read_bytes()).hexdigest()
        for name in provenance["results"]
    }
    assert found == provenance["results"]
    assert {"onnx/model_quantized.onnx", "tokenizer.json", "config.json"} <= found.keys()
    assert provenance["licence"] == "Apache-2.0"
    assert "Apache License" in (BUNDLED_FOLDER / "LICENSE").read_text("utf-8")


def test_a_vector_does_not_depend_on_what_is_embedded_beside_it(encoder: Encoder) -> None:
    texts = [item["text"] for item in REFERENCE][:7]
    together = encoder.documents(texts)
    backwards = encoder.documents(texts[::-1])[::-1]
    alone = np.stack([encoder.documents([text])[0] for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(together, backwards, atol=1e-5)


def test_of_a_long_text_the_first_256_tokens_count(encoder: Encoder) -> None:
    long = "file " * 254
    vectors = encoder.documents([long, long + "weather " * 1000, "weather " + long])
    assert np.array_equal(vectors[0], vectors[1])
    assert not np.array_equal(vectors[0], vectors[2])


def test_several_threads_get_what_one_gets(encoder: Encoder) -> None:
    texts = [item["text"] for item in REFERENCE]
    with ThreadPoolExecutor(4) as pool:
        threaded = list(pool.map(encoder.query, texts))
    np.testing.assert_allclose(np.stack(threaded), encoder.documents(texts), atol=1e-5)


def test_many_texts_on_all_cores_get_what_one_thread_gets(encoder: Encoder) -> None:
    texts = [f"{item['text']} {n}" for n in range(MANY_TEXTS) for item in REFERENCE[:3]]
    on_all_cores = load_model("bundled", "bundled", threads=0).encoder
    assert on_all_cores is not None
    np.testing.assert_array_equal(on_all_cores.documents(texts), encoder.documents(texts))


# A model small enough to compute by hand


@pytest.mark.requirement("model:table")
@pytest.mark.parametrize("pooling", ["mean", "cls"])
@settings(max_examples=30)
@given(
    numbers=st.lists(
        st.lists(st.integers(0, len(WORDS) - 1), min_size=1, max_size=12), min_size=1, max_size=40
    )
)
def test_pooling_is_over_the_texts_own_tokens_whatever_it_is_padded_to(
    tmp_path_factory: pytest.TempPathFactory, pooling: Pooling, numbers: list[list[int]]
) -> None:
    folder = tmp_path_factory.getbasetemp() / "pooled"  # made by the fixture below
    encoder = OnnxEncoder(folder, spec(pooling=pooling))
    texts = [" ".join(WORDS[number] if number else "unheard" for number in row) for row in numbers]
    by_hand = [TABLE[row].mean(axis=0) if pooling == "mean" else TABLE[row[0]] for row in numbers]
    expected = np.stack([unit(row) for row in by_hand])
    np.testing.assert_allclose(encoder.documents(texts), expected, atol=1e-5)


@pytest.fixture(autouse=True)
def pooled(tiny_model: TinyModel, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The tiny model once more, where a test with hypothesis can use it."""
    folder = tmp_path_factory.getbasetemp() / "pooled"
    if not folder.exists():
        tiny_model("source").rename(folder)


@pytest.mark.requirement("model:prefix")
def test_questions_get_the_models_prefix_and_documents_do_not(tiny_model: TinyModel) -> None:
    encoder = OnnxEncoder(tiny_model(), spec(query_prefix="query "))
    query, read = WORDS.index("query"), WORDS.index("read")
    np.testing.assert_allclose(
        encoder.query("read"), unit(TABLE[[query, read]].mean(axis=0)), atol=1e-6
    )
    np.testing.assert_allclose(encoder.documents(["read"])[0], unit(TABLE[read]), atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_the_parts_of_a_question(tiny_model: TinyModel, pooling: Pooling) -> None:
    """search:intent: of its own words only; the second of two equal pieces where it stands."""
    folder, texts = tiny_model(), ["read file", "write", "read"]
    encoder = OnnxEncoder(folder, spec(query_prefix="query ", pooling=pooling))
    rows = encoder.query_with_parts("read file write read", texts)
    apart = OnnxEncoder(folder, spec(pooling=pooling)).documents(texts)
    alone = [encoder.query(text) for text in texts]
    np.testing.assert_allclose(rows[1:], apart if pooling == "mean" else alone, atol=1e-6)


@pytest.mark.requirement("model:prefix")
@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("parts", [[], ["read file", "write"]])
def test_a3_a_whole_question_gets_the_prefix_whatever_its_parts(
    tiny_model: TinyModel, pooling: Pooling, parts: list[str]
) -> None:
    """model:prefix: on the path that searches take, which embeds a question with its parts."""
    folder, text = tiny_model(), "read file write"
    encoder = OnnxEncoder(folder, spec(query_prefix="query ", pooling=pooling))
    [whole, *of_parts] = encoder.query_with_parts(text, parts)
    bare = OnnxEncoder(folder, spec(pooling=pooling)).documents(["query " + text, text])
    np.testing.assert_allclose(whole, bare[0], atol=1e-6)
    assert not np.allclose(whole, bare[1], atol=1e-3)
    assert len(of_parts) == len(parts)


@pytest.mark.requirement("model:table")
def test_a_text_is_cut_at_the_models_token_limit(tiny_model: TinyModel) -> None:
    encoder = OnnxEncoder(tiny_model(), spec(max_tokens=2))
    expected = unit(TABLE[[WORDS.index("read"), WORDS.index("file")]].mean(axis=0))
    np.testing.assert_allclose(encoder.documents(["read file write write"])[0], expected, atol=1e-6)


def test_token_types_are_passed_where_a_model_wants_them(tiny_model: TinyModel) -> None:
    plain = OnnxEncoder(tiny_model("a"), spec())
    typed = OnnxEncoder(tiny_model("b", ["input_ids", "attention_mask", "token_type_ids"]), spec())
    assert np.array_equal(plain.query("read"), typed.query("read"))


def test_the_quantized_weights_are_preferred(tiny_model: TinyModel) -> None:
    folder = tiny_model()
    assert find_weights(folder).name == "model.onnx"
    shutil.copy(folder / "onnx" / "model.onnx", folder / "onnx" / "model_quantized.onnx")
    assert find_weights(folder).name == "model_quantized.onnx"


@pytest.mark.requirement("cache:validity")
def test_other_weights_have_another_name(tiny_model: TinyModel) -> None:
    one, two, other = tiny_model("one"), tiny_model("two"), tiny_model("other")
    data = bytearray((other / "onnx" / "model.onnx").read_bytes())
    at = data.index(TABLE.tobytes())
    data[at] ^= 1
    (other / "onnx" / "model.onnx").write_bytes(data)
    names = [OnnxEncoder(folder, spec()).name for folder in (one, two, other)]
    assert names[0] == names[1] != names[2]
    assert all(name.startswith("tiny@") for name in names)


# What cannot be used


@pytest.mark.requirement("model:select")
@pytest.mark.parametrize("missing", ["tokenizer.json", "config.json", "onnx/model.onnx"])
def test_a_folder_without_one_of_the_files_is_refused_naming_it(
    tiny_model: TinyModel, missing: str
) -> None:
    folder = tiny_model()
    (folder / missing).unlink()
    with pytest.raises(ModelError) as caught:
        OnnxEncoder(folder, spec())
    assert missing in str(caught.value)
    assert str(folder) in str(caught.value)


@pytest.mark.requirement("model:select")
@pytest.mark.parametrize("broken", ["tokenizer.json", "onnx/model.onnx"])
@pytest.mark.parametrize("content", [b"", b"not this", b"\x00\xff" * 50])
def test_a_damaged_file_is_refused_naming_it(
    tiny_model: TinyModel, broken: str, content: bytes
) -> None:
    folder = tiny_model()
    (folder / broken).write_bytes(content)
    with pytest.raises(ModelError) as caught:
        OnnxEncoder(folder, spec())
    assert broken in str(caught.value)


@pytest.mark.requirement("model:select")
@pytest.mark.parametrize(
    "changes",
    [
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AA=="}},
        {
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "[X]", "type_id": 0}}],
                "pair": [],
                "special_tokens": {},
            }
        },
        {"model": {"type": "Unigram", "vocab": [], "unk_id": None}},
        {
            "model": {
                "type": "WordPiece",
                "unk_token": "[NONE]",
                "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 100,
                "vocab": {"tool": 0},
            }
        },
    ],
    ids=["panics while it is loaded", "panics at a text", "no word", "no unknown word"],
)
def test_a_tokenizer_that_fails_at_every_text_is_refused(
    tiny_model: TinyModel, changes: dict[str, Any]
) -> None:
    folder = tiny_model()
    (folder / "config.json").write_text('{"hidden_size": 4, "max_position_embeddings": 64}')
    assert load_model(str(folder), "bundled", 1).degraded == ""
    file = folder / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | changes), "utf-8")
    with pytest.raises(UnsuitableModelError, match=r"tokenizer\.json is no usable tokenizer: "):
        load_model(str(folder), "bundled", 1)


@pytest.mark.parametrize("dimensions", [4, 10**30])
def test_weights_that_end_within_the_table_of_words_are_refused(
    tiny_model: TinyModel, dimensions: int
) -> None:
    folder = tiny_model()
    (folder / "onnx" / "model.onnx").write_bytes(b"word_embeddings.int8\x4aAAAAxxx")
    with pytest.raises(ModelError, match=r"model\.onnx is no usable model"):
        OnnxEncoder(folder, spec(dimensions=dimensions))


def test_half_a_surrogate_pair_is_a_letter_that_no_model_knows(encoder: Encoder) -> None:
    assert np.array_equal(encoder.query("a \ud800 b"), encoder.query("a ? b"))


def test_a_model_of_other_dimensions_is_refused_at_once(tiny_model: TinyModel) -> None:
    with pytest.raises(ModelError, match=r"expected \[batch, tokens, 384\]"):
        OnnxEncoder(tiny_model(), spec(dimensions=384))


@pytest.mark.parametrize("inputs", [["input_ids"], ["ids", "attention_mask"]])
def test_a_model_with_other_inputs_is_refused_at_once(
    tiny_model: TinyModel, inputs: list[str]
) -> None:
    with pytest.raises(ModelError, match="expected input_ids, attention_mask"):
        OnnxEncoder(tiny_model(inputs=inputs), spec())


def test_a_model_knows_words_and_not_what_it_has_to_spell_out(encoder: Encoder) -> None:
    words = ("read", "kubernetes", "authentication", "timezones", "asdfghjkl", "skdjfh", "77777777")
    assert [word for word in words if encoder.knows(word)] == [
        "read",
        "authentication",
        "timezones",
    ]
    assert not encoder.knows("\U0001f680")
