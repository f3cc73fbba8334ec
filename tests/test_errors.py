"""The tree in the docstring of ``errors.py`` is the tree of classes."""

import inspect

from toolscript import errors


def drawn() -> dict[str, str]:
    """Class → its parent, as drawn."""
    parents: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        bare = line.lstrip(" │├└─")
        name = bare.split(" ", 1)[0]
        if not name.endswith("Error"):
            continue
        depth = (len(line) - len(bare) - 4) // 4
        path[depth:] = [name]
        parents[name] = path[depth - 1] if depth else "Exception"
    return parents


def test_the_error_tree_is_as_drawn() -> None:
    classes = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    assert drawn() == {kind.__name__: kind.__bases__[0].__name__ for kind in classes}


def test_every_error_says_what_it_is_for() -> None:
    assert all(kind.__doc__ for _, kind in inspect.getmembers(errors, inspect.isclass))
