"""Writes the full-precision vectors that the bundled int8 model is judged against.

They come from PyTorch running the trained weights. Nothing here shares code with
``onnx_graph``: a fault in the graph or its quantisation must show up as a
difference, not be repeated. Run it after a training, on the same work folder::

    python -m training.reference_vectors
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

import torch

from training import bundled_model
from training.encoder import Encoder
from training.published_model import sha256

MAX_TOKENS = 256
DECIMALS = 6
OUT = Path(__file__).resolve().parents[1] / "tests/embedding/data/fp32_reference.json"

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


def main() -> int:
    """Embed every text alone, so that no padding takes part, and write the reference file."""
    parser = argparse.ArgumentParser(prog="python -m training.reference_vectors")
    parser.add_argument(
        "--work", type=Path, default=bundled_model.WORK, help="the training's work folder"
    )
    parser.add_argument("--out", type=Path, default=OUT, help="the JSON file to write")
    options = parser.parse_args()
    weights = options.work / bundled_model.WEIGHTS
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name, torch.inference_mode():
        folder = Path(name)
        shutil.copytree(options.work / bundled_model.PUBLISHED, folder, dirs_exist_ok=True)
        shutil.copy(weights, folder / "model.safetensors")
        encoder = Encoder(folder, MAX_TOKENS)
        encoder.eval()
        items = [
            {
                "text": text,
                "vector": [round(value, DECIMALS) for value in encoder([text])[0].tolist()],
            }
            for text in TEXTS
        ]
    meta = {
        "model": bundled_model.NAME,
        "weights_sha256": sha256(weights.read_bytes()),
        "method": "PyTorch in full precision, one text at a time",
        "max_tokens": MAX_TOKENS,
        "written_by": "python -m training.reference_vectors",
    }
    lines = ",\n".join(json.dumps(item, ensure_ascii=False) for item in items)
    head = json.dumps(meta, indent=1)
    options.out.write_text(f'{{"meta": {head},\n"items": [\n{lines}\n]}}\n', encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
