"""Plain text -> scored API calls -> C*: sampling, execution, filtering (paper section 2)."""
