-- blocking: no. The lines of an invoice; their amounts sum to its net.
CREATE TABLE invoice_line_versions
(
    tenant LowCardinality(String),
    billing_month LowCardinality(String),
    kind LowCardinality(String),
    number String,
    line UInt32,
    version UInt64,
    deleted UInt8,
    item LowCardinality(String) COMMENT 't_b, t_a, t_kv, t_cold, idle, margin, input, cached_input, output, minimum, rounding',
    description String,
    quantity Decimal(38, 18),
    unit LowCardinality(String),
    unit_price Decimal(38, 18),
    exact Decimal(38, 18) COMMENT 'quantity x unit price, not rounded',
    amount Decimal(38, 18) COMMENT 'net, rounded once to the currency',
    currency LowCardinality(String)
)
ENGINE = ReplacingMergeTree(version, deleted)
ORDER BY (tenant, billing_month, kind, number, line)
