"""Benchmarks of queuectl, as ratios whose sides are measured alternately in one run: `python -m benchmarks`."""
