"""The power fails at any moment: what was acknowledged is there afterwards, and the rest runs again."""

import sys
from pathlib import Path

# As under pytest: what the tests share is imported by its bare name.
sys.path.append(str(Path(__file__).resolve().parent.parent))
