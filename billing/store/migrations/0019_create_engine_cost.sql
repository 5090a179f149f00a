-- blocking: no.
CREATE VIEW engine_cost AS
SELECT engine, hour, owner, gpu_type, gpu_count, ns, gpu_hours, price, cost, currency
FROM engine_cost_versions FINAL
