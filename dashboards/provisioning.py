"""What Grafana reads at start: the two data sources, and the folder that holds the boards. Pure."""

from __future__ import annotations

from typing import Any, Final

FOLDER: Final = "loraledger"


def datasources() -> dict[str, Any]:
    """Prometheus and ClickHouse with fixed uids; addresses and the password come from Grafana's environment."""
    return {
        "apiVersion": 1,
        "datasources": [
            {
                "name": "loraledger Prometheus",
                "uid": "loraledger-prometheus",
                "type": "prometheus",
                "access": "proxy",
                "url": "$LORALEDGER_PROMETHEUS_URL",
                "editable": False,
                "jsonData": {"timeInterval": "15s", "httpMethod": "POST"},
            },
            {
                "name": "loraledger ClickHouse",
                "uid": "loraledger-clickhouse",
                "type": "grafana-clickhouse-datasource",
                "editable": False,
                "jsonData": {
                    "host": "$LORALEDGER_CLICKHOUSE_HOST",
                    "port": 8443,
                    "protocol": "http",
                    "secure": True,
                    "username": "$LORALEDGER_CLICKHOUSE_USER",
                    "defaultDatabase": "loraledger",
                    "traces": {"defaultDatabase": "loraledger", "defaultTable": "otel_traces", "otelEnabled": True},
                },
                "secureJsonData": {"password": "$LORALEDGER_CLICKHOUSE_PASSWORD"},
            },
        ],
    }


def folders(path: str = "/var/lib/grafana/dashboards/loraledger") -> dict[str, Any]:
    """One folder of boards, read from `path`; changed in the repository only."""
    return {
        "apiVersion": 1,
        "providers": [
            {
                "name": FOLDER,
                "folder": FOLDER,
                "folderUid": FOLDER,
                "type": "file",
                "disableDeletion": True,
                "allowUiUpdates": False,
                "updateIntervalSeconds": 30,
                "options": {"path": path, "foldersFromFilesStructure": False},
            }
        ],
    }
