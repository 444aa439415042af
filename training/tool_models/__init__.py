"""Tiny models behind the demo's QA and MT tools, trained on the invented world."""
