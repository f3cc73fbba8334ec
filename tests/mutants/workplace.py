"""A copy of the repository in which the sources may be broken."""

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import monotonic

from tests.mutants.listed import ROOT, Mutant, noticing_tests
from tests.support import kill_all, processes

LIMIT_S = 300.0
MEMORY_BYTES = 6 * 1024**3
LINKED = (".servers", ".clients")
"""What was installed for the tests: too large to be copied, and not written to."""
NOTICED, SURVIVED = "noticed", "survived"
_FAILED = 1
_BOUNDED = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[1]),) * 2)
del sys.argv[:2]
sys.argv.insert(0, "pytest")
runpy.run_module("pytest", run_name="__main__", alter_sys=True)
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one break."""

    mutant: Mutant
    verdict: str
    """`NOTICED`, `SURVIVED`, or why neither can be said."""
    by: str = ""
    """The first test that failed."""
    seconds: float = 0.0
    output: str = ""


class Workplace:
    """A copy of the repository with an environment of its own, below one directory."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "tree"
        self._moments = count(1_000_000_000)
        _copy(self.root)
        self._python = _environment(self.root)

    def judge(self, mutant: Mutant) -> Verdict:
        """Make a break, run its tests, and take it back."""
        path = self.root / mutant.path
        text = path.read_text("utf-8")
        self._write(path, text.replace(mutant.old, mutant.new))
        try:
            return self._verdict(mutant)
        finally:
            self._write(path, text)

    def run(self, tests: Sequence[str], limit_s: float = LIMIT_S) -> tuple[int | None, str]:
        """Run tests up to the first that fails: pytest's exit status, None past the limit."""
        options = ["-x", "-q", "-p", "no:cacheprovider", "--no-header"]
        command = [self._python, "-c", _BOUNDED, str(MEMORY_BYTES), *options, *tests]
        with subprocess.Popen(
            command,
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                return _ended(process, limit_s)
            finally:
                kill_all(processes(str(self.root)))

    def _verdict(self, mutant: Mutant) -> Verdict:
        begin = monotonic()
        status, output = self.run(noticing_tests(mutant))
        seconds = monotonic() - begin
        if status == _FAILED:
            failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
            return Verdict(mutant, NOTICED, failed[1] if failed else "", seconds, output)
        told = {0: SURVIVED, None: f"ran past {LIMIT_S:g} s"}.get(status, f"exit status {status}")
        return Verdict(mutant, told, "", seconds, output)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, "utf-8")
        moment = next(self._moments)  # compiled files are told apart by the second
        os.utime(path, (moment, moment))


def _ended(process: subprocess.Popen[str], limit_s: float) -> tuple[int | None, str]:
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None, process.communicate()[0]
    return process.returncode, output


def _copy(root: Path) -> None:
    """Every file that git knows or would know, as it is now."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, root / name)
            shutil.copymode(ROOT / name, root / name)
    for name in LINKED:
        if (ROOT / name).exists():
            (root / name).symlink_to(ROOT / name)


def _environment(root: Path) -> str:
    """An environment with the packages of this one, and with the copy for this project."""
    folder, here = root / ".venv", Path(sys.executable).parent
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    [packages] = folder.glob("lib/python*/site-packages")
    paths = [str(root / "src"), sysconfig.get_path("purelib")]
    (packages / "copy.pth").write_text("\n".join(paths) + "\n", "utf-8")
    python = str(folder / "bin" / "python")
    for program in here.iterdir():
        copy = folder / "bin" / program.name
        if copy.exists() or not program.is_file():
            continue
        data = program.read_bytes() if program.stat().st_size < 2**16 else b""
        if data.startswith(b"#!") and data.split(b"\n")[0].startswith(f"#!{here}/python".encode()):
            copy.write_bytes(b"#!" + python.encode() + b"\n" + data.split(b"\n", 1)[1])
            copy.chmod(0o755)
        else:
            copy.symlink_to(program)
    return python
