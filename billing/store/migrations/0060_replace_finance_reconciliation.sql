-- blocking: no. Per engine and hour: the owners against rented time x GPUs, in nanoseconds and in money. Both differences are 0, or the ledger is wrong. Of an
-- hour with a change of hardware, `gpu_type` and `gpu_count` are the first, sums are of all.
CREATE OR REPLACE VIEW finance_reconciliation AS
SELECT
    time.engine AS engine, time.hour AS hour, time.gpu_type AS gpu_type, time.gpu_count AS gpu_count,
    time.tenants_ns AS tenants_ns, time.cold_ns AS cold_ns, time.recompute_ns AS recompute_ns, time.system_ns AS system_ns,
    time.idle_ns AS idle_ns, time.unattributed_ns AS unattributed_ns, time.down_ns AS down_ns, time.rented_ns AS rented_ns,
    time.rented_gpu_ns AS rented_gpu_ns,
    time.rented_ns - (time.tenants_ns + time.cold_ns + time.recompute_ns + time.system_ns + time.idle_ns + time.unattributed_ns + time.down_ns) AS missing_ns,
    cost.tenants_cost AS tenants_cost, cost.cold_cost AS cold_cost, cost.provider_cost AS provider_cost, cost.total_cost AS rented_cost,
    attributed.cost AS attributed_cost,
    cost.tenants_cost + cost.cold_cost - attributed.cost AS missing_cost,
    cost.currency AS currency
FROM
(
    SELECT
        engine, toStartOfHour(minute) AS hour, argMin(engine_time.gpu_type, minute) AS gpu_type, argMin(engine_time.gpu_count, minute) AS gpu_count,
        sum(engine_time.rented_ns * engine_time.gpu_count) AS rented_gpu_ns,
        sum(tenants_ns) AS tenants_ns, sum(cold_ns) AS cold_ns, sum(recompute_ns) AS recompute_ns, sum(system_ns) AS system_ns,
        sum(idle_ns) AS idle_ns, sum(unattributed_ns) AS unattributed_ns, sum(down_ns) AS down_ns, sum(rented_ns) AS rented_ns
    FROM engine_time
    GROUP BY engine, hour
) AS time
LEFT JOIN
(
    SELECT
        engine, toStartOfHour(engine_cost.hour) AS hour, any(currency) AS currency, sumIf(cost, owner = 'tenants') AS tenants_cost, sumIf(cost, owner = 'cold') AS cold_cost,
        sumIf(cost, owner NOT IN ('tenants', 'cold')) AS provider_cost, sum(cost) AS total_cost
    FROM engine_cost
    GROUP BY engine, hour
) AS cost ON cost.engine = time.engine AND cost.hour = time.hour
LEFT JOIN
(
    SELECT engine, toStartOfHour(quarter) AS hour, sum(cost) AS cost
    FROM tenant_cost
    GROUP BY engine, hour
) AS attributed ON attributed.engine = time.engine AND attributed.hour = time.hour
