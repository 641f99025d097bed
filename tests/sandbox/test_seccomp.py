"""The system-call filter: what the program that bubblewrap gets does, and that Docker's profile says the same."""

import struct

import pytest

from turngate.errors import ConfigError
from turngate.sandbox import seccomp


def rules_for(name):
    return [rule for rule in seccomp.profile()["syscalls"] if name in rule["names"]]


def test_the_same_calls_are_denied():
    profile = seccomp.profile()
    assert profile["defaultAction"] == "SCMP_ACT_ALLOW"
    for name, number in ((name, 1) for name in seccomp.DENIED):
        assert [rule["errnoRet"] for rule in rules_for(name)] == [number]
    for name in seccomp.ABSENT:
        assert [rule["errnoRet"] for rule in rules_for(name)] == [38]


def test_an_argument_is_compared_once_in_a_rule():
    for rule in seccomp.profile()["syscalls"]:
        assert len(rule["args"]) <= 1


def test_socket_families():
    refused = set()
    for rule in rules_for("socket"):
        (test,) = rule["args"]
        compare = {"SCMP_CMP_EQ": int.__eq__, "SCMP_CMP_GT": int.__gt__}[test["op"]]
        refused |= {family for family in range(64) if compare(family, test["value"])}
    assert set(range(64)) - refused == {1, 2, 10, 16}


def test_new_namespaces():
    flags = [rule["args"][0]["value"] for rule in rules_for("clone")]
    assert sorted(flags) == [0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000]


# --- the program ------------------------------------------------------------------------------------------------------


def interpret(program, number, arguments=(), architecture=0xC000003E, trace=None):
    """A machine for the filter: what the kernel would do. ``trace`` collects the lines that it comes by."""
    data = struct.pack("<IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    lines = [struct.unpack("<HBBI", program[at : at + 8]) for at in range(0, len(program), 8)]
    at = value = 0
    while True:
        code, yes, no, constant = lines[at]
        at += 1
        if trace is not None:
            trace.append(at)
        if code == 0x06:
            return constant
        if code == 0x20:
            value = struct.unpack_from("<I", data, constant)[0]
        else:
            is_true = {0x15: value == constant, 0x35: value >= constant, 0x45: bool(value & constant)}[code]
            at += yes if is_true else no


ALLOW, KILL, EPERM, ENOSYS, EAFNOSUPPORT = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026, 0x00050061


@pytest.mark.parametrize(
    ("number", "arguments", "answer"),
    [
        (0, (), ALLOW),  # read
        (59, (), ALLOW),  # execve
        (101, (), EPERM),  # ptrace
        (250, (), EPERM),  # keyctl
        (435, (), ENOSYS),  # clone3
        (425, (), ENOSYS),  # io_uring_setup
        (56, (0x11,), ALLOW),  # clone for a process
        (56, (0x3D0F00,), ALLOW),  # clone for a thread
        (56, (0x10000011,), EPERM),  # clone into a user namespace
        (16, (0, 0x5401), ALLOW),  # ioctl
        (16, (0, 0x5412), EPERM),
        (16, (0, 0x5412 | 1 << 40), EPERM),  # the kernel ignores the upper half, and so does the filter
        (41, (1,), ALLOW),  # unix socket
        (41, (2,), ALLOW),
        (41, (40,), EAFNOSUPPORT),
        (53, (17,), EAFNOSUPPORT),
        (0x40000000, (), KILL),
    ],
)
def test_the_filter_of_x86_64(number, arguments, answer):
    assert interpret(seccomp.program("x86_64"), number, arguments) == answer


@pytest.mark.parametrize(
    ("number", "arguments", "answer"),
    [(63, (), ALLOW), (117, (), EPERM), (220, (0x10000011,), EPERM), (198, (40,), EAFNOSUPPORT), (435, (), ENOSYS)],
)
def test_the_filter_of_aarch64(number, arguments, answer):
    assert interpret(seccomp.program("aarch64"), number, arguments, 0xC00000B7) == answer


@pytest.mark.parametrize(("machine", "column"), [("x86_64", 0), ("aarch64", 1)])
def test_every_call_is_answered_as_the_lists_say_and_within_few_lines(machine, column):
    wanted = {numbers[column]: EPERM for numbers in seccomp.DENIED.values()}
    wanted |= {numbers[column]: ENOSYS for numbers in seccomp.ABSENT.values()}
    looked_into = ({56, 16, 41, 53}, {220, 29, 198, 199})[column]
    program = seccomp.program(machine)
    for number in {*range(1000), 1 << 29, (1 << 30) - 1} - looked_into:
        trace = []
        answer = interpret(program, number, (0,), seccomp.AUDIT_ARCHITECTURES[machine], trace)
        assert answer == wanted.get(number, ALLOW)
        assert len(trace) <= 16


def test_another_calling_convention_is_killed():
    assert interpret(seccomp.program("x86_64"), 0, (), 0x40000003) == KILL


def test_a_machine_without_a_filter_is_refused():
    with pytest.raises(ConfigError, match="riscv64"):
        seccomp.program("riscv64")
