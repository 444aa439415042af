"""`python -m pipeline`: what a user can do, one command each."""

from pipeline.cli import main

if __name__ == "__main__":
    main()
