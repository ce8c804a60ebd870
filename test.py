"""Run all tests on any machine: `python test.py [what pytest takes]`.

Where the test requirements are missing, they are installed into a virtual environment of their own, .venv-test.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv-test"
REQUIREMENTS = [ROOT / "requirements.txt", ROOT / "tests" / "requirements.txt"]
MODULES = [
    "click",
    "tabulate",
    "psutil",
    "cronsim",
    "tzlocal",
    "flask",
    "waitress",
    "prometheus_client",
    "pytest",
    "xdist",
    "hypothesis",
    "psycopg",
    *([] if os.name == "nt" else ["schemathesis", "playwright", "axe_playwright_python"]),
]
# Most tests wait for processes more than they compute, so more run at once than there are cores.
ALL = ["tests", "-n", "4", "--dist", "loadfile"]


def main() -> int:
    python = sys.executable if all(map(importlib.util.find_spec, MODULES)) else own_python()
    arguments = sys.argv[1:] or ALL
    return subprocess.call([python, "-m", "pytest", *arguments], cwd=ROOT)


def own_python() -> str:
    python = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = VENV / "installed"
    wanted = "".join(path.read_text() for path in REQUIREMENTS)
    if not stamp.exists() or stamp.read_text() != wanted:
        print("Installing what the tests need into .venv-test …", flush=True)
        subprocess.check_call([sys.executable, "-m", "venv", "--clear", str(VENV)])
        files = [part for path in REQUIREMENTS for part in ("-r", str(path))]
        subprocess.check_call([str(python), "-m", "pip", "install", "--quiet", *files])
        stamp.write_text(wanted)
    return str(python)


if __name__ == "__main__":
    sys.exit(main())
