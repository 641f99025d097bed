"""What to do next on a page, in three levels, from the next step of its oracle."""

from __future__ import annotations

import json

from turngate.envs.web.loaders.miniwob.oracles import ORACLES
from turngate.envs.web.loaders.miniwob.page_steps import Look, NoAnswer, PageStep

LEVELS = 3


def next_step(page: str, look: Look) -> PageStep | None:
    """The oracle's next step on the page as it is now; None without an oracle, or if it does not know how to go on."""
    oracle = ORACLES.get(page)
    if oracle is None:
        return None
    try:
        return next(oracle(look), None)
    except NoAnswer:
        return None


def hint(page: str, look: Look, level: int) -> str | None:
    """A hint for the page as it is now, or None if there is none.

    ``level``: 1 which element matters next, 2 also which value or place, 3 the action. Raises ValueError.
    """
    if not 1 <= level <= LEVELS:
        raise ValueError(f"hint level {level} does not exist; there are 1 to {LEVELS}")
    step = next_step(page, look)
    if step is None:
        return None
    target, value = _target(step, look), _value(step)
    if level == 1:
        return f"What matters next: {target}."
    if level == 2:
        return f"What matters next: {target}" + (f", with {value}." if value else ".")
    return f"Do this next: {_action(step, target, value)}."


def _target(step: PageStep, look: Look) -> str:
    """The element as a person would name it."""
    if step.kind == "wait":
        return "time"
    if step.selector is None and step.point is None:
        return "the element that has the focus"
    place = (
        f"document.elementFromPoint({step.point[0]}, {step.point[1]})"
        if step.point is not None
        else f"document.querySelectorAll({json.dumps(step.selector)})[{step.nth}]"
    )
    tag, kind, name, nth = look.js(
        f"""(one => {{
          if (!one) return ['nothing', '', '', 0];
          const label = (one.labels && one.labels[0] || {{}}).textContent;
          const name = one.getAttribute('aria-label') || label || one.getAttribute('placeholder')
            || (one.matches('input, textarea, select') ? '' : one.textContent) || one.getAttribute('class') || one.id;
          return [one.tagName.toLowerCase(), one.getAttribute('type') || '',
                  String(name).replace(/\\s+/g, ' ').trim().slice(0, 40),
                  Array.from(document.getElementsByTagName(one.tagName)).indexOf(one) + 1];
        }})({place})"""
    )
    noun = {"a": "link", "input": "field", "textarea": "text area", "select": "list", "li": "item"}.get(tag, tag)
    if kind in ("checkbox", "radio"):
        noun = kind
    return f'the {noun} "{name}"' if name else f"{noun} number {nth} of the page"


def _value(step: PageStep) -> str:
    """The value or place that the step uses, "" if it has none."""
    if step.to is not None and step.point is not None:
        return f"a way from ({step.point[0]:.0f}, {step.point[1]:.0f}) to ({step.to[0]:.0f}, {step.to[1]:.0f})"
    if step.kind == "wait":
        return f"{step.value} milliseconds"
    if step.kind == "scroll":
        return f"{step.value} pixels"
    if step.kind in ("click_at", "hover") and step.point is not None:
        return f"the place ({step.point[0]:.0f}, {step.point[1]:.0f})"
    return '"' + step.value.replace("\n", '" and "') + '"' if step.value else ""


def _action(step: PageStep, target: str, value: str) -> str:
    match step.kind:
        case "click":
            return f"click {target}"
        case "click_at":
            return f"click {value}"
        case "fill":
            return f"fill {value or 'nothing'} into {target}"
        case "select":
            return f"select {value} in {target}"
        case "press":
            return f"press the key {value} in {target}"
        case "drag":
            return f"drag {target} along {value}"
        case "scroll":
            return f"scroll {target} by {value}"
        case "hover":
            return f"move the mouse to {value or target}"
        case "wait":
            return f"wait {value}"
