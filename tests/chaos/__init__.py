"""Real workers, real jobs and a script of faults; in the end every job is accounted for."""

import sys
from pathlib import Path

# As under pytest: what the tests share is imported by its bare name.
sys.path.append(str(Path(__file__).resolve().parent.parent))
