"""Validates arguments against a third party's JSON Schema within a budget of steps.

A schema of a few kilobytes can ask for more work than any machine does. So every visit to
a subschema costs steps, and rules that cannot be counted that way are left to the server that
wrote it: regular expressions, and the keywords that search or loop within one visit.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

MAX_NODES = 20_000
"""A schema, or arguments, of more values than this are not validated."""
_MAX_DEPTH = 100
_CACHED = 1024
_SHOWN, _SHOWN_ITEMS = 120, 5
_ITEMS_PER_STEP = 8

_Keyword: TypeAlias = "Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]"
_LEFT_TO_THE_SERVER = (
    *("pattern", "patternProperties"),  # a third party's expressions, in another dialect
    *("unevaluatedItems", "unevaluatedProperties"),  # walk the schema past every count
    *("contains", "dependencies", "dependentRequired"),  # loop within one visit
    *("$dynamicRef", "$recursiveRef"),  # search every schema on the way
)
_BY_ITEM = {"items", "additionalItems", "additionalProperties", "uniqueItems"}
_BY_VALUE = {"enum", "const"}


class OverBudgetError(Exception):
    """A validation would take more steps than it may."""


class Budget:
    """The steps that one validation may still take."""

    def __init__(self, steps: int, *, final: bool = True, partly: bool = False) -> None:
        self.steps = steps
        self.final = final
        """Whether a schema that takes more is not tried with more."""
        self.partly = partly
        """Whether arguments of more than `MAX_NODES` values are validated all the same."""
        self.nodes = 0
        """Of the schema: a reference to an anchor searches them all."""

    def spend(self, steps: int) -> None:
        """Take these off; raises `OverBudgetError` if fewer are left."""
        self.steps -= steps
        if self.steps < 0:
            raise OverBudgetError


_BUDGET: ContextVar[Budget] = ContextVar("_BUDGET")


def errors(
    schema: Mapping[str, Any], arguments: Mapping[str, Any], budget: Budget, most: int
) -> "list[ValidationError]":
    """Return the first ``most`` errors; none if schema or arguments are of no use for it.

    The texts in them are short, whatever the arguments hold. Raises `OverBudgetError`.
    """
    from jsonschema.exceptions import UnknownType  # noqa: PLC0415 - only what calls pays for it
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - the same

    token = _BUDGET.set(budget)
    try:
        compiled = _compile(msgspec.json.encode(schema))
        if compiled is None:
            return []
        validator, budget.nodes = compiled
        room = [MAX_NODES]
        brief = _brief(arguments, room)
        if room[0] < 0 and not budget.partly:
            return []
        return list(islice(validator.iter_errors(brief), most))
    except (
        *(Unresolvable, UnknownType, RecursionError),
        *(TypeError, ValueError, AttributeError, ArithmeticError),
    ):
        return []  # the schema refers to what is not in it, or says what cannot be followed
    finally:
        _BUDGET.reset(token)


@lru_cache(_CACHED)
def _compile(encoded: bytes) -> "tuple[Validator, int] | None":
    """A schema's validator and its number of nodes, or None if it cannot be used."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - see errors
    from jsonschema.validators import validator_for  # pyright: ignore[reportUnknownVariableType]  # noqa: PLC0415 - untyped upstream
    from referencing import Registry  # noqa: PLC0415

    decoded: Any = msgspec.json.decode(encoded)
    dialect = validator_for(decoded, default=Draft202012Validator)
    room = [MAX_NODES]
    schema = _brief(decoded, room)
    meta = _counting(dialect, ())(dialect.META_SCHEMA)
    try:
        if room[0] < 0 or next(iter(meta.iter_errors(schema)), None):
            return None
    except RecursionError:
        return None
    except OverBudgetError:
        if _BUDGET.get().final:
            return None
        raise
    registry: Registry[Any] = Registry()  # which reads nothing from the network
    used = _counting(dialect, _LEFT_TO_THE_SERVER)
    return used(schema, registry=registry), MAX_NODES - room[0]


@lru_cache
def _counting(dialect: "type[Validator]", ignored: tuple[str, ...]) -> "Callable[..., Validator]":
    """The validator of a dialect, which spends the current budget."""
    import attrs  # noqa: PLC0415 - see errors
    from jsonschema import validators  # noqa: PLC0415

    keywords: dict[str, Any] = {k: v for k, v in dialect.VALIDATORS.items() if k not in ignored}
    keywords |= {name: _by_item(name, keywords[name]) for name in _BY_ITEM & keywords.keys()}
    keywords |= {name: _scalars(keywords[name]) for name in _BY_VALUE & keywords.keys()}
    plain, create = cast("Any", dialect), cast("Any", validators).create
    made = create(
        meta_schema=dialect.META_SCHEMA,
        validators=keywords,
        type_checker=dialect.TYPE_CHECKER,
        id_of=plain.ID_OF,
        applicable_validators=_visit(plain._APPLICABLE_VALIDATORS),  # noqa: SLF001 - it has no other name
    )
    # The library's own would leave for another class at every "$schema" on the way.
    made.evolve = attrs.evolve
    return made


def _visit(applicable: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def visit(schema: Mapping[str, Any]) -> Any:
        budget = _BUDGET.get()
        size = len(schema) + sum(_length(value) for value in schema.values())
        ref = schema.get("$ref")
        if isinstance(ref, str):
            searched = 0 if ref.startswith("#/") or ref == "#" else budget.nodes
            size += len(ref) + searched * _ITEMS_PER_STEP
        budget.spend(1 + size // _ITEMS_PER_STEP)
        return applicable(schema)

    return visit


def _length(value: Any) -> int:
    return len(cast("list[Any]", value)) if isinstance(value, list | dict) else 0


def _by_item(name: str, keyword: _Keyword) -> _Keyword:
    """Spends steps for loops, and leaves out keywords that cannot be counted so."""

    def check(
        validator: Any, value: Any, instance: Any, schema: Any
    ) -> "Iterable[ValidationError]":
        if name == "additionalProperties" and "patternProperties" in schema:
            return ()
        if name == "uniqueItems" and not (isinstance(instance, _List) and _sortable(instance)):
            return ()
        _BUDGET.get().spend(_length(instance) // _ITEMS_PER_STEP)
        return keyword(validator, value, instance, schema) or ()

    return check


def _sortable(items: list[Any]) -> bool:
    """Whether two alike are found without comparing each with each."""
    kinds: set[type] = {str if isinstance(item, str) else type(item) for item in items}
    return len(kinds) <= 1 and not kinds & {_List, _Object, list, dict}


def _scalars(keyword: _Keyword) -> _Keyword:
    """Compare with scalars only: objects and lists are compared to their depths at each visit."""

    def check(
        validator: Any, value: Any, instance: Any, schema: Any
    ) -> "Iterable[ValidationError]":
        choices = cast("list[Any]", value if isinstance(value, list) else [value])
        if any(isinstance(choice, list | dict) for choice in choices):
            return ()
        return keyword(validator, value, instance, schema) or ()

    return check


def _brief(value: Any, room: list[int], depth: int = 0) -> Any:
    """The same value with a short ``repr`` at every level, as errors quote it.

    ``room`` counts the values down. Where it ends, and ``_MAX_DEPTH`` levels down, only
    the outermost level is made short.
    """
    room[0] -= 1
    if isinstance(value, str):
        return _Text(value) if len(value) > _SHOWN else value
    if not isinstance(value, list | dict):
        return value
    whole = cast("list[Any] | dict[Any, Any]", value)
    if depth == _MAX_DEPTH or len(whole) > room[0]:
        room[0] = -1
    if isinstance(whole, dict):
        pairs = whole.items()
        below = pairs if room[0] < 0 else ((_key(k), _brief(v, room, depth + 1)) for k, v in pairs)
        return _Object(below)
    return _List(whole if room[0] < 0 else (_brief(v, room, depth + 1) for v in whole))


def _key(name: Any) -> Any:
    return _Text(name) if isinstance(name, str) and len(name) > _SHOWN else name


class _Text(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return repr(f"{self[:_SHOWN]}…")


class _List(list[Any]):
    __slots__ = ()

    def __repr__(self) -> str:
        return f"[{', '.join(_show_some(self, _quote))}]"


class _Object(dict[Any, Any]):
    __slots__ = ()

    def __repr__(self) -> str:
        return f"{{{', '.join(_show_some(self.items(), _pair))}}}"


def _show_some(items: Iterable[Any], show: Callable[[Any], str]) -> Iterator[str]:
    for index, item in enumerate(items):
        yield "…" if index == _SHOWN_ITEMS else show(item)
        if index == _SHOWN_ITEMS:
            return


def _quote(value: Any) -> str:
    if isinstance(value, list | dict):
        return "[…]" if isinstance(value, list) else "{…}"
    return repr(value[:_SHOWN] if isinstance(value, str) else value)


def _pair(pair: tuple[Any, Any]) -> str:
    return f"{_quote(pair[0])}: {_quote(pair[1])}"
