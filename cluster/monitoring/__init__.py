"""Prometheus and Grafana beside a run: their configuration, and a dashboard of what it does."""
