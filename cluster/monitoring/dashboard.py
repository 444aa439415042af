"""The dashboard as Grafana reads it."""

import string
from collections.abc import Iterator, Sequence
from typing import Any

from cluster.monitoring import rows_of_actors, rows_of_runs
from cluster.monitoring.panels import Kind, Panel, Row
from pipeline.metrics import UNITS_PLANNED

UID = "toolformer"
_SCHEMA = 41  # of Grafana 11.6 and 12; later ones convert it
_WIDTH, _HEIGHT = 24, 8  # of the grid, and of a panel
_WINDOWS = ("1m", "5m", "15m", "1h")
# Of a unit that is committed every minute or two, a rate needs some minutes.
_WINDOW = "5m"
_DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}

_OPTIONS: dict[Kind, dict[str, Any]] = {
    Kind.NUMBER: {
        "colorMode": "value",
        "graphMode": "area",
        "justifyMode": "auto",
        "orientation": "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": "auto",
    },
    Kind.LINES: {
        "legend": {
            "calcs": ["lastNotNull"],
            "displayMode": "list",
            "placement": "bottom",
            "showLegend": True,
        },
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    Kind.HEATMAP: {
        "calculate": False,  # the series are the rows already
        "cellGap": 1,
        "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64},
        "filterValues": {"le": 1e-9},
        "legend": {"show": True},
        "rowsFrame": {"layout": "le"},
        "tooltip": {"mode": "single", "yHistogram": True},
        "yAxis": {"axisPlacement": "left", "unit": "suffix: nats"},
    },
}


def dashboard(rows: Sequence[Row] = (*rows_of_runs.ROWS, *rows_of_actors.ROWS)) -> dict[str, Any]:
    """The JSON of the dashboard: of whichever session of Ray and data source the reader chooses."""
    return {
        "annotations": {"list": []},
        "editable": True,
        "graphTooltip": 1,  # one crosshair for all panels
        "panels": list(_placed(rows)),
        "refresh": "10s",
        "schemaVersion": _SCHEMA,
        "tags": ["ray", "toolformer"],
        "templating": {"list": _variables()},
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "title": "Toolformer",
        "uid": UID,
    }


def _placed(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Each row's heading and its panels, from left to right and from top to bottom."""
    number, y = 1, 0
    for row in rows:
        place = {"h": 1, "w": _WIDTH, "x": 0, "y": y}
        yield {
            "collapsed": False, "gridPos": place, "id": number, "panels": [], "title": row.title,
            "type": "row",
        }  # fmt: skip
        number, x, y = number + 1, 0, y + 1
        for panel in row.panels:
            if x + panel.width > _WIDTH:
                x, y = 0, y + _HEIGHT
            place = {"h": _HEIGHT, "w": panel.width, "x": x, "y": y}
            yield _panel(panel) | {"gridPos": place, "id": number}
            number, x = number + 1, x + panel.width
        y += _HEIGHT


def _panel(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit}
    if panel.kind is Kind.LINES:
        defaults["custom"] = {"fillOpacity": 10, "showPoints": "auto"}
    return {
        "datasource": _DATA_SOURCE,
        "description": panel.description,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": _OPTIONS[panel.kind],
        "targets": [
            {
                "datasource": _DATA_SOURCE,
                "expr": query.expr,
                "format": "heatmap" if panel.kind is Kind.HEATMAP else "time_series",
                "legendFormat": query.legend,
                "range": True,
                "refId": letter,
            }
            for letter, query in zip(string.ascii_uppercase, panel.queries, strict=False)
        ],
        "title": panel.title,
        "type": str(panel.kind),
    }


def _variables() -> list[dict[str, Any]]:
    """Ray's dashboard names the first two when it shows this one: see metrics_head.py of Ray."""
    sessions = f"label_values(ray_{UNITS_PLANNED}, SessionName)"
    return [
        {
            "hide": 2,  # not shown
            "includeAll": False,
            "multi": False,
            "name": "datasource",
            "query": "prometheus",
            "refresh": 1,
            "type": "datasource",
        },
        {
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
            "datasource": _DATA_SOURCE,
            "description": "A Ray that was started for a run, or on a cluster for many.",
            "includeAll": True,
            "label": "Ray session",
            "multi": False,
            "name": "SessionName",
            "query": {"query": sessions, "refId": "SessionName"},
            "refresh": 2,  # with the range of time
            "sort": 2,
            "type": "query",
        },
        {
            "current": {"text": _WINDOW, "value": _WINDOW},
            "description": "How long rates look back.",
            "label": "Window",
            "name": "window",
            "options": [
                {"selected": window == _WINDOW, "text": window, "value": window}
                for window in _WINDOWS
            ],
            "query": ",".join(_WINDOWS),
            "type": "custom",
        },
    ]
