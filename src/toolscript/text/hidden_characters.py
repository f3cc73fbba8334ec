"""Removes from a text the characters that people do not see, and those that steer a terminal."""

import re
from functools import cache

_EMOJI = "\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_JOINED = (
    "\u0600-\u061b\u061d-\u08ff\u0900-\u109f\u1780-\u17b3\u17b6-\u180a\u1820-\u18af"
    "\ufb50-\ufdff\ufe70-\ufefc"
)
"""Arabic and Indic scripts and their neighbours, which join and part letters by joiners."""
_IDEOGRAPHS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"


def strip_hidden(text: str) -> str:
    """Returns the text without control characters, escape sequences and characters of no width.

    Line feeds, carriage returns and tabs stay. So do emoji with all their parts, variants of
    ideographs, and a joiner behind a letter of a script that needs it. Takes time in proportion
    to the text; a second time changes nothing.
    """
    if text.isascii() and text.isprintable():
        return text
    return _conditional().sub(lambda match: match["kept"] or "", _unconditional().sub("", text))


@cache
def _unconditional() -> re.Pattern[str]:
    """Characters that always go."""
    return re.compile(
        r"\x1b(?:\[[0-?]*+[ -/]*+[@-~]"  # colours, movements of the cursor
        r"|[\]PX^_][^\x00-\x1f\x7f]*+(?:\x07|\x1b\\)"  # addresses, titles, the clipboard
        r"|[ -/]{0,2}[0-~])?"
        r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u17b4\u17b5\u180e"
        r"\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
        r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a]"
    )


@cache
def _conditional() -> re.Pattern[str]:
    """Characters that go unless they are ``kept``: for their neighbours, which always stay."""
    flags = "|".join(
        "".join(chr(0xE0000 + ord(letter)) for letter in region)
        for region in ("gbeng", "gbsct", "gbwls")
    )
    return re.compile(
        rf"(?P<kept>\U0001f3f4(?:{flags})\U000e007f"
        rf"|(?<=[#*0-9\xa9\xae\u203c\u2049\u2122\u2139{_EMOJI}])[\ufe0e\ufe0f]"
        rf"|(?:(?<=[{_EMOJI}])|(?<=[{_EMOJI}]\ufe0f))\u200d(?=[{_EMOJI}])"
        rf"|(?<=[{_JOINED}])[\u200c\u200d](?![\u200c\u200d])"
        rf"|(?<=[{_IDEOGRAPHS}])[\ufe00-\ufe02\U000e0100-\U000e01ef])"
        r"|[\u200c\u200d\ufe00-\ufe0f\U000e0000-\U000e0fff]"
    )
