import base64
import struct
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscript.text.display import encodable, printable
from toolscript.text.image_size import image_size
from toolscript.text.redaction import redact, redact_known
from toolscript.text.token_estimate import estimated_tokens, image_tokens
from toolscript.text.words import compact, words


def _png(width: int, height: int) -> str:
    header = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height)
    return base64.b64encode(header + bytes(900_000)).decode()


def test_tokens_are_estimated() -> None:
    """A text has a token for four bytes, an image for 750 pixels, and at most 1,600."""
    assert estimated_tokens(b"x" * 41) == 11
    assert image_tokens(image_size(_png(300, 250))) == 100
    assert image_tokens(image_size(_png(4000, 3000))) == image_tokens(None) == 1600


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("readFile", ["read", "file"]),
        ("read_file", ["read", "file"]),
        ("Read file!", ["read", "file"]),
        ("read-file.v2", ["read", "file", "v2"]),
        ("HTTPServerError", ["http", "server", "error"]),
        ("getURL", ["get", "url"]),
        ("__init__", ["init"]),
        ("Straße", ["strasse"]),
        ("ﬁle", ["file"]),
        ("天気を見る", ["天", "気", "を", "見", "る"]),
        ("отправить письмо", ["отправить", "письмо"]),
        ("", []),
        ("_ - ?! ", []),
    ],
)
def test_a_text_or_identifier_comes_apart_into_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    "spelling", ["readFile", "read_file", "READ FILE", "read-file", "r.eadfile"]
)
def test_every_spelling_of_a_name_is_compacted_alike(spelling: str) -> None:
    assert compact(spelling) == "readfile"


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_plain_text_comes_apart_like_any_other(text: str) -> None:
    """The quick way and the general one, which a letter beyond ASCII asks for, say the same."""
    assert words(text) == words(f"é {text}")[1:]
    assert compact(text) == compact(f"é{text}")[1:]


# U+0345 is the one mark that is a letter once case is folded.
@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\u0345")))
def test_the_words_of_a_text_compact_to_what_the_text_does(text: str) -> None:
    assert compact(" ".join(words(text))) == compact(text)


@given(st.text(alphabet=st.characters()), st.integers(1, 30))
def test_what_is_shown_has_no_control_or_format_characters(text: str, limit: int) -> None:
    shown = printable(text, limit)
    assert all(unicodedata.category(character)[0] != "C" for character in shown)
    assert all(character == " " or not character.isspace() for character in shown)
    assert len(shown) <= limit
    assert printable(text).startswith(shown.removesuffix("…"))


def test_terminal_escapes_and_bidirectional_overrides_are_dropped() -> None:
    assert printable("a\x1b[31mred\x1b[0m \u202eevil\u202c\r\nb\tc\0") == "a[31mred[0m evil b c"


def test_a_text_within_the_limit_is_not_cut() -> None:
    assert printable("twelve chars", 12) == "twelve chars"
    assert printable("thirteen char", 12) == "thirteen ch…"
    assert printable("a very long text " * 50) == ("a very long text " * 50).strip()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("token s3cret-s3cret!", "token ***!"),
        ("https://ana:pw@host/x", "https://***@host/x"),
        ("https://ana:p@w@host/x", "https://***@host/x"),
        ("https://host/x?mail=ana@example.org", "https://host/x?mail=ana@example.org"),
        ("https://host?mail=ana@example.org", "https://host?mail=ana@example.org"),
        ("two http://a@b and http://c:d@e", "two http://***@b and http://***@e"),
        ("ana@example.org", "ana@example.org"),
    ],
)
def test_secrets_and_the_user_information_of_urls_are_blanked(text: str, expected: str) -> None:
    assert redact(text, ["s3cret-s3cret"]) == expected


def test_known_secrets_are_blanked_in_any_spelling_and_nothing_else() -> None:
    secret = "pa/ss word+1"  # noqa: S105 - not one
    texts = ["it is pa/ss word+1", "pa%2Fss%20word%2B1", "token = abcdef1234567890", "x" * 100_000]
    assert redact_known(texts, [secret]) == ["it is ***", "***", *texts[2:]]
    assert redact_known(["ab abc x-ab"], ["ab"]) == ["*** abc x-***"]
    assert redact_known([], [secret]) == []
    assert redact_known(["x " * 50_000 + secret], [secret]) == ["x " * 50_000 + "***"]


@given(st.text(alphabet=st.characters()))
def test_any_text_can_be_made_encodable_and_most_is_already(text: str) -> None:
    shown = encodable(text)
    assert shown.encode().decode() == encodable(shown) == shown


def test_half_a_surrogate_pair_is_written_out() -> None:
    assert encodable("x\ud800y \u00e9 \U0001f600") == "x\\ud800y \u00e9 \U0001f600"


def test_a_long_text_is_cut_having_been_looked_at_only_so_far() -> None:
    assert printable("x" * 50_000_000, 10) == "x" * 9 + "…"
    assert printable("\x1b" * 30_000 + "seen", 10) == "…"
    assert printable("\x1b" * 30_000 + "seen") == "seen"


def encoded(head: bytes) -> str:
    return base64.b64encode(head + bytes(100)).decode()


@pytest.mark.parametrize(
    ("head", "size"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x07\x80\0\0\x04\x38", (1920, 1080)),
        (b"GIF89a\x40\x01\xf0\0", (320, 240)),
        (b"\xff\xd8\xff\xe0\0\x04JF\xff\xc4\0\x03x\xff\xc2\0\x11\x08\x01\xe0\x02\x80", (640, 480)),
        (b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x80\x02\xe0\x01", (640, 480)),
        (b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x7f\xc2\x77\0", (640, 480)),
        (b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x7f\x02\0\xdf\x01\0", (640, 480)),
        (b"\xff\xd8\xff", None),
        (b"\x89PNG\r\n\x1a\n"[:6], None),
        (b"<svg/>", None),
    ],
)
def test_the_size_of_an_image(head: bytes, size: tuple[int, int] | None) -> None:
    assert image_size(encoded(head)) == size
    assert image_size("*" + encoded(head)[1:]) is None
