"""How fast queuectl is, as ratios measured side by side in one run: `python -m benchmarks`."""
