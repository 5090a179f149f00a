-- A UTC month of focus_gpu_split, of the whole bill or of what was allocated to one tenant.
SELECT * FROM focus_gpu_split
WHERE formatDateTime(ChargePeriodStart, '%Y-%m', 'UTC') = {month:String} AND ({tenant:String} = '' OR AllocatedResourceId = {tenant:String})
ORDER BY ChargePeriodStart, ResourceId, x_Owner, AllocatedResourceId
