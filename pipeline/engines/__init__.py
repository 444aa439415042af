"""Language models behind one protocol: positions (P), samples (S), losses (L)."""
