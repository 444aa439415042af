"""What the graph itself costs and bears, measured without a model: memory, overhead, scaling."""
