"""What a run found, for people: counts (stats.json) and a page (index.html)."""

from pipeline.report.html import write_report
from pipeline.report.stats import Stats, ToolStats, collect_stats

__all__ = ["Stats", "ToolStats", "collect_stats", "write_report"]
