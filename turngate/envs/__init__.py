"""Environments: what an agent acts in, and what registers, runs and checks them.

``base`` defines what an environment is, ``tool_env`` the kind whose tools are methods. ``registry`` finds environments
by name, ``pool`` runs many at once, ``check`` tests one against the contract of ``base``. The environments that ship
are registered here, as data.
"""

from turngate.envs.registry import register

register(
    "turngate/Lock-v1",
    "turngate.envs.lock:LockEnv",
    description="Toy: three dials in three turns, press the key of each colour.",
)
register(
    "turngate/Sql-v1",
    "turngate.envs.sql.env:SqlEnv",
    description="Answer questions about a SQLite database with list_tables, describe, run_sql and submit.",
)
register(
    "turngate/CodeRepair-v1",
    "turngate.envs.code.env:CodeRepairEnv",
    description="Find and repair a bug in a sandbox with bash, view, edit, search, run_tests and submit.",
)
register(
    "turngate/Search-v1",
    "turngate.envs.search.env:SearchEnv",
    description="Answer questions from documents with search, open, cite and answer.",
)
register(
    "turngate/ToolUse-v1",
    "turngate.envs.tooluse.env:ToolUseEnv",
    description="Solve tasks with tools that you bring, Python functions or MCP servers, then answer; "
    "or tasks = {type = NAME} that bring theirs: lending, retail, travel, helpdesk.",
)
register(
    "turngate/Web-v1",
    "turngate.envs.web.env:WebEnv",
    description="Use pages in a real Chromium: a bundled shop, MiniWoB++, or your own site.",
)
register(
    "turngate/Router-v1",
    "turngate.envs.router.env:RouterEnv",
    description="Answer questions, and ask models of different price and skill where that helps.",
)
register(
    "turngate/Planned-v1",
    "turngate.envs.planned:PlannedEnv",
    description="Another environment, in whose episodes the agent first writes a plan: kwargs = {env = ID, stage = 3}.",
)
