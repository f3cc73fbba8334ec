"""The skills in folders: found, changed, gone; and what is told of the others."""

import hashlib
import os
import sys
from pathlib import Path

import msgspec
import pytest

from tests.support import until
from toolscript.skills.scanner import MADE_BY, Skill, SkillCatalogue, SkillScanner, read_skill
from toolscript.storage.blob_store import BlobStore

PDF = """\
---
name: pdf-forms
description: Fill in the fields of a PDF form.
---
# PDF forms

## Finding the fields

List them first.

## Filling

Then write the values.
"""


def write(root: Path, path: str, text: str = "Some text.") -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return file


def scan(
    *roots: Path, library: SkillScanner | None = None, before: SkillCatalogue | None = None
) -> SkillCatalogue:
    return (library or SkillScanner()).scan(roots, before or SkillCatalogue())


@pytest.mark.requirement("skills:folders")
def test_a_folder_with_a_manifest_is_one_skill(tmp_path: Path) -> None:
    """skills:folders: its other files are its own, and no skills."""
    write(tmp_path, "office/pdf/SKILL.md", PDF)
    write(tmp_path, "office/pdf/references/fields.md")
    write(tmp_path, "office/pdf/LICENSE.txt")
    [skill] = scan(tmp_path).skills.values()
    assert (skill.name, skill.id) == ("pdf-forms", "skills__pdf-forms")
    assert skill.description == "Fill in the fields of a PDF form."
    assert (skill.path, skill.folder) == ("office/pdf/SKILL.md", "office/pdf")
    assert [each.heading for each in skill.passages] == [
        "PDF forms > Finding the fields",
        "PDF forms > Filling",
    ]


@pytest.mark.requirement("skills:folders")
def test_text_files_are_skills_by_themselves(tmp_path: Path) -> None:
    """skills:folders: by their path, or the name that they state."""
    write(tmp_path, "deploy/how-to.md", "# Deploying\n\nPush the button.")
    write(tmp_path, "notes.ns.txt", "# a remark\n\ntext")
    write(tmp_path, "named.markdown", "---\nname: its own\n---\ntext")
    write(tmp_path, "picture.png")
    write(tmp_path, "README.md")
    catalogue = scan(tmp_path)
    assert list(catalogue.skills) == ["deploy/how-to.md", "its own", "notes.ns.txt"]
    assert catalogue.skills["deploy/how-to.md"].summary == "Deploying"
    titles = [each.title for each in catalogue.skills["deploy/how-to.md"].documents]
    assert titles == ["", "Deploying"]
    assert catalogue.skills["notes.ns.txt"].passages[0].heading == ""
    assert not catalogue.problems


def test_what_is_searched(tmp_path: Path) -> None:
    """skills:folders: the text as a whole, and every passage."""
    write(tmp_path, "pdf/SKILL.md", PDF)
    documents = scan(tmp_path).documents
    whole = "skills__pdf-forms"
    assert [each.id for each in documents] == [whole, f"{whole}\n0", f"{whole}\n1"]
    assert {each.parent_id for each in documents} == {whole}
    said = documents[0].description
    assert said.startswith("Fill in the fields of a PDF form.")
    assert all(each.title in said and each.description in said for each in documents)
    assert documents[2].title == "PDF forms > Filling"
    assert len({document.digest for document in documents}) == 3


@pytest.mark.requirement("skills:folders")
@pytest.mark.parametrize("name", ["'pdf-forms#0'", '"pdf-forms\\n0"'])
def test_no_skill_is_called_like_a_passage_of_another(tmp_path: Path, name: str) -> None:
    """skills:folders: both are searched."""
    write(tmp_path, "pdf/SKILL.md", PDF)
    write(tmp_path, "other.md", f"---\nname: {name}\n---\nBananas and pancakes.")
    catalogue = scan(tmp_path)
    assert len(catalogue.skills) == 2
    assert len({each.id for each in catalogue.documents}) == len(catalogue.documents) == 5


@pytest.mark.parametrize("name", ["pdf-forms", "skills:pdf-forms", "skills__pdf-forms"])
def test_a_skill_is_found_by_its_name_or_id(tmp_path: Path, name: str) -> None:
    write(tmp_path, "pdf/SKILL.md", PDF)
    found = scan(tmp_path).find(name)
    assert isinstance(found, Skill)
    assert scan(tmp_path).find("other") is None


@pytest.mark.requirement("skills:folders")
@pytest.mark.parametrize(
    ("path", "data", "told"),
    [
        ("a/SKILL.md", b"---\nname: &a x\n---\nx", "anchors and aliases"),
        ("b.md", b"  \n\n", "it is empty"),
        ("b.md", b"# Only\n\n## Headings\n", "it is empty"),
        ("b.md", b"\0\1\2", "is binary"),
    ],
)
def test_what_cannot_be_a_skill_is_told_and_costs_no_other(
    tmp_path: Path, path: str, data: bytes, told: str
) -> None:
    """skills:folders: a line with the file and what is wrong."""
    write(tmp_path, path, "")
    (tmp_path / path).write_bytes(data)
    write(tmp_path, "good.md", "Good.")
    catalogue = scan(tmp_path)
    assert list(catalogue.skills) == ["good.md"]
    [problem] = catalogue.problems
    assert str(tmp_path / path) in problem
    assert told in problem


@pytest.mark.requirement("skills:folders")
@pytest.mark.parametrize(
    ("data", "name", "description", "warnings"),
    [
        ("# Bread\n\nBake it.", "a", "", ["states no name and no description; add it"]),
        ("---\nname: b\n---\nBake it.", "b", "", ["states no description; add it"]),
        ("---\ndescription: Bake.\n---\nx", "a", "Bake.", ["states no name; add it"]),
        (
            "---\ndescription: Bake: it.\n---\nx",
            "a",
            "Bake: it.",
            ["is no YAML: mapping values are not allowed here, line 2", "states no name"],
        ),
    ],
)
def test_a_manifest_with_mistakes_is_a_skill_with_warnings(
    tmp_path: Path, data: str, name: str, description: str, warnings: list[str]
) -> None:
    """skills:folders: the folder has a name, too."""
    write(tmp_path, "a/SKILL.md", data)
    catalogue = scan(tmp_path)
    assert not catalogue.problems
    [skill] = catalogue.skills.values()
    assert (skill.name, skill.description) == (name, description)
    assert len(catalogue.warnings) == len(warnings)
    for told, warning in zip(catalogue.warnings, warnings, strict=True):
        assert told.startswith(f"{tmp_path}/a/SKILL.md: ")
        assert warning in told


def test_the_first_of_two_that_have_the_same_name_counts(tmp_path: Path) -> None:
    """skills:folders: the project's before the user's."""
    write(tmp_path / "project", "pdf/SKILL.md", PDF)
    write(tmp_path / "home", "forms/SKILL.md", PDF.replace("Fill in", "Look at"))
    catalogue = scan(tmp_path / "project", tmp_path / "home")
    assert catalogue.skills["pdf-forms"].root == str(tmp_path / "project")
    [problem] = catalogue.problems
    assert "has the same name; that one counts" in problem


# Looking again


@pytest.mark.requirement("skills:folders")
def test_only_what_changed_is_read_again(tmp_path: Path) -> None:
    """skills:folders: and a look that finds nothing new makes no new catalogue."""
    for number in range(5):
        write(tmp_path, f"{number}.md", f"Text {number}.")
    library = SkillScanner()
    first = scan(tmp_path, library=library)
    assert library.files_read == 5
    assert scan(tmp_path, library=library, before=first) is first
    write(tmp_path, "3.md", "Other text.")
    second = scan(tmp_path, library=library, before=first)
    assert library.files_read == 6
    assert second.skills["3.md"].passages[0].text == "Other text."
    assert second.skills["4.md"] is first.skills["4.md"]


def test_another_process_reads_again_what_changed_since(tmp_path: Path) -> None:
    """skills:folders: the index is kept on disk."""
    folder, kept = tmp_path / "skills", BlobStore(tmp_path / "kept.sqlite")
    for number in range(5):
        write(folder, f"{number}.md", f"# Heading\n\nText {number}.")
    write(folder, "pdf/SKILL.md", PDF)
    write(folder, "broken.md", "---\nname: &a x\n---\nx")
    first = SkillScanner(lambda: kept)
    catalogue = scan(folder, library=first)
    first.save()
    write(folder, "3.md", "Other text.")
    (folder / "4.md").unlink()
    later = SkillScanner(lambda: kept)
    found = scan(folder, library=later)
    assert later.files_read == 2, "the one that changed, and the one that may be whole by now"
    assert found == scan(folder)
    assert found.skills["pdf-forms"] == catalogue.skills["pdf-forms"]
    later.save()
    assert len(kept.load("files", kept.writer_version("files"))) == 5
    kept.path.write_bytes(b"nonsense")
    third = SkillScanner(lambda: kept)
    assert scan(folder, library=third) == found
    assert third.files_read == 6


def test_what_is_kept_is_of_no_use_once_texts_are_read_differently() -> None:
    """skills:folders: where this fails, raise `MADE_BY`, and put the new digest here."""
    long = "".join(f"{number} words. So many!\n" for number in range(200))
    texts = {"a/SKILL.md": PDF, "b.md": f"Before.\n\n# A\n\n{long}\n## B ##\n\n* c", "d.txt": long}
    made = [read_skill("/r", path, text) for path, text in texts.items()]
    digest = hashlib.sha256(msgspec.json.encode(made)).hexdigest()[:16]
    assert (MADE_BY, digest) == ("7", "d481928b6faa115e")


def test_a_file_is_added_and_deleted(tmp_path: Path) -> None:
    write(tmp_path, "a.md")
    library = SkillScanner()
    first = scan(tmp_path, library=library)
    write(tmp_path, "b.md").rename(tmp_path / "c.md")
    (tmp_path / "a.md").unlink()
    second = scan(tmp_path, library=library, before=first)
    assert list(second.skills) == ["c.md"]
    assert library.files_read == 2


def test_an_edit_that_keeps_size_and_time_is_noticed(tmp_path: Path) -> None:
    """skills:folders: programs can set a file's time back; not the time of that change."""
    path = write(tmp_path, "a.md", "one")
    library = SkillScanner()
    first = scan(tmp_path, library=library)
    status = path.stat()
    path.write_text("two", "utf-8")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    second = scan(tmp_path, library=library, before=first)
    assert second.skills["a.md"].passages[0].text == "two"


@pytest.mark.requirement("skills:folders")
def test_edits_right_after_each_other_are_all_noticed(tmp_path: Path) -> None:
    """skills:folders: the clock of a file system is coarse."""
    path = tmp_path / "a.md"
    library, catalogue = SkillScanner(), SkillCatalogue()
    for number in range(30):
        path.write_text(f"{number:03}", "utf-8")
        catalogue = library.scan([tmp_path], catalogue)
        assert catalogue.skills["a.md"].passages[0].text == f"{number:03}"


def test_a_broken_file_that_is_repaired_is_a_skill(tmp_path: Path) -> None:
    """skills:folders: while it is broken it is read once only."""
    write(tmp_path, "a.md", "---\nname: 1\n---\nx")
    library = SkillScanner()
    broken = scan(tmp_path, library=library)
    assert scan(tmp_path, library=library, before=broken) is broken
    assert library.files_read == 1
    write(tmp_path, "a.md", "---\nname: one\n---\nx")
    until(lambda: scan(tmp_path, library=library).skills, "it is read again")


@pytest.mark.requirement("skills:folders")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can tell")
def test_a_file_that_could_not_be_read_for_the_moment_is_read_by_the_next_scan(
    tmp_path: Path,
) -> None:
    """skills:folders: though it has not changed since."""
    library = SkillScanner()
    with write(tmp_path, "a.md").open("r+b"):
        busy = scan(tmp_path, library=library)
    assert "changes while it is read" in busy.problems[0]
    assert list(scan(tmp_path, library=library, before=busy).skills) == ["a.md"]
