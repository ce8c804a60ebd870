"""queuectl from a checkout: `python queuectl.py …` is `queuectl …`."""

from queuectl.cli import main

if __name__ == "__main__":
    main()
