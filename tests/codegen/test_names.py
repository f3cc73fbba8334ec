"""Names: what people would expect, and never two alike."""

import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscript.codegen.identifiers import Identifiers, camel, pascal, python_method, snake

PAIRS = st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), unique=True, max_size=30)


@pytest.mark.parametrize(
    ("name", "as_pascal", "as_camel", "as_snake"),
    [
        ("desktop-commander", "DesktopCommander", "desktopCommander", "desktop_commander"),
        ("filesystem", "Filesystem", "filesystem", "filesystem"),
        ("MCPServer", "MCPServer", "mcpServer", "mcp_server"),
        ("GitHub", "GitHub", "gitHub", "git_hub"),
        ("AWS", "AWS", "aws", "aws"),
        ("Exa Search", "ExaSearch", "exaSearch", "exa_search"),
        ("@scope/pkg.js", "ScopePkgJs", "scopePkgJs", "scope_pkg_js"),
        ("12306", "N12306", "n12306", "n12306"),
        ("问题 x", "问题X", "问题X", "问题_x"),
        ("!", "N", "n", "n"),
    ],
)
def test_names(name: str, as_pascal: str, as_camel: str, as_snake: str) -> None:
    assert (pascal(name), camel(name), snake(name)) == (as_pascal, as_camel, as_snake)


@pytest.mark.requirement("types:python")
@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("read_file", "read_file"),
        ("readFile", "readFile"),
        ("read-file", "read_file"),
        ("class", "class_"),
        ("__init__", "init"),
        ("_x", "x"),
        ("1st", "n1st"),
        ("XParams", "XParams_"),
    ],
)
def test_a_tool_keeps_its_name_in_python_where_it_can(name: str, method: str) -> None:
    assert python_method(name) == method


@pytest.mark.requirement("types:typescript")
@given(pairs=PAIRS)
def test_names_are_names_and_all_different(pairs: list[tuple[str, str]]) -> None:
    """types:typescript, types:python: whatever servers and tools are called."""
    names = Identifiers(pairs)
    python = [names.snake, names.classes, *names.methods.values()]
    for table in (names.stems, names.camel, *python):
        made = list(table.values())
        assert len(set(made)) == len(made)
        assert all(name.isidentifier() for name in made)
    assert not any(keyword.iskeyword(name) for table in python for name in table.values())


@pytest.mark.requirement("types:typescript")
def test_a_collision_is_resolved_the_same_way_whoever_else_is_there() -> None:
    """types:typescript: each gets a part of its name's digest."""
    both = Identifiers([("s", "get-user"), ("s", "get_user")]).stems
    more = Identifiers([("a", "b"), ("s", "get_user"), ("s", "get-user"), ("t", "x")]).stems
    for pair in both:
        assert both[pair] == more[pair]
        assert both[pair].startswith("SGetUser_")


@pytest.mark.requirement("types:python")
def test_a_name_that_python_allows_means_that_tool_and_no_other() -> None:
    """types:python: whoever else has a name that Python makes alike."""
    tools = [(s, t) for s in ("my-db", "my_db", "my.db") for t in ("drop-user", "drop_user")]
    names = Identifiers(tools)
    assert names.snake["my_db"] == "my_db"
    assert names.methods["my_db"]["drop_user"] == "drop_user"
    assert names.snake["my-db"].startswith("my_db_")
    assert names.snake["my.db"].startswith("my_db_")
    assert names.methods["my-db"]["drop-user"].startswith("drop_user_")


@pytest.mark.requirement("types:python")
def test_no_name_goes_over_to_another_tool() -> None:
    """types:python: if a second server has the name, code for the first fails."""
    assert Identifiers([("my-db", "x")]).snake == {"my-db": "my_db"}
    assert "my_db" not in Identifiers([("my-db", "x"), ("my.db", "x")]).snake.values()
