"""``turngate tools`` prints what an agent would see."""

from typer.testing import CliRunner

from turngate.cli.main import app
from turngate.errors import ConfigError


def test_the_tools_of_a_module():
    result = CliRunner().invoke(app, ["tools", "turngate.envs.tooluse.generated.lending"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "READ  find_member NAME" in result.output
    assert "WRITE lend BOOK MEMBER" in result.output
    assert '"required": ["book", "member"]' in result.output


def test_what_is_no_world_of_tools():
    result = CliRunner().invoke(app, ["tools", "no_such_module"])
    assert isinstance(result.exception, ConfigError)
    assert "'no_such_module' cannot be imported" in str(result.exception)
