"""The bare program of `benchmarks`, as a process of its own so that its CPU can be told."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from benchmarks.__main__ import bare_writes

if __name__ == "__main__":
    print(json.dumps(asyncio.run(bare_writes(Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())))))
