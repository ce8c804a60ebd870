"""How much is tried by chance: the same each time, unless QUEUECTL_TEST_EXAMPLES asks for more by other chance."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings

MANY = int(os.environ.get("QUEUECTL_TEST_EXAMPLES", 0))


def budget(examples: int, part: int = 1, **more: Any) -> settings:
    """Where each example is expensive, only a part of as many as are asked for: one in so many."""
    return settings(
        max_examples=-(-MANY // part) or examples,
        derandomize=not MANY,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        **more,
    )
