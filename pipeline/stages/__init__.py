"""The stages of the Ray Data graph: conform in, one pure call, conform out."""
