"""How much is tried by chance: the same each time, unless QUEUECTL_TEST_EXAMPLES asks for more by other chance."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings

MANY = int(os.environ.get("QUEUECTL_TEST_EXAMPLES", 0))


def budget(examples: int, **more: Any) -> settings:
    return settings(
        max_examples=MANY or examples,
        derandomize=not MANY,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        **more,
    )
