"""Packed texts are a sequence of the texts that were added."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscript.postgres.packed_texts import PackedTexts


@given(st.lists(st.text(st.characters(), max_size=9)), st.integers(0, 9), st.integers(0, 9))
def test_what_is_packed_is_unpacked(texts: list[str], start: int, stop: int) -> None:
    packed = PackedTexts()
    for text in texts:
        packed.append(text)
    assert len(packed) == len(texts)
    assert list(packed) == texts
    assert packed[start:stop] == texts[start:stop]
    with pytest.raises(IndexError):
        _ = packed[len(texts)]


def test_half_of_a_surrogate_pair_is_kept() -> None:
    packed = PackedTexts()
    packed.append("a\ud800")
    assert packed[0] == "a\ud800"
