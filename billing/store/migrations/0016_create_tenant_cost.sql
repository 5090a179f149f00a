-- blocking: no. T_B + T_A - T_kv + T_cold is what was measured, in nanoseconds of engine wall time; cost = gpu_hours x price, exactly.
CREATE VIEW tenant_cost AS
SELECT
    tenant, quarter, adapter, engine, status, billing_month,
    base_ns, adapter_ns, cold_ns, kv_saved_base_ns, kv_saved_adapter_ns,
    base_ns + kv_saved_base_ns AS t_b_ns,
    adapter_ns + kv_saved_adapter_ns AS t_a_ns,
    kv_saved_base_ns + kv_saved_adapter_ns AS t_kv_ns,
    cold_ns AS t_cold_ns,
    base_ns + adapter_ns + cold_ns AS measured_ns,
    requests, input_tokens, cached_tokens, output_tokens, unmeasured,
    gpu_type, gpu_count, base_gpu_hours, adapter_gpu_hours, cold_gpu_hours,
    base_gpu_hours + adapter_gpu_hours + cold_gpu_hours AS gpu_hours, price, cost, charged_to, revenue, currency
FROM tenant_cost_versions FINAL
