"""Waiting has an end: that of the waiting, of the patience or of the application."""

import time
from typing import Any

import pytest

from toolscript.errors import GatewayError, ModelError
from toolscript.surfaces.cli.connect import wait_until_ready
from toolscript.surfaces.cli.gateway_client import Parameters
from toolscript.surfaces.cli.progress import TimeLeft


class Answers:
    """An application that has these answers, and from then on the last."""

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        self._answers = list(answers)
        self.asked = 0

    def get(self, path: str, parameters: Parameters = ()) -> dict[str, Any]:
        del path, parameters
        answer = self._answers[min(self.asked, len(self._answers) - 1)]
        self.asked += 1
        if isinstance(answer, Exception):
            raise answer
        return answer

    def post(self, path: str, body: bytes) -> dict[str, Any]:
        raise NotImplementedError

    def another(self) -> "Answers":
        return self

    def wait(self, timeout_s: float) -> None:
        time.sleep(timeout_s)


def health(status: str = "starting", waiting: int = 3, *servers: str) -> dict[str, Any]:
    return {"status": status, "tools": 9, "toolsWaiting": waiting, "waitingFor": list(servers)}


def test_waiting_ends_when_all_is_ready() -> None:
    client = Answers(health(), health(waiting=2), health("ready", 0))
    wait_until_ready(client, 60)
    assert client.asked == 3


@pytest.mark.parametrize(
    ("state", "expected"),
    [(health(), "3 tools to be indexed"), (health("starting", 0, "moon", "sun"), "moon, sun")],
)
def test_waiting_ends_when_nothing_changes_any_more(state: dict[str, Any], expected: str) -> None:
    with pytest.raises(GatewayError, match=f"nothing happens any more .* for {expected};"):
        wait_until_ready(Answers(state), 0.01, 0.01)


def test_as_long_as_something_changes_waiting_goes_on() -> None:
    changing = [health(waiting=number) for number in range(5, 0, -1)]
    wait_until_ready(Answers(*changing, health("ready", 0)), 0, 0)


def test_waiting_ends_with_the_application() -> None:
    with pytest.raises(ModelError, match="it broke"):
        wait_until_ready(Answers(health(), ModelError("it broke")), 60)


def test_the_time_left_follows_the_speed_so_far() -> None:
    left = TimeLeft()
    states = [(100, 1.0), (300, 2.0), (300, 3.0), (200, 4.0), (50, 12.0), (0, 13.0)]
    assert [left.estimate(*state) for state in states] == [None, None, None, 4.0, 2.0, 0.0]
