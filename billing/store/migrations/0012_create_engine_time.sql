-- blocking: no. One row per engine and minute: wall = busy + idle, rented = wall + down.
CREATE VIEW engine_time AS
SELECT
    engine, minute, wall_ns, idle_ns,
    tenants_ns + cold_ns + recompute_ns + system_ns + unattributed_ns AS busy_ns,
    tenants_ns, cold_ns, recompute_ns, system_ns, unattributed_ns, down_ns,
    wall_ns + down_ns AS rented_ns,
    gpu_type, gpu_count, steps, predicted_ns, system_causes
FROM engine_time_versions FINAL
