"""`python -m tools`: the commands of tools/cli.py."""

from tools.cli import main

if __name__ == "__main__":
    main()
