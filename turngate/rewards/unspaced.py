"""Scripts that put no spaces between words: Chinese, Japanese, Thai, Lao, Khmer, Burmese.

Their words cannot be told without a dictionary, so letters stand in for them, and in searches pairs of neighbours too,
as in Lucene's CJK analysis.
"""

import re
import unicodedata

UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U000323af]+"
)
"""A run of letters of such scripts."""


def letters(run: str) -> list[str]:
    """The letters of a run, without marks above and below them."""
    return [one for one in run if unicodedata.category(one)[0] in "LN"]


def spaced(text: str) -> str:
    """``text`` with spaces between the letters of such scripts."""
    return text if text.isascii() else UNSPACED.sub(lambda run: f" {' '.join(letters(run[0]))} ", text).strip()
