"""Edits of a watch, event by event."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.fault.rules import Edit


async def edited(lines: AsyncIterator[bytes], edits: tuple[Edit, ...]) -> AsyncIterator[bytes | None]:
    """What is sent instead of these lines; None breaks the connection."""
    at = {edit.after: edit for edit in edits if not edit.on}
    typed = {edit.on: edit for edit in edits if edit.on}
    if (first := at.get(0)) is not None and first.edit in ("error", "close", "stall"):
        # At the very start: an idle watch may not have a first event for a minute.
        async for piece in _instead(first, b""):
            yield piece
        return
    number = 0
    async for line in lines:
        edit = at.get(number, at.get(-1)) or next(
            (edit for on, edit in typed.items() if f'"{on}"' in line[:40].decode()), None
        )
        number += 1
        if edit is None:
            yield line
        elif edit.edit == "hold":
            await asyncio.sleep(edit.seconds)
            yield line
        elif edit.edit == "repeat":
            yield line
            yield line
        else:
            async for piece in _instead(edit, line):
                yield piece
            return


async def _instead(edit: Edit, line: bytes) -> AsyncIterator[bytes | None]:
    """The end of a watch, in place of an event."""
    if edit.edit == "cut":
        yield line[: len(line) // 2]
        yield None
    elif edit.edit == "garbage":
        yield b"\x1f\x8b\x08 no JSON \xff\n"
        yield None
    elif edit.edit == "error":
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": edit.code, "reason": _reason(edit.code), "message": "a fault by rule", "metadata": {}}  # fmt: skip
        yield json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
    elif edit.edit == "stall":
        await asyncio.sleep(edit.seconds)
        yield None


def _reason(code: int) -> str:
    return {410: "Expired", 500: "InternalError", 504: "Timeout"}.get(code, "Unknown")
