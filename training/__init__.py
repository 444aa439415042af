"""C* -> checkpoint: the demo world and its language model live here too (paper section 4.1)."""
