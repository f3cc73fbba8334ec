"""Skills in a running application: found, followed, searched beside tools."""

import json
import shutil
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.skills.sample import OWN_PASSAGES, put
from tests.support import READ_FILE, Running, Scripted, running, until, write_config
from toolscript.bootstrap import Wiring
from toolscript.errors import SkillError
from toolscript.skills.folders import AddedFolders
from toolscript.skills.scanner import MADE_BY
from toolscript.storage.blob_store import BlobStore, BlobTable
from toolscript.types import Grant, SearchRequest

BUNDLED = {"TOOLSCRIPT_SEARCH_MODEL": "bundled"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the project keeps its skills."""
    return put(tmp_path / ".agents" / "skills")


@pytest.fixture
def now(folder: Path, tmp_path: Path) -> Generator[Running]:
    """An application that follows them."""
    config = write_config(tmp_path / "servers.json", {})
    with running(config, BUNDLED, Wiring(follow=True)) as now:
        until(lambda: now.app.skills().report().ready and now.app.skills().all(), "it is indexed")
        yield now


def names(now: Running) -> list[str]:
    return [skill.name for skill in now.app.skills().all()]


def finds(now: Running, text: str) -> list[str]:
    result = now.portal.call(now.app.skills().search, SearchRequest(text=text))
    return [hit.document.parent_id.partition("__")[2] for hit in result.hits]


def stats(now: Running) -> Mapping[str, int]:
    found = now.app.skills().report().stats
    assert found is not None
    return found


def embedded(now: Running) -> int:
    return stats(now)["passagesEmbedded"]


def test_the_usual_folders_are_looked_into(now: Running) -> None:
    """skills:folders: found recursively, a folder with a manifest as one."""
    assert names(now) == ["kitchen/bread.md", "notes.txt", "pdf-forms", "toolscript"]
    assert finds(now, "how long does a loaf stay in the oven")[0] == "kitchen/bread.md"
    assert finds(now, "write into the boxes of a document")[0] == "pdf-forms"
    assert finds(now, "zxqv blorp") == []


@pytest.mark.requirement("skills:folders")
def test_an_edit_is_followed_and_only_that_embedded(now: Running, folder: Path) -> None:
    """skills:folders: the passage, and the text as a whole."""
    before = embedded(now)
    file = folder / "kitchen" / "bread.md"
    text = file.read_text("utf-8").replace("a closed pot.", "a closed pot. Let it cool on a rack.")
    file.write_text(text, "utf-8")
    until(lambda: "on a rack" in str(now.app.skills().all()), "it is seen")
    until(lambda: now.app.skills().report().ready, "it is indexed")
    assert embedded(now) == before + 2
    assert finds(now, "let the bread cool")[0] == "kitchen/bread.md"


@pytest.mark.requirement("skills:folders")
def test_what_is_added_and_deleted_is_followed(now: Running, folder: Path) -> None:
    """skills:folders: folders too, and what is moved into place."""
    (folder / "garden").mkdir()
    (folder / "garden" / "roses.md").write_text("Cut the roses back in March.", "utf-8")
    until(lambda: finds(now, "pruning roses") == ["garden/roses.md"], "the new one is found")
    shutil.rmtree(folder / "garden")
    until(lambda: "garden/roses.md" not in names(now), "it is gone")
    until(lambda: now.app.skills().report().ready, "it is indexed")
    assert finds(now, "pruning roses") == []
    beside = folder.parent / "beside.md"
    beside.write_text("Cut the hedge in June.", "utf-8")
    beside.rename(folder / "hedge.md")
    until(lambda: finds(now, "trimming a hedge") == ["hedge.md"], "what was moved is found")


@pytest.mark.requirement("skills:folders")
def test_what_is_gone_is_gone_from_the_cache(now: Running, folder: Path, tmp_path: Path) -> None:
    [path] = (tmp_path / "data" / "cache" / "skills").glob("skills-*.sqlite")
    kept = BlobStore(path)

    def told() -> list[str]:
        tables: tuple[BlobTable, ...] = ("files", "vectors")
        rows = [kept.load(t, version) for t in tables if (version := kept.writer_version(t))]
        return [key for keys in rows for key in keys if "notes.txt" in key]

    until(lambda: len(told()) == 3, "the file, its text and its passage are kept")
    (folder / "notes.txt").unlink()
    until(lambda: not told(), "what was derived from it is dropped")


def test_a_folder_that_comes_later_is_found(now: Running, folder: Path, tmp_path: Path) -> None:
    """skills:folders: and one that goes is missed."""
    other = tmp_path / ".claude" / "skills"
    other.mkdir(parents=True)
    (other / "later.md").write_text("Water the lawn before sunrise.", "utf-8")
    until(lambda: "later.md" in names(now), "it is found")
    shutil.rmtree(folder)
    until(lambda: names(now) == ["later.md", "toolscript"], "the others are gone")


def test_a_folder_that_is_added_by_hand_is_found(now: Running, tmp_path: Path) -> None:
    extra = tmp_path / "extra"
    extra.mkdir()
    (extra / "extra.md").write_text("Polish the silver with chalk.", "utf-8")
    added = AddedFolders.of(tmp_path / "data")
    assert added.add(extra)
    assert not added.add(extra)
    until(lambda: "extra.md" in names(now), "it is found")
    assert added.remove(extra)
    until(lambda: "extra.md" not in names(now), "it is forgotten")


def test_folders_added_at_once_are_all_kept(tmp_path: Path) -> None:
    """skills:folders: and a damaged list is not written over."""
    added = AddedFolders.of(tmp_path)
    folders = [tmp_path / str(number) for number in range(8)]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(AddedFolders.of(tmp_path).add, folders))
    assert set(added.folders()) == set(folders)
    added.path.write_text("{", "utf-8")
    with pytest.raises(SkillError, match="cannot be read"):
        added.add(folders[0])
    assert added.folders() == ()
    assert added.path.read_text("utf-8") == "{"


def test_a_refresh_sees_what_was_written_before_it(now: Running, folder: Path) -> None:
    """skills:folders: also while a look is under way."""
    for number in range(10):
        (folder / f"{number}.md").write_text(f"Text {number}.", "utf-8")
        now.portal.call(now.app.skills().refresh)
        assert f"{number}.md" in names(now)
        assert now.app.skills().report().ready


def test_the_configuration_names_the_folders(now: Running, folder: Path, tmp_path: Path) -> None:
    """skills:folders: instead of the usual ones, and may be edited."""
    put(tmp_path / "mine")
    (tmp_path / "mine" / "mine.md").write_text("Mine.", "utf-8")
    config = tmp_path / "servers.json"
    config.write_text('{"mcpServers": {}, "skills": ["mine"]}', "utf-8")
    until(lambda: "mine.md" in names(now), "the other folder is looked into")
    config.write_text('{"mcpServers": {}, "skills": []}', "utf-8")
    until(lambda: not names(now), "there is none any more")
    config.write_text('{"mcpServers": {}, "skills": "mine"}', "utf-8")
    until(lambda: now.app.skills().report().problems, "the mistake is told")
    assert "skills is 'mine'; expected a list of strings" in now.app.skills().report().problems[0]
    assert "pdf-forms" in until(lambda: names(now), "the usual folders count")


@pytest.mark.requirement("skills:folders")
def test_a_second_start_embeds_nothing(folder: Path, tmp_path: Path) -> None:
    """skills:folders: the index is kept, and what is in step is not written again."""
    config = write_config(tmp_path / "servers.json", {})
    counts: list[Mapping[str, int]] = []
    written: set[int] = set()
    for _ in range(2):
        with running(config, BUNDLED, Wiring(skills="scan_once")) as now:
            now.settle()
            assert finds(now, "baking bread")[0] == "kitchen/bread.md"
            counts.append(stats(now))
        [path] = (tmp_path / "data" / "cache" / "skills").glob("skills-*.sqlite")
        written.add(path.stat().st_mtime_ns)
        assert BlobStore(path).load("files", MADE_BY), "what was read is kept"
    assert len(written) == 1
    assert counts[0]["passagesEmbedded"] == counts[0]["passages"] == 8 + OWN_PASSAGES
    assert counts[1]["passagesEmbedded"] == 0
    assert counts[1]["passagesFromCache"] == 8 + OWN_PASSAGES


MANIFEST = "---\nname: {name}\ndescription: About {name}.\n---\nThe text of {name}.\n"


@pytest.mark.requirement("skills:folders")
@pytest.mark.parametrize("outer", ["", "office/"])
def test_a_skill_within_another_is_read_by_those_only_who_may(
    folder: Path, tmp_path: Path, outer: str
) -> None:
    """skills:folders: whatever way its files are named, and also below a broken manifest."""
    for path, name in ((outer, "outer"), (f"{outer}a/inner/", "inner"), (f"{outer}broken/", "")):
        file = folder / path / "SKILL.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(MANIFEST.format(name=name), "utf-8")
    for path in ("a/note.txt", "a/inner/deep/key.txt", "broken/key.txt"):
        file = folder / outer / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("A note.", "utf-8")
    config = write_config(tmp_path / "servers.json", {})
    theirs = ("a/inner/SKILL.md", "./a//inner/SKILL.md", "a/Inner/skill.md", "a/inner/deep/key.txt")
    with running(config, BUNDLED, Wiring(skills="scan_once")) as now:
        now.settle()

        def read(file: str, grant: Grant) -> str:
            return now.portal.call(now.app.skills(grant).read, "outer", file).text

        outer_only = Grant(tools=("skills__outer",))
        both = Grant(tools=("skills__outer", "skills__inner"))
        assert read("a/note.txt", outer_only) == "A note."
        for file in (*theirs, "broken/SKILL.md", "broken/key.txt", "a/inner/none.txt"):
            with pytest.raises(SkillError, match=r"' does not exist$"):
                read(file, outer_only)
        assert read("a/inner/SKILL.md", both).endswith("The text of inner.\n")
        assert read("a/inner/deep/key.txt", both) == "A note."
        assert read("broken/key.txt", Grant(servers=("*",))) == "A note."


@pytest.mark.requirement("skills:folders")
def test_tools_and_skills_stand_in_one_list(
    folder: Path, tmp_path: Path, scripted: Scripted
) -> None:
    """skills:folders: by their confidence; without being asked for, skills stay away."""
    config = write_config(tmp_path / "servers.json", {"files": scripted(READ_FILE)})
    with running(config, BUNDLED) as now:
        now.settle()
        until(lambda: now.app.skills().report().ready, "the skills are indexed")
        both = now.search("read a form as a file from disk", skills=True, threshold=0.0, limit=2)
        assert {hit.document.server for hit in both.hits} == {"files", "skills"}
        assert [hit.score for hit in both.hits] == sorted(
            (h.score for h in both.hits), reverse=True
        )
        only = now.search("read a form as a file from disk", threshold=0.0)
        assert {hit.document.server for hit in only.hits} == {"files"}


def test_skills_are_found_where_there_are_no_tools(now: Running) -> None:
    found = now.search("baking bread", skills=True).hits
    assert found[0].document.parent_id == "skills__kitchen/bread.md"


@pytest.mark.requirement("skills:folders")
def test_the_skill_of_the_product_is_served_with_others_unless_folders_are_named(
    folder: Path, tmp_path: Path
) -> None:
    """skills:folders: by itself it makes no list of tools longer."""
    usual = write_config(tmp_path / "usual.json", {})
    with running(usual, BUNDLED, Wiring(skills="scan_once")) as now:
        now.settle()
        assert finds(now, "when should I search for a tool")[0] == "toolscript"
        [own] = [skill for skill in now.app.skills().all() if skill.name == "toolscript"]
        assert "search_tools" in str(own.passages)
    named = tmp_path / "named.json"
    named.write_text(json.dumps({"mcpServers": {}, "skills": [str(folder)]}), "utf-8")
    with running(named, BUNDLED, Wiring(skills="scan_once")) as now:
        now.settle()
        assert "toolscript" not in names(now)
    shutil.rmtree(folder)
    with running(usual, BUNDLED, Wiring(skills="scan_once")) as now:
        now.settle()
        assert names(now) == []
