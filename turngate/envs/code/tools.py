"""The tools of ``CodeRepair-v1`` and the instruction that names them."""

from turngate.envs.tools import Parameter, Tool

TOOLS = (
    Tool(
        name="bash",
        description="Run a command in a shell that stays: working directory, variables and functions persist.",
        parameters=(Parameter(name="command"),),
    ),
    Tool(
        name="view",
        description="Show a file with line numbers, or what lies in a folder.",
        parameters=(
            Parameter(name="path"),
            Parameter(name="lines", required=False, description="for instance 10-40"),
        ),
    ),
    Tool(
        name="edit",
        description=(
            "Change a file: replace a piece that occurs once (old, new), insert after a line (line, new), or make a "
            "file (new). As a command: OLD => NEW, or +LINE TEXT, or a block <<<<<<< OLD ======= NEW >>>>>>>."
        ),
        parameters=(
            Parameter(name="path"),
            Parameter(name="change", required=False, description="the change in the form of a command"),
            Parameter(name="old", required=False, keyword_only=True),
            Parameter(name="new", required=False, keyword_only=True),
            Parameter(name="line", required=False, keyword_only=True),
        ),
    ),
    Tool(
        name="search",
        description="Search all files for an extended regular expression.",
        parameters=(
            Parameter(name="pattern"),
            Parameter(name="path", required=False, keyword_only=True, description="a file or folder, default: all"),
        ),
    ),
    Tool(
        name="run_tests",
        description="Run tests, all or those named.",
        parameters=(Parameter(name="tests", required=False, description="test files or ids"),),
    ),
    Tool(name="submit", description="Hand in the work folder as it is. Ends the episode."),
)
INSTRUCTION = (
    "Repair the code, not its tests. One tool per turn: "
    "bash COMMAND | view PATH [LINES] | edit PATH OLD => NEW | search PATTERN | run_tests [TESTS] | submit."
)
