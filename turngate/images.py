"""The format of an image, told by its first bytes."""

from __future__ import annotations

_STARTS = ((b"\x89PNG\r\n\x1a\n", "png"), (b"\xff\xd8\xff", "jpeg"), (b"GIF87a", "gif"), (b"GIF89a", "gif"))


def image_format(image: bytes) -> str:
    """``png``, ``jpeg``, ``gif`` or ``webp``, as its media type ends; an empty text for anything else."""
    if image[:4] == b"RIFF" and image[8:12] == b"WEBP":
        return "webp"
    return next((name for start, name in _STARTS if image.startswith(start)), "")
