"""Plain text -> scored API calls -> C*: sampling, execution, filtering (paper section 2)."""

import os

# Ray Data's backpressure counts bytes and text has few: a fast stage would run through the
# corpus ahead of a slow one. Ray reads this once, when ray.data is imported.
os.environ.setdefault("RAY_DATA_DOWNSTREAM_CAPACITY_OBJECT_STORE_BUDGET_UTIL_THRESHOLD", "0")
