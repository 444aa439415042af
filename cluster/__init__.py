"""Where a run happens: on this machine, under Slurm, on Kubernetes, in a cloud, and watched."""
