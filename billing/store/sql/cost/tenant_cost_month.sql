-- A tenant's rows of one billing month, in the order of the invoice.
SELECT
    tenant, toUnixTimestamp64Milli(quarter) * 1000000 AS quarter_ns, adapter, engine, status, base_ns, adapter_ns, cold_ns,
    kv_saved_base_ns, kv_saved_adapter_ns, requests, input_tokens, cached_tokens, output_tokens,
    gpu_type, gpu_count, base_gpu_hours, adapter_gpu_hours, cold_gpu_hours, price
FROM tenant_cost
WHERE tenant = {tenant:String} AND quarter >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND quarter < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
ORDER BY quarter, adapter, engine, status
