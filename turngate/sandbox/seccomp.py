"""The system-call filter (seccomp) of a sandbox, assembled here as a classic BPF program, which needs no library.

It is a list of denied calls. Namespaces, dropped capabilities and no-new-privileges do most of the isolation; the
filter closes what they leave open (key rings, tracing, BPF, new namespaces, io_uring, memory that no limit counts). A
denied call fails with EPERM, or with ENOSYS where programs then take another way. A call in a foreign calling
convention (32-bit on a 64-bit system, x32) ends the process, because its numbers mean something else.

The kernel runs the program for each call on ``struct seccomp_data``: number at byte 0, architecture at 4, argument *i*
at 16 + 8·i (little endian, so its low half comes first). It also runs it for every number there is whenever a command
starts, to note which are always allowed. So the program looks a number up in a tree, in a dozen steps.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from turngate.errors import ConfigError
from turngate.types import JSON

_LOAD, _JUMP_EQ, _JUMP_GE, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE = 0, 4
_X32 = 0x40000000
_LEAF = 3

# code, value, and the labels to jump to if it is so or not; "" is the next line
_Line: TypeAlias = tuple[int, int, str, str]
_Part: TypeAlias = _Line | str  # a string: the label of the line after it

AUDIT_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# name → number on (x86_64, aarch64); None: does not exist there. From 424 on the numbers are the same everywhere.
DENIED: Mapping[str, tuple[int | None, int | None]] = {
    # tracing and reading other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    # key rings: not in any namespace
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # mounts and namespaces
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    # the kernel itself
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "uselib": (134, None),
    "modify_ldt": (154, None),
    "iopl": (172, None),
    "ioperm": (173, None),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    # clocks
    "settimeofday": (164, 170),
    "adjtimex": (159, 171),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    # memory that neither the file system's size nor a process's address space counts, and memory placement
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "mbind": (237, 235),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "set_mempolicy": (238, 237),
}

# Answered as if the kernel did not know them: programs (and the C library, for clone3) then use the older call.
ABSENT: Mapping[str, tuple[int | None, int | None]] = {
    "clone3": (435, 435),  # its flags lie in memory, where no filter can read them
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}

_CLONE = (56, 220)
_IOCTL = (16, 29)
_SOCKET = (41, 198)
_SOCKETPAIR = (53, 199)

_NEW_NAMESPACES = 0x7E020000  # user, pid, net, ipc, uts, cgroup, mount
_TERMINAL_TRICKS = (0x5412, 0x541C)  # TIOCSTI types into a terminal, TIOCLINUX drives the console
_SOCKET_FAMILIES = (1, 2, 10, 16)  # unix, inet, inet6, netlink; not vsock, which reaches a virtual machine's host


def program(machine: str | None = None) -> bytes:
    """The filter for ``machine`` (``x86_64`` or ``aarch64``; None: this one), as ``bwrap --seccomp`` reads it.

    Raises ConfigError for another machine: a sandbox without its filter would be a weaker one.
    """
    machine = platform.machine() if machine is None else machine
    if machine not in AUDIT_ARCHITECTURES:
        known = ", ".join(sorted(AUDIT_ARCHITECTURES))
        raise ConfigError(f"there is no system-call filter for a '{machine}' machine; known: {known}. Use Docker there")
    column = list(AUDIT_ARCHITECTURES).index(machine)
    goals = {numbers[column]: "not permitted" for numbers in DENIED.values()}
    goals |= {numbers[column]: "not there" for numbers in ABSENT.values()}
    goals |= {_CLONE[column]: "clone", _IOCTL[column]: "ioctl"}
    goals |= {_SOCKET[column]: "socket", _SOCKETPAIR[column]: "socket"}
    cases = sorted((number, goal) for number, goal in goals.items() if number is not None)
    return _assembled(
        [
            (_LOAD, _ARCHITECTURE, "", ""),
            (_JUMP_EQ, AUDIT_ARCHITECTURES[machine], "", "foreign"),
            (_LOAD, _NUMBER, "", ""),
            *([(_JUMP_GE, _X32, "foreign", "")] if machine == "x86_64" else []),
            *_tree(cases),
            "clone",
            (_LOAD, _argument(0), "", ""),
            (_JUMP_ANY_BIT, _NEW_NAMESPACES, "not permitted", "allowed"),
            "ioctl",
            (_LOAD, _argument(1), "", ""),
            *((_JUMP_EQ, trick, "not permitted", "") for trick in _TERMINAL_TRICKS),
            (_RETURN, _ALLOW, "", ""),
            "socket",
            (_LOAD, _argument(0), "", ""),
            *((_JUMP_EQ, family, "allowed", "") for family in _SOCKET_FAMILIES),
            (_RETURN, _ERRNO | errno.EAFNOSUPPORT, "", ""),
            "allowed",
            (_RETURN, _ALLOW, "", ""),
            "not permitted",
            (_RETURN, _ERRNO | errno.EPERM, "", ""),
            "not there",
            (_RETURN, _ERRNO | errno.ENOSYS, "", ""),
            "foreign",
            (_RETURN, _KILL, "", ""),
        ]
    )


_Rule: TypeAlias = dict[str, str | int]


def profile() -> dict[str, JSON]:
    """The same filter as a profile of Docker's."""
    last = max(_SOCKET_FAMILIES)  # a rule of Docker's can compare an argument once, so each family has one
    families: list[_Rule] = [{"index": 0, "value": number, "op": "SCMP_CMP_EQ"} for number in _other_families()]
    families.append({"index": 0, "value": last, "op": "SCMP_CMP_GT"})
    namespaces: list[_Rule] = [
        {"index": 0, "value": flag, "valueTwo": flag, "op": "SCMP_CMP_MASKED_EQ"} for flag in _bits()
    ]
    tricks: list[_Rule] = [{"index": 1, "value": trick, "op": "SCMP_CMP_EQ"} for trick in _TERMINAL_TRICKS]
    rules = [_rule(list(DENIED), errno.EPERM), _rule(list(ABSENT), errno.ENOSYS)]
    rules += [_rule(["clone"], errno.EPERM, [flag]) for flag in namespaces]
    rules += [_rule(["ioctl"], errno.EPERM, [trick]) for trick in tricks]
    rules += [_rule(["socket", "socketpair"], errno.EAFNOSUPPORT, [family]) for family in families]
    return {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules}


def _rule(names: list[str], number: int, arguments: Sequence[_Rule] = ()) -> dict[str, JSON]:
    return {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": number, "args": list(arguments)}


def _other_families() -> list[int]:
    return [number for number in range(max(_SOCKET_FAMILIES)) if number not in _SOCKET_FAMILIES]


def _bits() -> list[int]:
    return [1 << bit for bit in range(32) if _NEW_NAMESPACES >> bit & 1]


def _argument(number: int) -> int:
    """Where the low half of an argument of the call lies."""
    return 16 + 8 * number


def _tree(cases: Sequence[tuple[int, str]]) -> list[_Part]:
    """From each number to its label, from any other to "allowed". ``cases``: in order."""
    if len(cases) <= _LEAF:
        *others, (last, goal) = cases
        return [*((_JUMP_EQ, number, label, "") for number, label in others), (_JUMP_EQ, last, goal, "allowed")]
    half = len(cases) // 2
    middle = cases[half][0]
    from_middle = f"from {middle}"
    return [(_JUMP_GE, middle, from_middle, ""), *_tree(cases[:half]), from_middle, *_tree(cases[half:])]


def _assembled(parts: Iterable[_Part]) -> bytes:
    """The program in the kernel's form, in which a jump is the number of lines that it leaves out."""
    lines: list[_Line] = []
    places: dict[str, int] = {}
    for part in parts:
        if isinstance(part, str):
            places[part] = len(lines)
        else:
            lines.append(part)
    return b"".join(
        struct.pack("<HBBI", code, *(places[label] - at if label else 0 for label in (yes, no)), value)
        for at, (code, value, yes, no) in enumerate(lines, 1)
    )
