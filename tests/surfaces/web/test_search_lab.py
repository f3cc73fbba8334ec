"""The search lab: results with their reasons, settings in the address."""

from collections.abc import Generator
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from tests.support import READ_FILE, SEND_MAIL, Cli, Scripted, tool
from tests.surfaces.web.browser import Browser, Element

from toolscript.surfaces.http.search_answers import ToolHit
from toolscript.surfaces.web.rendering import bar

LIST = tool("list_directory", "List the files of a directory", annotations={"readOnlyHint": True})
NOTE = (
    "---\nname: tidy-mail\ndescription: How to tidy up a mail box\n---\nArchive old mail first.\n"
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Generator[Browser]:
    """A gateway with the bundled model, a skill, a profile and a server that is down."""
    home = tmp_path_factory.mktemp("lab")
    cli, scripted = Cli(home), Scripted(home)
    config = cli.configure(
        files=scripted(READ_FILE, LIST), mail=scripted(SEND_MAIL), dead={"command": "/none"}
    )
    skill = home / "skills" / "tidy-mail"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(NOTE)
    written = msgspec.json.decode(config.read_bytes())
    written |= {
        "profiles": {"quiet": {"permissions": {"mail__*": "deny"}}},
        "skills": [str(skill.parent)],
    }
    config.write_bytes(msgspec.json.encode(written))
    browser = Browser(cli.start_gateway())
    with cli:
        yield browser.log_in(cli)


def names(page: Element) -> list[str]:
    return [each.text for each in page.all("a", class_="name")]


def test_a_question_finds_tools_with_everything_that_explains_them(lab: Browser) -> None:
    page = lab.page("/ui/?q=read+what+is+in+a+file")
    first = page.all("li", class_="hit")[0]
    assert first.one("a", class_="name").text == "read_file"
    assert first.one("span", class_="server").text == "files"
    assert first.one("span", class_="badge").text == "read"
    assert "tokens" in first.one("span", class_="price").text
    label = first.one("svg", class_="bar").attributes["aria-label"] or ""
    assert label.startswith(f"confidence {first.one('span', class_='score').text}: semantic")
    assert first.one("p", class_="reason").text
    assert page.one("p", class_="status").text.startswith("1 result, ")


def test_the_page_and_its_json_say_the_same(lab: Browser) -> None:
    query = "?q=list+files&threshold=0"
    answer = lab.open(f"/ui/search.json{query}").json
    assert names(lab.page(f"/ui/{query}")) == [e["toolName"] for e in answer["search"]["results"]]
    assert answer["tokens"].keys() == {e["toolId"] for e in answer["search"]["results"]}


def test_only_what_is_unfolded_has_its_evidence(lab: Browser) -> None:
    page = lab.page("/ui/?q=list+files&threshold=0")
    assert not page.all("table", class_="explanation")
    unfold = page.all("a", class_="unfold")[0].attributes["href"] or ""
    path = unfold.partition("#")[0]
    table = lab.page(path).one("table", class_="explanation")
    assert "nearest is" in table.text
    results = lab.open(path.replace("/ui/?", "/ui/search.json?")).json["search"]["results"]
    with_evidence = [
        hit["toolId"]
        for hit in results
        if any(share["evidence"] for share in hit["explanation"]["shares"])
    ]
    assert with_evidence == [results[0]["toolId"]]
    again = lab.page(path).all("a", class_="unfold")[0].attributes["href"] or ""
    assert "open=" not in again


def test_settings_count_for_one_view_and_stand_in_its_address(lab: Browser) -> None:
    def view(**settings: object) -> Any:
        address = "&".join(f"{name}={value}" for name, value in settings.items())
        return lab.open(f"/ui/search.json?q=send+a+message&{address}").json

    assert len(view(threshold=0, limit=1)["search"]["results"]) == 1
    by_words, by_meaning = view(threshold=0, alpha=0), view(threshold=0, alpha=1)
    assert by_words["view"]["alpha"] == 0
    assert [e["confidence"] for e in by_words["search"]["results"]] != [
        e["confidence"] for e in by_meaning["search"]["results"]
    ]
    found = view(threshold=0, profile="quiet")["search"]["results"]
    assert {hit["serverName"] for hit in found} == {"files"}
    assert view(alpha="", threshold="")["view"]["threshold"] == 0.35, "blank fields count as none"
    page = lab.page("/ui/?q=send&alpha=0.2")
    assert page.one("input", name="alpha").attributes["value"] == "0.2"


def loaded_model(lab: Browser) -> str:
    return lab.open("/ui/search.json").json["model"]


def test_a_view_without_the_model_is_named_in_its_address(lab: Browser) -> None:
    """And is not what a weight of 0 gives: the model counts for more than its weight."""

    def hits(settings: str) -> list[Any]:
        answer = lab.open(f"/ui/search.json?q=send+mail+message&threshold=0&{settings}").json
        return answer["search"]["results"]

    assert {*hits("model=none")[0]["signals"]} == {"fuzzy"}
    assert {*hits("alpha=0")[0]["signals"]} == {"fuzzy", "semantic"}
    assert [e["confidence"] for e in hits("model=none")] != [
        e["confidence"] for e in hits("alpha=0")
    ]
    assert hits("model=none&alpha=1") == hits("model=none")
    assert hits(f"model={quote(loaded_model(lab))}") == hits("")
    assert any(e["kind"] == "skill" for e in hits("model=none&skills=true"))


def test_the_model_of_a_view_is_chosen_in_its_form(lab: Browser) -> None:
    options = lab.page("/ui/?q=send+mail&model=none").one("select", name="model").all("option")
    assert {each.attributes["value"]: each.text for each in options} == {
        "": loaded_model(lab),
        "none": "none: words only",
    }
    assert [e.text for e in options if "selected" in e.attributes] == ["none: words only"]


def test_a_model_that_is_not_loaded_is_refused_with_the_one_that_is(lab: Browser) -> None:
    text = lab.page("/ui/?q=x&model=Xenova/bge-small-en-v1.5").one("p", class_="problem").text
    assert "Xenova/bge-small-en-v1.5" in text
    assert loaded_model(lab) in text


@pytest.mark.parametrize("wrong", ["alpha=2", "alpha=x", "limit=0", "threshold=7"])
def test_a_setting_out_of_range_is_one_line(lab: Browser, wrong: str) -> None:
    answer = lab.open(f"/ui/?q=x&{wrong}")
    assert answer.status == 400
    assert wrong.partition("=")[0] in answer.page.one("main").text


def test_why_not(lab: Browser) -> None:
    page = lab.page("/ui/?q=list+files&why=send_mail")
    verdict = page.one("section", class_="verdict")
    assert "below the threshold" in verdict.text
    assert "meaning" in verdict.text
    assert (
        "none-such" in lab.page("/ui/?q=list&why=none-such").one("section", class_="verdict").text
    )


def test_skills_beside_tools(lab: Browser) -> None:
    page = lab.page("/ui/?q=tidy+up+my+mail+box&skills=true&threshold=0")
    [skill] = [e for e in page.all("li", class_="hit") if "tidy-mail" in e.text]
    assert skill.one("span", class_="badge").text == "skill"


def test_what_could_not_be_searched(lab: Browser) -> None:
    beside = lab.page("/ui/?q=file").one("section", class_="beside").text
    assert "Not searched: dead" in beside


def test_nothing_found_names_the_nearest(lab: Browser) -> None:
    page = lab.page("/ui/?q=send+mail+to+somebody&threshold=1")
    assert "The nearest is send_mail" in page.one("p", class_="empty").text


def test_the_bar_adds_up_to_the_confidence(lab: Browser) -> None:
    for query in ("list files", "read_fiel", "send+mail+and+list+files", "zxqv+file"):
        for alpha in ("0", "0.7"):
            path = f"/ui/search.json?q={query.replace(' ', '+')}&threshold=0&alpha={alpha}"
            for row in lab.open(path).json["search"]["results"]:
                hit = msgspec.convert(row, ToolHit)
                shown = bar(hit)
                solid = [each for each in shown.segments if each.kind != "taken"]
                assert sum(each.width for each in solid) == pytest.approx(
                    100 * hit.confidence, abs=0.5
                )
                assert all(e.start >= 0 and e.start + e.width <= 100.2 for e in shown.segments)
