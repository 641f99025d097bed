"""Run the functions ``test_*`` of modules with the standard library alone; write a report in the form of JUnit.

    python3 -I -S run_plain.py REPORT FILE…

Works without pytest, and starts in a fraction of its time. Values of asked tests (``turngate_asking.py``) are written
beside the report, to REPORT.answers.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import turngate_asking  # type: ignore[import-not-found]

del sys.path[0]


def main(report: str, *files: str) -> int:
    """The exit status: 0 if there are tests and all passed."""
    sys.path.insert(0, os.getcwd())
    sys.dont_write_bytecode = True
    cases: list[tuple[str, str]] = []
    for file in files:
        cases += run(file)
    with open(report, "w", encoding="utf-8") as out:
        out.write("<testsuite>" + "".join(map(case, cases)) + "</testsuite>")
    turngate_asking.save(f"{report}.answers")
    return int(any(problem for _name, problem in cases) or not cases)


def run(file: str) -> list[tuple[str, str]]:
    """(id, error) for each test of a file, in their order."""
    names: dict[str, object] = {"__name__": "tests", "__file__": file}
    try:
        with open(file, encoding="utf-8") as source:
            exec(compile(source.read(), file, "exec"), names)
    except Exception as error:
        return [(file, describe(error, file))]
    cases = []
    for name, test in list(names.items()):
        if name.startswith("test_") and callable(test):
            problem = ""
            turngate_asking.begin(f"{file}::{name}")
            try:
                test()
            except Exception as error:
                problem = describe(error, file)
            cases.append((f"{file}::{name}", problem))
            if problem:
                print(f"FAILED {file}::{name} {problem}")
    print(f"{sum(not problem for _, problem in cases)} passed, {sum(bool(problem) for _, problem in cases)} failed")
    return cases


def describe(error: Exception, file: str) -> str:
    """The error in one line, with the line of the test that it left."""
    place, trace = "", error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            place = line(file, trace.tb_lineno)
        trace = trace.tb_next
    text = f"{type(error).__name__}: {error}".rstrip(": ")
    return f"{text} at: {place}" if place else text


def line(file: str, number: int) -> str:
    """One line of a file."""
    with open(file, encoding="utf-8") as source:
        lines = source.read().splitlines()
    return lines[number - 1].strip() if number <= len(lines) else ""


def case(item: tuple[str, str]) -> str:
    """A test in the report."""
    name, problem = (escape(text) for text in item)
    inner = f'<failure message="{problem}"/>' if problem else ""
    return (
        f'<testcase name="{name}"><properties><property name="nodeid" value="{name}"/></properties>{inner}</testcase>'
    )


def escape(text: str) -> str:
    """A text as XML may hold it."""
    text = "".join(char if char in "\t\n" or " " <= char < "\ud800" else "?" for char in text)
    for char, name in (("&", "amp"), ("<", "lt"), (">", "gt"), ('"', "quot")):
        text = text.replace(char, f"&{name};")
    return text


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
