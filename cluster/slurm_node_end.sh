#!/bin/bash
# What Slurm runs on a node when what a step did there has ended, also where it was killed: no file
# of Ray's stays. Slurm gives it five seconds, and kills it then.
for _ in {1..20}; do
  rm -rf "${NODE_DIRECTORY:?}" "$NODE_DIRECTORY.json" 2>/dev/null
  [ -e "$NODE_DIRECTORY" ] || break
  sleep 0.2  # a worker that ends after its node still writes
done
