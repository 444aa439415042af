"""What an API call is, and what answers it (paper sections 2 and 3)."""
