"""Scored units -> C* and C: filter at tau_f, merge the tools, cap, write (paper section 2)."""

from pipeline.build.dataset import build
from pipeline.build.summary import BuildSummary, ToolCounts

__all__ = ["BuildSummary", "ToolCounts", "build"]
