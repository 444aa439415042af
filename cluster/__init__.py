"""Where the workflow runs: launchers and monitoring for a cluster."""
