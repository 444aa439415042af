"""Web text as it is published -> DOCUMENTS Parquet, with a reason for every record left out."""
