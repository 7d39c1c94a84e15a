"""``python -m branchline`` is the command ``branchline``."""

from branchline.cli import main

if __name__ == "__main__":
    main()
