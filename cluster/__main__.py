"""`python -m cluster`: bring a run to a cluster, and watch it there."""

from cluster.cli import main

if __name__ == "__main__":
    main()
