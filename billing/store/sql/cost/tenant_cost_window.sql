-- Cost rows of a window, as they are now: of one tenant or (empty) of all, in the order of the invoice.
SELECT
    tenant, quarter, adapter, engine, status, billing_month, base_ns, adapter_ns, cold_ns, kv_saved_base_ns, kv_saved_adapter_ns,
    requests, input_tokens, cached_tokens, output_tokens, unmeasured, gpu_type, gpu_count, base_gpu_hours, adapter_gpu_hours, cold_gpu_hours,
    price, cost, charged_to, revenue, currency
FROM tenant_cost
WHERE quarter >= fromUnixTimestamp64Nano({start_ns:Int64}, 'UTC') AND quarter < fromUnixTimestamp64Nano({end_ns:Int64}, 'UTC')
    AND ({tenant:String} = '' OR tenant = {tenant:String})
ORDER BY tenant, quarter, adapter, engine, status
