"""How far a run is, from its done-marks alone: works beside a running run, and after it."""

from pipeline.status.view import status_table
from pipeline.status.watch import watch

__all__ = ["status_table", "watch"]
