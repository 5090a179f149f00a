-- blocking: no. One row per attempt, whoever it was said to be of before: identity is (emitter, seq). Engine times are nanoseconds of engine wall time, null where the meter had no figures.
CREATE OR REPLACE VIEW usage AS
SELECT
    tenant, emitter, seq, request_id, attempt, trace_id,
    adapter, adapter_hash, base_model, engine, gpu_type, gpu_count,
    route_policy, route_rule, route_reason,
    arrival, admitted, first_token, finished,
    status, error_type, http_status,
    input_tokens, cached_tokens, output_tokens_computed, output_tokens_delivered, preemptions, queue_ns, route_ns,
    measured, slices.start_ns, slices.base_ns, slices.adapter_ns, slices.recompute_ns, slices.kv_saved_base_ns, slices.kv_saved_adapter_ns,
    if(measured, arraySum(slices.base_ns), NULL) AS base_ns,
    if(measured, arraySum(slices.adapter_ns), NULL) AS adapter_ns,
    if(measured, arraySum(slices.recompute_ns), NULL) AS recompute_ns,
    if(measured, arraySum(slices.kv_saved_base_ns), NULL) AS kv_saved_base_ns,
    if(measured, arraySum(slices.kv_saved_adapter_ns), NULL) AS kv_saved_adapter_ns,
    if(finished IS NULL, NULL, toUnixTimestamp64Nano(assumeNotNull(finished)) - toUnixTimestamp64Nano(arrival)) AS latency_ns,
    method, profile, source, record_hash, version
FROM usage_versions FINAL
WHERE status != 'replaced'
