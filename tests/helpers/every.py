"""``for_every``: one test of one law over many values, which names each value for which it does not hold."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import pytest


def for_every(arguments: str, values: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test for each of ``values`` of its ``arguments``: names with commas between them, for tuples of values.

    Unlike ``pytest.mark.parametrize`` it makes one test of them, so that the number of tests is that of laws. The test
    fails with a line for each value for which it raised. Fixtures are shared by all values. Raises ValueError for no
    value, with which nothing would be tested.
    """
    names = [name.strip() for name in arguments.split(",")]
    cases = [_case(names, value) for value in values]
    if not cases:
        raise ValueError(f"there is no value of '{arguments}' to test")

    def over_all(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def call(**fixtures: Any) -> None:
            failures = []
            for shown, case in cases:
                try:
                    test(**case, **fixtures)
                except Exception as error:
                    failures.append(f"  {shown}: {type(error).__name__}: {error}")
            if failures:
                pytest.fail("\n".join([f"not for {len(failures)} of {len(cases)} values of '{arguments}':", *failures]))

        signature = inspect.signature(test)
        rest = [one for name, one in signature.parameters.items() if name not in names]
        vars(call)["__signature__"] = signature.replace(parameters=rest)
        return call

    return over_all


def _case(names: Sequence[str], value: Any) -> tuple[str, dict[str, Any]]:
    """How the value is shown, and the arguments that it gives; a ``pytest.param`` is shown by its id."""
    if isinstance(value, type(pytest.param())):
        return str(value.id or value.values), dict(zip(names, value.values, strict=True))
    case = dict(zip(names, value if len(names) > 1 else (value,), strict=True))
    return ", ".join(str(getattr(one, "type", one))[:80] for one in case.values()), case
