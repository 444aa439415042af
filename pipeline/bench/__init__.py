"""The benchmark: work counted, speed against a naive path, and shares of the hardware's limits."""
