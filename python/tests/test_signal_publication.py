"""Processes that write, publish, read and annotate at once, killed and not: one small round of scripts/soak_signal.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from signal_cases import needs_reference

SOAK = Path(__file__).parents[2] / "scripts" / "soak_signal.py"


@needs_reference
def test_a_round(tmp_path: Path) -> None:
    root = tmp_path / "root"
    done = subprocess.run([sys.executable, SOAK, "1", "--workers", "3", "--root", str(root)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok: 1 rounds of 3 workers" in done.stdout and not list(root.iterdir())
