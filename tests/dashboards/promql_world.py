"""A small world of gateways a, b and c, as Prometheus scraped it: no two values that could be taken for one another."""

from __future__ import annotations

from typing import Final

WORLD: Final = """
up                                      1    job=other
up                                      0    instance=b
up                                      1    instance=a
process_start_time_seconds              60   instance=a
process_start_time_seconds              300  instance=b
process_start_time_seconds              6360 instance=c
lora_tenant_slo_seconds                 2    instance=a tenant=t1
lora_tenant_slo_seconds                 3    instance=b tenant=t1
lora_tenant_slo_seconds                 5    instance=a tenant=t2
lora_tenant_slo_seconds                 7    instance=a tenant=t3
lora_request_total                      +11  instance=a tenant=t1 adapter=x status=ok
lora_request_total                      +13  instance=b tenant=t1 adapter=y status=ok
lora_request_total                      +2   instance=a tenant=t1 adapter=x status=timeout
lora_request_total                      +5   instance=a tenant=t2 adapter=x status=ok
lora_request_total                      +17  instance=a tenant=t3 adapter=x status=ok
lora_request_error_total                +3   instance=a tenant=t1 adapter=x error_type=oom
lora_request_error_total                +4   instance=b tenant=t1 adapter=x error_type=oom
lora_request_error_total                +9   instance=a tenant=t2 adapter=x error_type=rejected
lora_request_error_total                +1   instance=a tenant=t3 adapter=x error_type=oom
loraledger_requests_in_flight           3    instance=a tenant=t1
loraledger_requests_in_flight           4    instance=b tenant=t1
loraledger_requests_in_flight           6    instance=a tenant=t2
loraledger_requests_in_flight           9    instance=a tenant=t3
loraledger_input_tokens_total           +710 instance=a tenant=t1 adapter=x
loraledger_input_tokens_total           +130 instance=b tenant=t1 adapter=y
loraledger_input_tokens_total           +90  instance=a tenant=t3 adapter=y
loraledger_output_tokens_total          +31  instance=a tenant=t1 adapter=x
loraledger_output_tokens_total          +37  instance=b tenant=t1 adapter=y
loraledger_output_tokens_total          +41  instance=a tenant=t3 adapter=y
loraledger_tenant_engine_seconds_total  +23  instance=a tenant=t1
loraledger_tenant_engine_seconds_total  +29  instance=b tenant=t1
loraledger_tenant_engine_seconds_total  +19  instance=a tenant=t3
kv_pool_hit_tokens_total                +30  instance=a tenant=t1
kv_pool_hit_tokens_total                +15  instance=b tenant=t1
kv_pool_hit_tokens_total                +8   instance=a tenant=t3
kv_pool_lookup_tokens_total             +100 instance=a tenant=t1
kv_pool_lookup_tokens_total             +20  instance=b tenant=t1
kv_pool_lookup_tokens_total             +16  instance=a tenant=t3
kv_pool_lookup_tokens_total             +0   instance=a tenant=t2
loraledger_engine_up                    1    instance=a engine=e1
loraledger_engine_up                    0    instance=b engine=e2
loraledger_catalog_valid                1    instance=a
loraledger_catalog_valid                0    instance=b
lora_memory_used_bytes                  100  instance=a adapter=x gpu=0
lora_memory_used_bytes                  70   instance=a adapter=x gpu=1
lora_memory_used_bytes                  0    instance=a adapter=y gpu=0
lora_memory_quota_bytes                 300  instance=a adapter=x gpu=0
lora_memory_quota_bytes                 200  instance=b adapter=x gpu=0
lora_memory_quota_bytes                 50   instance=a adapter=x gpu=1
lora_memory_utilization_ratio           0.5  instance=a gpu=0
lora_memory_utilization_ratio           0.7  instance=b gpu=1
kv_pool_used_blocks                     30   instance=a tensor_parallel_size=1
kv_pool_used_blocks                     90   instance=b tensor_parallel_size=2
kv_pool_total_blocks                    120  instance=a tensor_parallel_size=1
kv_pool_total_blocks                    100  instance=b tensor_parallel_size=2
kv_pool_hit_rate                        0.25 instance=a tenant=t1
kv_pool_hit_rate                        0.75 instance=b tenant=t1
kv_pool_hit_rate                        0.5  instance=a tenant=t3
loraledger_gpu_memory_used_bytes        10   instance=a gpu=0
loraledger_gpu_memory_used_bytes        30   instance=b gpu=0
loraledger_gpu_memory_used_bytes        5    instance=b gpu=1
loraledger_gpu_memory_total_bytes       80   instance=a gpu=0
loraledger_gpu_memory_total_bytes       80   instance=b gpu=0
loraledger_gpu_memory_total_bytes       50   instance=b gpu=1
loraledger_engine_time_seconds_total    +30  instance=a engine=e1 owner=tenants
loraledger_engine_time_seconds_total    +6   instance=b engine=e1 owner=tenants
loraledger_engine_time_seconds_total    +3   instance=a engine=e1 owner=system
loraledger_engine_time_seconds_total    +1   instance=a engine=e1 owner=unattributed
loraledger_engine_time_seconds_total    +20  instance=a engine=e1 owner=idle
loraledger_engine_time_seconds_total    +60  instance=b engine=e2 owner=idle
lora_memory_cost_per_hour               8    instance=a tenant=t1
lora_memory_cost_per_hour               9    instance=b tenant=t1
lora_memory_cost_per_hour               4    instance=a tenant=t3
loraledger_connections_open             14   instance=a
loraledger_connections_open             15   instance=b
loraledger_connections_closed_total     +2   instance=a what=idle
loraledger_connections_closed_total     +5   instance=b what=idle
loraledger_connections_closed_total     +3   instance=a what=flood
lora_warm_pool_lookup_total             +100 instance=a
lora_warm_pool_lookup_total             +50  instance=b
lora_warm_pool_lookup_total             +40  instance=c
lora_warm_pool_hit_total                +90  instance=a
lora_warm_pool_hit_total                +30  instance=b
lora_warm_pool_hit_total                +1   instance=c
lora_warm_pool_hit_rate                 0.9  instance=a
lora_warm_pool_hit_rate                 0.6  instance=b
lora_cold_start_p99_ms                  600  instance=a
lora_cold_start_p99_ms                  900  instance=b
lora_route_decision_total               +7   instance=a adapter=x reason=hit
lora_route_decision_total               +8   instance=b adapter=x reason=hit
lora_route_decision_total               +1   instance=a adapter=x reason=miss
lora_route_decision_total               +6   instance=a adapter=y reason=hit
lora_routing_cost_ms_total              +12  instance=a tenant=t1
lora_routing_cost_ms_total              +14  instance=b tenant=t1
lora_routing_cost_ms_total              +16  instance=a tenant=t3
loraledger_tenant_revenue               30   instance=a tenant=t1
loraledger_tenant_revenue               29   instance=b tenant=t1
loraledger_tenant_revenue               8    instance=a tenant=t2
loraledger_tenant_revenue               7    instance=a tenant=t3
loraledger_tenant_cost                  17   instance=a tenant=t1
loraledger_tenant_cost                  13   instance=b tenant=t1
loraledger_tenant_cost                  10   instance=a tenant=t2
loraledger_tenant_cost                  1    instance=a tenant=t3
lora_cost_per_million_tokens            44   instance=a tenant=t1
lora_cost_per_million_tokens            45   instance=b tenant=t1
lora_cost_per_million_tokens            46   instance=a tenant=t3
loraledger_tenant_budget_used_ratio     0.4  instance=a tenant=t1
loraledger_tenant_budget_used_ratio     0.3  instance=b tenant=t1
loraledger_tenant_budget_used_ratio     0.9  instance=b tenant=t3
loraledger_snapshot_age_seconds         500  instance=a
loraledger_snapshot_age_seconds         700  instance=b
loraledger_quarantine_records           3    instance=a
loraledger_quarantine_records           4    instance=b
loraledger_record_gaps                  6    instance=a
loraledger_record_gaps                  5    instance=b
loraledger_close_overdue_seconds        70   instance=a
loraledger_close_overdue_seconds        80   instance=b
loraledger_price_missing_seconds        20   instance=a
loraledger_price_missing_seconds        10   instance=b
loraledger_spool_lines_total            +60  instance=a
loraledger_spool_lines_total            +90  instance=b
loraledger_spool_errors_total           +1   instance=a
loraledger_spool_errors_total           +2   instance=b
loraledger_meter_gaps_total             +3   instance=a
loraledger_usage_unmeasured_total       +4   instance=a
loraledger_budget_written_off_total     +5   instance=a
loraledger_step_measured_seconds_total  +90  instance=a engine=e1 step_class=prefill
loraledger_step_measured_seconds_total  +30  instance=b engine=e1 step_class=prefill
loraledger_step_measured_seconds_total  +40  instance=a engine=e1 step_class=decode
loraledger_step_predicted_seconds_total +70  instance=a engine=e1 step_class=prefill
loraledger_step_predicted_seconds_total +30  instance=b engine=e1 step_class=prefill
loraledger_step_predicted_seconds_total +50  instance=a engine=e1 step_class=decode
loraledger_label_overflow_total         +1   instance=a label=tenant
loraledger_label_overflow_total         +2   instance=b label=tenant
loraledger_label_overflow_total         +4   instance=a label=adapter
"""
HISTOGRAMS: Final[tuple[tuple[str, str, dict[str, int]], ...]] = (
    ("lora_request_slo_ratio", "instance=a tenant=t1", {"0.5": 10, "1.0": 30, "1.1": 34, "1.3": 37, "2.0": 38, "+Inf": 40}),
    ("lora_request_slo_ratio", "instance=b tenant=t1", {"0.5": 4, "1.0": 8, "1.1": 8, "1.3": 9, "2.0": 10, "+Inf": 10}),
    ("lora_request_slo_ratio", "instance=a tenant=t2", {"0.5": 0, "1.0": 1, "1.1": 2, "1.3": 2, "2.0": 3, "+Inf": 3}),
    ("lora_request_slo_ratio", "instance=a tenant=t3", {"0.5": 5, "1.0": 5, "1.1": 5, "1.3": 5, "2.0": 5, "+Inf": 60}),
    ("lora_request_duration_seconds", "instance=a tenant=t1 adapter=x", {"0.1": 10, "0.5": 40, "1.0": 99, "5.0": 101, "+Inf": 101}),
    ("lora_request_duration_seconds", "instance=b tenant=t1 adapter=y", {"0.1": 2, "0.5": 4, "1.0": 5, "5.0": 7, "+Inf": 7}),
    ("lora_request_duration_seconds", "instance=a tenant=t3 adapter=x", {"0.1": 1, "0.5": 1, "1.0": 1, "5.0": 9, "+Inf": 9}),
    ("lora_cold_start_duration_ms", "instance=a adapter=x", {"500.0": 6, "1000.0": 8, "2500.0": 9, "+Inf": 9}),
    ("lora_cold_start_duration_ms", "instance=b adapter=y", {"500.0": 1, "1000.0": 2, "2500.0": 4, "+Inf": 4}),
    ("lora_cold_start_duration_ms", "instance=b adapter=x", {"500.0": 1, "1000.0": 3, "2500.0": 3, "+Inf": 3}),
    ("gen_ai_server_time_to_first_token_seconds", "instance=a gen_ai_operation_name=chat", {"0.08": 50, "0.16": 97, "0.32": 99, "+Inf": 99}),
    ("gen_ai_server_time_to_first_token_seconds", "instance=b gen_ai_operation_name=text_completion", {"0.08": 1, "0.16": 2, "0.32": 4, "+Inf": 4}),
    ("gen_ai_server_request_duration_seconds", "instance=a gen_ai_operation_name=chat", {"1.28": 60, "2.56": 90, "5.12": 95, "+Inf": 95}),
    ("gen_ai_server_request_duration_seconds", "instance=b gen_ai_operation_name=chat", {"1.28": 1, "2.56": 3, "5.12": 5, "+Inf": 5}),
)  # fmt: skip
"""Observations per minute up to each bound."""
