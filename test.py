"""Run all tests on any machine: `python test.py [arguments of pytest]`.

If the test requirements are missing, they are installed into a virtual environment of their own, .venv-test.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv-test"
REQUIREMENTS = [ROOT / "requirements.txt", ROOT / "tests" / "requirements.txt"]
# Most tests spend their time waiting for processes, so more of them run at once than there may be cores.
ALL = ["tests", "-n", "4", "--dist", "loadfile"]


def main() -> int:
    python = sys.executable if all(map(is_installed, required())) else own_python()
    arguments = sys.argv[1:] or ALL
    return subprocess.call([python, "-m", "pytest", *arguments], cwd=ROOT)


def required() -> list[str]:
    """The packages that the tests need on this platform."""
    lines = [line for path in REQUIREMENTS for line in path.read_text().splitlines()]
    needed = [line for line in lines if f'sys_platform {"!=" if os.name == "nt" else "=="} "win32"' not in line]
    return [re.split(r"[<>=;\[]", line)[0] for line in needed]


def is_installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


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
