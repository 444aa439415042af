"""What a run found, for people: counts (stats.json) and a page (index.html)."""

from pipeline.report.html import write_report
from pipeline.report.stats import Stats, collect_stats
from pipeline.report.survey import Survey, survey
from pipeline.report.tool_stats import ToolStats

__all__ = ["Stats", "Survey", "ToolStats", "collect_stats", "survey", "write_report"]
