"""All shapes of question, from one table with a filter (level 1) to queries inside queries (level 4)."""

from turngate.envs.sql.generated.questions import Shape
from turngate.envs.sql.generated.shapes_filter import LEVEL_1
from turngate.envs.sql.generated.shapes_group import LEVEL_2
from turngate.envs.sql.generated.shapes_join import LEVEL_3
from turngate.envs.sql.generated.shapes_nest import LEVEL_4

SHAPES: dict[str, Shape] = {
    shape.name: shape for catalogue in (LEVEL_1, LEVEL_2, LEVEL_3, LEVEL_4) for shape in catalogue.shapes
}
