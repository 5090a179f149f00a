"""What Grafana reads at start: the two data sources, and the folder that holds the boards. Pure."""

from __future__ import annotations

from typing import Any, Final

FOLDER: Final = "loraledger"
BOARDS_PATH: Final = "/var/lib/grafana/dashboards/loraledger"


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


def folders() -> dict[str, Any]:
    """One folder of boards, read from `BOARDS_PATH`; Grafana does not let anybody edit or delete them."""
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
                "options": {"path": BOARDS_PATH, "foldersFromFilesStructure": False},
            }
        ],
    }
