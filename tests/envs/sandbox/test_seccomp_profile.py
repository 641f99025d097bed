"""The filter as Docker gets it says the same as the program that bubblewrap gets."""

from turngate.envs.sandbox import seccomp


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
