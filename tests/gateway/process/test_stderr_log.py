"""What servers say on standard error: kept, and kept short."""

from pathlib import Path

import pytest

from toolscript.gateway.process.stderr_log import MAX_BYTES, StderrLog


def test_the_last_words_are_those_of_this_run(tmp_path: Path) -> None:
    log = StderrLog(tmp_path / "logs" / "it.log")
    for words in (b"first\n", b"second\n\n"):
        with log.opened():
            assert log.last_line == ""
            log.write(words[:3])
            log.write(words[3:])
        assert log.last_line == words.decode().strip()
    assert (tmp_path / "logs" / "it.log").read_bytes() == b"second\n\n"
    assert (tmp_path / "logs" / "it.log.1").read_bytes() == b"first\n", "those before are kept"


def test_of_a_crash_of_node_the_error_is_shown(tmp_path: Path) -> None:
    log = StderrLog(tmp_path / "it.log")
    with log.opened():
        log.write(b"node:internal/modules/cjs/loader:1210\n  throw err;\n  ^\n\n")
        log.write(b"Error: Cannot find module '/srv/notes.js'\n    at Module._load (x.js:1)\n")
        log.write(b"    at Error (x.js:2) {\n  code: 'MODULE_NOT_FOUND'\n}\n\nNode.js v20.20.2\n")
        assert log.last_line == "Error: Cannot find module '/srv/notes.js'"
    with log.opened():
        log.write(b"begun\nNode.js v22 is too old\n")
        assert log.last_line == "Node.js v22 is too old", "there is no error to show instead"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            (
                "docker: Cannot connect to the Docker daemon. Is it running?\n\n"
                "Run 'docker run --help' for more information\n"
            ),
            "docker: Cannot connect to the Docker daemon. Is it running?",
        ),
        (
            (
                "error: unexpected argument '--nope' found\n\nUsage: notes [OPTIONS]\n\n"
                "For more information, try '--help'.\n"
            ),
            "error: unexpected argument '--nope' found",
        ),
        (
            (
                "npm error code E404\nnpm error 404 Not Found - GET https://packages.example/nope\n"
                "npm error 404\nnpm error 404 Note that you can also install from a\n"
                "npm error 404 tarball, folder, http url, or git url.\n"
                "npm error A complete log of this run can be found in: /home/_logs/debug-0.log\n"
                "npm notice\nnpm notice New minor version of npm available!\n"
            ),
            "npm error 404 Not Found - GET https://packages.example/nope",
        ),
        (
            (
                "npm ERR! code ENOENT\nnpm ERR! syscall open\nnpm ERR! path /srv/package.json\n"
                "npm ERR! errno -2\nnpm ERR! enoent Could not read package.json\n"
                "npm ERR! enoent This is related to npm not being able to find a file.\n"
            ),
            "npm ERR! enoent Could not read package.json",
        ),
        (
            (
                "thread 'main' panicked at src/main.rs:2:5:\nno licence\n"
                "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n"
            ),
            "no licence",
        ),
        ("git: 'nope' is not a git command. See 'git --help'.\n", None),
        ("use of the key failed: see the help page\n", None),
    ],
)
def test_lines_that_only_point_elsewhere_are_passed_over(
    tmp_path: Path, words: str, reason: str | None
) -> None:
    log = StderrLog(tmp_path / "it.log")
    with log.opened():
        log.write(words.encode())
        assert log.last_line == (reason or words.strip())


def test_what_another_process_writes_into_the_file_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "it.log"
    log = StderrLog(path)
    with log.opened():
        log.write(b"ours\n")
        path.unlink()
        path.write_text("theirs\n")
        log.write(b"ours again\n")
        assert log.last_line == "ours again"
    assert path.read_text() == "theirs\n"


def test_a_new_file_is_begun_before_one_is_too_long(tmp_path: Path) -> None:
    path = tmp_path / "it.log"
    log = StderrLog(path)
    with log.opened():
        log.write(b"x" * MAX_BYTES)
        assert path.stat().st_size == MAX_BYTES
        log.write(b"one more\n")
        assert path.read_bytes() == b"one more\n"
        assert path.with_name("it.log.1").stat().st_size == MAX_BYTES
        log.write(b"x" * MAX_BYTES)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["it.log", "it.log.1"]
    assert path.with_name("it.log.1").read_bytes() == b"one more\n"


def test_a_file_that_is_handed_over_is_read_afterwards(tmp_path: Path) -> None:
    log = StderrLog(tmp_path / "it.log")
    with log.opened():
        with log.handed_over() as file:
            file.write("last words\n")
            file.flush()
        assert log.last_line == "last words"


def test_without_a_file_the_end_is_kept_and_it_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "logs").write_text("no directory")
    log = StderrLog(tmp_path / "logs" / "it.log")
    for _ in range(2):
        with log.opened(), log.handed_over() as file:
            file.write("to nowhere\n")
            log.write(b"heard\n")
            assert log.last_line == "heard"
    [record] = caplog.records
    assert "it.log" in record.getMessage()
