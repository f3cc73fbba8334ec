import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscript.codegen.api_definitions import MAX_NAME_CHARS
from toolscript.gateway.catalogue import Catalogue, ServerEntry, exposed_names
from toolscript.types import ToolSpec


def tool(server: str, name: str, description: str = "") -> ToolSpec:
    return ToolSpec(server=server, name=name, description=description)


def entry(server: str, *tools: ToolSpec) -> ServerEntry:
    return ServerEntry(name=server, digest="d", state="ready", tools=tools)


# Snapshots of the catalogue


@pytest.mark.requirement("catalogue:ids")
def test_tools_are_by_id_and_in_the_order_of_the_ids() -> None:
    catalogue = Catalogue.of(
        [entry("b", tool("b", "z"), tool("b", "a")), entry("a", tool("a", "m"))]
    )
    assert list(catalogue.tools) == ["a__m", "b__a", "b__z"]
    assert catalogue.tools["b__z"].name == "z"
    assert list(catalogue.servers) == ["a", "b"]


@pytest.mark.requirement("upstream:live")
def test_replacing_a_server_leaves_the_old_catalogue_as_it_was() -> None:
    old = Catalogue.of([entry("a", tool("a", "x")), entry("b", tool("b", "y"))])
    new = old.replacing(entry("a", tool("a", "z"))).replacing(entry("c", tool("c", "w")))
    assert list(old.tools) == ["a__x", "b__y"]
    assert list(new.tools) == ["a__z", "b__y", "c__w"]


# Names shown to models

NAME = re.compile(r"[A-Za-z0-9_-]{1,46}")
IDS = st.builds(
    "{}__{}".format,
    st.text(min_size=1, max_size=40).filter(lambda s: "__" not in s and not s.endswith("_")),
    st.text(min_size=1, max_size=60),
)


def fits(identifier: str) -> bool:
    return NAME.fullmatch(identifier) is not None


@pytest.mark.requirement("catalogue:ids")
@given(ids=st.sets(IDS, max_size=20))
def test_exposed_names_are_short_plain_and_all_different(ids: set[str]) -> None:
    names = exposed_names(ids)
    assert names.keys() == ids
    assert len(set(names.values())) == len(ids)
    assert all(fits(name) for name in names.values())
    assert all(names[i] == i for i in ids if fits(i))


@pytest.mark.requirement("catalogue:ids")
@given(ids=st.sets(IDS, min_size=1, max_size=20), keep=st.integers(1, 20))
def test_an_exposed_name_does_not_change_when_other_tools_come_and_go(
    ids: set[str], keep: int
) -> None:
    some = sorted(ids)[:keep]
    names = exposed_names(ids)
    assert exposed_names(some) == {i: names[i] for i in some}
    assert exposed_names(sorted(ids, reverse=True)) == names


@pytest.mark.requirement("catalogue:ids")
def test_an_id_that_does_not_fit_is_cut_and_gets_a_part_of_its_hash() -> None:
    long = "server__" + "x" * 80
    odd = "my server__do.it"
    names = exposed_names([long, odd])
    digest = hashlib.sha256(long.encode()).hexdigest()[:8]
    assert names[long] == f"server__{'x' * 29}-{digest}"
    assert len(f"mcp__toolscript__{names[long]}") <= 64
    assert names[odd] == f"my_server__do_it-{hashlib.sha256(odd.encode()).hexdigest()[:8]}"


@pytest.mark.requirement("catalogue:ids")
def test_a_name_of_46_characters_is_left_alone_and_one_of_47_is_not() -> None:
    fitting, long = "s__" + "x" * 43, "s__" + "x" * 44
    names = exposed_names([fitting, long])
    assert names[fitting] == fitting
    assert names[long] != long
    assert len(names[long]) == MAX_NAME_CHARS == 46


@pytest.mark.requirement("catalogue:ids")
def test_a_tool_is_found_by_its_id_and_its_name_for_models() -> None:
    catalogue = Catalogue.of([entry("s", *(tool("s", "x" * size) for size in (20, 50, 90)))])
    for name in (*catalogue.tools, *catalogue.exposed.values()):
        found = catalogue.find(name)
        assert found is not None
        assert name in {found.id, catalogue.exposed[found.id]}


@pytest.mark.requirement("catalogue:ids")
def test_a_tool_that_has_the_name_made_for_another_keeps_it() -> None:
    odd = "s__do.it"
    made = exposed_names([odd])[odd]
    names = exposed_names([odd, made])
    assert names[made] == made
    assert names[odd] != made
    assert names[odd].startswith(made)
