"""Random secrets in random places, and random names made to be mistaken: rows M8 and M10."""

import json
import random
import string

from tests.endurance.effort import Effort
from tests.hostile.redaction_corpus import VARIABLES, Case, leaked, spellings
from toolscript.config.entry import Source, server
from toolscript.text.names import deceptive_name
from toolscript.text.redaction import redact

_PLACES = (
    *(("--flavour", "{}"), ("--flavour={}",), ("{}",), ("-p", "{}"), ("-e", "FLAVOUR={}")),
    *(("--header", "X-Flavour: {}"), ("--config", '{"apiKey": {json}}'), ("a=1;Password={}",)),
)
_ALPHABETS = (
    string.ascii_letters + string.digits,
    "".join(sorted(set(string.printable[:94]) - set(";, \"'{}&=:"))),
    string.ascii_letters + "äöüßéñкл秘密%+/",
)
_TWINS = dict(zip("aeopcyxi", "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456", strict=True))
_UNSEEN = ("\u2800", "\u3164", "\u200b", "\u202e", "\u00ad", "\ufeff", "\u034f", "\ufe0f")


def made_up(chance: random.Random) -> Case:
    """Returns a random secret of random characters among the arguments of a command."""
    alphabet, place = chance.choice(_ALPHABETS), chance.choice(_PLACES)
    text = "".join(chance.choice(alphabet) for _ in range(chance.randint(8, 40)))
    secret = f"x{text}{chance.choice(['', '=='])}"
    words = (word.replace("{json}", json.dumps(secret)).replace("{}", secret) for word in place)
    return Case(str(place), secret, tuple(words))


def test_m8_no_spelling_of_a_made_up_secret_is_shown(effort: Effort) -> None:
    chance = effort.chance
    for _ in range(effort.times(1000)):
        case = made_up(chance)
        entry = {"command": "x", "args": list(case.args), "env": case.env}
        secrets = server("s", entry, Source(VARIABLES)).secrets
        for how, line in spellings(case.secret).items():
            assert not leaked(case.secret, redact(line, secrets)), (case, how)


def mistakable(chance: random.Random) -> str:
    """Returns a plain name with a letter exchanged for its twin, or with something unseen."""
    name = "".join(chance.choice("aeopcyxibdrst_") for _ in range(chance.randint(4, 20))) + "a"
    at = chance.randrange(len(name))
    return chance.choice(
        [
            name[:at] + chance.choice(_UNSEEN) + name[at:],
            f"{name} ",
            name.replace("a", chr(0xFF41)),
            *(name.replace(each, twin, 1) for each, twin in _TWINS.items() if each in name),
        ]
    )


def test_m10_a_name_made_to_be_mistaken_is_deceptive(effort: Effort) -> None:
    chance = effort.chance
    for _ in range(effort.times(2000)):
        assert deceptive_name(name := mistakable(chance)), name
